"""Rank documents by BM25 over the postings of the words that have a stem.

The stems that say most are added up for every document that has them. What the common stems add is looked up for the
best of these alone, so that a common word costs no more than a rare one. Where there are hardly any rare stems,
documents that have several of the common ones count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate, chain, compress
from math import log
from typing import NamedTuple

from ikigai.store.search.postings import MAX_TIMES, Postings, coded_length
from ikigai.store.search.stems import QueryWord

SATURATION, LENGTH_WEIGHT = 1.2, 0.75
"""The parameters k1 and b of BM25."""
MAX_SUMMED_POSTINGS = 20_000
"""Postings of the rarest stems, which are added up one by one; all others are looked up."""
MAX_HAVING_ALL = 5_000
"""Documents that have all of some common stems: if there are more, one stem more is asked for."""
SAMPLED_POSTINGS = 1_000
"""Postings of a stem by which the weight of the heaviest ones is inferred."""
MAX_SUMMED_LOOKUPS = 10_000
"""Look-ups of further stems in those documents before the best of them are chosen."""
MAX_CANDIDATES = 400
"""Documents for which all stems are looked up."""


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


class Segment(NamedTuple):
    """The first document of a segment, the codes of the lengths of its documents, 0 for those that do not count, and
    postings by words of the question."""

    first: int
    lengths: bytes
    stems: Mapping[str, Postings]


def union(words: Iterable[Postings]) -> Postings:
    """Join the postings of several words as if they were one word, without what recall leaves out."""
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
    mean length. `sums` are the scores by the stems that were summed up.
    """

    def __init__(self, segments: Sequence[Segment], counts: Mapping[str, int], documents: int, average: float) -> None:
        self._documents, self._segments, self._weights = documents, segments, _weights(average)
        self._firsts = [segment.first for segment in segments]
        self._frequency = {
            stem: total for stem in counts if (total := sum(len(postings.numbers) for _, postings in self._of(stem)))
        }
        self._weight = {stem: counts[stem] * stem_weight(documents, n) for stem, n in self._frequency.items()}
        self.sums: dict[int, float] = {}
        self._partly: list[str] = []  # stems that are summed up for the documents in `sums` alone
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
        sums = self.sums
        for stem in stems[:rare]:
            for segment in self._of(stem):
                for number, each in self._weighed(*segment):
                    sums[number] = sums.get(number, 0.0) + self._weight[stem] * each
        left = stems[rare:]
        return self._sum_common(left) if left and len(sums) < MAX_CANDIDATES else left

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
        numbers = sorted({*having, *self.sums})
        taken = max(taken, min(len(stems), MAX_SUMMED_LOOKUPS // len(numbers))) if numbers else 0
        self.sums = {number: self.sums.get(number, 0.0) for number in numbers}
        self._partly = stems[:taken]
        self._look_up(self._partly, numbers, self.sums)
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
        return ((first + n, weights[times << 8 | lengths[n]]) for n, times in pairs if lengths[n])

    def _those_having(self, stem: str, numbers: list[int]) -> list[int]:
        """Return the given documents, which ascend, that have this stem."""
        found: list[int] = []
        for segment, postings in self._of(stem):
            having = set(postings.numbers)
            found += [n for n in self._within(segment, numbers) if n - segment.first in having]
        return found

    def _within(self, segment: Segment, numbers: list[int]) -> list[int]:
        """Return the given documents, which ascend, that are in a segment."""
        return numbers[bisect_left(numbers, segment.first) : bisect_left(numbers, segment.first + len(segment.lengths))]

    def length(self, number: int) -> int:
        """Return the code of the length of a document, 0 for one that recall leaves out."""
        segment = self._segments[bisect_right(self._firsts, number) - 1]
        return segment.lengths[number - segment.first]

    def word_weights(self, words: Iterable[QueryWord]) -> list[float]:
        """Return what each word of the question weighs. A message of average length with each word scores their sum."""
        return [word.times * stem_weight(self._documents, self._frequency.get(word.word, 0)) for word in words]

    def candidates(self) -> list[int]:
        """Return the numbers of the documents that may be the best."""
        sums = self.sums
        least = min(nlargest(MAX_CANDIDATES, sums.values()), default=0.0)  # a key for each would take twice the time
        best = sorted((number for number, total in sums.items() if total >= least), key=lambda n: (-sums[n], n))
        return best[:MAX_CANDIDATES]

    def scores(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return the BM25 scores of the given documents over all stems, ascending by number."""
        found = {number: self.sums.get(number, 0.0) for number in sorted(numbers) if self.length(number)}
        self._look_up(self._looked_up, list(found), found)
        if self._partly:
            self._look_up(self._partly, [number for number in found if number not in self.sums], found)
        return found

    def _look_up(self, stems: Iterable[str], numbers: list[int], found: dict[int, float]) -> None:
        """Add what these stems weigh in each of these documents, which ascend."""
        for stem in stems:
            for segment, (having, times) in self._of(stem):
                place = 0
                for number in self._within(segment, numbers):
                    wanted = number - segment.first
                    place = bisect_left(having, wanted, place)
                    if place == len(having):
                        break
                    if having[place] == wanted:
                        weight = self._weights[times[place] << 8 | segment.lengths[wanted]]
                        found[number] += self._weight[stem] * weight
