"""This module moves from hit to hit of a search, to older ones and back: it asks the index for one at a time."""

from __future__ import annotations

from ikigai.core.search import query
from ikigai.core.search.query import Term
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.reading import NO_LIMIT, read_snapshot
from ikigai.store.replica import ReadingSession
from ikigai.store.search.lookup import Lookup, SearchScope

FIRST_DISTANCE = 64
"""Ids above a position in which the next newer hit is searched first."""
DISTANCE_GROWTH = 8
"""Factor by which that distance grows while there is no hit."""


class SearchCursor:
    """A cursor over hits. Made by `begin`. `widened`: no word begins with the terms, so they are searched within words.

    `behind` events are not in the index yet. `terms` are the terms of the search. `reached` is the event down to which
    there was time to search the last time, None if none was left out. All methods raise StoreError.
    """

    def __init__(self, session: ReadingSession, terms: tuple[Term, ...], which: SearchScope, behind: int) -> None:
        self._session, self._which = session, which
        self.terms, self.behind, self.widened = terms, behind, False
        self.reached: int | None = None

    @classmethod
    async def begin(
        cls, session: ReadingSession, terms: tuple[Term, ...], which: SearchScope, behind: int
    ) -> SearchCursor:
        seeker = cls(session, terms, which, behind)
        if (wider := query.widen_terms(terms)) != terms and await seeker.older(NO_LIMIT) is None:
            seeker.terms, seeker.widened = wider, True
        return seeker

    @repeat_on_conflict
    async def older(self, than: int) -> int | None:
        """Return the newest hit below this id; None if there is none down to `reached`."""
        async with self._session.use() as cursor, read_snapshot(cursor):
            run = Lookup(cursor, self.terms, self._which._replace(before=than))
            hit = next(iter([row.id async for row in run.rows(1)]), None)
        self.reached = None if hit else run.reached
        return hit

    async def newer(self, than: int) -> int | None:
        """Return the oldest hit above this id; None if there is none."""
        newest = await self.older(NO_LIMIT)
        if newest is None or newest <= than:
            return None
        step, bound = FIRST_DISTANCE, than
        hit = None
        while hit is None or hit <= than:
            bound = min(bound + step, newest + 1)
            step *= DISTANCE_GROWTH
            hit = await self.older(bound)
        low = than  # there is no hit from here on that is older than `found`, but maybe between the two
        while low + 1 < hit:
            middle = (low + hit) // 2 + 1
            nearer = await self.older(middle)
            if nearer is not None and nearer > than:
                hit = nearer
            else:
                low = middle - 1
        return hit
