"""Searching in everything that was ever said, and what is shown of it.

The index is brought up to date before, as far as there is time for it.
"""

import asyncio
import time
from collections.abc import Sequence
from math import log
from typing import Literal, TypeAlias
from uuid import UUID

from ikigai.core.errors import Refused
from ikigai.core.record import Record
from ikigai.core.search import query as searching
from ikigai.core.search.query import Term
from ikigai.core.search.snippets import Finder, Hit
from ikigai.store.connection import Cursor, Session
from ikigai.store.reading import NO_LIMIT
from ikigai.store.search.indexer import Indexer
from ikigai.store.search.lookup import WITHIN, Lookup, Row, Which, texts
from ikigai.store.search.seek import Seeker
from ikigai.store.sql import search as queries

Order: TypeAlias = Literal["time", "relevance"]

CATCH_UP = 1.0
"""Seconds before a search in which the index is brought up to date."""
RANKED = 200
"""Events, the newest, of which the most relevant are chosen."""
SNIPPET = 160
"""Characters."""
SAMPLE = 300
"""Events of each word of a question that are weighed."""


class Found(Record, frozen=True):
    """What a search came to. `widened`: nothing began with the words, so that they were looked for within words.

    `behind` events are not in the index yet. `reached` is the event down to which everything was searched in the time
    there was; None for all of them.
    """

    hits: tuple[Hit, ...]
    widened: bool = False
    behind: int = 0
    reached: int | None = None


class Search:
    """Searches over `session`, of which `indexer` fills the index."""

    def __init__(self, session: Session, indexer: Indexer) -> None:
        self._session, self._indexer = session, indexer

    async def search(
        self,
        query: str,
        agent: str | None = None,
        kinds: Sequence[str] = (),
        since: float | None = None,
        order: Order = "time",
        limit: int = 20,
        before: int | None = None,
    ) -> Found:
        """The newest events that hold every term, or of the newest 200 the most relevant; best first.

        `agent` is the id of one whose events, and its ancestors' up to the forks, are searched alone; `since` is
        seconds since 1970, `before` an event's id. Raises Refused for a query with nothing in it, and StoreError.
        """
        terms = searching.parse(query)
        behind = await self._indexer.catch_up(CATCH_UP)
        async with self._session.use() as cursor:
            which = await _which(cursor, agent, kinds, since, before)
            run = Lookup(cursor, terms, which)
            hits, widened = await _hits(run, order, limit), False
            if not hits and (wider := searching.widened(terms)) != terms:
                run = Lookup(cursor, wider, which)
                hits = await _hits(run, order, limit)
                widened = bool(hits)
        return Found(hits, widened, behind, run.reached)

    async def seeker(self, query: str, agent: str) -> Seeker:
        """To go from hit to hit in the history of an agent and its ancestors. Raises what `search` does."""
        terms = searching.parse(query)
        behind = await self._indexer.catch_up(CATCH_UP)
        async with self._session.use() as cursor:
            which = await _which(cursor, agent, (), None, None)
        return await Seeker.begin(self._session, terms, which, behind)

    async def excerpts(self, question: str, limit: int = 8, most_characters: int = 8_000) -> tuple[Hit, ...]:
        """What was said that may answer the question, best first: excerpts with their ids, so many characters in all.

        Everything is searched, also what is forgotten. Rare words of the question count more than common ones.
        """
        terms = searching.asked(question)
        if not terms or limit < 1:
            return ()
        await self._indexer.catch_up(CATCH_UP)
        async with self._session.use() as cursor:
            which = await _which(cursor, None, (), None, None)
            samples: list[tuple[float, list[tuple[int, int]]]] = []
            for term in terms:
                run = Lookup(cursor, (term,), which, time.monotonic() + WITHIN / len(terms))
                if found := await run.first(SAMPLE):
                    samples.append((len(found) / run.share, found))
            weights = _weights(samples)
            best = sorted(weights, key=lambda place: (-weights[place], -place[0]))[: 4 * limit]
            rows = await texts(cursor, best, which)
        return await asyncio.to_thread(_excerpts, terms, rows, limit, most_characters)


async def lineage(cursor: Cursor, agent: str) -> dict[str, int | None]:
    """The agent and its ancestors, each with the last of its events that belongs to the agent; None for all."""
    await cursor.execute(queries.LINEAGE, (UUID(agent),), prepare=False)
    return dict(await cursor.fetchall())


async def _which(
    cursor: Cursor, agent: str | None, kinds: Sequence[str], since: float | None, before: int | None
) -> Which:
    agents: dict[str, int | None] | None = None
    if agent is not None:
        agents = await lineage(cursor, agent)
        if not agents:
            raise Refused("There is no such agent.", "Without one all of them are searched.")
    return Which(agents, tuple(kinds), since, NO_LIMIT if before is None else before)


async def _hits(run: Lookup, order: Order, limit: int) -> tuple[Hit, ...]:
    if limit < 1:
        return ()
    rows = [row async for row in run.rows(RANKED if order == "relevance" else limit)]
    return await asyncio.to_thread(_shown, run.finder, rows, order, limit)


def _shown(finder: Finder, rows: list[Row], order: Order, limit: int) -> tuple[Hit, ...]:
    if order == "relevance":
        scores = {row.id: finder.score(row.said) for row in rows}
        rows = sorted(rows, key=lambda row: (-scores[row.id], -row.id))[:limit]
    return tuple(_hit(finder, row, SNIPPET) for row in rows)


def _hit(finder: Finder, row: Row, width: int) -> Hit:
    return Hit(row.id, row.name, row.agent, row.at, row.kind, finder.snippet(row.said, width))


def _weights(samples: Sequence[tuple[float, list[tuple[int, int]]]]) -> dict[tuple[int, int], float]:
    """What the words that stand in each piece come to: of a word how often it occurs, and the pieces where it does."""
    commonest = max((rate for rate, _ in samples), default=0.0)
    weights: dict[tuple[int, int], float] = {}
    for rate, places in samples:
        for place in places:
            weights[place] = weights.get(place, 0.0) + log(1.5 * commonest / rate)
    return weights


def _excerpts(terms: tuple[Term, ...], rows: Sequence[Row], limit: int, most_characters: int) -> tuple[Hit, ...]:
    finder, hits, seen = Finder(terms), list[Hit](), set[int]()
    width = max(SNIPPET, most_characters // limit)
    left = most_characters
    for row in rows:
        if row.id in seen or len(hits) == limit or left <= 0:
            continue
        seen.add(row.id)
        hit = _hit(finder, row, min(width, left))
        left -= len(hit.snippet.text)
        hits.append(hit)
    return tuple(hits)
