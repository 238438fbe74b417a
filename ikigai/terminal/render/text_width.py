"""Measure plain text in terminal cells, cut it and wrap it at words; write durations."""

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.utils import get_cwidth

TAB_CELLS = 4
_narrow = re.compile("[\0-\x7f\xa1-\xac\xae-\u02ff\u0400-\u0481\u2010-\u2027]*").fullmatch
"""Matches if all characters take one cell, as most texts' do; others have to be looked up one by one."""


def cell_width(text: str) -> int:
    """Return the cells that clean text on one line takes; rather too many: a joined emoji counts in its parts."""
    return len(text) if text.isascii() or _narrow(text) else sum(map(get_cwidth, text))


def cut(text: str, width: int) -> str:
    """Return `text` on one line in at most `width` cells, with … where something is missing."""
    if cell_width(text) <= width:
        return text
    taken = used = 0
    for char in text:
        used += get_cwidth(char)
        if used > width - 1:
            break
        taken += 1
    return text[:taken] + "…" if width > 0 else ""


def format_duration(seconds: float) -> str:
    """Return a duration as people say it: 12 s, 3 min 4 s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def wrap(text: str, width: int) -> Iterator[str]:
    """Yield the rows of clean text in `width` cells. Its line breaks stay; long lines break at spaces if they can."""
    for line in text.split("\n"):
        line = line.expandtabs(TAB_CELLS).rstrip(" ")
        if cell_width(line) <= width:
            yield line
        else:
            yield from (_letters if _narrow(line) else _rows)(line, max(width, 2))


def _letters(line: str, width: int) -> Iterator[str]:
    """Yield the rows of a line whose characters all take one cell, in a tenth of the time of `_rows`."""
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
    end = -1  # the last place where the row may break: at a space, or beside a wide character
    at = 0
    while at < len(line):
        cells = get_cwidth(line[at])
        if line[at] == " " or (at > start and _parts(line[at - 1], line[at], cells)):
            end = at
        if line[at] != " " and used + cells > width:
            end = end if end > start else at
            yield line[start:end].rstrip(" ")
            start = end + (line[end] == " ")
            at, used, end = start, 0, -1
            continue
        used += cells
        at += 1
    yield line[start:].rstrip(" ")


_NOT_AT_END = frozenset("「『（〈《【〔［｛“‘")
_NOT_AT_START = frozenset("、。，．・：；？！」』）〉》】〕］｝”’ーぁぃぅぇぉっゃゅょァィゥェォッャュョ")
"""Wide characters that begin or end a phrase: no row ends, or begins, with them."""


def _parts(before: str, char: str, cells: int) -> bool:
    """Return True if a row may break between two characters, of which the second takes so many cells."""
    if before in _NOT_AT_END or char in _NOT_AT_START or not cells:
        return False
    return is_ideograph(char) or is_ideograph(before)


def is_ideograph(char: str) -> bool:
    """Return True for characters of Chinese and Japanese, which are written without spaces."""
    return "\u3000" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\U00020000" <= char <= "\U0003ffff"


def pack_rows(parts: Iterable[str], width: int, between: str = " · ") -> Iterator[str]:
    """Yield the parts in as few rows of `width` cells as they take; one that is wider is cut."""
    row = ""
    for part in parts:
        if row and cell_width(longer := row + between + part) <= width:
            row = longer
        else:
            if row:
                yield row
            row = cut(part, width)
    if row:
        yield row
