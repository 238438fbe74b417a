"""Join segments of the index of words to larger ones, and take purged documents out of them.

Every writer locks the row of figures first, so that the numbers of documents have no gaps, and each number is in one
segment. A segment is written once; a join or a purge writes its words into a new one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from heapq import merge
from itertools import compress, groupby, islice
from operator import itemgetter
from typing import Any
from uuid import UUID

from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.search import stems
from ikigai.store.search.postings import Postings, coded_length, pack_words, read_words
from ikigai.store.sql import search

SEGMENTS_JOINED = 8
"""Segments of about the same size that are joined to one."""
MAX_SEGMENT = 1 << 15
"""Documents of the largest segments. A join or a purge writes one in about two seconds, and a search in this process
waits for that.
"""
MAX_JOINED_AT_ONCE = 4_096
"""Documents of segments that are joined while the index is filled, and not in the background."""
BLOCKS_AT_ONCE = 256
"""Blocks that are made and written at once: about a megabyte."""


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


async def add_blocks(cursor: Cursor, segment: int, words: Iterable[tuple[str, Postings]]) -> None:
    """Add the words of a segment, which ascend."""
    blocks = pack_words(words)
    while some := await asyncio.to_thread(lambda: [*islice(blocks, BLOCKS_AT_ONCE)]):
        await cursor.execute(search.ADD_BLOCKS, (segment, *map(list, zip(*some, strict=True))), prepare=False)


async def join(cursor: Cursor, most: int = MAX_SEGMENT) -> bool:
    """Join the next segments with at most `most` documents together; return False if there is nothing to do.

    The index is locked.
    """
    await cursor.execute(search.SEGMENTS_TO_JOIN)
    if ids := segments_to_join(await cursor.fetchall(), most):
        await replace(cursor, ids)
    return bool(ids)


def segments_to_join(segments: Sequence[tuple[int, int, int]], most: int) -> list[int]:
    """Return which segments (id, first and last document, ascending) to join now; none if there are too few.

    They are eight in a row, or half of `most` documents, and none is of a larger size class than the last one. A class
    spans a factor of eight.
    """
    sizes = [last - first + 1 for _, first, last in segments]
    for end in range(len(segments), 1, -1):
        begin, size, largest = end, 0, _size_class(sizes[end - 1])
        while begin and _size_class(sizes[begin - 1]) <= largest and size + sizes[begin - 1] <= most:
            begin, size = begin - 1, size + sizes[begin - 1]
        if end - begin >= SEGMENTS_JOINED or (end - begin > 1 and size >= most // 2):
            return [id for id, *_ in segments[begin:end]]
    return []


def _size_class(size: int) -> int:
    return (size.bit_length() - 1) // 3


async def replace(cursor: Cursor, ids: Sequence[int], gone: Set[int] = frozenset()) -> set[str]:
    """Write segments in a row anew as one, without the documents `gone`; return the words that it has no longer."""
    await cursor.execute(search.TAKE_SEGMENTS, (ids,))
    taken = sorted(await cursor.fetchall(), key=itemgetter(1))
    await cursor.execute(search.TAKE_BLOCKS, (ids,), prepare=False)
    blocks = defaultdict[int, list[Sequence[Any]]](list)
    for segment, _, *block in sorted(await cursor.fetchall()):
        blocks[segment].append(block)
    _, firsts, lasts, newest, newest_at, lengths = zip(*taken, strict=True)
    start, lost = firsts[0], set[str]()
    gone = {number - start for number in range(start, lasts[-1] + 1) if number in gone}
    left = bytes(0 if number in gone else code for number, code in enumerate(b"".join(lengths)))
    await cursor.execute(search.ADD_SEGMENT, (start, lasts[-1], max(newest), max(newest_at), left))
    ((target,),) = await cursor.fetchall()
    words = merge(*(_read(blocks[segment], first - start) for segment, first, *_ in taken))
    await add_blocks(cursor, target, _joined(words, gone, lost))
    return lost


def _read(blocks: Sequence[Sequence[Any]], base: int) -> Iterator[tuple[str, list[int], bytes]]:
    """Yield the words of blocks with the documents that have them, counted from `base`, and the times of each."""
    for block in blocks:
        for word, (numbers, times) in read_words(block):
            yield word, [base + number for number in numbers], times


def _joined(
    words: Iterable[tuple[str, list[int], bytes]], gone: Set[int], lost: set[str]
) -> Iterator[tuple[str, Postings]]:
    """Yield each word with its postings in all parts, without the documents `gone`. One that has no other is `lost`."""
    for word, group in groupby(words, key=itemgetter(0)):
        parts = list(group)
        numbers, times = [number for _, part, _ in parts for number in part], b"".join(part for *_, part in parts)
        if not gone.isdisjoint(numbers):
            left = [number not in gone for number in numbers]
            numbers, times = [*compress(numbers, left)], bytes(compress(times, left))
        if numbers:
            yield word, Postings(numbers, times)
        else:
            lost.add(word)


async def forget_agents(cursor: Cursor, agents: Sequence[UUID]) -> None:
    """Take all documents of these agents out of the index."""
    await lock(cursor)
    await cursor.execute(search.DROP_DOCUMENTS_OF_AGENTS, (agents,))
    await forget(cursor, {number for first, last in await cursor.fetchall() for number in range(first, last + 1)})


async def forget(cursor: Cursor, gone: Set[int]) -> None:
    """Take documents out of all postings, and words that no document has any more out of the vocabulary."""
    await cursor.execute(search.SEGMENTS_OF_NUMBERS, (list(gone),), prepare=False)
    lost, forgotten = set[str](), list[int]()
    for segment, first, lengths in await cursor.fetchall():
        forgotten += [coded_length(code) for number, code in enumerate(lengths, first) if code and number in gone]
        lost |= await replace(cursor, [segment], gone)
    await cursor.execute(search.FORGET_WORDS, (list(lost),), prepare=False)
    await cursor.execute(search.SET_FIGURES, (0, -len(forgotten), -sum(forgotten), None))
