"""What things look like: the sixteen colours that the user's own terminal defines, bold and dim, and nothing else."""

import re
from collections.abc import Mapping

USER, ASSISTANT, CALL, RESULT, NOTE, WARNING, STOPPED = "❯", "●", "→", "←", "·", "⚠", "✗"
THOUGHT = "∴"

_STYLES = {
    "user": "1",
    "prompt": "1;36",
    "assistant": "1;32",
    "call": "34",
    "dim": "2",
    "warning": "33",
    "error": "31",
    "bold": "1",
    "found": "1;33",
    "selected": "7",
    "thought": "2;3",
    "added": "32",
    "removed": "31",
    "hunk": "36",
    # names that prompt_toolkit gives to parts of the input
    "search.current": "7",
    "incsearch.current": "7",
    "control-character": "2",
}
_COLOURS = frozenset(str(code) for code in (*range(30, 38), *range(90, 98)))


class Theme:
    """Puts styles on text, or not: `color` off leaves bold, dim and reverse; `plain` leaves nothing."""

    def __init__(self, color: bool = True, plain: bool = False) -> None:
        self.color = color and not plain
        self._codes = {} if plain else {name: self._code(style) for name, style in _STYLES.items()}

    def _code(self, style: str) -> str:
        return ";".join(part for part in style.split(";") if self.color or part not in _COLOURS)

    def __contains__(self, style: str) -> bool:
        return style in self._codes

    def paint(self, style: str, text: str) -> str:
        """`text`, on one line and without escapes, in a style by name; "" and unknown names change nothing."""
        code = self._codes.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def dimmed(self, drawn: str) -> str:
        """A drawn line with all its styles replaced by dim."""
        return self.paint("dim", unstyled(drawn))


def unstyled(drawn: str) -> str:
    """A drawn line without its styles."""
    return re.sub(r"\x1b\[[\d;]*m", "", drawn)


def theme(environ: Mapping[str, str], color: str = "auto") -> Theme:
    """The theme for this terminal. `color` is auto, always or never; auto obeys NO_COLOR."""
    plain = environ.get("TERM", "dumb") in ("", "dumb")
    return Theme(color == "always" or (color == "auto" and not environ.get("NO_COLOR")), plain)
