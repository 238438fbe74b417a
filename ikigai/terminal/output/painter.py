"""Draw the live area: rows below the scrollback that are redrawn in place, one write per frame.

    scrollback   printed once, above; it belongs to the terminal from then on
    live area    rows above the input, the input itself as prompt_toolkit lays it out, rows below it

Only rows that changed are written. The area has just the rows it needs: none are reserved, and the terminal is never
asked where its cursor is. When the terminal has become narrower it may have rewrapped the rows that stand there. The
next frame then erases as many rows as they take now, or copies of them would stay for ever.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle
from prompt_toolkit.utils import get_cwidth

from ikigai.terminal.render.theme import Theme, strip_styles
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.output.live_area import LiveArea

BEGIN_FRAME, END_FRAME = "\x1b[?2026h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?2026l"
"""The sequences around a frame: terminals that can show it at once, none shows the cursor moving, no row is wrapped."""
ERASE_BELOW = "\r\x1b[K\x1b7\x1b[B\x1b[J\x1b8"
"""Erases this row and all below it, in two steps: from the top row, tmux would keep a copy of the screen first."""
OWN_CURSOR = "\x1b[0 q"
"""Gives the cursor the shape that the terminal's user chose."""
PASTES_MARKED, PASTES_BARE = "\x1b[?2004h", "\x1b[?2004l"


