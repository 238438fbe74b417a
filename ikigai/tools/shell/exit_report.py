"""How a command ended, as a record and in words for the model."""

from __future__ import annotations

import signal as signals

from ikigai.core.record import Record


class Finished(Record, frozen=True):
    """What came of a command.

    `text` is what it wrote to standard output and standard error, in the order in which it came, without the bytes
    (`cut`) that were more than is kept; `errors` is standard error where it was wanted apart. `status` is 0 to 255,
    128 + `signal` when a signal ended it. `seconds` is how long all took. `directory` is where bash was when it ended,
    "" where that is unknown. `left` are the processes it left running, which were ended, and `stuck` those that could
    not be ended: "name (pid N)".
    """

    text: str
    status: int = 0
    signal: int = 0
    timed_out: bool = False
    seconds: float = 0.0
    cut: int = 0
    errors: str = ""
    directory: str = ""
    left: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


SHOWN = 5
"""Processes that are named; the rest is a number."""


def ending(finished: Finished) -> str:
    """One sentence: exit status, signal, timeout, and what was left behind."""
    words = [_status(finished)]
    if finished.left:
        words.append(f"left running, and ended now: {_names(finished.left)} (what is to go on needs background=true)")
    if finished.stuck:
        words.append(f"could not be ended: {_names(finished.stuck)}")
    return "; ".join(words)


def told(finished: Finished, *more: str) -> str:
    """The text, and behind it a line in brackets with the ending and `more`."""
    text = finished.text
    if text and not text.endswith("\n"):
        text += "\n"
    return f"{text}[{'; '.join((ending(finished), *filter(None, more)))}]"


def _status(finished: Finished) -> str:
    if finished.timed_out:
        return f"timed out after {round(finished.seconds, 1):g} s, and was ended"
    if finished.signal:
        return f"ended by {_signal(finished.signal)}"
    if finished.status > 128 and (name := _signal(finished.status - 128)):
        return f"exit status {finished.status}, which stands for {name}"
    meaning = {126: " (cannot be executed)", 127: " (command not found)"}.get(finished.status, "")
    return f"exit status {finished.status}{meaning}"


def _signal(number: int) -> str:
    """ "SIGSEGV (segmentation fault)"; "" for a number that is no signal."""
    try:
        name = signals.Signals(number).name
    except ValueError:
        return ""
    what = (signals.strsignal(number) or "").lower()
    return f"{name} ({what})" if what else name


def _names(processes: tuple[str, ...]) -> str:
    more = len(processes) - SHOWN
    return ", ".join(processes[:SHOWN]) + (f" and {more} more" if more > 0 else "")
