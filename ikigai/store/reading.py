"""Reads the log: rows into events, and the answers to what loading asks."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.pq import TransactionStatus as _Status

from ikigai.core import codec
from ikigai.core.errors import StoreError
from ikigai.core.events import StoredEvent
from ikigai.core.state.lineage import Ancestor
from ikigai.core.state.loading import (
    Answer,
    AskAncestry,
    AskClear,
    AskControls,
    AskEvents,
    AskPage,
    AskSpans,
    Question,
    Reading,
)
from ikigai.core.state.tool_results import Ends
from ikigai.store.connection import Connection, Cursor
from ikigai.store.sql import reading as queries
from ikigai.system import gc_pause as collector

NO_LIMIT = 2**63 - 1
LONGEST = 2**31 - 1
"""More bytes than any text has."""
COLUMNS = 6
"""Of a row of the log, as the queries select it first."""
_T = TypeVar("_T")


def stored(agent: str, row: Iterable[Any]) -> StoredEvent:
    """One row of the log, as the queries select it."""
    id, seq, at, kind, content, data = row
    return StoredEvent(id, agent, seq, at, codec.decode(kind, content, data))


async def load(cursor: Cursor, asking: Reading[_T]) -> _T:
    """Answer the questions until it returns what was wanted: memory, as a rule."""
    answers = _Answers(cursor)
    with collector.off():  # of the many things that loading makes and keeps none is in a cycle
        try:
            question = next(asking)
            while True:
                question = asking.send(await answers.to(question))
        except StopIteration as done:
            return done.value
        finally:
            await answers.end()


@asynccontextmanager
async def snapshot(cursor: Cursor) -> AsyncIterator[None]:
    """Everything that is read in here is of one moment. A round trip to begin: a psycopg transaction takes two."""
    await cursor.execute(queries.SNAPSHOT, prepare=False)
    try:
        yield
    except BaseException:
        if cursor.connection.pgconn.transaction_status in (_Status.INTRANS, _Status.INERROR):  # else it is given up
            with suppress(psycopg.Error, StoreError):
                await cursor.execute(queries.SNAPSHOT_BROKEN, prepare=False)
        raise
    await cursor.execute(queries.SNAPSHOT_END, prepare=False)


class _Answers:
    """Answers to what is asked. A page that is probably asked for next is on its way while one is looked at."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._ahead: tuple[Any, ...] | None = None  # what was sent before it was asked for

    async def to(self, question: Question) -> Answer:
        # Nothing here is prepared: a plan made for any span is no good plan for this one.
        match question:
            case AskAncestry(agent):
                return tuple(
                    Ancestor(of, upto, cleared, tuple(zip(ids, names, strict=True)))
                    for of, upto, cleared, ids, names in await self._rows(queries.ANCESTRY, agent)
                )
            case AskClear(agent, before):
                return tuple(id for (id,) in await self._rows(queries.CLEAR_BELOW, agent, before) if id is not None)
            case AskEvents(ids):
                return tuple(stored(agent, row) for agent, *row in await self._rows(queries.EVENTS, list(ids)))
            case AskControls(spans):
                agents = [span.agent for span in spans]
                firsts, lasts = [span.first for span in spans], [_last(span.last) for span in spans]
                rows = await self._rows(queries.CONTROLS, agents, firsts, lasts)
                return tuple(stored(agents[row[0] - 1], row[1:]) for row in rows)
            case AskSpans(spans, limit, ends):
                agents = [span.agent for span in spans]
                firsts, lasts = [span.first for span in spans], [_last(span.last) for span in spans]
                rows = await self._rows(queries.PAGES, agents, firsts, lasts, limit, *sizes(ends), limit)
                return tuple(stored(agents[row[0] - 1], row[1:]) for row in rows)
            case AskPage(span, limit, ascending):
                statement = queries.PAGE_ASCENDING if ascending else queries.PAGE
                which = *sizes(question.ends), span.agent, span.first
                rows = await self._rows(statement, *which, _last(span.last), limit)
                if question.more and len(rows) == limit and not ascending:
                    await self._send(statement, *which, rows[-1][0] - 1, limit)
                return tuple(codec.stored(span.agent, rows))

    async def end(self) -> None:
        """Nothing more is asked for."""
        if self._ahead is not None:
            self._ahead = None
            await _connection(self._cursor).answered()

    async def _rows(self, statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        asked = self._ahead == (statement, *values)
        await self.end()
        if not asked:
            await self._cursor.execute(statement, values, prepare=False)
        return await self._cursor.fetchall()

    async def _send(self, statement: LiteralString, *values: Any) -> None:
        self._ahead = statement, *values
        await _connection(self._cursor).send(self._cursor, statement, values)


def _connection(cursor: Cursor) -> Connection:
    assert isinstance(cursor.connection, Connection)
    return cursor.connection


def sizes(ends: Ends | None) -> tuple[int, int, int]:
    """As statements take them; None is all of every text."""
    return (min(ends.most, LONGEST), min(ends.head, LONGEST), min(ends.tail, LONGEST)) if ends else (LONGEST, 0, 0)


def _last(id: int | None) -> int:
    return NO_LIMIT if id is None else id
