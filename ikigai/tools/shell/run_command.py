"""Run a command to its end, for models and for the user.

A command has no terminal, and its standard input is empty by default. Its output is read at a rate that leaves the
event loop free. Every process that it has started ends with it: at its end, at its timeout, when it is cancelled, and
when ikigai itself is killed (`supervisor.py` says how, and what escapes).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ikigai.core.events.record import Record
from ikigai.tools.base import OnOutput
from ikigai.tools.shell.drawn_output import DrawnOutput
from ikigai.tools.shell.exit_report import FinishedCommand
from ikigai.tools.shell.output_buffer import HeadTailBuffer
from ikigai.tools.shell.pipes import LiveOutput
from ikigai.tools.shell.supervised_process import SupervisedProcess, Wrap

COMMAND_TIMEOUT = 120.0
"""Seconds a command may take by default."""
MAX_STORED_RESULT_BYTES = 16 * 1024 * 1024
"""Bytes of one tool result in the log; of a longer one the beginning and the end are kept. No model reads more, and a
message of an MCP server has at most twice as many.
"""
ENDING_BYTES = 16_384
"""Bytes of a result that are reserved for the lines after the output: how the command ended, and where."""


class OutputLimits(Record, frozen=True):
    """Bytes that are kept of the beginning and of the end of an output."""

    head: int = 512 * 1024
    tail: int = 512 * 1024

    @classmethod
    def of(cls, result: int) -> OutputLimits:
        """Return the limits for a result of at most `result` bytes."""
        return cls((result - ENDING_BYTES) // 2, (result - ENDING_BYTES) // 2)


async def run(
    command: str | Sequence[str],
    directory: str | Path,
    environment: Mapping[str, str],
    timeout: float | None = COMMAND_TIMEOUT,  # noqa: ASYNC109 - one that says how it ended, instead of raising
    progress: OnOutput | None = None,
    limits: OutputLimits | None = None,
    *,
    stdin: bytes = b"",
    separate_stderr: bool = False,
    wrap: Wrap | None = None,
) -> FinishedCommand:
    """Run a bash command, or a program with its arguments; return when all its processes have ended.

    Output that it draws over itself, as a progress bar, is folded to what a terminal shows in the end.
    `environment` is its whole environment (see `environment.command_environment`). `progress` gets its output, at most
    20 times a second, and at most the last 8 KiB at a time. `stdin` is its standard input. `separate_stderr` keeps
    standard error apart from the output. When cancelled, return after all processes have ended. Raise OSError or
    ValueError, in words, if the command cannot be started.
    """
    limits = limits or OutputLimits()
    output, errors = (HeadTailBuffer(limits.head, limits.tail) for _ in range(2))
    live, drawn = LiveOutput(progress), DrawnOutput(output.add)

    def add(data: bytes) -> None:
        if separate_stderr:  # for a program to read
            output.add(data)
        else:
            drawn.feed(data)
        live.add(data)

    start, timed_out, writing = time.monotonic(), False, None
    on_errors = errors.add if separate_stderr else None
    process = SupervisedProcess(command, directory, environment, add, on_errors, bool(stdin), wrap)
    try:
        if stdin:
            writing = asyncio.create_task(process.feed(stdin))
        async with asyncio.timeout(timeout):
            await asyncio.shield(process.ended)
    except TimeoutError:
        timed_out = process.is_running
    finally:
        seconds = time.monotonic() - start
        if writing:
            writing.cancel()
        process_end = await process.end()
        drawn.flush()
        live.close()
    return process_end.finished(output.text(), errors.text(), output.cut + errors.cut, seconds, timed_out)
