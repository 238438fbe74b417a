"""This module lets the user pick a row of a list: typing filters it, and more of it is loaded as it scrolls."""

import asyncio
import logging
from collections.abc import Callable

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import Bug, IkigaiError
from ikigai.terminal.alternate_screen import AlternateScreen
from ikigai.terminal.guest_keys import GuestKeys, edit_typed
from ikigai.terminal.keys.codes import ESC_KEY
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.picker import picker_frame
from ikigai.terminal.picker.source import PickerRow, PickerSource
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

log = logging.getLogger(__name__)

MAX_QUERY_CHARACTERS = 200
ROWS_AHEAD = 20
"""Rows that are held below the screen."""


class Picker:
    """One opening of a picker, the guest of the TerminalApp meanwhile."""

    def __init__(self, tty: Tty, theme: Theme, terminal_app: TerminalApp, source: PickerSource) -> None:
        self._tty, self._theme, self._source = tty, theme, source
        self._screen = AlternateScreen(tty)
        self._done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._rows: list[PickerRow] = []
        self._complete = False  # there are no more rows
        self._wanted = self._read = ("", False)  # the typed text and Tab: as wanted, and as read
        self._fresh = False  # the rows are those of the wanted filter
        self._picks = False  # Enter was pressed before they were read
        self._cursor = self._top = 0
        self._message = ""  # until the next key
        self._loading: asyncio.Task[None] | None = None
        self.keys = GuestKeys(terminal_app, self)

    async def run(self) -> str | None:
        """Return the value of the picked row, or None if the user left."""
        with self.keys.taking_over():
            self._refresh()
            value = await self._done
            if self._loading:  # it is never cancelled: that would cost the connection
                await asyncio.gather(self._loading, return_exceptions=True)
            return value

    # ── the terminal ──

    def take_again(self) -> None:
        if not self._screen.up:
            self._screen.enter()
            self._paint()

    def give_up(self) -> bool:
        self._screen.leave()
        return True

    def resized(self) -> None:
        self._screen.repaint()
        self._refresh()

    def changed(self) -> None:
        """Nothing of the conversation is shown here."""

    def _paint(self) -> None:
        columns, rows = self._tty.size()
        state = self._message or ("loading…" if self._loading else "")
        body = picker_frame.body_height(rows)
        room = max(body // 2, 1) if self._rows else body + 1  # an empty list leaves its rows to a refusal
        foot = picker_frame.draw_foot(self._source, state, columns, room, self._theme, failed=bool(self._message))
        body -= len(foot) - 1
        each = picker_frame.rows_each(self._rows, body)
        self._top = picker_frame.scroll(self._top, self._cursor, max(body // each, 1))
        shown = self._rows[self._top : self._top + max(body // each, 1)]
        drawn = [
            line
            for number, row in enumerate(shown, self._top)
            for line in picker_frame.draw_row(row, number == self._cursor, columns, each, self._theme)
        ]
        if not self._rows and self._complete:
            drawn = [" Nothing matches." if self._wanted[0] else " There is nothing to choose."]
        drawn += [""] * (body - len(drawn))
        head = picker_frame.draw_head(self._source.title, columns, self._theme)
        query = picker_frame.draw_query(self._wanted[0], columns, self._theme)
        self._screen.paint([head, query, *drawn[:body], *foot][:rows])

    # ── reading ──

    def _refresh(self) -> None:
        """Draw the current state, and load what it needs."""
        if self._done.done():
            return
        _, rows = self._tty.size()
        lacks = not self._complete and self._cursor + rows + ROWS_AHEAD > len(self._rows)
        if self._loading is None and (lacks or self._wanted != self._read):
            self._loading = asyncio.create_task(self._load(), name="picker")
        self._paint()

    async def _load(self) -> None:
        """Read the next rows, or the first ones of another filter."""
        fresh, self._read = self._wanted != self._read, self._wanted
        try:
            found, self._complete = await self._source.page(*self._read, [] if fresh else self._rows)
        except IkigaiError as error:
            found, self._complete, self._message = (), True, str(error)
        except Exception:
            log.exception("the list could not be read")
            found, self._complete, self._message = (), True, str(Bug())
        if fresh:
            self._rows, self._cursor, self._top = [], 0, 0
        self._rows += found
        self._loading, self._fresh = None, True
        if self._picks and self._wanted == self._read:
            self._choose()
        self._refresh()

    # ── keys ──

    @property
    def has_left(self) -> bool:
        return self._done.done()

    def press(self, press: KeyPress) -> None:
        self._message, self._picks = "", False
        self._press(press)
        self._fresh = self._fresh and self._wanted == self._read

    def pressed(self) -> None:
        self._refresh()

    def quit(self) -> None:
        self._leave(None)

    def _press(self, press: KeyPress) -> None:
        key, (typed, everything) = press.key, self._wanted
        name = key.value if isinstance(key, Keys) else key
        if move := MOVES.get(name):
            page = max(picker_frame.body_height(self._tty.size()[1]) - 1, 1)
            self._cursor = max(0, min(move(self._cursor, page), len(self._rows) - 1))
        elif key == Keys.ControlM:
            self._choose()
        elif key in (ESC_KEY, Keys.ControlC, Keys.ControlG):
            self._leave(None)
        elif key == Keys.ControlI and self._source.more_key:
            self._wanted = typed, not everything
        elif key == Keys.ControlL:
            self._screen.repaint()
        elif (text := edit_typed(typed, press)) is not None:
            self._wanted = text[:MAX_QUERY_CHARACTERS], everything

    def _choose(self) -> None:
        """Pick the row with the cursor: at once, or when the rows of the typed text have been read."""
        reads_first = self._loading is not None and not (self._rows and self._fresh)
        self._picks = self._wanted != self._read or reads_first
        if self._picks:
            return
        if self._rows:
            self._leave(self._rows[self._cursor].value)
        elif self._wanted[0].strip():
            try:
                self._leave(self._source.typed_value(self._wanted[0].strip()))
            except IkigaiError as refusal:
                self._message = str(refusal)

    def _leave(self, value: str | None) -> None:
        if not self._done.done():
            self._done.set_result(value)


MOVES: dict[str, Callable[[int, int], int]] = {
    "up": lambda at, page: at - 1,
    "c-p": lambda at, page: at - 1,
    "down": lambda at, page: at + 1,
    "c-n": lambda at, page: at + 1,
    "pageup": lambda at, page: at - page,
    "pagedown": lambda at, page: at + page,
    "home": lambda at, page: 0,
    "end": lambda at, page: 1 << 60,
}
"""The row that a key leads to, from the row of the cursor and the rows of a page."""
