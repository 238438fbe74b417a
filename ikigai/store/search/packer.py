"""This module packs segments of the index of words that the ids have left behind, and merges packs into larger ones.

Each call does one short step, so that a caller can rest in between. A process that ends leaves a segment unpacked, or a
larger pack unfinished, which another one goes on with.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import psycopg

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.search.fill import STEP_CHARACTERS, STEP_EVENTS, LoggedEvent, TextPiece
from ikigai.store.search.packs import Block, SegmentPack, WordBlock, merge_words
from ikigai.store.search.word_keys import SEGMENT_BITS, agent_key, keyed_pieces, kind_key
from ikigai.store.sql import word_packs as packs

PACK_LOCK = int.from_bytes(b"ikpk")
"""Key of the advisory lock under which one process at a time packs segments."""
BLOCKS_PER_MERGE = 4
"""Blocks of each pack that one step merges. With one alone a step would not get on."""
MAX_PIECES_BYTES = 150_000_000
"""Size of the table of unpacked pieces from which on it is rewritten: those of some segments, with their index."""
POSTPONE_SECONDS = 60.0
"""Seconds until a segment is packed again to which pieces were added meanwhile."""
REWRITE_INTERVAL = 3_600.0
"""Minimum seconds between two rewrites by a process."""
MIN_LOOSE_BYTES, MIN_LOOSE_SHARE = 100_000_000, 4
"""Size of the table of stems from which on it is rewritten, if it is so many times as large as its rows. A long history
is indexed faster than the server finds the room that merging leaves.
"""


class _Event(NamedTuple):
    id: int
    agent: str
    kind: str
    at: datetime
    text: str


class _Packing:
    """A segment that is being packed, in the version that was read first."""

    def __init__(self, segment: int, version: str) -> None:
        self.segment, self.version = segment, version
        self.first, self.last = segment << SEGMENT_BITS, (segment + 1 << SEGMENT_BITS) - 1
        self.ids: list[int] = []
        self.newest_at: datetime | None = None
        self.pack = SegmentPack()

    def add(self, events: Sequence[_Event]) -> None:
        from ikigai.core.search import lexer

        for id, agent, kind, at, content in events:
            self.ids.append(id)
            self.newest_at = max(self.newest_at or at, at)
            text = lexer.searchable_text(kind, content)
            event = LoggedEvent(id, 0, kind, at, None)
            for piece, keys in keyed_pieces(TextPiece(event, at, part) for at, part in lexer.split_pieces(text)):
                length = 0 if piece.start + len(piece.text) == len(text) else len(piece.text)
                self.pack.add(id - self.first, piece.start, length, (agent_key(agent), kind_key(kind), *keys))


class Packer:
    """Packs over `session`, which no append uses."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._turn = asyncio.Lock()
        self._packing: _Packing | None = None
        self._postponed: dict[int, float] = {}
        self._rewritten_at: float | None = None

    @repeat_on_conflict
    async def pack_some(self) -> bool:
        """Take the next events of a segment into its pack, or store the pack; return False if there is nothing to do.

        Raise StoreError on failure.
        """
        async with self._turn, self._session.use() as cursor:
            packing, self._packing = self._packing, None
            if packing is None and not (packing := await self._begin(cursor)):
                return await _renew_pack(cursor)
            try:
                self._packing = await self._go_on(cursor, packing)
            finally:
                if self._packing is None:
                    with suppress(psycopg.Error, TimeoutError):  # a lost connection has lost the lock
                        await cursor.execute(packs.UNLOCK, (PACK_LOCK,))
        return True

    async def _go_on(self, cursor: Cursor, packing: _Packing) -> _Packing | None:
        """Take the next events of the segment, or store the pack; return None if it is done with."""
        which = {"after": packing.ids[-1] if packing.ids else packing.first - 1, "last": packing.last}
        limits = {"kinds": list(SEARCHED_KINDS), "events": STEP_EVENTS, "most": STEP_CHARACTERS}
        await cursor.execute(packs.INDEXED_EVENTS, which | limits, prepare=False)
        if events := [_Event(*row) for row in await cursor.fetchall()]:
            await asyncio.to_thread(packing.add, events)
            return packing
        blocks = await asyncio.to_thread(packing.pack.pack_words)
        async with cursor.connection.transaction():
            if not await _store(cursor, packing, blocks):
                self._postponed[packing.segment] = time.monotonic() + POSTPONE_SECONDS
        return None

    async def _begin(self, cursor: Cursor) -> _Packing | None:
        """Return the next segment to pack, with the lock for it; None if there is none."""
        now = time.monotonic()
        self._postponed = {segment: until for segment, until in self._postponed.items() if until > now}
        await cursor.execute(packs.NEXT_SEGMENT, ([*self._postponed],), prepare=False)
        for segment, version in await cursor.fetchall():
            await cursor.execute(packs.TRY_LOCK, (PACK_LOCK,))
            if await cursor.fetchall() == [(True,)]:
                return _Packing(segment, version)
        return None

    async def behind(self) -> int:
        """Return how many segments are to be packed. Raise StoreError on failure."""
        async with self._session.use() as cursor:
            await cursor.execute(packs.UNPACKED)
            ((count,),) = await cursor.fetchall()
        return count

    @repeat_on_conflict
    async def merge_some(self) -> bool:
        """Merge the next words of packs into one of the next level; return False if there is nothing to do.

        Raise StoreError on failure.
        """
        async with self._session.use() as cursor:
            await cursor.execute(packs.UNFINISHED, prepare=False)
            rows = await cursor.fetchall()
            if not rows:
                await cursor.execute(packs.BEGIN_PACK, prepare=False)
                return bool(cursor.rowcount)
            level, number = rows[0]
            which: dict[str, int] = {"level": level, "number": number}
            async with cursor.connection.transaction():
                await cursor.execute(packs.LOCK_PACKS)
                await cursor.execute(packs.MERGED, which)
                for (merged,) in await cursor.fetchall():
                    await _merge(cursor, which, merged)
                    return True
        return False

    async def rewrite(self) -> bool:
        """Rewrite the tables of unpacked pieces and of stems if they hold much more room than they need; return False.

        It is short for what was packed in time, and long once: after an earlier version has filled the table.
        """
        if self._rewritten_at is not None and time.monotonic() < self._rewritten_at + REWRITE_INTERVAL:
            return False
        async with self._session.use(patient=True) as cursor:
            sizes = {"pieces": MAX_PIECES_BYTES, "least": MIN_LOOSE_BYTES, "share": MIN_LOOSE_SHARE}
            await cursor.execute(packs.LOOSE_TABLES, sizes, prepare=False)
            tables = [table for (table,) in await cursor.fetchall()]
            if tables:
                self._rewritten_at = time.monotonic()
                await cursor.execute(packs.STATEMENT_TIMEOUT)
                ((timeout,),) = await cursor.fetchall()
                await cursor.execute(packs.SET_STATEMENT_TIMEOUT, ("0",))
                try:
                    for table in tables:
                        for statement in packs.REWRITE[table]:
                            await cursor.execute(statement)
                finally:
                    await cursor.execute(packs.SET_STATEMENT_TIMEOUT, (timeout,))
        return False


