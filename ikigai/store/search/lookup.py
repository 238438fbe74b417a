"""One search through the index, the newest stretch of ids first, for as long as it may go on.

Each stretch is asked by itself, so that no query, however common its words, costs more than a stretch at a time. What
the index cannot prove (phrases, parts of words, punctuation) is looked for in the text of what it offers.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from ikigai.core.search import lexer as lexemes
from ikigai.core.search.query import How, Term
from ikigai.core.search.snippets import Finder
from ikigai.store.connection import Cursor
from ikigai.store.search.indexer import SEGMENT_BITS, agent_key, kind_key, prefix, segment
from ikigai.store.sql import search as queries

WITHIN = 2.0
"""Seconds that a search may go on; what is under way then is finished."""
MOST_WORDS = 200
"""Words of a stretch that hold a part: with more of them its texts are read instead."""
CHUNK = 200
"""Texts that are read at once."""
MOST_PROVEN = 1_000
"""Pieces of a stretch, the newest, that are hits by the index alone."""


class Which(NamedTuple):
    """What may be found: `agents` with the last of their events (None: all events of all), `kinds` (empty: all)."""

    agents: dict[str, int | None] | None
    kinds: tuple[str, ...]
    since: float | None
    before: int

    @property
    def keys(self) -> list[list[str]]:
        """Keys of the index; one of each list has to be met."""
        agents = [agent_key(agent) for agent in self.agents or ()]
        return [each for each in (agents, [kind_key(kind) for kind in self.kinds]) if each]


class Row(NamedTuple):
    """A piece that was found, with its text."""

    id: int
    agent: str
    name: str
    at: float
    kind: str
    text: str

    @property
    def said(self) -> str:
        return lexemes.searchable(self.kind, self.text)


class Lookup:
    """One search of a list of terms, newest stretches first."""

    def __init__(self, cursor: Cursor, terms: tuple[Term, ...], which: Which, until: float | None = None) -> None:
        self._cursor, self._terms, self._which = cursor, terms, which
        self._until = until or time.monotonic() + WITHIN
        self.finder = Finder(terms)
        self.proven = all(term.proven for term in terms)
        self.reached: int | None = None
        self.share = 0  # of all ids, how many were looked through

    @property
    def late(self) -> bool:
        return time.monotonic() > self._until

    async def first(self, most: int) -> list[tuple[int, int]]:
        """The newest pieces that may hold every term."""
        found: list[tuple[int, int]] = []
        async for places in self.places():
            found += places
            if len(found) >= most:
                break
        return found[:most]

    async def rows(self, limit: int) -> AsyncIterator[Row]:
        """The pieces that hold every term, of each event the first, newest events first; at most `limit`."""
        last, count, chunk = 0, 0, limit if self.proven else CHUNK // 4
        async for places in self.places():
            at = 0
            while at < len(places):
                part = places[at : at + min(chunk, CHUNK)]
                at, chunk = at + len(part), 2 * chunk
                rows = await texts(self._cursor, part, self._which)
                for row in rows if self.proven else await asyncio.to_thread(self._verified, rows):
                    if row.id != last:
                        last, count = row.id, count + 1
                        yield row
                        if count == limit:
                            return
                if self.late and at < len(places):
                    self.reached = places[at][0] + 1
                    return

    def _verified(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if self.finder.finds(row.said)]

    async def places(self) -> AsyncIterator[list[tuple[int, int]]]:
        """Pieces that may hold every term, as the index says: event and start, newest events first."""
        await self._cursor.execute(queries.WITH_BITMAPS)
        await self._cursor.execute(queries.SEGMENTS, (segment(self._which.before - 1), self._which.since))
        segments = [number for (number,) in await self._cursor.fetchall()]
        at, size = 0, 1
        while at < len(segments):
            batch = segments[at : at + size]
            at, size = at + len(batch), min(2 * size, 64)
            self.share += len(batch) << SEGMENT_BITS
            async for found in self._probed(batch):
                if found:
                    yield found
            if self.late and at < len(segments):
                self.reached = self.reached or batch[-1] << SEGMENT_BITS
                return

    async def _probed(self, batch: list[int]) -> AsyncIterator[list[tuple[int, int]]]:
        """The same of these stretches: those that the index serves together, others one by one."""
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

    async def _probe(self, wanted: list[str]) -> list[tuple[int, int]]:
        most = MOST_PROVEN if self.proven else 1 << SEGMENT_BITS + 4
        bounds = {"before": self._which.before, "since": self._which.since, "most": most}
        await self._cursor.execute(queries.PROBE, {"queries": wanted, **bounds}, prepare=False)
        return await self._cursor.fetchall()

    async def _scan(self, number: int, query: str, parts: list[str]) -> list[tuple[int, int]]:
        first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
        which: dict[str, Any] = {"before": self._which.before, "since": self._which.since, "query": query or None}
        await self._cursor.execute(queries.SCAN, {**which, "first": first, "last": last, "parts": parts}, prepare=False)
        return await self._cursor.fetchall()

    async def _queries(self, batch: list[int]) -> dict[int, tuple[str, list[str] | None]]:
        """For each stretch that may hold the terms what to ask the index.

        Where the index does not serve all of it, a list says so: of parts of words that a piece must have.
        """
        keys = [key for term in self._terms for key in term.keys]
        parts = [key.text for key in keys if key.how is How.PART]
        words = await self._words(batch, parts)
        made: dict[int, tuple[str, list[str] | None]] = {}
        for number in batch:
            if any((number, n) not in words for n in range(len(parts))):
                continue
            before = prefix(number)
            wanted = [[(key.text, key.how)] for key in keys if key.how is not How.PART]
            unlisted: list[str] = []
            for n, part in enumerate(parts):
                if (listed := words[number, n]) is None:
                    unlisted.append(part)
                elif len(listed) <= MOST_WORDS:
                    wanted.append([(word, How.WHOLE) for word in listed])
            wanted += [[(key, How.WHOLE) for key in each] for each in self._which.keys]
            query = " & ".join(_any(before, each) for each in wanted)
            served = len(wanted) > len(self._which.keys) and not unlisted
            made[number] = query, None if served else unlisted
        return made

    async def _words(self, batch: list[int], parts: list[str]) -> dict[tuple[int, int], list[str] | None]:
        """By stretch and part the words that hold it, None where they are not listed yet."""
        if not parts:
            return {}
        await self._cursor.execute(queries.WORDS, (MOST_WORDS + 1, parts, batch), prepare=False)
        return {(number, n): words for number, n, words in await self._cursor.fetchall()}


def _any(before: str, keys: Sequence[tuple[str, How]]) -> str:
    """A tsquery for one of these keys in the stretch of that prefix."""
    quoted = (
        "'" + (before + text).replace("\\", "\\\\").replace("'", "''") + "'" + ":*" * (how is How.START)
        for text, how in keys
    )
    return f"({' | '.join(quoted)})"


async def texts(cursor: Cursor, places: Sequence[tuple[int, int]], which: Which) -> list[Row]:
    """These pieces with their texts, those of other agents left out."""
    ids, starts = [id for id, _ in places], [start for _, start in places]
    await cursor.execute(queries.TEXTS, (ids, starts), prepare=False)
    rows = [Row(*row) for row in await cursor.fetchall()]
    if which.agents is None:
        return rows
    return [row for row in rows if within(which.agents, row.agent, row.id)]


def within(agents: dict[str, int | None], agent: str, id: int) -> bool:
    """Whether an event of this agent belongs to a lineage."""
    return agent in agents and ((last := agents[agent]) is None or id <= last)
