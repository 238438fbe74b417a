"""Pack the postings of a segment into blocks of words, and its documents into rows; read both again.

A block holds words in the order of their bytes, with a line break before and behind each. The list of a word has the
numbers of the documents that have it, counted from the first of the segment. The times of a word say how often each
of them has it, for recall; 0 stands for a word that recall leaves out.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, NamedTuple

from ikigai.core.events.codec import SEARCHED_KINDS
from ikigai.core.search.lexer import PAIR_JOINER
from ikigai.core.search.query import IndexKey, MatchMode

MAX_TIMES = 15
"""Limit of how often a document is said to have a word."""
BLOCK_BYTES = 4_000
"""Size of the words and lists of a block from which on it is full: then it needs no second page."""
BREAK = "\n"
_STEPS_BITS = 4  # a length has this many bits behind its first one in its code


def is_word(key: str) -> bool:
    """Return False for two words in a row, and for a kind of events."""
    return PAIR_JOINER not in key and key[0] != "#"


class Postings(NamedTuple):
    """The documents that have a word, ascending, and how often each has it."""

    numbers: list[int]
    times: bytes


class PackedPostings(NamedTuple):
    """The postings of a word in a block: the times are one byte where all are the same."""

    numbers: bytes
    times: bytes


class IndexedDocument(NamedTuple):
    """A piece of an event: its first character, its characters, and its kind by the place among SEARCHED_KINDS."""

    message: int
    start: int
    length: int
    kind: int

    @property
    def kind_name(self) -> str:
        return SEARCHED_KINDS[self.kind]


def length_code(length: int) -> int:
    """Return a length as one byte: exact up to 31, above it within 6 %."""
    exponent = max(0, length.bit_length() - _STEPS_BITS - 1)
    return min(255, (exponent << _STEPS_BITS) + (length >> exponent))


def coded_length(code: int) -> int:
    """Return the shortest length with this code."""
    exponent = max(0, (code >> _STEPS_BITS) - 1)
    return (code - (exponent << _STEPS_BITS)) << exponent


def pack_documents(documents: Iterable[IndexedDocument]) -> bytes:
    columns = zip(*documents, strict=True)
    return zlib.compress(b"".join(struct.pack(f"<{len(c)}{code}", *c) for c, code in zip(columns, "QIIB", strict=True)))


class Documents(Sequence[IndexedDocument]):
    """The documents of a row of `search_documents`."""

    def __init__(self, packed: bytes) -> None:
        raw = zlib.decompress(packed)
        self._count = len(raw) // struct.calcsize("<QIIB")
        self._values = struct.unpack(f"<{self._count}Q{2 * self._count}I{self._count}B", raw)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> IndexedDocument:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return IndexedDocument._make(self._values[place :: self._count])


def pack(numbers: Sequence[int], times: bytes) -> PackedPostings:
    """Pack ascending numbers: the first one in three bytes, and the steps from it, all in one, two or four bytes."""
    return _pack(numbers[0], [*map(sub, numbers[1:], numbers)], times)


def _pack(first: int, steps: Sequence[int], times: bytes) -> PackedPostings:
    most = max(steps, default=0)
    code = "B" if most < 1 << 8 else "H" if most < 1 << 16 else "I"
    numbers = code.encode() + first.to_bytes(3, "little") + struct.pack(f"<{len(steps)}{code}", *steps)
    return PackedPostings(numbers, times[:1] if times == times[:1] * len(times) else times)


def _split(numbers: bytes) -> tuple[int, Sequence[int]]:
    """Return the first number, and the steps from it."""
    code, first, steps = numbers[:1].decode(), int.from_bytes(numbers[1:4], "little"), numbers[4:]
    return first, steps if code == "B" else struct.unpack(f"<{len(steps) // struct.calcsize(f'<{code}')}{code}", steps)


def unpack_numbers(numbers: bytes, base: int = 0) -> Iterator[int]:
    """Yield the numbers, to each of which `base` is added."""
    first, steps = _split(numbers)
    return accumulate(steps, initial=base + first)


def unpack(packed: PackedPostings) -> Postings:
    numbers = [*unpack_numbers(packed.numbers)]
    return Postings(numbers, packed.times if len(packed.times) > 1 else packed.times * len(numbers))


def concatenate(parts: Sequence[tuple[int, PackedPostings]]) -> PackedPostings:
    """Join the postings of ascending parts of a segment; with each part comes what its numbers grow by."""
    base, (numbers, times) = parts[0]
    first, more = _split(numbers)
    if len(parts) == 1:  # most words are in one of them alone
        return PackedPostings(numbers[:1] + (base + first).to_bytes(3, "little") + numbers[4:], times)
    steps, last = [*more], base + first + sum(more)
    every = [times if len(times) > 1 else times * (len(more) + 1)]
    for behind, (numbers, times) in parts[1:]:
        begin, more = _split(numbers)
        steps += (behind + begin - last, *more)
        last = behind + begin + sum(more)
        every.append(times if len(times) > 1 else times * (len(more) + 1))
    return _pack(base + first, steps, b"".join(every))


def pack_words(postings: Mapping[str, PackedPostings]) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield the blocks of these words as rows of `search_postings`: the first word, all, numbers, times.

    A word with a long list has a block of its own.
    """
    blocks, size = list[list[str]](), BLOCK_BYTES
    for word in sorted(postings):
        more = len(word) + sum(map(len, postings[word]))
        if size + more > BLOCK_BYTES:
            blocks.append([])
            size = 0
        blocks[-1].append(word)
        size += more
    for words in blocks:
        numbers, times = (_pack_lists(column) for column in zip(*(postings[word] for word in words), strict=True))
        yield words[0], BREAK + BREAK.join(words) + BREAK, numbers, times


def _pack_lists(lists: Sequence[bytes]) -> bytes:
    return zlib.compress(struct.pack(f"<{len(lists)}I", *map(len, lists)) + b"".join(lists))


def _unpack_lists(packed: bytes, count: int, places: Sequence[int]) -> list[bytes]:
    """Return the lists at these places, of a block with `count` words."""
    raw = zlib.decompress(packed)
    ends = list(accumulate(struct.unpack_from(f"<{count}I", raw), initial=4 * count))
    return [raw[ends[place] : ends[place + 1]] for place in places]


def read_numbers(words: str, numbers: bytes, key: IndexKey) -> list[bytes]:
    """Return the packed numbers of each word in a block that matches a key."""
    text = key.text
    if key.how is MatchMode.WHOLE:
        found = [words.count(BREAK, 0, words.index(BREAK + text + BREAK))]
    else:
        # What has two common words in a row has each of them: most words that begin so may be such pairs.
        found = [
            place
            for place, word in enumerate(words[1:-1].split(BREAK))
            if (word.startswith(text) if key.how is MatchMode.START else text in word) and is_word(word)
        ]
    return _unpack_lists(numbers, words.count(BREAK) - 1, found)


def read_words(block: Sequence[Any], wanted: Iterable[str] | None = None) -> dict[str, PackedPostings]:
    """Return the postings of the wanted words that a block has (words, numbers, times); of all of its words
    without any.
    """
    words, *lists = block
    each = words[1:-1].split(BREAK)
    places: Sequence[int] = range(len(each))
    if wanted is not None:
        found = [words.find(BREAK + word + BREAK) for word in wanted]
        places = [words.count(BREAK, 0, at) for at in found if at >= 0]
    columns = [_unpack_lists(packed, len(each), places) for packed in lists]
    return dict(zip((each[place] for place in places), map(PackedPostings, *columns), strict=True))
