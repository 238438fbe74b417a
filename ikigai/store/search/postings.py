"""Pack the postings of a segment into blocks of words, and its documents into rows; read both again.

A block holds words in the order of their bytes, with a line break before and behind each. The list of a word has the
numbers of the documents that have it, counted from the first of the segment: the first one, and the steps from each to
the next. The times of a word say how often each of them has it, for recall; 0 stands for a word that recall leaves out.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, NamedTuple, TypeVar

import msgspec

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
    """Return a row of `search_documents`."""
    return _pack([tuple(each) for each in documents])


def read_documents(packed: bytes) -> list[IndexedDocument]:
    return _unpack(packed, list[IndexedDocument])


def pack_words(words: Iterable[tuple[str, Postings]]) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield the blocks of these words, which ascend, as rows of `search_postings`: the first word, all, numbers, times.

    A word with a long list has a block of its own.
    """
    block, size = list[tuple[str, Postings]](), 0
    for word, postings in words:
        more = len(word) + 2 * len(postings.numbers)
        if block and size + more > BLOCK_BYTES:
            yield _pack_block(block)
            block, size = [], 0
        block.append((word, postings))
        size += more
    if block:
        yield _pack_block(block)


def _pack_block(block: Sequence[tuple[str, Postings]]) -> tuple[str, str, bytes, bytes]:
    words = [word for word, _ in block]
    steps = [[*map(sub, numbers, (0, *numbers))] for _, (numbers, _) in block]
    return words[0], BREAK + BREAK.join(words) + BREAK, _pack(steps), _pack([times for _, (_, times) in block])


def read_numbers(words: str, numbers: bytes, key: IndexKey) -> list[int]:
    """Return the numbers of each word in a block that matches a key, one word after the other."""
    lists = zip(words[1:-1].split(BREAK), _unpack(numbers, list[list[int]]), strict=True)
    return [number for word, steps in lists if _matches(word, key) for number in accumulate(steps)]


def _matches(word: str, key: IndexKey) -> bool:
    if key.how is MatchMode.WHOLE:
        return word == key.text
    # What has two common words in a row has each of them: most words that begin so may be such pairs.
    return (word.startswith(key.text) if key.how is MatchMode.START else key.text in word) and is_word(word)


def read_words(block: Sequence[Any], wanted: Collection[str] | None = None) -> Iterator[tuple[str, Postings]]:
    """Yield the words of a block (words, numbers, times), or the wanted ones, with their postings."""
    words, numbers, times = block
    lists = _unpack(numbers, list[list[int]]), _unpack(times, list[bytes])
    for word, steps, counts in zip(words[1:-1].split(BREAK), *lists, strict=True):
        if wanted is None or word in wanted:
            yield word, Postings([*accumulate(steps)], counts)


_T = TypeVar("_T")


def _pack(values: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(values))


def _unpack(packed: bytes, kind: type[_T]) -> _T:
    return msgspec.msgpack.decode(zlib.decompress(packed), type=kind)
