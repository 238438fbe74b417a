"""Plain text measured in terminal cells: how wide it is, cut to a width, wrapped at words; and time in words."""

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.utils import get_cwidth

TAB = 4
_narrow = re.compile("[\0-\x7f\xa1-\xac\xae-\u02ff\u0400-\u0481\u2010-\u2027]*").fullmatch
"""Whether all characters take one cell, as most texts' do; of others each has to be looked up."""


def columns(text: str) -> int:
    """Cells that clean text on one line takes; rather too many than too few: a joined emoji counts in its parts."""
    return len(text) if text.isascii() or _narrow(text) else sum(map(get_cwidth, text))


def cut(text: str, width: int) -> str:
    """`text` on one line in at most `width` cells, with … where something is missing."""
    if columns(text) <= width:
        return text
    taken = used = 0
    for char in text:
        used += get_cwidth(char)
        if used > width - 1:
            break
        taken += 1
    return text[:taken] + "…" if width > 0 else ""


def lasting(seconds: float) -> str:
    """A stretch of time as people say it: 12 s, 3 min 4 s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def wrap(text: str, width: int) -> Iterator[str]:
    """The rows of clean text in `width` cells: its own line breaks stay, long lines break at spaces where they can."""
    for line in text.split("\n"):
        line = line.expandtabs(TAB).rstrip(" ")
        if columns(line) <= width:
            yield line
        else:
            yield from (_letters if _narrow(line) else _rows)(line, max(width, 2))


def _letters(line: str, width: int) -> Iterator[str]:
    """What `_rows` gives for a line whose characters all take one cell; a tenth of its time."""
    start, length = 0, len(line)
    while (at := start + width) < length:
        while line[at] == " ":  # spaces that end a row need no room
            at += 1
        space = line.rfind(" ", start, at)
        end = space if space > start else at
        yield line[start:end].rstrip(" ")
        start = end + (end == space)
    yield line[start:].rstrip(" ")


def _rows(line: str, width: int) -> Iterator[str]:
    start = used = 0
    space = -1  # the last place where the row may break
    at = 0
    while at < len(line):
        cells = get_cwidth(line[at])
        if line[at] == " ":
            space = at
        elif used + cells > width:
            end = space if space > start else at
            yield line[start:end].rstrip(" ")
            start = end + (end == space)
            at, used, space = start, 0, -1
            continue
        used += cells
        at += 1
    yield line[start:].rstrip(" ")


def packed(parts: Iterable[str], width: int, between: str = " · ") -> Iterator[str]:
    """The parts in as few rows of `width` cells as they take; one that is wider is cut."""
    row = ""
    for part in parts:
        if row and columns(longer := row + between + part) <= width:
            row = longer
        else:
            if row:
                yield row
            row = cut(part, width)
    if row:
        yield row
