"""Let the user pick a row of a list: typing filters it, and more of it is loaded as it scrolls."""

from collections.abc import Sequence

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import IkigaiError
from ikigai.core.text.sanitize import clean_line
from ikigai.terminal.browser import keys
from ikigai.terminal.browser.browser import Browser
from ikigai.terminal.browser.frame import draw_foot, draw_head, draw_typed
from ikigai.terminal.browser.picker_source import PickerRow, PickerSource
from ikigai.terminal.render.text_width import cell_width, cut
from ikigai.terminal.render.theme import Theme

CHROME_ROWS = 3
"""Rows beside the list: the title, the typed text, the keys."""
MIN_TWO_LINE_ROWS = 8
"""Rows of the list from which each entry has a second one for its words."""
ROWS_AHEAD = 20
"""Rows that are held below the screen."""

Filter = tuple[str, bool]
"""The typed text, and True if Tab shows all."""


class PickerPage:
    """A list in a browser, which is left with the value of the picked row."""

    def __init__(self, browser: Browser, source: PickerSource) -> None:
        self._browser, self._source = browser, source
        self._rows: list[PickerRow] = []
        self._complete = False  # there are no more rows
        self._wanted: Filter = ("", False)
        self._read = self._wanted  # the filter of the newest reading
        self._held: Filter | None = None  # the filter of the rows
        self._reads = False
        self._picks = False  # Enter was pressed before the rows were read
        self._cursor = self._top = 0
        self._count = 1  # entries on the screen

    # ── the screen ──

    def changed(self) -> None:
        """Nothing of the conversation is shown here."""

    def frame(self, columns: int, rows: int) -> list[str]:
        message, theme = self._browser.message, self._browser.theme
        state = "loading…" * self._browser.is_loading
        body = max(rows - CHROME_ROWS, 1)
        room = max(body // 2, 1) if self._rows else body + 1  # an empty list leaves its rows to a refusal
        tab = (f"Tab {self._source.more_key}",) if self._source.more_key else ()
        shown = f"Enter {self._source.verb}", "Esc leaves", *tab, "↑↓ PgUp PgDn move", "Ctrl+U clears"
        foot = draw_foot(message, state, shown, columns, room, theme)
        head = draw_head(self._source.title, columns, theme)
        typed = draw_typed(" › ", self._wanted[0], columns, theme, " type to filter")
        return [head, typed, *self._body(columns, body - len(foot) + 1), *foot]

    def _body(self, columns: int, height: int) -> list[str]:
        """Draw the entries around the cursor in so many rows."""
        each = 2 if height >= MIN_TWO_LINE_ROWS and any(row.words for row in self._rows) else 1
        self._count = max(height // each, 1)
        self._top = max(min(self._top, self._cursor), self._cursor - self._count + 1, 0)
        drawn = [
            line
            for number, row in enumerate(self._rows[self._top : self._top + self._count], self._top)
            for line in draw_entry(row, number == self._cursor, columns, each, self._browser.theme)
        ]
        if not self._rows and self._complete:
            drawn = [cut(" Nothing matches." if self._wanted[0] else " There is nothing to choose.", columns)]
        return [*drawn, *[""] * (height - len(drawn))][:height]

    # ── reading ──

    def refresh(self, columns: int, rows: int) -> None:
        lacks = not self._complete and self._cursor + rows + ROWS_AHEAD > len(self._rows)
        if not self._reads and (lacks or self._wanted != self._held):
            self._reads, self._read = True, self._wanted
            self._browser.load(self._load)

    async def _load(self) -> None:
        """Read the next rows, or the first ones of another filter."""
        known = self._rows if self._read == self._held else []
        self._hold(*await self._source.page(*self._read, known))

    def loading_failed(self) -> None:
        self._hold((), True)

    def _hold(self, rows: Sequence[PickerRow], complete: bool) -> None:
        if self._read != self._held:
            self._rows, self._cursor, self._top = [], 0, 0
        self._rows += rows
        self._reads, self._held, self._complete = False, self._read, complete
        if self._picks:
            self._choose()

    # ── keys ──

    def press(self, press: KeyPress) -> None:
        self._picks, (typed, everything), action = False, self._wanted, keys.action_of(press)
        if (text := keys.edit_typed(typed, press)) is not None:
            self._wanted = text, everything
        elif press.key == Keys.ControlI and self._source.more_key:
            self._wanted = typed, not everything
        elif move := keys.MOVES.get(action):
            rows, screens = move
            page = max(1, int(abs(screens) * (self._count - 1)))
            self._go(self._cursor + (rows or (page if screens > 0 else -page)))
        elif action in ("home", "end"):
            self._go(0 if action == "home" else len(self._rows))
        elif action == "open":
            self._choose()
        elif action in keys.BROWSER_ACTIONS:
            getattr(self._browser, action)()

    def _go(self, number: int) -> None:
        self._cursor = max(0, min(number, len(self._rows) - 1))

    def _choose(self) -> None:
        """Pick the row with the cursor: at once, or when the rows of the typed text have been read."""
        self._picks = self._wanted != self._held or (self._reads and not self._rows)
        if self._picks:
            return
        if self._rows:
            self._browser.leave(self._rows[self._cursor].value)
        elif typed := self._wanted[0].strip():
            try:
                self._browser.leave(self._source.typed_value(typed))
            except IkigaiError as refusal:
                self._browser.say(str(refusal))


def draw_entry(entry: PickerRow, chosen: bool, width: int, rows: int, theme: Theme) -> list[str]:
    """Draw an entry in so many rows: its name with the facts that fit, and its words."""
    mark = theme.paint("prompt", "▌ ") if chosen else "  "
    room = max(width - 2, 1)
    facts = [clean_line(fact) for fact in entry.facts if fact]
    name = cut(clean_line(entry.name), room)
    left, shown = room - cell_width(name) - 2, list[str]()
    for fact in facts:
        if cell_width(" · ".join((*shown, fact))) <= left:
            shown.append(fact)
    painted = theme.paint("selected", name) if chosen else name
    lines = [f"{mark}{painted}" + (f"  {theme.paint('dim', ' · '.join(shown))}" if shown else "")]
    if rows > 1:
        words = cut(" ".join(clean_line(entry.words).split()), max(room - 2, 1))
        lines.append(f"{mark}  {theme.paint('dim', words)}" if words else mark.rstrip())
    return lines
