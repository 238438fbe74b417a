"""This module finds prompts that users typed: it reads the newest one by one, and asks the index of words for others.

Only reading finds parts of words and letters with others between them, and it takes the longer the more prompts there
are. So older prompts are found as /search finds them: by the beginnings of words, else by parts of words.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ikigai.core.errors import Rejected
from ikigai.core.search.prompt_history import SentPrompt
from ikigai.store import history
from ikigai.store.connection import Cursor, DatabaseSession
from ikigai.store.reading import NO_LIMIT, read_snapshot
from ikigai.store.sql import reading as queries
from ikigai.store.sql import search

if TYPE_CHECKING:
    from ikigai.core.search.query import Term
    from ikigai.store.replica import ReadingSession
    from ikigai.store.search.lookup import Lookup

READ_STRETCHES = 5
"""Stretches of the newest prompts that are read, more where the index is behind."""
MAX_AGENTS_HERE = 100
"""Agents used in the directory, the newest, whose prompts are looked for besides those of all agents."""


class PromptLookup:
    """One search for the prompts that match `typed`, newest first. `here` is the directory of this program.

    `complete` becomes True when nothing is left. `stop` ends a look-up in the index after the step under way.
    """

    def __init__(self, session: DatabaseSession, reading: ReadingSession, typed: str, here: str) -> None:
        self._session, self._reading, self._typed, self._here = session, reading, typed, here
        self._before: int | None = None  # where reading goes on
        self._stretches = 0
        self._not_indexed: int | None = None  # the first event that is not in the index
        self._lookup: Lookup | None = None
        self._stopped = False
        self.complete = False

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        """The words as terms that the index serves; those that are only punctuation are left out."""
        from ikigai.core.search.query import parse

        try:
            terms = parse(self._typed.replace('"', " ").replace("*", " "))
        except Rejected:
            return ()
        return tuple(term for term in terms if term.keys)

    def stop(self) -> None:
        self._stopped = True
        if self._lookup:
            self._lookup.stop()

    async def more(self, most: tuple[int, int]) -> list[SentPrompt]:
        """Return the next prompts that may match; `most` limits those of the directory, and those of others."""
        if self._stretches < READ_STRETCHES or (self._terms and await self._reads_on()):
            async with self._session.use() as cursor:
                found, self._before = await history.search_prompts(cursor, self._typed, self._here, self._before, most)
            self._stretches += 1
            self.complete = self._before is None
            return found
        self.complete = True
        if not self._terms:
            return []
        async with self._reading.use() as cursor, read_snapshot(cursor):
            return await self._indexed(cursor, sum(most))

    async def _reads_on(self) -> bool:
        """Return True if the index lacks prompts that were not read yet."""
        if self._not_indexed is None:
            async with self._reading.use() as cursor:
                await cursor.execute(search.FIRST_NOT_INDEXED, prepare=False)
                ((self._not_indexed,),) = await cursor.fetchall()
        return (self._before or 0) > (self._not_indexed or 0)

    async def _indexed(self, cursor: Cursor, limit: int) -> list[SentPrompt]:
        """Return prompts of all agents, and of those of this directory where all agents have more than the limit."""
        from ikigai.core.search.query import widen_terms

        ids, wider = await self._look_up(cursor, self._terms, None, limit), widen_terms(self._terms)
        if not ids and wider != self._terms:
            ids = await self._look_up(cursor, wider, None, limit)
        elif len(ids) == limit:
            await cursor.execute(queries.AGENTS_USED_IN, (self._here, MAX_AGENTS_HERE))
            if here := [agent for (agent,) in await cursor.fetchall()]:
                ids |= await self._look_up(cursor, self._terms, dict.fromkeys(here), limit)
        return await history.read_sent_prompts(cursor, sorted(ids), self._here)

    async def _look_up(
        self, cursor: Cursor, terms: tuple[Term, ...], agents: dict[str, int | None] | None, limit: int
    ) -> set[int]:
        from ikigai.store.search.lookup import Lookup, SearchScope

        scope = SearchScope(agents, ("user",), None, self._before or NO_LIMIT)
        self._lookup = Lookup(cursor, terms, scope)
        if self._stopped:
            return set()
        return {row.id async for row in self._lookup.rows(limit)}
