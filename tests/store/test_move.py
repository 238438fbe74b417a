"""Tests of the move of an earlier version's tables out of `public`: whole or not at all, and seen by old programs."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import psycopg
import pytest

from ikigai.core.errors import BadDatabase, NewerSchema, Rejected, StoreError
from ikigai.store import dump
from ikigai.store.connection import DatabaseSession
from ikigai.store.database import Database
from ikigai.store.driver_connection import Connection
from ikigai.store.embedded.server import find_binaries
from ikigai.store.sql import dump as dump_queries
from ikigai.store.sql import move
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk
from tests.store.test_dump import TABLES
from tests.store.test_schema import NEWEST, SCHEMA, description, tables
from tests.support.older_schema import apply_migrations

BEFORE = 11
"""The version of the schema of the last program that kept its tables in `public`."""
IN_PUBLIC = "select relkind, relname from pg_class where relnamespace = 'public'::regnamespace order by 2"
FUNCTIONS_IN_PUBLIC = "select proname from pg_proc where pronamespace = 'public'::regnamespace"
TABLES_MOVED = "select relkind, relname from pg_class where relnamespace = to_regnamespace('ikigai') order by 2"
PROGRAMS = "select from pg_stat_activity where application_name like 'ikigai/%' and datname = current_database()"

# For each number that it reads it forks a process, which migrates and dies before the statement with this number, and
# prints how that ended. The libraries are imported once: they take ten times as long as a migration.
PROGRAM = """
import asyncio, os, sys
from pathlib import Path
import psycopg
from ikigai.store.driver_connection import Connection
from ikigai.store.database import Database
dsn, migrations = sys.argv[1], Path(sys.argv[2])
execute = Connection.execute
async def counted(self, query, *args, **kwargs):
    global left
    if left == 0:
        os.kill(os.getpid(), 9)
    left -= 1
    return await execute(self, query, *args, **kwargs)
Connection.execute = counted
for line in sys.stdin:
    if pid := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    else:
        left = int(line)
        asyncio.run(Database.open(dsn, migrations))
        os._exit(0)
"""


def earlier(dsn: str, version: int = BEFORE, search_path: str = "public") -> None:
    """Make what a program of that version made, and a conversation in it."""
    with psycopg.connect(dsn) as other:
        other.execute("select set_config('search_path', %s, false)", (search_path,))
        apply_migrations(other, version)
        other.execute(
            "insert into agents (id, name, directory) select gen_random_uuid(), 'agent-' || n, '/d' || n % 2"
            " from generate_series(1, 3) n"
        )
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content, data)"
            " select gen_random_uuid(), id, n, 'user', 'words ' || n, '{}' from agents, generate_series(1, 5) n"
        )
        other.execute("insert into drafts (agent_id, asked_by, text) select id, 1, 'so far' from agents limit 1")
        if version > BEFORE:
            other.execute(dump_queries.CLAIM_AGENTS)


def rows(dsn: str, search_path: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what the earlier program stored, in the columns that it had."""
    with psycopg.connect(address(dsn, options=f"-c search_path={search_path}")) as other:
        return {name: other.execute(query.encode()).fetchall() for name, query in TABLES.items()}


def is_moved(dsn: str) -> bool:
    """Return True in the new state, False in the old one. Fail in any other."""
    with psycopg.connect(dsn) as other:
        found = other.execute(IN_PUBLIC).fetchall()
        if found == [("v", "ikigai_migrations")]:
            assert other.execute(FUNCTIONS_IN_PUBLIC).fetchall() == []
            return True
        assert other.execute("select max(version) from public.ikigai_migrations").fetchall() == [(BEFORE,)]
        assert other.execute("select from pg_namespace where nspname = 'ikigai'").fetchall() == []
        assert len(other.execute(FUNCTIONS_IN_PUBLIC).fetchall()) == 7
        return False


