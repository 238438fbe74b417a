"""Rank documents by BM25 over the postings of the words that have a stem.

The stems that say most are added up for every document that has them. What the common stems add is looked up for the
best of these alone, so that a common word costs no more than a rare one. Where there are hardly any rare stems,
documents that have several of the common ones count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate, chain, compress
from math import log
from typing import NamedTuple

from ikigai.store.search.postings import MAX_TIMES, Postings, coded_length
from ikigai.store.search.stems import QueryWord

SATURATION, LENGTH_WEIGHT = 1.2, 0.75
"""The parameters k1 and b of BM25."""
MAX_SUMMED_POSTINGS = 20_000
"""Postings that are added up one by one, those of the rarest stems; all others are looked up."""
MAX_HAVING_ALL = 5_000
"""Documents that have all of some common stems: if there are more, one stem more is asked for."""
SAMPLED_POSTINGS = 1_000
"""Postings of a stem by which the weight of the heaviest ones is inferred."""
MAX_SUMMED_LOOKUPS = 10_000
"""Look-ups of further stems in those documents before the best of them are chosen."""
MAX_CANDIDATES = 400
"""Documents for which all stems are looked up."""


@lru_cache(maxsize=4)
def _weights(average: float) -> list[float]:
    """Return the weight of each pair of a count and the code of a length, without the stem's own."""
    found = [0.0] * (MAX_TIMES + 1 << 8)
    for code in range(1, 256):
        norm = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * coded_length(code) / average)
        for count in range(1, MAX_TIMES + 1):
            found[count << 8 | code] = count * (SATURATION + 1) / (count + norm)
    return found


def stem_weight(documents: int, having: int) -> float:
    """Return the weight of a stem that `having` of all documents have."""
    return log(1 + (max(documents, having) - having + 0.5) / (having + 0.5))


class Run(NamedTuple):
    """Numbers of documents, from the first to the last."""

    first: int
    last: int


class Segment(NamedTuple):
    """The first document of a segment, the codes of the lengths of its documents, and postings by words of
    the question."""

    first: int
    lengths: bytes
    stems: Mapping[str, Postings]


def union(words: Iterable[Postings]) -> Postings:
    """Return the postings of several words as those of one, without what recall leaves out."""
    counted = [
        Postings(list(compress(numbers, times)), times.replace(b"\0", b"")) if 0 in times else Postings(numbers, times)
        for numbers, times in words
    ]
    largest, *others = sorted(counted, key=lambda each: -len(each.numbers))
    if not others:
        return largest
    found = dict(zip(*largest, strict=True))
    for number, times in chain.from_iterable(zip(*each, strict=True) for each in others):
        found[number] = min(MAX_TIMES, found.get(number, 0) + times)
    numbers = sorted(found)
    return Postings(numbers, bytes(map(found.__getitem__, numbers)))


class Ranking:
    """Scores of documents for one question.

    `segments` ascend. `counts` says how often the question has each stem. `documents` is their number, `average` their
    mean length. With `runs`, ascending, no other documents count.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        counts: Mapping[str, int],
        documents: int,
        average: float,
        runs: Sequence[Run] | None = None,
    ) -> None:
        self._documents, self._segments = documents, segments
        self._weights = _weights(average)
        self._frequency = {
            stem: total for stem in counts if (total := sum(len(postings.numbers) for _, postings in self._of(stem)))
        }
        self._weight = {stem: counts[stem] * stem_weight(documents, n) for stem, n in self._frequency.items()}
        self._runs = runs
        self._masks: dict[int, bytearray] = {}
        self._sums: dict[int, float] = {}
        self._partly: list[str] = []  # stems that are summed up for the documents in `_sums` alone
        self._looked_up = self._sum_rarest()

    def _of(self, stem: str) -> Iterable[tuple[Segment, Postings]]:
        """Yield the segments with documents that have a stem, and its postings there."""
        return ((segment, segment.stems[stem]) for segment in self._segments if stem in segment.stems)

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
        least, frequency = 0.0, self._frequency[stem]
        if frequency > MAX_SUMMED_POSTINGS:
            step = max(1, frequency // SAMPLED_POSTINGS)
            sample = [weight for segment in self._of(stem) for _, weight in self._weighed(*segment, step)]
            least = min(nlargest(MAX_SUMMED_POSTINGS // step, sample), default=0.0)
        return [n for segment in self._of(stem) for n, weight in self._weighed(*segment) if weight >= least]

    def _weighed(self, segment: Segment, postings: Postings, step: int = 1) -> Iterator[tuple[int, float]]:
        """Yield the documents that count and what a stem weighs in each, without the stem's own weight."""
        first, lengths, weights = segment.first, segment.lengths, self._weights
        pairs = zip(postings.numbers[::step], postings.times[::step], strict=True)
        if self._runs is None:
            return ((first + n, weights[times << 8 | lengths[n]]) for n, times in pairs)
        mask = self._mask(segment)
        return ((first + n, weights[times << 8 | lengths[n]]) for n, times in pairs if mask[n])

    def _those_having(self, stem: str, numbers: list[int]) -> list[int]:
        """Return those of these documents, which ascend, that have this stem."""
        found: list[int] = []
        for segment, postings in self._of(stem):
            having = set(postings.numbers)
            found += [n for n in self._within(segment, numbers) if n - segment.first in having]
        return found

    def _within(self, segment: Segment, numbers: list[int]) -> list[int]:
        """Return those of these documents, which ascend, that are in a segment."""
        return numbers[bisect_left(numbers, segment.first) : bisect_left(numbers, segment.first + len(segment.lengths))]

    def length(self, number: int) -> int:
        """Return the code of the length of a document, 0 for one that recall leaves out."""
        segment = self._segments[bisect_right(self._segments, number, key=_first) - 1]
        return segment.lengths[number - segment.first]

    def word_weights(self, words: Iterable[QueryWord]) -> list[float]:
        """Return what each word of the question weighs. A message of average length with each word scores their sum."""
        return [word.times * stem_weight(self._documents, self._frequency.get(word.word, 0)) for word in words]

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
        sums, before, weight = self._sums, self._sums.get, self._weight[stem]
        for segment in self._of(stem):
            for number, each in self._weighed(*segment):
                sums[number] = before(number, 0.0) + weight * each

    def _mask(self, segment: Segment) -> bytearray:
        """Return a byte for each document of a segment, 1 where it counts."""
        assert self._runs is not None
        if segment.first not in self._masks:
            count = len(segment.lengths)
            mask = self._masks[segment.first] = bytearray(count)
            place = max(0, bisect_left(self._runs, segment.first, key=_first) - 1)
            for run in self._runs[place : bisect_left(self._runs, segment.first + count, key=_first)]:
                low, high = max(run.first - segment.first, 0), min(run.last + 1 - segment.first, count)
                if low < high:
                    mask[low:high] = b"\1" * (high - low)
        return self._masks[segment.first]

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
        """Add what this stem weighs in each of these documents, which ascend."""
        weight, weights = self._weight[stem], self._weights
        for segment, (having, times) in self._of(stem):
            place = 0
            for number in self._within(segment, numbers):
                wanted = number - segment.first
                place = bisect_left(having, wanted, place)
                if place == len(having):
                    break
                if having[place] == wanted:
                    found[number] += weight * weights[times[place] << 8 | segment.lengths[wanted]]


def _first(row: Run | Segment) -> int:
    return row.first
