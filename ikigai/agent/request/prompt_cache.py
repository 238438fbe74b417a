"""State of the provider's cache of one conversation: its lifetime, its last use, and why it missed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.request.cache_diagnosis import CacheUse, find_miss
from ikigai.core.request.cache_lifetime import MAX_PAUSES, choose_ttl
from ikigai.core.state.prompt_prefix import prompt_prefix

if TYPE_CHECKING:
    from ikigai.core.events.events import UsageReported
    from ikigai.core.request.build import Request
    from ikigai.core.state.memory import Memory

LOAD_TIMEOUT = 2.0
"""Seconds that a usage row waits for the one before it to be read."""

replace = msgspec.structs.replace


class PromptCache:
    """The requests of an agent's turns, as a provider's cache sees them.

    `load` returns the times of those in the ledger, oldest first, and the newest one that a cache can have.
    `lifetime` returns the configured one for a memory: "auto", "5m" or "1h".
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[tuple[list[float], CacheUse | None]]],
        lifetime: Callable[[Memory], str],
    ) -> None:
        self._times: list[float] = []
        self._previous: CacheUse | None = None
        self._load, self._lifetime = load, lifetime
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read the ledger in the background; until then there is no evidence."""
        self._loading = self._loading or asyncio.create_task(self._read(), name="prompt cache")

    async def _read(self) -> None:
        try:
            times, previous = await self._load()
        except IkigaiError:  # without evidence, a cache lives for the usual time
            return
        self._times = [*times, *self._times]
        self._previous = self._previous or previous

    async def last_use(self, within: float | None = None) -> CacheUse | None:
        """Return the newest request that a cache can have; None for none, or if it is not read `within` seconds."""
        self.load()
        assert self._loading
        await asyncio.wait({self._loading}, timeout=within)
        return self._previous

    def prepare(self, memory: Memory, request: Request) -> Request:
        """Return the next request of this memory as it is sent now: with its lifetime, and the reply before it."""
        self.load()
        if memory.provider == "anthropic":
            ttl = self._lifetime(memory)
            auto = self._chosen_ttl(memory)
            request = replace(request, cache_ttl=auto if ttl == "auto" else ttl)
        previous = self._previous.report if self._previous else None
        if previous and previous.usage.reply and previous.model.partition("/")[0] == memory.provider:
            request = replace(request, previous_reply=previous.usage.reply)
        return request

    def _chosen_ttl(self, memory: Memory) -> str:
        times = [*self._times[-MAX_PAUSES:], time.time()]
        pauses = [max(0.0, after - before) for before, after in pairwise(times)]
        return choose_ttl(pauses, len(memory.window.turns) + 1)

    async def judge(self, memory: Memory, request: Request, report: UsageReported) -> UsageReported:
        """Return the row of a request that has ended, with its prefix and why it read less than it could have."""
        if not report.usage.input:
            return report  # no cache has it
        previous = await self.last_use(LOAD_TIMEOUT)
        report = replace(report, prefix=prompt_prefix(memory, request))
        use = CacheUse(report, time.time() - report.seconds)
        self._times.append(use.at)
        self._previous = use
        return replace(report, miss=find_miss(previous, use))
