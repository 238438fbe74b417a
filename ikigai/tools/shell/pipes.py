"""The ends of a command's pipes in the event loop: a paced reader, and live output in pieces."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Callable

from ikigai.tools.base import Progress

CHUNK = 65_536
"""Bytes read at once: what a pipe of Linux holds."""
PAUSE = 0.002
"""Seconds between two reads: an endless writer is read at some 20 MB a second, which takes less than a tenth of a core,
and waits the rest of the time."""
LAST = 64
"""Chunks that are still taken when a pipe is closed; more come only from somebody who goes on writing."""
INTERVAL = 0.05
"""Seconds between two pieces of live output."""
PIECE = 8192
"""Bytes of a piece; of more only the last are shown, they would be gone from the screen at once."""


class Reader:
    """Hands on what comes through `fd`; `ended` is done at its end. Who made it closes `fd` after `close`."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd, self._take = fd, take
        self._pause: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._watch()

    def close(self) -> None:
        """Take what is there, and read no more."""
        if self._pause:
            self._pause.cancel()
        self._loop.remove_reader(self._fd)
        for _ in range(LAST):
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
            self._pause = self._loop.call_later(PAUSE, self._watch)

    def _read(self) -> bool:
        """Whether anything was there."""
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            self.ended.set_result(None)
        return bool(data)


class Live:
    """Output for the screen: pieces of text, 20 a second at most, each at most `PIECE` bytes of what came last."""

    def __init__(self, show: Progress | None) -> None:
        self._show, self._waiting = show, bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._timer: asyncio.TimerHandle | None = None
        self._shown_at = -INTERVAL

    def add(self, data: bytes) -> None:
        if not self._show:
            return
        self._waiting += data[-PIECE:]
        if len(self._waiting) > PIECE:
            del self._waiting[:-PIECE]
            self._decoder.reset()
        if not self._timer:
            wait = max(0.0, self._shown_at + INTERVAL - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._piece)

    def close(self) -> None:
        """Show what is left."""
        if self._timer:
            self._timer.cancel()
            self._piece()

    def _piece(self) -> None:
        self._timer, self._shown_at = None, time.monotonic()
        text = self._decoder.decode(bytes(self._waiting))
        self._waiting.clear()
        if self._show and text:
            self._show(text)
