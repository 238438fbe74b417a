"""Run work that could take for ever in a short-lived child process: a timeout or a cancellation ends it.

A regular expression in Python cannot be interrupted, and a thread that runs one cannot be ended. A process can.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

_ROOT = str(Path(__file__).parents[3])
_START = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); import ikigai; sys.path.pop(0);"  # this folder alone
    "importlib.import_module(sys.argv[2]).main()"
)
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
"""Environment of a child, without keys and passwords, and without variables that change how a program searches."""
_MAX_COMPLAINT_CHARACTERS = 4_000
_READ_BYTES = 1 << 16


def child_command(module: str) -> tuple[str, ...]:
    """Return the command that runs `main` of a module of ikigai, isolated from environment and working directory."""
    return sys.executable, "-I", "-c", _START, _ROOT, module


class ChildProcess:
    """Child process, as `async with ChildProcess(command) as child`; leaving the block always ends it.

    `seconds` is its timeout. `feed` or `file` is its standard input. `environment` extends the minimal environment.
    After `read` has returned b"", `status` is its exit status, or None after a timeout (`is_late`). `complaint` is then
    the beginning of its standard error.
    """

    def __init__(
        self,
        command: Sequence[str],
        seconds: float,
        *,
        feed: bytes = b"",
        file: BinaryIO | None = None,
        directory: str = "/",
        environment: Mapping[str, str] = {},
    ) -> None:
        self._environment = {**_ENVIRONMENT, **environment}
        self._command, self._seconds, self._directory = command, seconds, directory
        self._feed, self._file = feed, file or asyncio.subprocess.DEVNULL
        self.status: int | None = None
        self.complaint = ""
        self.is_late = False

    async def __aenter__(self) -> Self:
        self._deadline = asyncio.get_running_loop().time() + self._seconds
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE if self._feed else self._file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env=self._environment,
            start_new_session=True,  # Ctrl+C and Ctrl+Z at the terminal are for ikigai
        )
        self._tasks = [asyncio.create_task(self._feed_stdin()), asyncio.create_task(self._read_stderr())]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None):
        is_running = self._process.returncode is None
        if is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with its children, which hold the pipes open
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if is_running:
            await self._process.communicate()  # `wait` alone never returns where more was printed than has been read

    async def read(self) -> bytes:
        """Return the next piece of its output, b"" at its end or after the timeout."""
        assert self._process.stdout
        try:
            async with asyncio.timeout_at(self._deadline):
                if piece := await self._process.stdout.read(_READ_BYTES):
                    return piece
                self.status = await self._process.wait()
                await self._tasks[1]
        except TimeoutError:
            self.is_late = True
        return b""

    async def _feed_stdin(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(ConnectionError):  # it may end before it has read everything
                self._process.stdin.write(self._feed)
                await self._process.stdin.drain()
            self._process.stdin.close()

    async def _read_stderr(self) -> None:
        assert self._process.stderr
        while piece := await self._process.stderr.read(_READ_BYTES):
            if len(self.complaint) < _MAX_COMPLAINT_CHARACTERS:
                self.complaint = (self.complaint + piece.decode(errors="replace"))[:_MAX_COMPLAINT_CHARACTERS]
