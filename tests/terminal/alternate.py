"""Add the alternate screen to pyte's, which pyte does not know: anything drawn there goes away with it.

The screen also draws the characters after a joiner, a variation selector or a vowel sign in the same write, where pyte
stops. It reads the rows of the screen once for each change: tests look many times, and pyte takes 5 ms for each look.
It draws text of one cell a character at once, and has no pages: pyte asks about them at each event and attribute, which
is half of the time of a feed.
"""

import copy
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyte
import pyte.graphics
import pyte.modes
from pyte.screens import Char
from wcwidth import wcwidth

pyte.graphics.TEXT[2] = "+blink"  # pyte does not know of dim, and nothing here blinks


def is_dim(cell: Char) -> bool:
    return cell.blink


def row_text(row: Mapping[int, Char], columns: int) -> str:
    """Return the text of a row, padded to its columns. The cell behind a wide character belongs to it."""
    cells = [" "] * columns
    for x, cell in row.items():
        if x < columns:
            cells[x] = cell.data
    if not "".join(cells).isascii():
        for x in range(1, columns):
            if cells[x - 1] and wcwidth(cells[x - 1][0]) == 2:
                cells[x] = ""
    return "".join(cells)


@lru_cache(4096)
def _is_narrow(data: str) -> bool:
    return data.isprintable() and all(wcwidth(char) == 1 for char in data)


@lru_cache(4096)
def _cells(data: str, style: Char) -> tuple[Char, ...]:
    return tuple(style._replace(data=char) for char in data)


class Screen(pyte.HistoryScreen):
    """A screen; `elsewhere` says that the alternate screen is shown."""

    elsewhere = False
    __getattribute__ = object.__getattribute__  # no test turns pages, which pyte turns back at each event

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._rows: list[str] = []
        self._gone: dict[int, tuple[Mapping[int, Char], str]] = {}  # by identity: a row that is gone never changes
        super().__init__(*arguments, **options)

    @property
    def display(self) -> list[str]:
        """The rows on screen; those that did not change since the last look are not read again."""
        if len(self._rows) != self.lines:
            self._rows = [""] * self.lines
            self.dirty.update(range(self.lines))
        for y in self.dirty:
            if y < self.lines:
                self._rows[y] = row_text(self.buffer[y], self.columns)
        self.dirty.clear()
        return list(self._rows)

    def resize(self, *arguments: Any, **options: Any) -> None:
        self._gone.clear()
        super().resize(*arguments, **options)

    def scrolled(self) -> list[str]:
        """Return the rows that scrolled away, oldest first."""
        known, self._gone = self._gone, {}
        for row in self.history.top:
            self._gone[id(row)] = known.get(id(row)) or (row, row_text(row, self.columns))
        return [text for _, text in self._gone.values()]

    def draw(self, data: str) -> None:
        if _is_narrow(data):
            self._draw_narrow(data)
            return
        for wide, chars in groupby(data, key=lambda char: wcwidth(char) != 0):
            if wide:
                super().draw("".join(chars))
            elif self.cursor.x:
                row, x = self.buffer[self.cursor.y], self.cursor.x - 1
                x -= row[x].data == ""  # behind a wide character
                row[x] = row[x]._replace(data=row[x].data + "".join(chars))
                self.dirty.add(self.cursor.y)

    def _draw_narrow(self, data: str) -> None:
        cursor = self.cursor
        end = cursor.x + len(data)
        if self.charset or end > self.columns or pyte.modes.IRM in self.mode:
            super().draw(data)
            return
        self.buffer[cursor.y].update(zip(range(cursor.x, end), _cells(data, cursor.attrs), strict=True))
        self.dirty.add(cursor.y)
        cursor.x = end

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and not self.elsewhere:
            self.elsewhere = True
            self._own = copy.deepcopy(dict(self.buffer)), copy.copy(self.cursor)
            self.buffer.clear()
            self.dirty.update(range(self.lines))

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self.elsewhere:
            self.elsewhere = False
            rows, self.cursor = self._own
            self._show_cursor()
            self.buffer.clear()
            self.buffer.update(rows)
            self.dirty.update(range(self.lines))

    def restore_cursor(self) -> None:
        super().restore_cursor()
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Show the cursor unless it is hidden now, whatever it was when its place was saved."""
        self.cursor.hidden = pyte.modes.DECTCEM not in self.mode
