"""The history browser: the whole history of an agent on the terminal's other screen, and what can be done to it there.

While it is open it has the terminal to itself; what goes on behind it is shown when it has been left.
"""

import asyncio
import logging
import os
from typing import Protocol

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import Bug, IkigaiError, Refused
from ikigai.terminal.browser import frame as browser_frame
from ikigai.terminal.browser import keys as browser_keys
from ikigai.terminal.browser.actions import Actions
from ikigai.terminal.browser.reader import Reader, Work
from ikigai.terminal.browser.source import Source
from ikigai.terminal.browser.view import View
from ikigai.terminal.clipboard import copy
from ikigai.terminal.output.application import ESCAPE_AFTER, Stage
from ikigai.terminal.pager import page
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

log = logging.getLogger(__name__)

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
"""The other screen; no cursor, no wrapping, pastes marked."""
LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
CHROME = 2
"""Rows above and below the history."""
LONGEST_QUERY = 200


class Asking(Protocol):
    """What is behind the browser: whether a question waits there for an answer."""

    @property
    def asked(self) -> bool: ...


class Browser:
    """One opening of the browser; the stage's guest meanwhile. `rewinding`: to choose where to go back to.

    `place`: the event to begin at, shown whole; 0 for the end.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        stage: Stage,
        behind: Asking,
        source: Source,
        rewinding: bool = False,
        place: int = 0,
    ) -> None:
        self._tty, self._theme, self._stage, self._behind, self.source = tty, theme, stage, behind, source
        self.reader = Reader(source)
        columns, rows = tty.size()
        self.view = View(theme, columns, rows - CHROME)
        self._actions = Actions(self)
        self._rewinding, self._place = rewinding, place
        self._done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._memory = source.memory
        self._shown: list[str] = []  # rows on the screen
        self._up = False  # the terminal is ours
        self._lending: asyncio.Task[None] | None = None  # to the pager
        self._loading: asyncio.Task[None] | None = None
        self._next: Work | None = None  # to be read as soon as nothing else is
        self._ways = {"before", "after"}  # in which more may be read by itself
        self._query: str | None = None  # being typed
        self._help: int | None = None  # the first row of it on the screen, while it is there
        self._said = ""  # until the next key
        self._flush: asyncio.TimerHandle | None = None
        self._alt = False  # Alt+key is on its way
        self.ahead: list[KeyPress] = []  # pressed behind the key that left: they are the input's

    async def run(self) -> str:
        with self._stage.away(takes_keys=True):
            self._stage.frames.guest = self
            try:
                self.take_again()
                with self._stage.keyboard.attach(self._keys):
                    try:
                        self.load(self._open)
                        self._paint()
                        return await self._done
                    finally:
                        if self._lending:
                            self._lending.cancel()
                            await asyncio.gather(self._lending, return_exceptions=True)
            finally:
                self._stage.frames.guest = None
                if self._flush:
                    self._flush.cancel()
                self.give_up()

    # ── the terminal ──

    def take_again(self) -> None:
        """The other screen, and keys one by one."""
        if not self._up and self._lending is None:
            self._tty.raw()
            self._up, self._shown = True, []
            self._tty.write(ENTER)
            self._paint()

    def give_up(self) -> bool:
        """Put the terminal back as it was before; False if somebody else has it."""
        if self._up:
            self._up = False
            self._tty.write(LEAVE)
            self._tty.restore()
        return self._lending is None

    def resized(self) -> None:
        self._shown = []
        self._refresh()

    def changed(self) -> None:
        if self.source.memory is not self._memory:  # something has been stored
            self._memory = self.source.memory
            self.reader.pages.last = False
            self._ways.add("after")
        self._refresh()

    def _paint(self) -> None:
        if not self._up:
            return
        columns, rows = self._tty.size()
        frame = self._frame(columns, rows)[:rows]
        out = [
            f"\x1b[{number + 1};1H\x1b[0m\x1b[K{row}"
            for number, row in enumerate(frame)
            if number >= len(self._shown) or self._shown[number] != row
        ]
        self._shown = frame
        if out:
            self._tty.write(BEGIN + "".join(out) + END)

    def _frame(self, columns: int, rows: int) -> list[str]:
        height = max(rows - CHROME, 1)
        if self._help is not None:
            wanted = browser_keys.help_rows(columns)
            self._help = max(0, min(self._help, len(wanted) - height))
            body = wanted[self._help : self._help + height]
            body += [""] * (height - len(body))
        else:
            body = self.view.frame()
            if not self.view.items and self.reader.pages.first and self.reader.pages.last:
                body[0] = " Nothing was said yet."
        head = browser_frame.head(self.source.agent, self.view.current, self.reader.agent, columns, self._theme)
        return [head, *body, self._foot(columns)]

    def _foot(self, columns: int) -> str:
        if self._query is not None:
            return browser_frame.query(self._query, columns, self._theme)
        state = ""
        if self._behind.asked:
            state = "a question waits: q"
        elif self._loading:
            state = "loading…"
        return browser_frame.foot(self._said, state, self._rewinding, columns, self._theme)

    def _refresh(self) -> None:
        """Show what is so now, and read on where that will be wanted."""
        if self._done.done():
            return
        columns, rows = self._tty.size()
        self.view.resize(columns, rows - CHROME)
        self.view.show(self.reader.items)
        self._read_on()
        self._paint()

    # ── reading ──

    async def _loaded(self, work: Work) -> None:
        """Never cancelled: who does not wait for an answer loses the connection."""
        try:
            await work()
        except IkigaiError as error:
            self._said = str(error)
            self._ways.clear()  # not by itself, but with the next key
        except Exception:
            log.exception("the history could not be shown")
            self._said = str(Bug())
            self._ways.clear()
        self._loading = None
        following, self._next = self._next, None
        if following and not self._done.done():
            self.load(following)
        self._refresh()

    async def _open(self) -> None:
        await self.reader.open()
        if self._place:
            await self.reader.to(self._place)
        self.view.show(self.reader.items)
        self.view.end()
        if self._place:
            self.view.open(self._place)
        if self._rewinding:
            self.view.turn(-1)

    def _read_on(self) -> None:
        pages = self.reader.pages
        if self._loading or not self.reader.opened:
            return
        if "before" in self._ways and self.view.near_start and not pages.first:
            self.load(lambda: self._more("before", "after"))
        elif "after" in self._ways and self.view.near_end and not pages.last:
            self.load(lambda: self._more("after", "before"))

    async def _more(self, way: str, other: str) -> None:
        ended, at_end = self.reader.pages.last, self.view.at_end
        began, last = self.reader.pages.first, self.view.current
        more = self.reader.more_before if way == "before" else self.reader.more_after
        await more(lambda: self.view.seen)
        pages = self.reader.pages
        if (way == "before" and ended and not pages.last) or (way == "after" and began and not pages.first):
            self._ways.discard(other)  # what was let go for this would be read again, and this let go for that
        if way == "after" and at_end and last is self.view.current:
            self.view.show(self.reader.items)
            self.view.end()

    # ── keys ──

    def _keys(self) -> None:
        keyboard = self._stage.keyboard
        self._pressed(keyboard.read_keys())
        if keyboard.closed:
            self.leave()
        if self._flush:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(ESCAPE_AFTER, lambda: self._pressed(keyboard.flush_keys()))

    def _pressed(self, presses: list[KeyPress]) -> None:
        for number, press in enumerate(presses):
            if self._done.done():
                self.ahead += presses[number:]
                return
            if self._lending:
                return
            if press.key == Keys.Escape:
                self._alt = True
            elif self._alt:
                self._alt = False  # Alt with anything means nothing here
            elif self._query is not None:
                self._typed(press)
            else:
                self._key(press.key)
        if presses:
            self._refresh()

    def _key(self, key: str) -> None:
        self._said = ""
        self._ways |= {"before", "after"}
        if not self.reader.opened and not self._loading:
            self.load(self._open)
        action = browser_keys.ACTIONS.get(key.value if isinstance(key, Keys) else key)
        if self._help is not None:
            way = browser_keys.SCROLLS.get(action or "")
            self._help = None if way is None else self._help + (way if abs(way) == 1 else way * self.view.height // 2)
            return
        if action:
            getattr(self._actions, action)()

    def _typed(self, press: KeyPress) -> None:
        """A key while a search is being typed."""
        assert self._query is not None
        key = press.key
        if key == Keys.BracketedPaste:
            self._query += " ".join(press.data.split())
        elif key == Keys.ControlM:
            query, self._query = self._query.strip(), None
            self._actions.seek(query)
        elif key in (Keys.ShiftEscape, Keys.ControlC, Keys.ControlG):
            self._query = None
        elif key == Keys.ControlH:
            self._query = self._query[:-1] if self._query else None
        elif key == Keys.ControlU:
            self._query = ""
        elif key == Keys.ControlW:
            self._query = self._query.rstrip().rpartition(" ")[0]
        elif not isinstance(key, Keys):
            self._query += key
        self._query = self._query[:LONGEST_QUERY] if self._query is not None else None

    # ── what actions do to the browser ──

    def load(self, work: Work) -> None:
        """Read, one thing at a time; of several that wait the last is done."""
        if self._loading:
            self._next = work
        else:
            self._loading = asyncio.create_task(self._loaded(work), name="history")

    def say(self, text: str) -> None:
        self._said = text

    def leave(self, line: str = "") -> None:
        if not self._done.done():
            self._done.set_result(line)

    def ask(self) -> None:
        self._query = ""

    def help(self) -> None:
        self._help = 0

    def repaint(self) -> None:
        self._shown = []

    def suspend(self) -> None:
        self._stage.suspend()

    def copy(self, text: str) -> None:
        self.load(lambda: self._copied(text))

    async def _copied(self, text: str) -> None:
        self._said = await copy(text, self._tty.write, os.environ)

    def page(self, text: str) -> None:
        if self._lending is None:
            self._lending = asyncio.create_task(self._paged(text), name="pager")

    async def _paged(self, text: str) -> None:
        self.give_up()
        try:
            with self._stage.keyboard.detach():
                await page(text)
        except Refused as refusal:
            self._said = str(refusal)
        finally:
            self._lending = None
            if not self._done.done():
                self.take_again()
                self._refresh()
