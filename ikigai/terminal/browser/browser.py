"""Give a page the terminal's alternate screen and the keys: the history, or a list to pick from.

While the browser is open it has the terminal to itself; output of the conversation appears when it has been left.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import Bug, IkigaiError, Rejected
from ikigai.terminal.clipboard import copy_text
from ikigai.terminal.output.application import ESCAPE_AFTER, TerminalApp
from ikigai.terminal.pager import page_text
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

log = logging.getLogger(__name__)

ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
"""The alternate screen; no cursor, no wrapping, pastes marked."""
LEAVE_SCREEN = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"

Work = Callable[[], Coroutine[Any, Any, None]]


class BrowserPage(Protocol):
    """The page that a browser shows."""

    def frame(self, columns: int, rows: int) -> list[str]:
        """Return the rows of the screen."""
        ...

    def refresh(self, columns: int, rows: int) -> None:
        """Fit the page to the screen, and load what will be needed soon."""
        ...

    def press(self, press: KeyPress) -> None: ...
    def changed(self) -> None:
        """Take note that something may have been stored."""
        ...

    def loading_failed(self) -> None:
        """Take note that work ended with an error, which the user sees."""
        ...


class AlternateScreen:
    """The alternate screen of `tty`. It is `up` from `enter` to `leave`. A frame writes the rows that have changed, in
    one synchronized update.
    """

    def __init__(self, tty: Tty) -> None:
        self._tty = tty
        self._shown: Sequence[str] = ()  # rows on the screen
        self.up = False

    def enter(self) -> None:
        """Enter the screen, with keys one by one."""
        self._tty.raw()
        self.up, self._shown = True, ()
        self._tty.write(ENTER_SCREEN)

    def leave(self) -> None:
        """Restore the terminal, if the screen is up."""
        if self.up:
            self.up = False
            self._tty.write(LEAVE_SCREEN)
            self._tty.restore()

    def repaint(self) -> None:
        """Draw all rows with the next frame."""
        self._shown = ()

    def paint(self, frame: Sequence[str]) -> None:
        """Draw the rows of the frame that are not on the screen yet."""
        if not self.up:
            return
        out = [
            f"\x1b[{number + 1};1H\x1b[0m\x1b[K{row}"
            for number, row in enumerate(frame)
            if number >= len(self._shown) or self._shown[number] != row
        ]
        self._shown = frame
        if out:
            self._tty.write(BEGIN + "".join(out) + END)


class Browser:
    """One opening of the browser, the guest of the TerminalApp meanwhile. `message` stays until the next key.

    Keys with Alt mean nothing to it. `ahead` holds the keys after the one with which the user left: they belong to the
    input.
    """

    _page: BrowserPage

    def __init__(self, tty: Tty, theme: Theme, terminal_app: TerminalApp) -> None:
        self._tty, self.theme, self._terminal_app = tty, theme, terminal_app
        self._done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._screen = AlternateScreen(tty)
        self._pager: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._next: Work | None = None  # the work that follows the loading one
        self.message = ""
        self._flush: asyncio.TimerHandle | None = None
        self._alt = False  # Alt+key is on its way
        self.ahead: list[KeyPress] = []

    async def run(self, page: BrowserPage) -> str | None:
        """Show the page until it is left; return the value with which it was left."""
        self._page = page
        self._refresh()
        with self._taking_over():
            try:
                return await self._done
            finally:
                if self._pager:
                    self._pager.cancel()
                    await asyncio.gather(self._pager, return_exceptions=True)

    async def finish_loading(self) -> None:
        """Wait until the work of the page has ended."""
        if self._loading:
            await asyncio.gather(self._loading, return_exceptions=True)

    # ── the terminal ──

    @contextmanager
    def _taking_over(self) -> Iterator[None]:
        """Have the screen and the keys inside, and give the TerminalApp both again behind."""
        with self._terminal_app.away(takes_keys=True):
            self._terminal_app.frames.guest = self
            try:
                self.take_again()
                with self._terminal_app.keyboard.attach(self._read_keys):
                    self._flush_later()
                    yield
            finally:
                self._terminal_app.frames.guest = None
                self._cancel_flush()
                self.give_up()

    def take_again(self) -> None:
        """Enter the alternate screen, with keys one by one."""
        if not self._screen.up and self._pager is None:
            self._screen.enter()
            self._paint()

    def give_up(self) -> bool:
        """Restore the terminal; return False if another program has it."""
        self._screen.leave()
        return self._pager is None

    def resized(self) -> None:
        self._screen.repaint()
        self._refresh()

    def changed(self) -> None:
        self._page.changed()
        self._refresh()

    def _paint(self) -> None:
        if self._screen.up:
            columns, rows = self._tty.size()
            self._screen.paint(self._page.frame(columns, rows)[:rows])

    def _refresh(self) -> None:
        """Draw the current state, and load more where it will be needed soon."""
        if not self._done.done():
            self._page.refresh(*self._tty.size())
            self._paint()

    # ── keys ──

    def _read_keys(self) -> None:
        """Handle the keys that have come."""
        self._handle(self._terminal_app.keyboard.read_keys())
        if self._terminal_app.keyboard.closed:
            self.leave()
        self._flush_later()

    def _flush_later(self) -> None:
        """Take an Esc that nothing follows as this key; it may have come with the key that opened the browser."""
        self._cancel_flush()
        held = self._terminal_app.keyboard.take_held
        self._flush = asyncio.get_running_loop().call_later(ESCAPE_AFTER, lambda: self._handle(held()))

    def _cancel_flush(self) -> None:
        if self._flush:
            self._flush.cancel()

    def _handle(self, presses: Sequence[KeyPress]) -> None:
        """Handle keys that came together. What was typed after the one that opened the pager is dropped."""
        for number, press in enumerate(presses):
            if self._done.done():
                self.ahead += presses[number:]
                return
            if press.key == Keys.Escape:
                self._alt = True
            elif self._alt:
                self._alt = False
            elif not self._pager:
                self.message = ""
                self._page.press(press)
        if presses and not self._pager:
            self._refresh()

    # ── what pages do to the browser ──

    @property
    def is_loading(self) -> bool:
        return self._loading is not None

    def load(self, work: Work) -> None:
        """Start `work`, one at a time; of several that wait only the last is done."""
        if self._loading:
            self._next = work
        else:
            self._loading = asyncio.create_task(self._load(work), name="browser")

    async def _load(self, work: Work) -> None:
        """Run `work`. It is never cancelled: a caller that does not wait for an answer loses the connection."""
        try:
            await work()
        except Exception as error:
            if not isinstance(error, IkigaiError):
                log.exception("the page could not be read")
            self.message = str(error if isinstance(error, IkigaiError) else Bug())
            self._page.loading_failed()
        self._loading = None
        next_work, self._next = self._next, None
        if next_work and not self._done.done():
            self.load(next_work)
        self._refresh()

    def say(self, text: str) -> None:
        """Show `text` until the next key."""
        self.message = text

    def leave(self, value: str | None = None) -> None:
        if not self._done.done():
            self._done.set_result(value)

    def repaint(self) -> None:
        self._screen.repaint()

    def suspend(self) -> None:
        self._terminal_app.suspend()

    def copy(self, text: str) -> None:
        """Copy `text` to the terminal's clipboard."""
        self.load(lambda: self._copy(text))

    async def _copy(self, text: str) -> None:
        self.message = await copy_text(text, "the message", self._tty.write, os.environ)

    def page(self, text: str) -> None:
        """Show `text` in the user's pager."""
        if self._pager is None:
            self._pager = asyncio.create_task(self._show_in_pager(text), name="pager")

    async def _show_in_pager(self, text: str) -> None:
        self.give_up()
        try:
            with self._terminal_app.keyboard.detach():
                await page_text(text)
        except Rejected as refusal:
            self.message = str(refusal)
        finally:
            self._pager = None
            if not self._done.done():
                self.take_again()
                self._refresh()
