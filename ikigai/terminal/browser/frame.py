"""This module draws the rows above and below the history in the browser: the place of the cursor, and the keys."""

from collections.abc import Callable
from datetime import datetime

from ikigai.core.sanitize import clean_line
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.exclusion_reason import ExclusionReason
from ikigai.terminal.browser.items import BrowserItem
from ikigai.terminal.render.text_width import cell_width, cut
from ikigai.terminal.render.theme import Theme

BROWSER_HINT = "? keys · / search · q close"
REWIND_HINT = "e edit and resend · r go back to after this turn · [ previous message · q close"


def draw_head(agent: str, item: BrowserItem | None, name: Callable[[str], str], width: int, theme: Theme) -> str:
    """Draw the top row: the agent, and of the item under the cursor its id, its place, its time and its agent."""
    parts = [f"History of {agent}"]
    if item is not None:
        parts = [f"#{item.id}", _where(item), f"{datetime.fromtimestamp(item.event.at):%Y-%m-%d %H:%M}"]
        parts.append(name(item.event.agent) or agent)
    return theme.paint("selected", _filled(cut(clean_line(" " + " · ".join(parts)), width), width))


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


def draw_foot(message: str, state: str, rewinding: bool, width: int, theme: Theme) -> str:
    """Draw the last row: `message`, else the main keys; `state` at the right."""
    left = clean_line(message) or (REWIND_HINT if rewinding else BROWSER_HINT)
    style = "warning" if message else "dim"
    if state and cell_width(state) + 12 <= width:
        left = cut(left, width - cell_width(state) - 4)
        gap = " " * (width - cell_width(left) - cell_width(state) - 2)
        return theme.paint(style, f" {left}") + gap + theme.paint("warning", state)
    return theme.paint(style, cut(f" {state or left}", width))


def draw_query(text: str, width: int, theme: Theme) -> str:
    """Draw the search that is being typed: its end, if it is long."""
    shown = clean_line(text)
    while cell_width(shown) > max(width - 3, 1):
        shown = shown[1:]
    return theme.paint("prompt", "/") + shown + theme.paint("selected", " ")


def _filled(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))
