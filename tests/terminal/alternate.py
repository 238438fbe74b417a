"""This module adds the alternate screen to pyte's, which pyte does not know: what is drawn there goes away with it.

It also draws what follows a joiner, a variation selector or a vowel sign in the same write, where pyte stops.
"""

import copy
from itertools import groupby
from typing import Any

import pyte
import pyte.graphics
from pyte.screens import Char
from wcwidth import wcwidth

pyte.graphics.TEXT[2] = "+blink"  # pyte does not know of dim, and nothing here blinks


def is_dim(cell: Char) -> bool:
    return cell.blink


class Screen(pyte.HistoryScreen):
    """A screen; `elsewhere` says that the alternate screen is shown."""

    elsewhere = False

    def draw(self, data: str) -> None:
        if data.isascii():
            super().draw(data)
            return
        for wide, chars in groupby(data, key=lambda char: wcwidth(char) != 0):
            if wide:
                super().draw("".join(chars))
            elif self.cursor.x:
                row, x = self.buffer[self.cursor.y], self.cursor.x - 1
                x -= row[x].data == ""  # behind a wide character
                row[x] = row[x]._replace(data=row[x].data + "".join(chars))

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
            self.buffer.clear()
            self.buffer.update(rows)
            self.dirty.update(range(self.lines))
