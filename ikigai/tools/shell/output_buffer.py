"""What is kept of a command's output: of one that ends its head and tail, of one that goes on what came last.

Bytes go in as they come, in pieces of any size; memory is bounded by what is kept, however much comes. Text comes out
in UTF-8, with U+FFFD for every byte that is none; controls and escape sequences stay, as data.
"""

from __future__ import annotations

LONGEST_KEY = 4096
"""Bytes at the end of what was read that may be the beginning of a key."""
HALF_A_KEY = 8
"""Bytes of a key that tell too much of it, where its other end was left out."""
BLANKS = b" ", b"\t", b"\n", b"\r"
CONTINUES = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that only follow others."""


class Kept:
    """The first `head` and the last `tail` bytes of a stream."""

    def __init__(self, head: int, tail: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._room, self._most = head, tail
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if free := self._room - len(self._head):
            self._head += data[:free]
            data = data[free:]
        self._tail += data[-self._most :] if self._most else b""
        if len(self._tail) > 2 * self._most:  # not at every piece: it moves what stays
            del self._tail[: -self._most]

    @property
    def cut(self) -> int:
        """Bytes that were left out between head and tail."""
        return max(0, self.total - self._room - self._most)

    def text(self) -> str:
        """What is kept, with a line that says what was left out."""
        tail = self._tail[-self._most :] if self._most else bytearray()
        if not self.cut:
            return (self._head + tail).decode(errors="replace")
        head, tail = whole(self._head), tail.lstrip(CONTINUES) if len(tail) > 4 else tail
        head, tail = head[: len(head) - _last_word(head)], tail[_first_word(tail) :]
        said = f"[… {self.total - len(head) - len(tail):,} bytes were left out …]"
        return f"{head.decode(errors='replace')}\n{said}\n{tail.decode(errors='replace')}"


def _last_word(data: bytes | bytearray) -> int:
    """Return the length of what may be the beginning of a key: half of one would not be recognised."""
    length = len(data) - 1 - max(map(data.rfind, BLANKS))
    return length if HALF_A_KEY <= length <= min(LONGEST_KEY, len(data) - 1) else 0


def _first_word(data: bytes | bytearray) -> int:
    """Return the length of what may be the end of a key."""
    length = min((at for at in map(data.find, BLANKS) if at >= 0), default=len(data))
    return length if HALF_A_KEY <= length <= min(LONGEST_KEY, len(data) - 1) else 0


SAID = 64
"""Bytes that the line about what was left out takes at most."""


def shortened(text: str, most: int) -> str:
    """The text, or of one that takes more than `most` bytes its head and tail."""
    if len(text) * 4 <= most or len(data := text.encode(errors="replace")) <= most:  # no character takes more than 4
        return text
    kept = Kept((most - SAID) // 2, (most - SAID) // 2)
    kept.add(data)
    return kept.text()


class Recent:
    """The last `most` bytes of a stream, at their places in it; `seen` is where the next `news` begins."""

    def __init__(self, most: int) -> None:
        self._data, self._most = bytearray(), most
        self.total = self.seen = 0
        self._held = b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data[-self._most :]
        if len(self._data) > 2 * self._most:
            del self._data[: -self._most]

    def news(self, final: bool) -> tuple[str, int]:
        """What came since the last call, and how many bytes of it are lost.

        Unless this is `final`, what is not whole yet waits: a character, and a word at the end until the next call, for
        a key that is read in two halves would not be recognised.
        """
        fresh = bytes(self._data[max(0, len(self._data) - (self.total - self.seen)) :][-self._most :])
        lost = self.total - self.seen - len(fresh)
        if not final:
            fresh = whole(fresh)
            held = fresh[max(map(fresh.rfind, BLANKS)) + 1 :]
            if held != self._held and len(held) <= LONGEST_KEY:
                fresh = fresh.removesuffix(held)
            self._held = held
        self.seen += lost + len(fresh)
        return fresh.decode(errors="replace"), lost

    def last(self, lines: int) -> str:
        """The last so many lines of what is kept, whether they were read or not."""
        parts = bytes(self._data[-self._most :]).split(b"\n")
        ends = parts[-1:] == [b""]  # the last line is complete
        return b"\n".join(parts[-lines - ends :]).decode(errors="replace")


def whole(data: bytes | bytearray) -> bytes:
    """`data` without the first bytes of a character whose others are still to come."""
    for back in range(1, min(4, len(data) + 1)):
        lead = data[-back]
        if lead >= 0xC0:
            needs = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return bytes(data[:-back] if needs > back else data)
        if lead < 0x80:
            break
    return bytes(data)
