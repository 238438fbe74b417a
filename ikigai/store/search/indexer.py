"""Fill the index of words after the log: a little at a time, over a connection of its own."""

import asyncio
import logging
import time

from ikigai.core.errors import StoreError
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.search import segments, word_index
from ikigai.store.search.fill import Filler
from ikigai.store.sql import search

log = logging.getLogger(__name__)

STEP_INTERVAL = 0.02
"""Minimum seconds between two steps."""
REST_FACTOR = 2
"""Rest after a step as a multiple of the time that it took, if that is longer: appends share the server with it."""
SETTLE_SECONDS = 0.5
"""Seconds from the end of a turn until it is indexed: work that the user waits for comes first."""
RETRY_INTERVAL = 30.0
"""Seconds after which an unreachable database is tried again."""
MIN_LOOSE_BYTES, MIN_LOOSE_SHARE = 50_000_000, 2
"""Size of the table of postings from which on it is rewritten, if it is so many times as large as its rows. A long
history is indexed faster than the server finds the room that joining leaves.
"""
REWRITE_INTERVAL = 3_600.0
"""Minimum seconds between two rewrites by a process."""


class Indexer:
    """Fills the indexes over `session`, which no append uses. `news` is set when there may be something to do."""

    def __init__(self, session: DatabaseSession, news: asyncio.Event) -> None:
        self._session, self.news = session, news
        self.words = Filler(session, word_index.take)
        self._rewritten_at: float | None = None

    async def index_some(self) -> int:
        """See `Filler.index_some`."""
        return await self.words.index_some()

    @repeat_on_conflict
    async def join_some(self) -> bool:
        """Join some words of small segments; return False if there is nothing to do. Raise StoreError on failure."""
        async with self._session.use() as cursor, cursor.connection.transaction():
            await segments.lock(cursor)
            return await segments.join(cursor)

    async def unlist_some(self) -> int:
        """See `Filler.unlist_some`."""
        return await self.words.unlist_some()

    async def rewrite(self) -> None:
        """Rewrite the table of postings if it has much more room than it needs. Raise StoreError on failure."""
        if self._rewritten_at is not None and time.monotonic() < self._rewritten_at + REWRITE_INTERVAL:
            return
        async with self._session.use(patient=True) as cursor:
            await cursor.execute(search.IS_LOOSE, (MIN_LOOSE_BYTES, MIN_LOOSE_SHARE), prepare=False)
            if await cursor.fetchall() == [(True,)]:
                self._rewritten_at = time.monotonic()
                await cursor.execute(search.STATEMENT_TIMEOUT)
                ((timeout,),) = await cursor.fetchall()
                await cursor.execute(search.SET_STATEMENT_TIMEOUT, ("0",))
                try:
                    await cursor.execute(search.REWRITE)
                finally:
                    await cursor.execute(search.SET_STATEMENT_TIMEOUT, (timeout,))

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
        for step in (self.index_some, self.join_some, self.unlist_some):
            began = time.monotonic()
            while await step():
                await asyncio.sleep(max(STEP_INTERVAL, REST_FACTOR * (time.monotonic() - began)))
                began = time.monotonic()
        await self.rewrite()
