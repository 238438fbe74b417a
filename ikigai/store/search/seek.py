"""From hit to hit of a search, towards the older ones and back: the index is asked for one at a time."""

from __future__ import annotations

from ikigai.core.search import query as searching
from ikigai.core.search.query import Term
from ikigai.store.connection import Session
from ikigai.store.reading import NO_LIMIT
from ikigai.store.search.lookup import Lookup, Which

NEAR = 64
"""Ids above a place in which the next newer hit is looked for first."""
WIDER = 8
"""By how much that is widened while there is none."""


class Seeker:
    """Made by `begin`. `widened`: no word begins with the terms, so that they are found within words, too.

    `behind` events are not in the index yet. `terms` are what is looked for. `reached` is the event down to which there
    was time to look the last time, None where nothing was left out. All methods raise StoreError.
    """

    def __init__(self, session: Session, terms: tuple[Term, ...], which: Which, behind: int) -> None:
        self._session, self._which = session, which
        self.terms, self.behind, self.widened = terms, behind, False
        self.reached: int | None = None

    @classmethod
    async def begin(cls, session: Session, terms: tuple[Term, ...], which: Which, behind: int) -> Seeker:
        seeker = cls(session, terms, which, behind)
        if (wider := searching.widened(terms)) != terms and await seeker.older(NO_LIMIT) is None:
            seeker.terms, seeker.widened = wider, True
        return seeker

    async def older(self, than: int) -> int | None:
        """The newest hit below this id; None where there is none down to `reached`."""
        async with self._session.use() as cursor:
            run = Lookup(cursor, self.terms, self._which._replace(before=than))
            found = next(iter([row.id async for row in run.rows(1)]), None)
        self.reached = None if found else run.reached
        return found

    async def newer(self, than: int) -> int | None:
        """The oldest hit above this id; None where there is none."""
        newest = await self.older(NO_LIMIT)
        if newest is None or newest <= than:
            return None
        step, bound = NEAR, than
        found = None
        while found is None or found <= than:
            bound = min(bound + step, newest + 1)
            step *= WIDER
            found = await self.older(bound)
        low = than  # there is no hit from here on that is older than `found`, but maybe between the two
        while low + 1 < found:
            middle = (low + found) // 2 + 1
            nearer = await self.older(middle)
            if nearer is not None and nearer > than:
                found = nearer
            else:
                low = middle - 1
        return found
