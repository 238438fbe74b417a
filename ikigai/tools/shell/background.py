"""The commands that run beside the conversation: started, read, written to and stopped by models, ended with ikigai."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from ikigai.tools.shell.exit_report import Finished
from ikigai.tools.shell.output_buffer import Recent
from ikigai.tools.shell.supervised_process import Process, Wrap

MOST = 20
"""Processes at a time, and of those that have ended the newest, which can still be read."""
KEPT = 256 * 1024
"""Bytes of output that are kept of each: the last."""
SETTLING = 0.1
"""Seconds: programs write line by line, and what is read should be what they had to say."""


class Background:
    """One of them. `id` is what models call it."""

    def __init__(
        self, id: str, command: str, directory: Path, environment: Mapping[str, str], wrap: Wrap | None = None
    ) -> None:
        self.id, self.command, self.directory = id, command, str(directory)
        self.output = Recent(KEPT)
        self.began = time.monotonic()
        self._seconds = 0.0
        self._news = asyncio.Event()
        self.process = Process(command, directory, environment, self._take, stdin=True, wrap=wrap)
        self.process.over.add_done_callback(self._ended)

    @property
    def running(self) -> bool:
        return not self.process.over.done()

    @property
    def seconds(self) -> float:
        """How long it has been running, or ran."""
        return time.monotonic() - self.began if self.running else self._seconds

    def finished(self) -> Finished | str:
        """How it ended; a sentence when it never began."""
        over = self.process.over
        if over.cancelled():
            return "it was ended with the program"
        if error := over.exception():
            return str(error)
        return over.result().finished(seconds=self.seconds)

    async def news(self, seconds: float) -> None:
        """Wait until there is output that was not read, and a moment for what follows it; or its end, or so long."""
        if self.running and self.output.seen == self.output.total:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
                    await asyncio.sleep(SETTLING)

    def _take(self, data: bytes) -> None:
        self.output.add(data)
        self._news.set()

    def _ended(self, over: asyncio.Task[object]) -> None:
        self._seconds = time.monotonic() - self.began
        if not over.cancelled():
            over.exception()  # whoever reads it is told; the loop need not complain
        self._news.set()


class Processes:
    """All of them. `environment` is all that they get; `wrap` puts them into a sandbox."""

    def __init__(self, environment: Mapping[str, str], wrap: Wrap | None = None) -> None:
        self._environment, self._wrap = environment, wrap
        self._known = dict[str, Background]()
        self._number = 0
        self._closed = False

    def __iter__(self):
        return iter(self._known.values())

    def start(self, command: str, directory: Path) -> Background:
        """Raises OSError, ValueError and Refused, in words."""
        if self._closed:
            raise OSError("ikigai is ending; nothing is started any more.")
        if sum(each.running for each in self) >= MOST:
            raise OSError(f"{MOST} processes are running already; process_stop ends one.")
        made = Background(f"p{self._number + 1}", command, directory, self._environment, self._wrap)
        self._number += 1
        self._known[made.id] = made
        ended = [each.id for each in self if not each.running]
        for old in ended[: max(0, len(ended) - MOST)]:
            del self._known[old]
        return made

    def find(self, id: str) -> Background:
        """Raises LookupError, in words."""
        if found := self._known.get(id):
            return found
        raise LookupError(f"there is no process {id!r}. Known: {', '.join(self._known) or 'none'}.")

    async def close(self) -> None:
        """End all of them, and start none any more."""
        self._closed = True
        await asyncio.gather(*(each.process.end() for each in self if each.running), return_exceptions=True)
