"""Migrations: applied once, whole or not at all, and never under a program that is too old."""

import asyncio
import itertools
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import psycopg
import pytest

from ikigai.core.agents.tree import THIS_PROGRAM
from ikigai.core.errors import BadDatabase, Misconfigured, NewerSchema, Unavailable
from ikigai.core.events import events as ev
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.loading import CONTROL_KINDS, TURN_KINDS, load_memory
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.database import Database
from ikigai.store.schema import migration_turn, schema
from ikigai.store.sql import agents as queries
from ikigai.store.sql import reading as reading_queries
from ikigai.store.sql import transfer
from ikigai.store.sql.fragments import quoted
from tests import GOLDEN
from tests.conftest import MIGRATIONS, address
from tests.core.agent import RUN
from tests.store.talk import Talk

SCHEMA = GOLDEN / "schema.txt"
NEWEST = schema.SCHEMA_VERSION
FILES = len(schema.schema_files(MIGRATIONS))

# The tables as the catalogue has them, whatever the version of the server.
DESCRIPTION = """
select 'column ' || relname || '.' || attname || ' ' || format_type(atttypid, atttypmod)
       || case when attnotnull then ' not null' else '' end
       || case attidentity when 'a' then ' identity' else '' end
       || coalesce(' default ' || pg_get_expr(adbin, adrelid), '')
       || coalesce('  -- ' || col_description(attrelid, attnum), ''), 1, relname, attnum::int
from pg_attribute join pg_class on pg_class.oid = attrelid
left join pg_attrdef on adrelid = attrelid and adnum = attnum
where relnamespace = to_regnamespace('ikigai') and relkind in ('r', 'v') and attnum > 0 and not attisdropped
union all
select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid), 2, conrelid::regclass::text, 0
from pg_constraint where connamespace = to_regnamespace('ikigai') and contype <> 'n'
union all
select 'index ' || replace(pg_get_indexdef(indexrelid), current_schema() || '.', ''), 3, indrelid::regclass::text, 0
from pg_index join pg_class on pg_class.oid = indrelid where relnamespace = to_regnamespace('ikigai')
union all
select 'trigger ' || replace(pg_get_triggerdef(pg_trigger.oid), current_schema() || '.', ''), 4, relname, 0
from pg_trigger join pg_class on pg_class.oid = tgrelid
where relnamespace = to_regnamespace('ikigai') and not tgisinternal
union all
select 'table ' || relname || '  -- ' || coalesce(obj_description(oid, 'pg_class'), 'WITHOUT COMMENT'), 0, relname, 0
from pg_class where relnamespace = to_regnamespace('ikigai') and relkind in ('r', 'v')
union all
select 'function ' || oid::regprocedure || coalesce(' set ' || replace(array_to_string(proconfig, ', '), '"', ''), '')
       || '  -- ' || coalesce(obj_description(oid, 'pg_proc'), 'WITHOUT COMMENT'), 5, '~' || proname, 0
from pg_proc where pronamespace = to_regnamespace('ikigai')
order by 3, 2, 4, 1
"""


def tables(dsn: str) -> str:
    """Return the address for a connection that finds the tables by their plain names."""
    return address(dsn, options="-c search_path=ikigai")


def description(dsn: str) -> str:
    with psycopg.connect(tables(dsn)) as other:
        return "\n".join(line for line, *_ in other.execute(DESCRIPTION.encode()).fetchall()) + "\n"


def folder(target: Path, *further: str) -> Path:
    """The files that make the schema, and further ones behind them."""
    shutil.copytree(MIGRATIONS, target)
    for number, sql in enumerate(further, start=FILES + 1):
        (target / f"{number:04}_further.sql").write_text(sql)
    return target


async def test_files_make_the_schema(dsn: str) -> None:
    if os.environ.get("IKIGAI_RENEW_SCHEMA"):
        SCHEMA.write_text(description(dsn))
    assert description(dsn) == SCHEMA.read_text()


async def test_ten_programs_start_on_an_empty_database(empty_dsn: str) -> None:
    databases = await asyncio.gather(*(Database.open(empty_dsn, MIGRATIONS) for _ in range(10)))
    assert {database.schema_version for database in databases} == {NEWEST}
    agents = await asyncio.gather(*(database.agents.create() for database in databases))
    assert len({agent.name for agent in agents}) == 10
    for database in databases:
        await database.close()
    assert description(empty_dsn) == SCHEMA.read_text()
    with psycopg.connect(tables(empty_dsn)) as other:
        assert other.execute("select version from ikigai_migrations").fetchall() == [(NEWEST,)]


