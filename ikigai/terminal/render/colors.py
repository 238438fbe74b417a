"""Colours as numbers: which theme suits a background, how well a style reads, and what stands for it on less colours.

    kind       light or dark, as a terminal answers when it is asked for its background
    guessed    the same by COLORFGBG
    named      the styles of a theme for a terminal of so many colours
    contrast   of two colours, as WCAG 2 defines it

Nothing here asks anybody, or draws.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from ikigai.terminal.render.styles import ATTRIBUTES, NAMES, SIXTEEN, Styles, table

REPORT = re.compile(r"\x1b\]11;(.*?)(?:\x07|\x1b\\)?\Z", re.DOTALL)
EVEN = 0.179
"""The relative luminance of a background from which black reads better on it than white: √(1.05 × 0.05) − 0.05."""
_CUBE = (0, 95, 135, 175, 215, 255)
_BASIC = ("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5")
_BRIGHT = ("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff")
"""The sixteen as xterm has them; other terminals have others."""

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255 each."""


def kind(report: str) -> str:
    """ "light" or "dark" for what a terminal reports of its background; "" for what is no report of a colour.

    The colour is written as X11 does: rgb:R/G/B with one to four hexadecimal digits each, rgba: with a fourth, or #RGB.
    """
    found = REPORT.match(report)
    colour = _parsed(found[1]) if found else None
    return "" if colour is None else "light" if luminance(colour) > EVEN else "dark"


def _parsed(text: str) -> Colour | None:
    if found := re.fullmatch(
        r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?", text
    ):
        parts = found.groups()
    elif found := re.fullmatch(r"#(?:[0-9a-fA-F]{3}){1,4}", text):
        each = (len(text) - 1) // 3
        parts = [text[at : at + each] for at in range(1, len(text), each)]
    else:
        return None
    red, green, blue = (round(int(part, 16) * 255 / (16 ** len(part) - 1)) for part in parts)
    return red, green, blue


def guessed(environ: Mapping[str, str]) -> str:
    """ "light" or "dark" by COLORFGBG, which rxvt, Konsole and others set: FOREGROUND;BACKGROUND as numbers of the
    sixteen; "" where it says nothing."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not re.fullmatch("[0-9]|1[0-5]", last):
        return ""
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


def named(name: str, own: Mapping[str, Mapping[str, str]], colours: int) -> Styles:
    """The styles of the theme for a terminal of 16, 256 or 1 << 24 colours; `own` are the user's themes, by name."""
    made = own.get(name, {})
    base = made.get("base", "dark") if name in own else name
    styles = dict(table(1 + NAMES.index(base) if colours > 16 else 0))
    if colours <= 16 and base.endswith("high-contrast"):  # dim takes contrast away
        styles = {each: " ".join(word for word in style.split() if word != "dim") for each, style in styles.items()}
    styles |= {element: style for element, style in made.items() if element in styles and style}
    return {element: _told(style, colours) for element, style in styles.items()}


def _told(style: str, colours: int) -> str:
    return " ".join(_near(word, colours) for word in style.split())


@lru_cache(maxsize=256)
def _near(word: str, colours: int) -> str:
    """A colour, or the one that is nearest to it on a terminal of less colours."""
    if colours > 256 or word == "on" or word in ATTRIBUTES or word.removeprefix("bright_") in SIXTEEN:
        return word
    if colours > 16 and not word.startswith("#"):
        return word
    wanted = rgb(word)
    choice = range(16, 256) if colours > 16 else range(16)
    number = min(choice, key=lambda each: sum((a - b) ** 2 for a, b in zip(rgb(str(each)), wanted, strict=True)))
    return str(number) if colours > 16 else "bright_" * (number > 7) + SIXTEEN[number % 8]


def rgb(word: str) -> Colour:
    """A colour in a style as its parts; the sixteen as xterm has them."""
    name = word.removeprefix("bright_")
    if name in SIXTEEN:
        text = (_BASIC if name == word else _BRIGHT)[SIXTEEN.index(name)]
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


def luminance(colour: Colour) -> float:
    """The relative luminance of WCAG 2, 0 to 1."""
    red, green, blue = (c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
