"""Show the whole history of an agent in the browser, with actions on its turns."""

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.terminal.browsable_history import HistoryPages
from ikigai.terminal.browser import keys
from ikigai.terminal.browser.browser import Browser
from ikigai.terminal.browser.frame import draw_foot, draw_head, draw_typed, where_is
from ikigai.terminal.browser.history_actions import HistoryActions
from ikigai.terminal.input.input_actions import InputActions
from ikigai.terminal.keys.codes import ESC_KEY

CHROME_ROWS = 2
"""Rows above and below the history."""
BROWSER_KEYS = "? keys", "/ search", "q close"
REWIND_KEYS = "e edit and resend", "r go back to after this turn", "[ previous message", "q close"


class HistoryPage:
    """The history in a browser. `rewinding`: to choose the turn to go back to.

    `place`: the event to begin at, shown whole; 0 for the end.
    """

    def __init__(
        self, browser: Browser, prompt: InputActions, source: HistoryPages, rewinding: bool = False, place: int = 0
    ) -> None:
        self._browser, self._prompt, self._source, self._place = browser, prompt, source, place
        self._actions = HistoryActions(browser, source, rewinding)
        self._view, self._reader = self._actions.view, self._actions.reader
        self._memory = source.memory
        self._directions = {"before", "after"}  # directions in which more is read without a key

    # ── the screen ──

    def changed(self) -> None:
        if self._source.memory is not self._memory:  # something has been stored
            self._memory = self._source.memory
            self._reader.pages.last = False
            self._directions.add("after")

    def frame(self, columns: int, rows: int) -> list[str]:
        height, actions = max(rows - CHROME_ROWS, 1), self._actions
        if actions.help_row is not None:
            table = keys.draw_help(columns)
            actions.help_row = max(0, min(actions.help_row, len(table) - height))
            body = table[actions.help_row : actions.help_row + height]
            body += [""] * (height - len(body))
        else:
            body = self._view.frame()
            if not self._view.items and self._reader.pages.first and self._reader.pages.last:
                body[0] = " No messages yet."
        return [self._head(columns), *body, *self._foot(columns)]

    def _head(self, columns: int) -> str:
        agent, item, theme = self._source.agent, self._view.current, self._browser.theme
        place = where_is(item, self._reader.agent(item.event.agent) or agent) if item else f"History of {agent}"
        return draw_head(place, columns, theme)

    def _foot(self, columns: int) -> list[str]:
        theme = self._browser.theme
        if self._actions.query is not None:
            return [draw_typed("/", self._actions.query, columns, theme)]
        state = "a question waits: q" if self._prompt.asked else "loading…" * self._browser.is_loading
        shown = REWIND_KEYS if self._actions.rewinding else BROWSER_KEYS
        return draw_foot(self._browser.message, state, shown, columns, 1, theme)

    # ── reading ──

    def refresh(self, columns: int, rows: int) -> None:
        self._view.resize(columns, rows - CHROME_ROWS)
        self._view.show(self._reader.items)
        self._load_ahead()

    def loading_failed(self) -> None:
        self._directions.clear()  # not by itself, but with the next key

    async def _open(self) -> None:
        await self._reader.open()
        if self._place:
            await self._reader.go_to(self._place)
        self._view.show(self._reader.items)
        self._view.end()
        if self._place:
            self._view.open(self._place)
        if self._actions.rewinding:
            self._view.turn(-1)

    def _load_ahead(self) -> None:
        pages = self._reader.pages
        if self._browser.is_loading:
            return
        if not self._reader.opened:
            if self._directions:
                self._browser.load(self._open)
        elif "before" in self._directions and self._view.near_start and not pages.first:
            self._browser.load(lambda: self._more("before", "after"))
        elif "after" in self._directions and self._view.near_end and not pages.last:
            self._browser.load(lambda: self._more("after", "before"))

    async def _more(self, direction: str, opposite: str) -> None:
        ended, at_end = self._reader.pages.last, self._view.at_end
        began, last = self._reader.pages.first, self._view.current
        more = self._reader.more_before if direction == "before" else self._reader.more_after
        await more(lambda: self._view.seen)
        pages = self._reader.pages
        if (direction == "before" and ended and not pages.last) or (direction == "after" and began and not pages.first):
            self._directions.discard(opposite)  # else the dropped pages would be read again, and these dropped for them
        if direction == "after" and at_end and last is self._view.current:
            self._view.show(self._reader.items)
            self._view.end()

    # ── keys ──

    def press(self, press: KeyPress) -> None:
        if self._actions.query is not None:
            self._type_query(self._actions.query, press)
            return
        self._directions |= {"before", "after"}
        if not self._reader.opened:
            self._load_ahead()
        action, help_row = keys.action_of(press), self._actions.help_row
        move = keys.MOVES.get(action)
        if help_row is not None:
            self._actions.help_row = help_row + (move[0] or int(move[1] * self._view.height)) if move else None
        elif move:
            self._view.move(move[0]) if move[0] else self._view.page(move[1])
        elif action in keys.BROWSER_ACTIONS:
            getattr(self._browser, action)()
        elif action:
            getattr(self._actions, action)()

    def _type_query(self, query: str, press: KeyPress) -> None:
        """Handle a key while the user types a search."""
        if press.key == Keys.ControlM:
            self._actions.query = None
            self._actions.seek(query.strip())
        elif press.key in (ESC_KEY, Keys.ControlC, Keys.ControlG) or (press.key == Keys.ControlH and not query):
            self._actions.query = None
        elif (text := keys.edit_typed(query, press)) is not None:
            self._actions.query = text
