"""Measure PLAN: the effect of missing statistics about the log.

An agent of 50,000 short turns is opened without statistics, against with them. They are missing where other programs
filled the database, or its server never ran for the minute that autovacuum wants. And an agent is looked at that was
used before others stored their events, against the newest one.
"""

import asyncio
import time

import psycopg

from ikigai.core.state.loading import load_memory
from ikigai.store.database import Database
from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.generator import RUN
from tests.bench.s15_depth import fill

SCREENFUL = 100
"""Events that are shown again, about."""
PROMPTS = 1_000
"""Texts that the input line offers again."""


FEW_TURNS = 500
"""Turns of the old agent and of the newest one."""


def measure(quick: bool) -> list[Figure]:
    turns, rounds = (1_000, 3) if quick else (50_000, 20)
    with histories.empty("bench_blind") as blind, histories.empty("bench_known") as known:
        figures = asyncio.run(compare(blind, known, turns, rounds))
    with histories.empty("bench_old") as dsn:
        return [*figures, *asyncio.run(compare_old(dsn, turns, rounds))]


async def compare(blind: str, known: str, turns: int, rounds: int) -> list[Figure]:
    agents = {dsn: fill(dsn, turns, forks=False) for dsn in (blind, known)}
    settings = {blind: "alter table messages set (autovacuum_enabled = off)", known: "vacuum (analyze) messages"}
    for dsn, statement in settings.items():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statement.encode())
    taken: dict[str, list[float]] = {blind: [], known: []}
    for _ in range(rounds + 1):
        for dsn, id in agents.items():
            taken[dsn].append(await _open(dsn, id))
    what = f"an agent of {4 * turns:,} events opened, without statistics"
    return [Figure("PLAN", what, "s", taken[blind][1:], "with statistics", taken[known][1:], 1.5)]


async def compare_old(dsn: str, turns: int, rounds: int) -> list[Figure]:
    old, *_, newest = (fill(dsn, each, forks=False) for each in (FEW_TURNS, turns, turns, FEW_TURNS))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("vacuum (analyze)")
    taken: dict[str, list[float]] = {old: [], newest: []}
    database = await Database.open(dsn, histories.MIGRATIONS, write=False)
    try:
        for round in range(rounds + 1):
            for id in (old, newest) if round % 2 else (newest, old):
                taken[id].append(await _look_at(database, id))
    finally:
        await database.close()
    what = f"an agent looked at after {8 * turns:,} events of others"
    return [Figure("PLAN", what, "s", taken[old][1:], "the newest agent", taken[newest][1:], 1.2)]


async def _look_at(database: Database, id: str) -> float:
    """Return seconds of what an agent costs that is switched to, browsed, forked and listed."""
    began = time.perf_counter()
    agent = await database.agents.get(id)
    assert agent
    reader = database.reader(agent)
    memory = await reader.load(load_memory(RUN, id))
    shown = await reader.history(None, SCREENFUL)
    assert memory.window.turns and len(shown) == SCREENFUL
    assert await reader.page(SCREENFUL, 1 << 20, before=shown[0].id)
    assert await database.tree.fork_point(agent) and not await database.tree.in_turn([id])
    assert await database.tree.to_choose([id]) and not await reader.result("no call")
    return time.perf_counter() - began


async def _open(dsn: str, id: str) -> float:
    """Return seconds of one opening, from the connection to all that the first screen shows."""
    began = time.perf_counter()
    database = await Database.open(dsn, histories.MIGRATIONS)
    try:
        agent = await database.agents.get(id)
        assert agent
        log = await database.open_agent(agent, agent.directory)
        memory = await log.load(load_memory(RUN, id))
        shown = await database.reader(agent).history(None, SCREENFUL)
        prompts = await database.prompts(PROMPTS)
        taken = time.perf_counter() - began
        assert memory.window.turns and len(shown) == min(SCREENFUL, agent.events) and prompts
        return taken
    finally:
        await database.close()
