"""This module fills the word index after the log: a little at a time, over a connection of its own.

Within an agent events are committed in the order of `seq`, because there is one write lock. So a number for each agent
says how far its log is indexed, and no slow transaction of another agent is missed. Processes that index at once take
different agents. A lexeme is three letters for the segment of ids and one of `lexer.index_keys`, so that every look-up
is limited to its segment.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import psycopg

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.errors import StoreError
from ikigai.store.connection import Cursor, DatabaseSession
from ikigai.store.sql import search

log = logging.getLogger(__name__)

SEGMENT_BITS = 14
"""Ids of a segment, as a power of two; `migrations/0006_search.sql` and the statements contain it, too."""
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"

STEP_EVENTS, STEP_CHARACTERS = 400, 100_000
"""Limits of one step of indexing."""
SEGMENT_CHARACTERS = 1_000_000
"""Characters of a longer event in one step: the server unpacks all that is before them, each time."""
STEP_INTERVAL = 0.02
"""Minimum seconds between two steps; as long as the step took, if that is longer."""
SETTLE_SECONDS = 0.5
"""Seconds from the end of a turn until it is indexed: work that the user waits for comes first."""
RETRY_INTERVAL = 30.0
"""Seconds after which an unreachable database is tried again."""

READ_ONLY_ERRORS = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)
"""Errors of a read-only database."""


def segment_of(id: int) -> int:
    return id >> SEGMENT_BITS


def segment_prefix(segment: int) -> str:
    """Return three letters; they repeat after 2^18 segments, which the ids tell apart."""
    return "".join(_LETTERS[segment >> shift & 63] for shift in (12, 6, 0))


def agent_key(agent: str) -> str:
    """Return the key of an agent in the index; ids that begin alike share it."""
    return f"@{agent[:8]}"


def kind_key(kind: str) -> str:
    return f"#{kind}"


class IndexPiece(NamedTuple):
    message: int
    start: int
    length: int
    at: datetime
    terms: str


class _IndexedEvent(NamedTuple):
    id: int
    seq: int
    kind: str
    at: datetime
    text: str | None


class Indexer:
    """Fills the index over `session`, which no append uses. `news` is set when there may be something to do."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self.news = asyncio.Event()

    async def index_some(self) -> int:
        """Take the next few events into the index: at most 400, and of a long one a part; return how many.

        0 means that all events are indexed, or that another process indexes them. Raise StoreError on failure.
        """
        async with self._session.use() as cursor:
            await cursor.execute(search.BEHIND, (16,), prepare=False)
            for (agent,) in await cursor.fetchall():
                if count := await self._index(cursor, agent):
                    return count
            return 0

    async def close_segment(self) -> bool:
        """List the words of one segment that the ids have left behind; return False if there is none."""
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(search.OPEN_SEGMENT, prepare=False)
            for (number,) in await cursor.fetchall():
                first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
                await cursor.execute(search.CLOSE_SEGMENT, {"segment": number, "first": first, "last": last})
                return True
            return False

    async def catch_up(self, seconds: float) -> int:
        """Index for at most `seconds`; return how many events are not in the index then.

        A read-only database is left as it is. Raise StoreError on other failures.
        """
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until and await self.index_some():
                pass
        except StoreError as error:
            if not isinstance(error.__cause__, READ_ONLY_ERRORS):
                raise
        async with self._session.use() as cursor:
            await cursor.execute(search.BEHIND_BY, prepare=False)
            ((behind,),) = await cursor.fetchall()
        return behind

    async def run(self) -> None:
        """Index now, and again after every turn, until this is cancelled. Errors of the database are retried later."""
        while True:
            try:
                self.news.clear()
                await self._all()
                await self.news.wait()
                await asyncio.sleep(SETTLE_SECONDS)
            except StoreError:
                log.debug("the index could not be filled", exc_info=True)
                await asyncio.sleep(RETRY_INTERVAL)

    async def _all(self) -> None:
        for step in (self.index_some, self.close_segment):
            began = time.monotonic()
            while await step():
                await asyncio.sleep(max(STEP_INTERVAL, time.monotonic() - began))
                began = time.monotonic()

    async def _index(self, cursor: Cursor, agent: UUID) -> int:
        """Run one step for one agent; return 0 if another process has it."""
        async with cursor.connection.transaction():
            await cursor.execute(search.BEGIN_PROGRESS, (agent,))
            await cursor.execute(search.TAKE_PROGRESS, (agent,))
            if not (rows := await cursor.fetchall()):
                return 0
            ((seq, place),) = rows
            which = {"agent": agent, "seq": seq, "place": place, "kinds": list(SEARCHED_KINDS)}
            sizes = {"events": STEP_EVENTS, "most": STEP_CHARACTERS, "stretch": SEGMENT_CHARACTERS}
            await cursor.execute(search.NEXT_EVENTS, which | sizes, prepare=False)
            events = [_IndexedEvent(*row) for row in await cursor.fetchall()]
            if not events:
                return 0
            pieces, seq, place = await asyncio.to_thread(_cut_pieces, str(agent), events, place)
            await _add(cursor, pieces)
            await cursor.execute(search.SET_PROGRESS, (seq, place, agent))
        return len(events)


async def _add(cursor: Cursor, pieces: Sequence[IndexPiece]) -> None:
    if pieces:
        columns = [list(column) for column in zip(*pieces, strict=True)]
        await cursor.execute(search.ADD_PIECES, columns, prepare=False)
        touched = [segment_of(piece.message) for piece in pieces], [piece.at for piece in pieces]
        await cursor.execute(search.ADD_SEGMENTS, touched, prepare=False)


def _cut_pieces(agent: str, events: Sequence[_IndexedEvent], place: int) -> tuple[list[IndexPiece], int, int]:
    """Return the pieces of these events, and the progress of the index; the first begins at `place`.

    An event longer than one step is here alone, and its last piece is left for the next step.
    """
    from ikigai.core.search import lexer  # not needed at start

    pieces: list[IndexPiece] = []
    for event in events:
        text = lexer.searchable_text(event.kind, event.text or "")
        cut = list(lexer.split_pieces(text))
        is_cut = len(text) == SEGMENT_CHARACTERS and len(cut) > 1
        for start, piece in cut[:-1] if is_cut else cut:
            if keys := lexer.index_keys(lexer.fold(piece)):
                pieces.append(_piece(agent, event, place + start, piece, keys))
            elif piece.strip():  # only punctuation, which can be searched for, too
                pieces.append(_piece(agent, event, place + start, piece, set()))
        if is_cut:
            return pieces, event.seq - 1, place + cut[-1][0]
        place = 0
    return pieces, events[-1].seq, 0


def _piece(agent: str, event: _IndexedEvent, start: int, text: str, keys: set[str]) -> IndexPiece:
    before = segment_prefix(segment_of(event.id))
    terms = " ".join(before + key for key in (agent_key(agent), kind_key(event.kind), *keys))
    return IndexPiece(event.id, start, len(text), event.at, terms)


async def forget(cursor: Cursor, ids: Sequence[int]) -> None:
    """Remove these events from the index, for a purge, within its transaction.

    The words of their segments are listed anew later. Pages of the index keep a word that no piece holds any more until
    `reindex index search_terms`.
    """
    await cursor.execute(search.FORGET_PIECES, (list(ids),))
    await cursor.execute(search.FORGET_WORDS, (sorted({segment_of(id) for id in ids}),))
