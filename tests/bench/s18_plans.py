"""This module measures PLAN: opening an agent of 50,000 short turns without the planner's statistics, against with
them.

They are missing where other programs filled the database, or its server never ran for the minute that autovacuum wants.
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


def measure(quick: bool) -> list[Figure]:
    with histories.empty("bench_blind") as blind, histories.empty("bench_known") as known:
        return asyncio.run(compare(blind, known, 1_000 if quick else 50_000, rounds=3 if quick else 20))


async def compare(blind: str, known: str, turns: int, rounds: int) -> list[Figure]:
    agents = {dsn: fill(dsn, turns, forks=False) for dsn in (blind, known)}
    settings = {blind: "alter table messages set (autovacuum_enabled = off)", known: "vacuum (analyze) messages"}
    for dsn, statement in settings.items():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statement)
    taken: dict[str, list[float]] = {blind: [], known: []}
    for _ in range(rounds + 1):
        for dsn, id in agents.items():
            taken[dsn].append(await _open(dsn, id))
    what = f"an agent of {4 * turns:,} events opened, without statistics"
    return [Figure("PLAN", what, "s", taken[blind][1:], "with statistics", taken[known][1:], 1.5)]


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
