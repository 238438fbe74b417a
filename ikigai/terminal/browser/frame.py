"""Draw the rows above and below a page of the browser: its title, the typed text, and the keys."""

from collections.abc import Sequence
from datetime import datetime

from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.exclusion_reason import ExclusionReason
from ikigai.terminal.browser.items import BrowserItem
from ikigai.terminal.render.text_width import cell_width, cut, wrap
from ikigai.terminal.render.theme import Theme


def draw_head(text: str, width: int, theme: Theme) -> str:
    """Draw the top row."""
    text = cut(f" {clean_line(text)}", width)
    return theme.paint("selected", text + " " * (width - cell_width(text)))


def draw_typed(sign: str, typed: str, width: int, theme: Theme, hint: str = "") -> str:
    """Draw the text that is being typed behind `sign`: its end, if it is long; `hint` if nothing is typed."""
    shown, room = clean_line(typed), width - cell_width(sign) - 2
    while cell_width(shown) > max(room, 1):
        shown = shown[1:]
    hint = "" if typed else theme.paint("dim", cut(hint, max(room, 0)))
    return theme.paint("prompt", sign) + shown + theme.paint("selected", " ") + hint


def draw_foot(message: str, state: str, keys: Sequence[str], width: int, room: int, theme: Theme) -> list[str]:
    """Draw the last rows: `message` in at most `room` rows, else as many keys as fit; `state` at the right.

    With a state there is one row, which holds nothing else where it is narrow.
    """
    style, left, room = "warning" if message else "dim", clean_line(message), 1 if state else room
    width_left = width - bool(state) * (cell_width(state) + 3)
    if state and cell_width(state) + 12 > width:
        return [theme.paint(style, cut(f" {state}", width))]
    if not message:
        for key in keys:
            longer = f"{left} · {key}" if left else key
            if cell_width(longer) >= width_left:
                break
            left = longer
    rows = list(wrap(left, max(width_left - 1, 1))) if room > 1 else [cut(left, width_left - 1)]
    if len(rows) > room:
        rows[room - 1 :] = [cut(" ".join(rows[room - 1 :]), width_left - 1)]
    drawn = [theme.paint(style, f" {row}") for row in rows]
    if state:
        drawn[-1] += " " * (width_left - cell_width(rows[-1])) + theme.paint("warning", state)
    return drawn


def where_is(item: BrowserItem, agent: str) -> str:
    """Return the id of an item, its place, its time and its agent, in words."""
    return f"#{item.id} · {_where(item)} · {datetime.fromtimestamp(item.event.at):%Y-%m-%d %H:%M} · {agent}"


def _where(item: BrowserItem) -> str:
    """Return where the item is, in words: colors alone do not tell it."""
    if isinstance(item.shown, ContextRule):
        return "the context begins here"
    exclusion = item.exclusion
    if exclusion is None:
        return "in the context"
    match exclusion.reason:
        case ExclusionReason.CLEARED:
            return f"cleared by #{exclusion.by}"
        case ExclusionReason.REWOUND:
            return f"rewound by #{exclusion.by}"
        case ExclusionReason.FORGOTTEN:
            return f"forgotten by #{exclusion.by}"
        case ExclusionReason.SUMMARIZED:
            return f"covered by summary #{exclusion.by}"
        case ExclusionReason.OUT:
            return "out of the window"
        case ExclusionReason.UNDONE:
            return f"undone by #{exclusion.by}"
