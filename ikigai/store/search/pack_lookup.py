"""This module looks keys up in the packs of the index of words: which pieces of a segment have them, or which parts."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import NamedTuple

from ikigai.core.search.query import IndexKey, MatchMode
from ikigai.store.driver_connection import Cursor
from ikigai.store.reading import NO_LIMIT
from ikigai.store.search.packs import (
    FANOUT_BITS,
    REST_OF_TEXT,
    PackedPieces,
    WordBlock,
    read_lists,
    unpack_numbers,
    unpack_pieces,
)
from ikigai.store.search.word_keys import SEGMENT_BITS
from ikigai.store.sql import word_packs as packs

MAX_BLOCKS_AT_ONCE = 8
"""Blocks that are read without another thread: about a millisecond, less than the way to a busy thread and back."""

MIN_AHEAD_LEVEL = 3
"""Level from which on packs are asked together with those below them; of a lower level only one that is asked alone."""
BLOCKS_AHEAD = 2
"""Blocks of each key that are read of a pack below: one that has a second block may have more, and is asked again."""


class BlockRow(NamedTuple):
    """A block with its words and lists, for a key and a part of the index: both by their places."""

    part: int
    key: int
    words: bytes
    lists: bytes


class Place(NamedTuple):
    """A piece: its event, its first character and the number of its characters, or a larger one."""

    message: int
    start: int
    length: int


@dataclass
class IndexPart:
    """A pack, or a segment that is not packed. `found` is None until it is looked up.

    Then a segment has the pieces in it before the id `before`, the newest of them with `has_more`. A larger pack has in
    `matching` the numbers of its parts that may hold some.
    """

    level: int
    number: int
    is_packed: bool = True
    found: list[Place] | None = None
    matching: frozenset[int] = frozenset()
    before: int = NO_LIMIT
    has_more: bool = False

    @property
    def first(self) -> int:
        """The first id."""
        return self.number << SEGMENT_BITS + FANOUT_BITS * self.level

    @property
    def end(self) -> int:
        """The id behind the last one."""
        return self.number + 1 << SEGMENT_BITS + FANOUT_BITS * self.level

    def covers(self, segment: int) -> bool:
        return segment >> FANOUT_BITS * self.level == self.number

    def parts(self) -> list["IndexPart"]:
        """The packs that this one covers, if all of them exist."""
        first = self.number << FANOUT_BITS
        return [IndexPart(self.level - 1, number) for number in range(first, first + (1 << FANOUT_BITS))]

    def without_matches(self) -> "IndexPart":
        return replace(self, found=[])


class PackLookup:
    """Looks up `groups` of keys: a piece needs one of each group. `last` has the last id for some of the keys."""

    def __init__(self, cursor: Cursor, groups: Sequence[Sequence[IndexKey]], last: Mapping[str, int]) -> None:
        self._cursor, self._groups, self._last = cursor, groups, last
        self._keys = [key for group in groups for key in group]
        self._group_of = [n for n, group in enumerate(groups) for _ in group]
        self._ahead = dict[tuple[int, int], list[BlockRow]]()  # blocks of packs that may be asked next

    async def tops(self, before: int, since: float | None) -> list[IndexPart]:
        """Return the largest packs, which cover all others."""
        await self._cursor.execute(packs.TOPS, {"before": before, "since": since}, prepare=False)
        return [IndexPart(*row) for row in await self._cursor.fetchall()]

    async def look_up(self, parts: Sequence[IndexPart], most: int) -> None:
        """Find what these packs have, of a segment the newest `most` pieces or some more."""
        if not parts:
            return
        rows = await self._blocks(parts) if self._keys else []
        is_short = len(rows) <= MAX_BLOCKS_AT_ONCE
        lists = self._lists(parts, rows) if is_short else await asyncio.to_thread(self._lists, parts, rows)
        numbers: list[tuple[IndexPart, set[int] | None]] = []
        for n, part in enumerate(parts):
            groups = [lists.get((n, group), []) for group in range(len(self._groups))]
            if not part.level:
                pieces = [set[int]().union(*map(unpack_numbers, each)) for each in groups]
                numbers.append((part, set.intersection(*pieces) if pieces else None))
            else:
                masks = [reduce(or_, (each[0] for each in group), 0) for group in groups]
                mask = reduce(and_, masks, (1 << (1 << FANOUT_BITS)) - 1)
                part.matching = frozenset(each.number for place, each in enumerate(part.parts()) if mask >> place & 1)
        await self._read_places(numbers, most)

    async def _blocks(self, parts: Sequence[IndexPart]) -> list[BlockRow]:
        """Return the blocks of these packs with the keys.

        Those of the packs below come with them, since a statement takes longer than some blocks. Without that one more
        statement for each level leads to a rare word.
        """
        known = [self._ahead.pop((part.level, part.number), None) for part in parts]
        places = [place for place, blocks in enumerate(known) if blocks is None]
        rows = [row._replace(part=place) for place, blocks in enumerate(known) for row in blocks or ()]
        if not places:
            return rows
        below = [each for place in places if self._leads_on(parts[place], len(places)) for each in parts[place].parts()]
        asked, bounds = [*(parts[place] for place in places), *below], [_bounds(key) for key in self._keys]
        which = {"levels": [part.level for part in asked], "numbers": [part.number for part in asked]}
        which |= {"lows": [low for low, _ in bounds], "highs": [high for _, high in bounds]}
        which |= {"most": [None] * len(places) + [BLOCKS_AHEAD] * len(below)}
        await self._cursor.execute(packs.BLOCKS, which, prepare=False)
        ahead: list[list[BlockRow]] = [[] for _ in below]
        for row in map(BlockRow._make, await self._cursor.fetchall()):
            if row.part < len(places):
                rows.append(row._replace(part=places[row.part]))
            else:
                ahead[row.part - len(places)].append(row)
        for part, blocks in zip(below, ahead, strict=True):
            if len({row.key for row in blocks}) == len(blocks):
                self._ahead[part.level, part.number] = blocks
        return rows

    def _leads_on(self, part: IndexPart, asked: int) -> bool:
        """Return True if the packs below this one are read with it, where so many are asked."""
        is_part = any(key.how is MatchMode.PART for key in self._keys)  # each of their blocks would match
        return not is_part and (part.level >= MIN_AHEAD_LEVEL or (part.level > 0 and asked == 1))

    def _lists(self, parts: Sequence[IndexPart], rows: Iterable[BlockRow]) -> dict[tuple[int, int], list[bytes]]:
        """Return the lists of all words that match a key, by the places of part and group."""
        found: dict[tuple[int, int], list[bytes]] = {}
        for part, n, words, lists in rows:
            key = self._keys[n]
            if parts[part].first > self._last.get(key.text, NO_LIMIT):
                continue
            if places := list(WordBlock(words).find(key.text.encode(), key.how)):
                found.setdefault((part, self._group_of[n]), []).extend(read_lists(lists, places))
        return found

    async def _read_places(self, numbers: Sequence[tuple[IndexPart, set[int] | None]], most: int) -> None:
        """Set the newest `most` pieces of segments by their numbers, None for all of them.

        The event in which they begin is there with all of its pieces.
        """
        wanted = [part.number for part, found in numbers if found != set()]
        pieces: dict[int, PackedPieces] = {}
        if wanted:
            await self._cursor.execute(packs.PIECES, (wanted,), prepare=False)
            pieces = {number: unpack_pieces(packed) for number, packed in await self._cursor.fetchall()}
        for part, found in numbers:
            if own := pieces.get(part.number):
                end = bisect_left(own.offsets, part.before - part.first)
                newest = range(end) if found is None else sorted(n for n in found if n < end)
                first = max(0, len(newest) - most)
                while first and own.offsets[newest[first - 1]] == own.offsets[newest[first]]:
                    first -= 1  # a hit is shown by the first piece of its event
                part.found = [_place(part, own, n) for n in newest[first:]]


def _place(part: IndexPart, pieces: PackedPieces, n: int) -> Place:
    return Place(part.first + pieces.offsets[n], pieces.starts[n], pieces.lengths[n] or REST_OF_TEXT)


def _bounds(key: IndexKey) -> tuple[bytes, bytes]:
    """Return the words between which all that match a key are."""
    text = key.text.encode()
    if key.how is MatchMode.PART:
        return b"", b"\xff"
    return text, text + b"\xff" if key.how is MatchMode.START else text
