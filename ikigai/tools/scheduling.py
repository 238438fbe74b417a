"""Which calls of a turn may run side by side: reading with reading; writers of one path in order; a command alone;
calls about other agents in order.

A call waits for those before it: for every command; if it is one itself, for all; if it writes, for those that touch a
path of its own; if it reads, for those that write it; if it is about other agents, for those that are. What these find
depends on what was done before: who was made, what was sent, who is still at work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ikigai.tools.base import Kind, Touch


class Place:
    """A call among the others. `runs` says that it has been let through, `waited` that it stood behind another one."""

    def __init__(self, id: str, before: list[Place]) -> None:
        self.id, self._before = id, before
        self.touch: Touch | None = None
        self.looked, self.done = asyncio.Event(), asyncio.Event()
        self.runs = self.waited = False

    @property
    def follows(self) -> bool:
        """Whether other calls stand before it."""
        return bool(self._before)

    async def after_commands(self) -> None:
        """Go on once every call before it is known, and the commands among them are done."""
        for other in self._before:
            await other.looked.wait()
            if other.touch and other.touch.kind is Kind.RUN:
                await self._after(other)

    async def after_conflicts(self, touch: Touch) -> None:
        """Go on once the calls are done that must not run beside one which does this."""
        self.touch = touch
        self.looked.set()
        for other in self._before:
            if other.touch and _conflict(other.touch, touch):
                await self._after(other)

    async def _after(self, other: Place) -> None:
        if not other.done.is_set():
            self.waited = True
            await other.done.wait()


class Order:
    """The calls of the turn under way, in the order in which they were started."""

    def __init__(self) -> None:
        self._turn = 0
        self._places: dict[str, Place] = {}

    @contextmanager
    def entered(self, turn: int, id: str) -> Iterator[Place]:
        """A call stands in line; where it is not let through it leaves the line at once."""
        if turn != self._turn:
            self._turn = turn
            self._places = {}
        place = self._places[id] = Place(id, list(self._places.values()))
        try:
            yield place
        finally:
            place.looked.set()
            if not place.runs:
                self.left(id)

    def left(self, id: str) -> None:
        """The call is done."""
        if place := self._places.pop(id, None):
            place.done.set()


def _conflict(before: Touch, now: Touch) -> bool:
    if before.agents and now.agents:
        return True
    if Kind.RUN in (before.kind, now.kind):
        return Kind.NOTHING not in (before.kind, now.kind)
    if Kind.EDIT not in (before.kind, now.kind):
        return False
    return any(_meet(a, b) for a in before.paths for b in now.paths)


def _meet(a: str, b: str) -> bool:
    """Whether both are one path, or one lies below the other."""
    return a == b or a.startswith(b.rstrip("/") + "/") or b.startswith(a.rstrip("/") + "/")
