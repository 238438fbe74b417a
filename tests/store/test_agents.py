"""Agents: made, named, found, listed."""

import asyncio
import gc
import weakref
from uuid import uuid4

import psycopg
import pytest

from ikigai.core.errors import AgentLocked, Rejected, StoreError
from ikigai.core.events import events as ev
from ikigai.store.agents import agent_names
from ikigai.store.database import MAX_COUNTED_AGENTS, Database
from tests.conftest import MIGRATIONS


async def test_root_and_its_child(database: Database) -> None:
    root = await database.agents.create("root", "/home/me/work")
    log = await database.open_agent(root, "/home/me/other")
    (row,) = (await log.append((ev.UserMessage("?"),))).rows
    child = await database.agents.create("child", parent=root.id, forked_at=row.id)
    nothing = await database.agents.create("nothing", parent=root.id, forked_at=0)
    assert (root.parent, root.forked_at, root.directory, root.events) == (None, None, "/home/me/work", 0)
    assert (child.parent, child.forked_at, nothing.forked_at) == (root.id, row.id, 0)
    again = await database.agents.get(root.id)
    assert again and (again.events, again.directory, again.name) == (1, "/home/me/other", "root")
    assert root.last_used_at < again.last_used_at and root.created_at == again.created_at
    assert await database.agents.get(child.id) == child


async def test_names_are_given_once(database: Database) -> None:
    made = await asyncio.gather(*(database.agents.create() for _ in range(60)))
    assert len({agent.name for agent in made}) == 60
    assert all(agent.name.replace("-", "").isalnum() for agent in made)
    await database.agents.create("Heron-2")
    with pytest.raises(Rejected, match="named Heron-2 already"):
        await database.agents.create("Heron-2")


def test_name_goes_on_when_the_easy_ones_are_taken() -> None:
    assert agent_names.suggest_name(0).count("-") == 1
    assert agent_names.suggest_name(8).rsplit("-", 1)[1].isdecimal()
    for words in (agent_names.ADJECTIVES.split(), agent_names.NOUNS.split()):
        assert len(words) == len(set(words)) > 60


async def test_what_is_no_name(database: Database) -> None:
    for name in ("two words", "-x", "/x", " ", "a\nb", "a\0", "\ud800", "x" * 65, "\x1b[2J", "a\u202eb"):
        with pytest.raises(Rejected, match="is not a name"):
            await database.agents.create(name)


async def test_finding(database: Database) -> None:
    made = [await database.agents.create(name) for name in ("heron", "hare", "Élan", "100%", "a_b", "axb")]
    for agent in made:
        assert await database.agents.find(agent.name) == agent
        assert await database.agents.find(agent.id) == agent
        assert await database.agents.find(agent.id.upper()) == agent
        assert await database.agents.find(agent.id[:13]) == agent
    for wanted, hint in (
        ("herron", "heron"),
        ("Hare", "hare"),
        ("0", ""),
        ("%%%%", ""),
        ("____", ""),
        ("\0\ud800", ""),
    ):
        with pytest.raises(Rejected, match="There is no agent") as refused:
            await database.agents.find(wanted)
        assert hint in refused.value.remedy
    assert refused.value.remedy == "There are: axb, a_b, 100%, Élan, hare, …"


