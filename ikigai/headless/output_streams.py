"""Write standard output and standard error in a thread of its own: a pipe that is full stops only that thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from ikigai.core.errors import IkigaiError


class OutputStreams:
    """Writes texts in their order, as soon as they can be written.

    The thread is a daemon and writes to the descriptors: the program can end while a write is blocked. `lost` is the
    error that ended standard output; nothing more is written there. Errors of standard error are ignored.
    """

    def __init__(self) -> None:
        self.lost: OSError | None = None
        self.has_result = False  # the object or the text of a result was written
        self._pending = queue.SimpleQueue[tuple[TextIO, bytes] | Callable[[], object]]()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write to standard output; characters that its encoding lacks are written as ?."""
        if self.lost is None and text:
            self._put((sys.stdout, text.encode(sys.stdout.encoding, "replace")))

    def write_error(self, text: str) -> None:
        """Write to standard error."""
        self._put((sys.stderr, text.encode(sys.stderr.encoding, "backslashreplace")))

    async def finish(self) -> None:
        """Wait until all is written. Raise IkigaiError if it cannot be; a reader that went away is no error."""
        await self.drain()
        if self.lost and not isinstance(self.lost, BrokenPipeError):
            raise IkigaiError(f"The output cannot be written: {self.lost.strerror}.", "Send it elsewhere.")

    def wait(self, seconds: float) -> None:
        """Block until all is written, at most for `seconds`."""
        if self._thread:
            written = threading.Event()
            self._put(written.set)
            written.wait(seconds)

    async def drain(self) -> None:
        """Wait until all is written, or lost."""
        loop, written = asyncio.get_running_loop(), asyncio.Event()

        def report() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(written.set)

        self._put(report)
        await written.wait()

    def _put(self, entry: tuple[TextIO, bytes] | Callable[[], object]) -> None:
        self._pending.put(entry)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="output", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            entry = self._pending.get()
            if not isinstance(entry, tuple):
                entry()
                continue
            stream, data = entry
            if stream is sys.stdout and self.lost:
                continue
            try:
                while data:
                    data = data[os.write(stream.fileno(), data) :]
            except OSError as error:
                if stream is sys.stdout:
                    self.lost = error
