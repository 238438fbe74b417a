"""This module moves from hit to hit of a search, to older ones and back: it asks the index for one at a time."""

from __future__ import annotations

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
    """A cursor over hits. `widened`: no word begins with the terms, so they are searched within words.

    `behind` events are not in the index yet. `terms` are the terms of the search. `reached` is the event down to which
    there was time to search the last time, None if none was left out. All methods raise StoreError.
    """

    def __init__(self, session: ReadingSession, terms: tuple[Term, ...], which: SearchScope, behind: int) -> None:
        self._session, self._which = session, which
        self.terms, self.behind, self.widened = terms, behind, False
        self.reached: int | None = None

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
        hit, low, step = await self.older(NO_LIMIT) or 0, than, FIRST_DISTANCE
        while low + 1 < hit:  # there is no hit from `than` to `low`, but maybe between that and `hit`
            bound = min(low + step, (low + hit) // 2) + 1
            if (nearer := await self.older(bound) or 0) > than:
                hit = nearer
            else:
                low, step = bound - 1, step * DISTANCE_GROWTH
        return hit if hit > than else None
