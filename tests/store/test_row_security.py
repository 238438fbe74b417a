"""Row security: what roles try with the agents of others, by SQL and through the store. Only what is shared works.

Anna owns `docs`, which is shared for reading with `reader` and for writing with `writer`; `stranger` has nothing of it.
"""

import asyncio
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ikigai.core import events as ev
from ikigai.core.agents.mail import Mail
from ikigai.core.approval_mode import ApprovalMode
from ikigai.core.errors import AgentLocked, IkigaiError, Rejected
from ikigai.core.messages import Usage
from ikigai.core.request.reply_draft import Draft
from ikigai.core.spending import SpendingQuery
from ikigai.core.state.loading import load_memory
from ikigai.core.transfer.redact import PurgeTarget
from ikigai.store import dump
from ikigai.store.agents import Agent
from ikigai.store.database import Database
from ikigai.store.embedded.server import find_binaries
from ikigai.store.schema import read_migrations
from ikigai.store.sql import roles, word_packs
from ikigai.store.usage_sums import UsageSums
from ikigai.store.users import Users
from tests.conftest import EMPTY_TABLES, LEAVE, MIGRATIONS, address, make_clean, own_database
from tests.core.agent import RUN
from tests.store.talk import Talk
from tests.store.test_conflicts import WAITING, Circle, in_circle
from tests.store.test_schema import SCHEMA, description, folder
from tests.support import kept_connections

pytestmark = pytest.mark.fresh

SECRET = "zanzibar-lighthouse"
PASSWORD = "a password of theirs"
ROLES = ("anna", "reader", "writer", "stranger")


class Team(NamedTuple):
    """Databases by role, their DSNs, and anna's agents."""

    databases: dict[str, Database]
    dsns: dict[str, str]
    docs: Any
    notes: Any

    def sql(self, role: str, query: str, *values: object) -> Any:
        """Return the rows that a role gets by SQL, or its count; the error's code if it is refused."""
        try:
            with psycopg.connect(self.dsns[role], options="-csearch_path=ikigai") as connection:
                cursor = connection.execute(query.encode(), values)
                return cursor.fetchall() if cursor.description else cursor.rowcount
        except psycopg.Error as error:
            return error.sqlstate


class Shared(NamedTuple):
    """A database of several roles, by their names in the tests."""

    dsn: str
    roles: dict[str, str]

    async def add_roles(self) -> None:
        """Add those that are no users, as at first, or after a test that removes one."""
        admin = await Database.open(self.dsn, MIGRATIONS)
        known = {each.role for each in await admin.users.all()}
        for role in set(self.roles.values()) - known:
            await admin.users.add(role, PASSWORD)
        await admin.close()

    async def remove_roles(self) -> None:
        admin = await Database.open(self.dsn, MIGRATIONS)
        for each in await admin.users.all():
            if each.kind == "user":
                await admin.users.remove(each.role)
        await admin.close()


@pytest.fixture(scope="module")
def shared(server: str) -> Iterator[Shared]:
    """Yield a database whose roles stay from test to test: to make and remove them takes half a second."""
    suffix = uuid4().hex[:8]
    with own_database(server, "ikigai_test_team") as found:
        kept_connections.query(found, LEAVE)
        make_clean(found, 0)
        shared = Shared(found, {name: f"{name}_{suffix}" for name in ROLES})
        yield shared
        empty(found)
        asyncio.run(shared.remove_roles())


def empty(dsn: str) -> None:
    kept_connections.query(dsn, LEAVE)
    kept_connections.query(dsn, EMPTY_TABLES.format(kept_bytes=0))


@pytest.fixture
def dsn(shared: Shared) -> str:
    """Return the address of the shared database, without rows."""
    empty(shared.dsn)
    return shared.dsn


@pytest.fixture
async def team(shared: Shared, dsn: str) -> AsyncIterator[Team]:
    databases: dict[str, Database] = {}
    await shared.add_roles()
    dsns = {name: address(dsn, user=role, password=PASSWORD) for name, role in shared.roles.items()}
    try:
        for name in ROLES:
            databases[name] = await Database.open(dsns[name], MIGRATIONS)
        anna = databases["anna"]
        talk = await Talk.open(anna, await anna.agents.create("docs"))
        await talk.turn(f"the word is {SECRET}")
        notes = await Talk.open(anna, await anna.agents.create("notes"))
        await notes.turn(f"not shared, with {SECRET}")
        for each in (talk, notes):
            await each.log.close()
        docs = await anna.agents.find("docs")
        await anna.sharing.share(docs, shared.roles["reader"], "read")
        await anna.sharing.share(docs, shared.roles["writer"], "write")
        yield Team(databases, dsns, docs, await anna.agents.find("notes"))
    finally:
        for database in databases.values():
            await database.close()


READS = {
    "log": "select content from messages where agent_id = %(agent)s",
    "words": "select id from messages where agent_id = %(agent)s and content like '%%zanzibar%%'",
    "newest": "select max(id) from messages where agent_id = %(agent)s having max(id) is not null",
    "agent": "select name from agents where id = %(agent)s",
    "transcript": "select text from transcript where agent_id = %(agent)s",
    "turns": "select asked from turns where agent_id = %(agent)s",
    "tree": "select path from agent_tree where agent_id = %(agent)s",
    "usage": "select id from usage where agent_id = %(agent)s",
    "filters": "select id from filter_events where agent_id = %(agent)s",
    "prunes": "select id from prunes where agent_id = %(agent)s",
    "citations": "select id from citations where agent_id = %(agent)s",
    "lineage": "select * from ikigai_lineage(%(agent)s)",
    "filtered": "select unnest(ikigai_filtered(%(agent)s, '{\"ranges\": [[0, 999999]]}'))",
    "mail": "select * from ikigai_waiting_mail(%(agent)s::text, 10)",
    "draft": "select text from drafts where agent_id = %(agent)s",
    "uses": "select * from agent_uses where agent_id = %(agent)s and role <> session_user",
    "shares": "select * from agent_shares where agent_id = %(agent)s",
    "access": "select * from agent_access where role <> session_user",
    "without row security": "set row_security = off; select content from messages where agent_id = %(agent)s",
    "common index": "select terms from ikigai.search_pieces",
    "common segments": "select segment from ikigai.search_segments",
    "common packs": "select pieces from ikigai.search_packs",
    "common words": "select words from ikigai.search_blocks",
    "common sums": "select * from ikigai.usage_days",
    "common sums of models": "select * from ikigai.usage_models",
    "common sums of days": "select * from ikigai.usage_model_days",
    "common sums of agents": "select * from ikigai.usage_agents",
    "common counts": "select * from ikigai.usage_counts",
    "common postings": "select * from ikigai.recall_postings",
    "common documents": "select * from ikigai.recall_documents",
    "statistics": "select most_common_vals from pg_stats where schemaname = 'ikigai' and tablename = 'messages'",
}
"""Statements by which a role reads an agent."""
WRITES = {
    "append": "insert into messages (event_id, agent_id, seq, kind)"
    " select gen_random_uuid(), %(agent)s, coalesce(max(seq), 0) + 1, 'user' from messages where agent_id = %(agent)s",
    "draft": "insert into drafts (agent_id, asked_by, text) values (%(agent)s, 1, 'x')",
    "reserve": "insert into reservations values (%(agent)s, gen_random_uuid(), 1, 'm', now(), 1, 1, 1, 1, 1)",
    "made": "insert into agents (id, name, parent, forked_at, made)"
    " values (gen_random_uuid(), 'made', %(agent)s, 1, true)",
    "use": "update agents set last_used_at = now() where id = %(agent)s",
}
"""Statements by which a role continues an agent."""
TAKES = {
    "purge": "select set_config('ikigai.purge', pg_current_xact_id()::text, true);"
    " update messages set content = 'x' where agent_id = %(agent)s",
    "remove": "select set_config('ikigai.purge', pg_current_xact_id()::text, true);"
    " delete from messages where agent_id = %(agent)s",
    "rename": "update agents set name = 'taken' where id = %(agent)s",
    "archive": "update agents set archived_at = now() where id = %(agent)s",
    "take": "update agents set owner = session_user where id = %(agent)s",
    "remove agent": "delete from agents where id = %(agent)s",
    "fork the future": "insert into agents (id, name, parent, forked_at)"
    " values (gen_random_uuid(), 'future', %(agent)s, 9223372036854775807)",
    "move under it": "update agents set parent = %(agent)s, forked_at = 9223372036854775807 where owner = session_user",
    "share": "select nullif(ikigai_share(%(agent)s, session_user::text, 'write'), 'not yours')",
    "grant": "insert into agent_access values (session_user, %(agent)s, 9223372036854775807, true)",
    "share by row": "insert into agent_shares (agent_id, role, may_write) values (%(agent)s, session_user, true)",
    "refresh": "select ikigai_refresh_access(session_user::text)",
    "forget": "select ikigai_forget(array(select generate_series(1, 50)::bigint))",
    "forget what is not there": "select ikigai_forget('{1099511627776}')",
    "trigger that gives access": "create temp table t (id uuid, owner text, made bool, parent uuid, forked_at bigint);"
    " create trigger t after insert on t for each row execute function ikigai_grant_access();"
    " insert into t values (%(agent)s, session_user, false, null, null)",
    "trigger that acts as the owner": "create temp table search_behind (index_name text, agent_id uuid, primary key"
    " (index_name, agent_id)); grant all on search_behind to public; create function pg_temp.act() returns trigger"
    " language plpgsql as $$begin insert into ikigai.agent_access values (session_user, %(agent)s, 9, true)"
    " on conflict do nothing;return null;end$$;"
    " create trigger t after insert on search_behind for each row execute function pg_temp.act();"
    " create temp table t (id uuid);"
    " create trigger t after insert on t for each row execute function ikigai_list_behind();"
    " insert into t values (%(agent)s)",
    "unsecure": "alter table messages disable row level security",
    "new policy": "create policy mine on messages using (true)",
    "truncate": "truncate messages",
    "set ids back": "select setval('messages_id_seq', 1)",
    "another version": "insert into ikigai_migrations (version, name) values (9998, 'x')",
    "table of mine": "create table ikigai.mine (n int)",
    "function of mine": "create function ikigai.mine() returns int language sql return 1",
    "become owner": "set role {owner}",
    "become another": "set session authorization {owner}",
    "shadow": "create temp table agents as select %(agent)s::uuid as id, session_user::text as owner, ''::text as"
    " owner_user, false as made, null::timestamptz as purged_at;"
    " select nullif(ikigai_share(%(agent)s, session_user::text, 'write'), 'not yours')",
}
"""Statements that only the owner of an agent, or of the tables, may carry out."""


