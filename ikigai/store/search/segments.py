"""Join segments of the index of words to larger ones, and take purged documents out of them.

Every writer locks the row of figures first, so that the numbers of documents have no gaps, and each number and each
word is in one place. A process that is killed leaves what its last transaction has made, and another one goes on.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any
from uuid import UUID

from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search import stems
from ikigai.store.search.postings import PackedPostings, coded_length, concatenate, pack, pack_words, read_words, unpack
from ikigai.store.sql import search

SEGMENTS_JOINED = 8
"""Segments of about the same size that are joined to one."""
MAX_SEGMENT = 1 << 16
"""Documents of the largest segments: a search for a common beginning of words, and a purge, reads all of one."""
MAX_JOINED_AT_ONCE = 4_096
"""Documents of segments that are joined while the index is filled, and not in the background."""
BLOCKS_JOINED = 16
"""Blocks of each segment that one step joins."""


async def lock(cursor: Cursor) -> tuple[int, str]:
    """Lock the index; return its next number and its languages. Empty it if its words were made in another way."""
    while True:
        await cursor.execute(search.BEGIN_INDEX, (stems.ANALYSIS,))
        await cursor.execute(search.LOCK_INDEX)
        for analysis, *figures in await cursor.fetchall():  # none if another process has just replaced the row
            if analysis == stems.ANALYSIS:
                return figures[0], figures[1]
            for statement in search.CLEAR_INDEX:
                await cursor.execute(statement)


async def add_blocks(cursor: Cursor, segment: int, *ranges: Mapping[str, PackedPostings]) -> None:
    """Add the words of ranges, between which the segment may have others: those share no block."""
    if blocks := await asyncio.to_thread(lambda: [block for each in ranges for block in pack_words(each)]):
        await cursor.execute(search.ADD_BLOCKS, (segment, *map(list, zip(*blocks, strict=True))), prepare=False)


async def join(cursor: Cursor, most: int = MAX_SEGMENT) -> bool:
    """Join the next words of segments with at most `most` documents together; return False if there is nothing to do.

    The index is locked. Words leave their segments for the larger one, so that each is in one of them at any time.
    """
    await cursor.execute(search.JOINED, (most,))
    if not (joined := await cursor.fetchall()):
        await cursor.execute(search.SEGMENTS_TO_JOIN)
        if not (ids := segments_to_join(await cursor.fetchall(), most)):
            return False
        await cursor.execute(search.JOIN, {"ids": ids})
        await cursor.execute(search.JOINED, (most,))
        joined = await cursor.fetchall()
    (target, start), *parts = joined
    bases = {id: first - start for id, first in parts}
    await cursor.execute(search.NEXT_BLOCKS, (list(bases), BLOCKS_JOINED), prepare=False)
    rows = await cursor.fetchall()
    moved, left, is_end = await asyncio.to_thread(_join_blocks, rows, bases)
    await cursor.execute(search.DROP_BLOCKS, ([place for _, place, *_ in rows],), prepare=False)
    await add_blocks(cursor, target, moved)
    for segment, postings in left.items():
        await add_blocks(cursor, segment, postings)
    if is_end:
        await cursor.execute(search.DROP_SEGMENTS, (list(bases),))
    return True


def segments_to_join(segments: Sequence[tuple[int, int, int]], most: int) -> list[int]:
    """Return which segments (id, first and last document, ascending) to join now; none if there are too few.

    They are eight in a row, or half of `most` documents, and none is of a larger size class than the last one. A class
    spans a factor of eight.
    """
    sizes = [last - first + 1 for _, first, last in segments]
    for end in range(len(segments), 1, -1):
        begin, size, largest = end, 0, _size_class(sizes[end - 1])
        while begin and _size_class(sizes[begin - 1]) <= largest and size + sizes[begin - 1] <= most:
            if begin < end and segments[begin - 1][2] + 1 != segments[begin][1]:
                break  # some in between are being joined
            begin, size = begin - 1, size + sizes[begin - 1]
        if end - begin >= SEGMENTS_JOINED or (end - begin > 1 and size >= most // 2):
            return [id for id, *_ in segments[begin:end]]
    return []


def _size_class(size: int) -> int:
    return (size.bit_length() - 1) // 3


def _join_blocks(
    rows: Sequence[tuple[Any, ...]], bases: Mapping[int, int]
) -> tuple[dict[str, PackedPostings], dict[int, dict[str, PackedPostings]], bool]:
    """Return the words to move, counted from the first document of all, those that stay, and True if these are all.

    Of a segment that may have more blocks no words behind those that were read are moved.
    """
    found: dict[int, dict[str, PackedPostings]] = {segment: {} for segment in bases}
    for segment, _, *block in rows:
        found[segment].update(read_words(block))
    blocks = Counter(segment for segment, *_ in rows)
    ends = [max(found[segment]) for segment, count in blocks.items() if count == BLOCKS_JOINED]
    last = min(ends, default=None)
    moved = defaultdict[str, list[tuple[int, PackedPostings]]](list)
    left: dict[int, dict[str, PackedPostings]] = {segment: {} for segment in bases}
    for segment, base in bases.items():
        for word, postings in found[segment].items():
            if last is None or word <= last:
                moved[word].append((base, postings))
            else:
                left[segment][word] = postings
    return {word: concatenate(parts) for word, parts in moved.items()}, left, last is None


async def forget_agents(cursor: Cursor, agents: Sequence[UUID]) -> None:
    """Take all documents of these agents out of the index."""
    await lock(cursor)
    await cursor.execute(search.DROP_DOCUMENTS_OF_AGENTS, (agents,))
    await forget(cursor, {number for first, last in await cursor.fetchall() for number in range(first, last + 1)})


async def forget(cursor: Cursor, gone: Set[int]) -> None:
    """Take documents out of all postings, and words that no document has any more out of the vocabulary."""
    await cursor.execute(search.SEGMENTS_OF_NUMBERS, (list(gone),), prepare=False)
    lost, forgotten = set[str](), list[int]()
    for segment, first, last, lengths in await cursor.fetchall():
        within = {number - first for number in gone if first <= number <= last}
        forgotten += [coded_length(lengths[number]) for number in within if lengths and lengths[number]]
        left = bytes(0 if number in within else code for number, code in enumerate(lengths))
        await cursor.execute(search.SET_LENGTHS, (left, segment))
        await cursor.execute(search.BLOCKS_OF_SEGMENT, (segment,))
        changed, kept, words = await asyncio.to_thread(_without, await cursor.fetchall(), within)
        await cursor.execute(search.DROP_BLOCKS, (changed,), prepare=False)
        await add_blocks(cursor, segment, *kept)
        lost |= words
    await cursor.execute(search.FORGET_WORDS, (list(lost),), prepare=False)
    await cursor.execute(search.SET_FIGURES, (0, -len(forgotten), -sum(forgotten), None))


def _without(
    rows: Sequence[tuple[Any, ...]], gone: Set[int]
) -> tuple[list[str], list[dict[str, PackedPostings]], set[str]]:
    """Return the places of the blocks that change, the postings that are left of each, and the words that are lost."""
    changed, kept, lost = list[str](), list[dict[str, PackedPostings]](), set[str]()
    for place, *block in rows:
        postings, is_changed = read_words(block), False
        for word, packed in list(postings.items()):
            numbers, times = unpack(packed)
            if not gone.isdisjoint(numbers):
                is_changed = True
                del postings[word]
                if some := [(n, each) for n, each in zip(numbers, times, strict=True) if n not in gone]:
                    postings[word] = pack([n for n, _ in some], bytes(each for _, each in some))
                else:
                    lost.add(word)
        if is_changed:
            changed.append(place)
            kept.append(postings)
    return changed, kept, lost
