"""Reconnect an idle program after a loss, so that its events are compared with the log.

A restart of the server cuts off every program at once. Each of them waits for a random part of a few seconds before it
connects, so that they do not all come together.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ikigai.core.errors import StoreError
from ikigai.store.connection.connection import DatabaseSession

LOOK_SECONDS = 5.0
"""Seconds between two looks at a connection that nothing uses."""
SPREAD_SECONDS = 10.0
"""Seconds over which programs that were cut off together connect again."""


class ConnectionWatch:
    """Watches the connection of `session`, from `start` to `stop`. `delay` waits for so many seconds, and `chance`
    returns a number from 0 to 1.
    """

    def __init__(
        self,
        session: DatabaseSession,
        delay: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._session, self._delay, self._chance = session, delay, chance
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on; nothing changes if it does already."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="connection watch")

    async def stop(self) -> None:
        """Stop watching. What is under way on the connection ends with it."""
        task, self._task = self._task, None
        if task:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self) -> None:
        while True:
            await self._delay(LOOK_SECONDS)
            if self._session.is_cut_off():
                await self._delay(self._chance() * SPREAD_SECONDS)
                with suppress(StoreError):  # the next look tries again
                    async with self._session.use():
                        pass