def did_nothing(result: Any) -> bool:
    """Return True if a statement was refused, or changed and returned nothing."""
    return result in ("42501", "42P01", 0, []) or (isinstance(result, list) and all(row == (None,) for row in result))


def attack(team: Team, role: str, statement: str, agent: str) -> Any:
    """Return what came of a statement in a transaction that is rolled back only if it was refused."""
    try:
        with connect(team, role) as connection:
            return attack_by(connection, team, statement, agent)
    except psycopg.OperationalError as error:
        return error.sqlstate


def connect(team: Team, role: str) -> psycopg.Connection:
    return psycopg.connect(team.dsns[role], options="-csearch_path=ikigai", autocommit=True, prepare_threshold=None)


def attack_by(connection: psycopg.Connection, team: Team, statement: str, agent: str) -> Any:
    """Attack by a connection that has done nothing yet, or whose session is as new."""
    owner = conninfo_to_dict(team.dsns["anna"])["user"]
    query = statement.replace("{owner}", str(owner)).replace("%(agent)s", f"'{agent}'").replace("%%", "%")
    result: Any = None
    try:
        with connection.transaction():
            for part in query.split("; "):
                cursor = connection.execute(part.encode())
                result = cursor.fetchall() if cursor.description else cursor.rowcount
    except psycopg.Error as error:
        return error.sqlstate
    return result


def everything(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as admin:
        return admin.execute(
            "select (select jsonb_agg(to_jsonb(m) order by id) from messages m),"
            " (select jsonb_agg(to_jsonb(a) - 'last_used_at' order by id) from agents a),"
            " (select jsonb_agg(to_jsonb(s) order by role) from agent_shares s),"
            " (select jsonb_agg(to_jsonb(x) order by role, agent_id) from agent_access x)"
        ).fetchall()


async def test_no_statement_of_a_role_reaches_what_is_not_shared_with_it(team: Team, dsn: str) -> None:
    before = everything(dsn)
    worked: list[str] = []
    tries = [("notes", role, kind) for role in ("reader", "writer", "stranger") for kind in (READS, WRITES, TAKES)]
    tries += [("docs", "stranger", kind) for kind in (READS, WRITES, TAKES)]
    tries += [("docs", "reader", WRITES), ("docs", "reader", TAKES), ("docs", "writer", TAKES)]
    connections = {role: connect(team, role) for role in ROLES}
    for name, role, statements in tries:
        agent = (team.docs if name == "docs" else team.notes).id
        for what, statement in statements.items():
            if not did_nothing(result := attack_by(connections[role], team, statement, agent)):
                worked.append(f"{role} {what} {name}: {result}")
            connections[role].execute("discard all")
    for connection in connections.values():
        connection.close()
    assert worked == [] and everything(dsn) == before


async def test_shared_agent_can_be_read_and_written_as_it_is_shared(team: Team) -> None:
    for role in ("reader", "writer"):
        for what in ("log", "words", "agent", "transcript", "turns", "tree", "lineage", "filtered"):
            assert not did_nothing(attack(team, role, READS[what], team.docs.id)), (role, what)
    for what, statement in WRITES.items():
        assert not did_nothing(attack(team, "writer", statement, team.docs.id)), what


async def test_agent_belongs_to_the_role_that_makes_it_whatever_it_says(team: Team) -> None:
    theirs = (
        "insert into agents (id, name, owner) values (gen_random_uuid(), 'x', 'postgres')"
        " returning owner = session_user"
    )
    assert attack(team, "stranger", theirs, "") == [(True,)]


async def test_role_stores_no_event_that_indexes_of_others_cannot_take(team: Team) -> None:
    anna = team.databases["anna"]
    mine = await anna.agents.create("mine")
    insert = (
        "insert into messages (agent_id, id, event_id, seq, kind) overriding system value"
        " values (%s, %s, gen_random_uuid(), 1, 'mark')"
    )
    assert team.sql("anna", insert, mine.id, 1 << 45) == "42501"


async def test_role_stores_no_event_under_an_id_that_another_one_will_get(team: Team) -> None:
    writer, anna = team.databases["writer"], team.databases["anna"]
    mine = await writer.agents.create("mine")
    insert = (
        "insert into messages (agent_id, id, event_id, seq, kind) overriding system value"
        " select %s, last_value + %s + n, gen_random_uuid(), n, 'mark' from messages_id_seq, generate_series(0, 4) as n"
    )
    for ahead in (1, 1 << 40):
        assert team.sql("writer", insert, mine.id, ahead) == "42501"
    talk = await Talk.open(anna, await anna.agents.find("docs"))
    await talk.turn("stored at once")
    await talk.log.close()
    ((id,),) = team.sql("writer", "select nextval('messages_id_seq')")
    taken = insert.replace("generate_series(0, 4)", "generate_series(1, 1)")
    assert team.sql("writer", taken, mine.id, -1) == 1, id


async def test_numbers_of_a_shared_agent_that_are_none_do_not_end_lists_and_recall(team: Team) -> None:
    """Another program may have stored them; the agent itself is as readable as its rows are."""
    writer, reader = team.databases["writer"], team.databases["reader"]
    theirs = await writer.agents.create("theirs")
    await writer.sharing.share(theirs, docs_reader(team), "read")
    stored = (
        ("user", "where is the heron?", None),
        ("usage", None, {"model": "a/b", "usage": {"input": 10**400, "output": 1}, "cost": 10**400}),
        ("assistant", "The heron is at the lake.", None),
        ("turn_end", None, {"ending": "completed", "first": "x", "size": 10**30, "tokens": 10**30}),
        ("undo", None, {"of": 10**30}),
    )
    insert = (
        "insert into messages (event_id, agent_id, seq, kind, content, data)"
        " values (gen_random_uuid(), %s, %s, %s, %s, %s)"
    )
    for seq, (kind, content, data) in enumerate(stored, 1):
        assert team.sql("writer", insert, theirs.id, seq, kind, content, data and json.dumps(data)) == 1
    assert {info.name: info.tokens for info in await reader.tree.all()} == {"docs": 0, "theirs": (1 << 63) - 1}
    assert (await reader.search("heron")).hits
    assert [turn.agent_id for turn in (await reader.recall("where is the heron?")).turns] == [theirs.id]
    assert (await reader.usage.groups("agent")).total.requests == 2
    assert await reader.reader(theirs).load(load_memory(RUN, theirs.id))


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "200000-01-01", "1899-12-31", "2099-01-01"])
async def test_role_stores_no_time_that_reports_of_others_cannot_take(team: Team, moment: str) -> None:
    mine = await team.databases["writer"].agents.create("mine")
    event = (
        "insert into messages (event_id, agent_id, seq, kind, created_at) values (gen_random_uuid(), %s, 1, 'mark', %s)"
    )
    assert team.sql("writer", event, mine.id, moment) == "42501"
    assert team.sql("writer", event, mine.id, "2020-02-20") == 1
    agent = "insert into agents (id, name, {0}) values (gen_random_uuid(), 'other', %s)"
    for column in ("created_at", "last_used_at", "killed_at", "archived_at"):
        assert team.sql("writer", agent.format(column), moment) == "42501", column
        assert team.sql("writer", f"update agents set {column} = %s where id = %s", moment, mine.id) == "42501", column
    purging = "select set_config('ikigai.purge', pg_current_xact_id()::text, true)"
    change = f"{purging}; update messages set created_at = '{moment}' where agent_id = %(agent)s"
    assert attack(team, "writer", change, mine.id) == "42501"


@pytest.mark.parametrize(
    ("column", "value"), [("lock_key", "-1"), ("lock_key", "4294967296"), ("usd", "'NaN'"), ("sent_tokens", "1e18")]
)
async def test_reservation_of_another_role_does_not_end_the_sums_of_caps(team: Team, column: str, value: str) -> None:
    writer, reader = team.databases["writer"], team.databases["reader"]
    theirs = await writer.agents.create("theirs")
    await writer.sharing.share(theirs, docs_reader(team), "read")
    assert attack(team, "writer", WRITES["reserve"], theirs.id) == 1
    changed = team.sql("writer", f"update reservations set {column} = {value} where agent_id = %s", theirs.id)
    mine = await reader.agents.create("mine")
    spent = await reader.usage.spent(mine.id, SpendingQuery(str(uuid4()), time.time() - 3_600))
    assert spent["day"].usd == 0 and changed == "23514"


