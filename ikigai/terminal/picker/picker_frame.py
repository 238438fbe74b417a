"""This module draws a picker: its title, the typed text, the rows, and the keys."""

from collections.abc import Sequence

from ikigai.core.sanitize import clean_line
from ikigai.terminal.picker.source import PickerRow, PickerSource
from ikigai.terminal.render.text_width import cell_width, cut, wrap
from ikigai.terminal.render.theme import Theme

CHROME_ROWS = 3
"""Rows beside the list: the title, the typed text, the keys."""
MIN_TWO_LINE_ROWS = 8
"""Rows of the list from which each entry has a second one for its words."""


def body_height(rows: int) -> int:
    """Return the rows of the list on a screen of so many rows."""
    return max(rows - CHROME_ROWS, 1)


def rows_each(entries: Sequence[PickerRow], body: int) -> int:
    """Return the rows that each entry takes."""
    return 2 if body >= MIN_TWO_LINE_ROWS and any(entry.words for entry in entries) else 1


def scroll(top: int, cursor: int, count: int) -> int:
    """Return the first entry on a screen of `count` entries, so that the cursor is on it."""
    return max(min(top, cursor), cursor - count + 1, 0)


def draw_head(title: str, width: int, theme: Theme) -> str:
    text = cut(f" {clean_line(title)}", width)
    return theme.paint("selected", text + " " * (width - cell_width(text)))


def draw_query(typed: str, width: int, theme: Theme) -> str:
    """Draw the typed text: its end, if it is long."""
    shown = clean_line(typed)
    while cell_width(shown) > max(width - 5, 1):
        shown = shown[1:]
    hint = "" if typed else theme.paint("dim", cut(" type to filter", max(width - 5, 0)))
    return theme.paint("prompt", " › ") + shown + theme.paint("selected", " ") + hint


def draw_row(entry: PickerRow, chosen: bool, width: int, rows: int, theme: Theme) -> list[str]:
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


def draw_foot(source: PickerSource, state: str, width: int, room: int, theme: Theme, failed: bool) -> list[str]:
    """Draw the last rows: `state` in at most `room` rows, which `failed` makes a warning, else as many keys as fit."""
    if state:
        lines = list(wrap(clean_line(state), max(width - 1, 1)))
        if len(lines) > room:
            lines[room - 1 :] = [cut(" ".join(lines[room - 1 :]), width - 1)]
        return [theme.paint("warning" if failed else "dim", f" {line}") for line in lines]
    tab = (f"Tab {source.more_key}",) if source.more_key else ()
    keys, shown = (f"Enter {source.verb}", "Esc leaves", *tab, "↑↓ PgUp PgDn move", "Ctrl+U clears"), ""
    for key in keys:
        longer = f"{shown} · {key}" if shown else f" {key}"
        if cell_width(longer) > width:
            break
        shown = longer
    return [theme.paint("dim", shown)]
