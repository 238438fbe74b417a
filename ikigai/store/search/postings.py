"""This module ranks documents by BM25 over postings, the packed lists of the documents that have a stem.

A posting is four bytes: the number of the document, counted from the last multiple of 4,096 at the first of its part
(two bytes), how often it has the stem, and its length as a code. The stems that say most are added up for every
document that has them. What the common stems add is looked up for the best of these alone, so that a common word costs
no more than a rare one.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from math import log
from typing import NamedTuple

from ikigai.store.search.stems import QueryWord

BLOCK_BITS = 12
"""Documents of a block, as a power of two: no part of the index reaches beyond it while it is filled."""
LARGE_BLOCK_BITS = 16
"""Documents of a large block: full blocks in it are joined to one part. Two bytes hold their numbers."""
MAX_COUNT = 15
"""Limit of how often a document is said to have a stem."""
SATURATION, LENGTH_WEIGHT = 1.2, 0.75
"""The parameters k1 and b of BM25."""
MAX_SUMMED_POSTINGS = 20_000
"""Postings that are added up one by one, but for those of the rarest stem; all others are looked up."""
MAX_CANDIDATES = 400
"""Documents for which all stems are looked up."""

_STEPS_BITS = 4  # a length has this many bits behind its first one in its code


def length_code(length: int) -> int:
    """Return a length as one byte: exact up to 31, above it within 6 %."""
    exponent = max(0, length.bit_length() - _STEPS_BITS - 1)
    return min(255, (exponent << _STEPS_BITS) + (length >> exponent))


def coded_length(code: int) -> int:
    """Return the shortest length with this code."""
    exponent = max(0, (code >> _STEPS_BITS) - 1)
    return (code - (exponent << _STEPS_BITS)) << exponent


def pack(number: int, count: int, length: int) -> bytes:
    """Return the posting of the document with this number."""
    within = number & (1 << BLOCK_BITS) - 1
    return bytes((within >> 8, within & 255, min(count, MAX_COUNT), length_code(length)))


def part_base(part: int) -> int:
    """Return the number that those in the postings of a part count from."""
    return part >> BLOCK_BITS << BLOCK_BITS


def move(postings: bytes, part: int, to: int) -> bytes:
    """Return postings of a part as those of another one in the same large block."""
    steps = part_base(part) - part_base(to) << 16
    moved = array("I", [posting + steps for posting in unpack(postings)])
    if sys.byteorder == "little":
        moved.byteswap()
    return moved.tobytes()


def unpack(postings: bytes) -> "array[int]":
    found = array("I", postings)
    if sys.byteorder == "little":
        found.byteswap()
    return found


@lru_cache(maxsize=4)
def _weights(average: float) -> list[float]:
    """Return the weight of each pair of a count and the code of a length, without the stem's own."""
    found = [0.0] * (MAX_COUNT + 1 << 8)
    for code in range(256):
        norm = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * coded_length(code) / average)
        for count in range(1, MAX_COUNT + 1):
            found[count << 8 | code] = count * (SATURATION + 1) / (count + norm)
    return found


def stem_weight(documents: int, having: int) -> float:
    """Return the weight of a stem that `having` of all documents have."""
    return log(1 + (max(documents, having) - having + 0.5) / (having + 0.5))


class Run(NamedTuple):
    """Numbers of documents, from the first to the last."""

    first: int
    last: int


def _first(run: Run) -> int:
    return run.first


class _StemPart(NamedTuple):
    """Postings of a stem in a part of the index, ascending, and the number that they count from."""

    base: int
    rows: "array[int]"