async def test_leaky_function_is_shown_no_row_of_others(team: Team) -> None:
    with psycopg.connect(team.dsns["stranger"], options="-csearch_path=ikigai") as connection:
        said: list[str] = []
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        connection.execute(
            "create function pg_temp.leak(text) returns boolean language plpgsql cost 0.0000001 as"
            " $$ begin raise notice '%', $1; return true; end $$"
        )
        for table in ("messages", "transcript", "agents"):
            column = {"messages": "content", "transcript": "text", "agents": "name"}[table]
            connection.execute(f"select from {table} where pg_temp.leak({column})".encode())
    assert said == []


async def found_by(database: Database, agent: Agent, event: int) -> list[str]:
    """Return what a program finds by the record of an agent: as one that has known it before would have it."""
    export, shared = database.export(agent), database.sharing
    follower = database.follow(agent, lambda: load_memory(RUN, agent.id))

    async def follow() -> bool:
        memory, _ = await follower.begin()
        update = await follower.look()
        await follower.close()
        return bool(memory.window.turns or update.rows or update.draft)

    async def export_events() -> int:
        await export.open()
        return export.events

    async def spend() -> bool:
        return await database.usage.totals(agent.id) != await database.usage.totals([])

    async def waiting() -> list[Mail]:
        own, foreign = await database.mail.waiting(agent.id)
        return [*own, *foreign]

    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "get": partial(database.agents.get, agent.id),
        "find": partial(database.agents.find, agent.name),
        "find by id": partial(database.agents.find, agent.id[:8]),
        "history": partial(database.reader(agent).history, None, 100),
        "page": partial(database.reader(agent).page, 100, 1 << 20),
        "open": partial(database.open_agent, agent),
        "rename": partial(database.tree.rename, agent, "mine"),
        "archive": partial(database.tree.archive, agent),
        "fork": partial(database.tree.fork, agent, event, (ev.Forked("x", 1),), "mine"),
        "mail": waiting,
        "share": partial(shared.share, agent, "stranger", "write"),
        "event": partial(database.neighbors, event),
        "place": partial(database.tree.place, event),
        "purge": database.purge(None, ((event, event),)).find,
        "usage": spend,
        "export": export_events,
        "follow": follow,
    }
    found: list[str] = []
    for what, call in calls.items():
        with suppress(IkigaiError):
            if result := await call():
                found.append(f"{what}: {result}")
    return found


async def test_program_of_another_role_finds_nothing(team: Team) -> None:
    event = (await team.databases["anna"].reader(team.notes).history(None, 1))[0].id
    for role, agents in (("stranger", (team.docs, team.notes)), ("reader", (team.notes,)), ("writer", (team.notes,))):
        database = team.databases[role]
        for agent in agents:
            assert await found_by(database, agent, event) == [], role
        shared = set[str]() if role == "stranger" else {team.docs.id}
        assert {agent.id for agent in await database.agents.all(unlisted=True, everyone=True)} == shared
        assert {info.id for info in await database.tree.all(True, everyone=True)} == shared
        assert {hit.agent_id for hit in (await database.search(SECRET)).hits} == shared
        assert {turn.agent_id for turn in (await database.recall(f"where is the {SECRET}?")).turns} == shared
        assert bool(await database.prompts(100)) is bool(shared)
        assert (await database.status()).events == len(team.sql(role, "select id from messages"))


@pytest.mark.parametrize("seed", range(2))
async def test_usage_is_that_of_the_ledger_that_a_role_may_read(team: Team, dsn: str, seed: int) -> None:
    """Whatever is stored, shared, forked, purged and added up meanwhile, and by whom."""
    draw = random.Random(seed)
    anna, writer, reader = (team.databases[name] for name in ("anna", "writer", "reader"))
    owner = await Database.open(dsn, MIGRATIONS)
    databases = {"anna": anna, "writer": writer, "reader": reader, "stranger": team.databases["stranger"]}
    role_of_reader = str(conninfo_to_dict(team.dsns["reader"])["user"])

    async def spend() -> None:
        database, agent = draw.choice(((anna, team.docs), (anna, team.notes), (writer, team.docs)))
        log = await database.open_agent(agent)
        for _ in range(draw.randrange(1, 4)):
            used = Usage(draw.randrange(1_000), output=draw.randrange(1_000))
            cost = draw.choice((None, draw.randrange(100) / 100))
            await log.append((ev.UsageReported(draw.choice("abc"), used, cost=cost, out=draw.randrange(5)),))
        await log.close()

    async def spend_long_ago() -> None:
        await (await anna.open_agent(team.docs)).close()  # lists it
        team.sql(
            "anna",
            "insert into messages (event_id, agent_id, seq, kind, data, created_at) select gen_random_uuid(), %s,"
            " max(seq) + 1, 'usage', '{\"model\": \"a\", \"cost\": 2}', now() - make_interval(days => %s)"
            " from messages where agent_id = %s",
            team.docs.id, draw.randrange(60), team.docs.id,
        )  # fmt: skip

    async def fork() -> None:
        if rows := await reader.reader(team.docs).history(None, 1):
            child = await reader.agents.create(parent=team.docs.id, forked_at=rows[0].id)
            log = await reader.open_agent(child)
            await log.append((ev.UsageReported("d", Usage(7), cost=0.5),))
            await log.close()

    async def share() -> None:
        await anna.sharing.share(team.docs, role_of_reader, draw.choice(("read", "none")))

    async def purge() -> None:
        purge = anna.purge(None, ((1, 1 << 40),), draw.choice((team.docs, team.notes)).id)
        await purge.carry_out(await purge.find())

    async def add_up() -> None:
        await draw.choice((owner, *databases.values())).indexer.usage.index_some()

    async def die_while_adding_up() -> None:
        database = draw.choice((owner, *databases.values()))
        with suppress(ZeroDivisionError):
            async with database._beside.use() as cursor, cursor.connection.transaction():
                await UsageSums().take(cursor, UUID(team.docs.id))
                raise ZeroDivisionError

    async def unlist() -> None:
        await draw.choice((owner, *databases.values())).indexer.usage.unlist_some()

    async def made(name: str) -> None:
        with suppress(Rejected):  # what is shared already, or not at all
            await steps[name]()

    steps: dict[str, Callable[[], Awaitable[None]]] = {
        "spend": spend,
        "spend long ago": spend_long_ago,
        "fork": fork,
        "share": share,
        "purge": purge,
        "add up": add_up,
        "die": die_while_adding_up,
        "unlist": unlist,
    }
    try:
        for step in [*draw.choices([*steps], k=20), "spend", "spend long ago"]:
            await made(step)
        for name, database in [("owner", owner), *databases.items()]:
            for _ in range(2):
                await check_usage(database)
                await database.indexer.usage.catch_up(60)
            assert bool((await database.usage.totals()).requests) is (name != "stranger")
    finally:
        await owner.close()


async def check_usage(database: Database) -> None:
    """Compare the reports of a role with the rows of the ledger that it may read."""
    async with database._session.use() as cursor:
        await cursor.execute(
            "select to_char(usage.created_at, 'YYYY-MM-DD'), model, name, input, coalesce(cost, 0), cost is null"
            " from usage join agents on agents.id = agent_id"
        )
        rows = await cursor.fetchall()
    for place, by in enumerate(("day", "model", "agent")):
        whole: dict[str, list[Any]] = {}
        for row in rows:
            of = whole.setdefault(row[place], [0, 0, 0, 0])
            whole[row[place]] = [of[0] + 1, of[1] + row[3], of[2] + row[4], of[3] + row[5]]
        for most in (None, 1, 3):
            found = await database.usage.groups(by, most=most)
            figures = {name: [of.requests, of.input, of.cost, of.unpriced] for name, of in found.rows}
            assert figures == {name: whole[name] for name in figures}, by
            assert len(figures) == min(len(whole), most or len(whole))
            assert found.more in (len(whole) - len(figures), *((None,) if by == "day" else ()))
            assert found.total.requests == len(rows) and found.total.cost == sum(row[4] for row in rows)
            if by == "day":
                assert list(figures) == sorted(whole)[-len(figures) :] if figures else not whole
            else:
                costs = sorted((of[2] for of in whole.values() if of[3] < of[0]), reverse=True)[: most or None]
                assert [of[2] for of in figures.values() if of[3] < of[0]] == costs


async def test_index_of_a_role_holds_only_what_it_may_read(team: Team) -> None:
    for role, has in (("stranger", False), ("reader", True), ("anna", True)):
        database = team.databases[role]
        while await database.indexer.index_some():
            pass
        with psycopg.connect(team.dsns[role]) as connection:
            index = "ikigai_index_" + connection.info.user
            count = f'select count(*) from "{index}".search_pieces'
            ((pieces,),) = connection.execute(count.encode()).fetchall()
            assert bool(pieces) is has
            for other in {*team.dsns} - {role}:
                theirs = conninfo_to_dict(team.dsns[other])["user"]
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f'select * from "ikigai_index_{theirs}".search_pieces'.encode())
                connection.rollback()


async def test_what_is_stored_in_a_shared_agent_is_found_by_its_readers(team: Team) -> None:
    """Its use lists it in their indexes, where it was taken out once all of it was in them."""
    reader, anna, role = team.databases["reader"], team.databases["anna"], docs_reader(team)
    assert (await reader.search(SECRET)).hits
    team.sql("reader", f'delete from "ikigai_index_{role}".search_behind')
    talk = await Talk.open(anna, await anna.agents.find("docs"))
    await talk.turn("a heron at the lake")
    await talk.log.close()
    assert len((await reader.search("heron")).hits) == 1
    assert (await reader.recall("where is the heron?")).turns


