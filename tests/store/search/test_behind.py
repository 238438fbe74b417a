"""Tests of the list of agents that an index may be behind: it is short, and no event is missed because of it."""

import asyncio
import json
from typing import Any

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.search import word_index
from ikigai.store.search.indexer import Indexer
from ikigai.store.sql import search as queries
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh


async def indexed(database: Database) -> None:
    """Index everything, and take out of the list whatever may go."""
    while await database.indexer.index_some():
        pass
    await unlisted(database.indexer)


async def unlisted(indexer: Indexer) -> int:
    indexer._unlisted_at = None
    count = 0
    while some := await indexer.unlist_some():
        count += some
    return count


def listed(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as other:
        rows = other.execute("select agent_id::text from search_behind").fetchall()
    return {id for (id,) in rows}


async def many(database: Database, count: int) -> list[Agent]:
    agents: list[Agent] = []
    for n in range(count):
        agents.append(agent := await database.agents.create())
        log = await database.open_agent(agent)
        await log.append((ev.UserMessage(f"word{n} everywhere"),))
        await log.close()
    return agents


async def test_only_open_agents_stay_listed(database: Database, dsn: str):
    agents = await many(database, 5)
    other = await Database.open(dsn, MIGRATIONS)
    theirs, ours = await other.open_agent(agents[0]), await database.open_agent(agents[1])
    assert listed(dsn) == {agent.id for agent in agents}
    await indexed(database)
    assert listed(dsn) == {agents[0].id, agents[1].id}
    for log in (theirs, ours):
        await log.append((ev.UserMessage("unheard of"),))
    assert len((await database.search("unheard of")).hits) == 2
    await theirs.close()
    await ours.close()
    assert listed(dsn) == {agents[0].id, agents[1].id}, "closing lists it again: an earlier program closes so, too"
    await indexed(database)
    assert listed(dsn) == set()
    await other.close()


async def test_agents_behind_are_listed_once_for_many_steps(database: Database, monkeypatch: pytest.MonkeyPatch):
    """To list them reads a row of each, so a list for each step would read as many rows as there are pairs of them."""
    lists = 0
    execute = psycopg.AsyncCursor.execute

    async def counted(cursor: Any, statement: Any, *values: Any, **options: Any) -> Any:
        nonlocal lists
        lists += statement == queries.BEHIND
        return await execute(cursor, statement, *values, **options)

    await many(database, 12)
    steps = 0
    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    while await database.indexer.index_some():
        steps += 1
    assert (steps, await database.indexer.behind()) == (12, 0)
    assert 0 < lists < steps


async def test_search_lists_the_agents_anew_while_one_is_indexed(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    await many(database, 3)
    assert await database.indexer.index_some()
    other = await Database.open(dsn, MIGRATIONS)
    await indexed(other)  # what is on the list is indexed already
    searches = list[asyncio.Task[Any]]()
    take = word_index.take

    async def search_meanwhile(cursor: Any, agent: Any) -> int:
        searches.append(asyncio.create_task(database.search("everywhere")))
        await asyncio.sleep(0)
        return await take(cursor, agent)

    monkeypatch.setattr(word_index, "take", search_meanwhile)
    assert await database.indexer.index_some() == 0
    monkeypatch.undo()
    assert searches and [len((await search).hits) for search in searches] == [3] * len(searches)
    await other.close()


async def test_agents_that_are_indexed_are_not_looked_at(database: Database, dsn: str):
    """The statements read only the rows of the list, however many agents there are."""
    await many(database, 40)
    with psycopg.connect(dsn, autocommit=True) as other:
        before = {name: rows_read(other, statement) for name, statement in statements().items()}
        assert min(before.values()) >= 40
        await indexed(database)
        await many(database, 2)
        other.execute("analyze agents, messages, search_behind, search_progress")
        for name, statement in statements().items():
            assert rows_read(other, statement) <= 15, name


def statements() -> dict[str, str]:
    return {"behind": queries.BEHIND.replace("%s", "16"), "behind_by": queries.BEHIND_BY}


def rows_read(other: psycopg.Connection, statement: str) -> float:
    """Return how many rows all nodes of the plan together gave, each time that they ran."""
    ((plan,),) = other.execute(f"explain (analyze, format json) {statement}".encode()).fetchall()

    def count(node: dict[str, Any]) -> float:
        return node["Actual Rows"] * node["Actual Loops"] + sum(map(count, node.get("Plans", ())))

    return count((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])


async def test_agent_that_is_opened_while_it_is_taken_out_is_listed_again(database: Database, dsn: str):
    (agent,) = await many(database, 1)
    await indexed(database)
    log = await database.open_agent(agent)
    await log.close()
    assert listed(dsn) == {agent.id}
    with psycopg.connect(dsn) as other:  # an indexer that has found no lock, and has not committed yet
        other.execute(queries.COMPLETE, (10,))
        other.execute(queries.UNLIST, ([agent.id],))
        opening = asyncio.create_task(database.open_agent(agent))
        with psycopg.connect(dsn, autocommit=True) as watching:
            waits = "select count(*) from pg_locks where not granted"
            while watching.execute(waits).fetchall() == [(0,)]:
                assert not opening.done()
                await asyncio.sleep(0.01)
        other.commit()
    log = await opening
    assert listed(dsn) == {agent.id}
    assert await unlisted(database.indexer) == 0
    await log.append((ev.UserMessage("said meanwhile"),))
    assert len((await database.search("said meanwhile")).hits) == 1
    await log.close()


async def test_forks_and_imports_and_what_earlier_programs_use_are_listed(database: Database, dsn: str):
    talk = await Talk.open(database)
    await talk.turn("first", "words")
    await talk.log.close()
    await indexed(database)
    assert listed(dsn) == set()
    at = await database.tree.fork_point(talk.agent)
    child = await database.tree.fork(talk.agent, at, (ev.Forked(talk.agent.name, at),))
    assert listed(dsn) == {child.id}
    await indexed(database)
    with psycopg.connect(dsn) as other:  # as programs before the list mark the agent that they open
        other.execute("update agents set last_used_at = clock_timestamp() where id = %s", (talk.agent.id,))
    assert listed(dsn) == {talk.agent.id}
    with psycopg.connect(dsn) as other:
        other.execute("update agents set name = 'another' where id = %s", (child.id,))
    assert listed(dsn) == {talk.agent.id}


@pytest.mark.parametrize("schema", ["ikigai", "Odd name"])
async def test_list_is_that_of_the_schema_of_the_agent(empty_dsn: str, schema: str):
    """A connection with another search_path lists into the right table."""
    database = await Database.open(empty_dsn, MIGRATIONS, name=schema)
    await database.close()
    with psycopg.connect(empty_dsn, options="-c search_path=public") as other:
        place = f'"{schema}"'
        other.execute(f"insert into {place}.agents (id, name) values (gen_random_uuid(), 'x')".encode())
        assert other.execute(f"select count(*) from {place}.search_behind".encode()).fetchall() == [(1,)]
