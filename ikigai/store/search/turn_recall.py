"""Rank the turns of all conversations by a question: BM25 over stems, with what stands beside a message.

A message counts with half of the better one of its neighbors, and what users say with a little more than what models
and tools say: it is short, and facts about the user are in it. A turn counts as its best message. With word vectors
the meaning of the best messages also counts. `answering_turns` says which turns without any word are found.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.events.record import Record
from ikigai.core.search.lexer import fold, is_unspaced
from ikigai.core.search.query import MAX_QUESTION_CHARACTERS, Term
from ikigai.core.search.snippets import TermFinder
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReadingSession
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.log.reading import NO_LIMIT, read_snapshot
from ikigai.store.search import neighbors, semantic_order, stems
from ikigai.store.search.answering_turns import find_answers, matches_beside
from ikigai.store.search.indexer import Indexer
from ikigai.store.search.neighbors import NEIGHBOR_WEIGHT, Pair, ScoredDocument
from ikigai.store.search.postings import Postings, read_documents, read_words
from ikigai.store.search.ranking import Ranking, Segment, stem_weight, union
from ikigai.store.search.stems import QueryWord
from ikigai.store.search.word_vectors import LANGUAGE
from ikigai.store.sql import search as queries
from ikigai.system import gc_pause

log = logging.getLogger(__name__)

CATCH_UP_SECONDS = 1.0
"""Seconds before a recall in which the index is brought up to date."""
MAX_LANGUAGES = 4
"""Languages of the log in which a question is stemmed, the most frequent."""
MIN_LANGUAGE_SHARE = 0.002
"""Least share of a language among the documents: below it are mostly texts whose language was mistaken."""
MESSAGES_PER_TURN = 6
"""Best messages looked through for each turn that is wanted: several may be of one turn."""
MIN_READ_DOCUMENTS, READ_PER_TURN = 240, 12
"""Documents that are read with their neighbors: at least, and for each turn that is wanted."""
BEST_SHARE = 0.7
"""Share of the characters of a turn's excerpt for its best message."""

MIN_PART_CHARACTERS, MIN_STEM_CHARACTERS = 5, 4
"""Characters of a word that an excerpt is chosen by within other words, and at their beginning."""


class RecallScope(Record, frozen=True):
    """`agents` with the last of their events (None: all of them); only events before the id `before` count."""

    agents: dict[str, int | None]
    before: int | None = None


class RecalledMessage(Record, frozen=True):
    """A message of a recalled turn, or the event of a tool in it that matches best.

    `at` is seconds since 1970, `excerpt` is on one line. `score` is 0 if neither it nor a message beside it has a word
    of the question.
    """

    id: int
    kind: str
    at: float
    score: float
    excerpt: str


class RecalledTurn(Record, frozen=True):
    """A turn that a question recalls. `id` is the event that matches best, `first` and `last` bound the turn.

    `last` is None while the turn is open. `score` ranks the turn; `word_score` is for the words of that event
    and its neighbors, `own_score` for the words of that event.
    """

    agent: str
    agent_id: str
    first: int
    last: int | None
    id: int
    score: float
    word_score: float
    own_score: float
    messages: tuple[RecalledMessage, ...]


class Recalled(Record, frozen=True):
    """The turns that a question recalls, the best first; `behind` events are not in the index yet.

    `rare_weight` is the weight of a word that one message has. `weight` is that and the score of a message of average
    length that holds each word of the question once. `notice` says why the meaning does not count, "" if it does or
    no word vectors are installed.
    """

    turns: tuple[RecalledTurn, ...] = ()
    behind: int = 0
    weight: float = 0.0
    rare_weight: float = 0.0
    notice: str = ""


class _Ranked(NamedTuple):
    """The best messages, best first, which of them stand beside each other, how similar they are to the question by
    number, as far as that is known, the figures of `Recalled`, and its notice.
    """

    best: list[ScoredDocument]
    pairs: Sequence[Pair] = ()
    similarities: Mapping[int, float] = {}
    weight: float = 0.0
    rare_weight: float = 0.0
    notice: str = ""