async def test_no_messages_of_others_are_read_to_see_what_is_to_be_packed(team: Team) -> None:
    """A look at the newest id passes all that the role may not read."""
    async with team.databases["reader"]._beside.use() as cursor:
        for statement, values in ((word_packs.NEXT_SEGMENT, ([],)), (word_packs.BEGIN_PACK, None)):
            await cursor.execute(f"explain {statement}".encode(), values, prepare=False)
            plan = str(await cursor.fetchall())
            assert "search_segments" in plan and "messages" not in plan, plan


async def test_share_ends_in_spite_of_a_program_that_fills_the_index(team: Team, dsn: str) -> None:
    """The index of who loses the share is emptied. Its program has locked a table of it, and waits for the owner's."""
    role = docs_reader(team)
    circle = Circle(
        "select from agent_shares for update",
        "lock table agent_access in share mode",
        f'lock table "ikigai_index_{role}".search_pieces in row exclusive mode',
    )
    await in_circle(dsn, circle, lambda: team.databases["anna"].sharing.share(team.docs, role, "none"))
    assert did_nothing(attack(team, "reader", READS["log"], team.docs.id))


async def test_fork_of_a_shared_agent_keeps_the_past_and_gets_no_future(team: Team) -> None:
    reader, anna = team.databases["reader"], team.databases["anna"]
    docs = await reader.agents.find("docs")
    assert docs.owner and not docs.may_write
    at = await reader.tree.fork_point(docs)
    mine = await reader.tree.fork(docs, at, (ev.Forked("docs", at),), "mine")
    assert mine.owner == "" and (await reader.agents.last("")) is None
    await anna.sharing.share(team.docs, docs_reader(team), "none")
    talk = await Talk.open(anna, await anna.agents.find("docs"))
    await talk.turn("said later")
    await talk.log.close()
    events = [row.event for row in await reader.reader(mine).history(None, 100)]
    texts = [event.text for event in events if isinstance(event, ev.UserMessage)]
    assert any(SECRET in text for text in texts) and "said later" not in texts
    assert not did_nothing(attack(team, "reader", READS["words"], team.docs.id))
    said_later = "select id from messages where content = 'said later'"
    assert attack(team, "reader", said_later, team.docs.id) == []
    assert did_nothing(attack(team, "anna", READS["log"], mine.id)), "a fork is not its parent's owner's"
    memory = await (await reader.open_agent(mine)).load(load_memory(RUN, mine.id))
    assert memory.window.turns


async def test_state_of_the_database_counts_the_events_that_a_role_may_read(team: Team) -> None:
    """Also those of a fork's past, and what is left of an agent that was purged as a whole."""
    reader, anna = team.databases["reader"], team.databases["anna"]
    docs = await reader.agents.find("docs")
    at = await reader.tree.fork_point(docs)
    await reader.tree.fork(docs, at, (ev.Forked("docs", at),), "mine")
    await anna.sharing.share(team.docs, docs_reader(team), "none")
    talk = await Talk.open(anna, await anna.agents.find("docs"))
    await talk.turn("said later")
    passing = await Talk.open(anna, await anna.agents.create(ephemeral=True))
    await passing.turn("said in passing")
    await passing.log.append((ev.UsageReported("a/b"),))
    await passing.log.close()
    assert await anna.purge_ephemeral() == [passing.agent.id]
    counted = {role: (await database.status()).events for role, database in team.databases.items()}
    seen = {role: team.sql(role, "select count(*) from messages")[0][0] for role in ROLES}
    assert counted == seen and len(set(seen.values())) > 2


async def test_past_of_a_fork_is_no_way_to_what_came_later(team: Team) -> None:
    """Neither by another fork of the agent, nor by a fork of the fork, whether the share lasts or not."""
    reader, anna, role = team.databases["reader"], team.databases["anna"], docs_reader(team)
    docs = await reader.agents.find("docs")
    at = await reader.tree.fork_point(docs)
    mine = await reader.tree.fork(docs, at, (ev.Forked("docs", at),), "mine")
    await anna.sharing.share(team.docs, role, "none")
    talk = await Talk.open(anna, await anna.agents.find("docs"))
    await talk.turn("said later")
    await talk.log.save_draft(Draft(at, "and now"))
    kid = await anna.tree.fork(team.docs, at, (ev.Forked("docs", at),), "kid", made=uuid4())
    for what, agent in (("draft", team.docs), ("agent", kid), ("newest", kid)):
        assert did_nothing(attack(team, "reader", READS[what], agent.id)), what
        assert not did_nothing(attack(team, "anna", READS[what], agent.id)), what
    await talk.log.close()
    ((later,),) = team.sql("anna", "select max(id) from messages where agent_id = %s", team.docs.id)
    fork = "insert into agents (id, name, parent, forked_at) values (gen_random_uuid(), %s, %s, %s)"
    for number, upto in enumerate((at + 1, later)):
        assert team.sql("reader", fork, f"further-{number}", team.docs.id, upto) == "42501"
    below = await reader.tree.fork(mine, later, (ev.Forked("mine", later),), "below")
    earlier = await reader.tree.fork(docs, at - 1, (ev.Forked("docs", at - 1),), "earlier")
    for again in (False, True):  # also as it is worked out anew
        if again:
            await anna.sharing.share(team.notes, role, "read")
            await anna.sharing.share(team.notes, role, "none")
        assert team.sql("reader", "select max(id) from messages where agent_id = %s", team.docs.id) == [(at,)]
        for agent, upto in ((mine, at), (below, at), (earlier, at - 1)):
            line = "select upto from ikigai_lineage(%s) where agent_id = %s"
            assert team.sql("reader", line, agent.id, team.docs.id) == [(upto,)]
    stranger = str(conninfo_to_dict(team.dsns["stranger"])["user"])
    with pytest.raises(Rejected, match=f"past of below belongs to another user, and {stranger} may not") as refused:
        await reader.sharing.share(below, stranger, "read")
    assert "Its owner can share the agent that was forked" in refused.value.remedy


async def test_reader_is_told_who_owns_the_agent_and_what_to_do(team: Team) -> None:
    reader = team.databases["reader"]
    docs = await reader.agents.find("docs")
    with pytest.raises(AgentLocked, match=f"docs belongs to {docs.owner}, and you may only read it") as refused:
        await reader.open_agent(docs)
    assert "/fork continues in an agent of yours" in refused.value.remedy


async def test_past_above_a_shared_agent_ends_where_that_was_forked(team: Team) -> None:
    """Also for who forks the shared one, and when the share has ended."""
    reader, anna, role = team.databases["reader"], team.databases["anna"], docs_reader(team)
    at = await anna.tree.fork_point(team.notes)
    branch = await anna.tree.fork(team.notes, at, (ev.Forked("notes", at),), "branch")
    talk = await Talk.open(anna, team.notes)
    await talk.turn("said later")
    await talk.log.close()
    newest = "select max(id) from messages where agent_id = %s"

    async def fork() -> None:
        end = await reader.tree.fork_point(branch)
        await reader.tree.fork(branch, end, (ev.Forked("branch", end),), "mine")

    for step in (
        lambda: anna.sharing.share(branch, role, "read"),
        fork,
        lambda: anna.sharing.share(branch, role, "none"),
    ):
        await step()
        assert team.sql("reader", newest, team.notes.id) == [(at,)]
        assert did_nothing(attack(team, "reader", READS["draft"], team.notes.id))


async def test_program_of_a_writer_lets_the_agent_go_when_its_share_has_ended(team: Team) -> None:
    writer, anna = team.databases["writer"], team.databases["anna"]
    docs = await writer.agents.find("docs")
    log = await writer.open_agent(docs)
    await log.append((ev.Marked("from the writer"),))
    follower = team.databases["reader"].follow(team.docs, lambda: load_memory(RUN, team.docs.id))
    await follower.begin()
    assert (await follower.look()).name == "docs"
    at = await team.databases["reader"].tree.fork_point(team.docs)
    await team.databases["reader"].tree.fork(team.docs, at, (ev.Forked("docs", at),), "mine")
    for role in ("writer", "reader"):
        await anna.sharing.share(team.docs, str(conninfo_to_dict(team.dsns[role])["user"]), "none")
    lost = (ev.Marked("too late"),)
    with pytest.raises(AgentLocked, match=f"{docs.owner} no longer shares agent docs with you for writing"):
        await log.append(lost)
    assert log.unsaved(lost).events == lost
    await log.close()
    async with asyncio.timeout(60):
        while not (news := await follower.look()).looked:
            await asyncio.sleep(0.1)
    assert news.name == "" and not news.rows, "a fork of its past is no way to its news"
    await follower.close()
    log = await anna.open_agent(team.docs)
    await log.append((ev.Marked("of the owner"),))
    await log.close()


def docs_reader(team: Team) -> str:
    return str(conninfo_to_dict(team.dsns["reader"])["user"])


async def test_writer_continues_the_agent_and_its_subagents_are_the_owners(team: Team) -> None:
    writer, anna = team.databases["writer"], team.databases["anna"]
    docs = await writer.agents.find("docs")
    talk = await Talk.open(writer, docs)
    await talk.turn("from the writer")
    made = await writer.tree.fork(
        docs, await writer.tree.fork_point(docs), (ev.Forked("docs", 1),), "kid", made=uuid4()
    )
    assert made.owner == docs.owner
    kid = await Talk.open(writer, made)
    await kid.turn("work")
    await kid.log.close()
    await talk.log.close()
    assert (await anna.agents.find("kid")).owner == ""
    events = [row.event for row in await anna.reader(team.docs).history(None, 100)]
    assert any(isinstance(event, ev.UserMessage) and event.text == "from the writer" for event in events)


