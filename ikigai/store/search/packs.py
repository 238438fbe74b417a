"""This module packs the words of a segment into blocks, and reads them.

    SegmentPack   collects the pieces of a segment and their words, and packs them
    merge_words   packs the words of several packs into one of the next level
    WordBlock     finds words in a block, and what it says of them

A block holds words in the order of their bytes. At level 0 the list of a word has the numbers of the pieces that have
it. Above it the list is a byte with a bit for each pack below.
"""

import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from ikigai.core.search.lexer import PAIR_JOINER
from ikigai.core.search.query import MatchMode

FANOUT_BITS = 3
"""Packs that one of the next level covers, as a power of two; `migrations/0023_packs.sql` contains it, too."""
MAX_LEVEL = 4
BLOCK_BYTES = 16_000
"""Size of the words and lists of a block from which on it is full."""
REST_OF_TEXT = 1 << 30
"""Characters of a piece that goes on to the end of its text: more than a text can have."""
_BREAK = b"\n"  # no word contains it
_JOINER = PAIR_JOINER.encode()


class Block(NamedTuple):
    """A row of `search_blocks`."""

    first: bytes
    words: bytes
    lists: bytes


class PackedPieces(NamedTuple):
    """The pieces of a segment, by their numbers: id less that of the segment, first character, number of characters."""

    offsets: Sequence[int]
    starts: Sequence[int]
    lengths: Sequence[int]


class SegmentPack:
    """The pieces of a segment and their words."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, int]] = []
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, offset: int, start: int, length: int, keys: Iterable[str]) -> None:
        """Add a piece of the text of an event, with the keys that it is found by; ascending."""
        number = len(self._pieces)
        self._pieces.append((offset, start, length))
        for key in keys:
            self._numbers[key].append(number)

    def pack_pieces(self) -> bytes:
        columns = tuple(zip(*self._pieces, strict=True)) or ((), (), ())
        count = len(self._pieces)
        packed = [struct.pack(f"<{count}{code}", *column) for code, column in zip("HII", columns, strict=True)]
        return zlib.compress(b"".join(packed))

    def pack_words(self) -> list[Block]:
        numbers = self._numbers
        return list(_blocks((word.encode(), _pack_numbers(numbers[word])) for word in sorted(numbers)))


def unpack_pieces(packed: bytes) -> PackedPieces:
    raw = zlib.decompress(packed)
    count = len(raw) // struct.calcsize("<HII")
    found = struct.unpack(f"<{count}H", raw[: 2 * count]), struct.unpack(f"<{2 * count}I", raw[2 * count :])
    return PackedPieces(found[0], found[1][:count], found[1][count:])


def _pack_numbers(numbers: Sequence[int]) -> bytes:
    """Pack ascending numbers as their differences, all in one, two or four bytes; the first byte says which."""
    steps = [numbers[0], *map(sub, numbers[1:], numbers)]
    most = max(steps)
    code = "B" if most < 1 << 8 else "H" if most < 1 << 16 else "I"
    return code.encode() + struct.pack(f"<{len(steps)}{code}", *steps)


def unpack_numbers(packed: bytes) -> Iterator[int]:
    code = packed[:1].decode()
    count = (len(packed) - 1) // struct.calcsize(f"<{code}")
    return accumulate(struct.unpack(f"<{count}{code}", packed[1:]))


def _blocks(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[Block]:
    words: list[bytes] = []
    lists: list[bytes] = []
    size = 0
    for word, packed in entries:
        words.append(word)
        lists.append(packed)
        size += len(word) + len(packed)
        if size >= BLOCK_BYTES:
            yield _block(words, lists)
            words, lists, size = [], [], 0
    if words:
        yield _block(words, lists)


def _block(words: Sequence[bytes], lists: Sequence[bytes]) -> Block:
    sizes = struct.pack(f"<{len(lists) + 1}I", len(lists), *map(len, lists))
    return Block(words[0], zlib.compress(_BREAK.join(words)), zlib.compress(sizes + b"".join(lists)))


class WordBlock:
    """A block that is read. Words are found by their places in it."""

    def __init__(self, words: bytes) -> None:
        self._text = _BREAK + zlib.decompress(words) + _BREAK

    def find(self, key: bytes, how: MatchMode) -> Iterator[int]:
        """Yield the places of the words that match a key, ascending."""
        text = self._text
        if how is MatchMode.PART:
            yield from self._containing(key)
        elif (at := text.find(_BREAK + key + _BREAK * (how is MatchMode.WHOLE))) >= 0:
            first = text.count(_BREAK, 0, at)
            if how is MatchMode.WHOLE:
                yield first
                return
            end = text.find(_BREAK, text.rfind(_BREAK + key) + 1)
            # What has two common words in a row has each of them: most words that begin so may be such pairs.
            for place, word in enumerate(text[at + 1 : end].split(_BREAK), first):
                if _JOINER not in word:
                    yield place

    def _containing(self, part: bytes) -> Iterator[int]:
        """Yield the places of the words that contain a part, without keys that are no words."""
        text, counted, place = self._text, 0, -1
        at = text.find(part)
        while at >= 0:
            place += text.count(_BREAK, counted, at)
            end = text.find(_BREAK, at)
            word = text[text.rfind(_BREAK, 0, at) + 1 : end]
            if not word.startswith((b"@", b"#")) and _JOINER not in word:
                yield place
            counted, at = at, text.find(part, end)

    def words(self) -> list[bytes]:
        return self._text[1:-1].split(_BREAK)


def read_lists(lists: bytes, places: Iterable[int]) -> list[bytes]:
    """Return the lists of the words at these places of a block."""
    raw = zlib.decompress(lists)
    (count,) = struct.unpack_from("<I", raw)
    ends = list(accumulate(struct.unpack_from(f"<{count}I", raw, 4), initial=4 + 4 * count))
    return [raw[ends[place] : ends[place + 1]] for place in places]


def merge_words(below: Mapping[int, Iterable[bytes]]) -> list[Block]:
    """Pack the words of packs: `below` has those of each by its place among the packs that the new one covers."""
    masks: defaultdict[bytes, int] = defaultdict(int)
    for place, words in below.items():
        bit = 1 << place
        for word in words:
            masks[word] |= bit
    return list(_blocks((word, masks[word].to_bytes(1, "little")) for word in sorted(masks)))
