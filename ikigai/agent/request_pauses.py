"""Keeps the pauses between the requests of one conversation, and chooses the lifetime of its cache by them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ikigai.core.errors import IkigaiError
from ikigai.core.request.cache_lifetime import MAX_PAUSES, CacheTtl, choose_ttl

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory


class RequestPauses:
    """The times at which the requests of an agent were sent. `load` returns those in the ledger, oldest first."""

    def __init__(self, load: Callable[[], Awaitable[list[float]]]) -> None:
        self._times: list[float] = []
        self._load = load
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read the ledger in the background; until then there is no evidence."""
        self._loading = self._loading or asyncio.create_task(self._read(), name="pauses")

    async def _read(self) -> None:
        try:
            self._times = [*await self._load(), *self._times]
        except IkigaiError:  # without evidence, a cache lives for the usual time
            return

    def ttl(self, memory: Memory) -> CacheTtl:
        """Return the lifetime for the next request, which is sent now."""
        self._times = [*self._times[-MAX_PAUSES:], time.time()]
        pauses = [max(0.0, after - before) for before, after in zip(self._times, self._times[1:], strict=False)]
        return choose_ttl(pauses, len(memory.window.turns) + 1)