class Painter(Renderer):
    """prompt_toolkit's renderer for an area that shares the screen with a scrollback.

    While `holds` is not empty nothing is written. `resized` is called when the terminal's size has changed; it leads to
    `settle` when the new size can be relied on. `reflows` says that the terminal rewraps its rows. `cursor` returns the
    sequence for the cursor's shape, "" for the one it has.
    """

    def __init__(
        self, tty: Tty, theme: Theme, surroundings: "LiveArea", resized: Callable[[], None], reflows: bool = True
    ) -> None:
        self.holds: set[str] = set()
        self._tty, self._theme, self._surroundings = tty, theme, surroundings
        self._resized, self._reflows = resized, reflows
        self.cursor: Callable[[], str] = str
        self._pending: list[str] = []
        self._input: list[str] = []
        self._cursor = (0, 0)  # column and row in the input
        self._styles: dict[str, str] = {}
        self._settled = tty.size()
        self._forget()
        super().__init__(DummyStyle(), DummyOutput())

    def print(self, text: str) -> None:
        """Put whole lines, each with its line break, above the area with the next frame."""
        self._pending.append(text)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Lay out the input and draw a frame."""
        columns, rows = self._tty.size()
        height = min(layout.container.preferred_height(columns, rows).preferred, rows)
        screen = Screen()
        layout.container.write_to_screen(
            screen, MouseHandlers(), WritePosition(0, 0, columns, height), "", erase_bg=False, z_index=None
        )
        layout.visible_windows = screen.visible_windows
        cursor = screen.get_cursor_position(app.layout.current_window)
        self._cursor = cursor.x, cursor.y
        self._input = [self._row(screen, y, columns) for y in range(height)]
        self.refresh()

    def refresh(self) -> None:
        """Draw a frame with the input as it was laid out last."""
        size = columns, rows = self._tty.size()
        if size != self._settled:
            self._resized()
        if self.holds or not self._input:
            return
        above, below = self._surroundings.around(len(self._input), columns, rows)
        x, y = self._cursor
        self._draw([*above, *self._input, *below][:rows], min(x, columns - 1), min(len(above) + y, rows - 1), columns)

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        """Forget the drawn area: the next frame begins where the cursor is."""
        self._forget()

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the area and print the pending lines in its place."""
        if "away" not in self.holds:
            lifted = self._lift(self._tty.size()[0])
            self._tty.write(
                BEGIN_FRAME + lifted + self._print() + END_FRAME + PASTES_BARE + OWN_CURSOR * bool(self._shape)
            )
        self._forget()

    def settle(self) -> None:
        """Believe the terminal's size as it is now, and draw the area anew with the next frame."""
        self._settled = self._tty.size()
        self._stale = True

    def clear(self) -> None:
        """Draw the area anew; the scrollback is the terminal's."""
        self.erase()

    def request_absolute_cursor_position(self) -> None:
        """Do nothing: the cursor's place is never asked for."""

    def _forget(self) -> None:
        self._shown: list[str] = []
        self._columns = 0  # of the terminal when they were drawn
        self._stale = False  # they may not be what stands there
        self._x = self._y = 0  # of the cursor in the area
        self._shape = ""  # of the cursor

    def _draw(self, rows: list[str], x: int, y: int, columns: int) -> None:
        out: list[str] = []
        if not self._shown:
            out.append(PASTES_MARKED)
        if self._pending or self._stale:
            out += [self._lift(columns), self._print()]
            self._shown, self._stale = [], False
        for number, row in enumerate(rows):
            if number >= len(self._shown) or self._shown[number] != row:
                out.append(f"{self._to(number)}\r\x1b[K{row}")
        if len(rows) < len(self._shown):
            out.append(f"{self._to(len(rows))}\r\x1b[J")
        self._shown, self._columns = rows, columns
        if (shape := self.cursor()) != self._shape:
            out.append(shape)
            self._shape = shape
        if out or (x, y) != (self._x, self._y):
            out.append(f"{self._to(y)}\r" + (f"\x1b[{x}C" if x else ""))
            self._tty.write(BEGIN_FRAME + "".join(out) + END_FRAME)
            self._x = x

    def _print(self) -> str:
        text = "".join(self._pending)
        self._pending.clear()
        return "\x1b[?7h" + text.replace("\n", "\r\n") + "\x1b[?7l" if text else ""

    def _lift(self, columns: int) -> str:
        """Return the sequence that goes to the area's first row, however rows wrap now, and erases from there."""
        up = self._y
        if self._shown and self._reflows and columns < self._columns:
            to_cursor = strip_styles(self._shown[self._y])
            reached = 0
            for index, char in enumerate(to_cursor):
                reached += get_cwidth(char)
                if reached > self._x:
                    to_cursor = to_cursor[: index + 1]
                    break
            up = sum(_height(row, columns) for row in (*self._shown[: self._y], to_cursor)) - 1
        self._y = 0
        return (f"\x1b[{up}A" if up else "") + ERASE_BELOW

    def _to(self, y: int) -> str:
        """Return the sequence that moves to a row of the area; below its last row the terminal makes room."""
        down = min(y, max(len(self._shown) - 1, self._y)) - self._y
        added = max(y - self._y - down, 0)
        self._y = y
        return (f"\x1b[{down}B" if down > 0 else f"\x1b[{-down}A" if down < 0 else "") + "\r\n" * added

    def _row(self, screen: Screen, y: int, columns: int) -> str:
        """Return one row of prompt_toolkit's raster, without the blanks at its end."""
        cells = screen.data_buffer[y]
        inked = (x for x, cell in cells.items() if x < columns and (cell.char != " " or self._style(cell.style)))
        last = max(inked, default=-1)
        pieces: list[tuple[str, list[str]]] = []
        x = 0
        while x <= last:
            style = self._style(cells[x].style)
            if not pieces or pieces[-1][0] != style:
                pieces.append((style, []))
            pieces[-1][1].append(cells[x].char)
            x += cells[x].width or 1
        return "".join(self._theme.paint(style, "".join(chars)) for style, chars in pieces)

    def _style(self, classes: str) -> str:
        """Return the last of prompt_toolkit's classes that the theme knows."""
        if classes not in self._styles:
            names = reversed(classes.replace("class:", "").split())
            self._styles[classes] = next((name for name in names if name in self._theme), "")
        return self._styles[classes]


def _height(row: str, columns: int) -> int:
    """Return how many rows a drawn row takes when it is wrapped at `columns`."""
    rows, used = 1, 0
    for char in strip_styles(row):
        cells = get_cwidth(char)
        if used + cells > columns:
            rows, used = rows + 1, 0
        used += cells
    return rows