async def test_ambiguous_start_of_an_id(database: Database, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        for n in (1, 2):
            other.execute(
                "insert into agents (id, name) values (%s, %s)", (f"abcd0000-0000-4000-8000-00000000000{n}", f"n{n}")
            )
    with pytest.raises(Rejected, match="More than one"):
        await database.agents.find("abcd0000")
    assert (await database.agents.find("abcd0000-0000-4000-8000-000000000002")).name == "n2"


async def test_none_at_all(database: Database) -> None:
    assert await database.agents.last() is None
    assert await database.agents.all() == []
    with pytest.raises(Rejected, match="There is no agent x") as refused:
        await database.agents.find("x")
    assert refused.value.remedy == "There are no agents yet."


async def test_last_one_used(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    first = await database.agents.create("first", "/a")
    second = await database.agents.create("second", "/b")

    async def order() -> list[str]:
        return [agent.name for agent in await database.agents.all()]

    assert await order() == ["second", "first"]
    await database.open_agent(first, "/a")
    assert await order() == ["first", "second"]
    log = await database.open_agent(second, "/b")
    assert await order() == ["second", "first"]
    await log.close()
    await database.close()  # puts down the write lock of the first, after the second's
    database = await Database.open(dsn, MIGRATIONS)
    last = await database.agents.last()
    assert last and last.name == "first" and await order() == ["first", "second"]
    in_b = await database.agents.last("/b")
    assert in_b and in_b.name == "second"
    assert await database.agents.last("/c") is None
    assert [agent.name for agent in await database.agents.all(limit=1)] == ["first"]
    await database.close()


async def test_unlisted_session_archives_what_it_makes_and_leaves_the_last_one(dsn: str, database: Database) -> None:
    mine = await database.agents.create("mine")
    await (await database.open_agent(mine, "/a")).close()
    beside = await Database.open(dsn, MIGRATIONS)
    beside.keep_unlisted()
    made = await beside.agents.create("job")
    log = await beside.open_agent(made, "/b")
    await log.mark_used()
    (row,) = (await log.append((ev.UserMessage("?"),))).rows
    child = await beside.tree.fork(made, row.id, (ev.Forked("job", row.id),), "child")
    helper = await beside.tree.fork(made, row.id, (ev.Forked("job", row.id),), "helper", made=uuid4())
    await log.close()
    last = await database.agents.last()
    assert last and last.name == "mine" and await database.agents.last("/b") is None
    assert made.archived_at and child.archived_at and helper.archived_at == made.archived_at
    assert [agent.name for agent in await database.agents.all()] == ["mine"]
    await beside.close()


async def test_first_agent_of_a_user_is_listed_in_an_unlisted_session(database: Database) -> None:
    database.keep_unlisted()
    first = await database.agents.last_or_new("/a")
    assert first.archived_at is None and (await database.agents.last_or_new("/a")).id == first.id


async def test_directory_with_an_odd_name(database: Database) -> None:
    agent = await database.agents.create(directory="/tmp/\udcff'\"%s")
    await database.open_agent(agent, "/tmp/\udcff'\"%s")
    found = await database.agents.last("/tmp/\udcff'\"%s")
    assert found and found.id == agent.id


async def test_child_of_nobody(database: Database) -> None:
    with pytest.raises(StoreError):
        await database.agents.create(parent="00000000-0000-4000-8000-000000000000", forked_at=1)
    with pytest.raises(StoreError):
        await database.agents.create(parent=(await database.agents.create()).id)
    assert len(await database.agents.all()) == 1


async def test_status_counts_agents_and_estimates_many(dsn: str, database: Database) -> None:
    for _ in range(3):
        await database.agents.create()
    for estimate, told in ((-1, 3), (MAX_COUNTED_AGENTS - 1, 3), (MAX_COUNTED_AGENTS + 7, MAX_COUNTED_AGENTS + 7)):
        with psycopg.connect(dsn) as other:
            other.execute("update pg_class set reltuples = %s where oid = 'agents'::regclass", (estimate,))
        status = await database.status()
        assert (status.agents, status.holds.startswith("about ")) == (told, told > 3)


async def test_logs_that_were_closed_are_forgotten(database: Database) -> None:
    first, second, third = [await database.agents.create() for _ in range(3)]
    logs = weakref.WeakSet([await database.open_agent(agent) for agent in (first, second)])
    for log in list(logs):
        await log.close()
    del log
    held = await database.open_agent(third)
    gc.collect()
    assert not logs
    with pytest.raises(AgentLocked, match="open in this program already"):
        await database.open_agent(third)
    await held.close()
    assert not (await database.open_agent(first)).closed


async def test_each_role_goes_on_with_its_own_last_agent(dsn: str, role: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("grant usage on schema ikigai to public")
        owner.execute("grant select, insert, update, delete on all tables in schema ikigai to public")

    async def went_on_with(address: str, open: str = "", directory: str = "") -> str:
        database = await Database.open(address, MIGRATIONS)
        if open:
            await (await database.open_agent(await database.agents.find(open), "/work")).close()
        last = await database.agents.last(directory)
        await database.close()
        return last.name if last else ""

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as owner:
        for name in ("theirs", "mine"):
            await owner.execute("insert into agents (id, name) values (gen_random_uuid(), %s)", (name,))
    assert await went_on_with(dsn) == await went_on_with(role) == ""
    assert await went_on_with(dsn, open="mine") == "mine"
    assert await went_on_with(role, open="theirs") == await went_on_with(role, directory="/work") == "theirs"
    assert await went_on_with(dsn) == await went_on_with(dsn, directory="/work") == "mine"
    assert await went_on_with(role, open="mine") == "mine", "a schema is the unit of trust"
    assert await went_on_with(role, directory="/elsewhere") == ""


async def test_agent_is_found_by_the_start_of_its_id(database: Database) -> None:
    agent, other = await database.agents.create(), await database.agents.create()
    for length in (8, 9, 13, 30, 36):
        assert (await database.agents.find(agent.id[:length])).id == agent.id
        assert (await database.agents.find(agent.id[:length].upper())).id == agent.id
    for start in ("zzzz", agent.id[:8] + other.id[:8], agent.id[:8] + "x", agent.id + "0", "{" + agent.id[:8]):
        with pytest.raises(Rejected, match="There is no agent"):
            await database.agents.find(start)
