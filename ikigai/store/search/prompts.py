"""Find prompts that users typed: read the newest one by one, and ask the index of words for others.

Only reading finds parts of words and letters with others between them, and it takes the longer the more prompts there
are. So older prompts are found as /search finds them: by the beginnings of words, else by parts of words.
"""

from functools import cached_property

from ikigai.core.errors import Rejected
from ikigai.core.search.prompt_history import SentPrompt
from ikigai.core.search.query import Term, parse, widen_terms
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReadingSession
from ikigai.store.log import history
from ikigai.store.log.reading import NO_LIMIT, read_snapshot
from ikigai.store.search.lookup import Lookup, SearchScope
from ikigai.store.sql import reading as queries
from ikigai.store.sql import search

READ_STRETCHES = 5
"""Stretches of the newest prompts that are read, more where the index is behind."""
MAX_AGENTS_HERE = 100
"""Agents used in the directory, the newest, whose prompts are looked for besides the prompts of all agents."""


class PromptLookup:
    """One search for the prompts that match `typed`, newest first. `here` is the directory of this program.

    `complete` becomes True when nothing is left. `stop` ends a look-up in the index after the step under way.
    """

    def __init__(self, session: DatabaseSession, reading: ReadingSession, typed: str, here: str) -> None:
        self._session, self._reading, self._typed, self._here = session, reading, typed, here
        self._before: int | None = None  # where reading goes on
        self._stretches = 0
        self._not_indexed: int | None = None  # the first event that is not in the index
        self._wanted: tuple[tuple[Term, ...], SearchScope] | None = None  # the next question to the index
        self._texts = set[str]()  # different prompts that the question to the index has found
        self._is_found = False  # by the index
        self._more_seconds = 0.0  # for a step that the usual time does not suffice for
        self._lookup: Lookup | None = None
        self._stopped = False
        self.complete = False

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        """The words as terms that the index serves; those that are only punctuation are left out."""
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
        """Return the next prompts that may match; `most` limits the prompts of the directory, and the others."""
        if self._stretches < READ_STRETCHES or (self._terms and await self._reads_on()):
            async with self._session.use() as cursor:
                found, self._before = await history.search_prompts(cursor, self._typed, self._here, self._before, most)
            self._stretches += 1
            self.complete = self._before is None
            return found
        if self._stopped or not self._terms:
            self.complete = True
            return []
        async with self._reading.use() as cursor, read_snapshot(cursor):
            return await self._look_up(cursor, sum(most))

    async def _reads_on(self) -> bool:
        """Return True if the index lacks prompts that were not read yet."""
        if self._not_indexed is None:
            async with self._reading.use() as cursor:
                await cursor.execute(search.FIRST_NOT_INDEXED, prepare=False)
                ((self._not_indexed,),) = await cursor.fetchall()
        return (self._before or 0) > (self._not_indexed or 0)

    async def _look_up(self, cursor: Cursor, limit: int) -> list[SentPrompt]:
        """Return the next prompts that the index finds within the time of one search, and set what is next.

        Prompts of all agents come first. Those of agents of this directory follow where all have more than the limit,
        parts of words where no word begins so. The index also finds messages of agents, pasted books, and prompts that
        were sent again and again: behind these it is asked until there are so many different prompts.
        """
        everything, wider = SearchScope(None, ("user",), None, self._before or NO_LIMIT), widen_terms(self._terms)
        terms, scope = self._wanted or (self._terms, everything)
        lookup = self._lookup = Lookup(cursor, terms, scope, self._more_seconds)
        if self._stopped:
            lookup.stop()
        ids = {row.id async for row in lookup.rows(limit)}
        found = await history.read_sent_prompts(cursor, sorted(ids), self._here)
        self._is_found = self._is_found or bool(ids)
        self._texts.update(each.text for each in found)
        if lookup.reached is not None:
            if lookup.reached >= scope.before:
                self._more_seconds = 2 * self._more_seconds + 1
            self._wanted = terms, scope._replace(before=lookup.reached)
        elif 0 < len(ids) == limit and len(self._texts) < limit:
            self._wanted = terms, scope._replace(before=min(ids))
        elif scope.agents is None and len(ids) == limit and (here := await self._agents_here(cursor)):
            self._wanted = terms, everything._replace(agents=here)
            self._texts.clear()
        elif terms != wider and not self._is_found:
            self._wanted = wider, everything
        else:
            self.complete = True
        return found

    async def _agents_here(self, cursor: Cursor) -> dict[str, int | None]:
        await cursor.execute(queries.AGENTS_USED_IN, (self._here, MAX_AGENTS_HERE))
        return dict.fromkeys(agent for (agent,) in await cursor.fetchall())
