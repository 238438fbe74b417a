"""Time the drawing of the live area: not too often, at once for a waiting user, not during a resize."""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application import Application

from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.painter import Painter
from ikigai.terminal.tty import Tty

STREAMING_FRAME_SECONDS, CLOCK_FRAME_SECONDS = 0.07, 0.1
"""Seconds between two frames while text streams in, and while only the time changes."""
FRAME_DELAY_SECONDS = 0.003
"""Seconds that a change waits for its frame: a request that is about to be sent goes first, and takes a millisecond."""
ENTRY_DELAY_SECONDS = 0.008
"""Seconds that the empty input waits for its frame: the message before it is stored and sent by then."""
RESIZE_SETTLE_SECONDS, TMUX_RESIZE_SETTLE_SECONDS = 0.1, 0.3
"""Seconds without a change until the terminal's size is believed: tmux reports changes every 250 ms at most."""


class FullScreenGuest(Protocol):
    """The full-screen program that draws on the terminal while the screen is away."""

    def give_up(self) -> bool:
        """Restore the terminal; return False where the guest has lent it to another program."""
        ...

    def take_again(self) -> None: ...
    def resized(self) -> None: ...
    def changed(self) -> None:
        """Check for new events: the screen would draw a frame now."""
        ...


class Frames:
    """Frames of a Painter. `guest` gets notice of them while it has the terminal; `watch` is called with every one."""

    def __init__(self, tty: Tty, area: LiveArea, painter: Painter, app: Application[None]) -> None:
        self._tty, self._area, self._painter, self._app = tty, area, painter, app
        self._timer: asyncio.TimerHandle | None = None
        self._soonest = False  # the timer's frame is the earliest possible
        self._settling: asyncio.TimerHandle | None = None
        self._size = tty.size()
        self._drawn = 0.0
        self.guest: FullScreenGuest | None = None
        self.watch: Callable[[LiveArea], object] = lambda area: None
        app.before_render += lambda _: painter.holds.discard("entry")

    def print(self, text: str) -> None:
        """Put whole lines above the live area."""
        self._painter.print(text)
        self._area.apart = True
        self.soon()

    def soon(self, delay: float = FRAME_DELAY_SECONDS) -> None:
        """Draw a frame after `delay` seconds, and not too soon after the last one."""
        if self._soonest:  # it cannot be sooner
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time() + delay, self._drawn + STREAMING_FRAME_SECONDS)
        if self._timer is None or due < self._timer.when():
            if self._timer:
                self._timer.cancel()
            self._timer = loop.call_at(due, self._frame)
            self._soonest = due <= self._drawn + STREAMING_FRAME_SECONDS

    def at_once(self) -> None:
        """Draw a frame now: the user has been waiting for its content."""
        if self._timer:
            self._timer.cancel()
        self._frame()

    def _frame(self) -> None:
        self._timer, self._soonest = None, False
        if not self._app.is_running:
            return
        self._drawn = asyncio.get_running_loop().time()
        self._painter.refresh()
        self.watch(self._area)
        if self.guest:
            self.guest.changed()
        if self._area.animated:
            self.soon(CLOCK_FRAME_SECONDS)

    def invalidate(self) -> None:
        """Lay the input out anew after a change."""
        self._app.invalidate()

    def after_entry(self) -> None:
        """Lay the input out anew once the request for its text has had time to go first. Until then draw nothing."""
        self._painter.holds.add("entry")
        asyncio.get_running_loop().call_later(ENTRY_DELAY_SECONDS, self._app.invalidate)

    def redraw(self) -> None:
        """Draw the live area anew, whatever stands on the screen."""
        self._painter.erase()
        self._app.invalidate()

    def resizing(self) -> None:
        """Draw nothing until the size stays: rows drawn in between may be cut, wrapped or left behind."""
        size = self._tty.size()
        if self.guest:
            self.guest.resized()
        if self._settling and size == self._size:
            return
        self._size = size
        self._painter.holds.add("size")
        if self._settling:
            self._settling.cancel()
        settle = TMUX_RESIZE_SETTLE_SECONDS if "TMUX" in os.environ else RESIZE_SETTLE_SECONDS
        self._settling = asyncio.get_running_loop().call_later(settle, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self._painter.holds.discard("size")
        self._painter.settle()
        self._app.invalidate()
