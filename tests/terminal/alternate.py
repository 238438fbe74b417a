"""pyte's screen with the terminal's other one, which pyte does not know: what is drawn there goes away with it."""

import copy
from typing import Any

import pyte


class Screen(pyte.HistoryScreen):
    """`elsewhere` says that the other screen is shown."""

    elsewhere = False

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