class Ranking:
    """Scores of documents for one question.

    `postings` are rows of stem, first document of the part, and postings, ascending. `counts` says how often the
    question has each stem. `documents` is their number, `average` their mean length. With `runs`, ascending, no other
    documents count.
    """

    def __init__(
        self,
        postings: Iterable[tuple[str, int, bytes]],
        counts: Mapping[str, int],
        documents: int,
        average: float,
        runs: Sequence[Run] | None = None,
    ) -> None:
        self._documents = documents
        self._parts: dict[str, list[_StemPart]] = {}
        for stem, part, packed in postings:
            if packed:
                self._parts.setdefault(stem, []).append(_StemPart(part_base(part), unpack(packed)))
        self._weights = _weights(average)
        self._frequency = {stem: sum(len(rows) for _, rows in parts) for stem, parts in self._parts.items()}
        self._weight = {stem: counts[stem] * stem_weight(documents, n) for stem, n in self._frequency.items()}
        self._runs = runs
        self._masks: dict[int, bytearray] = {}
        self._sums: dict[int, float] = {}
        self._looked_up = self._sum_rarest()

    def _sum_rarest(self) -> list[str]:
        """Add up what the rarest stems weigh in every document; return the stems that are left."""
        stems = sorted(self._weight, key=lambda stem: (self._frequency[stem], stem))
        summed = 0
        for place, stem in enumerate(stems):
            if self._sums and summed + self._frequency[stem] > MAX_SUMMED_POSTINGS:
                return stems[place:]
            summed += self._frequency[stem]
            self._add(stem)
        return []

    def word_weights(self, words: Iterable[QueryWord]) -> list[float]:
        """Return what each word of the question weighs: as much as the heaviest of its stems that are known."""
        unknown = stem_weight(self._documents, 0)
        return [
            max((self._weight[stem] for stem in word.stems if stem in self._weight), default=word.times * unknown)
            for word in words
        ]

    def candidates(self) -> list[int]:
        """Return the numbers of the documents that may be the best."""
        sums = self._sums
        least = min(nlargest(MAX_CANDIDATES, sums.values()), default=0.0)  # a key for each would take twice the time
        best = sorted((number for number, total in sums.items() if total >= least), key=lambda n: (-sums[n], n))
        return best[:MAX_CANDIDATES]

    def _add(self, stem: str) -> None:
        """Add what this stem weighs in each document."""
        sums, before, weight, weights = self._sums, self._sums.get, self._weight[stem], self._weights
        for base, rows in self._parts[stem]:
            if self._runs is None:
                for row in rows:
                    number = base + (row >> 16)
                    sums[number] = before(number, 0.0) + weight * weights[row & 0xFFF]
            elif mask := self._mask(base):
                for row in rows:
                    if mask[row >> 16]:
                        number = base + (row >> 16)
                        sums[number] = before(number, 0.0) + weight * weights[row & 0xFFF]

    def _mask(self, base: int) -> bytearray:
        """Return a byte for each document that a part counting from `base` can have, 1 where it counts; none if none
        does.
        """
        assert self._runs is not None
        if base not in self._masks:
            mask, end = bytearray(1 << LARGE_BLOCK_BITS), base + (1 << LARGE_BLOCK_BITS)
            place = max(0, bisect_left(self._runs, base, key=_first) - 1)
            for run in self._runs[place : bisect_left(self._runs, end, key=_first)]:
                low, high = max(run.first, base) - base, min(run.last + 1, end) - base
                if low < high:
                    mask[low:high] = b"\1" * (high - low)
            self._masks[base] = mask if 1 in mask else bytearray()
        return self._masks[base]

    def _counts(self, number: int) -> bool:
        """Return True if the document counts."""
        if self._runs is None:
            return True
        place = bisect_right(self._runs, number, key=_first)
        return place > 0 and number <= self._runs[place - 1].last

    def scores(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return the scores of those of these documents that count, by all stems, ascending by number."""
        found = {number: self._sums.get(number, 0.0) for number in sorted(numbers) if self._counts(number)}
        ascending = list(found)
        for stem in self._looked_up:
            self._look_up(stem, ascending, found)
        return found

    def _look_up(self, stem: str, numbers: list[int], found: dict[int, float]) -> None:
        """Add what this stem weighs in each of these documents, which ascend.

        Of documents that follow one another mostly the first alone is looked for: the posting behind it is that of a
        later one.
        """
        weight, weights = self._weight[stem], self._weights
        start = 0
        for base, rows in self._parts[stem]:
            end = bisect_right(numbers, base + (rows[-1] >> 16), start)
            place = 0
            for number in numbers[start:end]:
                wanted = number - base << 16
                if rows[place] < wanted:
                    place = bisect_left(rows, wanted, place + 1)
                if rows[place] - wanted < 1 << 16:
                    found[number] += weight * weights[rows[place] & 0xFFF]
            start = end


def pack_documents(documents: Sequence[tuple[int, Counter[str], int]]) -> dict[str, bytes]:
    """Return the postings of each stem; documents are number, stems with their counts, and length, ascending."""
    found: dict[str, bytearray] = {}
    for number, stems, length in documents:
        for stem, count in stems.items():
            found.setdefault(stem, bytearray()).extend(pack(number, count, length))
    return {stem: bytes(packed) for stem, packed in found.items()}
