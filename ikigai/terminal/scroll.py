"""What goes into the scrollback: each entry once, in order, apart from the last; big ones drawn in a thread."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """Drawn lines. Entries of one `group` that follow one another stand without a blank line between them."""

    text: str
    group: str = ""


Draw = Callable[[int], list[Entry]]
"""Draws for so many columns; must not fail for any text."""


class Scroll:
    """`print` takes whole lines, each with its line break; `columns` tells how wide the terminal is."""

    def __init__(self, print: Callable[[str], None], columns: Callable[[], int]) -> None:
        self.begun = False
        self._print, self._columns = print, columns
        self._waiting: deque[tuple[Draw, bool]] = deque()
        self._group = ""
        self._task: asyncio.Task[None] | None = None

    def add(self, draw: Draw, big: bool = False) -> None:
        """Draw and print; at once, unless it is big or something before it still is being drawn."""
        self._waiting.append((draw, big))
        if self._task is None:
            self._go_on()

    async def drained(self) -> None:
        """Wait until everything added is printed."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _go_on(self) -> None:
        while self._waiting:
            draw, big = self._waiting.popleft()
            if big:
                self._task = asyncio.create_task(self._aside(draw), name="drawing")
                return
            self._put(draw(self._columns()))

    async def _aside(self, draw: Draw) -> None:
        try:
            self._put(await asyncio.to_thread(draw, self._columns()))
        finally:
            self._task = None
            self._go_on()

    def _put(self, entries: list[Entry]) -> None:
        lines: list[str] = []
        for text, group in entries:
            if self.begun and not (group and group == self._group):
                lines.append("\n")
            lines.append(text + "\n")
            self.begun, self._group = True, group
        self._print("".join(lines))
