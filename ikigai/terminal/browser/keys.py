"""The keys of the history browser: one table for what they do and for the help on them."""

from typing import NamedTuple

from prompt_toolkit.keys import Keys

from ikigai.terminal.keyboard import ESC, NEWLINE
from ikigai.terminal.render.text_width import columns, cut


class Bound(NamedTuple):
    """`action` is a method of the browser's, without the underscore; `shown` is how the help names the keys."""

    action: str
    keys: tuple[str, ...]
    shown: str
    help: str


BOUND = (
    Bound("down", ("down", "j", "c-n"), "↓ j", "a row down"),
    Bound("up", ("up", "k", "c-p"), "↑ k", "a row up"),
    Bound("page_down", ("pagedown", " ", "c-f"), "PgDn Space", "a screen down"),
    Bound("page_up", ("pageup", "b", "c-b"), "PgUp b", "a screen up"),
    Bound("half_down", ("c-d",), "Ctrl+D", "half a screen down"),
    Bound("half_up", ("c-u",), "Ctrl+U", "half a screen up"),
    Bound("home", ("home", "g"), "Home g", "where the history begins"),
    Bound("end", ("end", "G"), "End G", "where it ends"),
    Bound("turn_back", ("[",), "[", "the message of yours before"),
    Bound("turn_on", ("]",), "]", "the next one"),
    Bound("search", ("/",), "/", "find words, from here back"),
    Bound("older", ("n",), "n", "the next hit, further back"),
    Bound("newer", ("N",), "N", "the next hit, later"),
    Bound("unfold", ("enter", NEWLINE.value, "c-o"), "Enter", "all of a result or a thought; again: less"),
    Bound("pager", ("o", "v"), "o", "open it in $PAGER"),
    Bound("copy", ("c", "y"), "c", "copy its text"),
    Bound("fork", ("f",), "f", "go on from here with a new agent (/fork)"),
    Bound("rewind", ("r",), "r", "go back to this turn (/rewind)"),
    Bound("forget", ("x", "d"), "x", "forget this message (/forget); you are asked"),
    Bound("undo", ("u",), "u", "take back this clear, rewind, forget, condensing; what took this away (/undo)"),
    Bound("help", ("?",), "?", "these keys"),
    Bound("repaint", ("c-l",), "Ctrl+L", "draw the screen anew"),
    Bound("suspend", ("c-z",), "Ctrl+Z", "suspend ikigai"),
    Bound("leave", ("q", ESC.value, "c-c", "c-t"), "q Esc", "leave; the screen is as it was"),
)

SIGNS = (
    ("o", "slid out of the window"),
    ("c", "before a clear"),
    ("r", "rewound past"),
    ("f", "forgotten"),
    ("s", "told in a summary instead"),
    ("u", "undone: it holds no more"),
)
"""What stands beside text that is not in the context, as `browser_view.SIGNS` has it."""


def _value(key: str) -> str:
    """A key as prompt_toolkit names it."""
    return {"enter": Keys.ControlM.value, "pageup": Keys.PageUp.value, "pagedown": Keys.PageDown.value}.get(key, key)


ACTIONS = {_value(key): bound.action for bound in BOUND for key in bound.keys}


SCROLLS = {"down": 1, "up": -1, "page_down": 2, "page_up": -2, "half_down": 2, "half_up": -2}
"""Actions that scroll the help itself, by one row or by halves of a screen; whatever else is pressed closes it."""


def help_rows(width: int) -> list[str]:
    """The table, in rows of so many cells."""
    wide = max(columns(bound.shown) for bound in BOUND)
    rows = [f" {bound.shown}{' ' * (wide - columns(bound.shown))}  {bound.help}" for bound in BOUND]
    rows += ["", " Beside what is not in the context:"]
    rows += [f" {sign:<{wide}}  {meaning}" for sign, meaning in SIGNS]
    return [cut(row, width) for row in rows]