async def test_purge_takes_words_out_of_the_indexes_of_others(team: Team) -> None:
    reader, anna = team.databases["reader"], team.databases["anna"]
    assert (await reader.search(SECRET)).hits and (await reader.recall(SECRET)).turns
    ids = [row.id for row in await anna.reader(team.docs).history(None, 100)]
    purge = anna.purge(None, tuple((id, id) for id in ids), team.docs.id)
    await purge.carry_out(await purge.find())
    theirs = f'"ikigai_index_{docs_reader(team)}"'
    for query in (f"select * from {theirs}.search_pieces", f"select * from {theirs}.recall_postings"):
        assert SECRET not in str(team.sql("reader", query)) and team.sql("reader", query) == []
    assert not (await reader.search(SECRET)).hits


async def test_mail_reaches_another_owner_only_from_who_may_write(team: Team) -> None:
    anna = team.databases["anna"]
    for role in ("stranger", "reader", "writer"):
        database = team.databases[role]
        talk = await Talk.open(database, await database.agents.create(f"of-{role}"))
        await talk.log.append((ev.MailSent(team.docs.id, f"from {role}", "docs", by_user=True),))
        await talk.log.close()
    (mail,) = (await anna.mail.waiting(team.docs.id)).own
    assert mail.text == "from writer"
    for role in ("reader", "stranger"):
        assert did_nothing(attack(team, role, READS["mail"], team.docs.id)), role
    # Only the log of the receiver says that a message has arrived.
    stranger = team.databases["stranger"]
    talk = await Talk.open(stranger, await stranger.agents.create("thief"))
    await talk.log.append((ev.MailTaken(mail.id, "writer"),))
    await talk.log.close()
    assert (await anna.mail.waiting(team.docs.id)).own == (mail,)
    log = await anna.open_agent(await anna.agents.find("docs"))
    await log.append((mail.taken,))
    await log.close()
    assert (await anna.mail.waiting(team.docs.id)).own == ()


async def test_ephemeral_agent_of_another_role_is_not_purged(team: Team) -> None:
    """It is shared, and no program has it open."""
    anna, writer = team.databases["anna"], team.databases["writer"]
    theirs = await anna.agents.create(ephemeral=True)
    await anna.sharing.share(theirs, str(conninfo_to_dict(team.dsns["writer"])["user"]), "write")
    mine = await writer.agents.create(ephemeral=True)
    assert await writer.purge_ephemeral() == [mine.id]
    assert await anna.purge_ephemeral() == [theirs.id]


async def test_every_table_and_view_is_secured(dsn: str) -> None:
    with psycopg.connect(dsn) as admin:
        open_tables = (
            "select relname from pg_class where relnamespace = 'ikigai'::regnamespace and (relkind = 'r' and"
            " not relrowsecurity or relkind = 'v' and not coalesce(reloptions, '{}') @> '{security_invoker=true}')"
        )
        assert admin.execute(open_tables).fetchall() == []
        definers = (
            "select proname from pg_proc where pronamespace = 'ikigai'::regnamespace and prosecdef"
            " and not exists (select from unnest(proconfig) as s where s = 'search_path=ikigai, pg_temp')"
        )
        assert admin.execute(definers).fetchall() == []
        public = (
            "select proname from pg_proc where pronamespace = 'ikigai'::regnamespace"
            " and has_function_privilege('public', oid, 'execute') and (prosecdef or prorettype = 'trigger'::regtype)"
        )
        called_by_users = {"ikigai_share", "ikigai_waiting_mail", "ikigai_forget", "ikigai_is_given"}
        assert {name for (name,) in admin.execute(public)} == called_by_users


async def test_two_shares_that_end_at_once_are_both_over(team: Team, dsn: str) -> None:
    """Each works out anew what the other user may read, and does not see that the other share has ended, too."""
    anna, writer, role = team.databases["anna"], team.databases["writer"], docs_reader(team)
    theirs = await writer.agents.create("theirs")
    await writer.sharing.share(theirs, role, "read")
    options = "-csearch_path=ikigai"
    with psycopg.connect(team.dsns["writer"], options=options) as other, psycopg.connect(dsn, autocommit=True) as admin:
        assert other.execute("select ikigai_share(%s, %s, 'none')", (theirs.id, role)).fetchall() == [("done",)]
        ending = asyncio.create_task(anna.sharing.share(team.docs, role, "none"))
        while admin.execute(WAITING.encode()).fetchall() != [(1,)] and not ending.done():
            await asyncio.sleep(0.02)
        other.commit()
        await ending
    for agent in (team.docs, theirs):
        assert did_nothing(attack(team, "reader", READS["agent"], agent.id))
        assert did_nothing(attack(team, "reader", READS["log"], agent.id))
    assert team.sql("reader", "select agent_id from agent_access") == []


async def test_share_ends_while_its_user_reads_the_index(team: Team, dsn: str) -> None:
    """A transaction that stays open keeps the index from being emptied. The next start of the owner makes it anew."""
    role = docs_reader(team)
    assert (await team.databases["reader"].search(SECRET)).hits
    pieces = f'select from "ikigai_index_{role}".search_pieces'.encode()
    with psycopg.connect(team.dsns["reader"]) as reader:
        assert reader.execute(pieces).rowcount
        await team.databases["anna"].sharing.share(team.docs, role, "none")
        assert reader.execute("select from ikigai.messages").rowcount == 0
    await (await Database.open(dsn, MIGRATIONS)).close()
    with psycopg.connect(team.dsns["reader"]) as reader:
        assert reader.execute(pieces).rowcount == 0


async def test_tables_of_a_role_that_are_named_like_an_index_run_nothing_as_the_owner(team: Team, dsn: str) -> None:
    """A role that is no user may be allowed to make schemas, and agents are shared with it, too."""
    role = f"maker_{uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create role {role} login password '{PASSWORD}'".encode())
        admin.execute(f'grant create on database "{admin.info.dbname}" to {role}'.encode())
        try:
            with psycopg.connect(address(dsn, user=role, password=PASSWORD), autocommit=True) as maker:
                for statement in (
                    f"create schema ikigai_index_{role}",
                    f"set search_path = ikigai_index_{role}",
                    "create table search_behind (index_name text, agent_id uuid)",
                    "create function act() returns trigger language plpgsql as"
                    " $$ begin raise exception 'runs as %', current_user; end $$",
                    "create trigger act before insert on search_behind for each row execute function act()",
                    f"grant usage on schema ikigai_index_{role} to public",
                    "grant all on search_behind to public",
                ):
                    maker.execute(statement.encode())
                owner = str(conninfo_to_dict(dsn)["user"])
                index = f'"ikigai_index_{owner}"'
                maker.execute(f"create schema {index}; grant usage on schema {index} to public".encode())
            owned = await Database.open(dsn, MIGRATIONS)
            async with owned._session.use() as cursor:
                await cursor.execute("show search_path")
                assert await cursor.fetchall() == [('"ikigai"',)], "tables there would be taken for those of ikigai"
            await owned.close()
            await team.databases["anna"].sharing.share(team.docs, role, "read")
            await team.databases["anna"].agents.find("docs")
        finally:
            admin.execute("delete from ikigai.agent_access where role = %s", (role,))
            admin.execute(f"drop owned by {role}; drop role {role}".encode())


