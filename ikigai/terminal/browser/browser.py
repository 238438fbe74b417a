"""This module shows the whole history of an agent on the terminal's alternate screen, with actions on its turns.

While the browser is open it has the terminal to itself; output of the conversation appears when it has been left.
"""

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import Bug, IkigaiError, Rejected
from ikigai.terminal.alternate_screen import AlternateScreen
from ikigai.terminal.browsable_history import HistoryPages
from ikigai.terminal.browser import keys
from ikigai.terminal.browser.browser_actions import BrowserActions
from ikigai.terminal.browser.frame import draw_foot, draw_head, draw_query
from ikigai.terminal.browser.reader import HistoryReader, Work
from ikigai.terminal.browser.view import BrowserView
from ikigai.terminal.clipboard import copy_text
from ikigai.terminal.guest_keys import GuestKeys, edit_typed
from ikigai.terminal.keys.codes import ESC_KEY
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.pager import page_text
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.input.input_actions import InputActions

log = logging.getLogger(__name__)

CHROME_ROWS = 2
"""Rows above and below the history."""
MAX_QUERY_CHARACTERS = 200


class Browser:
    """One opening of the browser, the guest of the TerminalApp meanwhile. `rewinding`: to choose the turn to go back
    to.

    `place`: the event to begin at, shown whole; 0 for the end.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        terminal_app: TerminalApp,
        prompt: "InputActions",
        source: HistoryPages,
        rewinding: bool = False,
        place: int = 0,
    ) -> None:
        self._tty, self._theme, self._terminal_app, self._prompt, self.source = tty, theme, terminal_app, prompt, source
        self.reader = HistoryReader(source)
        columns, rows = tty.size()
        self.view = BrowserView(theme, columns, rows - CHROME_ROWS)
        self._actions = BrowserActions(self)
        self.rewinding, self._place = rewinding, place
        self._done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._memory = source.memory
        self._screen = AlternateScreen(tty)
        self._pager: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._next: Work | None = None  # the work that follows the loading one
        self._directions = {"before", "after"}  # directions in which more is read without a key
        self._query: str | None = None  # being typed
        self._help: int | None = None  # the first row of it on the screen, while it is there
        self._message = ""  # until the next key
        self.keys = GuestKeys(terminal_app, self)

    async def run(self) -> str:
        with self.keys.taking_over():
            try:
                self.load(self._open)
                self._paint()
                return await self._done
            finally:
                if self._pager:
                    self._pager.cancel()
                    await asyncio.gather(self._pager, return_exceptions=True)

    # ── the terminal ──

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
        if self.source.memory is not self._memory:  # something has been stored
            self._memory = self.source.memory
            self.reader.pages.last = False
            self._directions.add("after")
        self._refresh()

    def _paint(self) -> None:
        if self._screen.up:
            columns, rows = self._tty.size()
            self._screen.paint(self._frame(columns, rows)[:rows])

    def _frame(self, columns: int, rows: int) -> list[str]:
        height = max(rows - CHROME_ROWS, 1)
        if self._help is not None:
            table = keys.draw_help(columns)
            self._help = max(0, min(self._help, len(table) - height))
            body = table[self._help : self._help + height]
            body += [""] * (height - len(body))
        else:
            body = self.view.frame()
            if not self.view.items and self.reader.pages.first and self.reader.pages.last:
                body[0] = " No messages yet."
        head = draw_head(self.source.agent, self.view.current, self.reader.agent, columns, self._theme)
        return [head, *body, self._foot(columns)]

    def _foot(self, columns: int) -> str:
        if self._query is not None:
            return draw_query(self._query, columns, self._theme)
        state = ""
        if self._prompt.asked:
            state = "a question waits: q"
        elif self._loading:
            state = "loading…"
        return draw_foot(self._message, state, self.rewinding, columns, self._theme)

    def _refresh(self) -> None:
        """Draw the current state, and load more where it will be needed soon."""
        if self._done.done():
            return
        columns, rows = self._tty.size()
        self.view.resize(columns, rows - CHROME_ROWS)
        self.view.show(self.reader.items)
        self._load_ahead()
        self._paint()

    # ── reading ──

    @property
    def is_opening(self) -> bool:
        """True while the first rows are being read."""
        return self._loading is not None and not self.reader.opened

    async def _load(self, work: Work) -> None:
        """Run `work`. It is never cancelled: a caller that does not wait for an answer loses the connection."""
        try:
            await work()
        except IkigaiError as error:
            self._message = str(error)
            self._directions.clear()  # not by itself, but with the next key
        except Exception:
            log.exception("the history could not be shown")
            self._message = str(Bug())
            self._directions.clear()
        self._loading = None
        next_work, self._next = self._next, None
        if next_work and not self._done.done():
            self.load(next_work)
        self._refresh()

    async def _open(self) -> None:
        await self.reader.open()
        if self._place:
            await self.reader.to(self._place)
        self.view.show(self.reader.items)
        self.view.end()
        if self._place:
            self.view.open(self._place)
        if self.rewinding:
            self.view.turn(-1)

    def _load_ahead(self) -> None:
        pages = self.reader.pages
        if self._loading or not self.reader.opened:
            return
        if "before" in self._directions and self.view.near_start and not pages.first:
            self.load(lambda: self._more("before", "after"))
        elif "after" in self._directions and self.view.near_end and not pages.last:
            self.load(lambda: self._more("after", "before"))

    async def _more(self, direction: str, opposite: str) -> None:
        ended, at_end = self.reader.pages.last, self.view.at_end
        began, last = self.reader.pages.first, self.view.current
        more = self.reader.more_before if direction == "before" else self.reader.more_after
        await more(lambda: self.view.seen)
        pages = self.reader.pages
        if (direction == "before" and ended and not pages.last) or (direction == "after" and began and not pages.first):
            self._directions.discard(opposite)  # else the dropped pages would be read again, and these dropped for them
        if direction == "after" and at_end and last is self.view.current:
            self.view.show(self.reader.items)
            self.view.end()

    # ── keys ──

    @property
    def has_left(self) -> bool:
        return self._done.done()

    def press(self, press: KeyPress) -> None:
        """Handle a key. What was typed after the one that opened the pager is dropped."""
        if self._pager:
            return
        if self._query is not None:
            self._type_query(press)
        else:
            self._key(press.key)

    def pressed(self) -> None:
        if not self._pager:
            self._refresh()

    def quit(self) -> None:
        self.leave()

    def _key(self, key: str) -> None:
        self._message = ""
        self._directions |= {"before", "after"}
        if not self.reader.opened and not self._loading:
            self.load(self._open)
        action = keys.ACTION_OF_KEY.get(key.value if isinstance(key, Keys) else key)
        if self._help is not None:
            way = keys.HELP_SCROLLS.get(action or "")
            self._help = None if way is None else self._help + (way if abs(way) == 1 else way * self.view.height // 2)
            return
        if action:
            getattr(self._actions, action)()

    def _type_query(self, press: KeyPress) -> None:
        """Handle a key while the user types a search."""
        assert self._query is not None
        key = press.key
        if key == Keys.ControlM:
            query, self._query = self._query.strip(), None
            self._actions.seek(query)
        elif key in (ESC_KEY, Keys.ControlC, Keys.ControlG) or (key == Keys.ControlH and not self._query):
            self._query = None
        elif (text := edit_typed(self._query, press)) is not None:
            self._query = text[:MAX_QUERY_CHARACTERS]

    # ── what actions do to the browser ──

    def load(self, work: Work) -> None:
        """Start `work`, one at a time; of several that wait only the last is done."""
        if self._loading:
            self._next = work
        else:
            self._loading = asyncio.create_task(self._load(work), name="history")

    def say(self, text: str) -> None:
        self._message = text

    def leave(self, line: str = "") -> None:
        if not self._done.done():
            self._done.set_result(line)

    def ask(self) -> None:
        self._query = ""

    def help(self) -> None:
        self._help = 0

    def repaint(self) -> None:
        self._screen.repaint()

    def suspend(self) -> None:
        self._terminal_app.suspend()

    def copy(self, text: str) -> None:
        self.load(lambda: self._copy(text))

    async def _copy(self, text: str) -> None:
        self._message = await copy_text(text, "the message", self._tty.write, os.environ)

    def page(self, text: str) -> None:
        if self._pager is None:
            self._pager = asyncio.create_task(self._page(text), name="pager")

    async def _page(self, text: str) -> None:
        self.give_up()
        try:
            with self._terminal_app.keyboard.detach():
                await page_text(text)
        except Rejected as refusal:
            self._message = str(refusal)
        finally:
            self._pager = None
            if not self._done.done():
                self.take_again()
                self._refresh()
