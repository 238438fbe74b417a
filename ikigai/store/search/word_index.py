"""Take documents into the index of words, and take purged events in anew."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ikigai.core.events.codec import SEARCHED_KINDS
from ikigai.core.search import lexer
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search import postings, segments, stems
from ikigai.store.search.postings import IndexedDocument, Postings, pack_documents, read_documents
from ikigai.store.sql import search

RECALLED_KINDS = ("user", "assistant", "tool_call", "tool_result")
"""Kinds of events that recall ranks."""
DOCUMENTS_PER_ROW = 256
"""Documents of an agent that share a row, at most."""
STEP_EVENTS, STEP_CHARACTERS = 400, 100_000
"""Limits of one step of indexing."""
STRETCH_CHARACTERS = 1_000_000
"""Characters of a longer event in one step: the server unpacks all that is before them, each time."""


class LoggedEvent(NamedTuple):
    id: int
    seq: int
    kind: str
    at: datetime
    text: str | None


class TextPiece(NamedTuple):
    """A piece of the text of an event, from the character `start` on."""

    event: LoggedEvent
    start: int
    text: str


class Analysis(NamedTuple):
    """A document with its words, each with how often recall counts it, its stems and words, and their number."""

    document: IndexedDocument
    at: datetime
    words: dict[str, int]
    vocabulary: set[tuple[str, str]]
    language: str
    length: int


async def add(cursor: Cursor, agent: UUID, pieces: Sequence[TextPiece]) -> None:
    """Take pieces of events of an agent into the index, as a segment of their own."""
    analyzed = [each for each in await asyncio.to_thread(lambda: list(map(analyze, pieces))) if each]
    first, counted = await segments.lock(cursor)
    if not analyzed:
        return
    await _add_documents(cursor, agent, first, analyzed)
    languages = Counter(msgspec.json.decode(counted, type=dict[str, int]))
    recalled = [each for each in analyzed if each.length]
    languages.update(each.language for each in recalled)
    counts = len(analyzed), len(recalled), sum(each.length for each in recalled)
    await cursor.execute(search.SET_FIGURES, (*counts, msgspec.json.encode(languages).decode()))
    lengths = bytes(postings.length_code(each.length) for each in analyzed)
    newest = max(each.document.message for each in analyzed), max(each.at for each in analyzed)
    await cursor.execute(search.ADD_SEGMENT, (first, first + len(analyzed) - 1, *newest, lengths))
    ((segment,),) = await cursor.fetchall()
    await segments.add_blocks(cursor, segment, await asyncio.to_thread(count_words, analyzed))
    vocabulary = set[tuple[str, str]]().union(*(each.vocabulary for each in analyzed))
    await cursor.execute(search.ADD_VOCABULARY, vocabulary_row(first, vocabulary), prepare=False)
    while await segments.join(cursor, segments.MAX_JOINED_AT_ONCE):
        pass


def vocabulary_row(first: int, vocabulary: Set[tuple[str, str]]) -> dict[str, Any]:
    """Return the values for adding words with their stems, which came with the documents from `first` on."""
    pairs = sorted(vocabulary)
    return {"block": first // 1_000, "words": [word for word, _ in pairs], "stems": [stem for _, stem in pairs]}


def analyze(piece: TextPiece) -> Analysis | None:
    folded, event = lexer.fold(piece.text), piece.event
    words = dict.fromkeys(lexer.index_keys(folded), 0)
    if not words and not piece.text.strip():
        return None
    language, vocabulary, length = "", {(word, word) for word in words if postings.is_word(word)}, 0
    if event.kind in RECALLED_KINDS:
        language, counted = stems.count_words(piece.text)
        for word, stem, times in counted:
            words[word] = min(postings.MAX_TIMES, words.get(word, 0) + times)
            length += times
            vocabulary |= {(word, word), (word, stem)}
    words[f"#{event.kind}"] = 0
    document = IndexedDocument(event.id, piece.start, len(piece.text), SEARCHED_KINDS.index(event.kind))
    return Analysis(document, event.at, words, vocabulary, language, length)


async def _add_documents(cursor: Cursor, agent: UUID, first: int, analyzed: Sequence[Analysis]) -> None:
    """Add documents, numbered from `first` on, to the last row of the agent, and to new ones."""
    await cursor.execute(search.LAST_DOCUMENTS, (first, DOCUMENTS_PER_ROW, agent))
    begin, before = first, list[IndexedDocument]()
    for row_first, packed in await cursor.fetchall():
        begin, before = row_first, read_documents(packed)
    documents = [*before, *(each.document for each in analyzed)]
    at = max(each.at for each in analyzed)
    for place in range(0, len(documents), DOCUMENTS_PER_ROW):
        some = documents[place : place + DOCUMENTS_PER_ROW]
        ids = [each.message for each in some]
        ends = {"first": begin + place, "last": begin + place + len(some) - 1, "oldest": min(ids), "newest": max(ids)}
        row = {**ends, "agent": agent, "at": at, "documents": pack_documents(some)}
        await cursor.execute(search.SET_DOCUMENTS, row, prepare=False)


def count_words(analyzed: Sequence[Analysis]) -> list[tuple[str, Postings]]:
    """Return the words of documents in their order, with their postings."""
    found = defaultdict[str, list[tuple[int, int]]](list)
    for number, each in enumerate(analyzed):
        for word, times in each.words.items():
            found[word].append((number, times))
    return [(word, Postings([n for n, _ in each], bytes(t for _, t in each))) for word, each in sorted(found.items())]


async def take(cursor: Cursor, agent: UUID) -> int:
    """Take the next events of an agent into the index; return how many, 0 if another process has the agent."""
    await cursor.execute(search.BEGIN, (agent,))
    await cursor.execute(search.TAKE, (agent,))
    if not (rows := await cursor.fetchall()):
        return 0
    ((seq, place),) = rows
    which = {"agent": agent, "seq": seq, "place": place, "kinds": list(SEARCHED_KINDS)}
    sizes = {"events": STEP_EVENTS, "most": STEP_CHARACTERS, "stretch": STRETCH_CHARACTERS}
    await cursor.execute(search.NEXT_EVENTS, which | sizes, prepare=False)
    if events := [LoggedEvent(*row) for row in await cursor.fetchall()]:
        pieces, seq, place = cut_pieces(events, place)
        await add(cursor, agent, pieces)
        await cursor.execute(search.SET, (seq, place, agent))
    return len(events)


def cut_pieces(events: Sequence[LoggedEvent], place: int) -> tuple[list[TextPiece], int, int]:
    """Return the pieces of these events, and the progress of the index; the first begins at `place`.

    An event longer than one step is here alone, and its last piece is left for the next step.
    """
    pieces: list[TextPiece] = []
    for event in events:
        text = lexer.searchable_text(event.kind, event.text or "")
        cut = list(lexer.split_pieces(text))
        is_cut = len(text) == STRETCH_CHARACTERS and len(cut) > 1
        pieces += [TextPiece(event, place + start, piece) for start, piece in (cut[:-1] if is_cut else cut)]
        if is_cut:
            return pieces, event.seq - 1, place + cut[-1][0]
        place = 0
    return pieces, events[-1].seq, 0


async def renew_events(cursor: Cursor, ids: Sequence[int]) -> None:
    """Take the documents of these events out of the index, and take in what the log has of them now."""
    await cursor.execute(search.TAKE_PROGRESS_OF_EVENTS, (ids,), prepare=False)
    agents: list[UUID] = [agent for (agent,) in await cursor.fetchall()]
    await segments.lock(cursor)
    await cursor.execute(search.DOCUMENTS_OF_EVENTS, (ids,), prepare=False)
    gone, purged = set[int](), frozenset(ids)
    for first, packed in await cursor.fetchall():
        documents = read_documents(packed)
        if some := {n for n, each in enumerate(documents) if each.message in purged}:
            gone |= {first + n for n in some}
            documents = [IndexedDocument(0, 0, 0, 0) if n in some else each for n, each in enumerate(documents)]
            await cursor.execute(search.KEEP_DOCUMENTS, (pack_documents(documents), first))
    await segments.forget(cursor, gone)
    await cursor.execute(search.BEGIN_PURGED_ANEW, (ids,), prepare=False)
    for agent in agents:
        await cursor.execute(search.INDEXED_EVENTS, {"ids": ids, "agent": agent, "kinds": list(SEARCHED_KINDS)})
        if events := [LoggedEvent(*row) for row in await cursor.fetchall()]:
            await add(cursor, agent, cut_pieces(events, 0)[0])
