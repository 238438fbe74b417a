"""Cut long tool results and mask old ones for the model. The log keeps the whole text.

A result is capped once, when it comes (`cap_result`). The first few and the last few results of a turn stay readable.
Those between are masked (`mask_result`, `masked_edge`). The edge advances in steps, so that the prefix of a request
does not change with every call. Both are idempotent and never make a text longer.
"""

import re

from ikigai.core.events.record import Record
from ikigai.core.text.tokens import BYTES_PER_TOKEN


class ToolResultLimits(Record, frozen=True):
    """The part of a turn's tool results that a model sees (`[context]`): `max_tokens` tokens of one result, `part` of
    it.

    `part` is "head", "tail" or "both". If both `keep_first` and `keep_last` are 0, nothing is masked.
    """

    max_tokens: int = 8000
    part: str = "head"
    keep_first: int = 2
    keep_last: int = 5


class TextEnds(Record, frozen=True):
    """The part to read of a text that takes more than `max_bytes` bytes: characters of its `head` and of its `tail`."""

    max_bytes: int
    head: int
    tail: int


SHORT_READ_BYTES = 1 << 16
"""Bytes that may be read in vain: a text that is not much longer than its needed part is read whole."""


def ends_to_read(limits: ToolResultLimits) -> TextEnds:
    """Return the ends of a text that `cap_result` needs: they and the size give the same result as the whole text."""
    room = limits.max_tokens * BYTES_PER_TOKEN  # no character takes less than a byte
    head, tail = {"tail": (0, room), "both": (room // 2, room // 2)}.get(limits.part, (room, 0))
    return TextEnds(room + SHORT_READ_BYTES, head, tail)


def cap_result(text: str, limits: ToolResultLimits, pointer: str = "", size: int = 0) -> str:
    """Return the text, or its kept part with a line that says so; `pointer` says where the rest is.

    `size` is the size of the whole text in bytes, if `text` holds only its ends. The text is not cut if that would not
    save at least twice the line.
    """
    room = limits.max_tokens * BYTES_PER_TOKEN
    if len(text) * 4 <= room:  # no character takes more than 4 bytes
        return text
    data = text.encode(errors="surrogatepass")
    size = size or len(data)
    kept = {"tail": "last", "both": "first+last"}.get(limits.part, "first")
    line = (
        f"[truncated: kept {kept} ~{limits.max_tokens} of ~{size // BYTES_PER_TOKEN} tokens ({limits.part})]{pointer}"
    )
    if size <= room + 2 * (len(line.encode()) + 4):
        return text
    if limits.part == "both":
        return f"{_first(data, room // 2)}\n\n{line}\n\n{_last(data, room // 2)}"
    return f"{line}\n\n{_last(data, room)}" if limits.part == "tail" else f"{_first(data, room)}\n\n{line}"


def _first(data: bytes, length: int) -> str:
    return data[:length].decode(errors="ignore")


def _last(data: bytes, length: int) -> str:
    return data[len(data) - length :].decode(errors="ignore")


def mask_result(text: str, pointer: str = "") -> str:
    """Return the replacement of an old result."""
    size = len(text.encode(errors="surrogatepass"))
    mask = f"[result masked — ~{size // BYTES_PER_TOKEN} tokens removed]{pointer}"
    return text if MASKED_RESULT.fullmatch(text.removesuffix(pointer)) or len(mask.encode()) >= size else mask


MASKED_RESULT = re.compile(r"\[result masked — ~\d+ tokens removed\]")
MASK_START = len("[result masked — ~0 tokens removed]")


def masked_edge(results: int, limits: ToolResultLimits) -> int:
    """Return the masked edge of a turn with this many results: those in [keep_first, edge) are masked.

    The edge moves by `keep_last` at a time, at least by one. It never leaves fewer than `keep_last` behind it.
    """
    if not limits.keep_first and not limits.keep_last:
        return 0
    step = max(1, limits.keep_last)
    return limits.keep_first + max(0, results - limits.keep_first - limits.keep_last) // step * step
