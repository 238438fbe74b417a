"""This module draws replies in plain paragraphs without a parser, in exactly the letters that Markdown would give.

Loading the modules for Markdown takes a tenth of the start; short answers need none of them. Text that might mean
something in Markdown, or be wrapped differently, is not plain: that costs time and never a letter.
"""

import re

from ikigai.terminal.render.text_width import wrap

_MIN_COLUMNS = 20
_LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0386-\u03ff\u0400-\u0481\u048a-\u04ff"
_FIRST = rf"[{_LETTER}\"'(,.?!“”‘’„–—…]|[0-9](?![0-9]*[.)](?: |\Z))"
"""The beginnings of a line that begin no block; with digits it may be an item of a list."""
_OTHER = rf"[{_LETTER}0-9\"'(),.:;?!/=+%@“”‘’„–—…-]"
_LINE = re.compile(rf"(?:{_FIRST}){_OTHER}*(?: {_OTHER}+)*")
"""Words with one space between them: letters as wide as one cell, and no markup."""


def is_plain(text: str, width: int) -> bool:
    """Return True if `draw_paragraphs` can draw `text` in `width` cells."""
    paragraphs = text.removesuffix("\n").split("\n\n")
    if width < _MIN_COLUMNS or not all(_LINE.fullmatch(line) for each in paragraphs for line in each.split("\n")):
        return False
    return all(len(word) <= width for word in text.split())


def draw_paragraphs(text: str, width: int) -> str:
    """Return plain text in lines of `width` cells at most."""
    return "\n".join(wrap(text.removesuffix("\n"), width))