class TurnRecall:
    """Recalls turns over `session`; `indexer` fills the index."""

    def __init__(self, session: ReadingSession, indexer: Indexer) -> None:
        self._session, self._indexer = session, indexer

    @retry_on_conflict
    async def recall(
        self,
        question: str,
        limit: int = 12,
        most_characters: int = 12_000,
        scope: RecallScope | None = None,
        catch_up: float = CATCH_UP_SECONDS,
        turn_characters: int | None = None,
    ) -> Recalled:
        """Return the turns that may answer the question, with excerpts of `most_characters` in all. Raise StoreError.

        Of one turn they have at most `turn_characters`: without that, a single turn has them all.
        The index is brought up to date for at most `catch_up` seconds before.
        """
        question = question[:MAX_QUESTION_CHARACTERS]
        if limit < 1 or not question.strip():
            return Recalled()
        behind = await self._indexer.catch_up(catch_up)
        with gc_pause.pause_gc():  # ranking makes thousands of objects, and none is in a cycle
            async with self._session.use() as cursor, read_snapshot(cursor):
                ranked = await self._rank(cursor, question, limit, scope)
                turns = await _read_turns(cursor, ranked, limit)
                said = await _read_said(cursor, turns)
            scores = {each.message: each.score for each in reversed(ranked.best)}  # the best of a message's pieces
            width = most_characters // max(1, len(turns))
            width = width if turn_characters is None else min(width, turn_characters)
            made = await asyncio.to_thread(_with_excerpts, question, turns, said, scores, width)
        return Recalled(made, behind, ranked.weight, ranked.rare_weight, ranked.notice)

    async def _rank(self, cursor: Cursor, question: str, limit: int, scope: RecallScope | None) -> _Ranked:
        """Return the best messages by their words and their meaning."""
        await cursor.execute(queries.FIGURES)
        for documents, total, by_language in await cursor.fetchall():
            if not total:  # an index that was begun, or from which all was purged
                break
            languages = msgspec.json.decode(by_language, type=dict[str, int])
            common = common_languages(languages)
            words = await asyncio.to_thread(stems.query_words, question, common)
            await cursor.execute(queries.LENGTHS, binary=True)
            lengths = await cursor.fetchall()
            if scope:
                lengths = await _within(cursor, scope, lengths)
            asked_stems = list({stem for word in words for stem in word.stems})
            await cursor.execute(queries.POSTINGS, (asked_stems,), binary=True, prepare=False)
            rows = await cursor.fetchall()
            ranking = await asyncio.to_thread(_rank, lengths, rows, words, documents, total / documents)
            most = max(MIN_READ_DOCUMENTS, READ_PER_TURN * limit)
            own, numbers = await asyncio.to_thread(neighbors.likely_best, ranking, most)
            near, pairs = await neighbors.read_near(cursor, ranking, numbers)
            best = await asyncio.to_thread(neighbors.with_neighbors, ranking, own, near, pairs)
            weights, rare_weight = ranking.word_weights(words), stem_weight(documents, 1)
            similarities, notice = dict[int, float](), ""
            if stems.detect_language(stems.split_words(question), *common[:1]) == LANGUAGE:
                asked = [(each.word, weight) for each, weight in zip(words, weights, strict=True)]
                best, similarities, notice = await _by_meaning(cursor, asked, best, pairs)
            return _Ranked(best, pairs, similarities, sum(weights) + rare_weight, rare_weight, notice)
        return _Ranked([])


def common_languages(documents: Mapping[str, int]) -> list[str]:
    """Return the languages in which a question is stemmed, by the number of documents in each."""
    found = sorted(documents, key=lambda language: (-documents[language], language))[:MAX_LANGUAGES]
    least = MIN_LANGUAGE_SHARE * sum(documents.values())
    return [language for language in found if documents[language] >= least]


async def _by_meaning(
    cursor: Cursor, asked: list[tuple[str, float]], best: list[ScoredDocument], pairs: Sequence[Pair]
) -> tuple[list[ScoredDocument], dict[int, float], str]:
    """Return the candidates in the order of words and meaning, their similarities to the question by number, and the
    notice of `Recalled`.

    Each gets the score of the one that is at its place by words.
    """
    try:
        scores = await semantic_order.compare(cursor, asked, best)
    except ConfigError as error:
        log.debug("recall ranks by words alone", exc_info=True)
        return best, {}, f"{error.what} Only words were compared. {error.remedy}"
    nearest = neighbors.best_beside(pairs, scores)
    whole = [
        None if each.number not in scores else scores[each.number] + NEIGHBOR_WEIGHT * nearest.get(each.number, 0.0)
        for each in best[: semantic_order.COMPARED_MESSAGES]
    ]
    order = semantic_order.fused_order(whole)
    fused = [best[place]._replace(score=by_words.score) for place, by_words in zip(order, best, strict=False)]
    return fused + best[len(fused) :], scores, ""


def _rank(
    lengths: list[tuple[int, int, bytes]], rows: list[tuple[Any, ...]], words: Sequence[QueryWord], *figures: Any
) -> Ranking:
    """Rank documents by blocks of their segments: each word with a stem of a word of the question counts as that."""
    found = defaultdict[tuple[int, str], dict[str, Postings]](dict)
    for segment, stem, wanted, *block in rows:
        found[segment, stem].update(read_words(block, wanted))

    def having(segment: int, word: QueryWord) -> Postings | None:
        every = dict(chain.from_iterable(found.get((segment, stem), {}).items() for stem in word.stems))
        return union(every.values()) if every else None

    segments = [
        Segment(first, codes, {word.word: some for word in words if (some := having(segment, word))})
        for segment, first, codes in lengths
    ]
    counts = Counter[str]()
    for word in words:
        counts[word.word] += word.times
    return Ranking(segments, counts, *figures)


