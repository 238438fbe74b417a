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
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.errors import StoreError
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.search.fill import Filler, LoggedEvent, TextPiece, cut_pieces, take_texts
from ikigai.store.search.word_keys import agent_key, keyed_pieces, kind_key, segment_of, segment_prefix
from ikigai.store.sql import search

if TYPE_CHECKING:
    from ikigai.store.search.packer import Packer

log = logging.getLogger(__name__)

STEP_INTERVAL = 0.02
"""Minimum seconds between two steps."""
REST_FACTOR = 2
"""Rest after a step as a multiple of the time that it took, if that is longer: appends share the server with it."""
SETTLE_SECONDS = 0.5
"""Seconds from the end of a turn until it is indexed: work that the user waits for comes first."""
RETRY_INTERVAL = 30.0
"""Seconds after which an unreachable database is tried again."""


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

    def __init__(self, session: DatabaseSession, news: asyncio.Event) -> None:
        self._session, self.news = session, news
        self.words = Filler(session, WordIndex())

    @cached_property
    def stems(self) -> Filler:
        from ikigai.store.search.stem_index import StemIndex

        return Filler(self._session, StemIndex())

    async def join_some(self) -> bool:
        """See `PartJoiner.join_some`."""
        from ikigai.store.search.stem_index import PartJoiner

        return await PartJoiner(self._session).join_some()

    async def index_some(self) -> int:
        """Take the next few events into the index of words, or of stems if it lacks none; return how many."""
        return await self.words.index_some() or await self.stems.index_some()

    async def unlist_some(self) -> int:
        """See `Filler.unlist_some`."""
        fillers = self.words, self.stems
        return sum([await filler.unlist_some() for filler in fillers])

    @cached_property
    def packer(self) -> "Packer":
        from ikigai.store.search.packer import Packer

        return Packer(self._session)

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
        packing = self.packer.pack_some, self.packer.merge_some, self.join_some
        for step in (self.index_some, *packing, self.unlist_some):
            began = time.monotonic()
            while await step():
                await asyncio.sleep(max(STEP_INTERVAL, REST_FACTOR * (time.monotonic() - began)))
                began = time.monotonic()
        await self.packer.rewrite()


def _index_pieces(agent: str, events: Sequence[LoggedEvent], place: int) -> tuple[list[IndexPiece], int, int]:
    """Return the rows of the index for these events, and its progress."""
    cut, seq, place = cut_pieces(events, place)
    return [_piece(agent, piece, keys) for piece, keys in keyed_pieces(cut)], seq, place


def _piece(agent: str, piece: TextPiece, keys: set[str]) -> IndexPiece:
    event = piece.event
    before = segment_prefix(segment_of(event.id))
    terms = " ".join(before + key for key in (agent_key(agent), kind_key(event.kind), *keys))
    return IndexPiece(event.id, piece.start, len(piece.text), event.at, terms)
