"""Tool results as a model sees them: cut when they are long, masked when they are old. The log keeps the whole text.

A result is capped once, when it comes (`capped`). Of a turn's results the first few and the last few stay readable,
those between are masked (`masked`, `edge`); the edge advances in steps, so that the prefix of a request does not change
with every call. Both are idempotent and never make a text longer.
"""

import re

from ikigai.core.record import Record
from ikigai.core.tokens import BYTES_PER_TOKEN


class Caps(Record, frozen=True):
    """How much of a turn's tool results a model sees (`[context]`): tokens of one result, which part of it is kept.

    Both `keep_first` and `keep_last` 0 mean that nothing is masked.
    """

    most: int = 8000
    part: str = "head"  # "head", "tail" or "both"
    keep_first: int = 2
    keep_last: int = 5


class Ends(Record, frozen=True):
    """What is read of a text that takes more than `most` bytes: so many characters of its head and of its tail."""

    most: int
    head: int
    tail: int


LITTLE = 1 << 16
"""Bytes that may be read in vain: of a text that is not much longer than what is needed of it, all is read."""


def ends(caps: Caps) -> Ends:
    """What `capped` takes of a text: all the same becomes of these ends, and the size of the whole."""
    room = caps.most * BYTES_PER_TOKEN  # no character takes less than a byte
    head, tail = {"tail": (0, room), "both": (room // 2, room // 2)}.get(caps.part, (room, 0))
    return Ends(room + LITTLE, head, tail)


def capped(text: str, caps: Caps, whole: str = "", size: int = 0) -> str:
    """The text, or what is kept of it with a line that says so; `whole` says where the rest is.

    `size` is that of all in bytes, where the text is but its `ends`. A cut that would not save as much again as its own
    line takes is not made.
    """
    room = caps.most * BYTES_PER_TOKEN
    if len(text) * 4 <= room:  # no character takes more than 4 bytes
        return text
    data = text.encode(errors="surrogatepass")
    size = size or len(data)
    line = {"tail": "last", "both": "first+last"}.get(caps.part, "first")
    total = size // BYTES_PER_TOKEN
    line = f"[truncated: kept {line} ~{caps.most} of ~{total} tokens ({caps.part})]{whole}"
    if size <= room + 2 * (len(line.encode()) + 4):
        return text
    match caps.part:
        case "tail":
            return f"{line}\n\n{_last(data, room)}"
        case "both":
            return f"{_first(data, room // 2)}\n\n{line}\n\n{_last(data, room // 2)}"
        case _:
            return f"{_first(data, room)}\n\n{line}"


def _first(data: bytes, most: int) -> str:
    return data[:most].decode(errors="ignore")


def _last(data: bytes, most: int) -> str:
    return data[len(data) - most :].decode(errors="ignore")


def masked(text: str, whole: str = "") -> str:
    """What stands for an old result."""
    size = len(text.encode(errors="surrogatepass"))
    mask = f"[result masked — ~{size // BYTES_PER_TOKEN} tokens removed]{whole}"
    return text if MASKED.fullmatch(text.removesuffix(whole)) or len(mask.encode()) >= size else mask


MASKED = re.compile(r"\[result masked — ~\d+ tokens removed\]")
MASK = len("[result masked — ~0 tokens removed]")


def edge(results: int, caps: Caps) -> int:
    """How many of a turn's results, counted from its first, lie before the masked edge: [keep_first, edge) are masked.

    It moves by `keep_last` at a time, at least by one, and never leaves fewer than `keep_last` behind it.
    """
    if not caps.keep_first and not caps.keep_last:
        return 0
    step = max(1, caps.keep_last)
    return caps.keep_first + max(0, results - caps.keep_first - caps.keep_last) // step * step
