"""An agent that was used long ago costs what the newest one costs, however much other agents have stored since."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from uuid import UUID, uuid4

import psycopg
import pytest

from ikigai.core.request.spending import SpendingQuery
from ikigai.core.state.loading import load_memory
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.sql import replay
from ikigai.store.sql.fragments import NEWEST_FIRST, OLDEST_FIRST, events_between, turn_start
from tests.conftest import MIGRATIONS
from tests.store.test_loading import RUN, fill

pytestmark = pytest.mark.fresh

TURNS, SINCE = 250, 4_000
"""Turns of four events: of the agents that are looked at, and of each of those in between."""
PASSWORD = "a password of hers"
MAX_ROWS = 6 * TURNS
"""Rows of the log that are read at most. What reads an agent whole reads 1,000, and some of them twice."""


async def export(database: Database, agent: Agent) -> None:
    whole = database.export(agent)
    await whole.open()
    assert sum([len(page) async for page in whole.pages()]) == 4 * TURNS


async def middle(database: Database, agent: Agent) -> int:
    return (await database.reader(agent).history(None, 1))[0].id - 2 * TURNS


async def page(database: Database, agent: Agent, after: bool) -> None:
    where = await middle(database, agent)
    ends = {"after": where} if after else {"before": where}
    assert await database.reader(agent).page(100, 1 << 20, **ends)


async def neighbors(database: Database, agent: Agent) -> None:
    assert (await database.neighbors(await middle(database, agent)))[1]


async def place(database: Database, agent: Agent) -> None:
    assert (await database.tree.fork_point_at(await middle(database, agent)))[0].id == agent.id


async def spent(database: Database, agent: Agent) -> None:
    where = await middle(database, agent)
    query = SpendingQuery(str(uuid4()), time.time(), turn=where, turns=True, agents=True)
    assert not (await database.usage.spent(agent.id, query))["turn"].usd


READINGS: dict[str, Callable[[Database, Agent], Awaitable[object]]] = {
    "load": lambda database, agent: database.reader(agent).load(load_memory(RUN, agent.id)),
    "history": lambda database, agent: database.reader(agent).history(None, 100),
    "page before": lambda database, agent: page(database, agent, after=False),
    "page after": lambda database, agent: page(database, agent, after=True),
    "neighbors of an event": neighbors,
    "result of a call": lambda database, agent: database.reader(agent).result("a call that is not there"),
    "last counted request": lambda database, agent: database.reader(agent).last_counted(),
    "fork point": lambda database, agent: database.tree.fork_point(agent),
    "fork point at an event": place,
    "agents in a turn": lambda database, agent: database.tree.in_turn([agent.id]),
    "list of agents": lambda database, _: database.tree.all(),
    "picker": lambda database, _: database.tree.page(50),
    "agents to choose": lambda database, agent: database.tree.to_choose([agent.id]),
    "stopped subagents": lambda database, agent: database.mail.stopped(agent.id),
    "fill of the window": lambda database, agent: database.usage.window_fills(agent.id, 20),
    "uses of the cache": lambda database, agent: database.usage.cache_uses(agent.id),
    "usage": lambda database, agent: database.usage.totals(agent.id),
    "spent under caps": spent,
    "chosen setting": lambda database, agent: database.chosen(agent.id, "model"),
    "export": export,
}


async def prompts(database: Database, _: Agent) -> None:
    assert await database.prompts(100) == ["q" * 100]


async def search_prompts(database: Database, _: Agent) -> None:
    lookup = database.search_prompts("qq", "/nowhere")
    assert [each.text for each in await lookup.more((5, 5))]


async def recent_models(database: Database, _: Agent) -> None:
    assert await database.usage.recent_models(5) == ["chat/large"]


async def position(database: Database, agent: Agent) -> None:
    """Ask for what a replica must have."""
    async with database._session.use() as cursor:
        await cursor.execute(replay.POSITION)
        ((_, id, _),) = await cursor.fetchall()
    assert id and (await database.tree.fork_point_at(id))[0]


READINGS_OF_ROLE = {
    "prompts": prompts,
    "search in prompts": search_prompts,
    "recent models": recent_models,
    "newest event": lambda database, _: database.last_event_id(),
    "position": position,
    "state of the database": lambda database, _: database.status(),
    "list of agents": READINGS["list of agents"],
    "history": READINGS["history"],
    "fork point": READINGS["fork point"],
    "spent under caps": READINGS["spent under caps"],
}


def backends(other: psycopg.Connection) -> set[int]:
    other.execute("select pg_stat_clear_snapshot()")
    # Other tests connect to other databases of this server meanwhile.
    mine = "select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
    return {pid for (pid,) in other.execute(mine).fetchall()}


def rows_read(other: psycopg.Connection) -> int:
    query = "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = 'messages'"
    other.execute("select pg_stat_clear_snapshot()")
    ((rows,),) = other.execute(query).fetchall()
    return rows


async def count_rows(
    other: psycopg.Connection,
    dsn: str,
    readings: dict[str, Callable[[Database, Agent], Awaitable[object]]],
    *agents: Agent,
) -> dict[str, list[int]]:
    """Return the rows of the log that each reads of each agent, over a connection of its own."""
    read: dict[str, list[int]] = {}
    for name, reading in readings.items():
        for agent in agents:
            before, running = rows_read(other), backends(other)
            apart = await Database.open(dsn, MIGRATIONS, write=False)
            await reading(apart, agent)
            await apart.close()
            async with asyncio.timeout(60):  # a connection tells what it has read when it ends
                while not backends(other) <= running:
                    await asyncio.sleep(0.01)
            read.setdefault(name, []).append(rows_read(other) - before)
    return read


@pytest.mark.parametrize("is_analyzed", [True, False])
@pytest.mark.parametrize("others", [2, 6])
async def test_old_agent_is_read_without_what_others_stored_since(
    database: Database, dsn: str, others: int, is_analyzed: bool
) -> None:
    """Rows of the log are counted by the server."""
    agents = [await database.agents.create() for _ in range(others + 2)]
    for n, agent in enumerate(agents):
        fill(dsn, agent, TURNS if n in (0, others + 1) else SINCE, analyze=False)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("vacuum (analyze) messages" if is_analyzed else "vacuum messages")
        read = await count_rows(other, dsn, READINGS, agents[0], agents[-1])
    # The list shows how many turns each agent has: their ends are counted in an index, or in the log.
    assert max(read.pop("list of agents")) < MAX_ROWS * len(agents) + others * SINCE
    assert {name: rows for name, rows in read.items() if max(rows) > MAX_ROWS} == {}


@pytest.mark.parametrize("seed", range(10))
async def test_events_and_open_turns_are_those_of_a_plain_reading(database: Database, dsn: str, seed: int) -> None:
    """Agents whose ids lie between one another's, with open turns, events between turns, and without events."""
    random = Random(seed)
    agents = [(await database.agents.create()).id for _ in range(4)]
    log: dict[str, list[tuple[int, str]]] = {agent: [] for agent in agents}
    ranged = f"select id from messages where {events_between('%(agent)s', '%(first)s', '%(last)s')}"
    queries = (
        f"{ranged} {NEWEST_FIRST} limit 3",
        f"{ranged} {OLDEST_FIRST} limit 3",
        f"select {turn_start('%(agent)s', '%(last)s', '%(first)s')}",
    )
    with psycopg.connect(dsn) as other:
        for id in sorted(random.sample(range(1, 1_000), 80)):
            agent, kind = random.choice(agents[1:]), random.choice(("user", "assistant", "turn_end"))
            log[agent].append((id, kind))
            other.execute(
                "insert into messages (id, event_id, agent_id, seq, kind) overriding system value"
                " values (%s, gen_random_uuid(), %s, %s, %s)",
                (id, agent, len(log[agent]), kind),
            )
        for _ in range(100):
            agent = random.choice(agents)
            first, last = (random.choice((0, *(id for id, _ in log[agent]), random.randrange(1_000))) for _ in range(2))
            within = [id for id, _ in log[agent] if first <= id <= last]
            behind = max((id for id, kind in log[agent] if kind == "turn_end" and id <= first), default=0)
            opened = next((id for id, kind in log[agent] if kind == "user" and behind < id <= last), None)
            values = {"agent": UUID(agent), "first": first, "last": last}
            newest, oldest, start = ([id for (id,) in other.execute(query.encode(), values)] for query in queries)
            assert (newest, oldest, start) == (within[::-1][:3], within[:3], [opened])


async def test_newest_requests_are_read_without_the_history_of_an_agent(database: Database, dsn: str) -> None:
    """Of an agent with many requests, and of one that was imported without any."""
    busy, imported, other_agent = [await database.agents.create() for _ in range(3)]
    for agent, turns in ((busy, 4 * SINCE), (other_agent, TURNS)):
        fill(dsn, agent, turns, analyze=False)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content, data)"
            " select gen_random_uuid(), %s, n, 'user', 'q', '{}' from generate_series(1, %s) n",
            (imported.id, 4 * SINCE),
        )
        other.execute("vacuum (analyze) messages")
        names = ("last counted request", "uses of the cache")
        read = await count_rows(other, dsn, {name: READINGS[name] for name in names}, busy, imported)
    assert {name: rows for name, rows in read.items() if max(rows) > 2 * TURNS} == {}
