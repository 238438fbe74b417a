"""Paint on terminals without escape sequences, and for screen readers: one row for the input, and no other.

Text typed at its end is written alone; anything else repaints the row behind a carriage return.
"""

from ikigai.terminal.output.painter import PASTES_BARE, PASTES_MARKED, Painter
from ikigai.terminal.render.text_width import cell_width, cut


class DumbPainter(Painter):
    """A painter of the scrollback and of the input's row that holds the cursor; it shows nothing else."""

    def erase(self, leave_alternate_screen: bool = True) -> None:
        if "away" not in self.holds:
            self._tty.write(self._wipe() + self._print() + PASTES_BARE * (not self._tty.dumb))
        self._forget()

    def _draw(self, rows: list[str], x: int, y: int, columns: int) -> None:
        column, line = self._cursor
        row = cut(self._input[line], columns - 1)
        shown = self._shown[0] if self._shown else ""
        printed = self._print()
        if not self._shown:
            printed += PASTES_MARKED * (not self._tty.dumb)
        if printed or self._stale or not row.startswith(shown) or column != cell_width(row):
            back = f"\r{row[:column]}" if column != cell_width(row) else ""
            self._tty.write(self._wipe() + printed + row + back)
        else:
            self._tty.write(row[len(shown) :])
        self._shown, self._stale = [row], False

    def _wipe(self) -> str:
        if not self._tty.dumb:
            return "\r\x1b[K"
        return "\r" + " " * (cell_width(self._shown[0]) if self._shown else 2) + "\r"

    def _print(self) -> str:
        text = "".join(self._pending)
        self._pending.clear()
        return text.replace("\n", "\r\n")