async def _within(
    cursor: Cursor, scope: RecallScope, lengths: Sequence[tuple[int, int, bytes]]
) -> list[tuple[int, int, bytes]]:
    """Return the lengths of the documents in the scope, and 0 for all others; numbers have no gaps."""
    every = b"".join(codes for *_, codes in lengths)
    found = bytearray(len(every))
    for agent, last in scope.agents.items():
        bound = min(NO_LIMIT if last is None else last, scope.before - 1 if scope.before else NO_LIMIT)
        await cursor.execute(queries.DOCUMENTS_OF_AGENT, {"agent": agent, "last": bound}, prepare=False)
        for first, end, packed in await cursor.fetchall():
            found[first : end + 1] = every[first : end + 1]
            for number, each in enumerate(read_documents(packed) if packed else (), first):
                if each.message > bound:
                    found[number] = 0
    return [(id, first, bytes(found[first : first + len(codes)])) for id, first, codes in lengths]


class _Turn(NamedTuple):
    agent_id: str
    agent: str
    first: int
    last: int | None


async def _read_turns(cursor: Cursor, ranked: _Ranked, limit: int) -> list[tuple[_Turn, ScoredDocument]]:
    """Return the turns of the best messages, each with its best one, best first; at most `limit`.

    A turn without any word of the question is left out, unless it answers it.
    """
    best, beside = ranked.best[: MESSAGES_PER_TURN * limit], matches_beside(ranked.best, ranked.pairs)
    matches = {match.message for each in best for match in beside.get(each.number, ())}
    await cursor.execute(queries.TURNS_OF, ([*{each.message for each in best} | matches],), prepare=False)
    rows = await cursor.fetchall()
    turns = {id: _Turn(agent_id, agent, first or id, last) for id, agent_id, agent, first, last in rows}
    best = [each for each in best if each.message in turns]

    def is_apart(each: ScoredDocument) -> bool:
        """Return True if neither the message nor one beside it in its turn has a word of the question."""
        near = (turns.get(match.message) for match in beside.get(each.number, ()))
        return each.own_score == 0 and turns[each.message] not in near

    apart = [each for each in best if is_apart(each)]
    left_out = {each.number for each in apart} - set(await find_answers(cursor, apart, beside, ranked.similarities))
    found: dict[_Turn, ScoredDocument] = {}
    for each in best:
        if each.number not in left_out:
            found.setdefault(turns[each.message], each)
    return list(found.items())[:limit]


async def _read_said(
    cursor: Cursor, turns: Sequence[tuple[_Turn, ScoredDocument]]
) -> dict[int, list[tuple[int, str, float, str]]]:
    """Return for the first event of each turn what was said in it, and its best event: id, kind, time, text."""
    if not turns:
        return {}
    rows = [(UUID(turn.agent_id), turn.first, turn.last, best.message, best.start) for turn, best in turns]
    await cursor.execute(queries.SAID_IN, list(map(list, zip(*rows, strict=True))), prepare=False)
    said: dict[int, list[tuple[int, str, float, str]]] = {}
    for first, *message in await cursor.fetchall():
        said.setdefault(first, []).append(tuple(message))
    return said


def _with_excerpts(
    question: str,
    turns: Sequence[tuple[_Turn, ScoredDocument]],
    said: dict[int, list[tuple[int, str, float, str]]],
    scores: dict[int, float],
    width: int,
) -> tuple[RecalledTurn, ...]:
    finder = TermFinder(_terms(question))
    found: list[RecalledTurn] = []
    for turn, best in turns:
        messages = [message for message in said.get(turn.first, ()) if message[3]]
        others = sum(id != best.message for id, *_ in messages)
        rest = width - int(BEST_SHARE * width) if others else 0
        excerpts: list[RecalledMessage] = []
        for id, kind, at, text in messages:
            excerpt = finder.excerpt(text, width - rest if id == best.message else rest // others)
            excerpts.append(RecalledMessage(id, kind, at, round(scores.get(id, 0.0), 4), excerpt))
        of_best = best.message, round(best.score, 4), round(best.word_score, 4), best.own_score
        found.append(RecalledTurn(turn.agent, turn.agent_id, turn.first, turn.last, *of_best, tuple(excerpts)))
    return tuple(found)


def _terms(question: str) -> tuple[Term, ...]:
    """Return the words of a question and their stems, for showing where they are in a text."""
    words = stems.split_words(question)
    language = stems.detect_language(words)
    asked = [stem for word in stems.query_words(question, ()) for stem in word.stems]
    found = dict.fromkeys([*asked, *(word for word in map(fold, words) if not stems.is_common(word, language))])
    return tuple(_term(word) for word in found if word)


def _term(word: str) -> Term:
    """Return the term that finds a word or stem. A long one is also found within words: its pattern is made at once,
    a pattern for the border of words takes a millisecond.
    """
    short = not is_unspaced(word) and len(word) < MIN_PART_CHARACTERS
    return Term(word, (word,), begins=short, ends=short and len(word) < MIN_STEM_CHARACTERS)