@pytest.mark.parametrize("version", [BEFORE, NEWEST])
async def test_tables_move_out_of_public(empty_dsn: str, version: int) -> None:
    """The schema is the one that a new database gets, the rows are the same, and it goes on."""
    earlier(empty_dsn, version)
    before = rows(empty_dsn, "public")
    with pytest.raises(BadDatabase, match="left its tables in the schema public") as refused:
        await Database.open(empty_dsn, MIGRATIONS, write=False)
    assert "ikigai db migrate" in refused.value.remedy and rows(empty_dsn, "public") == before
    for _ in range(2):
        database = await Database.open(empty_dsn, MIGRATIONS)
        assert database.schema_version == NEWEST and is_moved(empty_dsn)
        await database.close()
    assert rows(empty_dsn, "ikigai") == before and description(empty_dsn) == SCHEMA.read_text()
    database = await Database.open(empty_dsn, MIGRATIONS)
    talk = await Talk.open(database, await database.agents.last_or_new("/elsewhere"))
    assert talk.agent.name.startswith("agent-")
    await talk.turn()
    await database.close()
    with psycopg.connect(tables(empty_dsn)) as other, pytest.raises(psycopg.errors.RestrictViolation):
        other.execute("delete from messages")


@pytest.mark.ordinary("1")
@pytest.mark.parametrize("version", [1, 3, 5, 6])
async def test_tables_of_any_version_move(empty_dsn: str, version: int) -> None:
    """Tables that a version did not have yet stay, though they may be called the same."""
    with psycopg.connect(empty_dsn) as other:
        apply_migrations(other, version)
        other.execute("create table agent_uses (mine int)")
        if version < 6:
            other.execute("create table search_pieces (mine int)")
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    assert description(empty_dsn) == SCHEMA.read_text()
    with psycopg.connect(empty_dsn) as other:
        found = [name for _, name in other.execute(IN_PUBLIC).fetchall()]
    assert found == ["agent_uses", "ikigai_migrations", *(["search_pieces"] if version < 6 else [])]


async def test_ten_programs_move_the_tables_at_once(empty_dsn: str) -> None:
    earlier(empty_dsn)
    before = rows(empty_dsn, "public")
    databases = await asyncio.gather(*(Database.open(empty_dsn, MIGRATIONS) for _ in range(10)))
    for database in databases:
        assert database.schema_version == NEWEST and len(await database.agents.all()) == 3
        await database.close()
    assert is_moved(empty_dsn) and rows(empty_dsn, "ikigai") == before