async def test_wait_for_another_migration_shows_its_progress_and_has_no_limit(empty_dsn: str) -> None:
    session, told = DatabaseSession(empty_dsn), list[tuple[int, int]]()
    async with await psycopg.AsyncConnection.connect(empty_dsn) as other:
        await migration_turn.wait_for_turn(other, session.schema)
        async with session.use() as cursor:
            await cursor.execute("set statement_timeout = '1s'")
        migrating = asyncio.create_task(
            schema.make_current(session, MIGRATIONS, True, lambda done, total: told.append((done, total)))
        )
        for done in (2, 3):
            await migration_turn.tell_progress(other, done, FILES)
            while (done, FILES) not in told and not migrating.done():
                await asyncio.sleep(0.05)
        until = time.monotonic() + 1.5
        while time.monotonic() < until and not migrating.done():
            await asyncio.sleep(0.05)
        assert not migrating.done()
    assert await migrating == NEWEST
    assert told[-FILES:] == [(each, FILES) for each in range(1, FILES + 1)]
    await session.close()


async def test_program_that_makes_the_schema_names_the_file(empty_dsn: str, tmp_path: Path) -> None:
    """For programs that wait; afterwards the connection has its name again."""
    seen = "create table seen as select current_setting('application_name') as name"
    database = await Database.open(empty_dsn, folder(tmp_path / "m", seen))
    name = database._session.parameters["application_name"]
    async with database._session.use() as cursor:
        await cursor.execute("select name, current_setting('application_name') from seen")
        assert await cursor.fetchall() == [(f"{name} {FILES + 1}/{FILES + 1}", name)]
    await database.close()


def analyzed(dsn: str) -> bool:
    """Return True if the planner has statistics of the log."""
    with psycopg.connect(dsn) as other:
        return other.execute("select from pg_stats where tablename = 'messages' and attname = 'kind'").rowcount == 1


