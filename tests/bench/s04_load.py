"""Measure S4: opening an agent with a 100,000-token window out of 1,000,000 events, and replaying 100,000.

The agent is opened for writing. The reference is the very same rows as libpq hands them over, undecoded: the same
statements on a bare connection, without a look at their results.
"""

import asyncio
import time
from typing import Any

import psycopg
from psycopg import pq

from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.lineage import Span
from ikigai.core.state.loading import AskAncestry, AskControls, AskPage, AskSpans, Loading, load_memory
from ikigai.core.state.memory import Memory, replace
from ikigai.store.database import Database
from ikigai.store.log.reading import NO_LIMIT
from ikigai.store.sql import reading as queries
from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.generator import RUN

WHOLE: RunConfig = replace(RUN, below={**RUN.below, "budget": 0}, limits=lambda _: ModelLimits(2**40, 0))
"""No budget, and a model that takes everything: nothing is left out."""


def measure(quick: bool) -> list[Figure]:
    many, all_of = (20_000, 2_000) if quick else (1_000_000, 100_000)
    with histories.history(many) as long, histories.history(all_of) as short:
        return asyncio.run(compare(long.dsn, many, short.dsn, all_of, rounds=3 if quick else 300))


async def compare(long: str, many: int, short: str, all_of: int, rounds: int) -> list[Figure]:
    window, window_rows = await _load(long, RUN, rounds)
    whole, whole_rows = await _load(short, WHOLE, max(3, rounds // 100))
    rows = "the same rows through libpq, undecoded"
    return [
        Figure("S4", f"a full window out of {many:,} events loaded", "s", window, rows, window_rows, 2.0),
        Figure("S4", f"{all_of:,} events replayed whole", "s", whole, rows, whole_rows, 2.0),
    ]


async def _load(dsn: str, run: RunConfig, rounds: int) -> tuple[list[float], list[float]]:
    """Return seconds of each way to the same rows, one after the other."""
    database = await Database.open(dsn, histories.MIGRATIONS)
    taken, bare = list[float](), list[float]()
    try:
        agent = await database.agents.find(histories.AGENT)
        log = await database.open_agent(agent, agent.directory)
        with psycopg.connect(dsn, autocommit=True) as connection:
            memory, asked = await _questions(database, agent.id, run)
            assert memory.window.turns and (memory.window.older.turns > 0) == bool(memory.budget)
            for _ in range(rounds + 1):
                began = time.perf_counter()
                loaded = await log.load(load_memory(run, agent.id))
                taken.append(time.perf_counter() - began)
                assert loaded == memory
                del loaded
                began = time.perf_counter()
                _fetch(connection.pgconn, asked)
                bare.append(time.perf_counter() - began)
    finally:
        await database.close()
    return taken[1:], bare[1:]


async def _questions(
    database: Database, agent: str, run: RunConfig
) -> tuple[Memory, list[tuple[str, tuple[Any, ...]]]]:
    """Return the statements of loading with their parameters, and the loaded memory."""
    asked = list[tuple[str, tuple[Any, ...]]]()

    def noted() -> Loading:
        inner = load_memory(run, agent)
        question = next(inner)
        while True:
            asked.append(_statement(question))
            try:
                question = inner.send((yield question))
            except StopIteration as done:
                return done.value

    found = next(each for each in await database.agents.all() if each.id == agent)
    return await database.reader(found).load(noted()), asked


def _statement(question: AskAncestry | AskControls | AskSpans | AskPage) -> tuple[str, tuple[Any, ...]]:
    match question:
        case AskAncestry(agent):
            return queries.ANCESTRY, (agent,)
        case AskControls(spans):
            return queries.CONTROLS, _ends(spans)
        case AskSpans(spans, limit):
            return queries.PAGES, (*_ends(spans), limit, *_sizes(question), limit)
        case AskPage(span, limit, ascending):
            statement, last = queries.PAGE_ASCENDING if ascending else queries.PAGE, span.last or NO_LIMIT
            return statement, (*_sizes(question), span.agent, span.first, last, limit)


def _sizes(question: AskPage | AskSpans) -> tuple[int, ...]:
    assert question.ends
    return question.ends.max_bytes, question.ends.head, question.ends.tail


def _ends(spans: tuple[Span, ...]) -> tuple[list[Any], ...]:
    lasts = [NO_LIMIT if span.last is None else span.last for span in spans]
    return [span.agent for span in spans], [span.first for span in spans], lasts


def _fetch(connection: "pq.abc.PGconn", asked: list[tuple[str, tuple[Any, ...]]]) -> None:
    for statement, values in asked:
        for n in range(1, len(values) + 1):
            statement = statement.replace("%s", f"${n}", 1)
        result = connection.exec_params(statement.replace("%%", "%").encode(), [_written(value) for value in values])
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message


def _written(value: Any) -> bytes:
    if isinstance(value, list):
        return ("{" + ",".join(map(str, value)) + "}").encode()
    return str(value).encode()
