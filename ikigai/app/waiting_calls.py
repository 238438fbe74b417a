"""The calls that wait for agents: each is woken when something has happened, and looks again.

An agent whose calls have all looked at the newest state and found nothing only waits: unless something else happens, it
says nothing more. So agents that wait for each other are found out, and one that has just been sent something is not
taken for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class WaitingCall:
    """`agent` is the id of the agent whose model waits, "" for the user."""

    def __init__(self, calls: WaitingCalls, agent: str) -> None:
        self.agent, self.woken, self.settled = agent, asyncio.Event(), -1
        self._calls, self._looked = calls, -1

    def look(self) -> None:
        """What follows looks at how things are now."""
        self.woken.clear()
        self._looked = self._calls.changes

    async def settle(self, seconds: float) -> None:
        """It found nothing: wait until it is worth looking again, at most so long."""
        if self.settled != self._looked:
            self.settled = self._looked
            self._calls.reconsider(self)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.woken.wait(), seconds)


class WaitingCalls:
    """`changes` counts what has happened so far."""

    def __init__(self) -> None:
        self.changes = 0
        self._calls = set[WaitingCall]()

    @contextmanager
    def waiting(self, agent: str = "") -> Iterator[WaitingCall]:
        """A call that waits, while it does."""
        call = WaitingCall(self, agent)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)

    def wake(self) -> None:
        """Something has happened: all look again."""
        self.changes += 1
        self.reconsider()

    def reconsider(self, settled: WaitingCall | None = None) -> None:
        """All but the one that found nothing look again; nothing else has happened."""
        for call in self._calls:
            if call is not settled:
                call.woken.set()

    def only_waits(self, agent: str) -> bool:
        """Whether this agent waits, and all its calls have found nothing since the last change."""
        settled = [call.settled for call in self._calls if call.agent == agent]
        return bool(settled) and all(seen == self.changes for seen in settled)
