"""When the live area is drawn: not too often, at once where somebody waits, not while the terminal's size changes."""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application import Application

from ikigai.terminal.output.live_area import Area
from ikigai.terminal.output.painter import Painter
from ikigai.terminal.tty import Tty

FRAME, STEP = 0.07, 0.1
"""Seconds between two frames while text streams in, and while only time goes by."""
SETTLE = 0.3 if "TMUX" in os.environ else 0.1
"""Seconds without a further change until the terminal's size is believed: tmux tells of one every 250 ms at most."""


class Guest(Protocol):
    """Who draws on the terminal itself while the screen is away."""

    def give_up(self) -> bool:
        """Put the terminal back as it was; False where the guest has lent it to another program."""
        ...

    def take_again(self) -> None: ...
    def resized(self) -> None: ...
    def changed(self) -> None:
        """There may be something new: the screen would draw a frame now."""
        ...


class Frames:
    """Frames of a Painter. `guest` is told of them while it has the terminal; `watch` is called with every one."""

    def __init__(self, tty: Tty, area: Area, painter: Painter, app: Application[None]) -> None:
        self._tty, self._area, self._painter, self._app = tty, area, painter, app
        self._timer: asyncio.TimerHandle | None = None
        self._soonest = False  # the timer's frame comes as soon as one may
        self._settling: asyncio.TimerHandle | None = None
        self._size = tty.size()
        self._drawn = 0.0
        self.guest: Guest | None = None
        self.watch: Callable[[Area], object] = lambda area: None

    def print(self, text: str) -> None:
        """Put whole lines above the live area."""
        self._painter.print(text)
        self._area.apart = True
        self.soon()

    def soon(self, delay: float = 0.0) -> None:
        """Draw a frame after `delay` seconds, and not too soon after the last one."""
        if self._soonest:  # it cannot be sooner
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time() + delay, self._drawn + FRAME)
        if self._timer is None or due < self._timer.when():
            if self._timer:
                self._timer.cancel()
            self._timer = loop.call_at(due, self._frame)
            self._soonest = due <= self._drawn + FRAME

    def at_once(self) -> None:
        """Draw a frame now: there is something that the user has been waiting for."""
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
        if self._area.busy:
            self.soon(STEP)

    def invalidate(self) -> None:
        """The input has changed: lay it out anew."""
        self._app.invalidate()

    def redraw(self) -> None:
        """Draw the live area anew, whatever stands on the screen."""
        self._painter.erase()
        self._app.invalidate()

    def resizing(self) -> None:
        """Draw nothing until the size stays as it is: what is drawn in between may be cut, wrapped or left behind."""
        size = self._tty.size()
        if self.guest:
            self.guest.resized()
        if self._settling and size == self._size:
            return
        self._size = size
        self._painter.holds.add("size")
        if self._settling:
            self._settling.cancel()
        self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self._painter.holds.discard("size")
        self._painter.settle()
        self._app.invalidate()
