"""Print entries into the scrollback: each once, in order, drawn in small steps so that keys never wait."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

DRAWING_STEP = 0.005
"""Seconds of drawing after which keys get their turn."""


class ScrollbackEntry(NamedTuple):
    """Drawn lines. Consecutive entries of one `group` have no blank line between them.

    A `bare` entry is not a line but a sequence that draws nothing.
    """

    text: str
    group: str = ""
    bare: bool = False


Draw = Callable[[int], Iterable[ScrollbackEntry]]
"""A function that draws entries for `columns`, one by one. The entries of one call are printed at once."""


Wait = Callable[[], Coroutine[Any, Any, None]]


class Scrollback:
    """The queue of entries. `print` takes whole lines, each with its line break; `columns` returns the width."""

    def __init__(self, print: Callable[[str], None], columns: Callable[[], int]) -> None:
        self._print, self._columns = print, columns
        self._waiting: deque[tuple[Draw, bool | Wait]] = deque()
        self._entries: Iterator[ScrollbackEntry] = iter(())  # of the function that draws now
        self._lines: list[str] = []  # of its entries, drawn so far
        self._group = ""
        self._begun = False
        self.added = 0
        """The number of functions added so far."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def add(self, draw: Draw, big: bool = False) -> None:
        """Draw and print after everything that was added before; with `big` draw in a thread."""
        self.added += 1
        self._waiting.append((draw, big))
        if self._idle.is_set():
            self._go_on()

    def after(self, wait: Wait) -> None:
        """Draw the entries added from now on when `wait` has returned."""
        self._waiting.append((lambda columns: (), wait))
        if self._idle.is_set():
            self._go_on()

    async def drained(self) -> None:
        """Wait until everything added is printed."""
        await self._idle.wait()

    def _go_on(self) -> None:
        self._idle.clear()
        until = time.monotonic() + DRAWING_STEP
        while True:
            for text, group, bare in self._entries:
                if bare:
                    self._lines.append(text)
                    continue
                apart = self._begun and not (group and group == self._group)
                self._lines += ["\n" * apart, text, "\n"]
                self._begun, self._group = True, group
                if time.monotonic() > until:
                    asyncio.get_running_loop().call_soon(self._go_on)
                    return
            if self._lines:
                self._print("".join(self._lines))
                self._lines.clear()
            if not self._waiting:
                break
            draw, big = self._waiting.popleft()
            if big:
                work = self._draw_in_thread(draw) if big is True else self._wait_for(big)
                self._task = asyncio.create_task(work, name="drawing")
                return
            self._entries = iter(draw(self._columns()))
        self._idle.set()

    async def _draw_in_thread(self, draw: Draw) -> None:
        columns = self._columns()
        try:
            self._entries = iter(await asyncio.to_thread(lambda: list(draw(columns))))
        finally:
            self._go_on()

    async def _wait_for(self, wait: Wait) -> None:
        try:
            await wait()
        finally:
            self._go_on()
