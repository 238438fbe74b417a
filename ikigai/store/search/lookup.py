"""Run one search through the index, the newest events first, as long as it has time.

Segments are asked at the newest event that they have, and their rows of documents are opened at the newest event in
these. So no query, however common its words, reads more than is newer than its hits. Phrases and punctuation, which the
index cannot prove, are searched in the text.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, count
from typing import NamedTuple, TypeVar
from uuid import UUID

from ikigai.core.search import lexer
from ikigai.core.search.query import IndexKey, MatchMode, Term
from ikigai.core.search.snippets import TermFinder
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.reading import NO_LIMIT
from ikigai.store.search.postings import BREAK, is_word, read_documents, read_numbers
from ikigai.store.sql import search as queries

SEARCH_TIMEOUT = 2.0
"""Seconds that a search may take; the step under way then is finished."""
MAX_AT_ONCE = 64
"""Segments that are asked at once, or rows that are opened: first one, then twice as many each time."""
MAX_PART_WORDS = 32
"""Words with a part of words by which that is replaced. With more words, hits are in the newest segments."""
MIN_TEXTS, MAX_TEXTS = 10, 200
"""Texts that are read at once."""
MAX_SKIPPED_CHARACTERS = 5_000_000
"""Characters in front of pieces that are read at once: the server unpacks a long event anew for each of its pieces. 200
of 15 MB took 17 seconds on a busy machine, longer than a statement may take.
"""
LAST_CHARACTER = "\U0010ffff"


class SearchScope(NamedTuple):
    """The scope of a search: `agents` with the last of their events (None: all events of all), `kinds` (empty: all)."""

    agents: dict[str, int | None] | None
    kinds: tuple[str, ...]
    since: float | None
    before: int

    def last_id(self, agent: str) -> int:
        """Return the last event of an agent that is in the scope."""
        last = self.agents.get(agent) if self.agents else None
        return NO_LIMIT if last is None else last


class Place(NamedTuple):
    """A piece: its event, its first character and the number of its characters."""

    message: int
    start: int
    length: int


class PieceRow(NamedTuple):
    """A piece that matches, with its text."""

    id: int
    agent: str
    name: str
    at: float
    kind: str
    text: str

    @property
    def said(self) -> str:
        return lexer.searchable_text(self.kind, self.text)


_T = TypeVar("_T")


class Lookup:
    """One search of a list of terms, newest events first. It may take `more_seconds` than others."""

    def __init__(self, cursor: Cursor, terms: tuple[Term, ...], which: SearchScope, more_seconds: float = 0.0) -> None:
        self._cursor, self._which = cursor, which
        self._until = time.monotonic() + SEARCH_TIMEOUT + more_seconds
        self._groups = [[key] for term in terms for key in term.keys]
        if which.kinds:
            self._groups.append([IndexKey(f"#{kind}", MatchMode.WHOLE) for kind in which.kinds])
        self._ahead: list[tuple[int, int, int, _Segment | _MatchingRow | Place]] = []
        self._order = count()
        self.finder = TermFinder(terms)
        self._proven = all(term.proven for term in terms)
        self.reached: int | None = None

    @property
    def late(self) -> bool:
        return time.monotonic() > self._until

    def stop(self) -> None:
        """Let the search end after the step under way, as if its time were over."""
        self._until = 0.0

    async def rows(self, limit: int) -> AsyncIterator[PieceRow]:
        """Yield the pieces that hold every term, of each event the first, newest events first; at most `limit`."""
        await self._begin()
        last, found, wanted = 0, 0, limit
        while places := await self._next_places(min(max(wanted, MIN_TEXTS), MAX_TEXTS)):
            before = found
            for row in await self._read(places):
                if row.id != last:
                    last, found = row.id, found + 1
                    yield row
                    if found == limit:
                        return
            wanted = limit - found if found > before else 2 * wanted
            if self.late and self._ahead:
                break
        if self._ahead:
            self.reached = 1 - self._ahead[0][0]

    async def _read(self, places: Sequence[Place]) -> list[PieceRow]:
        """Return the pieces that hold every term."""
        rows = list[PieceRow]()
        while places:
            skipped = list(accumulate(place.start for place in places))
            some = places[: max(1, bisect_right(skipped, MAX_SKIPPED_CHARACTERS))]
            columns = [list(column) for column in zip(*some, strict=True)]
            await self._cursor.execute(queries.TEXTS, (*columns, self._which.since), prepare=False)
            rows += [PieceRow(*row) for row in await self._cursor.fetchall()]
            places = places[len(some) :]
        if self._proven:
            return rows
        return await asyncio.to_thread(lambda: [row for row in rows if self.finder.finds(row.said)])

    # What is ahead: segments, rows of documents and documents, each at the newest event that can be in it

    def _put(self, newest: int, start: int, item: "_Segment | _MatchingRow | Place") -> None:
        heappush(self._ahead, (-newest, start, next(self._order), item))

    def _take(self, kind: type[_T], most: int) -> list[_T]:
        """Take what is newest, as long as it is of one kind."""
        found: list[_T] = []
        while self._ahead and len(found) < most and isinstance(item := self._ahead[0][-1], kind):
            heappop(self._ahead)
            found.append(item)
        return found

    async def _begin(self) -> None:
        which = self._which
        self._agents = None if which.agents is None else [UUID(agent) for agent in which.agents]
        if not await self._know_words():
            return
        await self._cursor.execute(queries.SEGMENTS, {"since": which.since, "agents": self._agents}, prepare=False)
        for newest, *segment in await self._cursor.fetchall():
            self._put(min(newest, which.before - 1), 0, _Segment(*segment))

    async def _know_words(self) -> bool:
        """Replace a part of words by the words with it, if they are few; return False if a key has no word at all."""
        keys = [(n, key) for n, (key, *_) in enumerate(self._groups) if is_word(key.text)]
        lows, highs = ([_bounds(key)[end] for _, key in keys] for end in (0, 1))
        which = (MAX_PART_WORDS + 1, lows, highs, [key.text for _, key in keys])
        await self._cursor.execute(queries.WORDS, which, prepare=False)
        found = [words for (words,) in await self._cursor.fetchall()]
        for (n, key), blocks in zip(keys, found, strict=True):
            if key.how is MatchMode.PART and len(blocks) <= MAX_PART_WORDS:  # there is a different word in each
                words = [word for block in blocks for word in block.split(BREAK) if key.text in word]
                if len(words) <= MAX_PART_WORDS:
                    self._groups[n] = [IndexKey(word, MatchMode.WHOLE) for word in words]
        return all(found)

    async def _next_places(self, most: int) -> list[Place]:
        """Return the next pieces that may hold every term; fewer where the time is over."""
        found, asked = list[Place](), 1
        newest = self._ahead[0][0] if self._ahead else 0
        while self._ahead and len(found) < most:
            if places := self._take(Place, most - len(found)):
                found += places
            elif self.late and (found or self._ahead[0][0] > newest):  # each search gets on
                break
            elif rows := self._take(_MatchingRow, asked):
                await self._open(rows)
            else:
                await self._look_up(self._take(_Segment, asked))
            asked = min(2 * asked, MAX_AT_ONCE)
        return found

    async def _look_up(self, segments: Sequence["_Segment"]) -> None:
        """Put the rows with documents that have a word for each key, and are in the scope."""
        for segment, numbers in zip(segments, await self._numbers(segments), strict=True):
            if numbers:
                which = {"first": segment.first, "last": segment.last, "before": self._which.before}
                which |= {"since": self._which.since, "agents": self._agents}
                await self._cursor.execute(queries.DOCUMENTS_BETWEEN, which, prepare=False)
                for agent, first, last, newest in await self._cursor.fetchall():
                    if within := numbers[bisect_left(numbers, first) : bisect_right(numbers, last)]:
                        newest = min(newest, self._which.before - 1, self._which.last_id(agent))
                        self._put(newest, 0, _MatchingRow(agent, first, within))

    async def _numbers(self, segments: Sequence["_Segment"]) -> list[Sequence[int]]:
        """Return for each segment the documents that have a word for each key, ascending."""
        if not (keys := [key for group in self._groups for key in group]):
            return [range(segment.first, segment.last + 1) for segment in segments]
        group_of = [n for n, group in enumerate(self._groups) for _ in group]
        lows, highs, texts = map(list, zip(*map(_bounds, keys), strict=True))
        which = {"segments": [each.id for each in segments], "lows": lows, "highs": highs, "parts": texts}
        await self._cursor.execute(queries.BLOCKS, which, binary=True, prepare=False)
        rows = await self._cursor.fetchall()

        def read() -> list[Sequence[int]]:
            lists: list[list[set[int]]] = [[set() for _ in self._groups] for _ in segments]
            for n, key, words, numbers in rows:
                lists[n][group_of[key]].update(read_numbers(words, numbers, keys[key]))
            common = (sorted(set.intersection(*groups)) for groups in lists)
            return [[each.first + n for n in numbers] for each, numbers in zip(segments, common, strict=True)]

        return await asyncio.to_thread(read)

    async def _open(self, rows: Sequence["_MatchingRow"]) -> None:
        """Put the pieces of rows."""
        await self._cursor.execute(queries.DOCUMENTS_AT, ([row.first for row in rows],), binary=True, prepare=False)
        packed = dict(await self._cursor.fetchall())
        for agent, first, numbers in rows:
            documents, last = read_documents(packed[first]), min(self._which.before - 1, self._which.last_id(agent))
            for number in numbers:
                message, start, length, _ = documents[number - first]
                if message <= last:
                    self._put(message, start, Place(message, start, length))


class _Segment(NamedTuple):
    """A segment, with its first and last document."""

    id: int
    first: int
    last: int


class _MatchingRow(NamedTuple):
    """Documents of an agent that may hold the terms, and the first one of their row."""

    agent: str
    first: int
    numbers: Sequence[int]


def _bounds(key: IndexKey) -> tuple[str, str, str]:
    """Return the words between which all that match a key are, and a text that is in a block with one."""
    if key.how is MatchMode.PART:
        return "", LAST_CHARACTER, key.text
    if key.how is MatchMode.START:
        return key.text, key.text + LAST_CHARACTER, BREAK + key.text
    return key.text, key.text, BREAK + key.text + BREAK
