"""Show a part of the history: a cursor on a row of an item, and as many rows around it as fit.

Items are drawn when they come near the screen, and only then.
"""

import re
from collections.abc import Sequence

from ikigai.core.search.lexer import fold
from ikigai.core.search.query import Term
from ikigai.core.views.exclusion_reason import ExclusionReason
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal.browser.items import BrowserItem, Key, draw_rows
from ikigai.terminal.render.theme import THOUGHT, Theme, strip_styles

EXCLUSION_SIGNS = {
    ExclusionReason.CLEARED: "c",
    ExclusionReason.REWOUND: "r",
    ExclusionReason.FORGOTTEN: "f",
    ExclusionReason.SUMMARIZED: "s",
    ExclusionReason.OUT: "o",
    ExclusionReason.UNDONE: "u",
}
"""The signs beside items that are not in the context, or were undone."""
GUTTER_COLUMNS = 3
"""Columns left of the text: where the cursor is, why the item is not in the context, a blank."""
MAX_KEPT_ITEMS = 2_000
"""Items whose rows are kept, at most."""

RowPosition = tuple[int, int]
"""The index of an item, and a row of it."""


class BrowserView:
    """The rows on the screen. `width` and `height` are the size of the rows that `frame` returns.

    Items are drawn GUTTER_COLUMNS columns narrower.
    """

    def __init__(self, theme: Theme, width: int, height: int) -> None:
        self._theme = theme
        self.width, self.height = width, height
        self.items: Sequence[BrowserItem] = ()
        self._cursor: RowPosition = (0, 0)
        self._top: RowPosition = (0, 0)
        self._unfolded: set[Key] = set()
        self._drawn: dict[Key, tuple[BrowserItem, list[str]]] = {}
        self._terms: tuple[Term, ...] = ()

    # ── what is shown ──

    @property
    def current(self) -> BrowserItem | None:
        """The item with the cursor."""
        return self.items[self._cursor[0]] if self.items else None

    @property
    def at_end(self) -> bool:
        """True if the cursor is in the last item and the rest of it is on the screen."""
        last = len(self.items) - 1
        if self._cursor[0] < last or last < 0:
            return last < 0
        return self._back((last, len(self._rows(last)) - 1), self.height - 1) <= self._top

    @property
    def seen(self) -> tuple[int, int]:
        """The ids of the first and of the last event on the screen; 0 for none."""
        if not self.items:
            return 0, 0
        place = self._top
        for _ in range(self.height - 1):
            place = self._step(place, 1) or place
        return self.items[self._top[0]].id, self.items[place[0]].id

    @property
    def near_start(self) -> bool:
        """True if events before the held items may be needed soon."""
        return self._top[0] < self._lead

    @property
    def near_end(self) -> bool:
        """True if events after the held items may be needed soon."""
        return max(self._cursor[0], self._top[0]) + self.height + self._lead > len(self.items)

    @property
    def _lead(self) -> int:
        """Items that should be held beyond those on the screen."""
        return max(20, self.height // 2)

    def show(self, items: Sequence[BrowserItem]) -> None:
        """Replace the items. The cursor and the screen stay where they are as far as that is possible."""
        if items is self.items:
            return
        cursor, top = self._key(self._cursor), self._key(self._top)
        self.items = items
        self._cursor, self._top = self._find(cursor, self._cursor[1]), self._find(top, self._top[1])
        self._settle()

    def resize(self, width: int, height: int) -> None:
        if (width, height) != (self.width, self.height):
            if width != self.width:
                self._drawn.clear()
            self.width, self.height = width, max(height, 1)
            self._cursor, self._top = self._within(self._cursor), self._within(self._top)
            self._settle()

    def search(self, terms: tuple[Term, ...]) -> None:
        """Highlight these terms where they stand."""
        self._terms = terms

    def frame(self) -> list[str]:
        """Return the rows on the screen, from the top."""
        rows: list[str] = []
        place: RowPosition | None = self._top if self.items else None
        while place is not None and len(rows) < self.height:
            rows.append(self._row(place))
            place = self._step(place, 1)
        return rows + [""] * (self.height - len(rows))

    def _row(self, place: RowPosition) -> str:
        index, row = place
        item, text = self.items[index], self._rows(index)[row]
        if not text:
            return ""
        mark = "▌" if place == self._cursor else "│" if index == self._cursor[0] else " "
        sign = EXCLUSION_SIGNS[item.exclusion.reason] if item.exclusion else " "
        gutter = self._theme.paint("prompt" if mark == "▌" else "dim", mark) + self._theme.paint("dim", sign)
        return f"{gutter} {self._marked(text)}".rstrip()

    def _marked(self, text: str) -> str:
        """Return a row with the search terms highlighted; its other styles give direction to that."""
        if not self._terms:
            return text
        plain = strip_styles(text)
        spans = _term_spans(self._terms, plain)
        if not spans:
            return text
        row, at = "", 0
        for first, last in spans:
            if first >= at:
                row += plain[at:first] + self._theme.paint("found", plain[first:last])
                at = last
        return row + plain[at:]

    # ── moves ──

    def move(self, count: int) -> None:
        """Move the cursor by `count` rows, down or up; it skips blank ones."""
        direction = 1 if count > 0 else -1
        for _ in range(abs(count)):
            place = self._step(self._cursor, direction)
            while place is not None and not self._rows(place[0])[place[1]]:
                place = self._step(place, direction)
            if place is None:
                break
            self._cursor = place
        self._settle()

    def page(self, screens: float) -> None:
        """Move by so many screens, down or up. The cursor stays where it is on the screen as far as there are rows."""
        if not self.items:
            return
        direction = 1 if screens > 0 else -1
        for _ in range(max(1, int(abs(screens) * (self.height - 1)))):
            self._top = self._step(self._top, direction) or self._top
            self._cursor = self._step(self._cursor, direction) or self._cursor
        self._settle()

    def start(self) -> None:
        self._cursor = self._top = (0, 0)

    def end(self) -> None:
        """Go to the last item: to its first row if the whole of it fits on the screen."""
        if self.items:
            last = len(self.items) - 1
            self._cursor = (last, 0)
            self._top = self._back((last, len(self._rows(last)) - 1), self.height - 1)
            self._cursor = max(self._cursor, self._top)
            self._settle()

    def turn(self, direction: int) -> bool:
        """Go to the next message of the user in this direction; return False if the items have none."""
        index = self._cursor[0] + direction
        if direction < 0 and self._cursor[1]:
            index = self._cursor[0]
        while 0 <= index < len(self.items):
            if self.items[index].opens_turn:
                self._cursor = (index, 0)
                self._settle()
                return True
            index += direction
        return False

    def select(self, id: int, searched: bool = False) -> None:
        """Put the cursor on this event, in the middle of the screen; with `searched` on the first row with a term.

        An item that hides the term is unfolded.
        """
        index, _ = self._find((id, 0), 0)
        if not self.items:
            return
        row = 0
        if searched:
            row = self._first(index)
            if row is None and self.items[index].id == id:
                self._unfolded.add(self.items[index].key)
                self._drawn.pop(self.items[index].key, None)
                row = self._first(index)
        self._cursor = (index, row or 0)
        self._top = self._back(self._cursor, self.height // 2)
        self._settle()

    def open(self, id: int) -> None:
        """Show all of this event from the top of the screen; of a reply from its last thought."""
        if not self.items:
            return
        index, _ = self._find((id, 0), 0)
        self._unfolded.add(self.items[index].key)
        self._drawn.pop(self.items[index].key, None)
        rows = self._rows(index)
        thoughts = [n for n, row in enumerate(rows) if strip_styles(row).startswith(THOUGHT)]
        shown = self.items[index].shown
        reply = isinstance(shown, TranscriptBlock) and shown.speaker is Speaker.ASSISTANT
        self._cursor = self._top = (index, thoughts[-1] if reply and thoughts else 0)
        self._settle()

    def _first(self, index: int) -> int | None:
        """Return the first row of the item that holds a term."""
        rows = self._rows(index)
        return next((n for n, row in enumerate(rows) if _term_spans(self._terms, strip_styles(row))), None)

    def unfold(self) -> bool:
        """Unfold the item with the cursor, or fold it again; return True if that changes its rows."""
        if (item := self.current) is None:
            return False
        before = self._rows(self._cursor[0])
        self._unfolded ^= {item.key}
        self._drawn.pop(item.key, None)
        self._cursor, self._top = self._within(self._cursor), self._within(self._top)
        self._settle()
        return self._rows(self._cursor[0]) != before

    # ── inside ──

    def _rows(self, index: int) -> list[str]:
        """Return the rows of an item, with the blank one that separates it from the next."""
        item = self.items[index]
        known = self._drawn.get(item.key)
        if known is None or known[0] != item:
            if len(self._drawn) >= MAX_KEPT_ITEMS:
                self._drawn.clear()
            width = max(self.width - GUTTER_COLUMNS, 1)
            drawn = draw_rows(item, width, self._theme, item.key in self._unfolded)
            known = self._drawn[item.key] = item, drawn
        rows = known[1]
        together = index + 1 < len(self.items) and item.group and item.group == self.items[index + 1].group
        return rows if together or index + 1 == len(self.items) else [*rows, ""]

    def _step(self, place: RowPosition, direction: int) -> RowPosition | None:
        index, row = place
        if direction > 0:
            if row + 1 < len(self._rows(index)):
                return index, row + 1
            return (index + 1, 0) if index + 1 < len(self.items) else None
        if row > 0:
            return index, row - 1
        return (index - 1, len(self._rows(index - 1)) - 1) if index > 0 else None

    def _back(self, place: RowPosition, count: int) -> RowPosition:
        for _ in range(count):
            if (before := self._step(place, -1)) is None:
                break
            place = before
        return place

    def _settle(self) -> None:
        """Move the screen so that the cursor is on it and no row below the last one is wasted."""
        if not self.items:
            self._cursor = self._top = (0, 0)
            return
        rows, (index, row) = self._rows(self._cursor[0]), self._cursor
        if not rows[row]:  # the cursor would not be seen
            inked = [n for n, text in enumerate(rows) if text] or [row]
            self._cursor = (index, next((n for n in inked if n > row), inked[-1]))
        if self._cursor < self._top:
            self._top = self._cursor
        lowest = self._back(self._cursor, self.height - 1)
        self._top = max(self._top, lowest)
        place, below = self._top, 1
        while below < self.height and (after := self._step(place, 1)) is not None:
            place, below = after, below + 1
        if below < self.height:
            self._top = self._back(self._top, self.height - below)

    def _key(self, place: RowPosition) -> Key:
        return self.items[place[0]].key if self.items else (0, 0)

    def _find(self, key: Key, row: int) -> RowPosition:
        """Return the position of the item with that key, or of the next item there is."""
        for index, item in enumerate(self.items):
            if item.key == key:
                return self._within((index, row))
            if item.id > key[0]:
                return index, 0
        return max(len(self.items) - 1, 0), 0

    def _within(self, place: RowPosition) -> RowPosition:
        if not self.items:
            return 0, 0
        return place[0], min(place[1], len(self._rows(place[0])) - 1)


def _term_spans(terms: Sequence[Term], row: str) -> list[tuple[int, int]]:
    """Return the spans of the terms in a row; none where folding would move its letters."""
    folded = fold(row)
    if len(folded) != len(row):
        return []
    matches = (match for term in terms for match in re.finditer(term.pattern, folded))
    return sorted(match.span() for match in matches if match.end() > match.start())