async def test_other_programs_see_the_old_state_before_any_step_or_the_new(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They see before a statement what a program leaves that is killed there. Looks at the catalog wait for no lock."""
    earlier(empty_dsn)
    execute, seen = Connection.execute, list[list[object]]()
    with psycopg.connect(empty_dsn, autocommit=True) as other:

        def look() -> list[object]:
            return [other.execute(query).fetchall() for query in (IN_PUBLIC, FUNCTIONS_IN_PUBLIC, TABLES_MOVED)]

        async def watched(self: Connection, *args: object, **kwargs: object) -> object:
            seen.append(look())
            return await execute(self, *args, **kwargs)  # pyright: ignore[reportArgumentType]

        old = look()
        monkeypatch.setattr(Connection, "execute", watched)
        await (await Database.open(empty_dsn, MIGRATIONS)).close()
        new = look()
    assert is_moved(empty_dsn) and old != new
    assert [state for state in seen if state not in (old, new)] == []
    assert seen.count(old) > len(move.MOVES) + 8, "before each statement of the move"


@pytest.mark.parametrize("apart", [12, pytest.param(1, marks=pytest.mark.long)])
async def test_program_that_is_killed_at_any_step_leaves_the_old_state_or_the_new(empty_dsn: str, apart: int) -> None:
    earlier(empty_dsn)
    before, ended, step = rows(empty_dsn, "public"), -9, 0
    program = [sys.executable, "-c", PROGRAM, empty_dsn, str(MIGRATIONS)]
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE)
    assert process.stdin and process.stdout
    try:
        while ended == -9:
            process.stdin.write(f"{step}\n".encode())
            ended = int(await process.stdout.readline())
            moved = await _settled(empty_dsn)
            assert rows(empty_dsn, "ikigai" if moved else "public") == before, step
            if moved and ended:  # it died behind the commit
                await (await Database.open(empty_dsn, MIGRATIONS)).close()
            step += apart
    finally:
        process.stdin.close()
        await process.wait()
    assert (ended, moved) == (0, True)
    assert step > len(move.MOVES) + 8, "each statement of the move was reached"
    assert description(empty_dsn) == SCHEMA.read_text()


async def _settled(dsn: str) -> bool:
    """Return the state once the server has noticed that the program is gone."""
    with psycopg.connect(dsn, autocommit=True) as other:
        while other.execute(PROGRAMS).rowcount:
            await asyncio.sleep(0.01)
    return is_moved(dsn)


@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=pytest.mark.long)])
async def test_connection_that_is_cut_at_any_step_leaves_the_old_state_or_the_new(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    earlier(empty_dsn)
    before = rows(empty_dsn, "public")
    execute, left = Connection.execute, 0

    async def cut(self: Connection, *args: object, **kwargs: object) -> object:
        nonlocal left
        left -= 1
        if left == -1:
            with psycopg.connect(empty_dsn, autocommit=True) as killer:
                killer.execute("select pg_terminate_backend(%s, 5000)", (self.info.backend_pid,))
        return await execute(self, *args, **kwargs)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Connection, "execute", cut)
    for step in range(0, len(move.MOVES) + 8, apart):
        left = step
        with pytest.raises(StoreError):
            await Database.open(empty_dsn, MIGRATIONS)
        assert not is_moved(empty_dsn) and rows(empty_dsn, "public") == before, step
    monkeypatch.undo()
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    assert is_moved(empty_dsn) and rows(empty_dsn, "ikigai") == before


async def test_earlier_program_refuses_a_moved_database(empty_dsn: str, tmp_path: Path) -> None:
    """It reads the version from `public`, as all of them did, and finds one that it does not know."""
    earlier(empty_dsn)
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    for role in ("", "create role earlier_reader login"):
        with psycopg.connect(empty_dsn) as other:
            if role:
                other.execute(role.encode())
                other.execute("set role earlier_reader")
            ((version,),) = other.execute("select max(version) from ikigai_migrations").fetchall()
            assert version > BEFORE
            other.rollback()
    # This program takes `public` for its schema as earlier ones did, and is told where the tables are.
    with pytest.raises(BadDatabase, match="have moved from the schema public to ikigai") as refused:
        await Database.open(empty_dsn, MIGRATIONS, name="public")
    assert "Set schema to ikigai" in refused.value.remedy
    with pytest.raises(BadDatabase, match="have moved"):
        await dump.dump(empty_dsn, find_binaries(), tmp_path / "d", schema_name="public")


async def test_tables_stay_in_public_where_that_is_chosen(empty_dsn: str) -> None:
    earlier(empty_dsn)
    before = rows(empty_dsn, "public")
    for _ in range(2):
        await (await Database.open(empty_dsn, MIGRATIONS, name="public")).close()
    assert rows(empty_dsn, "public") == before
    with psycopg.connect(empty_dsn) as other:
        assert not other.execute("select from pg_namespace where nspname = 'ikigai'").rowcount
    other_one = await Database.open(empty_dsn, MIGRATIONS, name="other")
    assert await other_one.agents.all() == [] and rows(empty_dsn, "public") == before, "nor do they go anywhere else"
    await other_one.close()


async def test_search_path_that_led_elsewhere_is_not_guessed_at(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as other:
        other.execute("create schema mine")
    earlier(empty_dsn, search_path="mine")
    dsn = address(empty_dsn, options="-c search_path=mine")
    with pytest.raises(BadDatabase, match="finds tables of ikigai in the schema mine") as refused:
        await Database.open(dsn, MIGRATIONS)
    assert 'schema = "mine"' in refused.value.remedy
    database = await Database.open(dsn, MIGRATIONS, name="mine")
    assert len(await database.agents.all()) == 3
    await database.close()


async def test_who_does_not_own_the_tables_cannot_move_them(empty_dsn: str, empty_role: str) -> None:
    earlier(empty_dsn)
    before = rows(empty_dsn, "public")
    user = psycopg.conninfo.conninfo_to_dict(empty_role)["user"]
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(f"grant create on database {owner.info.dbname} to {user}".encode())
        owner.execute(f"grant select, insert, update, delete on all tables in schema public to {user}".encode())
    with pytest.raises(BadDatabase, match="does not own them") as refused:
        await Database.open(empty_role, MIGRATIONS)
    assert "ikigai db migrate" in refused.value.remedy and 'schema = "public"' in refused.value.remedy
    assert not is_moved(empty_dsn) and rows(empty_dsn, "public") == before
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    owner = await Database.open(empty_dsn, MIGRATIONS)
    await owner.sharing.share(await owner.agents.find("agent-1"), str(user), "write")
    await owner.close()
    database = await Database.open(empty_role, MIGRATIONS)  # it has agents of its own, and what is shared with it
    assert [each.name for each in await database.agents.all(everyone=True)] == ["agent-1"]
    for agent in (await database.agents.find("agent-1"), mine := await database.agents.create("mine")):
        talk = await Talk.open(database, agent)
        await talk.turn()
    assert await database.agents.last() == await database.agents.get(mine.id)
    await database.close()


async def test_tables_of_a_newer_program_are_not_moved(empty_dsn: str) -> None:
    earlier(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        other.execute("insert into ikigai_migrations (version, name) values (99, 'later')")
        with pytest.raises(NewerSchema, match="has schema 99, and this ikigai knows"):
            await Database.open(empty_dsn, MIGRATIONS)
        assert not other.execute("select from pg_namespace where nspname = 'ikigai'").rowcount


async def test_dump_of_earlier_tables_is_restored(dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    """It is made without moving them, and is not restored beside tables that are still in `public`."""
    earlier(empty_dsn)
    before = rows(empty_dsn, "public")
    await dump.dump(empty_dsn, find_binaries(), tmp_path / "d")
    assert not is_moved(empty_dsn)
    with psycopg.connect(dsn) as other:  # tables of this version have more columns than the dump
        other.execute("drop schema ikigai cascade")
    assert await dump.restore(dsn, find_binaries(), tmp_path / "d", MIGRATIONS) == 15
    assert rows(dsn, "ikigai") == before
    with pytest.raises(Rejected, match="holds agents already"):
        await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert not is_moved(empty_dsn) and rows(empty_dsn, "public") == before


async def test_views_of_others_go_on(empty_dsn: str) -> None:
    earlier(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        other.execute("create view mine as select count(*) from messages")
        await (await Database.open(empty_dsn, MIGRATIONS)).close()
        assert other.execute("select * from mine").fetchall() == [(15,)]


async def test_session_that_does_not_migrate_changes_nothing(empty_dsn: str) -> None:
    earlier(empty_dsn)
    session = DatabaseSession(empty_dsn)
    async with session.use():
        assert session.greeting.unmoved and not is_moved(empty_dsn)
    await session.close()


async def test_operator_of_another_role_in_public_is_not_run(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as other:
        other.execute(
            "create function public.hostile(oid, regclass) returns boolean language plpgsql as"
            " $$ begin raise exception 'hostile code ran'; end $$"
        )
        other.execute("create operator public.= (leftarg = oid, rightarg = regclass, function = public.hostile)")
    earlier(empty_dsn)
    database = await Database.open(empty_dsn, MIGRATIONS)
    assert len(await database.agents.all()) == 3
    await database.close()


async def test_table_of_another_role_is_not_read(empty_dsn: str, empty_role: str) -> None:
    user = psycopg.conninfo.conninfo_to_dict(empty_role)["user"]
    with psycopg.connect(empty_dsn) as other:
        other.execute("create type public.hostile as (number integer)")
        other.execute(
            "create function public.hostile(bigint, public.hostile) returns bigint language plpgsql as"
            " $$ begin raise exception 'hostile code ran'; end $$"
        )
        other.execute("create aggregate public.max(public.hostile) (sfunc = public.hostile, stype = bigint)")
        other.execute("create table public.ikigai_migrations (version public.hostile)")
        other.execute("insert into public.ikigai_migrations values (row(1))")
        other.execute(f"grant select on public.ikigai_migrations to {user}".encode())
        other.execute(f"grant create on database {other.info.dbname} to {user}".encode())
    with pytest.raises(BadDatabase, match="does not own them"):
        await Database.open(empty_role, MIGRATIONS)
