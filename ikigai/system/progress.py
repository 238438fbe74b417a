"""Show the progress of long work: one line on the terminal behind standard error, redrawn in place, and gone at the
end.

The rule is here and nowhere else. Nothing is drawn for work of less than a moment, nothing where standard error is not
a terminal or the output is for programs. On a terminal that cannot draw over a line it is said once. No mode of the
terminal is changed, so that nothing has to be restored after Ctrl+C.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Literal, TypeAlias

OnProgress: TypeAlias = Callable[[int, int | None], None]
"""A function that takes the amount done, and the total: None where it is unknown."""
ProgressUnit: TypeAlias = Literal["events", "bytes", "steps"]

QUIET_SECONDS = 0.5
"""Seconds that work may take before anything is said of it."""
PROGRESS_POLL = 0.1
"""Seconds between two updates of the line."""
SCREEN_READER_VARIABLE = "IKIGAI_TERMINAL_SCREEN_READER"
"""The variable of users of a screen reader: it would read an overdrawn line again and again."""
BAR_CELLS = 30
"""Width of a bar."""


class ProgressLine:
    """One line of the terminal about the work `what`."""

    def __init__(self, what: str, wanted: bool = True, soon: float | None = None) -> None:
        self.what = what
        self._wanted = wanted and sys.stderr is not None and sys.stderr.isatty()
        self._dumb = os.environ.get("TERM", "dumb") in ("", "dumb") or os.environ.get(SCREEN_READER_VARIABLE) == "true"
        self._next = time.monotonic() + (QUIET_SECONDS if soon is None else soon)
        self._drawn = False

    def draw(self, progress: str = "") -> None:
        """Show the progress, unless it was shown a moment ago. May be called from any thread."""
        now = time.monotonic()
        if not self._wanted or now < self._next or (self._dumb and self._drawn):
            return
        self._next, self._drawn = now + PROGRESS_POLL, True
        text = f"{self.what}{' ' if progress else ''}{progress or ' …'}"
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
def show_progress(
    what: str, unit: ProgressUnit = "events", enabled: bool = True, soon: float | None = None
) -> Iterator[OnProgress]:
    """Return a function that takes the progress of the work in the block. Nothing is shown in its first `soon` seconds,
    by default QUIET_SECONDS.
    """
    line = ProgressLine(what, enabled, soon)
    try:
        yield lambda done, total: line.draw(format_progress(done, total, unit))
    finally:
        line.clear()


@contextlib.asynccontextmanager
async def show_waiting(what: str, enabled: bool = True) -> AsyncIterator[OnProgress]:
    """Show the progress of work that cannot always report it: then its seconds are counted."""
    line = ProgressLine(what, enabled, soon=0.0)
    try:
        async with count_progress(line.draw) as on_progress:
            yield on_progress
    finally:
        line.clear()


@contextlib.asynccontextmanager
async def count_progress(draw: Callable[[str], object]) -> AsyncIterator[OnProgress]:
    """Report progress to another view: `draw` is called with each change, "3 of 9" or "… 2 s"."""
    began, progress = time.monotonic(), ""

    def on_progress(done: int, total: int | None) -> None:
        nonlocal progress
        progress = format_progress(done, total, "steps")

    async def count() -> None:
        drawn = ""
        await asyncio.sleep(QUIET_SECONDS)
        while True:
            if (text := progress or f"… {int(time.monotonic() - began)} s") != drawn:
                draw(drawn := text)
            await asyncio.sleep(PROGRESS_POLL)

    task = asyncio.create_task(count(), name="progress")
    try:
        yield on_progress
    finally:
        task.cancel()


def format_progress(done: int, total: int | None, unit: ProgressUnit) -> str:
    """Return a bar where the total is known, else the count."""
    if unit == "steps":
        return f"{done:,} of {total:,}" if total else f"{done:,}"
    if unit == "bytes":
        amount = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if total else f"{done / 1e6:,.1f} MB"
    else:
        amount = f"{done:,} {unit}"
    if not total:
        return amount
    share = min(1.0, done / total)
    return f"{'█' * int(share * BAR_CELLS):░<{BAR_CELLS}} {int(share * 100)} %  {amount}"


def format_size(size: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
