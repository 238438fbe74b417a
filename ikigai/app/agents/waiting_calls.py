"""Manage the calls that wait for agents: each is woken after a change and checks the state again.

An agent whose calls have all checked the newest state in vain only waits: without another change it sends nothing more.
So agents that wait for each other are detected, and an agent that was just sent a message is not counted among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class WaitingCall:
    """A call that waits. `agent` is the id of the agent whose model waits, "" for the user."""

    def __init__(self, calls: WaitingCalls, agent: str) -> None:
        self.agent, self.woken, self.settled = agent, asyncio.Event(), -1
        self._calls, self._looked = calls, -1

    def look(self) -> None:
        """Note the current state, which the caller checks next."""
        self.woken.clear()
        self._looked = self._calls.changes

    async def settle(self, seconds: float) -> None:
        """Wait for the next change, at most `seconds`, because the check found nothing."""
        if self.settled != self._looked:
            self.settled = self._looked
            self._calls.reconsider(self)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.woken.wait(), seconds)


class WaitingCalls:
    """All waiting calls. `changes` counts the changes so far."""

    def __init__(self) -> None:
        self.changes = 0
        self._calls = set[WaitingCall]()

    @contextmanager
    def waiting(self, agent: str = "") -> Iterator[WaitingCall]:
        """Register a call while it waits."""
        call = WaitingCall(self, agent)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)

    def wake(self) -> None:
        """Count a change and let all calls check again."""
        self.changes += 1
        self.reconsider()

    def reconsider(self, settled: WaitingCall | None = None) -> None:
        """Let all calls but `settled` check again, without a change."""
        for call in self._calls:
            if call is not settled:
                call.woken.set()

    def only_waits(self, agent: str) -> bool:
        """Return True if this agent waits and all its calls have checked in vain since the last change."""
        settled = [call.settled for call in self._calls if call.agent == agent]
        return bool(settled) and all(seen == self.changes for seen in settled)
