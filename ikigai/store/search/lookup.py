"""This module runs one search through the index, the newest segment of ids first, as long as it has time.

Each segment is asked by itself, so that no query, however common its words, costs more than a segment at a time. Packs
of many segments tell which of them hold the words at all.
Phrases, parts of words and punctuation, which the index cannot prove, are searched in the text of its candidates.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.search import lexer
from ikigai.core.search.query import IndexKey, MatchMode, Term
from ikigai.core.search.snippets import TermFinder
from ikigai.store.driver_connection import Cursor
from ikigai.store.reading import NO_LIMIT
from ikigai.store.search.pack_lookup import IndexPart, PackLookup, Place
from ikigai.store.search.word_keys import SEGMENT_BITS, agent_key, kind_key, segment_of, segment_prefix
from ikigai.store.sql import search

SEARCH_TIMEOUT = 2.0
"""Seconds that a search may take; the step under way then is finished."""
MAX_SEGMENT = 2**31 - 1
MAX_BATCH_PARTS = 64
"""Parts of the index that are asked at once: first one alone, then twice as many each time, and after hits as many as
the others are likely to be in.
"""
TEXTS_PER_READ = 200
"""Texts that are read at once."""
PIECES_PER_HIT = 2
"""Pieces of a segment that are looked up for each hit that is wanted, where each piece is a hit by the index alone."""
MIN_VERIFIED_TEXTS = 10
"""Texts that are read at once, at least, where only they tell if they are hits."""
MAX_SKIPPED_CHARACTERS = 5_000_000
"""Characters in front of pieces that are read at once: the server unpacks a long event anew for each of its pieces. 200
of 15 MB took 17 seconds on a busy machine, longer than a statement may take.
"""
MAX_WHOLE_BYTES = 1_000_000
"""Bytes of whole events that are read at once, at least one event: of one of 15 MB each piece took so long that no
search got beyond it in its time.
"""


class SearchScope(NamedTuple):
    """The scope of a search: `agents` with the last of their events (None: all events of all), `kinds` (empty: all)."""

    agents: dict[str, int | None] | None
    kinds: tuple[str, ...]
    since: float | None
    before: int

    @property
    def keys(self) -> list[list[str]]:
        """Keys of the index; a piece needs one of each list."""
        agents = [agent_key(agent) for agent in self.agents or ()]
        return [each for each in (agents, [kind_key(kind) for kind in self.kinds]) if each]

    @property
    def last_ids(self) -> dict[str, int]:
        """The last id for each key of an agent."""
        found: dict[str, int] = {}
        for agent, last in (self.agents or {}).items():
            key = agent_key(agent)
            found[key] = max(found.get(key, 0), NO_LIMIT if last is None else last)
        return found


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


class Lookup:
    """One search of a list of terms, newest segments first. It may take `more_seconds` than others."""

    def __init__(self, cursor: Cursor, terms: tuple[Term, ...], which: SearchScope, more_seconds: float = 0.0) -> None:
        self._cursor, self._terms, self._which = cursor, terms, which
        self._until = time.monotonic() + SEARCH_TIMEOUT + more_seconds
        self._batch, self._most = 1, 1 << SEGMENT_BITS + 4
        keys = [[key] for term in terms for key in term.keys]
        whole = [[IndexKey(key, MatchMode.WHOLE) for key in each] for each in which.keys]
        self._packs = PackLookup(cursor, [*keys, *whole], which.last_ids)
        self._unpacked = dict[int, bool]()  # True for those that are read from the log
        self.finder = TermFinder(terms)
        self.proven = all(term.proven for term in terms)
        # What the index finds of an agent behind the fork is left out only when its text is read.
        self._is_limited = self.proven and all(last == NO_LIMIT for last in which.last_ids.values())
        self.reached: int | None = None

    @property
    def late(self) -> bool:
        return time.monotonic() > self._until

    def stop(self) -> None:
        """Let the search end after the step under way, as if its time were over."""
        self._until = 0.0

    async def rows(self, limit: int) -> AsyncIterator[PieceRow]:
        """Yield the pieces that hold every term, of each event the first, newest events first; at most `limit`."""
        last, count, chunk = 0, 0, limit
        if self._is_limited:
            self._most = PIECES_PER_HIT * limit
        async for parts in self._parts():
            places, at, known = [place for part in parts for place in part.found or ()], 0, count
            logged = self._is_logged(parts[0])
            proven = self.proven and not logged
            while at < len(places):
                chunk = min(chunk if proven else max(chunk, MIN_VERIFIED_TEXTS), TEXTS_PER_READ)
                wanted, before = _short_to_read(places[at : at + chunk], logged), count
                rows, at = await read_texts(self._cursor, wanted, self._which), at + len(wanted)
                for row in rows if proven else await asyncio.to_thread(self._verify_rows, rows, logged):
                    if row.id != last:
                        last, count = row.id, count + 1
                        yield row
                        if count == limit:
                            return
                chunk = limit - count if count > before else 2 * chunk
                if self.late and at < len(places):
                    self.reached = places[at].message + 1
                    return
            if count > known:
                self._batch = min(ceil((limit - count) * len(parts) / (count - known)), MAX_BATCH_PARTS)

    def _verify_rows(self, rows: Sequence[PieceRow], whole: bool) -> list[PieceRow]:
        """Return the rows that hold every term, of each whole event the first piece that does."""
        if not whole:
            return [row for row in rows if self.finder.finds(row.said)]
        found = (next((piece for piece in _cut(row) if self.finder.finds(piece.said)), None) for row in rows)
        return [piece for piece in found if piece]

    async def _parts(self) -> AsyncIterator[list[IndexPart]]:
        """Yield the segments with pieces that may hold every term by the index, newest first; in one list those that
        were looked up together.
        """
        await self._cursor.execute(search.WITH_BITMAPS)
        todo = await self._newest_last()
        while todo:
            if todo[-1].found is None:
                batch = [part for part in todo[-self._batch : -1] if part.found is None and not self._is_logged(part)]
                await self._look_up([*batch, todo[-1]])
                self._batch = min(2 * self._batch, MAX_BATCH_PARTS)
            if todo[-1].level:
                todo += self._below(todo.pop())
            elif found := self._pop_segments(todo):
                yield found
                if (last := found[-1]).has_more and last.found:
                    self._most *= 2
                    todo.append(IndexPart(0, last.number, last.is_packed, before=last.found[-1].message))
            if self.late and todo:
                self.reached = self.reached or min(todo[-1].end, todo[-1].before, self._which.before)
                return

    def _pop_segments(self, todo: list[IndexPart]) -> list[IndexPart]:
        """Take the segments that have been looked up from the end of `todo`, up to one with more pieces or one that is
        read from the log; return those with pieces.
        """
        found: list[IndexPart] = []
        while todo and not todo[-1].level and todo[-1].found is not None:
            if found and self._is_logged(todo[-1]):
                break
            part = todo.pop()
            if part.found:
                found.append(part)
            if part.has_more or self._is_logged(part):
                break
        return found

    async def _newest_last(self) -> list[IndexPart]:
        """Return the parts of the index that together have all segments before the bound, each once."""
        which = self._which
        await self._cursor.execute(search.SEGMENTS, (min(segment_of(which.before - 1), MAX_SEGMENT), which.since))
        self._unpacked = dict(await self._cursor.fetchall())
        tops = await self._packs.tops(which.before, which.since)
        inside = {number for top in tops for number in self._unpacked if top.covers(number)}
        return sorted(
            [*tops, *(IndexPart(0, number, False) for number in self._unpacked.keys() - inside)], key=lambda x: x.end
        )

    def _below(self, part: IndexPart) -> list[IndexPart]:
        """Return the parts of a pack that may hold the terms, and those with pieces that are not packed."""
        found: list[IndexPart] = []
        for each in part.parts():
            if each.first < self._which.before:
                if each.number in part.matching:
                    found.append(each)
                elif any(each.covers(number) for number in self._unpacked):
                    found.append(each.without_matches() if each.level else IndexPart(0, each.number, False))
        return found

    def _is_logged(self, part: IndexPart) -> bool:
        """Return True for a segment that a purge has taken out of the index: its events are read."""
        return not part.level and self._unpacked.get(part.number, False)

    async def _look_up(self, batch: list[IndexPart]) -> None:
        """Find the pieces of these segments and the matching parts of these packs."""
        for part in batch:
            part.before = min(part.before, self._which.before)
        await self._packs.look_up([part for part in batch if part.is_packed], self._most)
        unpacked = {part.number: part for part in batch if not part.level and part.number in self._unpacked}
        for number, places in (await self._unpacked_places(unpacked)).items():
            unpacked[number].found = [*(unpacked[number].found or ()), *places]
        for part in batch:
            part.found = sorted(part.found or (), key=lambda place: (-place.message, place.start))
            if len(part.found) >= self._most and not self._is_logged(part):
                del part.found[self._most :]
                part.has_more = True

    async def _unpacked_places(self, wanted: dict[int, IndexPart]) -> dict[int, list[Place]]:
        """Return the pieces of segments that are not packed: from the index of terms, or from all pieces."""
        keys = [key for term in self._terms for key in term.keys]
        parts = [key.text for key in keys if key.how is MatchMode.PART]
        groups = [[key] for key in keys if key.how is not MatchMode.PART]
        is_served = bool(groups) and not parts
        groups += [[IndexKey(key, MatchMode.WHOLE) for key in each] for each in self._which.keys]
        found = {number: await self._read_log(number) for number in wanted if self._unpacked[number]}
        numbers = [number for number in wanted if not self._unpacked[number]]
        queries = {number: " & ".join(_any(segment_prefix(number), each) for each in groups) for number in numbers}
        if not is_served:
            return found | {number: await self._scan(number, query, parts) for number, query in queries.items()}
        found |= {number: [] for number in numbers}
        if numbers:
            bounds = {"befores": [wanted[number].before for number in numbers], "since": self._which.since}
            which = {"queries": [*queries.values()], **bounds, "most": self._most}
            await self._cursor.execute(search.PROBE, which, prepare=False)
            for n, *place in await self._cursor.fetchall():
                found[numbers[n]].append(Place(*place))
        return found

    async def _read_log(self, number: int) -> list[Place]:
        """Return all events of a segment that may be searched for, each whole."""
        which = self._which
        agents = None if which.agents is None else [UUID(agent) for agent in which.agents]
        of = {"agents": agents, "kinds": list(which.kinds or SEARCHED_KINDS)}
        await self._cursor.execute(
            search.LOGGED_EVENTS, {"segment": number, "before": which.before, **of}, prepare=False
        )
        return [Place(*row) for row in await self._cursor.fetchall()]

    async def _scan(self, number: int, query: str, parts: list[str]) -> list[Place]:
        first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
        which: dict[str, Any] = {"before": self._which.before, "since": self._which.since, "query": query or None}
        await self._cursor.execute(search.SCAN, {**which, "first": first, "last": last, "parts": parts}, prepare=False)
        return [Place(*row) for row in await self._cursor.fetchall()]


def _short_to_read(places: list[Place], whole: bool) -> list[Place]:
    """Return the first of these pieces, or whole events, at least one, that take little time to read together."""
    sizes = list(accumulate(place.length if whole else place.start for place in places))
    return places[: max(1, bisect_right(sizes, MAX_WHOLE_BYTES if whole else MAX_SKIPPED_CHARACTERS))]


def _cut(row: PieceRow) -> Iterator[PieceRow]:
    """Yield the pieces of an event as the index has them."""
    return (row._replace(text=row.text[start : start + len(said)]) for start, said in lexer.split_pieces(row.said))


def _any(before: str, keys: Sequence[IndexKey]) -> str:
    """Return a tsquery for any of these keys in the segment of that prefix."""
    quoted = (
        "'" + (before + key.text).replace("\\", "\\\\").replace("'", "''") + "'" + ":*" * (key.how is MatchMode.START)
        for key in keys
    )
    return f"({' | '.join(quoted)})"


async def read_texts(cursor: Cursor, places: Sequence[Place], which: SearchScope) -> list[PieceRow]:
    """Return these pieces with their texts, without those of other agents or times."""
    columns = [list(column) for column in zip(*places, strict=True)]
    await cursor.execute(search.TEXTS, (*columns, which.since), prepare=False)
    rows = [PieceRow(*row) for row in await cursor.fetchall()]
    if which.agents is None:
        return rows
    return [row for row in rows if is_within(which.agents, row.agent, row.id)]


def is_within(agents: dict[str, int | None], agent: str, id: int) -> bool:
    """Return True if an event of this agent belongs to a lineage."""
    return agent in agents and ((last := agents[agent]) is None or id <= last)
