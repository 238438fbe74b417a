"""How far long work is: one line on the terminal behind standard error, drawn over itself, and gone when it is done.

This is the one place with the rule: nothing is drawn for what takes less than a moment, nothing where standard error is
no terminal or the output is for programs, and on a terminal that cannot draw over a line it is said once. No mode of
the terminal is changed, so that nothing has to be put back when somebody presses Ctrl+C.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Literal, TypeAlias

Far: TypeAlias = Callable[[int, int | None], None]
"""How much is done, and of how much: None where nobody knows."""
Unit: TypeAlias = Literal["events", "bytes", "steps"]

SOON = 0.5
"""Seconds that work may take before anything is said of it."""
STEP = 0.1
"""Seconds between two looks at how far it is."""
READER = "IKIGAI_TERMINAL_SCREEN_READER"
"""The variable of those who have the terminal read to them: what is drawn over would be read again and again."""
CELLS = 30
"""Width of a bar."""


class Line:
    """One line of the terminal, about `what` is done."""

    def __init__(self, what: str, wanted: bool = True, soon: float | None = None) -> None:
        self.what = what
        self._wanted = wanted and sys.stderr is not None and sys.stderr.isatty()
        self._dumb = os.environ.get("TERM", "dumb") in ("", "dumb") or os.environ.get(READER) == "true"
        self._next = time.monotonic() + (SOON if soon is None else soon)
        self._drawn = False

    def draw(self, far: str = "") -> None:
        """Say how far it is, unless that was said a moment ago. May be called from any thread."""
        now = time.monotonic()
        if not self._wanted or now < self._next or (self._dumb and self._drawn):
            return
        self._next, self._drawn = now + STEP, True
        text = f"{self.what}{' ' if far else ''}{far or ' …'}"
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except (OSError, ValueError):
            width = 80
        self._write(f"{self.what} …\n" if self._dumb else f"\r{text[: width - 1]}\x1b[K")

    def clear(self) -> None:
        """Leave the terminal as it was before."""
        if self._drawn and not self._dumb:
            self._write("\r\x1b[K")
        self._drawn = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, UnicodeError):
            sys.stderr.write(text)
            sys.stderr.flush()


@contextlib.contextmanager
def progress(what: str, unit: Unit = "events", wanted: bool = True) -> Iterator[Far]:
    """What hears how far the work in the block is."""
    line = Line(what, wanted)
    try:
        yield lambda done, total: line.draw(measured(done, total, unit))
    finally:
        line.clear()


@contextlib.asynccontextmanager
async def waiting(what: str, wanted: bool = True) -> AsyncIterator[Far]:
    """The same for work that cannot always say how far it is: then its seconds are counted."""
    line = Line(what, wanted, soon=0.0)
    try:
        async with counting(line.draw) as far:
            yield far
    finally:
        line.clear()


@contextlib.asynccontextmanager
async def counting(draw: Callable[[str], object]) -> AsyncIterator[Far]:
    """The same for whoever draws it elsewhere: `draw` is given what has changed, "3 of 9" or "… 2 s"."""
    began, told = time.monotonic(), ""

    def far(done: int, total: int | None) -> None:
        nonlocal told
        told = measured(done, total, "steps")

    async def count() -> None:
        drawn = ""
        await asyncio.sleep(SOON)
        while True:
            if (text := told or f"… {int(time.monotonic() - began)} s") != drawn:
                draw(drawn := text)
            await asyncio.sleep(STEP)

    task = asyncio.create_task(count(), name="progress")
    try:
        yield far
    finally:
        task.cancel()


def measured(done: int, total: int | None, unit: Unit) -> str:
    """A bar where it is known how much there is, else how much there was."""
    if unit == "steps":
        return f"{done:,} of {total:,}" if total else f"{done:,}"
    amount = f"{done / 1e6:,.1f} MB" if unit == "bytes" else f"{done:,} {unit}"
    if not total:
        return amount
    share = min(1.0, done / total)
    return f"{'█' * int(share * CELLS):░<{CELLS}} {int(share * 100)} %  {amount}"
