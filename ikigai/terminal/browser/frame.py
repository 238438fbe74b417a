"""The rows above and below the history in the browser: where the cursor is, in words, and what can be done."""

from collections.abc import Callable
from datetime import datetime

from ikigai.core.sanitize import clean_line
from ikigai.core.views.exclusion import Why
from ikigai.core.views.transcript import Rule
from ikigai.terminal.browser.items import Item
from ikigai.terminal.render.text_width import columns, cut
from ikigai.terminal.render.theme import Theme

HINT = "? keys · / search · q leaves"
REWINDING = "r goes back to this turn · [ the one before · q leaves"


def head(agent: str, item: Item | None, name: Callable[[str], str], width: int, theme: Theme) -> str:
    """The agent whose history it is; of what is under the cursor its id, when and by whom it was, and where it is."""
    parts = [f"History of {agent}"]
    if item is not None:
        parts = [f"#{item.id}", _where(item), f"{datetime.fromtimestamp(item.event.at):%Y-%m-%d %H:%M}"]
        parts.append(name(item.event.agent) or agent)
    return theme.paint("selected", _filled(cut(clean_line(" " + " · ".join(parts)), width), width))


def _where(item: Item) -> str:
    """Where the item is, in words: no colour says it alone."""
    if isinstance(item.shown, Rule):
        return "the context begins here"
    outside = item.outside
    if outside is None:
        return "in the context"
    match outside.why:
        case Why.CLEARED:
            return f"cleared away by #{outside.by}"
        case Why.REWOUND:
            return f"rewound past by #{outside.by}"
        case Why.FORGOTTEN:
            return f"forgotten by #{outside.by}"
        case Why.SUMMARISED:
            return f"told in the summary #{outside.by}"
        case Why.OUT:
            return "slid out of the window"
        case Why.UNDONE:
            return f"undone by #{outside.by}"


def foot(said: str, state: str, rewinding: bool, width: int, theme: Theme) -> str:
    """What was said last, else the keys to know; at the right what is going on."""
    left = clean_line(said) or (REWINDING if rewinding else HINT)
    style = "warning" if said else "dim"
    if state and columns(state) + 12 <= width:
        left = cut(left, width - columns(state) - 4)
        gap = " " * (width - columns(left) - columns(state) - 2)
        return theme.paint(style, f" {left}") + gap + theme.paint("warning", state)
    return theme.paint(style, cut(f" {state or left}", width))


def query(text: str, width: int, theme: Theme) -> str:
    """The search being typed: its end, if it is long."""
    shown = clean_line(text)
    while columns(shown) > max(width - 3, 1):
        shown = shown[1:]
    return theme.paint("prompt", "/") + shown + theme.paint("selected", " ")


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