async def test_tables_that_cannot_be_analyzed_are_no_failure(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("alter table messages rename to elsewhere")
    await schema.analyze_tables(database._session)
    assert "not analyzed" in caplog.text
    await database.close()


async def test_file_that_fails_leaves_nothing(empty_dsn: str, tmp_path: Path) -> None:
    migrations = folder(tmp_path / "m", "create table a (n int); create table b (n int); select 1/0;")
    with pytest.raises(BadDatabase, match=rf"{FILES + 1:04}_further.sql failed .*division by zero"):
        await Database.open(empty_dsn, migrations)
    assert description(empty_dsn) == "\n"
    database = await Database.open(empty_dsn, MIGRATIONS)
    assert database.schema_version == NEWEST and description(empty_dsn) == SCHEMA.read_text()
    await database.close()


def statements(file: Path) -> list[str]:
    """Return the statements of a file; bodies of functions also hold semicolons."""
    text, found, begin = file.read_text(), list[str](), 0
    for end in re.finditer(r";\n", text):
        part = text[begin : end.end()]
        if part.count("$$") % 2 == 0 and part.count("begin atomic") == part.count("\nend;"):
            found.append(part)
            begin = end.end()
    return found


def cut(target: Path, number: int, end: int) -> Path:
    """Return the files with the end of the server's process behind so many statements of one of them."""
    for each, file in enumerate(schema.schema_files(MIGRATIONS)):
        parts = statements(file)
        if each == number:
            parts.insert(end, "select pg_terminate_backend(pg_backend_pid());\n")
        (target / file.name).write_text("".join(parts))
    return target


@pytest.mark.parametrize("number", range(4))
async def test_schema_whose_making_is_killed_is_made_by_the_next_start(
    empty_dsn: str, tmp_path: Path, number: int
) -> None:
    """Behind each twentieth statement of each file, and the last one."""
    count = len(statements(schema.schema_files(MIGRATIONS)[number]))
    assert count > 10
    for end in {*range(0, count, KILL_EVERY or 20), count}:
        with pytest.raises(Unavailable):
            await Database.open(empty_dsn, cut(tmp_path, number, end))
        assert description(empty_dsn) == "\n"
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    assert description(empty_dsn) == SCHEMA.read_text()


KILL_EVERY = int(os.environ.get("IKIGAI_KILL_EVERY", "0"))
"""Statements between two kills, if it is set: 1 tries every one."""
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import psycopg
from ikigai.store.database import Database
left, execute = int(sys.argv[3]), psycopg.AsyncConnection.execute
async def counted(self, *args, **kwargs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return await execute(self, *args, **kwargs)
psycopg.AsyncConnection.execute = counted
asyncio.run(Database.open(sys.argv[1], Path(sys.argv[2])))
"""


async def test_program_that_is_killed_while_it_makes_the_schema_leaves_nothing(empty_dsn: str) -> None:
    """Before each fourth statement that it sends, until it has sent all of them."""
    for left in itertools.count(0, KILL_EVERY or 4):
        arguments = "-c", KILLED, empty_dsn, str(MIGRATIONS), str(left)
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
        if await process.wait() == 0:
            break
        assert process.returncode == -signal.SIGKILL and description(empty_dsn) == "\n"
    assert left > 2 * FILES and description(empty_dsn) == SCHEMA.read_text()


async def test_newer_schema_is_read_and_not_written(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    await talk.turn("old", "words")
    await database.close()
    with psycopg.connect(dsn) as other:
        other.execute("update ikigai_migrations set version = 99")
    with pytest.raises(NewerSchema, match="schema 99") as refused:
        await Database.open(dsn, MIGRATIONS)
    assert refused.value.exit_code == 2 and "newer ikigai" in refused.value.remedy

    reading = await Database.open(dsn, MIGRATIONS, write=False)
    assert reading.schema_version == 99
    (agent,) = await reading.agents.all()
    assert len(await reading.reader(agent).history(None, 50)) == agent.events > 2
    with pytest.raises(NewerSchema):
        await reading.open_agent(agent)
    with pytest.raises(NewerSchema):
        await reading.agents.create()
    await reading.close()


async def test_newer_schema_is_not_written_after_a_reconnect(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    await talk.turn("old", "words")
    with psycopg.connect(dsn, autocommit=True) as other:
        before = other.execute("select count(*) from messages").fetchall()
        other.execute("update ikigai_migrations set version = 99")
        other.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name like 'ikigai/%' and datname = current_database()"
        )
        for write in (
            lambda: talk.turn("new", "words"),
            lambda: talk.log.save_draft(Draft(1, "so far")),
            lambda: database.agents.create(),
            lambda: database.tree.rename(talk.agent, "else"),
        ):
            with pytest.raises(NewerSchema, match="has schema 99, and this ikigai knows schemas up to"):
                await write()
        assert await database.indexer.catch_up(5) > 0, "nor is the index filled"
        assert other.execute("select count(*) from messages").fetchall() == before
        assert other.execute("select count(*) from search_documents").fetchall() == [(0,)]
    assert len(await database.reader(talk.agent).history(None, 50)) == before[0][0], "it can still be read"
    await database.close()


async def test_schema_that_a_newer_program_changed_meanwhile_is_reported(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("alter table agents rename column directory to folder")
        with pytest.raises(BadDatabase, match="reported an error"):
            await database.agents.create()
        other.execute("update ikigai_migrations set version = 99")
        for write in (lambda: database.agents.create(), lambda: talk.turn("new", "words")):
            with pytest.raises(NewerSchema, match="has schema 99, and this ikigai knows schemas up to"):
                await write()
    await database.close()


async def test_reading_makes_no_schema(empty_dsn: str) -> None:
    with pytest.raises(BadDatabase, match="no tables of ikigai") as refused:
        await Database.open(empty_dsn, MIGRATIONS, write=False)
    assert "ikigai db migrate" in refused.value.remedy
    assert description(empty_dsn) == "\n"


@pytest.mark.parametrize("write", [True, False])
async def test_older_schema_is_refused(dsn: str, write: bool) -> None:
    with psycopg.connect(tables(dsn)) as other:
        other.execute("update ikigai_migrations set version = %s", (NEWEST - 1,))
    with pytest.raises(BadDatabase, match=f"schema {NEWEST - 1}, and this ikigai needs schema {NEWEST}") as refused:
        await Database.open(dsn, MIGRATIONS, write=write)
    assert "Export its conversations with the ikigai that wrote them and import them here" in refused.value.remedy
    assert "docs/operations/install.md" in refused.value.remedy


async def test_tables_are_in_a_schema_of_their_own(empty_dsn: str) -> None:
    """Neither the search_path of the database nor what others put into `public` is in the way, nor is it changed."""
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        other.execute("create table public.messages (mine int)")
        other.execute("create function public.ikigai_id(jsonb) returns bigint language sql return 1 / 0")
        other.execute(f"alter database {other.info.dbname} set search_path = nowhere, public".encode())
    for name in ("ikigai", "Odd-Name", 'odd %s "name"'):
        database = await Database.open(empty_dsn, MIGRATIONS, name=name)
        talk = await Talk.open(database)
        await talk.turn()
        assert (await database.status()).schema == name
        assert await database.tree.all()
        async with database._beside.use() as cursor:
            await cursor.execute("select current_setting('search_path')")
            assert await cursor.fetchall() == [(quoted(name),)]
        await database.close()
    with psycopg.connect(empty_dsn) as other:
        assert other.execute("show search_path").fetchall() == [("nowhere, public",)]
        assert other.execute("select count(*) from public.messages").fetchall() == [(0,)]
        assert other.execute("select to_regclass('public.agents')").fetchall() == [(None,)]
        with pytest.raises(psycopg.errors.RestrictViolation):
            other.execute('delete from "odd %s ""name""".messages')


async def test_two_schemas_are_two_histories(empty_dsn: str) -> None:
    """An agent that is in both has locks and notifications of its own in each."""
    first = await Database.open(empty_dsn, MIGRATIONS)
    second = await Database.open(empty_dsn, MIGRATIONS, name="second")
    ours, theirs = await Talk.open(first), await first.agents.get((await first.agents.all())[0].id)
    await ours.turn()
    assert theirs and await second.agents.all() == [] and await second.agents.last() is None
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        other.execute("insert into second.agents select * from ikigai.agents")
    copy = await second.open_agent(theirs)
    listener = await psycopg.AsyncConnection.connect(empty_dsn, autocommit=True)
    await listener.execute("listen second")
    await listener.execute("listen ikigai")
    follower = second.follow(theirs, lambda: load_memory(RUN, theirs.id))
    await follower.begin()
    await ours.turn("unheard")
    assert [note async for note in listener.notifies(timeout=0.2)] == []
    await copy.append((ev.UserMessage("heard"),))
    heard = [note.channel async for note in listener.notifies(timeout=30, stop_after=1)]
    assert heard == ["second"] and len((await follower.look()).rows) == 1
    owner = {name: (await each.tree.all())[0].holder for name, each in (("first", first), ("second", second))}
    await ours.log.close()
    assert owner == {"first": THIS_PROGRAM, "second": THIS_PROGRAM}
    assert [(await each.tree.all())[0].holder for each in (first, second)] == ["", THIS_PROGRAM]
    await listener.close()
    await follower.close()
    await first.close()
    await second.close()


async def test_tables_that_are_not_ikigais(empty_dsn: str) -> None:
    """Nothing is left behind, whichever migration finds them."""
    for table in ("messages", "search_postings", "usage"):
        with psycopg.connect(empty_dsn, autocommit=True) as other:
            other.execute(f"create schema ikigai create table {table} (mine int)".encode())
            with pytest.raises(BadDatabase, match=r"schema ikigai .* do not belong to ikigai") as refused:
                await Database.open(empty_dsn, MIGRATIONS)
            assert "IKIGAI_DATABASE_SCHEMA" in refused.value.remedy
            listed = (
                "select relname from pg_class where relnamespace = 'ikigai'::regnamespace and relkind in ('r', 'v')"
            )
            assert other.execute(listed).fetchall() == [(table,)]
            other.execute("drop schema ikigai cascade")


async def test_no_right_to_make_the_schema_or_its_tables(empty_dsn: str, empty_role: str) -> None:
    """Each remedy leads to the next step, and the last one to the tables."""
    grants: list[str] = []
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(f"create schema {quoted('Own-Schema')}".encode())
        for name in ("ikigai", "Own-Schema"):
            with pytest.raises(BadDatabase, match=f"(no|use the) schema {name} ") as refused:
                await Database.open(empty_role, MIGRATIONS, name=name)
            other, run, grant = refused.value.remedy.partition("et its owner run: ")
            assert refused.value.exit_code == 2 and run and grant.startswith("GRANT ")
            assert other == ("Use --schema ikigai, or l" if grants else "L"), "one that it may use comes first"
            grants.append(grant)
            if name == "Own-Schema":
                owner.execute(f"grant usage on schema {quoted(name)} to public".encode())
                with pytest.raises(BadDatabase, match="may not create tables in the schema Own-Schema") as refused:
                    await Database.open(empty_role, MIGRATIONS, name=name)
                assert refused.value.remedy.endswith(grants[-1])
            owner.execute(grants[-1].encode())
            await (await Database.open(empty_role, MIGRATIONS, name=name)).close()
    user = psycopg.conninfo.conninfo_to_dict(empty_role)["user"]
    assert re.fullmatch(rf'GRANT CREATE ON DATABASE ".*" TO "{user}";', grants[0])
    assert grants[1] == f'GRANT USAGE, CREATE ON SCHEMA "Own-Schema" TO "{user}";'


async def test_no_right_to_read(dsn: str, role: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("grant usage on schema ikigai to public")
    with pytest.raises(BadDatabase, match="permission denied for table ikigai_migrations"):
        await Database.open(role, MIGRATIONS)


async def test_encoding_that_cannot_hold_every_text(server: str, empty_dsn: str) -> None:
    name = f"{psycopg.conninfo.conninfo_to_dict(empty_dsn)['dbname']}_ascii"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            f"create database {name} encoding 'SQL_ASCII' locale_provider libc locale 'C' template template0".encode()
        )
        try:
            with pytest.raises(BadDatabase, match="encoded in SQL_ASCII"):
                await Database.open(address(server, dbname=name), MIGRATIONS)
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


def test_queries_and_indexes_speak_of_the_cores_kinds() -> None:
    listed = {name: "(" + ", ".join(f"'{kind}'" for kind in kinds) + ")" for name, kinds in
              (("control", CONTROL_KINDS), ("turn", TURN_KINDS))}  # fmt: skip
    assert f"kind in {listed['control']}" in reading_queries.CONTROLS
    assert f"kind in {listed['turn']}" in reading_queries.PAGE
    index = SCHEMA.read_text().partition("INDEX messages_control ")[2].partition("\n")[0]
    assert all(f"'{kind}'::text" in index for kind in CONTROL_KINDS)


async def test_check_at_start_is_one_query(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    execute = psycopg.AsyncCursor.execute

    async def counted(self: psycopg.AsyncCursor, query: object, *args: object, **kwargs: object) -> psycopg.AsyncCursor:
        sent.append(query)
        return await execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    database = await Database.open(dsn, MIGRATIONS)
    assert sent == [queries.apply_settings("ikigai")]
    agent = await database.agents.create()
    sent.clear()
    log = await database.open_agent(agent)
    first = [transfer.TIMELINE, queries.ACQUIRE_LOCK, queries.USE_AGENT, transfer.NEWEST_EVENTS]
    assert sent == first, "what a server that takes over must have, too"
    sent.clear()
    await log.append((ev.UserMessage("?"),))
    assert sent == [queries.APPEND]
    await database.close()


async def test_right_that_is_lost_in_mid_session_is_named_and_its_return_is_enough(dsn: str, role: str) -> None:
    user = psycopg.conninfo.conninfo_to_dict(role)["user"]
    with psycopg.connect(tables(dsn), autocommit=True) as owner:
        owner.execute("grant usage on schema ikigai to public; grant select on all tables in schema ikigai to public")
        database = await Database.open(role, MIGRATIONS, write=False)
        calls = (database.agents.all, database.agents.names, lambda: database.tree.newest(5))
        for call in calls:
            await call()
        owner.execute("revoke usage on schema ikigai from public")
        for call in calls:
            with pytest.raises(Misconfigured, match=f"The database user {user} may not use the schema ikigai") as lost:
                await call()
            assert "GRANT USAGE, CREATE ON SCHEMA ikigai TO" in lost.value.remedy.replace('"', "")
        owner.execute("grant usage on schema ikigai to public")
        for call in calls:
            await call()
        owner.execute("drop table agents cascade")
        with pytest.raises(Misconfigured, match="Tables are missing") as lost:
            await database.agents.all()
        assert lost.value.remedy.startswith("Run: ikigai db migrate. If the schema is there already, restore a dump")
    await database.close()
