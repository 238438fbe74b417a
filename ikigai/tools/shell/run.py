"""Runs a command to its end, for models and for the user: `run`.

A command has no terminal, its standard input is empty unless something is given, and its output is read at a pace that
leaves the event loop free, however much comes. Whatever it started ends with it: when it is over, when its time is
over, when it is cancelled, and when ikigai itself is killed (`supervisor.py` says how, and what escapes).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ikigai.core.record import Record
from ikigai.tools.base import Progress
from ikigai.tools.shell.exit_report import Finished
from ikigai.tools.shell.output_buffer import Kept
from ikigai.tools.shell.pipes import Live
from ikigai.tools.shell.supervised_process import Process, Wrap

TIMEOUT = 120.0
"""Seconds a command may take by default."""


ENDING = 16_384
"""Bytes of a result that are left for what stands behind the output: how it ended, and where."""


class Limits(Record, frozen=True):
    """How much output is kept, in bytes: so much of its beginning, and so much of its end."""

    head: int = 512 * 1024
    tail: int = 512 * 1024

    @classmethod
    def of(cls, result: int) -> Limits:
        """Those for a result of so many bytes."""
        return cls((result - ENDING) // 2, (result - ENDING) // 2)


async def run(
    command: str | Sequence[str],
    directory: str | Path,
    environment: Mapping[str, str],
    timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - one that says how it ended, instead of raising
    progress: Progress | None = None,
    limits: Limits | None = None,
    *,
    given: bytes = b"",
    apart: bool = False,
    wrap: Wrap | None = None,
) -> Finished:
    """Run a bash command, or a program with its arguments; returns when nothing of it is left.

    `environment` is all that it gets (see `environment.for_commands`), `given` its standard input. `progress` gets
    what it writes, at most 20 times a second, and at most the last 8 KiB at a time. `apart` keeps standard error by
    itself. Cancelled, it returns when everything has been ended. Raises OSError or ValueError, in words, when the
    command cannot be started.
    """
    limits = limits or Limits()
    kept, errors, live = Kept(limits.head, limits.tail), Kept(limits.head, limits.tail), Live(progress)

    def take(data: bytes) -> None:
        kept.add(data)
        live.add(data)

    began, timed_out, writing = time.monotonic(), False, None
    process = Process(command, directory, environment, take, errors.add if apart else None, bool(given), wrap)
    try:
        if given:
            writing = asyncio.create_task(process.give(given))
        async with asyncio.timeout(timeout):
            await asyncio.shield(process.over)
    except TimeoutError:
        timed_out = process.running
    finally:
        seconds = time.monotonic() - began
        if writing:
            writing.cancel()
        ended = await process.end()
        live.close()
    return ended.finished(kept.text(), errors.text(), kept.cut + errors.cut, seconds, timed_out)
