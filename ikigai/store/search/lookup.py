"""This module runs one search through the index, the newest segment of ids first, as long as it has time.

Each segment is asked by itself, so that no query, however common its words, costs more than a segment at a time.
Phrases, parts of words and punctuation, which the index cannot prove, are searched in the text of its candidates.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ikigai.core.search import lexer
from ikigai.core.search.query import MatchMode, Term
from ikigai.core.search.snippets import TermFinder
from ikigai.store.connection import Cursor
from ikigai.store.reading import NO_LIMIT
from ikigai.store.search.indexer import SEGMENT_BITS, agent_key, kind_key, segment_of, segment_prefix
from ikigai.store.sql import search

SEARCH_TIMEOUT = 2.0
"""Seconds that a search may take; the step under way then is finished."""
MAX_LISTED_WORDS = 200
"""Limit of the words of a segment that contain a part: above it the texts are read instead."""
MAX_SEGMENT = 2**31 - 1
MAX_BATCH_SEGMENTS = 64
"""Segments that are asked at once; the first one is asked alone, then always twice as many."""
TEXTS_PER_READ = 200
"""Texts that are read at once."""
MAX_PROVEN_PIECES = 1_000
"""Limit of the newest pieces of a segment that are hits by the index alone."""


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
    """One search of a list of terms, newest segments first."""

    def __init__(self, cursor: Cursor, terms: tuple[Term, ...], which: SearchScope) -> None:
        self._cursor, self._terms, self._which = cursor, terms, which
        self._until = time.monotonic() + SEARCH_TIMEOUT
        self.finder = TermFinder(terms)
        self.proven = all(term.proven for term in terms)
        self.reached: int | None = None

    @property
    def late(self) -> bool:
        return time.monotonic() > self._until

    async def rows(self, limit: int) -> AsyncIterator[PieceRow]:
        """Yield the pieces that hold every term, of each event the first, newest events first; at most `limit`."""
        last, count, chunk = 0, 0, limit if self.proven else TEXTS_PER_READ // 4
        async for places in self.places():
            at = 0
            while at < len(places):
                part = places[at : at + min(chunk, TEXTS_PER_READ)]
                at, chunk = at + len(part), 2 * chunk
                rows = await read_texts(self._cursor, part, self._which)
                for row in rows if self.proven else await asyncio.to_thread(self._verify_rows, rows):
                    if row.id != last:
                        last, count = row.id, count + 1
                        yield row
                        if count == limit:
                            return
                if self.late and at < len(places):
                    self.reached = places[at][0] + 1
                    return

    def _verify_rows(self, rows: Sequence[PieceRow]) -> list[PieceRow]:
        return [row for row in rows if self.finder.finds(row.said)]

    async def places(self) -> AsyncIterator[list[tuple[int, int]]]:
        """Yield pieces that may hold every term by the index: event and start, newest events first."""
        await self._cursor.execute(search.WITH_BITMAPS)
        segments = await self._every_segment() if self._which.agents is None else None
        at, size, below = 0, 1, min(segment_of(self._which.before - 1) + 1, MAX_SEGMENT)
        while batch := await self._segments_below(below, size) if segments is None else segments[at : at + size]:
            at, size, below = at + len(batch), min(2 * size, MAX_BATCH_SEGMENTS), batch[-1]
            async for found in self._probe_all(batch):
                if found:
                    yield found
            if self.late and below and (segments is None or at < len(segments)):
                self.reached = self.reached or below << SEGMENT_BITS
                return

    async def _every_segment(self) -> list[int]:
        await self._cursor.execute(search.SEGMENTS, (segment_of(self._which.before - 1), self._which.since))
        return [number for (number,) in await self._cursor.fetchall()]

    async def _segments_below(self, below: int, count: int) -> list[int]:
        """Return the next segments that hold events of the agents in the scope."""
        agents = self._which.agents or {}
        which = {"agents": [UUID(agent) for agent in agents], "below": below, "count": count}
        last = [NO_LIMIT if last is None else last for last in agents.values()]
        await self._cursor.execute(
            search.SEGMENTS_OF_AGENTS, {**which, "last": last, "since": self._which.since}, prepare=False
        )
        return [number for (number,) in await self._cursor.fetchall()]

    async def _probe_all(self, batch: list[int]) -> AsyncIterator[list[tuple[int, int]]]:
        """Yield the pieces of these segments: those that the index serves together, others one by one."""
        together: list[str] = []
        for number, (query, parts) in (await self._queries(batch)).items():
            if parts is None:
                together.append(query)
                continue
            if together:
                yield await self._probe(together)
                together = []
            yield await self._scan(number, query, parts)
        if together:
            yield await self._probe(together)

    async def _probe(self, groups: list[str]) -> list[tuple[int, int]]:
        most = MAX_PROVEN_PIECES if self.proven else 1 << SEGMENT_BITS + 4
        bounds = {"before": self._which.before, "since": self._which.since, "most": most}
        await self._cursor.execute(search.PROBE, {"queries": groups, **bounds}, prepare=False)
        return await self._cursor.fetchall()

    async def _scan(self, number: int, query: str, parts: list[str]) -> list[tuple[int, int]]:
        first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
        which: dict[str, Any] = {"before": self._which.before, "since": self._which.since, "query": query or None}
        await self._cursor.execute(search.SCAN, {**which, "first": first, "last": last, "parts": parts}, prepare=False)
        return await self._cursor.fetchall()

    async def _queries(self, batch: list[int]) -> dict[int, tuple[str, list[str] | None]]:
        """Return for each segment that may hold the terms its query for the index.

        If the index does not serve all of it, a list has the parts of words that a piece must contain.
        """
        keys = [key for term in self._terms for key in term.keys]
        parts = [key.text for key in keys if key.how is MatchMode.PART]
        words = await self._words(batch, parts)
        queries: dict[int, tuple[str, list[str] | None]] = {}
        for number in batch:
            if any((number, n) not in words for n in range(len(parts))):
                continue
            before = segment_prefix(number)
            groups = [[(key.text, key.how)] for key in keys if key.how is not MatchMode.PART]
            unlisted: list[str] = []
            for n, part in enumerate(parts):
                if (listed := words[number, n]) is None:
                    unlisted.append(part)
                elif len(listed) <= MAX_LISTED_WORDS:
                    groups.append([(word, MatchMode.WHOLE) for word in listed])
            groups += [[(key, MatchMode.WHOLE) for key in each] for each in self._which.keys]
            query = " & ".join(_any(before, each) for each in groups)
            served = len(groups) > len(self._which.keys) and not unlisted
            queries[number] = query, None if served else unlisted
        return queries

    async def _words(self, batch: list[int], parts: list[str]) -> dict[tuple[int, int], list[str] | None]:
        """Return by segment and part the words that hold it, None if they are not listed yet."""
        if not parts:
            return {}
        await self._cursor.execute(search.WORDS, (MAX_LISTED_WORDS + 1, parts, batch), prepare=False)
        return {(number, n): words for number, n, words in await self._cursor.fetchall()}


def _any(before: str, keys: Sequence[tuple[str, MatchMode]]) -> str:
    """Return a tsquery for any of these keys in the segment of that prefix."""
    quoted = (
        "'" + (before + text).replace("\\", "\\\\").replace("'", "''") + "'" + ":*" * (how is MatchMode.START)
        for text, how in keys
    )
    return f"({' | '.join(quoted)})"


async def read_texts(cursor: Cursor, places: Sequence[tuple[int, int]], which: SearchScope) -> list[PieceRow]:
    """Return these pieces with their texts, without those of other agents."""
    ids, starts = [id for id, _ in places], [start for _, start in places]
    await cursor.execute(search.TEXTS, (ids, starts), prepare=False)
    rows = [PieceRow(*row) for row in await cursor.fetchall()]
    if which.agents is None:
        return rows
    return [row for row in rows if is_within(which.agents, row.agent, row.id)]


def is_within(agents: dict[str, int | None], agent: str, id: int) -> bool:
    """Return True if an event of this agent belongs to a lineage."""
    return agent in agents and ((last := agents[agent]) is None or id <= last)
