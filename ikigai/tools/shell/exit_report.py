"""Describe how a command ended, as a record and in words for the model."""

from __future__ import annotations

from signal import Signals, strsignal

from ikigai.core.events.record import Record


class FinishedCommand(Record, frozen=True):
    """Outcome of a command.

    `text` is its standard output and standard error, in the order of arrival, without the `cut` bytes above the limit.
    `errors` is standard error if it was separated. `status` is 0 to 255, 128 + `signal` if a signal ended the command.
    `seconds` is the total time. `directory` is where bash was at its end, "" if unknown. `left` are the processes that
    it left running, which were ended; `stuck` are those that could not be ended: "name (pid N)".
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


MAX_NAMED_PROCESSES = 5
"""Processes that are named; the others are only counted."""


def describe_exit(finished: FinishedCommand) -> str:
    """Return one sentence: exit status, signal, timeout, and the processes left behind."""
    parts = [_status(finished)]
    if finished.left:
        parts.append(
            f"still running, now stopped: {_names(finished.left)} (use background=true for what must keep running)"
        )
    if finished.stuck:
        parts.append(f"could not be stopped: {_names(finished.stuck)}")
    return "; ".join(parts)


def text_with_exit(finished: FinishedCommand, *more: str) -> str:
    """Return the output followed by a line in brackets with the exit and `more`."""
    text = finished.text
    if text and not text.endswith("\n"):
        text += "\n"
    return f"{text}[{'; '.join((describe_exit(finished), *filter(None, more)))}]"


def _status(finished: FinishedCommand) -> str:
    if finished.timed_out:
        return f"timed out after {round(finished.seconds, 1):g} s and was stopped"
    if finished.signal:
        return f"killed by {_signal(finished.signal)}"
    if finished.status > 128 and (name := _signal(finished.status - 128)):
        return f"exit status {finished.status}, which means {name}"
    meaning = {126: " (cannot be executed)", 127: " (command not found)"}.get(finished.status, "")
    return f"exit status {finished.status}{meaning}"


def _signal(number: int) -> str:
    """Return the name, as "SIGSEGV (segmentation fault)"; "" for a number that is not a signal."""
    try:
        name = Signals(number).name
    except ValueError:
        return ""
    meaning = (strsignal(number) or "").lower()
    return f"{name} ({meaning})" if meaning else name


def _names(processes: tuple[str, ...]) -> str:
    more = len(processes) - MAX_NAMED_PROCESSES
    return ", ".join(processes[:MAX_NAMED_PROCESSES]) + (f" and {more} more" if more > 0 else "")
