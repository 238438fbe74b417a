"""Fill the index of words after the log: a few events at a time, over a connection of its own.

Within an agent events are committed in the order of `seq`, because there is one write lock. So a number for each agent
says how far its log is indexed, and no slow transaction of another agent is missed. Processes that index at once take
different agents.
"""

import asyncio
import logging
import time
from uuid import UUID

from psycopg import errors

from ikigai.core.errors import StoreError
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.log import write_lock
from ikigai.store.search import segments, word_index
from ikigai.store.sql import search

log = logging.getLogger(__name__)

LISTED_AGENTS = 256
"""Agents that are listed at once to be indexed: to list them reads a row of each that is behind."""
UNLIST_INTERVAL = 60.0
"""Seconds between two looks for listed agents that are indexed and not open."""
UNLISTED_AT_ONCE = 1_000

NOT_FILLABLE_ERRORS = (
    errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege, errors.UndefinedColumn, errors.LockNotAvailable
)  # fmt: skip
"""Errors of a database that is read-only, of an index that another version of the schema made, and of one that another
process has locked for long: it joins large segments on a slow machine, or purges.
"""

STEP_INTERVAL = 0.02
"""Minimum seconds between two steps."""
REST_FACTOR = 2
"""Rest after a step as a multiple of the time that it took, if that is longer: appends share the server with it."""
SETTLE_SECONDS = 0.5
"""Seconds from the end of a turn until it is indexed: work that the user waits for comes first."""
RETRY_INTERVAL = 30.0
"""Seconds after which an unreachable database is tried again."""


class Indexer:
    """Fills the index over `session`, which no append uses. `news` is set when there may be something to do."""

    def __init__(self, session: DatabaseSession, news: asyncio.Event) -> None:
        self._session, self.news = session, news
        self._unlisted_at: float | None = None
        self._listed: list[UUID] = []  # agents whose logs are not indexed as far as is known, the next one last

    @retry_on_conflict
    async def index_some(self) -> int:
        """Take the next few events into the index: at most 400, and of a long one a part; return how many.

        0 means that all events are indexed, or that another process indexes them. Raise StoreError on failure.
        """
        async with self._session.use() as cursor:
            if is_new := not self._listed:
                await cursor.execute(search.BEHIND, (LISTED_AGENTS,), prepare=False)
                self._listed = [agent for (agent,) in reversed(await cursor.fetchall())]
            listed = self._listed  # a search that begins meanwhile wants another list
            while listed:
                async with cursor.connection.transaction():
                    await cursor.execute(search.COMMIT_LATER)
                    if count := await word_index.take(cursor, listed[-1]):
                        return count
                listed.pop()  # there is nothing to take, or another process has the agent
        return 0 if is_new else await self.index_some()

    async def catch_up(self, seconds: float) -> int:
        """Index for at most `seconds`; return how many events are not in the index then.

        An index that this program cannot fill is left as it is. Raise StoreError on other failures.
        """
        until = time.monotonic() + seconds
        self._listed = []  # the agents that were used last come first
        try:
            while time.monotonic() < until and (await self.index_some() or await self.unlist_some()):
                pass
        except StoreError as error:
            if not isinstance(error.__cause__, NOT_FILLABLE_ERRORS):
                raise
        return await self.behind()

    async def behind(self) -> int:
        """Return how many events are not in the index."""
        async with self._session.use() as cursor:
            await cursor.execute(search.BEHIND_BY, prepare=False)
            ((behind,),) = await cursor.fetchall()
        return behind

    @retry_on_conflict
    async def unlist_some(self) -> int:
        """Take agents out of the list of those behind that are indexed and that no program has open; return how many.

        It looks once a minute. Raise StoreError on failure.
        """
        if self._unlisted_at is not None and time.monotonic() < self._unlisted_at + UNLIST_INTERVAL:
            return 0
        async with self._session.use() as cursor, cursor.connection.transaction():
            # A program lists its agent after it has acquired the write lock: from here on it waits for this
            # transaction. An agent whose lock is free now has no event under way, and `unlist` sees all that it has.
            await cursor.execute(search.COMPLETE, (UNLISTED_AT_ONCE,), prepare=False)
            agents: list[UUID] = [agent for (agent,) in await cursor.fetchall()]
            await cursor.execute(search.HELD_WRITE_LOCKS, (write_lock.WRITE_LOCK,))
            held = {key for (key,) in await cursor.fetchall()}
            free = [agent for agent in agents if write_lock.lock_key(agent, self._session.schema) not in held]
            if free:
                await cursor.execute(search.UNLIST, (free,), prepare=False)
        if not free:
            self._unlisted_at = time.monotonic()
        return len(free)

    @retry_on_conflict
    async def join_some(self) -> bool:
        """Join some small segments to one; return False if there is nothing to do. Raise StoreError on failure.

        The room that they leave is for the next ones: the server itself finds it later than they come.
        """
        async with self._session.use() as cursor:
            async with cursor.connection.transaction():
                await segments.lock(cursor)
                is_joined = await segments.join(cursor)
            if is_joined:
                await cursor.execute(search.VACUUM, prepare=False)
        return is_joined

    async def run(self) -> None:
        """Index now, and again after every turn, until this is cancelled. Errors of the database are retried later."""
        while True:
            try:
                self.news.clear()
                await self._all()
                await self.news.wait()
                await asyncio.sleep(SETTLE_SECONDS)
            except StoreError:
                log.debug("the index could not be filled", exc_info=True)
                await asyncio.sleep(RETRY_INTERVAL)

    async def _all(self) -> None:
        began = time.monotonic()
        # A long history is joined while it is filled: searches ask fewer segments, and the server reuses the room.
        while await self.join_some() or await self.index_some() or await self.unlist_some():
            await asyncio.sleep(max(STEP_INTERVAL, REST_FACTOR * (time.monotonic() - began)))
            began = time.monotonic()
