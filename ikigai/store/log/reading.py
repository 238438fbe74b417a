"""Read the log: decode rows into events, and answer the questions of a loading."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ikigai.core.errors import StoreError
from ikigai.core.events import codec
from ikigai.core.events.events import StoredEvent
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
from ikigai.core.state.tool_results import TextEnds
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.sql import reading
from ikigai.system import gc_pause

NO_LIMIT = 2**63 - 1
MAX_TEXT_BYTES = 2**31 - 1
"""More bytes than any text has."""
ROW_COLUMNS = 6
"""Number of columns of a row of the log, which the queries select first."""
_T = TypeVar("_T")


def decode_row(agent: str, row: Iterable[Any]) -> StoredEvent:
    """Return the event of one row of the log, as the queries select it."""
    id, seq, at, kind, content, data = row
    return StoredEvent(id, agent, seq, at, codec.decode(kind, content, data))


async def load(cursor: Cursor, asking: Reading[_T]) -> _T:
    """Answer the questions of `asking` until it returns its result: memory, as a rule."""
    with gc_pause.pause_gc():  # loading makes many objects, and none is in a cycle
        async with AsyncExitStack() as stack:
            answers = _LoadAnswers(cursor, stack)
            try:
                question = next(asking)
                while True:
                    question = asking.send(await answers.answer(question))
            except StopIteration as done:
                return done.value
    raise AssertionError("unreachable")


@asynccontextmanager
async def read_snapshot(cursor: Cursor) -> AsyncIterator[None]:
    """Read everything within the block as of one moment. It takes one round trip to begin: a psycopg transaction takes
    two.
    """
    await cursor.execute(reading.SNAPSHOT, prepare=False)
    try:
        yield
    except BaseException:
        status = cursor.connection.pgconn.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):  # else it is given up
            with suppress(psycopg.Error, StoreError):
                await cursor.execute(reading.SNAPSHOT_BROKEN, prepare=False)
        raise
    await cursor.execute(reading.SNAPSHOT_END, prepare=False)


class _LoadAnswers:
    """The answers to a loading's questions.

    The page that will probably be asked for next is fetched while one is processed: a long history takes half as long.
    The driver's pipeline mode does that, until `stack` ends.
    """

    def __init__(self, cursor: Cursor, stack: AsyncExitStack) -> None:
        self._cursor, self._stack = cursor, stack
        self._ahead: tuple[Any, ...] | None = None  # the statement that was sent before its question
        self._ahead_cursor: Cursor | None = None

    async def answer(self, question: Question) -> Answer:
        # Nothing here is prepared: a plan made for any span is no good plan for this one.
        match question:
            case AskAncestry(agent):
                return tuple(
                    Ancestor(of, upto, cleared, tuple(zip(ids, names, strict=True)))
                    for of, upto, cleared, ids, names in await self._rows(reading.ANCESTRY, agent)
                )
            case AskClear(agent, before):
                return tuple(id for (id,) in await self._rows(reading.CLEAR_BELOW, agent, before) if id is not None)
            case AskEvents(ids):
                return tuple(decode_row(agent, row) for agent, *row in await self._rows(reading.EVENTS, list(ids)))
            case AskControls(spans):
                agents = [span.agent for span in spans]
                firsts, lasts = [span.first for span in spans], [_last(span.last) for span in spans]
                rows = await self._rows(reading.CONTROLS, agents, firsts, lasts)
                return tuple(decode_row(agents[row[0] - 1], row[1:]) for row in rows)
            case AskSpans(spans, limit, ends):
                agents = [span.agent for span in spans]
                firsts, lasts = [span.first for span in spans], [_last(span.last) for span in spans]
                rows = await self._rows(reading.PAGES, agents, firsts, lasts, limit, *end_sizes(ends), limit)
                return tuple(decode_row(agents[row[0] - 1], row[1:]) for row in rows)
            case AskPage(span, limit, ascending):
                statement = reading.PAGE_ASCENDING if ascending else reading.PAGE
                which = *end_sizes(question.ends), span.agent, span.first
                rows = await self._rows(statement, *which, _last(span.last), limit)
                if question.prefetch and len(rows) == limit and not ascending:
                    await self._send(statement, *which, rows[-1][0] - 1, limit)
                return tuple(codec.decode_rows(span.agent, rows))

    async def _rows(self, statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        was_sent, self._ahead = self._ahead == (statement, *values), None
        if was_sent and self._ahead_cursor:
            return await self._ahead_cursor.fetchall()
        await self._cursor.execute(statement, values, prepare=False)
        return await self._cursor.fetchall()

    async def _send(self, statement: LiteralString, *values: Any) -> None:
        if self._ahead_cursor is None:
            await self._stack.enter_async_context(self._cursor.connection.pipeline())
            self._ahead_cursor = self._cursor.connection.cursor(binary=True)
        self._ahead = statement, *values
        await self._ahead_cursor.execute(statement, values, prepare=False)


def end_sizes(ends: TextEnds | None) -> tuple[int, int, int]:
    """Return the sizes as statements take them; None means the whole of every text."""
    return (
        (min(ends.max_bytes, MAX_TEXT_BYTES), min(ends.head, MAX_TEXT_BYTES), min(ends.tail, MAX_TEXT_BYTES))
        if ends
        else (MAX_TEXT_BYTES, 0, 0)
    )


def _last(id: int | None) -> int:
    return NO_LIMIT if id is None else id
