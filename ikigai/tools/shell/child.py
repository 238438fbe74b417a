"""A short-lived child program that does what could take for ever, so that it can be stopped: by time or by cancelling.

A regular expression in Python cannot be interrupted, and a thread that runs one cannot be ended. A process can.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = str(Path(__file__).parents[3])
_START = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); import ikigai; sys.path.pop(0);"  # only this one
    "importlib.import_module(sys.argv[2]).main()"
)
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
"""No key, no password, and nothing that changes how a program searches."""
_COMPLAINT = 4_000
_PIECE = 1 << 16


def python(module: str) -> tuple[str, ...]:
    """The command that runs `main` of a module of ikigai, isolated from the environment and the working directory."""
    return sys.executable, "-I", "-c", _START, _ROOT, module


class Child:
    """`async with Child(command) as child`: read its output piece by piece; leaving the block ends it in any case.

    `feed` is its standard input, `environment` what it gets beside the little that every child does. After `read` gave
    b"", `status` is its exit status, None when time ran out (`late`), and `complaint` the begin of what it wrote on
    standard error.
    """

    def __init__(
        self,
        command: Sequence[str],
        seconds: float,
        *,
        feed: bytes = b"",
        directory: str = "/",
        environment: Mapping[str, str] = {},
    ) -> None:
        self._environment = {**_ENVIRONMENT, **environment}
        self._command, self._seconds, self._feed, self._directory = command, seconds, feed, directory
        self.status: int | None = None
        self.complaint = ""
        self.late = False

    async def __aenter__(self) -> Self:
        self._deadline = asyncio.get_running_loop().time() + self._seconds
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE if self._feed else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env=self._environment,
            start_new_session=True,  # Ctrl+C and Ctrl+Z at the terminal are for ikigai
        )
        self._beside = [asyncio.create_task(self._write()), asyncio.create_task(self._listen())]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None):
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._process.wait()

    async def read(self) -> bytes:
        """The next piece of its output, b"" when it has ended or its time is over."""
        assert self._process.stdout
        try:
            async with asyncio.timeout_at(self._deadline):
                if piece := await self._process.stdout.read(_PIECE):
                    return piece
                self.status = await self._process.wait()
                await self._beside[1]
        except TimeoutError:
            self.late = True
        return b""

    async def _write(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(ConnectionError):  # it may end without having read everything
                self._process.stdin.write(self._feed)
                await self._process.stdin.drain()
            self._process.stdin.close()

    async def _listen(self) -> None:
        assert self._process.stderr
        while piece := await self._process.stderr.read(_PIECE):
            if len(self.complaint) < _COMPLAINT:
                self.complaint = (self.complaint + piece.decode(errors="replace"))[:_COMPLAINT]
