"""Find the part of a text that a terminal would show, and its places: the text between its escape sequences and
characters without width, each overstruck character once.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable

_MAX_PAYLOAD = 4096
"""Characters of the longest string in an escape sequence: a stream holds back one that has not ended."""
_PARAMETERS = r"[0-?]{0,256}+[ -/]{0,16}+"
_PAYLOAD = (
    rf"[^\x07\x18\x1a\x1b\x90\x98\x9c-\x9f]{{0,{_MAX_PAYLOAD}}}+"  # another beginning ends it: no text is read twice
)
_ZERO_WIDTH = "\0\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
"""NUL (of UTF-16 read as bytes), soft hyphen, grapheme joiner, vowel separator, zero-width spaces and joiners, marks of
direction, invisible operators, variation selectors, byte order mark: a class of a pattern.
"""
_PRINTED = r"[^\x00-\x1f\x7f-\x9f]"
# Patterns are compiled with their first use: most texts have nothing hidden, and the start waits for each of them.
_ESCAPE = (
    rf"(?:\x1b\[|\x9b){_PARAMETERS}[@-~]"
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_PAYLOAD}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,16}+[0-OQ-WYZ\\`-~]"
    r"|[\x1b\x9b]"
)
_HIDDEN = (
    rf"(?P<struck>_\x08(?={_PRINTED})|(?P<same>{_PRINTED})\x08(?=(?P=same)))"  # bold and underlined, as nroff has it
    rf"|(?<={_PRINTED})\x08_|[{_ZERO_WIDTH}]+|{_ESCAPE}"
)
_MAX_STRIKES = 256
"""Characters that are struck over one another, at most: a stream holds them back."""
_PARTIAL_STRIKE = rf"(?:{_PRINTED}\x08){{1,{_MAX_STRIKES}}}+_?\Z|_\Z"
_PARTIAL = rf"(?:(?:\x1b\[|\x9b){_PARAMETERS}|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_PAYLOAD}\x1b?|\x1b[ -/]{{0,16}}+)\Z"
_BEGINNINGS = r"[\x1b\x90\x98\x9b\x9d-\x9f]"
_WIDE_BEGINNINGS = rf"[\x90\x98\x9b\x9d-\x9f{_ZERO_WIDTH}]"


def has_hidden(text: str) -> bool:
    """Return True if a terminal may show the text otherwise than it is."""
    return (
        "\x1b" in text
        or "\b" in text
        or "\0" in text
        or (not text.isascii() and re.search(_WIDE_BEGINNINGS, text) is not None)
    )


def find_partial_hidden(text: str) -> int:
    """Return the place of an escape sequence, or of an overstruck character, that the end of the text cuts off, or the
    text's length.
    """
    if has_hidden(text):
        tail = max(0, len(text) - _MAX_PAYLOAD - 3)
        for beginning in re.finditer(_BEGINNINGS, text[tail:]):
            if re.match(_PARTIAL, text[(start := tail + beginning.start()) :]):
                return start
    if not text.endswith(("\b", "_")):
        return len(text)
    tail = max(0, len(text) - 2 * _MAX_STRIKES)
    struck = re.search(_PARTIAL_STRIKE, text[tail:])
    return tail + struck.start() if struck else len(text)


class ShownText:
    """The `text` that a terminal shows of a raw text, which may hold escape sequences. Places in it can be replaced."""

    __slots__ = ("_begins", "_raw", "_raw_starts", "_starts", "text")

    def __init__(self, raw: str) -> None:
        self._raw, self.text = raw, raw
        self._raw_starts, self._begins, self._starts = [0], [0], [0]
        if not has_hidden(raw):
            return
        pieces, length, done = list[str](), 0, 0
        for hidden in re.finditer(_HIDDEN, raw):
            follows = self._begins[-1] < self._raw_starts[-1] == hidden.start()  # struck over twice
            begins = self._begins[-1] if follows else hidden.start()
            pieces.append(raw[done : hidden.start()])
            length, done = length + len(pieces[-1]), hidden.end()
            self._starts.append(length)
            self._raw_starts.append(done)
            self._begins.append(begins if hidden["struck"] else done)
        self.text = "".join((*pieces, raw[done:]))

    def raw_start(self, place: int) -> int:
        """Return the place in the raw text of the character at `place`, or of what it is struck over."""
        piece = bisect_right(self._starts, place) - 1
        return self._begins[piece] if place == self._starts[piece] else self._raw_place(place)

    def _raw_place(self, place: int) -> int:
        piece = bisect_right(self._starts, place) - 1
        return self._raw_starts[piece] + place - self._starts[piece]

    def replace(self, secrets: Iterable[tuple[int, int, str]], raw_end: int) -> str:
        """Return the raw text up to `raw_end` with each place (start, end) replaced by its text.

        Sequences within a place that only color or move stay behind its new text, so that a color ends where it did.
        """
        pieces, done = list[str](), 0
        for start, end, text in secrets:
            raw_start, raw_after = self.raw_start(start), self._raw_place(end - 1) + 1
            inside = re.findall(_ESCAPE, self._raw[raw_start:raw_after])
            pieces += self._raw[done:raw_start], text, *(each for each in inside if each.startswith(("\x1b[", "\x9b")))
            done = raw_after
        return "".join((*pieces, self._raw[done:raw_end]))
