"""Owners of agents: each user lists their own, and those that others share with them."""

import time
from uuid import uuid4

import psycopg
import pytest

from ikigai.app import share_report
from ikigai.core import events as ev
from ikigai.core.commands.parsers import ShareRequest
from ikigai.core.errors import Rejected
from ikigai.core.spending import SpendingQuery
from ikigai.store.agents import Agent
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk
from tests.support.older_schema import make_older_schema


async def opened(dsn: str, user: str) -> Database:
    return await Database.open(dsn, MIGRATIONS, user=user)


async def names(database: Database, everyone: bool = False) -> list[str]:
    """Return the names that each kind of list has; the lists must agree."""
    listed = sorted(agent.name for agent in await database.agents.all(everyone=everyone))
    assert sorted(info.name for info in await database.tree.all(everyone=everyone)) == listed
    if not everyone:
        assert sorted(each.name for each in (await database.tree.page(100)).agents) == listed
        assert sorted((await database.agents.names())[0]) == listed
    return listed


@pytest.fixture
async def anna(dsn: str):
    database = await opened(dsn, "anna")
    yield database
    await database.close()


@pytest.fixture
async def bela(dsn: str, anna: Database):
    database = await opened(dsn, "bela")
    yield database
    await database.close()


async def test_users_of_one_login_list_their_own_agents_and_find_all(anna: Database, bela: Database) -> None:
    docs, notes = await anna.agents.create("docs"), await bela.agents.create("notes")
    assert (docs.owner, notes.owner) == ("", "")
    assert await names(anna) == ["docs"] and await names(bela) == ["notes"]
    assert await names(anna, everyone=True) == ["docs", "notes"]
    found = await anna.agents.find("notes")
    assert found.owner == "bela" and found.id == notes.id
    assert {info.name: info.owner for info in await anna.tree.all(everyone=True)} == {"docs": "", "notes": "bela"}


async def test_shared_agent_is_listed_until_the_share_ends(anna: Database, bela: Database) -> None:
    docs = await anna.agents.create("docs")
    await bela.agents.create("notes")
    assert (await anna.sharing.share(docs, "bela", "read")).has_same_login
    assert await names(bela) == ["docs", "notes"] and await names(anna) == ["docs"]
    assert (await bela.tree.page(10, typed="docs")).agents[0].owner == "anna"
    (share,) = await anna.sharing.all()
    assert (share.agent, share.owner, share.user, share.may_write) == ("docs", "", "bela", False)
    (theirs,) = await bela.sharing.all()
    assert (theirs.agent, theirs.owner, theirs.user) == ("docs", "anna", "bela")
    assert (await anna.sharing.share(docs, "bela", "write")).has_same_login
    assert [each.may_write for each in await bela.sharing.all()] == [True]
    await anna.sharing.share(docs, "bela", "none")
    assert await names(bela) == ["notes"] and not await bela.sharing.all()


@pytest.mark.parametrize(
    ("user", "level", "why"),
    [
        ("nobody-here", "read", "There is no user 'nobody-here'"),
        ("anna", "read", "docs belongs to anna already"),
        ("bela", "none", "docs is not shared with bela"),
    ],
)
async def test_share_that_means_nothing_is_refused(
    anna: Database, bela: Database, user: str, level: str, why: str
) -> None:
    docs = await anna.agents.create("docs")
    await bela.agents.create()
    with pytest.raises(Rejected, match=why):
        await anna.sharing.share(docs, user, level)  # pyright: ignore[reportArgumentType]


async def test_subagent_has_the_owner_of_the_agent_that_it_works_for(dsn: str, anna: Database, bela: Database) -> None:
    docs = await anna.agents.create("docs")
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("select set_config('ikigai.user', 'bela', false)")
        made = "insert into agents (id, name, parent, forked_at, made) values (gen_random_uuid(), 'kid', %s, 0, true)"
        other.execute(made, (docs.id,))
        assert other.execute("select owner_user from agents where name = 'kid'").fetchall() == [("anna",)]
    kid = await anna.agents.find("kid")
    assert kid.owner == "" and (await bela.agents.find("kid")).owner == "anna"
    with pytest.raises(Rejected, match="kid is a subagent"):
        await anna.sharing.share(kid, "bela", "read")


