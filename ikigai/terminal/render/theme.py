"""Apply styles to text: the signs of blocks, and the theme that is in use while the program runs.

Styles are words: attributes, then a color, one of the sixteen that a terminal defines itself, a number of the 256 that
all have in common, or #rrggbb; `on` begins the background. The numbers read well (WCAG 2: a contrast of 4.5, high
contrast of 7) on every usual background of their kind, which a test computes. Where the background is unknown, or the
terminal has no 256 colors, the first column of the table is used. It suits any background: the user's own terminal
decides.
"""

import re
from collections.abc import Mapping

from ikigai.core.commands.key_actions import KEY_ACTIONS, bound_key
from ikigai.terminal.render.styles import ANSI_COLORS, TEXT_ATTRIBUTES, Styles, theme_styles

USER, ASSISTANT, CALL, RESULT, NOTE, WARNING, STOPPED = "❯", "●", "→", "←", "·", "⚠", "✗"
THOUGHT = "∴"
SPOKEN_SIGNS = {
    **{USER: "You:", ASSISTANT: "Assistant:", CALL: "Tool call:", RESULT: "Result:"},
    **{THOUGHT: "Thinking:", NOTE: "Note:", WARNING: "Warning:", STOPPED: "Cancelled:"},
}
SPOKEN_FAILURES = {RESULT: "Result, failed:", STOPPED: "Failed:"}
"""The words that screen readers say in place of the signs."""

_SAME = {"search.current": "selected", "incsearch.current": "selected", "control-character": "dim"}
"""Names that prompt_toolkit gives to parts of the input."""


def _without_colors(style: str) -> str:
    return " ".join(word for word in style.split() if word in TEXT_ATTRIBUTES)


def sgr_codes(style: str) -> str:
    """Return a style as a terminal takes it: the text between ESC [ and m."""
    codes, ground = list[str](), 0
    for word in style.split():
        if word == "on":
            ground = 10
        elif word in TEXT_ATTRIBUTES:
            codes.append(TEXT_ATTRIBUTES[word])
        else:
            codes.append(_color_code(word, ground))
    return ";".join(codes)


def _color_code(word: str, ground: int) -> str:
    name = word.removeprefix("bright_")
    if name in ANSI_COLORS:
        return str((30 if name == word else 90) + ground + ANSI_COLORS.index(name))
    if word.startswith("#"):
        return f"{38 + ground};2;{';'.join(str(int(word[at : at + 2], 16)) for at in (1, 3, 5))}"
    return f"{38 + ground};5;{word}"


class Theme:
    """The styles in use. Without `color` only bold, dim and reverse are left; with `plain` nothing.

    With `words`, for screen readers, words stand for signs, and output is drawn once and plain. `asks` says that the
    terminal is to be asked for its background; the theme for it is then put on with `apply_styles`. Without
    `wraps_prose` the terminal breaks the lines of paragraphs in replies.
    """

    def __init__(self, color: bool = True, plain: bool = False, words: bool = False, asks: bool = False) -> None:
        self.color, self.words, self.asks = color and not plain, words, asks
        self.plain, self.wraps_prose = plain, True
        self.bind_keys({})
        self.apply_styles(theme_styles(0))

    def apply_styles(self, styles: Styles) -> None:
        """Use these styles from now on, without colors where there are to be none."""
        self.styles = styles if self.color else {name: _without_colors(style) for name, style in styles.items()}
        codes = {} if self.plain else {name: sgr_codes(style) for name, style in self.styles.items()}
        self._codes = codes | {name: codes[same] for name, same in _SAME.items() if same in codes}

    def __contains__(self, style: str) -> bool:
        return style in self._codes

    def sign(self, sign: str, failed: bool = False) -> str:
        """Return the sign before a block, or words for it."""
        if not self.words:
            return sign
        return SPOKEN_FAILURES.get(sign, SPOKEN_SIGNS[sign]) if failed else SPOKEN_SIGNS[sign]

    def bind_keys(self, changes: Mapping[str, tuple[str, ...]]) -> None:
        """Name the keys in texts as they are bound; `changes` are the user's own keys, by the names of actions."""
        self._keys = {action.name: bound_key(action.name, changes) for action in KEY_ACTIONS}

    def key(self, action: str) -> str:
        """Return the key of an action of `core.commands.key_actions` as texts name it; "" if it has none."""
        return self._keys[action]

    @property
    def stop_key(self) -> str:
        """The key that stops a turn and leaves a question, as texts name it."""
        return self.key("stop") or self.key("cancel")

    def paint(self, style: str, text: str) -> str:
        """Return `text`, on one line and without escapes, in a style by name; "" and unknown names change nothing."""
        code = self._codes.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def dimmed(self, drawn: str) -> str:
        """Return a drawn line with all its styles replaced by dim."""
        return self.paint("dim", strip_styles(drawn))


def strip_styles(drawn: str) -> str:
    """Return a drawn line without its styles, links and marks."""
    return re.sub(r"\x1b\[[\d;]*m|\x1b\](?:8|133);[^\x1b]*\x1b\\", "", drawn)


def terminal_theme(
    environ: Mapping[str, str],
    color: str = "auto",
    name: str = "auto",
    own: Mapping[str, Mapping[str, str]] | None = None,
    words: bool = False,
) -> Theme:
    """Return the theme for this terminal. `color` is auto, always or never; the variables for that override it.

    `name` is the name of a theme, or auto; `own` are the user's themes: some elements, and the `base` of others.
    """
    term = environ.get("TERM", "dumb")
    colored = _color_variables(environ)
    theme = Theme(color != "never" if colored is None else colored, words or term in ("", "dumb"), words)
    if name == "auto":
        obeys = not term.startswith(("linux", "vt", "eterm"))  # these print unknown sequences
        theme.asks = theme.color and color_depth(environ) > 16 and obeys
    elif not theme.plain:
        from ikigai.terminal.render import colors

        theme.apply_styles(colors.named_styles(name, own or {}, color_depth(environ) if theme.color else 16))
    return theme


def output_theme(environ: Mapping[str, str], is_terminal: bool) -> Theme:
    """Return the theme for a command's output: plain where it goes to no terminal and no variable wants colors."""
    colored = _color_variables(environ)
    plain = not colored and not (is_terminal and environ.get("TERM", "dumb") not in ("", "dumb"))
    return Theme(colored is not False, plain)


def _color_variables(environ: Mapping[str, str]) -> bool | None:
    """Return True or False if variables turn colors on or off, else None.

    The program's own goes before NO_COLOR, that before FORCE_COLOR.
    """
    if (own := environ.get("IKIGAI_TERMINAL_COLOR")) in ("always", "never"):
        return own == "always"
    if environ.get("NO_COLOR"):
        return False
    return True if environ.get("FORCE_COLOR", "") not in ("", "0", "false") else None


def color_depth(environ: Mapping[str, str]) -> int:
    """Return how many colors the terminal has: 16, 256 or 1 << 24. FORCE_COLOR may say so as 1, 2 or 3."""
    if depth := {"1": 16, "2": 256, "3": 1 << 24}.get(environ.get("FORCE_COLOR", "")):
        return depth
    term = environ.get("TERM", "")
    if environ.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return 1 << 24
    return 256 if "256color" in term or term.startswith(("xterm-kitty", "xterm-ghostty", "alacritty", "foot")) else 16
