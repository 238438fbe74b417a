"""Search all events, and return hits with snippets.

It first brings the index up to date, as far as there is time.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias
from uuid import UUID

from ikigai.core.errors import Rejected
from ikigai.core.events.record import Record
from ikigai.core.search.query import Term, parse, widen_terms
from ikigai.core.search.snippets import SearchHit
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReadingSession
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.log.reading import NO_LIMIT, read_snapshot
from ikigai.store.search.indexer import Indexer
from ikigai.store.search.lookup import Lookup, SearchScope
from ikigai.store.sql import search as queries

Order: TypeAlias = Literal["time", "relevance"]

CATCH_UP_SECONDS = 1.0
"""Seconds before a search in which the index is brought up to date."""
MAX_RANKED = 200
"""Newest events of which the most relevant are chosen."""
SNIPPET_CHARACTERS = 160
"""Characters of a snippet."""
FIRST_DISTANCE = 64
"""Ids above a position in which the next newer hit is searched first."""
DISTANCE_GROWTH = 8
"""Factor by which that distance grows while there is no hit."""


class SearchResult(Record, frozen=True):
    """The result of a search. `widened`: no word begins with the terms, so they were searched within words.

    `behind` events are not in the index yet. `reached` is the event down to which everything was searched in time; None
    for all of them.
    """

    hits: tuple[SearchHit, ...]
    widened: bool = False
    behind: int = 0
    reached: int | None = None


class SearchCursor:
    """A cursor over hits. `widened`: no word begins with the terms, so they are searched within words.

    `behind` events are not in the index yet. `terms` are the terms of the search. `reached` is the event down to which
    there was time to search the last time, None if none was left out. All methods raise StoreError.
    """

    def __init__(self, session: ReadingSession, terms: tuple[Term, ...], which: SearchScope, behind: int) -> None:
        self._session, self._which = session, which
        self.terms, self.behind, self.widened = terms, behind, False
        self.reached: int | None = None

    @retry_on_conflict
    async def older(self, than: int) -> int | None:
        """Return the newest hit below this id and not below `reached`, else None."""
        async with self._session.use() as cursor, read_snapshot(cursor):
            run = Lookup(cursor, self.terms, self._which._replace(before=than))
            hit = next(iter([row.id async for row in run.rows(1)]), None)
        self.reached = None if hit else run.reached
        return hit

    async def newer(self, than: int) -> int | None:
        """Return the oldest hit above this id, else None."""
        hit, low, step = await self.older(NO_LIMIT) or 0, than, FIRST_DISTANCE
        while low + 1 < hit:  # there is no hit from `than` to `low`, but maybe between that and `hit`
            bound = min(low + step, (low + hit) // 2) + 1
            if (nearer := await self.older(bound) or 0) > than:
                hit = nearer
            else:
                low, step = bound - 1, step * DISTANCE_GROWTH
        return hit if hit > than else None


class EventSearch:
    """Searches over `session`; `indexer` fills the index."""

    def __init__(self, session: ReadingSession, indexer: Indexer) -> None:
        self._session, self._indexer = session, indexer

    @retry_on_conflict
    async def search(
        self,
        query: str,
        agent: str | None = None,
        kinds: Sequence[str] = (),
        since: float | None = None,
        order: Order = "time",
        limit: int = 20,
        before: int | None = None,
    ) -> SearchResult:
        """Return the newest events that hold every term, or the most relevant of the newest 200; best first.

        `agent` is the id of one whose events, and its ancestors' up to the forks, are searched alone. `since` is
        seconds since 1970, `before` an event's id. Raise Rejected for an empty query, and StoreError.
        """
        terms = parse(query)
        behind = await self._indexer.catch_up(CATCH_UP_SECONDS)
        async with self._session.use() as cursor, read_snapshot(cursor):
            which = await _which(cursor, agent, kinds, since, before)
            run = Lookup(cursor, terms, which)
            hits, widened = await _hits(run, order, limit), False
            if not hits and (wider := widen_terms(terms)) != terms:
                run = Lookup(cursor, wider, which)
                hits = await _hits(run, order, limit)
                widened = bool(hits)
        return SearchResult(hits, widened, behind, run.reached)

    async def seeker(self, query: str, agent: str) -> SearchCursor:
        """Return a cursor that moves from hit to hit in the history of an agent and its ancestors. Raise as `search`
        does.
        """
        terms = parse(query)
        behind = await self._indexer.catch_up(CATCH_UP_SECONDS)
        async with self._session.use() as cursor:
            which = await _which(cursor, agent, (), None, None)
        found = SearchCursor(self._session, terms, which, behind)
        if (wider := widen_terms(terms)) != terms and await found.older(NO_LIMIT) is None:
            found.terms, found.widened = wider, True
        return found


async def read_lineage_ids(cursor: Cursor, agent: str) -> dict[str, int | None]:
    """Return the agent and its ancestors, each with the last of its events that belongs to the agent; None for all."""
    await cursor.execute(queries.LINEAGE, (UUID(agent),), prepare=False)
    return dict(await cursor.fetchall())


async def _which(
    cursor: Cursor, agent: str | None, kinds: Sequence[str], since: float | None, before: int | None
) -> SearchScope:
    agents: dict[str, int | None] | None = None
    if agent is not None:
        agents = await read_lineage_ids(cursor, agent)
        if not agents:
            raise Rejected("There is no such agent.", "Without an agent all of them are searched.")
    return SearchScope(agents, tuple(kinds), since, NO_LIMIT if before is None else before)


async def _hits(run: Lookup, order: Order, limit: int) -> tuple[SearchHit, ...]:
    rows = [row async for row in run.rows(MAX_RANKED if order == "relevance" else limit)] if limit > 0 else []
    finder = run.finder

    def choose() -> tuple[SearchHit, ...]:
        scores = {row.id: finder.score(row.said) for row in rows} if order == "relevance" else {}
        chosen = sorted(rows, key=lambda row: (-scores.get(row.id, 0.0), -row.id))[:limit]
        return tuple(
            SearchHit(row.id, row.name, row.agent, row.at, row.kind, finder.snippet(row.said, SNIPPET_CHARACTERS))
            for row in chosen
        )

    return await asyncio.to_thread(choose)
