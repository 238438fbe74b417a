"""This module fills the indexes of words and of stems after the log: a little at a time, over a connection of its own.

A lexeme of the index of words is three letters for the segment of ids and one of `lexer.index_keys`, so that every
look-up is limited to its segment.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.errors import StoreError
from ikigai.store.connection import Cursor, DatabaseSession
from ikigai.store.search.fill import Filler, LoggedEvent, TextPiece, cut_pieces, take_texts
from ikigai.store.sql import search

log = logging.getLogger(__name__)

SEGMENT_BITS = 14
"""Ids of a segment, as a power of two; `migrations/0006_search.sql` and the statements contain it, too."""
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"

STEP_INTERVAL = 0.02
"""Minimum seconds between two steps."""
REST_FACTOR = 2
"""Rest after a step as a multiple of the time that it took, if that is longer: appends share the server with it."""
SETTLE_SECONDS = 0.5
"""Seconds from the end of a turn until it is indexed: work that the user waits for comes first."""
RETRY_INTERVAL = 30.0
"""Seconds after which an unreachable database is tried again."""


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


class WordIndex:
    """The index of words, which searches ask."""

    progress, kinds = search.WORDS_PROGRESS, SEARCHED_KINDS

    async def take(self, cursor: Cursor, agent: UUID) -> int:
        return await take_texts(self, cursor, agent)

    async def lock(self, cursor: Cursor) -> None:
        pass

    async def add(self, cursor: Cursor, agent: UUID, events: Sequence[LoggedEvent], place: int) -> tuple[int, int]:
        pieces, seq, place = await asyncio.to_thread(_index_pieces, str(agent), events, place)
        if pieces:
            columns = [list(column) for column in zip(*pieces, strict=True)]
            await cursor.execute(search.ADD_PIECES, columns, prepare=False)
            touched = [segment_of(piece.message) for piece in pieces], [piece.at for piece in pieces]
            await cursor.execute(search.ADD_SEGMENTS, touched, prepare=False)
        return seq, place


class Indexer:
    """Fills the indexes over `session`, which no append uses. `news` is set when there may be something to do."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self.words = Filler(session, WordIndex())
        self.news = asyncio.Event()

    @cached_property
    def stems(self) -> Filler:
        from ikigai.store.search.stem_index import StemIndex  # not needed at start

        return Filler(self._session, StemIndex())

    @cached_property
    def usage(self) -> Filler:
        from ikigai.store.usage_sums import UsageSums  # not needed at start

        return Filler(self._session, UsageSums())

    async def index_some(self) -> int:
        """Take the next few events into the index of words, the sums of usage, or the index of stems: into the first
        that lacks some; return how many.
        """
        return await self.words.index_some() or await self.usage.index_some() or await self.stems.index_some()

    async def unlist_some(self) -> int:
        """See `Filler.unlist_some`."""
        fillers = self.words, self.usage, self.stems
        return sum([await filler.unlist_some() for filler in fillers])

    async def close_segment(self) -> bool:
        """List the words of one segment that the ids have left behind; return False if there is none."""
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(search.OPEN_SEGMENT, prepare=False)
            for (number,) in await cursor.fetchall():
                first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
                await cursor.execute(search.CLOSE_SEGMENT, {"segment": number, "first": first, "last": last})
                return True
            return False

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
        for step in (self.index_some, self.close_segment, self.unlist_some):
            began = time.monotonic()
            while await step():
                await asyncio.sleep(max(STEP_INTERVAL, REST_FACTOR * (time.monotonic() - began)))
                began = time.monotonic()


def _index_pieces(agent: str, events: Sequence[LoggedEvent], place: int) -> tuple[list[IndexPiece], int, int]:
    """Return the rows of the index for these events, and its progress."""
    from ikigai.core.search import lexer  # not needed at start

    cut, seq, place = cut_pieces(events, place)
    pieces: list[IndexPiece] = []
    for piece in cut:
        keys = lexer.index_keys(lexer.fold(piece.text))
        if keys or piece.text.strip():  # only punctuation can be searched for, too
            pieces.append(_piece(agent, piece, keys))
    return pieces, seq, place


def _piece(agent: str, piece: TextPiece, keys: set[str]) -> IndexPiece:
    event = piece.event
    before = segment_prefix(segment_of(event.id))
    terms = " ".join(before + key for key in (agent_key(agent), kind_key(event.kind), *keys))
    return IndexPiece(event.id, piece.start, len(piece.text), event.at, terms)


async def forget(cursor: Cursor, ids: Sequence[int]) -> None:
    """Remove these events from the index, for a purge, within its transaction.

    The words of their segments are listed anew later. Pages of the index keep a word that no piece holds any more until
    `reindex index search_terms`.
    """
    await cursor.execute(search.FORGET_PIECES, (list(ids),))
    await cursor.execute(search.FORGET_WORDS, (sorted({segment_of(id) for id in ids}),))
