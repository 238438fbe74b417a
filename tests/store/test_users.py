"""Roles of people: each has a schema that no other role gets into, and several may use a shared one."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from ikigai.core.errors import BadDatabase, IkigaiError, Misconfigured, Rejected, Unavailable
from ikigai.core.events import events as ev
from ikigai.store.connection.address import MAX_NAME_BYTES
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.database import Database
from ikigai.store.embedded.server import find_binaries
from ikigai.store.schema.users import Users
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk

SECRET = "lighthouse"

# What a role tries with the schema {a} of another one, {them}; it owns the schema {b}. Of those that only look, a row
# would be a success.
ATTACKS = """
select content from {a}.messages
select name from {a}.agents
select text from {a}.transcript
select asked from {a}.turns
select model from {a}.usage
select text from {a}.drafts
select {a}.ikigai_id('1'::jsonb)
select * from {a}.ikigai_lineage(gen_random_uuid())
select content from "{a}"."messages" limit 1
table {a}.messages
insert into {a}.agents (id, name) values (gen_random_uuid(), 'mine')
update {a}.messages set content = 'x'
delete from {a}.messages
truncate {a}.messages cascade
merge into {a}.agents using (select 1) as one on true when matched then update set name = 'x'
drop table {a}.drafts
drop view {a}.turns
drop schema {a} cascade
alter schema {a} rename to mine
alter schema {a} owner to {us}
alter table {a}.messages disable trigger all
alter table {a}.messages owner to {us}
alter table {a}.messages enable row level security
alter function {a}.ikigai_append_only() security definer
create table {a}.mine (n int)
create view {a}.mine as select 1
create function {a}.mine() returns int language sql return 1
create or replace function {a}.ikigai_append_only() returns trigger language plpgsql as 'begin return null; end'
create index on {a}.messages (content)
create trigger mine before insert on {a}.messages for each row execute function {b}.ikigai_append_only()
create rule mine as on insert to {a}.messages do nothing
create view {b}.theirs as select * from {a}.messages
create table {b}.theirs (like {a}.messages including all)
create table {b}.heirs () inherits ({a}.messages)
create table {b}.child (agent uuid references {a}.agents)
create temp table theirs as select * from {a}.messages
create function {b}.peek() returns text security definer language sql begin atomic select content from {a}.messages; end
do $$ begin execute 'select content from {a}.messages'; end $$
select query_to_xml('select content from {a}.messages', true, false, '')
select table_to_xml('{a}.messages', true, false, '')
set search_path = {a}; table messages
set search_path = {a}; insert into agents (id, name) values (gen_random_uuid(), 'mine')
create temp table agents (id uuid); set search_path = {a}, pg_temp; select ikigai_id('1')
copy {a}.messages to stdout
copy {a}.agents from '/dev/null'
copy (select content from {a}.messages) to program 'cat'
lock table {a}.messages in access exclusive mode
select nextval('{a}.messages_id_seq')
select setval('{a}.messages_id_seq', 1)
select last_value from {a}.messages_id_seq
comment on table {a}.messages is 'mine'
grant usage on schema {a} to {us}; table {a}.messages
grant select on all tables in schema {a} to {us}
grant {them} to {us}
alter default privileges for role {them} in schema {a} grant select on tables to {us}
alter default privileges for role {them} grant execute on functions to {us}
set role {them}
set session authorization {them}
set local role {them}
reassign owned by {them} to {us}
drop owned by {them}
drop role {them}
alter role {them} password 'x'
alter role {them} set search_path = {b}
alter role {us} superuser
alter database {database} set search_path = {b}
create schema mine
create function public.ikigai_id(jsonb) returns bigint language sql return 1
create publication mine for table {a}.messages
create statistics {b}.mine on content, kind from {a}.messages
security label on table {a}.messages is 'x'
select lo_get({large})
select lo_unlink({large})
select lo_put({large}, 0, 'x')
select data from pg_largeobject
select words from {temporary}.secrets
select most_common_vals from pg_stats where schemaname = '{a}' and tablename = 'messages'
select stavalues1 from pg_statistic
select query from pg_stat_activity where usename = '{them}' and query like '%{secret}%'
select client_addr from pg_stat_activity where usename = '{them}' and state is not null
select column_name from information_schema.columns where table_schema = '{a}'
select pg_terminate_backend(pid) from pg_stat_activity where usename = '{them}'
select pg_cancel_backend(pid) from pg_stat_activity where usename = '{them}'
select pg_read_file('pg_hba.conf')
select pg_ls_dir('base')
select passwd from pg_shadow
select rolpassword from pg_authid
""".strip().splitlines()


@pytest.fixture
async def users(empty_dsn: str) -> AsyncIterator[Users]:
    """Yield the users of an empty database, seen by its owner."""
    session = DatabaseSession(empty_dsn, schema="pg_catalog")
    yield Users(session)
    await session.close()


def as_role(dsn: str, name: str) -> str:
    return address(dsn, user=name, password="a password of theirs")


async def open_as(dsn: str, name: str, schema: str = "") -> Database:
    return await Database.open(as_role(dsn, name), MIGRATIONS, name=schema or name)


async def test_role_has_a_schema_of_its_own_and_needs_no_right_of_an_administrator(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, *_ = people
    assert [await users.add(anna, "a password of theirs") for _ in range(2)] == [True, False]
    database = await open_as(empty_dsn, anna)
    talk = await Talk.open(database)
    await talk.turn("the lighthouse")
    assert [hit.agent for hit in (await database.search("lighthouse")).hits] == [talk.agent.name]
    await talk.log.close()
    await database.close()
    (found,) = await users.list_schemas()
    assert (found.schema, found.owner, found.shared, found.roles) == (anna, anna, False, (anna,)) and found.size > 0
    with psycopg.connect(empty_dsn) as other:
        granted = other.execute(
            "select from pg_namespace cross join aclexplode(nspacl) as acl"
            " where nspname = %s and acl.grantee <> nspowner",
            (anna,),
        )
        assert granted.fetchall() == []


async def test_statements_of_one_role_reach_nothing_of_another(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, bela, _ = people
    for name in (anna, bela):
        await users.add(name, "a password of theirs")
        database = await open_as(empty_dsn, name)
        talk = await Talk.open(database)
        await talk.turn(SECRET, SECRET)
        await talk.log.append((ev.UsageReported("a/b"),))
        await talk.log.close()
        await database.close()
    with psycopg.connect(as_role(empty_dsn, anna), autocommit=True) as hers:
        hers.execute(sql.SQL("set search_path = {}").format(sql.Identifier(anna)))
        hers.execute("analyze")
        hers.execute("create temp table secrets as select %s::text as words", (SECRET,))
        ((large, temporary),) = hers.execute(
            "select lo_from_bytea(0, %s), nspname from pg_namespace where oid = pg_my_temp_schema()", (SECRET.encode(),)
        ).fetchall()
        log = "select md5(string_agg(messages::text, ',' order by id)), count(*) from messages"
        before = hers.execute(log).fetchall()
        hers.execute(f"select '{SECRET}'".encode())
        names = {"a": anna, "b": bela, "us": bela, "them": anna, "large": large, "temporary": temporary}
        names |= {"secret": SECRET, "database": hers.info.dbname}
        tried = [attack.format(**names) for attack in ATTACKS]
        succeeded = [attack for attack in tried if psql(empty_dsn, bela, attack)]
        assert len(tried) >= 80 and succeeded == []
        assert hers.execute(log).fetchall() == before
        assert hers.execute("select lo_get(%s)", (large,)).fetchall() == [(SECRET.encode(),)]
        hers.execute("select lo_unlink(%s)", (large,))
    mine = [f"select content from {bela}.messages", f"select asked from {bela}.turns", f"drop table {bela}.drafts"]
    assert all(psql(empty_dsn, bela, statement) for statement in mine), "what one may do in the schema of one's own"


def psql(dsn: str, name: str, statement: str) -> bool:
    """Return True if the statement succeeds as this role; one that only looks, if it finds anything."""
    command = [find_binaries() / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, as_role(dsn, name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    return done.returncode == 0 and bool(done.stdout.strip() or not statement.startswith("select"))


async def test_roles_of_a_shared_schema_continue_one_conversation(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, bela, team = people
    for name in (anna, bela):
        await users.add(name, "a password of theirs")
    await users.add_shared(team, [anna])
    first = await open_as(empty_dsn, anna, team)
    talk = await Talk.open(first)
    await talk.turn("from anna")
    await talk.log.close()
    with pytest.raises(Misconfigured, match=f"{bela} may not use the schema {team}") as refused:
        await open_as(empty_dsn, bela, team)
    assert refused.value.remedy.startswith(f"Use --schema {bela}, or let its owner run: GRANT USAGE, CREATE ON SCHEMA")
    assert await users.add_shared(team, [bela]) == sorted((anna, bela)), "all that use it"
    session = DatabaseSession(as_role(empty_dsn, bela), schema="pg_catalog")
    assert (await Users(session).list_schemas())[-1].roles == tuple(sorted((anna, bela))), "each of them sees the same"
    await session.close()
    second = await open_as(empty_dsn, bela, team)
    assert await second.agents.last() is None, "each has a last conversation"
    log = await second.open_agent(await second.agents.find(talk.agent.name))
    await log.append((ev.UserMessage("from bela"),))
    await log.close()
    lasts = [await database.agents.last() for database in (first, second)]
    assert [last.id for last in lasts if last] == [talk.agent.id] * 2
    log = await first.open_agent(await first.agents.find(talk.agent.name))
    await log.append((ev.TurnEnded(ev.Ending.COMPLETED),))
    await log.close()
    assert [hit.agent for hit in (await first.search("bela")).hits] == [talk.agent.name]
    await second.tree.rename(talk.agent, "ours")
    assert (await first.agents.find("ours")).id == talk.agent.id
    with psycopg.connect(as_role(empty_dsn, bela), autocommit=True) as theirs:
        theirs.execute(sql.SQL("create table {} (n int)").format(sql.Identifier(team, "notes")))
    with psycopg.connect(as_role(empty_dsn, anna), autocommit=True) as hers:
        hers.execute(sql.SQL("insert into {} values (1)").format(sql.Identifier(team, "notes")))
        owners = hers.execute(
            "select distinct relowner::regrole::text from pg_class where relnamespace = %s::regnamespace and"
            " relname <> 'notes'", (team,),
        )  # fmt: skip
        assert owners.fetchall() == [(team,)]
    found = {each.schema: each for each in await users.list_schemas()}
    assert found[team].shared and found[team].roles == tuple(sorted((anna, bela)))
    await users.leave(bela, team)
    with pytest.raises(Rejected, match=f"{bela} does not use the schema {team}"):
        await users.leave(bela, team)
    with pytest.raises(IkigaiError, match=f"may not use the schema {team}"):
        await second.agents.find("ours")
    await second.close()
    await first.close()


async def test_removed_role_leaves_its_conversations_to_whom_is_named(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, bela, team = people
    for name in (anna, bela):
        await users.add(name, "a password of theirs")
    database = await open_as(empty_dsn, anna)
    talk = await Talk.open(database)
    await talk.turn()
    await talk.log.close()
    await database.close()
    with pytest.raises(Rejected, match=f"schema {anna} holds 1 conversation\\.") as refused:
        await users.remove(anna)
    assert f"ikigai db users remove {anna} --give-to ROLE" in refused.value.remedy
    for heir in (anna, "nobody"):
        with pytest.raises(Rejected, match="cannot get the conversations"):
            await users.remove(anna, heir)
    assert await users.remove(anna, bela) and not await users.exists(anna)
    database = await open_as(empty_dsn, bela, anna)
    log = await database.open_agent(await database.agents.find(talk.agent.name))
    await log.append((ev.UserMessage("on"),))
    await log.close()
    await database.close()
    with pytest.raises(Rejected, match=f"no schema '{anna}' of a role"):
        await users.remove(anna)
    await users.add_shared(team, [bela])
    with psycopg.connect(empty_dsn) as owner:
        owner.execute(sql.SQL("create table {} (n int)").format(sql.Identifier(team, "theirs")))
    with pytest.raises(Rejected, match=f"schema {team} holds tables\\."):
        await users.remove(team)
    assert await users.remove(team, delete=True)
    assert not await users.remove(bela, delete=True), "it owns what it was given"
    assert [each.schema for each in await users.list_schemas()] == [anna]
    database = await open_as(empty_dsn, bela, anna)
    assert await database.agents.get(talk.agent.id)
    await database.close()


async def test_role_that_ikigai_did_not_make_stays(users: Users, empty_dsn: str, people: tuple[str, str, str]) -> None:
    anna, *_ = people
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(sql.SQL("create role {} login").format(sql.Identifier(anna)))
    await users.add(anna)
    with pytest.raises(Rejected, match=f"There is a role {anna} already"):
        await users.add_shared(anna, [anna])
    assert not await users.remove(anna) and await users.exists(anna) and await users.list_schemas() == []


async def test_administrator_need_not_be_a_superuser(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, bela, team = people
    admin, third = f"admin_{uuid4().hex[:8]}", f"third_{uuid4().hex[:8]}"
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(f"create role {admin} login".encode())
    session = DatabaseSession(as_role(empty_dsn, admin), schema="pg_catalog")
    limited = Users(session)
    try:
        with pytest.raises(BadDatabase, match=f"{admin} may not change roles") as refused:
            await limited.add(anna)
        assert f'ALTER ROLE "{admin}" CREATEROLE;' in refused.value.remedy
        with psycopg.connect(empty_dsn, autocommit=True) as owner:
            owner.execute(f"alter role {admin} createrole".encode())
            with pytest.raises(BadDatabase, match="permission denied for database") as refused:
                await limited.add(anna)
            assert not await users.exists(anna), "all or nothing"
            owner.execute(refused.value.remedy.removeprefix("Let the owner of the database run: ").encode())
        for name in (anna, bela):
            await limited.add(name, "a password of theirs")
        await limited.add_shared(team, [anna, bela])
        database = await open_as(empty_dsn, anna, team)
        await (await Talk.open(database)).turn()
        await database.close()
        with psycopg.connect(as_role(empty_dsn, admin)) as theirs, pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute(sql.SQL("table {}").format(sql.Identifier(team, "messages")))
        assert len(await limited.list_schemas()) == 3
        assert await limited.add_shared(team, [admin, anna, bela]) == sorted((admin, anna, bela))
        await limited.leave(admin, team)
        for heir in (bela, admin):
            await limited.add(third, "a password of theirs")
            database = await open_as(empty_dsn, third)
            talk = await Talk.open(database)
            await talk.turn()
            await talk.log.close()
            await database.close()
            assert await limited.remove(third, heir)
            database = await open_as(empty_dsn, heir, third)
            assert await database.agents.get(talk.agent.id)
            await database.close()
            with psycopg.connect(as_role(empty_dsn, heir)) as theirs:
                theirs.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(third)))
        assert await limited.remove(team, delete=True) and await limited.remove(anna) and await limited.remove(bela)
    finally:
        await session.close()
        with psycopg.connect(empty_dsn, autocommit=True) as owner:
            owner.execute(f"drop owned by {admin}".encode())
            owner.execute(f"drop role {admin}".encode())


async def test_administrator_of_other_roles_is_told_what_to_grant(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    """The right to make roles lets nobody change those that others made. The remedy is enough."""
    admin, anna, team = people
    await users.add(anna)
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(f"create role {admin} login createrole".encode())
        owner.execute(f"grant create on database {owner.info.dbname} to {admin}".encode())
        session = DatabaseSession(as_role(empty_dsn, admin), schema="pg_catalog")
        limited = Users(session)
        for change in (lambda: limited.add_shared(team, [anna]), lambda: limited.remove(anna, delete=True)):
            with pytest.raises(BadDatabase, match=f'"{anna}"') as refused:
                await change()
            grant = f'GRANT "{anna}" TO "{admin}" WITH ADMIN TRUE, INHERIT FALSE;'
            assert refused.value.remedy == f"Let an administrator run the command, or: {grant}"
        assert not await users.exists(team), "all or nothing"
        owner.execute(grant.encode())
        assert await limited.add_shared(team, [anna]) == [anna]
        assert await limited.remove(team) and await limited.remove(anna, delete=True)
        await session.close()
        owner.execute(f"drop owned by {admin}".encode())


async def test_role_without_inherited_rights_cannot_use_a_shared_schema(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, _, team = people
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(f"create role {anna} login noinherit".encode())
        with pytest.raises(Rejected, match=f"{anna} does not inherit the rights of {team}") as refused:
            await users.add_shared(team, [anna])
        assert not await users.exists(team), "all or nothing"
        owner.execute(refused.value.remedy.removeprefix("Let an administrator run: ").partition(";")[0].encode())
    assert await users.add_shared(team, [anna]) == [anna]


async def test_administrators_take_turns(users: Users, empty_dsn: str, people: tuple[str, str, str]) -> None:
    """Whoever comes later finds what the other one made, or that it is gone."""
    anna, bela, team = people
    sessions = [DatabaseSession(empty_dsn, schema="pg_catalog") for _ in range(4)]
    others = [Users(session) for session in sessions]
    made = await asyncio.gather(*(each.add(name) for each, name in zip(others, (anna, bela) * 2, strict=True)))
    assert sorted(made) == [False, False, True, True]
    assert await asyncio.gather(*(each.add_shared(team, [anna, bela]) for each in others)) == [[anna, bela]] * 4
    gone = await asyncio.gather(*(each.remove(team) for each in others), return_exceptions=True)
    assert gone.count(True) == 1 and sum(isinstance(each, Rejected) for each in gone) == 3, gone
    for session in sessions:
        await session.close()


@pytest.mark.parametrize(
    "name",
    ["", "pg_anna", "public", "none", "information_schema", "o'neil", 'an"na', "an na", "Ünï", "1st", "-anna", "a.b",
     "a" * (MAX_NAME_BYTES + 1), "anna\n", "anna;drop"],
)  # fmt: skip
async def test_names_that_no_schema_can_have(users: Users, name: str) -> None:
    for add in (users.add(name), users.add_shared(name, [])):
        with pytest.raises(Rejected, match="cannot be the name of a role and its schema") as refused:
            await add
        assert refused.value.remedy.startswith("Begin with a letter") and "\n" not in refused.value.what
    assert await users.list_schemas() == []


async def test_names_with_capitals_and_of_the_greatest_length(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        for name in (f"Anna-{people[0]}", f"_{people[0]}_".ljust(MAX_NAME_BYTES, "x")):
            await users.add(name, "a password of theirs")
            database = await open_as(empty_dsn, name)
            assert (await database.status()).schema == name
            await database.close()
            with pytest.raises(Rejected, match=f"schema {name} holds 0 conversations"):
                await users.remove(name)
            assert await users.remove(name, delete=True)
            assert not owner.execute("select from pg_roles where rolname = %s", (name,)).fetchall()


async def test_schema_or_role_that_others_have(users: Users, empty_dsn: str, people: tuple[str, str, str]) -> None:
    anna, bela, team = people
    with psycopg.connect(empty_dsn, autocommit=True) as owner:
        owner.execute(sql.SQL("create schema {}").format(sql.Identifier(anna)))
        with pytest.raises(Rejected, match=f"The schema {anna} belongs to {owner.info.user} already"):
            await users.add(anna)
    assert not await users.exists(anna), "all or nothing"
    with pytest.raises(Rejected, match=f"There is no role '{bela}'") as refused:
        await users.add_shared(team, [bela])
    assert refused.value.remedy == "Make it first: ikigai db users add NAME" and not await users.exists(team)


async def test_schema_that_does_not_exist_names_those_that_do(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    anna, _, team = people
    await users.add(anna)
    for schema in ("ikigai", "tema"):
        with pytest.raises(BadDatabase, match=f"There is no schema {schema} in the database") as refused:
            await open_as(empty_dsn, anna, schema)
        assert refused.value.remedy.startswith(f"Use --schema {anna}, or let its owner run: GRANT CREATE ON DATABASE")
    await users.add_shared(team, [anna])
    with pytest.raises(BadDatabase) as refused:
        await open_as(empty_dsn, anna, "tema")
    assert refused.value.remedy.startswith(f"Use --schema {anna} or --schema {team}, or let its owner run: GRANT")


async def test_role_that_is_dropped_while_it_is_connected(
    users: Users, empty_dsn: str, people: tuple[str, str, str]
) -> None:
    """The program says so at its next statement, and keeps its events; what was stored stays with the heir."""
    anna, bela, _ = people
    for name in (anna, bela):
        await users.add(name, "a password of theirs")
    database = await open_as(empty_dsn, anna)
    talk = await Talk.open(database)
    await talk.turn("kept")
    events = (ev.UserMessage("not stored"),)
    await users.remove(anna, bela)
    for _ in range(2):
        with pytest.raises((Misconfigured, Unavailable)) as lost:
            await talk.log.append(events)
        assert anna in lost.value.what and "\n" not in lost.value.what, lost.value.what
    assert [each.text for each in talk.log.unsaved(events).events] == ["not stored"]  # pyright: ignore
    await database.close()
    database = await open_as(empty_dsn, bela, anna)
    log = await database.open_agent(await database.agents.find(talk.agent.name))
    assert (await log.append(events)).rows[0].seq > 2
    await log.close()
    await database.close()
