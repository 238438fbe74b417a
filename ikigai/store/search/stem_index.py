"""This module fills the index of stems, from which recall ranks what was said.

Documents (events, long ones in pieces) are numbered as they come. Each step writes one part of the index: the postings
of its documents, by stem. Small parts that follow one another are merged into larger ones, up to a block. Full blocks
are joined in the background, up to a large block.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.search.fill import LoggedEvent, cut_pieces, take_texts
from ikigai.store.search.postings import BLOCK_BITS, move, pack_documents
from ikigai.store.search.stems import ANALYSIS, count_stems
from ikigai.store.sql import stem_postings

PARTS_MERGED = 8
"""Parts of about the same size that are merged into one."""
POSTINGS_JOINED = 4_000
"""Rows that one step moves to a larger part."""
RECALLED_KINDS = ("user", "assistant", "tool_call", "tool_result")
"""Kinds of events that recall ranks."""


class StemDocument(NamedTuple):
    message: int
    start: int
    kind: str
    language: str
    stems: Counter[str]


class StemIndex:
    """The index of stems."""

    progress, kinds = stem_postings.STEMS_PROGRESS, RECALLED_KINDS

    async def take(self, cursor: Cursor, agent: UUID) -> int:
        return await take_texts(self, cursor, agent)

    async def lock(self, cursor: Cursor) -> None:
        """Lock the index, and empty it if its stems were made in another way."""
        rows: list[tuple[int]] = []
        while not rows:  # another process has just replaced the row that this one waited for
            await cursor.execute(stem_postings.BEGIN_INDEX, (ANALYSIS,))
            await cursor.execute(stem_postings.LOCK_INDEX)
            rows = await cursor.fetchall()
        if rows != [(ANALYSIS,)]:
            for statement in stem_postings.CLEAR_INDEX:
                await cursor.execute(statement)
            await cursor.execute(stem_postings.BEGIN_INDEX, (ANALYSIS,))

    async def add(self, cursor: Cursor, agent: UUID, events: Sequence[LoggedEvent], place: int) -> tuple[int, int]:
        documents, seq, place = await asyncio.to_thread(_documents, events, place)
        if documents:
            await cursor.execute(stem_postings.FIGURES)
            ((first, count, stems, by_language),) = await cursor.fetchall()
            await _add_documents(cursor, agent, first, documents)
            languages = Counter(msgspec.json.decode(by_language, type=dict[str, int]))
            languages.update(document.language for document in documents)
            figures = first + len(documents), count + len(documents), stems + sum(map(_length, documents))
            await cursor.execute(stem_postings.SET_FIGURES, (*figures, msgspec.json.encode(languages).decode()))
        return seq, place


class PartJoiner:
    """Joins full parts to larger ones over `session`, which no append uses.

    A row for each stem and part takes more room than what it holds, and more time to read.
    """

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    @repeat_on_conflict
    async def join_some(self) -> bool:
        """Move some postings of a full part to the large one before it; return False if there is nothing to do.

        Recall finds them in either. Raise StoreError on failure.
        """
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(stem_postings.LOCK_INDEX)
            await cursor.execute(stem_postings.JOINED_PARTS)
            for first, part, last in await cursor.fetchall():
                await cursor.execute(stem_postings.TAKE_POSTINGS, (part, POSTINGS_JOINED), prepare=False)
                rows = await cursor.fetchall()
                if rows:
                    moved = [move(postings, part, first) for _, postings in rows]
                    stems = [stem for stem, _ in rows]
                    await cursor.execute(stem_postings.APPEND_POSTINGS, (first, stems, moved), prepare=False)
                else:
                    await cursor.execute(stem_postings.DROP_PARTS, ([part],))
                    await cursor.execute(stem_postings.GROW_PART, (last, first))
                return True
        return False


def _length(document: StemDocument) -> int:
    return document.stems.total()


def _documents(events: Sequence[LoggedEvent], place: int) -> tuple[list[StemDocument], int, int]:
    pieces, seq, place = cut_pieces(events, place)
    found: list[StemDocument] = []
    for piece in pieces:
        language, stems = count_stems(piece.text)
        if stems:
            found.append(StemDocument(piece.event.id, piece.start, piece.event.kind, language, stems))
    return found, seq, place


async def _add_documents(cursor: Cursor, agent: UUID, first: int, documents: Sequence[StemDocument]) -> None:
    """Add documents of an agent, numbered from `first` on, as one part of each block that they are in."""
    numbers = list(range(first, first + len(documents)))
    messages, starts, kinds, *_ = map(list, zip(*documents, strict=True))
    await cursor.execute(
        stem_postings.ADD_DOCUMENTS, (agent, numbers, messages, starts, kinds, [_length(each) for each in documents])
    )
    run = {"agent": agent, "first": first, "last": numbers[-1]}
    await cursor.execute(stem_postings.GROW_RUN, run)
    if not cursor.rowcount:
        await cursor.execute(stem_postings.ADD_RUN, run)
    while documents:
        most = (1 << BLOCK_BITS) - (first & (1 << BLOCK_BITS) - 1)
        part, documents = documents[:most], documents[most:]
        numbered = [(first + n, each.stems, _length(each)) for n, each in enumerate(part)]
        packed = await asyncio.to_thread(pack_documents, numbered)
        await cursor.execute(stem_postings.ADD_PART, (first, first + len(part) - 1))
        await cursor.execute(stem_postings.ADD_POSTINGS, (first, list(packed), list(packed.values())), prepare=False)
        await _merge(cursor, first >> BLOCK_BITS << BLOCK_BITS)
        first += len(part)


async def _merge(cursor: Cursor, block: int) -> None:
    """Merge the last parts of a block as often as there are enough of them; all parts of a full block."""
    await cursor.execute(stem_postings.PARTS_OF_BLOCK, (block,))
    parts: list[tuple[int, int]] = await cursor.fetchall()
    while count := parts_to_merge(parts, block):
        merged = [first for first, _ in parts[-count:]]
        await cursor.execute(stem_postings.MERGE_POSTINGS, {"parts": merged, "first": merged[0]}, prepare=False)
        await cursor.execute(stem_postings.DROP_PARTS, (merged[1:],))
        await cursor.execute(stem_postings.GROW_PART, (parts[-1][1], merged[0]))
        parts[-count:] = [(merged[0], parts[-1][1])]


def parts_to_merge(parts: Sequence[tuple[int, int]], block: int) -> int:
    """Return how many of the last parts of a block to merge now, 0 for none.

    They are eight or more parts, none of a larger size class than the last one. A class spans a factor of eight.
    """
    if len(parts) > 1 and parts[-1][1] == block + (1 << BLOCK_BITS) - 1:
        return len(parts)
    classes = [((last - first + 1).bit_length() - 1) // 3 for first, last in parts]
    count = 0
    while count < len(classes) and classes[-1 - count] <= classes[-1]:
        count += 1
    return count if count >= PARTS_MERGED else 0
