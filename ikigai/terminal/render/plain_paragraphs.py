"""Draw replies in plain paragraphs without a parser, in exactly the letters that Markdown would give.

Loading the modules for Markdown takes a tenth of the start; short answers need none of them. Text that might mean
something in Markdown, or be wrapped differently, is not plain: that costs time and never a letter.
"""

import re
from itertools import chain

from ikigai.terminal.render.text_width import wrap

_MIN_COLUMNS = 20
_RANGES = "AZ", "az", "\u00c0\u00d6", "\u00d8\u00f6", "\u00f8\u02af", "\u0386\u03ff", "\u0400\u0481", "\u048a\u04ff"
_LETTERS = frozenset(chain.from_iterable(map(chr, range(ord(first), ord(last) + 1)) for first, last in _RANGES))
"""Letters as wide as one cell. A regular expression of them would take a millisecond of the start."""
_FIRST = _LETTERS.union("0123456789\"'(,.?!“”‘’„–—…")
"""The characters that begin no block at the beginning of a line, unless digits begin an item of a list."""
_OTHER = _FIRST.union("):;/=+%@- ")
_ITEM = "[0-9]+[.)](?: |$)"


def is_plain(text: str, width: int) -> bool:
    """Return True if `draw_paragraphs` can draw `text` in `width` cells."""
    paragraphs = text.removesuffix("\n").split("\n\n")
    if width < _MIN_COLUMNS or not all(_is_plain_line(line) for each in paragraphs for line in each.split("\n")):
        return False
    return all(len(word) <= width for word in text.split())


def _is_plain_line(line: str) -> bool:
    """Return True for words with one space between them, of letters as wide as one cell and without markup."""
    if line[:1] not in _FIRST or not _OTHER.issuperset(line) or "  " in line or line[-1] == " ":
        return False
    return not (line[0].isdecimal() and re.match(_ITEM, line))


def draw_paragraphs(text: str, width: int) -> str:
    """Return plain text in lines of `width` cells at most."""
    return "\n".join(wrap(text.removesuffix("\n"), width))
