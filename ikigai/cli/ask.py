"""Questions that commands ask at the terminal: a signal ends them at once, and leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from ikigai.system.output import say

LATEST = 0.2
"""Seconds within which a signal ends a question. One that comes just before the wait for a key ends no wait; Python
looks at it when something does, which without a clock that ticks would be the next key.
"""


def answer(question: str) -> str:
    """What the user types, without the spaces around it; "" when there is nothing more to read."""
    return (line(question) or "").strip()


def line(question: str) -> str | None:
    """A line as the user types it; None when there is nothing more to read."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (makes the line of `input` editable; what is typed outlives a tick of the clock)
    with interruptible():
        try:
            return input(question)
        except EOFError:
            say()
            return None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Signals end the question at once, and by an exception: the terminal shows again what is typed."""

    def end(signum: int, _: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # one end is enough, and two exceptions are a mistake to Python
        raise SystemExit(128 + signum)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.signal(number, end) for number in numbers}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, LATEST, LATEST)
        yield
    except SystemExit:
        if sys.stdin.isatty():
            say()  # what comes next begins a line
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
