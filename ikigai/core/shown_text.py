"""Find the part of a text that a terminal would show: the text between its escape sequences, and its places."""

import re
from bisect import bisect_right
from collections.abc import Iterable

_MAX_PAYLOAD = 4096
"""Characters of the longest string in an escape sequence: a stream holds back one that has not ended."""
_PARAMETERS = r"[0-?]{0,256}+[ -/]{0,16}+"
_PAYLOAD = rf"[^\x07\x18\x1a\x1b\x9c]{{0,{_MAX_PAYLOAD}}}+"
_ESCAPE = re.compile(
    rf"(?:\x1b\[|\x9b){_PARAMETERS}[@-~]"
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_PAYLOAD}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,16}+[0-OQ-WYZ\\`-~]"
    r"|[\x1b\x9b]"
)
_PARTIAL = re.compile(
    rf"(?:(?:\x1b\[|\x9b){_PARAMETERS}|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_PAYLOAD}\x1b?|\x1b[ -/]{{0,16}}+)\Z"
)
_BEGINNINGS = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")


def has_escapes(text: str) -> bool:
    """Return True if the text may hold an escape sequence."""
    return "\x1b" in text or (not text.isascii() and _BEGINNINGS.search(text) is not None)


def find_partial_escape(text: str) -> int:
    """Return the place of an escape sequence that the end of the text cuts off; its length if there is none."""
    if has_escapes(text):
        for start in _BEGINNINGS.finditer(text, max(0, len(text) - _MAX_PAYLOAD - 3)):
            if _PARTIAL.match(text, start.start()):
                return start.start()
    return len(text)


class ShownText:
    """The `text` that a terminal shows of a raw text, which may hold escape sequences. Places in it can be replaced."""

    __slots__ = ("_raw", "_raw_starts", "_starts", "text")

    def __init__(self, raw: str) -> None:
        self._raw, self.text = raw, raw
        self._raw_starts, self._starts = [0], [0]
        if not has_escapes(raw):
            return
        pieces, length, done = list[str](), 0, 0
        for escape in _ESCAPE.finditer(raw):
            pieces.append(raw[done : escape.start()])
            length, done = length + len(pieces[-1]), escape.end()
            self._starts.append(length)
            self._raw_starts.append(done)
        self.text = "".join((*pieces, raw[done:]))

    def raw_start(self, place: int) -> int:
        """Return the place in the raw text of the character at `place`."""
        piece = bisect_right(self._starts, place) - 1
        return self._raw_starts[piece] + place - self._starts[piece]

    def replace(self, secrets: Iterable[tuple[int, int, str]], raw_end: int) -> str:
        """Return the raw text up to `raw_end` with each place (start, end) replaced by its text.

        Sequences within a place that only color or move stay behind its new text, so that a color ends where it did.
        """
        pieces, done = list[str](), 0
        for start, end, text in secrets:
            raw_start, raw_after = self.raw_start(start), self.raw_start(end - 1) + 1
            inside = _ESCAPE.findall(self._raw, raw_start, raw_after)
            pieces += self._raw[done:raw_start], text, *(each for each in inside if each.startswith(("\x1b[", "\x9b")))
            done = raw_after
        return "".join((*pieces, self._raw[done:raw_end]))
