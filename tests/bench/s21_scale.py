"""Measure SCALE: users' commands at ten times as many events, agents and days, against the smaller database.

The full size, 10,000,000 events against 1,000,000, needs about 25 GB on the disk of the bench's cache, and hours to
make. `--size N` compares 10 N with N. Both databases are kept, and are asked in turns.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from random import Random
from statistics import median
from typing import Any

import psycopg
from psycopg import conninfo, sql

from ikigai.app.agents import agent_tree
from ikigai.app.list_options import MAX_PRINTED_ROWS
from ikigai.core.state.loading import load_memory
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.sql import search as search_queries
from ikigai.store.usage.usage import By
from tests.bench import histories, scale_data
from tests.bench.figures import Figure
from tests.bench.generator import RUN
from tests.bench.prose import Prose
from tests.bench.s03_append import WORDS, _Talk

EVENTS, TIMES = 1_000_000, 10
"""Events of the smaller database, and how many times as many the larger one has."""
BAR = 1.2
SEARCH_BAR = 2.0
"""Bar of searches: a larger database has more segments."""
INDEX_SHARE_BAR = 0.25
INDEX_TABLES = (
    "search_documents", "search_segments", "search_postings", "search_vocabulary", "search_words", "search_progress",
)  # fmt: skip
QUICK, MORE_ROUNDS = 0.002, 4
"""Seconds below which an act has so many times more rounds: noise is a large part of a median of 40 such."""
MAX_STATEMENTS = 1_000
"""Statements of one search through all prompts."""


def measure(quick: bool, size: int | None = None) -> list[Figure]:
    events = size or (4_000 if quick else EVENTS)
    with _filled(events) as small, _filled(TIMES * events) as large:
        figures = asyncio.run(compare(small, large, 3 if quick else 40))
        return [*figures, *_sizes(small, large)]


@contextmanager
def _filled(events: int) -> Iterator[str]:
    """Yield the DSN of a database with so many events; make it unless this generator and schema have one."""
    with histories.history(10) as (_, dsn, _), psycopg.connect(histories._beside(dsn), autocommit=True) as admin:
        name = f"ikigai_scale_{events}"
        stamp = f"{histories._wanted(events)} scale {scale_data.VERSION}"
        told = "select shobj_description(oid, 'pg_database') from pg_database where datname = %s"
        copied = conninfo.make_conninfo(dsn, dbname=name)
        if admin.execute(told, (name,)).fetchall() != [(stamp,)]:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            asyncio.run(histories._migrate(copied))
            scale_data.fill(copied, events)
            comment = sql.SQL("comment on database {} is {}")
            admin.execute(comment.format(sql.Identifier(name), sql.Literal(stamp)))
        yield copied


async def compare(small: str, large: str, rounds: int) -> list[Figure]:
    """Do everything in both databases in turns; the first round fills their caches.

    Each is the first in every second round. What comes first runs code that is in no cache of the processor: that takes
    a third of a statement of 0.2 ms.
    """
    sides = [await _Side.open(dsn, 60 * (rounds + 2)) for dsn in (large, small)]
    taken: dict[str, tuple[list[float], list[float]]] = {}

    async def do(acts: Iterable[str], rounds: Iterable[int]) -> None:
        for round, what in product(rounds, acts):
            for number in (0, 1) if round % 2 else (1, 0):
                began = time.perf_counter()
                await sides[number].acts[what]()
                if round >= 0:
                    taken.setdefault(what, ([], []))[number].append(time.perf_counter() - began)

    try:
        await do(sides[0].acts, range(-1, rounds))
        quick = [what for what, (_, fewer) in taken.items() if median(fewer) < QUICK]
        await do(quick, range(MORE_ROUNDS * rounds))
    finally:
        for side in sides:
            await side.close()
    return [
        Figure("SCALE", what, "s", more, f"{TIMES} times fewer", fewer, SEARCH_BAR if "search" in what else BAR)
        for what, (more, fewer) in taken.items()
    ]


def _sizes(small: str, large: str) -> list[Figure]:
    """Return the share of the index in all bytes, and the bytes of an event in each database."""
    figures: list[Figure] = []
    each: list[float] = []
    for name, dsn in (("larger", large), ("smaller", small)):
        with psycopg.connect(dsn, options="-c search_path=ikigai") as connection:
            index = " + ".join(f"pg_total_relation_size('{table}')" for table in INDEX_TABLES)
            query = f"select pg_database_size(current_database()), count(*), {index} from messages"
            ((size, events, index),) = connection.execute(query.encode()).fetchall()
        figures.append(
            Figure("SCALE", f"the index of words, {name}", "B", [index], "whole database", [size], INDEX_SHARE_BAR)
        )
        each.append(size / events)
    return [*figures, Figure("SCALE", "bytes of an event", "B", each[:1], f"{TIMES} times fewer", each[1:], BAR)]


class _Side:
    """One of the two databases, and what is done in it."""

    def __init__(self, database: Database, talk: _Talk, agents: list[Agent], count: int) -> None:
        self._database, self._talk, self._agents = database, talk, agents
        self._random, self._prose, self._count = Random(5), Prose(Random(3)), count
        self._ranks = Random(7)  # draws the same agents on both sides

    @classmethod
    async def open(cls, dsn: str, turns: int) -> "_Side":
        database = await Database.open(dsn, histories.MIGRATIONS)
        listed = await database.agents.all(limit=1_000)
        agents = [each for each in listed if each.name.startswith("agent-")][:50]  # not of earlier runs
        status = await database.status()
        return cls(database, await _Talk.open(dsn, turns, name=""), agents, status.agents)

    async def close(self) -> None:
        await self._talk.close()
        await self._database.close()

    @property
    def acts(self) -> dict[str, Callable[[], Awaitable[object]]]:
        database = self._database
        return {
            "ten events appended": self._append,
            "a window loaded": self._load,
            "browser: a page in the middle": self._page,
            "prompts of the arrow keys": lambda: database.prompts(1_000),
            "Ctrl+R, first stretch": lambda: self._prompts(1),
            "Ctrl+R, every prompt, word not there": lambda: self._prompts(MAX_STATEMENTS),
            "search: unique word": lambda: database.search(f"own{self._random.randrange(self._count // 2)}word"),
            "search: common word": lambda: database.search("the"),
            "search: phrase": lambda: database.search('"of the"'),
            "search: word that is nowhere": lambda: database.search('"zzyzxqj"'),
            "search: part of a unique word": lambda: database.search(f"*n{self._count // 3}wor*"),
            "search within one agent, word not there": lambda: self._within('"zzyzxqj"'),
            "search within one agent, common word": lambda: self._within("the"),
            "agents behind the index": self._behind,
            "/agents": self._listed,
            "an agent's relatives and all below it": self._relatives,
            "the picker's first page": lambda: database.tree.page(50),
            "last agent": database.agents.last,
            "last agent in a directory": lambda: database.agents.last(f"/work/{self._ranks.randrange(20)}"),
            "last agent in a directory never used": lambda: database.agents.last("/nowhere"),
            "agent by the start of its id": lambda: database.agents.find(self._agents[7 % len(self._agents)].id[:18]),
            "db status": database.status,
            "usage by day": lambda: self._spent("day"),
            "usage by model": lambda: self._spent("model"),
            "usage by agent": lambda: self._spent("agent"),
            "usage of 7 days": lambda: self._spent("model", time.time() - 7 * 86_400),
            "export of an agent": self._export,
        }

    async def _append(self) -> None:
        for _ in range(10):
            await self._talk.say(self._prose.text(WORDS))

    async def _load(self) -> None:
        agent = self._agents[self._ranks.randrange(len(self._agents))]
        await self._database.reader(agent).load(load_memory(RUN, agent.id))

    async def _page(self) -> None:
        reader = self._database.reader(self._agents[11 % len(self._agents)])
        (newest,) = await reader.history(None, 1)
        assert await reader.page(200, 1 << 20, before=newest.id - 400)

    async def _prompts(self, most: int) -> None:
        prompts = self._database.search_prompts("zzyzxqj", "/nowhere")
        for _ in range(most):
            await prompts.more((100, 100))
            if prompts.complete:
                break

    async def _within(self, query: str) -> None:
        await self._database.search(query, agent=self._agents[self._ranks.randrange(len(self._agents))].id)

    async def _behind(self) -> None:
        async with self._database._beside.use() as cursor:
            await cursor.execute(search_queries.BEHIND, (16,), prepare=False)
            await cursor.execute(search_queries.BEHIND_BY, prepare=False)

    async def _listed(self) -> None:
        assert agent_tree.format_tree(await agent_tree.list_newest(self._database, MAX_PRINTED_ROWS))

    async def _relatives(self) -> None:
        agent = self._agents[self._ranks.randrange(len(self._agents))]
        for where in ("up", "down", "left", "right"):
            await self._database.tree.relative(agent, where)
        assert await self._database.tree.subtree(agent.id)

    async def _spent(self, by: By, since: float | None = None) -> None:
        assert (await self._database.usage.groups(by, since=since, most=MAX_PRINTED_ROWS)).rows

    async def _export(self) -> None:
        export: Any = self._database.export(self._agents[2 % len(self._agents)])
        await export.open()
        async for _ in export.pages():
            pass
