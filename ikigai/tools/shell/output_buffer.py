"""Buffer the output of a command: head and tail of one that ends, the tail of one that goes on.

Bytes come in as pieces of any size. Memory is bounded by the size of the buffer. Text comes out decoded from UTF-8,
with U+FFFD for every invalid byte. Controls and escape sequences stay, as data.
"""

from __future__ import annotations

MAX_PARTIAL_KEY_BYTES = 4096
"""Maximum bytes of a partial word that may belong to a key."""
MIN_PARTIAL_KEY_BYTES = 8
"""Bytes of a key that reveal too much of it if the other end is left out."""
BLANK_BYTES = b" ", b"\t", b"\n", b"\r"
CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""Continuation bytes of UTF-8."""


class HeadTailBuffer:
    """The first `head` and the last `tail` bytes of a stream."""

    def __init__(self, head: int, tail: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._head_room, self._tail_room = head, tail
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if free := self._head_room - len(self._head):
            self._head += data[:free]
            data = data[free:]
        self._tail += data[-self._tail_room :] if self._tail_room else b""
        if len(self._tail) > 2 * self._tail_room:  # rather than at every piece: it moves the rest
            del self._tail[: -self._tail_room]

    @property
    def cut(self) -> int:
        """Bytes that were left out between head and tail."""
        return max(0, self.total - self._head_room - self._tail_room)

    def text(self) -> str:
        """Return the buffered text, with a line that says how much was left out."""
        tail = self._tail[-self._tail_room :] if self._tail_room else bytearray()
        if not self.cut:
            return (self._head + tail).decode(errors="replace")
        head, tail = whole_characters(self._head), tail.lstrip(CONTINUATION_BYTES) if len(tail) > 4 else tail
        head, tail = head[: len(head) - _last_word(head)], tail[_first_word(tail) :]
        omission = f"[… {self.total - len(head) - len(tail):,} bytes omitted …]"
        return f"{head.decode(errors='replace')}\n{omission}\n{tail.decode(errors='replace')}"


def _last_word(data: bytes | bytearray) -> int:
    """Return the length of a possible first part of a key at the end: redaction would not recognize it."""
    length = len(data) - 1 - max(map(data.rfind, BLANK_BYTES))
    return length if MIN_PARTIAL_KEY_BYTES <= length <= min(MAX_PARTIAL_KEY_BYTES, len(data) - 1) else 0


def _first_word(data: bytes | bytearray) -> int:
    """Return the length of a possible last part of a key at the beginning."""
    length = min((at for at in map(data.find, BLANK_BYTES) if at >= 0), default=len(data))
    return length if MIN_PARTIAL_KEY_BYTES <= length <= min(MAX_PARTIAL_KEY_BYTES, len(data) - 1) else 0


OMISSION_LINE_BYTES = 64
"""Maximum bytes of the line about the omission."""


def shorten_middle(text: str, max_bytes: int) -> str:
    """Return the text, or its head and tail if it takes more than `max_bytes`."""
    # No character takes more than 4 bytes.
    if len(text) * 4 <= max_bytes or len(data := text.encode(errors="replace")) <= max_bytes:
        return text
    buffer = HeadTailBuffer((max_bytes - OMISSION_LINE_BYTES) // 2, (max_bytes - OMISSION_LINE_BYTES) // 2)
    buffer.add(data)
    return buffer.text()


class TailBuffer:
    """Last `max_bytes` of a stream; `seen` is the position in it where the next `read_new` begins."""

    def __init__(self, max_bytes: int) -> None:
        self._data, self._max_bytes = bytearray(), max_bytes
        self.total = self.seen = 0
        self._partial_word = b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data[-self._max_bytes :]
        if len(self._data) > 2 * self._max_bytes:
            del self._data[: -self._max_bytes]

    def read_new(self, final: bool) -> tuple[str, int]:
        """Return the text since the last call, and how many bytes of it are lost.

        Unless `final`, a partial character is held back. A word at the end is held back until the next call: redaction
        would not recognize a key that is read in two halves.
        """
        fresh = bytes(self._data[max(0, len(self._data) - (self.total - self.seen)) :][-self._max_bytes :])
        lost = self.total - self.seen - len(fresh)
        if not final:
            fresh = whole_characters(fresh)
            partial = fresh[max(map(fresh.rfind, BLANK_BYTES)) + 1 :]
            if partial != self._partial_word and len(partial) <= MAX_PARTIAL_KEY_BYTES:
                fresh = fresh.removesuffix(partial)
            self._partial_word = partial
        self.seen += lost + len(fresh)
        return fresh.decode(errors="replace"), lost

    def last_lines(self, lines: int) -> str:
        """Return the last `lines` buffered lines, already read or not."""
        parts = bytes(self._data[-self._max_bytes :]).split(b"\n")
        ends = parts[-1:] == [b""]  # the last line is complete
        return b"\n".join(parts[-lines - ends :]).decode(errors="replace")


def whole_characters(data: bytes | bytearray) -> bytes:
    """Return `data` without an incomplete character at its end."""
    for back in range(1, min(4, len(data) + 1)):
        lead = data[-back]
        if lead >= 0xC0:
            needs = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return bytes(data[:-back] if needs > back else data)
        if lead < 0x80:
            break
    return bytes(data)