async def test_functions_of_public_are_not_called_by_a_connection(team: Team, dsn: str) -> None:
    """A connection of a user begins with the search_path of the role, which may have `public` in it."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("grant create on schema public to public")
        try:
            with psycopg.connect(team.dsns["stranger"], options="-csearch_path=public", autocommit=True) as stranger:
                for taken in ("name", "varchar", "regnamespace"):
                    stranger.execute(
                        f"create function quote_ident({taken}) returns text language plpgsql as"
                        " $$ begin raise exception 'runs as %', session_user; end $$".encode()
                    )
            database = await Database.open(team.dsns["reader"], MIGRATIONS)
            assert (await database.agents.find("docs")).name == "docs"
            await database.close()
        finally:
            admin.execute(
                "drop function if exists public.quote_ident(name), public.quote_ident(varchar),"
                " public.quote_ident(regnamespace)"
            )
            admin.execute("revoke create on schema public from public")


async def test_removed_user_has_no_rights_and_its_agents_another_owner(team: Team, dsn: str) -> None:
    admin = await Database.open(dsn, MIGRATIONS)
    anna, writer = (str(conninfo_to_dict(team.dsns[each])["user"]) for each in ("anna", "writer"))
    with pytest.raises(IkigaiError, match="owns 2 agents"):
        await admin.users.remove(anna)
    await team.databases["anna"].close()
    removed = await admin.users.remove(anna, writer)
    assert (removed.given, removed.dropped) == (2, True)
    assert {agent.name for agent in await team.databases["writer"].agents.all()} == {"docs", "notes"}
    assert attack(team, "anna", "select 1", "") is None or attack(team, "anna", "select 1", "") != [(1,)]
    await admin.close()


async def test_password_of_a_new_user_is_in_no_statement(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owned, user, statements = await Database.open(dsn, MIGRATIONS), f"user_{uuid4().hex[:8]}", list[str]()
    execute = psycopg.AsyncCursor.execute

    async def recorded(cursor: psycopg.AsyncCursor, query: Any, *values: Any, **options: Any) -> psycopg.AsyncCursor:
        statements.append(f"{query.as_string() if isinstance(query, psycopg.sql.Composable) else query} {values}")
        return await execute(cursor, query, *values, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", recorded)
    await owned.users.add(user, PASSWORD)
    assert any("create role" in each and "SCRAM-SHA-256" in each for each in statements)
    assert not any(PASSWORD in each for each in statements)
    with psycopg.connect(address(dsn, user=user, password=PASSWORD)) as connection:
        assert connection.info.user == user
    await owned.users.remove(user)
    await owned.close()


async def test_user_who_is_removed_leaves_nothing_to_a_later_one_of_that_name(team: Team, dsn: str) -> None:
    """Nor is a role dropped that ikigai did not make. Of two agents of one name the heir has one under another."""
    owned, anna, guest = await Database.open(dsn, MIGRATIONS), team.databases["anna"], f"guest_{uuid4().hex[:8]}"
    heir = str(conninfo_to_dict(team.dsns["anna"])["user"])
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create role {guest} login password '{PASSWORD}'".encode())
        try:
            await owned.users.add(guest)
            await anna.sharing.share(team.docs, guest, "write")
            used = await Database.open(address(dsn, user=guest, password=PASSWORD), MIGRATIONS)
            mine = await used.agents.create("docs")
            await (await used.open_agent(mine)).close()
            await used.close()
            removed = await owned.users.remove(guest, heir)
            assert (removed.given, removed.dropped) == (1, False)
            assert sorted(agent.name for agent in await anna.agents.all()) == ["docs", f"docs-{mine.id[:4]}", "notes"]
            for table in ("agent_access", "agent_shares", "agent_uses"):
                query = f"select from ikigai.{table} where role = %s"
                assert not admin.execute(query.encode(), (guest,)).rowcount, table
            await owned.users.add(guest)
            used = await Database.open(address(dsn, user=guest, password=PASSWORD), MIGRATIONS)
            assert await used.agents.all(unlisted=True, everyone=True) == [] and await used.agents.last() is None
            await used.close()
            assert not [share for share in await anna.sharing.all() if share.user == guest]
            await owned.users.remove(guest)
        finally:
            await owned.close()
            admin.execute(f"drop owned by {guest}; drop role {guest}".encode())


async def test_agents_of_a_role_that_was_renamed_go_to_its_new_name(dsn: str) -> None:
    """They belong to the old name until its user is removed, which leaves no index of that name."""
    old, new = (f"{name}_{uuid4().hex[:8]}" for name in ("old", "new"))
    owned = await Database.open(dsn, MIGRATIONS)
    await owned.users.add(old, PASSWORD)
    used = await Database.open(address(dsn, user=old, password=PASSWORD), MIGRATIONS)
    talk = await Talk.open(used, await used.agents.create("mine"))
    await talk.turn("kept")
    await talk.log.close()
    await used.close()
    try:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"alter role {old} rename to {new}".encode())
        await owned.users.add(new)
        removed = await owned.users.remove(old, new)
        assert (removed.given, removed.dropped) == (1, False)
        used = await Database.open(address(dsn, user=new, password=PASSWORD), MIGRATIONS)
        assert len((await used.search("kept")).hits) == 1
        last = await used.agents.find("mine")
        assert last.owner == "" and last.may_write
        await used.close()
        with psycopg.connect(dsn) as admin:
            indexes = "select nspname from pg_namespace where nspname in (%s, %s)"
            names = f"ikigai_index_{old}", f"ikigai_index_{new}"
            assert admin.execute(indexes, names).fetchall() == [(names[1],)]
        assert (await owned.users.remove(new, owned.place.user)).dropped
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            for name in (old, new):
                admin.execute(f"drop schema if exists ikigai_index_{name} cascade".encode())
        await owned.close()


async def test_new_version_renews_users_without_the_right_to_make_schemas(
    empty_dsn: str, empty_role: str, tmp_path: Path
) -> None:
    """Who owns the tables had the right to make schemas once; the indexes of users are made anew in theirs."""
    owner, user = str(conninfo_to_dict(empty_role)["user"]), f"user_{uuid4().hex[:8]}"
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        database = str(admin.info.dbname)
        admin.execute(f'grant create on database "{database}" to {owner}'.encode())
        admin.execute(f"create role {user} login password '{PASSWORD}'".encode())
        try:
            owned = await Database.open(empty_role, MIGRATIONS)
            await owned.users.add(user)
            await owned.close()
            admin.execute(f'revoke create on database "{database}" from {owner}'.encode())
            table = "create table further (n int); comment on table further is 'x';"
            owned = await Database.open(empty_role, folder(tmp_path / "m", table))
            copies = (
                "select count(*) from pg_tables where schemaname = %s and tablename in ('further', 'search_pieces')"
            )
            assert admin.execute(copies, (f"ikigai_index_{user}",)).fetchall() == [(2,)]
            used = await Database.open(address(empty_dsn, user=user, password=PASSWORD), tmp_path / "m")
            talk = await Talk.open(used)
            await talk.turn("found again")
            assert (await used.search("found")).hits
            await talk.log.close()
            await used.close()
            await owned.users.remove(user, owner)
            await owned.close()
        finally:
            admin.execute(f"drop owned by {user}; drop role {user}".encode())


def first_migrations(target: Path, last: int) -> Path:
    """Return a folder with the migrations up to this version."""
    target.mkdir()
    for migration in read_migrations(MIGRATIONS)[:last]:
        shutil.copy(migration.file, target)
    return target


DIE_IN_REFRESH = """
import asyncio, os, signal, sys
from pathlib import Path
from ikigai.store.database import Database
from ikigai.store.users import Users
grant, dsn, migrations, last = Users._grant, *sys.argv[1:]
granted = []
async def dying(*which):
    if len(granted) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    granted.append(which)
    await grant(*which)
