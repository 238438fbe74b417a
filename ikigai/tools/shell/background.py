"""Run background commands, which models start, read, write to and stop; they end with ikigai."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from ikigai.tools.shell.drawn_output import DrawnOutput
from ikigai.tools.shell.exit_report import FinishedCommand
from ikigai.tools.shell.output_buffer import TailBuffer
from ikigai.tools.shell.supervised_process import SupervisedProcess, Wrap

MAX_PROCESSES = 20
"""Maximum running processes, and maximum ended ones (the newest) that can still be read."""
KEPT_OUTPUT_BYTES = 256 * 1024
"""Bytes at the end of the output that are kept of each process."""
SETTLE_SECONDS = 0.1
"""Seconds to wait for further lines after the first: programs write line by line."""


class BackgroundProcess:
    """A background command. `id` is its name for models."""

    def __init__(
        self, id: str, command: str, directory: Path, environment: Mapping[str, str], wrap: Wrap | None = None
    ) -> None:
        self.id, self.command, self.directory = id, command, str(directory)
        self._output = TailBuffer(KEPT_OUTPUT_BYTES)
        self._drawn = DrawnOutput(self._output.add)
        self.began = time.monotonic()
        self._seconds = 0.0
        self._has_output = asyncio.Event()
        self.process = SupervisedProcess(command, directory, environment, self._add_output, stdin=True, wrap=wrap)
        self.process.ended.add_done_callback(self._on_end)

    @property
    def output(self) -> TailBuffer:
        """Its output so far, where it draws over itself as a terminal shows it now."""
        self._drawn.flush()
        return self._output

    @property
    def is_running(self) -> bool:
        return not self.process.ended.done()

    @property
    def seconds(self) -> float:
        """Seconds that it has been running, or that it ran."""
        return time.monotonic() - self.began if self.is_running else self._seconds

    def finished(self) -> FinishedCommand | str:
        """Return how it ended; a sentence if it could not be started."""
        ended = self.process.ended
        if ended.cancelled():
            return "it was stopped when the program ended"
        if error := ended.exception():
            return str(error)
        return ended.result().finished(seconds=self.seconds)

    async def wait_for_output(self, seconds: float) -> None:
        """Wait for unread output and `SETTLE_SECONDS` more, or for its end, `seconds` at most."""
        if self.is_running and self.output.seen == self.output.total:
            self._has_output.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._has_output.wait()
                    await asyncio.sleep(SETTLE_SECONDS)

    def _add_output(self, data: bytes) -> None:
        self._drawn.feed(data)
        self._has_output.set()

    def _on_end(self, ended: asyncio.Task[object]) -> None:
        self._seconds = time.monotonic() - self.began
        if not ended.cancelled():
            ended.exception()  # the reader gets it; without this call the loop logs a warning
        self._has_output.set()


class BackgroundProcesses:
    """Background commands of an agent. `environment` is their whole environment; `wrap` puts them into a sandbox."""

    def __init__(self, environment: Mapping[str, str], wrap: Wrap | None = None) -> None:
        self._environment, self._wrap = environment, wrap
        self._known = dict[str, BackgroundProcess]()
        self._number = 0
        self._closed = False

    def __iter__(self):
        return iter(self._known.values())

    def start(self, command: str, directory: Path) -> BackgroundProcess:
        """Start a command. Raise OSError, ValueError or Rejected, in words."""
        if self._closed:
            raise OSError("ikigai is exiting; nothing new is started.")
        if sum(each.is_running for each in self) >= MAX_PROCESSES:
            raise OSError(f"{MAX_PROCESSES} processes are running already, which is the limit; process_stop stops one.")
        process = BackgroundProcess(f"p{self._number + 1}", command, directory, self._environment, self._wrap)
        self._number += 1
        self._known[process.id] = process
        ended = [each.id for each in self if not each.is_running]
        for old in ended[: max(0, len(ended) - MAX_PROCESSES)]:
            del self._known[old]
        return process

    def find(self, id: str) -> BackgroundProcess:
        """Return a process by its id. Raise LookupError, in words, if it is unknown."""
        if process := self._known.get(id):
            return process
        raise LookupError(f"there is no process {id!r}. Known: {', '.join(self._known) or 'none'}.")

    async def close(self) -> None:
        """End all processes and start no more."""
        self._closed = True
        await asyncio.gather(*(each.process.end() for each in self if each.is_running), return_exceptions=True)
