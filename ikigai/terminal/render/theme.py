"""What things look like: a table of elements and themes, and the theme that is worn while the program runs.

Styles are words: attributes, then a colour, one of the sixteen that a terminal defines itself, a number of the 256 that
all have in common, or #rrggbb; `on` begins the background. The numbers read well (WCAG 2: a contrast of 4.5, high
contrast of 7) on every usual background of their kind, which a test computes. Where nobody knows the background, or the
terminal has no 256 colours, things look as in the first column, which suits any: the user's own terminal decides.
"""

import re
from collections.abc import Mapping

from ikigai.terminal.render.styles import ATTRIBUTES, SIXTEEN, Styles, table

USER, ASSISTANT, CALL, RESULT, NOTE, WARNING, STOPPED = "❯", "●", "→", "←", "·", "⚠", "✗"
THOUGHT = "∴"
WORDS = {
    **{USER: "You:", ASSISTANT: "Assistant:", CALL: "Tool call:", RESULT: "Result:"},
    **{THOUGHT: "Thinking:", NOTE: "Note:", WARNING: "Warning:", STOPPED: "Cancelled:"},
}
FAILED = {RESULT: "Result, failed:", STOPPED: "Failed:"}
"""What readers of screens say in place of the signs."""

_SAME = {"search.current": "selected", "incsearch.current": "selected", "control-character": "dim"}
"""Names that prompt_toolkit gives to parts of the input."""


def _uncoloured(style: str) -> str:
    return " ".join(word for word in style.split() if word in ATTRIBUTES)


def sgr(style: str) -> str:
    """A style as a terminal takes it: what stands between ESC [ and m."""
    codes, ground = list[str](), 0
    for word in style.split():
        if word == "on":
            ground = 10
        elif word in ATTRIBUTES:
            codes.append(ATTRIBUTES[word])
        else:
            codes.append(_colour(word, ground))
    return ";".join(codes)


def _colour(word: str, ground: int) -> str:
    name = word.removeprefix("bright_")
    if name in SIXTEEN:
        return str((30 if name == word else 90) + ground + SIXTEEN.index(name))
    if word.startswith("#"):
        return f"{38 + ground};2;{';'.join(str(int(word[at : at + 2], 16)) for at in (1, 3, 5))}"
    return f"{38 + ground};5;{word}"


class Theme:
    """Puts styles on text, or not: `color` off leaves bold, dim and reverse; `plain` leaves nothing.

    `words` stand for signs, and what is drawn is drawn once and plain: for readers of screens. `asks` says that the
    terminal is to be asked for its background, whose theme is then put on with `wear`.
    """

    def __init__(self, color: bool = True, plain: bool = False, words: bool = False, asks: bool = False) -> None:
        self.color, self.words, self.asks = color and not plain, words, asks
        self.plain = plain
        self.wear(table(0))

    def wear(self, styles: Styles) -> None:
        """From now on things look so, without colours where there are to be none."""
        self.styles = styles if self.color else {name: _uncoloured(style) for name, style in styles.items()}
        codes = {} if self.plain else {name: sgr(style) for name, style in self.styles.items()}
        self._codes = codes | {name: codes[same] for name, same in _SAME.items() if same in codes}

    def __contains__(self, style: str) -> bool:
        return style in self._codes

    def sign(self, sign: str, failed: bool = False) -> str:
        """What stands before a block: the sign, or words for it."""
        if not self.words:
            return sign
        return FAILED.get(sign, WORDS[sign]) if failed else WORDS[sign]

    def paint(self, style: str, text: str) -> str:
        """`text`, on one line and without escapes, in a style by name; "" and unknown names change nothing."""
        code = self._codes.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def dimmed(self, drawn: str) -> str:
        """A drawn line with all its styles replaced by dim."""
        return self.paint("dim", unstyled(drawn))


def unstyled(drawn: str) -> str:
    """A drawn line without its styles, links and marks."""
    return re.sub(r"\x1b\[[\d;]*m|\x1b\](?:8|133);[^\x1b]*\x1b\\", "", drawn)


def theme(
    environ: Mapping[str, str],
    color: str = "auto",
    name: str = "auto",
    own: Mapping[str, Mapping[str, str]] | None = None,
    words: bool = False,
) -> Theme:
    """The theme for this terminal. `color` is auto, always or never, and goes behind the variables for that.

    `name` is that of a theme, or auto; `own` are those that the user has made: some elements, and the `base` of others.
    """
    term = environ.get("TERM", "dumb")
    wanted = _told(environ)
    made = Theme(color != "never" if wanted is None else wanted, words or term in ("", "dumb"), words)
    if name == "auto":
        knows = depth(environ) > 16 and not term.startswith(("linux", "vt", "eterm"))  # these print what they do not
        made.asks = made.color and knows
    elif not made.plain:
        from ikigai.terminal.render import colors as colours

        made.wear(colours.named(name, own or {}, depth(environ) if made.color else 16))
    return made


def output(environ: Mapping[str, str], is_terminal: bool) -> Theme:
    """The theme for what a command writes: plain where that goes to no terminal and nobody wants colours there."""
    wanted = _told(environ)
    plain = not wanted and not (is_terminal and environ.get("TERM", "dumb") not in ("", "dumb"))
    return Theme(wanted is not False, plain)


def _told(environ: Mapping[str, str]) -> bool | None:
    """Whether variables want colours: the program's own goes before NO_COLOR, that before FORCE_COLOR."""
    if (own := environ.get("IKIGAI_TERMINAL_COLOR")) in ("always", "never"):
        return own == "always"
    if environ.get("NO_COLOR"):
        return False
    return True if environ.get("FORCE_COLOR", "") not in ("", "0", "false") else None


def depth(environ: Mapping[str, str]) -> int:
    """How many colours the terminal has: 16, 256 or 1 << 24. FORCE_COLOR may say so as 1, 2 or 3."""
    if found := {"1": 16, "2": 256, "3": 1 << 24}.get(environ.get("FORCE_COLOR", "")):
        return found
    term = environ.get("TERM", "")
    if environ.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return 1 << 24
    return 256 if "256color" in term or term.startswith(("xterm-kitty", "xterm-ghostty", "alacritty", "foot")) else 16