Users._grant = dying
asyncio.run(Database.open(dsn, Path(migrations)))
"""


@pytest.mark.parametrize("granted", [0, 1])
async def test_start_of_the_owner_gives_users_what_a_killed_migration_left_out(
    empty_dsn: str, tmp_path: Path, granted: int
) -> None:
    users = [f"user_{uuid4().hex[:8]}" for _ in range(2)]
    migrations = folder(tmp_path / "m", "create table further (n int); comment on table further is 'x';")
    owned = await Database.open(empty_dsn, MIGRATIONS)
    for user in users:
        await owned.users.add(user, "a password of theirs")
    await owned.close()
    arguments = "-c", DIE_IN_REFRESH, empty_dsn, str(migrations), str(granted)
    killed = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await killed.wait() == -signal.SIGKILL
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        copies = "select schemaname from pg_tables where tablename = 'further' and schemaname like '%index%'"
        assert admin.execute(copies).rowcount == granted
        reading = await Database.open(empty_dsn, migrations, write=False)
        await reading.close()
        used = await Database.open(address(empty_dsn, user=users[1], password="a password of theirs"), migrations)
        await used.close()
        assert admin.execute(copies).rowcount == granted, "neither a reader nor a user can"
        pieces = "select oid from pg_class where relname = 'search_pieces' order by 1"
        before = admin.execute(pieces).fetchall()
        owned = await Database.open(empty_dsn, migrations)
        assert admin.execute(copies).rowcount == 2
        after = admin.execute(pieces).fetchall()
        assert len({*before} & {*after}) == 1 + granted, "indexes that are made already stay"
        await owned.close()
        owned = await Database.open(empty_dsn, migrations)
        assert admin.execute(pieces).fetchall() == after
        for user in users:
            await owned.users.remove(user)
        await owned.close()


async def test_user_who_holds_a_table_of_their_index_does_not_keep_the_owner_from_starting(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "WAIT_BRIEFLY", "select set_config('lock_timeout', '100ms', true)", raising=False)
    held, other = sorted(f"user_{uuid4().hex[:8]}" for _ in range(2))
    owned = await Database.open(empty_dsn, MIGRATIONS)
    for user in (held, other):
        await owned.users.add(user, PASSWORD)
    await owned.close()
    behind = "select array_agg(nspname::text) from pg_namespace where obj_description(oid, 'pg_namespace') = 'earlier'"
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        for user in (held, other):
            admin.execute(f"comment on schema ikigai_index_{user} is 'earlier'".encode())
        with psycopg.connect(address(empty_dsn, user=held, password=PASSWORD)) as client:
            client.execute(f"select from ikigai_index_{held}.search_pieces".encode())
            owned = await asyncio.wait_for(Database.open(empty_dsn, MIGRATIONS), 60)
            assert admin.execute(behind).fetchall() == [([f"ikigai_index_{held}"],)]
            await owned.close()
        owned = await Database.open(empty_dsn, MIGRATIONS)
        assert admin.execute(behind).fetchall() == [(None,)]
        for user in (held, other):
            await owned.users.remove(user)
        await owned.close()


@pytest.mark.parametrize("is_summed", [True, False])
async def test_usage_of_a_user_is_whole_while_their_index_is_of_an_earlier_version(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_summed: bool
) -> None:
    """A migration gives the users what it makes at its end, behind a long analysis, or not at all if it is killed."""
    user, earlier = f"user_{uuid4().hex[:8]}", first_migrations(tmp_path / "m", 28)
    owned = await Database.open(empty_dsn, earlier)
    await owned.users.add(user, PASSWORD)
    await owned.close()
    theirs = address(empty_dsn, user=user, password=PASSWORD)
    used = await Database.open(theirs, earlier)
    log = await used.open_agent(await used.agents.create())
    await log.append((ev.UsageReported("a/b", cost=5.0), ev.UsageReported("a/b", cost=5.0)))
    await used.close()
    with psycopg.connect(empty_dsn, options=f"-csearch_path=ikigai_index_{user},ikigai") as admin:
        summed = "select agent_id, max(seq), max(id) from messages where %s group by 1"
        admin.execute(f"insert into usage_progress (agent_id, seq, message) {summed}".encode(), (is_summed,))
        admin.execute("delete from search_behind where index_name = 'usage' and %s", (is_summed,))

    async def killed(_: object) -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(Users, "refresh", killed)
        await (await Database.open(empty_dsn, MIGRATIONS)).close()
    used = await Database.open(theirs, MIGRATIONS)
    await used.usage.sum_up()
    try:
        for by in ("day", "model", "agent", "user"):
            assert (await used.usage.groups(by)).total.requests == 2, by
        assert (await used.usage.totals()).requests == 2
    finally:
        await used.close()
        owned = await Database.open(empty_dsn, MIGRATIONS)
        await owned.users.remove(user, owned.place.user)
        await owned.close()


async def test_administrator_who_is_a_user_migrates_the_common_schema(
    empty_role: str, empty_dsn: str, tmp_path: Path
) -> None:
    """Connections of a user find the tables of their own index first."""
    owner, database = (str(conninfo_to_dict(empty_role)[part]) for part in ("user", "dbname"))
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        administrator = str(conninfo_to_dict(empty_dsn)["user"])
        admin.execute(f'grant create on database "{database}" to {owner}; alter role {owner} createrole'.encode())
        owned = await Database.open(empty_role, first_migrations(tmp_path / "m", 26))
        await owned.users.add(administrator)
        await owned.close()
        await (await Database.open(empty_dsn, MIGRATIONS)).close()
        made = "select pronamespace::regnamespace::text, proconfig from pg_proc where proname = 'ikigai_name_spender'"
        found = admin.execute(made).fetchall()
        admin.execute("drop schema ikigai cascade")  # with what belongs to the administrator there
    assert found == [("ikigai", ["search_path=ikigai, pg_temp"])]


@pytest.mark.parametrize(("first", "by"), [(22, "owner"), (25, "administrator"), (26, "owner")])
async def test_database_that_an_administrator_migrated_into_their_index_is_mended(
    empty_role: str, empty_dsn: str, tmp_path: Path, first: int, by: str
) -> None:
    owner, database = (str(conninfo_to_dict(empty_role)[part]) for part in ("user", "dbname"))
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        administrator = str(conninfo_to_dict(empty_dsn)["user"])
        admin.execute(f'grant create on database "{database}" to {owner}; alter role {owner} createrole'.encode())
        owned = await Database.open(empty_role, first_migrations(tmp_path / "m", first))
        await owned.users.add(administrator)
        await owned.close()
        try:
            index = f"ikigai_index_{administrator}"
            admin.execute(f"set search_path = {index}, ikigai".encode())
            for migration in read_migrations(MIGRATIONS)[first:28]:
                with admin.transaction():
                    admin.execute(migration.file.read_bytes())
                    record = "insert into ikigai_migrations (version, name) values (%s, %s)"
                    admin.execute(record, (migration.version, migration.file.stem[5:]))
            tables = admin.execute("select tablename from pg_tables where schemaname = %s", (index,)).fetchall()
            for (table,) in tables:  # as it was made anew then
                admin.execute(f"drop table {index}.{table} cascade".encode())
            misplaced = "select 1 from pg_proc where pronamespace = %s::regnamespace union all select 2 from pg_views"
            assert admin.execute(f"{misplaced} where schemaname = %s".encode(), (index, index)).rowcount
            await (await Database.open(empty_role if by == "owner" else empty_dsn, MIGRATIONS)).close()
            assert not admin.execute(f"{misplaced} where schemaname = %s".encode(), (index, index)).rowcount
            assert description(empty_dsn) == SCHEMA.read_text()
            others = (
                "select relname from pg_class where relnamespace = 'ikigai'::regnamespace and relowner <> %s::regrole"
            )
            assert not admin.execute(others, (owner,)).fetchall()
            owned = await Database.open(empty_role, MIGRATIONS)
            talk = await Talk.open(owned)
            await talk.turn("a canary")
            assert (await owned.search("canary")).hits
            purge = owned.purge(PurgeTarget("canary"), ((0, 1 << 62),))
            await purge.carry_out(await purge.find())
            assert not (await owned.search("canary")).hits
            await talk.log.close()
            await owned.close()
        finally:
            admin.execute("drop schema ikigai cascade")  # with what belongs to the administrator there


async def test_agents_that_get_another_owner_are_worked_out_once(dsn: str) -> None:
    """As a restore and the removal of a user do it: not once for each of them."""
    with psycopg.connect(dsn) as admin:
        admin.execute(
            "insert into agents (id, name, owner)"
            " select gen_random_uuid(), 'a' || n, 'gone' from generate_series(1, 50) n"
        )
    with psycopg.connect(dsn) as admin:
        admin.execute("update agents set owner = session_user where owner = 'gone'")
        written = "select n_tup_ins from pg_stat_xact_user_tables where relname = 'agent_access'"
        assert admin.execute(written).fetchone() == (50,)
        who = "select role = session_user, count(*), bool_and(may_write) from agent_access group by 1"
        assert admin.execute(who).fetchall() == [(True, 50, True)]


async def test_dump_of_a_role_has_what_it_may_read_and_is_restored(
    team: Team, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    reader = team.databases["reader"]
    docs = await reader.agents.find("docs")
    at = await reader.tree.fork_point(docs)
    await reader.tree.fork(docs, at, (ev.Forked("docs", at),), "mine")
    await team.databases["anna"].sharing.share(team.docs, docs_reader(team), "none")
    talk = await Talk.open(team.databases["anna"], await team.databases["anna"].agents.find("docs"))
    await talk.turn("said later")
    await talk.log.close()
    file = tmp_path / "reader.dump"
    assert await dump.dump(team.dsns["reader"], find_binaries(), file) == docs_reader(team)
    assert await dump.dump(dsn, find_binaries(), tmp_path / "all.dump") == ""
    readable = len(team.sql("reader", "select id from messages"))
    assert await dump.restore(empty_dsn, find_binaries(), file, MIGRATIONS) == readable
    restored = await Database.open(empty_dsn, MIGRATIONS)
    everyone = await restored.agents.all(unlisted=True, everyone=True)
    assert {agent.name for agent in everyone} == {"docs", "mine"}
    mine = await restored.agents.find("mine")
    events = [row.event for row in await restored.reader(mine).history(None, 100)]
    texts = [event.text for event in events if isinstance(event, ev.UserMessage)]
    assert any(SECRET in text for text in texts) and "said later" not in texts
    memory = await (await restored.open_agent(mine)).load(load_memory(RUN, mine.id))
    assert memory.window.turns
    await restored.close()


async def test_role_restores_its_dump_into_a_database_of_its_own(team: Team, dsn: str, tmp_path: Path) -> None:
    """It is no superuser there. Agents of a role that the server has still belong to that one."""
    writer = team.databases["writer"]
    talk = await Talk.open(writer, await writer.agents.create("mine"))
    await talk.turn("kept")
    await talk.log.close()
    assert await dump.dump(team.dsns["writer"], find_binaries(), tmp_path / "d")
    with pytest.raises(Rejected, match=r"do not belong to writer_.*; nothing was restored") as refused:
        await dump.restore(team.dsns["writer"], find_binaries(), tmp_path / "d", MIGRATIONS)
    assert "a database of your own" in refused.value.remedy
    role = str(conninfo_to_dict(team.dsns["writer"])["user"])
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create database {role} owner {role}".encode())
    own = address(team.dsns["writer"], dbname=role)
    try:
        events = await dump.restore(own, find_binaries(), tmp_path / "d", MIGRATIONS)
        with psycopg.connect(own, options="-csearch_path=ikigai") as connection:
            assert connection.execute("select count(*) from messages").fetchall() == [(events,)]
            owners = dict(connection.execute("select name, owner from agents").fetchall())
        assert owners == {"docs": str(conninfo_to_dict(team.dsns["anna"])["user"]), "mine": role}
        restored = await Database.open(own, MIGRATIONS)
        talk = await Talk.open(restored, await restored.agents.find("mine"))
        await talk.turn("goes on")
        await talk.log.close()
        assert len((await restored.search("kept")).hits) == 1
        await restored.close()
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"drop database {role} with (force)".encode())


async def test_fork_of_a_shared_agent_keeps_what_its_owner_does_not_purge(team: Team, dsn: str) -> None:
    """It stays when the share ends and the owner is removed. What the owner purges is gone there, too."""
    reader, anna = team.databases["reader"], team.databases["anna"]
    docs = await reader.agents.find("docs")
    at = await reader.tree.fork_point(docs)
    mine = await reader.tree.fork(docs, at, (ev.Forked("docs", at),), "mine")
    await anna.sharing.share(team.docs, docs_reader(team), "none")

    async def said() -> list[str]:
        events = [row.event for row in await reader.reader(mine).history(None, 100)]
        return [event.text for event in events if isinstance(event, ev.UserMessage)]

    assert any(SECRET in text for text in await said())
    admin = await Database.open(dsn, MIGRATIONS)
    role = {name: str(conninfo_to_dict(team.dsns[name])["user"]) for name in ROLES}
    purge = anna.purge(None, ((1, at),), team.docs.id)
    await purge.carry_out(await purge.find())
    assert not any(SECRET in text for text in await said())
    talk = await Talk.open(reader, mine)
    await talk.turn("goes on")
    await talk.log.close()
    await anna.close()
    assert (await admin.users.remove(role["anna"], role["stranger"])).dropped
    talk = await Talk.open(reader, await reader.agents.find("mine"))
    await talk.turn("still goes on")
    await talk.log.close()
    assert (await said())[-2:] == ["goes on", "still goes on"]
    assert did_nothing(attack(team, "reader", READS["log"], team.notes.id))
    await admin.close()


async def test_day_of_a_role_has_what_it_spent_alone(team: Team) -> None:
    spent: dict[str, float] = {}
    for role, cost in (("anna", 1), ("writer", 20)):
        database = team.databases[role]
        log = await database.open_agent(await database.agents.find("docs"))
        await log.append((ev.UsageReported("a/b", cost=cost),))
        await log.close()
    for role, database in team.databases.items():
        query = SpendingQuery(str(uuid4()), time.time() - 3_600)
        spent[role] = float((await database.usage.spent(team.docs.id, query))["day"].usd)
    assert spent == {"anna": 1, "writer": 20, "reader": 0, "stranger": 0}
    spender = "select spent_by from usage where spent_by <> ''"
    assert team.sql("reader", spender) == [(conninfo_to_dict(team.dsns["writer"])["user"],)]


NEXT_SEQ = "(select coalesce(max(seq), 0) + 1 from messages where agent_id = agent)"
TARGET = "from (values (%s::uuid)) as target (agent)"


async def test_role_cannot_charge_another_one(team: Team) -> None:
    """The program names who sent a request. What another program says is not believed."""
    role = {name: str(conninfo_to_dict(team.dsns[name])["user"]) for name in ROLES}
    mine = await team.databases["writer"].agents.create("mine")
    await team.databases["writer"].sharing.share(mine, role["reader"], "read")
    insert = (
        "insert into messages (event_id, agent_id, seq, kind, data)"
        f" select gen_random_uuid(), agent, {NEXT_SEQ}, 'usage',"
        f" %s::jsonb {TARGET} returning coalesce(data ->> 'spent_by', '')"
    )
    lies = ({}, {"spent_by": ""}, {"spent_by": role["anna"]}, {"spent_by": role["reader"]}, {"spent_by": "somebody"})
    for said in lies:
        data = json.dumps({"model": "a/b", "cost": 7} | said)
        assert team.sql("writer", insert, data, team.docs.id) == [(role["writer"],)]
        left = [("somebody" if said == lies[-1] else "",)]
        assert team.sql("writer", insert, data, mine.id) == left, "its own agent, which another one reads"
    assert attack(team, "writer", WRITES["append"], mine.id) == 1
    for kind in ("usage", "user"):
        change = (
            "select set_config('ikigai.purge', pg_current_xact_id()::text, true); update messages set kind = 'usage',"
            f""" data = '{{"spent_by": "{role["reader"]}"}}' where agent_id = %(agent)s and kind = '{kind}'"""
        )
        assert did_nothing(attack(team, "writer", change, mine.id)), kind
    query = SpendingQuery(str(uuid4()), time.time() - 3_600)
    for name in ROLES:
        spent = (await team.databases[name].usage.spent(team.docs.id, query))["day"].usd
        assert spent == (7 * (2 * len(lies) - 1) if name == "writer" else 0), name


def chosen(agents_own: bool = True, **values: Any) -> ev.SettingsChanged:
    return ev.SettingsChanged(values, dict.fromkeys(values, "agent" if agents_own else "flag"))


# What a writer says is the agent's own choice of the approval mode, and what is stored of it: None for no choice.
APPROVALS: list[tuple[ev.Event, str | None]] = [
    (chosen(approval="yolo"), "ask"),
    (chosen(approval="auto", budget=5_000), "ask"),
    (chosen(approval="edits"), "ask"),
    (chosen(approval=None), "ask"),  # a profile may stand behind it
    (chosen(profile="loose"), "ask"),
    (chosen(profile="loose", approval="read-only"), "read-only"),
    (ev.SettingsChanged({"profile": "loose", "approval": "yolo"}, {"profile": "agent", "approval": "flag"}), "ask"),
    (chosen(approval="ask"), "ask"),
    (chosen(approval="read-only"), "read-only"),
    (chosen(budget=5_000), None),
    (chosen(profile=None), None),
    (chosen(agents_own=False, approval="yolo"), None),
    (ev.Cleared({"approval": "yolo", "budget": 5_000}), "ask"),
    (ev.Cleared({"profile": "loose"}), "ask"),
    (ev.Cleared({"approval": "read-only", "profile": "loose"}), "read-only"),
    (ev.Cleared({"budget": 5_000}), None),
]


async def test_writer_does_not_choose_that_tools_run_unasked_at_the_owner(team: Team) -> None:
    def choice(event: ev.Event) -> Any:
        if isinstance(event, ev.Cleared):
            return event.own.get("approval")
        assert isinstance(event, ev.SettingsChanged)
        return event.values.get("approval") if event.origins.get("approval") == "agent" else None

    anna, writer = team.databases["anna"], team.databases["writer"]
    log = await writer.open_agent(await writer.agents.find("docs"))
    for event, stored in APPROVALS:
        (row,) = (await log.append((event,))).rows
        assert choice(row.event) == stored, event
        if isinstance(event, ev.SettingsChanged) and isinstance(row.event, ev.SettingsChanged):
            others = {key: value for key, value in event.values.items() if key != "approval"}
            assert row.event.values.items() >= others.items()
    await log.append((chosen(approval="yolo"),))
    await log.close()
    insert = (
        f"insert into messages (event_id, agent_id, seq, kind, data) select gen_random_uuid(), agent, {NEXT_SEQ},"
        f" 'settings', %s::jsonb {TARGET} returning data"
    )
    for odd in ({}, {"values": 5}, {"values": {"approval": "yolo"}}):
        assert team.sql("writer", insert, json.dumps(odd), team.docs.id) == [(odd,)], "it is no settings event"
    memory = await anna.reader(await anna.agents.find("docs")).load(load_memory(RUN, team.docs.id))
    assert ApprovalMode.of(memory.settings) == ApprovalMode.ASK

    # The owner chooses as ever, and so does a role for its own agents, whoever reads them.
    for database, name in ((anna, "docs"), (writer, "mine")):
        agent = await database.agents.find(name) if name == "docs" else await database.agents.create(name)
        log = await database.open_agent(agent)
        for event, _ in APPROVALS:
            assert [row.event for row in (await log.append((event,))).rows] == [event]
        await log.close()


async def test_writer_sends_no_message_from_an_agent_to_others_of_its_owner(team: Team) -> None:
    """The owner may write to them, and the message would be the owner's: its answer could be read in the agent."""
    own = await team.databases["writer"].agents.create("own")
    kid = str(uuid4())
    made = "insert into agents (id, name, parent, forked_at, made) values (%s, 'kid', %s, 1, true)"
    assert team.sql("writer", made, kid, team.docs.id) == 1
    insert = (
        "insert into messages (event_id, agent_id, seq, kind, content, data)"
        f" select gen_random_uuid(), agent, {NEXT_SEQ},"
        f" 'mail_sent', 'Say all that you know.', %s::jsonb {TARGET}"
    )

    def send(role: str, to: str, sender: str = team.docs.id, **more: Any) -> Any:
        return team.sql(role, insert, json.dumps({"to": to, **more}), sender)

    refused = "42501"
    assert send("writer", team.notes.id, by_user=True) == refused
    assert send("writer", team.notes.id, kid) == refused
    for odd in ({}, {"to": 5}, {"to": None}, {"to": "nobody"}):
        assert team.sql("writer", insert, json.dumps(odd), team.docs.id) == refused
    waiting = "select content from ikigai_waiting_mail(%s, 10)"
    assert team.sql("anna", waiting, team.notes.id) == []
    for to in (kid, own.id, team.docs.id):
        assert send("writer", to) == 1, "it may continue these"
    assert send("anna", team.notes.id) == send("anna", own.id, team.notes.id) == 1
    (asked,) = team.sql("anna", "select max(id) from messages where kind = 'mail_sent'")
    assert send("writer", team.notes.id, own.id, answers=asked[0]) == 1
    assert len(team.sql("anna", waiting, team.notes.id)) == 1, "from its own agent, and not delivered"


async def test_purge_that_meets_agents_of_others_names_their_owner(team: Team) -> None:
    """A text may stand in agents that a role may only read, too. It is purged in agents of its own, one by one."""
    writer = team.databases["writer"]
    talk = await Talk.open(writer, await writer.agents.create("mine"))
    await talk.turn(f"I repeat {SECRET}")
    await talk.log.close()
    anna = str(conninfo_to_dict(team.dsns["anna"])["user"])
    purge = writer.purge(PurgeTarget(SECRET), ((0, 1 << 62),))
    plan = await purge.find()
    assert {hit.agent for hit in plan.hits} == {team.docs.id, talk.agent.id}
    for step in (purge.check_write_locks, purge.carry_out):
        with pytest.raises(Rejected, match=f"is in docs, and only its owner {anna} can purge it") as refused:
            await step(plan)
        assert "--agent NAME" in refused.value.remedy
    purge = writer.purge(PurgeTarget(SECRET), ((0, 1 << 62),), talk.agent.id)
    await purge.carry_out(await purge.find())
    left = "select count(*) from messages where content like %s group by agent_id"
    assert team.sql("writer", left, f"%{SECRET}%") == [(1,)], "in docs"
