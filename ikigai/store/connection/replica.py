"""Read from a replica, and from the primary while the replica is away or behind.

A read sees everything that was committed before it began: the replica has to reach the primary's present end of the
write-ahead log first, and must hold the newest event. A standby of a timeline that was left has not that event.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeAlias

import psycopg

from ikigai.core.errors import StoreError
from ikigai.core.events.record import Record
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.sql import replay as queries

MAX_WAIT_FOR_REPLAY = 0.5
"""Seconds that a read waits for a replica which is behind."""
REPLAY_POLL = 0.02
AWAY_SECONDS = 30.0
"""Seconds in which a replica that failed is not asked again."""


class ReplicaLag(Record, frozen=True):
    """The replica's address, and by how many seconds and bytes of the write-ahead log it is behind. `seconds` is None
    where nothing was replayed yet; `is_current` says that a read would use it.
    """

    where: str
    seconds: float | None
    bytes: int
    is_current: bool


class ReplicaSession:
    """Yields cursors on `replica` where it has caught up with `primary`, else on `primary`."""

    def __init__(self, primary: DatabaseSession, replica: DatabaseSession) -> None:
        self._primary, self._replica = primary, replica
        self._away_until = 0.0

    @asynccontextmanager
    async def use(self, patient: bool = False) -> AsyncIterator[Cursor]:
        """Yield a cursor as `DatabaseSession.use` does, for reading."""
        cursor = None
        try:
            async with AsyncExitStack() as using:
                cursor = await self._caught_up(using, patient)
                yield cursor or await using.enter_async_context(self._primary.use(patient))
        except StoreError:
            if cursor:
                self._away_until = time.monotonic() + AWAY_SECONDS
            raise

    async def lag(self) -> ReplicaLag:
        """Return how far the replica is behind. Raise StoreError if it is away."""
        position = await self._position()
        async with self._replica.use() as cursor:
            await cursor.execute(queries.LAG, position)
            ((seconds, behind, is_current),) = await cursor.fetchall()
        return ReplicaLag(str(self._replica.place), seconds, behind, is_current)

    async def close(self) -> None:
        await self._replica.close()

    async def _position(self) -> dict[str, object]:
        """Return the primary's end of the write-ahead log, and its newest event."""
        async with self._primary.use() as cursor:
            await cursor.execute(queries.POSITION)
            ((end, id, event_id),) = await cursor.fetchall()
        return {"end": end, "id": id, "event_id": event_id}

    async def _caught_up(self, using: AsyncExitStack, patient: bool) -> Cursor | None:
        """Return a cursor on the replica; None if it is away, or does not catch up in time."""
        if time.monotonic() < self._away_until:
            return None
        try:
            position = await self._position()
            until = time.monotonic() + MAX_WAIT_FOR_REPLAY
            async with AsyncExitStack() as trying:
                cursor = await trying.enter_async_context(self._replica.use(patient))
                while time.monotonic() < until:
                    with suppress(psycopg.errors.UndefinedTable):  # it is also behind the migration
                        await cursor.execute(queries.HOLDS, position)
                        if await cursor.fetchall() == [(True,)]:
                            using.push_async_exit(trying.pop_all())
                            return cursor
                    await asyncio.sleep(REPLAY_POLL)
        except StoreError:
            self._away_until = time.monotonic() + AWAY_SECONDS
        return None


ReadingSession: TypeAlias = DatabaseSession | ReplicaSession
"""A session for statements that only read."""
