"""This module ranks documents by BM25 over postings, the packed lists of the documents that have a stem.

A posting is four bytes: the number of the document, counted from the last multiple of 4,096 at the first of its part
(two bytes), how often it has the stem, and its length as a code. The stems that say most are added up for every
document that has them. What the common stems add is looked up for the best of these alone, so that a common word costs
no more than a rare one. Where there are hardly any rare stems, documents that have several of the common ones count.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate
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
"""Postings that are added up one by one, those of the rarest stems; all others are looked up."""
MAX_HAVING_ALL = 5_000
"""Documents that have all of some common stems: if there are more, one stem more is asked for."""
SAMPLED_POSTINGS = 1_000
"""Postings of a stem by which the weight of the heaviest ones is inferred."""
DENSE_FACTOR = 8
"""Postings of a part for each document that is looked up: if there are fewer, going through all of them is faster."""
MAX_SUMMED_LOOKUPS = 10_000
"""Look-ups of further stems in those documents before the best of them are chosen."""
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


def _mark(numbers: list[int], base: int) -> bytearray:
    """Return a byte for each document that a part counting from `base` can have, 1 for these, which ascend."""
    mask = bytearray(1 << LARGE_BLOCK_BITS)
    for number in numbers[bisect_left(numbers, base) :]:
        mask[number - base] = 1
    return mask


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
        self._partly: list[str] = []  # stems that are summed up for the documents in `_sums` alone
        self._looked_up = self._sum_rarest()

    def _sum_rarest(self) -> list[str]:
        """Add up what the rarest stems weigh in every document; return the stems that are left.

        Where only a few documents have those, the common stems add documents of theirs.
        """
        stems = sorted(self._weight, key=lambda stem: (self._frequency[stem], stem))
        summed = list(accumulate(self._frequency[stem] for stem in stems))
        rare = bisect_right(summed, MAX_SUMMED_POSTINGS)
        for stem in stems[:rare]:
            self._add(stem)
        left = stems[rare:]
        return self._sum_common(left) if left and len(self._sums) < MAX_CANDIDATES else left

    def _sum_common(self, stems: list[str]) -> list[str]:
        """Add up what these stems weigh in documents that have several of them; return the stems that are left.

        Of the documents that have the rarest one, those count in which it weighs most. Where hardly any count, the next
        stems add theirs.
        """
        having, taken = self._heaviest(stems[0]), 1
        while len(having) < MAX_CANDIDATES and taken < len(stems):
            having, taken = sorted({*having, *self._heaviest(stems[taken])}), taken + 1
        while len(having) > MAX_HAVING_ALL and taken < len(stems):
            both = self._those_having(stems[taken], having)
            if len(both) < MAX_CANDIDATES:
                break
            having, taken = both, taken + 1
        numbers = sorted({*having, *self._sums})
        taken = max(taken, min(len(stems), MAX_SUMMED_LOOKUPS // len(numbers))) if numbers else 0
        self._sums = {number: self._sums.get(number, 0.0) for number in numbers}
        for stem in stems[:taken]:
            self._look_up(stem, numbers, self._sums)
        self._partly = stems[:taken]
        return stems[taken:]

    def _heaviest(self, stem: str) -> list[int]:
        """Return the documents that count in which a stem weighs most, about `MAX_SUMMED_POSTINGS`, ascending."""
        weights, parts = self._weights, self._parts[stem]
        least, frequency = 0.0, self._frequency[stem]
        if frequency > MAX_SUMMED_POSTINGS:
            step = max(1, frequency // SAMPLED_POSTINGS)
            sample = sorted((weights[row & 0xFFF] for _, rows in parts for row in rows[::step]), reverse=True)
            least = sample[len(sample) * MAX_SUMMED_POSTINGS // frequency]
        found: list[int] = []
        for base, rows in parts:
            if self._runs is None:
                found += [base + (row >> 16) for row in rows if weights[row & 0xFFF] >= least]
            elif mask := self._mask(base):
                found += [base + (row >> 16) for row in rows if mask[row >> 16]]
        return found

    def _those_having(self, stem: str, numbers: list[int]) -> list[int]:
        """Return those of these documents, which ascend, that have this stem."""
        found: list[int] = []
        start = 0
        for base, rows in self._parts[stem]:
            end = bisect_right(numbers, base + (rows[-1] >> 16), start)
            mask = _mark(numbers[start:end], base)
            found += [base + (row >> 16) for row in rows if mask[row >> 16]]
            start = end
        return found

    def word_weights(self, words: Iterable[QueryWord]) -> list[float]:
        """Return what each word of the question weighs: as much as the heaviest of its stems that are known.

        A message of average length with each word scores their sum: a stem that several words have counts for each.
        """
        return [word.times * stem_weight(self._documents, self._having_rarest(word)) for word in words]

    def _having_rarest(self, word: QueryWord) -> int:
        """Return how many documents have the rarest stem of a word, 0 if none is known."""
        return min((self._frequency[stem] for stem in word.stems if stem in self._frequency), default=0)

    def candidates(self) -> list[int]:
        """Return the numbers of the documents that may be the best."""
        sums = self._sums
        least = min(nlargest(MAX_CANDIDATES, sums.values()), default=0.0)  # a key for each would take twice the time
        best = sorted((number for number, total in sums.items() if total >= least), key=lambda n: (-sums[n], n))
        return best[:MAX_CANDIDATES]

    def summed(self, number: int) -> float:
        """Return what a document scores by the stems that were summed up, 0 if it has none of them."""
        return self._sums.get(number, 0.0)

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
        others = [number for number in ascending if number not in self._sums] if self._partly else []
        for stem in self._partly:
            self._look_up(stem, others, found)
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
            if len(rows) < DENSE_FACTOR * (end - start):
                mask = _mark(numbers[start:end], base)
                for row in [row for row in rows if mask[row >> 16]]:
                    found[base + (row >> 16)] += weight * weights[row & 0xFFF]
                start = end
                continue
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
