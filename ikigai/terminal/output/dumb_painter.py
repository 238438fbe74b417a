"""The painter for terminals without escape sequences, and for readers of screens: one row for the input, and no other.

What is typed at its end is all that is written; anything else repaints the row behind a carriage return.
"""

from ikigai.terminal.output.painter import PASTES_BARE, PASTES_MARKED, Painter
from ikigai.terminal.render.text_width import columns as width
from ikigai.terminal.render.text_width import cut


class DumbPainter(Painter):
    """Prints what goes to the scrollback, and the row of the input that holds the cursor; nothing else is shown."""

    def erase(self, leave_alternate_screen: bool = True) -> None:
        if "away" not in self.holds:
            self._tty.write(self._wiped() + self._printed() + PASTES_BARE * (not self._tty.dumb))
        self._forget()

    def _draw(self, rows: list[str], x: int, y: int, columns: int) -> None:
        column, line = self._cursor
        row = cut(self._input[line], columns - 1)
        shown = self._shown[0] if self._shown else ""
        printed = self._printed()
        if not self._shown:
            printed += PASTES_MARKED * (not self._tty.dumb)
        if printed or self._stale or not row.startswith(shown) or column != width(row):
            back = f"\r{row[:column]}" if column != width(row) else ""
            self._tty.write(self._wiped() + printed + row + back)
        else:
            self._tty.write(row[len(shown) :])
        self._shown, self._stale = [row], False

    def _wiped(self) -> str:
        if not self._tty.dumb:
            return "\r\x1b[K"
        return "\r" + " " * (width(self._shown[0]) if self._shown else 2) + "\r"

    def _printed(self) -> str:
        text = "".join(self._pending)
        self._pending.clear()
        return text.replace("\n", "\r\n")
