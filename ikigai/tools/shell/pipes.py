"""Read the pipes of a command at a limited rate, and pass on live output in pieces."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Callable

from ikigai.tools.base import OnOutput

READ_BYTES = 65_536
"""Bytes read at once: the capacity of a pipe on Linux."""
READ_INTERVAL = 0.002
"""Seconds between two reads: an endless writer is read at 20 MB a second, with less than a tenth of a core."""
MAX_FINAL_CHUNKS = 64
"""Chunks that are still read when a pipe is closed; more come only from a process that goes on writing."""
LIVE_INTERVAL = 0.05
"""Seconds between two pieces of live output."""
LIVE_PIECE_BYTES = 8192
"""Maximum bytes of a piece; earlier ones are dropped, as they would scroll off the screen at once."""


class PipeReader:
    """Reader that passes data of `fd` to `take`; `ended` is done at its end. The caller closes `fd` after `close`."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd, self._take = fd, take
        self._pause: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._watch()

    def close(self) -> None:
        """Read the data that is there, and stop."""
        if self._pause:
            self._pause.cancel()
        self._loop.remove_reader(self._fd)
        for _ in range(MAX_FINAL_CHUNKS):
            if self.ended.done() or not self._read():
                break
        if not self.ended.done():
            self.ended.set_result(None)

    def _watch(self) -> None:
        self._loop.add_reader(self._fd, self._ready)

    def _ready(self) -> None:
        self._loop.remove_reader(self._fd)
        self._read()
        if not self.ended.done():
            self._pause = self._loop.call_later(READ_INTERVAL, self._watch)

    def _read(self) -> bool:
        """Read once; return True if there was data."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            self.ended.set_result(None)
        return bool(data)


class LiveOutput:
    """Output for the screen: at most 20 pieces of text a second, each of the last `LIVE_PIECE_BYTES` bytes."""

    def __init__(self, on_output: OnOutput | None) -> None:
        self._on_output, self._pending = on_output, bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._timer: asyncio.TimerHandle | None = None
        self._shown_at = -LIVE_INTERVAL

    def add(self, data: bytes) -> None:
        if not self._on_output:
            return
        self._pending += data[-LIVE_PIECE_BYTES:]
        if len(self._pending) > LIVE_PIECE_BYTES:
            del self._pending[:-LIVE_PIECE_BYTES]
            self._decoder.reset()
        if not self._timer:
            wait = max(0.0, self._shown_at + LIVE_INTERVAL - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._piece)

    def close(self) -> None:
        """Pass on the rest."""
        if self._timer:
            self._timer.cancel()
            self._piece()

    def _piece(self) -> None:
        self._timer, self._shown_at = None, time.monotonic()
        text = self._decoder.decode(bytes(self._pending))
        self._pending.clear()
        if self._on_output and text:
            self._on_output(text)