async def _renew_pack(cursor: Cursor) -> bool:
    """Let a pack of an earlier version be made anew if it lacks words; return False if there is none."""
    await cursor.execute(packs.OUTDATED, prepare=False)
    if await cursor.fetchall() != [(True,)]:
        return False
    async with cursor.connection.transaction():
        await cursor.execute(packs.LOCK_PACKS)
        await cursor.execute(packs.RENEW_PACK, prepare=False)
        return bool(cursor.rowcount)


async def _store(cursor: Cursor, packing: _Packing, blocks: Sequence[Block]) -> bool:
    """Store a pack in place of the pieces that are in it, unless the segment has changed since it was read.

    Return False if the segment has other pieces by now.
    """
    which = {"segment": packing.segment, "first": packing.first, "last": packing.last, "ids": packing.ids}
    await cursor.execute(packs.LOCK_PACKS)
    await cursor.execute(packs.TAKE_SEGMENT, (packing.segment, packing.version))
    if not cursor.rowcount:
        return True
    await cursor.execute(packs.UNPACK, which)
    if blocks:
        await cursor.execute(packs.ADD_SEGMENT, (packing.segment, packing.newest_at, packing.pack.pack_pieces()))
        await _add_blocks(cursor, 0, packing.segment, blocks)
    await cursor.execute(packs.DROP_PIECES, which)
    await cursor.execute(packs.DROP_SEGMENT, which)
    if is_left := not cursor.rowcount:
        await cursor.execute(packs.KEEP_SEGMENT, which)
    return not is_left


async def _merge(cursor: Cursor, which: dict[str, int], merged: bytes | None) -> None:
    """Merge the words behind `merged`, up to the last one that is known of each pack."""
    after = merged or b""
    await cursor.execute(packs.NEXT_BLOCKS, {**which, "merged": after, "blocks": BLOCKS_PER_MERGE}, prepare=False)
    below: dict[int, list[bytes]] = {}
    for place, words in await cursor.fetchall():
        below.setdefault(place, []).append(words)
    blocks, last = await asyncio.to_thread(_merged_blocks, below, after)
    await _add_blocks(cursor, which["level"], which["number"], blocks)
    await cursor.execute(packs.SET_MERGED, {**which, "merged": last})
    if last is None:
        await cursor.execute(packs.COVER, which)


def _merged_blocks(below: dict[int, list[bytes]], after: bytes) -> tuple[list[Block], bytes | None]:
    """Return the blocks of the words behind `after`, and the last word in them; None if no pack has more words."""
    words = {place: [word for each in blocks for word in WordBlock(each).words()] for place, blocks in below.items()}
    ends = [words[place][-1] for place, blocks in below.items() if len(blocks) == BLOCKS_PER_MERGE]
    last = min(ends, default=None)
    wanted = {
        place: each[bisect_right(each, after) : len(each) if last is None else bisect_right(each, last)]
        for place, each in words.items()
    }
    return merge_words(wanted), last


async def _add_blocks(cursor: Cursor, level: int, number: int, blocks: Sequence[Block]) -> None:
    if blocks:
        columns = [list(column) for column in zip(*blocks, strict=True)]
        await cursor.execute(packs.ADD_BLOCKS, (level, number, *columns), prepare=False)