async def test_each_role_has_names_of_its_own(dsn: str, role: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("grant usage on schema ikigai to public")
        owner.execute("grant select, insert, update on all tables in schema ikigai to public")
    agents: list[Agent] = []
    for each in (dsn, role):
        database = await opened(each, "anna")
        agents.append(await database.agents.create("docs"))
        assert (await database.agents.find("docs")).id == agents[-1].id
        with pytest.raises(Rejected, match="There is an agent named docs already"):
            await database.agents.create("docs")
        await database.close()
    assert agents[0].id != agents[1].id


async def test_agents_below_one_go_with_it_if_they_are_of_the_same_owner(anna: Database, bela: Database) -> None:
    docs = await anna.agents.create("docs")
    for database, name in ((anna, "hers"), (bela, "theirs")):
        await database.agents.create(name, parent=docs.id, forked_at=0)
    assert await anna.tree.archive(docs) == 2
    assert await names(anna) == [] and await names(bela) == ["theirs"]
    assert await anna.tree.list_again(docs) == 2


async def test_migration_gives_agents_to_the_role_that_used_them_last(empty_dsn: str) -> None:
    """Older agents belong to a role, and all its users list them; other roles that used them go on using them."""
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        make_older_schema(other, 18)
        for name in "abc":
            other.execute("insert into agents (id, name) values (gen_random_uuid(), %s)", (name,))
        other.execute(
            "insert into agents (id, name, parent, forked_at, made)"
            " select gen_random_uuid(), 'kid', id, 0, true from agents where name = 'b'"
        )
        used = (
            "insert into agent_uses (role, os_user, agent_id, used_at)"
            " select %s, %s, id, now() + %s::interval from agents where name = %s"
        )
        for row in (("r1", "x", "1 h", "b"), ("r2", "y", "2 h", "b"), ("r1", "x", "1 h", "c")):
            other.execute(used, row)
    database = await opened(empty_dsn, "anyone")
    assert await names(database) == ["a"]
    with psycopg.connect(empty_dsn) as other:
        other.execute("set search_path = ikigai")
        me = other.info.user
        owners = dict(other.execute("select name, owner || '/' || owner_user from agents").fetchall())
        assert owners == {"a": f"{me}/", "b": "r2/", "kid": "r2/", "c": "r1/"}
        shares = "select name, role, may_write from agent_shares join agents on id = agent_id"
        assert other.execute(shares).fetchall() == [("b", "r1", True)]
    await database.close()


async def test_role_that_had_rights_keeps_the_agents_that_it_used(empty_dsn: str, empty_role: str) -> None:
    """Nothing was granted to it but the tables of version 16, and no `ikigai db users add` ran."""
    user = str(psycopg.conninfo.conninfo_to_dict(empty_role)["user"])
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        make_older_schema(other, 16)
        other.execute(f"grant usage on schema ikigai to {user}".encode())
        other.execute(f"grant select, insert, update, delete on all tables in schema ikigai to {user}".encode())
        for name in ("used", "other"):
            other.execute("insert into agents (id, name) values (gen_random_uuid(), %s)", (name,))
        other.execute(
            "insert into agent_uses (role, os_user, agent_id) select %s, '', id from agents where name = 'used'",
            (user,),
        )
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    database = await Database.open(empty_role, MIGRATIONS)
    assert [each.name for each in await database.agents.all(everyone=True)] == ["used"]
    last = await database.agents.last()
    assert last and last.name == "used" and last.may_write
    talk = await Talk.open(database, last)
    await talk.turn("kept")
    await talk.log.close()
    assert (await database.usage.totals()).requests == 1
    found = await database.search("kept")
    assert not found.hits and found.behind > 0, "it is told that nothing was searched"
    await database.close()


async def test_messages_about_shares_name_the_command_that_was_used(anna: Database, bela: Database) -> None:
    await anna.agents.create("docs")
    await bela.agents.create("notes")
    for command in ("/share", "ikigai agents share"):
        assert f"To share one: {command} NAME" in share_report.format_shares([], command)
        shared, ended = ShareRequest("docs", "bela", "write"), ShareRequest("docs", "bela", "none")
        for request, undo in ((shared, "none"), (ended, "read")):
            text = await share_report.change_share(anna, request, command)
            assert f": {command} docs with bela {undo}" in text
        with pytest.raises(Rejected) as refused:
            await share_report.change_share(anna, ShareRequest("docs", "bela", "none"), command)
        assert refused.value.remedy == f"`{command}` lists the shares."


async def test_spending_of_a_day_belongs_to_who_sent_the_request(anna: Database, bela: Database, dsn: str) -> None:
    docs, notes = await anna.agents.create("docs"), await bela.agents.create("notes")
    await anna.sharing.share(docs, "bela", "write")

    async def spend(database: Database, name: str, cost: float) -> None:
        log = await database.open_agent(await database.agents.find(name))
        rows = (await log.append((ev.UsageReported("a/b", cost=cost),))).rows
        event = rows[0].event
        assert isinstance(event, ev.UsageReported) and event.spent_by == (
            "bela" if (database, name) == (bela, "docs") else ""
        )
        await log.close()

    for database, name, cost in ((anna, "docs", 1), (bela, "docs", 20), (bela, "notes", 300)):
        await spend(database, name, cost)
    query = SpendingQuery(str(uuid4()), time.time() - 60)
    assert [(await each.usage.spent(docs.id, query))["day"].usd for each in (anna, bela)] == [1, 320]
    assert (await anna.usage.spent(notes.id, SpendingQuery(str(uuid4()), 0, agents=True)))["agent"].usd == 300
    with psycopg.connect(dsn) as other:
        spenders = "select cost, spent_by from usage order by id"
        assert other.execute(spenders).fetchall() == [(1, ""), (20, "bela"), (300, "")]
    day = time.time() - 60
    for database, agent, sums in (
        (bela, None, [("bela", 320), ("anna", 1)]),
        (anna, None, [("bela", 320), ("anna", 1)]),
        (anna, docs.id, [("bela", 20), ("anna", 1)]),
    ):
        assert [(name, of.cost) for name, of in await database.usage.totals_by("user", agent, day)] == sums
    assert await anna.usage.totals_by("user", since=time.time() + 60) == []
