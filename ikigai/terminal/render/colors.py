"""Compute with colors: the kind of a background, the styles of a theme, and colors nearest to others.

    background_kind    light or dark, as a terminal answers when it is asked for its background
    guess_background   light or dark, by COLORFGBG
    named_styles       the styles of a theme for a terminal of so many colors

Nothing here asks the terminal, or draws.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from ikigai.terminal.render.styles import (
    ANSI_COLORS,
    FOLLOWING_STYLES,
    STYLE_THEMES,
    TEXT_ATTRIBUTES,
    Styles,
    theme_styles,
)

COLOR_REPORT = re.compile(r"\x1b\]11;(.*?)(?:\x07|\x1b\\)?\Z", re.DOTALL)
EVEN_LUMINANCE = 0.179
"""The relative luminance of a background from which black reads better on it than white: √(1.05 × 0.05) − 0.05."""
_CUBE = (0, 95, 135, 175, 215, 255)
_BASIC = ("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5")
_BRIGHT = ("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff")
"""The sixteen colors as xterm has them; other terminals have others."""

RgbColor = tuple[int, int, int]
"""Red, green and blue, 0 to 255 each."""


def background_kind(report: str) -> str:
    """Return "light" or "dark" for the background that a terminal reports; "" for no report of a color.

    The color is written as X11 does: rgb:R/G/B with one to four hexadecimal digits each, rgba: with a fourth, or #RGB.
    """
    match = COLOR_REPORT.match(report)
    color = _parsed(match[1]) if match else None
    return "" if color is None else "light" if relative_luminance(color) > EVEN_LUMINANCE else "dark"


def _parsed(text: str) -> RgbColor | None:
    if match := re.fullmatch(
        r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?", text
    ):
        parts = match.groups()
    elif match := re.fullmatch(r"#(?:[0-9a-fA-F]{3}){1,4}", text):
        each = (len(text) - 1) // 3
        parts = [text[at : at + each] for at in range(1, len(text), each)]
    else:
        return None
    red, green, blue = (round(int(part, 16) * 255 / (16 ** len(part) - 1)) for part in parts)
    return red, green, blue


def guess_background(environ: Mapping[str, str]) -> str:
    """Return "light" or "dark" by COLORFGBG; "" where it says nothing.

    rxvt, Konsole and others set it: FOREGROUND;BACKGROUND as numbers of the sixteen.
    """
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not re.fullmatch("[0-9]|1[0-5]", last):
        return ""
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


def named_styles(name: str, own: Mapping[str, Mapping[str, str]], depth: int) -> Styles:
    """Return the styles of the theme for a terminal of 16, 256 or 1 << 24 colors; `own` are the user's, by name."""
    own_theme = own.get(name, {})
    base = own_theme.get("base", "dark") if name in own else name
    styles = dict(theme_styles(1 + STYLE_THEMES.index(base) if depth > 16 else 0))
    if depth <= 16 and base.endswith("high-contrast"):  # dim takes contrast away
        styles = {each: " ".join(word for word in style.split() if word != "dim") for each, style in styles.items()}
    changed = {element: style for element, style in own_theme.items() if element in styles and style}
    for element, (leader, attribute) in FOLLOWING_STYLES.items():
        if leader in changed:
            styles[element] = f"{attribute} {changed[leader]}".strip()
    styles |= changed
    return {element: _reduce(style, depth) for element, style in styles.items()}


def _reduce(style: str, depth: int) -> str:
    return " ".join(_nearest(word, depth) for word in style.split())


@lru_cache(maxsize=256)
def _nearest(word: str, depth: int) -> str:
    """Return a color, or the one that is nearest to it on a terminal of fewer colors."""
    if depth > 256 or word == "on" or word in TEXT_ATTRIBUTES or word.removeprefix("bright_") in ANSI_COLORS:
        return word
    if depth > 16 and not word.startswith("#"):
        return word
    target = parse_rgb(word)
    choice = range(16, 256) if depth > 16 else range(16)
    number = min(choice, key=lambda each: sum((a - b) ** 2 for a, b in zip(parse_rgb(str(each)), target, strict=True)))
    return str(number) if depth > 16 else "bright_" * (number > 7) + ANSI_COLORS[number % 8]


def parse_rgb(word: str) -> RgbColor:
    """Return a color in a style as its parts; the sixteen as xterm has them."""
    name = word.removeprefix("bright_")
    if name in ANSI_COLORS:
        text = (_BASIC if name == word else _BRIGHT)[ANSI_COLORS.index(name)]
    elif word.startswith("#"):
        text = word[1:]
    elif (number := int(word)) < 16:
        text = (*_BASIC, *_BRIGHT)[number]
    elif number < 232:
        at = number - 16
        return _CUBE[at // 36], _CUBE[at // 6 % 6], _CUBE[at % 6]
    else:
        return (grey := 8 + 10 * (number - 232)), grey, grey
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)


def relative_luminance(color: RgbColor) -> float:
    """Return the relative luminance of WCAG 2, 0 to 1."""
    red, green, blue = (c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for part in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
