"""What goes into the scrollback: each entry once, in order, drawn a little at a time so that keys never wait."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

SLICE = 0.005
"""Seconds of drawing after which keys get their turn."""


class Entry(NamedTuple):
    """Drawn lines. Entries of one `group` that follow one another stand without a blank line between them.

    One that is `bare` is no line at all, but a sequence that draws nothing.
    """

    text: str
    group: str = ""
    bare: bool = False


Draw = Callable[[int], Iterable[Entry]]
"""Draws entries for so many columns, one by one. What one call draws is printed at once."""


Wait = Callable[[], Coroutine[Any, Any, None]]


class Scroll:
    """`print` takes whole lines, each with its line break; `columns` tells how wide the terminal is."""

    def __init__(self, print: Callable[[str], None], columns: Callable[[], int]) -> None:
        self._print, self._columns = print, columns
        self._waiting: deque[tuple[Draw, bool | Wait]] = deque()
        self._entries: Iterator[Entry] = iter(())  # of what is being drawn
        self._lines: list[str] = []  # of it, drawn so far
        self._group = ""
        self._begun = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def add(self, draw: Draw, big: bool = False) -> None:
        """Draw and print after everything that was added before; what is `big` is drawn in a thread."""
        self._waiting.append((draw, big))
        if self._idle.is_set():
            self._go_on()

    def after(self, wait: Wait) -> None:
        """What is added from now on is drawn when this has come."""
        self._waiting.append((lambda columns: (), wait))
        if self._idle.is_set():
            self._go_on()

    async def drained(self) -> None:
        """Wait until everything added is printed."""
        await self._idle.wait()

    def _go_on(self) -> None:
        self._idle.clear()
        until = time.monotonic() + SLICE
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
                work = self._aside(draw) if big is True else self._later(big)
                self._task = asyncio.create_task(work, name="drawing")
                return
            self._entries = iter(draw(self._columns()))
        self._idle.set()

    async def _aside(self, draw: Draw) -> None:
        columns = self._columns()
        try:
            self._entries = iter(await asyncio.to_thread(lambda: list(draw(columns))))
        finally:
            self._go_on()

    async def _later(self, wait: Wait) -> None:
        try:
            await wait()
        finally:
            self._go_on()
