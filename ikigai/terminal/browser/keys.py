"""Keys of the browser: one table for their actions on all pages and for the help."""

from typing import NamedTuple

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.terminal.keys.codes import ESC_KEY, NEWLINE_KEY
from ikigai.terminal.render.text_width import cell_width, cut

MAX_TYPED_CHARACTERS = 200


class KeyBinding(NamedTuple):
    """Keys and their action. `action` is one of MOVES, or a method of Browser or of the actions of its page; `shown` is
    how the help names the keys.
    """

    action: str
    keys: tuple[str, ...]
    shown: str
    help: str


KEY_BINDINGS = (
    KeyBinding("down", ("down", "j", "c-n"), "↓ j", "a row down"),
    KeyBinding("up", ("up", "k", "c-p"), "↑ k", "a row up"),
    KeyBinding("page_down", ("pagedown", " ", "c-f"), "PgDn Space", "a screen down"),
    KeyBinding("page_up", ("pageup", "b", "c-b"), "PgUp b", "a screen up"),
    KeyBinding("half_down", ("c-d",), "Ctrl+D", "half a screen down"),
    KeyBinding("half_up", ("c-u",), "Ctrl+U", "half a screen up"),
    KeyBinding("home", ("home", "g"), "Home g", "where the history begins"),
    KeyBinding("end", ("end", "G"), "End G", "where it ends"),
    KeyBinding("turn_back", ("[",), "[", "your previous message"),
    KeyBinding("turn_on", ("]",), "]", "your next message"),
    KeyBinding("search", ("/",), "/", "search, from here back"),
    KeyBinding("older", ("n",), "n", "the next match, earlier"),
    KeyBinding("newer", ("N",), "N", "the next match, later"),
    KeyBinding("open", ("enter", NEWLINE_KEY.value, "c-o"), "Enter", "all of a result or a thought; again: shorter"),
    KeyBinding("pager", ("o", "v"), "o", "open it in $PAGER"),
    KeyBinding("copy", ("c", "y"), "c", "copy its text"),
    KeyBinding("fork", ("f",), "f", "continue from here in a new agent (/fork)"),
    KeyBinding("edit", ("e",), "e", "go back to before this turn and edit its message (/edit)"),
    KeyBinding("rewind", ("r",), "r", "go back to this turn (/rewind)"),
    KeyBinding("forget", ("x", "d"), "x", "forget this message (/forget); you are asked"),
    KeyBinding(
        "undo", ("u",), "u", "undo this clear, rewind, forget or condense, or the one that removed this (/undo)"
    ),
    KeyBinding("help", ("?",), "?", "these keys"),
    KeyBinding("repaint", ("c-l",), "Ctrl+L", "redraw the screen"),
    KeyBinding("suspend", ("c-z",), "Ctrl+Z", "suspend ikigai"),
    KeyBinding("leave", ("q", ESC_KEY.value, "c-c", "c-g", "c-t"), "q Esc", "leave; the screen is restored"),
)

SIGN_HELP = (
    ("o", "out of the window"),
    ("c", "before a clear"),
    ("r", "rewound past"),
    ("f", "forgotten"),
    ("s", "covered by a summary"),
    ("u", "undone"),
)
"""The signs beside text that is not in the context, as `browser.view.EXCLUSION_SIGNS` has them."""


def _value(key: str) -> str:
    """Return the name that prompt_toolkit gives to a key."""
    return {"enter": Keys.ControlM.value, "pageup": Keys.PageUp.value, "pagedown": Keys.PageDown.value}.get(key, key)


ACTION_OF_KEY = {_value(key): binding.action for binding in KEY_BINDINGS for key in binding.keys}
MOVES = {
    "down": (1, 0.0),
    "up": (-1, 0.0),
    "page_down": (0, 1.0),
    "page_up": (0, -1.0),
    "half_down": (0, 0.5),
    "half_up": (0, -0.5),
}
"""The rows, or else the screens, that an action moves down."""
BROWSER_ACTIONS = ("repaint", "suspend", "leave")
"""The methods of Browser that keys name."""


def action_of(press: KeyPress) -> str:
    """Return the action of a key; "" if it has none."""
    return ACTION_OF_KEY.get(press.key.value if isinstance(press.key, Keys) else press.key, "")


def edit_typed(text: str, press: KeyPress) -> str | None:
    """Return a text that is typed in one line after a key that edits it, None for another key."""
    match press.key:
        case Keys.BracketedPaste:
            text += " ".join(press.data.split())
        case Keys.ControlH:
            text = text[:-1]
        case Keys.ControlU:
            text = ""
        case Keys.ControlW:
            text = text.rstrip().rpartition(" ")[0]
        case Keys():
            return None
        case key:
            text += key
    return text[:MAX_TYPED_CHARACTERS]


def draw_help(width: int) -> list[str]:
    """Draw the table of keys in rows of `width` cells."""
    wide = max(cell_width(binding.shown) for binding in KEY_BINDINGS)
    rows = [f" {binding.shown}{' ' * (wide - cell_width(binding.shown))}  {binding.help}" for binding in KEY_BINDINGS]
    rows += ["", " Marks of events out of the context:"]
    rows += [f" {sign:<{wide}}  {meaning}" for sign, meaning in SIGN_HELP]
    return [cut(row, width) for row in rows]
