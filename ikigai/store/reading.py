"""Reads the log: rows into events, and the answers to what loading asks."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ikigai.core import codec
from ikigai.core.events import StoredEvent
from ikigai.core.lineage import Ancestor
from ikigai.core.loading import Answer, AskAncestry, AskClear, AskControls, AskEvents, AskPage, Question, Reading

from . import queries
from .connection import Cursor

NO_LIMIT = 2**63 - 1
_T = TypeVar("_T")


def stored(agent: str, row: Iterable[Any]) -> StoredEvent:
    """One row of the log, as the queries select it."""
    id, seq, at, kind, content, data = row
    return StoredEvent(id, agent, seq, at, codec.decode(kind, content, data))


async def load(cursor: Cursor, asking: Reading[_T]) -> _T:
    """Answer the questions until it returns what was wanted: memory, as a rule."""
    with _uncollected():
        try:
            question = next(asking)
            while True:
                question = asking.send(await answer(cursor, question))
        except StopIteration as done:
            return done.value


@contextmanager
def _uncollected() -> Iterator[None]:
    """The cyclic collector off: of the many things that loading makes and keeps none is in a cycle."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


async def answer(cursor: Cursor, question: Question) -> Answer:
    # Nothing here is prepared: a plan made for any span is no good plan for this one.
    match question:
        case AskAncestry(agent):
            await cursor.execute(queries.ANCESTRY, (agent,), prepare=False)
            return tuple(
                Ancestor(of, upto, cleared, tuple(zip(ids, names, strict=True)))
                for of, upto, cleared, ids, names in await cursor.fetchall()
            )
        case AskClear(agent, before):
            await cursor.execute(queries.CLEAR_BELOW, (agent, before), prepare=False)
            return tuple(id for (id,) in await cursor.fetchall() if id is not None)
        case AskEvents(ids):
            await cursor.execute(queries.EVENTS, (list(ids),), prepare=False)
            return tuple(stored(agent, row) for agent, *row in await cursor.fetchall())
        case AskControls(spans):
            agents = [span.agent for span in spans]
            firsts, lasts = [span.first for span in spans], [_last(span.last) for span in spans]
            await cursor.execute(queries.CONTROLS, (agents, firsts, lasts), prepare=False)
            return tuple(stored(agents[row[0] - 1], row[1:]) for row in await cursor.fetchall())
        case AskPage(span, limit, ascending):
            bounds = (span.agent, span.first, _last(span.last), limit)
            await cursor.execute(queries.PAGE_ASCENDING if ascending else queries.PAGE, bounds, prepare=False)
            return tuple([stored(span.agent, row) for row in await cursor.fetchall()])


def _last(id: int | None) -> int:
    return NO_LIMIT if id is None else id
