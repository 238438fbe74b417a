"""Schedule the calls of a turn: decide which of them may run side by side.

Readers run together. Writers of one path run in order. A command runs alone. Calls about other agents run in order.

A call waits for earlier calls: for every command; a command for all; a writer for those that read or write one of its
paths; a reader for those that write one; a call about other agents for those that are about agents. The outcome of the
latter depends on the calls before: which agents exist, which messages were sent, which agents still run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ikigai.tools.base import Effect, EffectKind


class ScheduledCall:
    """A call in the schedule. `is_running` is True once it may run, `has_waited` if it has waited for another one."""

    def __init__(self, id: str, before: list[ScheduledCall]) -> None:
        self.id, self._before = id, before
        self.effect: Effect | None = None
        self.previewed, self.done = asyncio.Event(), asyncio.Event()
        self.is_running = self.has_waited = False

    @property
    def has_predecessors(self) -> bool:
        """True if other calls were started before it and are not done."""
        return bool(self._before)

    async def wait_for_commands(self) -> None:
        """Wait until every earlier call has a preview and the commands among them are done."""
        for other in self._before:
            await other.previewed.wait()
            if other.effect and other.effect.kind is EffectKind.RUN:
                await self._wait_for(other)

    async def wait_for_conflicts(self, effect: Effect) -> None:
        """Wait until the earlier calls are done that must not run beside a call with this effect."""
        self.effect = effect
        self.previewed.set()
        for other in self._before:
            if other.effect and _conflicts(other.effect, effect):
                await self._wait_for(other)

    async def _wait_for(self, other: ScheduledCall) -> None:
        if not other.done.is_set():
            self.has_waited = True
            await other.done.wait()


class CallSchedule:
    """Calls of the turn under way, in the order in which they were started."""

    def __init__(self) -> None:
        self._turn = 0
        self._slots: dict[str, ScheduledCall] = {}

    @contextmanager
    def enter(self, turn: int, id: str) -> Iterator[ScheduledCall]:
        """Add a call to the schedule; remove it at the end of the block unless it may run."""
        if turn != self._turn:
            self._turn = turn
            self._slots = {}
        slot = self._slots[id] = ScheduledCall(id, list(self._slots.values()))
        try:
            yield slot
        finally:
            slot.previewed.set()
            if not slot.is_running:
                self.leave(id)

    def leave(self, id: str) -> None:
        """Remove a call that is done."""
        if slot := self._slots.pop(id, None):
            slot.done.set()


def _conflicts(before: Effect, after: Effect) -> bool:
    if before.agents and after.agents:
        return True
    if EffectKind.RUN in (before.kind, after.kind):
        return EffectKind.NOTHING not in (before.kind, after.kind)
    if EffectKind.EDIT not in (before.kind, after.kind):
        return False
    return any(_overlap(a, b) for a in before.paths for b in after.paths)


def _overlap(a: str, b: str) -> bool:
    """Return True if both are one path, or one lies below the other."""
    return a == b or a.startswith(b.rstrip("/") + "/") or b.startswith(a.rstrip("/") + "/")
