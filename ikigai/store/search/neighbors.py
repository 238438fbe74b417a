"""Rank documents by their own words and the words of the documents beside them.

Read neighbors only for candidates that could still reach the top with them. Reading and weighing the neighbors of all
candidates took half of the time of a long question.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import chain
from typing import NamedTuple, TypeAlias

from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search.postings import IndexedDocument, read_documents
from ikigai.store.search.ranking import Ranking
from ikigai.store.sql import search as queries

NEIGHBOR_WEIGHT = 0.5
"""Share of the better neighbor's score that a message gets in addition to its own."""
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


def likely_best(ranking: Ranking, most: int) -> tuple[dict[int, float], list[int]]:
    """Return the scores of documents that may be the best, and the numbers of the `most` of them that are likely to be
    it with their neighbors.

    Those are taken to have the numbers beside theirs, and not looked up.
    """
    own = ranking.scores(ranking.candidates())
    known = {**ranking.sums, **own}
    totals = [(own[n] + NEIGHBOR_WEIGHT * max(known.get(n - 1, 0.0), known.get(n + 1, 0.0)), n) for n in own]
    return own, sorted(number for _, number in nlargest(most, totals))


async def read_near(
    cursor: Cursor, ranking: Ranking, numbers: Sequence[int]
) -> tuple[dict[int, IndexedDocument], list[Pair]]:
    """Return these documents and those beside them, by number, and which of them stand beside each other.

    Mostly they are in the same row. At its ends the next row of the agent is read.
    """
    await cursor.execute(queries.DOCUMENTS_AT, (numbers,), prepare=False)
    rows = {first: read_documents(packed) for first, packed in await cursor.fetchall()}
    firsts, found, pairs = sorted(rows), dict[int, IndexedDocument](), list[Pair]()

    def find_beside(number: int, begin: int, step: int, first: int, row: Sequence[IndexedDocument]) -> bool:
        """Take the next document of a row behind `begin` that recall ranks as the neighbor of a document."""
        near = begin + step
        while 0 <= near - first < len(row):
            if ranking.length(near):
                found[near] = row[near - first]
                pairs.append((number, near))
                return True
            near += step
        return False

    ends: list[tuple[int, int, int]] = []
    for number in numbers:
        first = firsts[bisect_right(firsts, number) - 1]
        found[number] = rows[first][number - first]
        ends += [(number, first, step) for step in (-1, 1) if not find_beside(number, number, step, first, rows[first])]
    await cursor.execute(queries.DOCUMENTS_BESIDE, (list({first for _, first, _ in ends}),), prepare=False)
    beside = {(of, first > of): (first, read_documents(packed)) for of, first, packed in await cursor.fetchall()}
    for number, of, step in ends:
        if next_row := beside.get((of, step > 0)):
            first, row = next_row
            find_beside(number, first - 1 if step > 0 else first + len(row), step, first, row)
    return found, pairs


def best_beside(pairs: Sequence[Pair], scores: Mapping[int, float]) -> dict[int, float]:
    """Return the better score of those beside each document; one that has none counts as 0."""
    found: dict[int, float] = {}
    for number, beside in chain(pairs, (pair[::-1] for pair in pairs)):
        score = scores.get(beside, 0.0)
        found[number] = max(score, found.get(number, score))
    return found


def with_neighbors(
    ranking: Ranking, own: Mapping[int, float], documents: Mapping[int, IndexedDocument], pairs: Sequence[Pair]
) -> list[ScoredDocument]:
    """Return the documents with the scores of their neighbors added, best first. `own` are scores that are known."""
    scores = {**own, **ranking.scores(number for number in documents if number not in own)}
    nearest = best_beside(pairs, scores)
    found: list[ScoredDocument] = []
    for number, document in documents.items():
        if (total := scores[number] + NEIGHBOR_WEIGHT * nearest.get(number, 0.0)) > 0:
            kind = document.kind_name
            total *= USER_WEIGHT if kind == "user" else 1.0
            found.append(ScoredDocument(number, document.message, document.start, kind, total, total, scores[number]))
    return sorted(found, key=lambda each: (-round(each.score, 9), -each.message, each.start))
