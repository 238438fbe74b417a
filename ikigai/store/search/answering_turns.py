"""Choose the turns that recall finds because they answer a question, without any word of it.

What stands beside a match counts in its score, since question and answer rarely have the same words. In a turn with a
match they are found together. A turn beside it, which has none of the words, is found where it is likely to be the
answer: the user's message behind a reply that has words and ends with a question, or a message of like meaning.

Of the first 40 turns for 60 questions of LongMemEval, 131 had no word of the question, and none of them had evidence.
"""

import unicodedata
from collections.abc import Collection, Mapping, Sequence

from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search.neighbors import Pair, ScoredDocument
from ikigai.store.sql import search as queries

NEAR_SIMILARITY = 0.2
"""Least similarity of a message to a question for which its meaning alone is a reason. Of short messages, those about
something else have 0.1 at the most."""
REPLY_CHARACTERS = 20_000
"""Characters of a piece of a reply that are read for its end: no piece is longer."""
QUESTION_MARKS = "?？؟\u037e՞፧"
"""Question marks of all scripts that have one. U+037E is the Greek one, which is mostly typed as a semicolon."""


def matches_beside(documents: Sequence[ScoredDocument], pairs: Sequence[Pair]) -> dict[int, list[ScoredDocument]]:
    """Return for each document without a word of the question those beside it that have one, by its number."""
    matches = {each.number: each for each in documents if each.own_score > 0}
    found: dict[int, list[ScoredDocument]] = {}
    for pair in pairs:
        for number, beside in (pair, pair[::-1]):
            if number not in matches and beside in matches:
                found.setdefault(number, []).append(matches[beside])
    return found


async def find_answers(
    cursor: Cursor,
    documents: Sequence[ScoredDocument],
    beside: Mapping[int, Sequence[ScoredDocument]],
    similarities: Mapping[int, float],
) -> Collection[int]:
    """Return the numbers of the given documents, which have no word of the question, that answer it.

    `beside` are the matches beside each, `similarities` belong to the documents that were compared.
    """
    near = {each.number for each in documents if similarities.get(each.number, 0.0) >= NEAR_SIMILARITY}
    asked = [
        (each.number, match)
        for each in documents
        if each.number not in near and each.kind == "user"
        for match in beside.get(each.number, ())
        if match.kind == "assistant" and match.message < each.message
    ]
    if not asked:
        return near
    columns = [match.message for _, match in asked], [match.start for _, match in asked]
    await cursor.execute(queries.TEXTS_OF, (REPLY_CHARACTERS, *columns), prepare=False)
    return near | {asked[place - 1][0] for place, text in await cursor.fetchall() if text and ends_with_question(text)}


def ends_with_question(text: str) -> bool:
    """Return True if a question mark stands behind the last letter or digit of the text.

    A semicolon is one behind a Greek letter only: code also ends with it. A pattern for the end of the text took 6 s
    for 20,000 question marks and a letter.
    """
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    signs = text[end:]
    if ";" in signs and end and unicodedata.name(text[end - 1], "").startswith("GREEK"):
        return True
    return any(mark in signs for mark in QUESTION_MARKS)
