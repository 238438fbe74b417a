"""Rank messages that have words of a question also by their meaning, where word vectors are installed."""

import asyncio
from collections.abc import Sequence

from ikigai.core.search.lexer import searchable_text
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search import stems, word_vectors
from ikigai.store.search.neighbors import ScoredDocument
from ikigai.store.search.word_vectors import LANGUAGE
from ikigai.store.sql import search as queries

COMPARED_MESSAGES = 100
"""Messages with the best words, whose meaning is compared with the question."""
COMPARED_CHARACTERS = 4_000
"""Characters of a message that are compared."""
MAX_COMPARED_START = 64_000
"""Last character of an event at which a compared piece begins: the server unpacks all that is before it."""
RANK_OFFSET = 60
"""The constant k of reciprocal rank fusion, as in Cormack, Clarke and Büttcher (2009)."""
MEANING_WEIGHT = 0.5
"""Weight of the rank by meaning; that by words has 1. Chosen on LoCoMo, where messages were compared as a whole."""


async def compare(
    cursor: Cursor, question: Sequence[tuple[str, float]], best: Sequence[ScoredDocument]
) -> dict[int, float]:
    """Return how similar the first of these documents are to the question, by number.

    The question is words with their weights. Without word vectors nothing is compared. Raise ConfigError if they are
    damaged.
    """
    vectors = await asyncio.to_thread(word_vectors.load_installed)
    if vectors is None:
        return {}
    compared = [each for each in best[:COMPARED_MESSAGES] if each.start <= MAX_COMPARED_START]
    columns = [each.message for each in compared], [each.start for each in compared]
    await cursor.execute(queries.TEXTS_OF, (COMPARED_CHARACTERS, *columns), prepare=False)
    texts = [(compared[place - 1], text) for place, text in await cursor.fetchall() if text]

    def similarities() -> list[float]:
        words = [stems.content_words(searchable_text(each.kind, text), LANGUAGE) for each, text in texts]
        return vectors.similarities(question, words)

    near = await asyncio.to_thread(similarities)
    return {each.number: found for (each, _), found in zip(texts, near, strict=True)}


def fused_order(similarities: Sequence[float | None]) -> list[int]:
    """Return the places of messages in the order of words and meaning. They are given in the order of their words.

    The ranks are fused by their reciprocals. What was not compared has the last rank by meaning.
    """
    places = range(len(similarities))
    ranks = [len(similarities)] * len(similarities)
    compared = [(-near, place) for place, near in enumerate(similarities) if near is not None]
    for rank, (_, place) in enumerate(sorted(compared), 1):
        ranks[place] = rank
    fused = [1 / (RANK_OFFSET + place + 1) + MEANING_WEIGHT / (RANK_OFFSET + ranks[place]) for place in places]
    return sorted(places, key=lambda place: (-fused[place], place))
