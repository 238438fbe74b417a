"""Rank documents by their words and by those of the documents beside them.

Of the documents that may be the best only those are read with their neighbors that are likely to be among the best
then, too. Reading all of them, and weighing all their neighbors, took half of the time of a long question.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ikigai.store.driver_connection import Cursor
from ikigai.store.search.postings import Documents
from ikigai.store.search.ranking import Ranking
from ikigai.store.sql import search as queries

NEIGHBOR_WEIGHT = 0.5
"""Share of the better neighbor's score that is added to that of a message."""
USER_WEIGHT = 1.15
"""Factor for the score of a user's message."""

Pair: TypeAlias = tuple[int, int]
"""Numbers of two documents that stand beside each other in their agent."""


class ScoredDocument(NamedTuple):
    """A document that may be among the best: its event, where it begins in it, and its kind. `score` ranks it."""

    number: int
    message: int
    start: int
    kind: str
    score: float
    word_score: float
    own_score: float


class _RankedDocument(NamedTuple):
    """A document of the index: number, event, where it begins in it, kind."""

    number: int
    message: int
    start: int
    kind: str


def likely_best(ranking: Ranking, most: int) -> tuple[dict[int, float], list[int]]:
    """Return the scores of documents that may be the best, and the numbers of the `most` of them that are likely to be
    it with their neighbors.

    Those are taken to have the numbers beside theirs, and not looked up.
    """
    own = ranking.scores(ranking.candidates())
    if len(own) <= most:
        return own, list(own)

    def known(number: int) -> float:
        return own[number] if number in own else ranking.summed(number)

    totals = [(own[n] + NEIGHBOR_WEIGHT * max(known(n - 1), known(n + 1)), n) for n in own]
    totals.sort(reverse=True)
    return own, sorted(number for _, number in totals[:most])


class _DocumentRow(NamedTuple):
    """Documents of an agent in a row."""

    first: int
    documents: Documents

    def document(self, number: int) -> _RankedDocument:
        found = self.documents[number - self.first]
        return _RankedDocument(number, found.message, found.start, found.kind_name)

    def beside(self, ranking: Ranking, number: int, step: int) -> int | None:
        """Return the next document in this direction that recall ranks; None if there is none in this row."""
        while 0 <= (number := number + step) - self.first < len(self.documents):
            if ranking.length(number):
                return number
        return None


async def read_near(
    cursor: Cursor, ranking: Ranking, numbers: Sequence[int]
) -> tuple[list[_RankedDocument], list[Pair]]:
    """Return these documents and those beside them, and which of them stand beside each other.

    Mostly they are in the same row. At its ends the next row of the agent is read.
    """
    await cursor.execute(queries.DOCUMENTS_AT, (_array(numbers),), prepare=False)
    rows = {first: _DocumentRow(first, Documents(packed)) for first, packed in await cursor.fetchall()}
    firsts, found, pairs = sorted(rows), dict[int, _RankedDocument](), list[Pair]()
    ends: list[tuple[int, int, int]] = []
    for number in numbers:
        row = rows[firsts[bisect_right(firsts, number) - 1]]
        found[number] = row.document(number)
        for step in (-1, 1):
            if (near := row.beside(ranking, number, step)) is None:
                ends.append((number, row.first, step))
            else:
                found[near] = row.document(near)
                pairs.append((number, near))
    if ends:
        await cursor.execute(queries.DOCUMENTS_BESIDE, (list({first for _, first, _ in ends}),), prepare=False)
        next_rows = {
            (of, 1 if first > of else -1): _DocumentRow(first, Documents(packed))
            for of, first, packed in await cursor.fetchall()
        }
        for number, first, step in ends:
            if row := next_rows.get((first, step)):
                end = row.first - 1 if step > 0 else row.first + len(row.documents)
                if (near := row.beside(ranking, end, step)) is not None:
                    found[near] = row.document(near)
                    pairs.append((number, near))
    return list(found.values()), pairs


def _array(numbers: Sequence[int]) -> str:
    """Return numbers as an array of PostgreSQL. The driver takes two milliseconds to make one of a thousand."""
    return f"{{{','.join(map(str, numbers))}}}"


def best_beside(pairs: Sequence[Pair], scores: Mapping[int, float]) -> dict[int, float]:
    """Return the better score of those beside each document; one that has none counts as 0."""
    found: dict[int, float] = {}
    for one, other in pairs:
        of_one, of_other = scores.get(one, 0.0), scores.get(other, 0.0)
        found[one] = max(of_other, found.get(one, of_other))
        found[other] = max(of_one, found.get(other, of_one))
    return found


def with_neighbors(
    ranking: Ranking, own: Mapping[int, float], documents: Sequence[_RankedDocument], pairs: Sequence[Pair]
) -> list[ScoredDocument]:
    """Return the documents with the scores of their neighbors added, best first. `own` are scores that are known."""
    scores = {**own, **ranking.scores(document.number for document in documents if document.number not in own)}
    nearest = best_beside(pairs, scores)
    found: list[ScoredDocument] = []
    for document in documents:
        score = scores.get(document.number)
        if score is not None and (total := score + NEIGHBOR_WEIGHT * nearest.get(document.number, 0.0)) > 0:
            weighed = total * (USER_WEIGHT if document.kind == "user" else 1.0)
            found.append(ScoredDocument(*document, weighed, weighed, score))
    return sorted(found, key=_order)


def _order(document: ScoredDocument) -> tuple[float, int, int]:
    return -round(document.score, 9), -document.message, document.start
