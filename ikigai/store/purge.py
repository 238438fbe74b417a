"""The purge: takes a text out of the log, for good, and rewrites the tables that held it.

What is looked for stays in this program: the server is only told what is put in its place, because it may keep a log
of what it is asked.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql

from ikigai.core.codec import Row
from ikigai.core.errors import Busy, Refused, StoreError
from ikigai.core.record import Record
from ikigai.core.transfer.redact import GONE, Wanted, anything, purged, texts
from ikigai.store import write_lock as pen
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import purge as queries

NO_LIMIT = 2**63 - 1
PAGE = 250
"""Events looked at together: some hold megabytes."""
BATCH = 5_000
"""Events changed by one statement."""
STATISTICS = "pg_statistic"
"""Keeps samples of what the columns hold."""
TRIES = 3
"""Times that a table is rewritten while others can still see what was in it."""

MOST_SEGMENTS = 1_000
"""Segments of the write-ahead log that are passed: far more than one server keeps."""

Ids: TypeAlias = Sequence[tuple[int, int]]
"""Ids from … to …, both included."""


class Hit(Record, frozen=True):
    """An event that is to be purged: what is left of it, and its first words; `at` is in seconds since 1970.

    `words` are those around what is looked for, which stands hidden in them; or the first ones, if ids were named.
    """

    id: int
    agent: str
    at: float
    words: str
    left: Row


class Found(Record, frozen=True):
    """What a purge would change. `drafts` are the ids of agents whose unfinished reply goes.

    `empty` are the ids of events that were named and hold no words, `last` is the last id that was looked at.
    """

    hits: tuple[Hit, ...]
    drafts: tuple[str, ...]
    empty: tuple[int, ...]
    last: int

    @property
    def kinds(self) -> Counter[str]:
        return Counter(hit.left.kind for hit in self.hits)


class Rewritten(Record, frozen=True):
    """What became of one table. `sizes` are its bytes before and after; `kept` old rows are in its files all the same,
    because somebody could still see them; `why` says why it was not rewritten at all, "" if it was."""

    table: str
    sizes: tuple[int, int] = (0, 0)
    kept: int = 0
    why: str = ""


class Purge:
    """One purge. `wanted` None takes what the ids name, else it takes what holds it, among the events with these ids.

    From here on no statement over this session ends because it takes long.
    """

    def __init__(self, session: Session, wanted: Wanted | None, ids: Ids = ((0, NO_LIMIT),), agent: str | None = None):
        self._session = session
        self._wanted, self._ids = wanted, ids
        self._agent = UUID(agent) if agent else None

    @property
    def by_ids(self) -> bool:
        return self._wanted is None

    async def find(self, after: int = 0, looked: Callable[[int], None] = lambda count: None) -> Found:
        """What is to be purged among the events behind `after`; `looked` hears how many have been looked at.

        Raises Refused when an id was named that is not there.
        """
        hits: list[Hit] = []
        empty: list[int] = []
        count, last = 0, after
        async with self._session.use(patient=True) as cursor:
            await cursor.execute(queries.PURGE_SETTINGS)
            for first, end in self._ids:
                here, position = 0, max(first, after + 1)
                while page := await self._page(cursor, position, end):
                    for id, agent, at, *columns in page:
                        row = Row(*columns)
                        left = self._purged(row)
                        if left:
                            hits.append(Hit(id, agent, at, self._words(row), left))
                        elif self._wanted is None:
                            empty.append(id)
                    here, position = here + len(page), page[-1][0] + 1
                    last = max(last, page[-1][0])
                    looked(count := count + len(page))
                if not here and self._wanted is None:
                    raise Refused(_missing(first, end, bool(self._agent)), "/history and /search show the ids.")
            drafts = await self._drafts(cursor, {hit.id for hit in hits})
        unique = {hit.id: hit for hit in hits}
        return Found(tuple(unique[id] for id in sorted(unique)), drafts, tuple(sorted(set(empty))), last)

    async def check_pens(self, found: Found) -> None:
        """Raises Busy when another program has one of these agents, or a fork that inherited from them, in memory."""
        async with self._session.use() as cursor, self._pens(cursor, found):
            pass

    async def carry_out(self, found: Found) -> int:
        """Purge what was found, in one transaction; returns how many turns lost the count of their tokens.

        Raises Busy as `check_pens` does: then nothing is changed.
        """
        ids = [hit.id for hit in found.hits]
        async with self._session.use(patient=True) as cursor, self._pens(cursor, found):
            await cursor.execute(queries.PURGE_SETTINGS)
            async with cursor.connection.transaction():
                await cursor.execute(queries.PURGING)
                for start in range(0, len(ids), BATCH):
                    rows = [hit.left for hit in found.hits[start : start + BATCH]]
                    columns = [row.content for row in rows], [row.data for row in rows]
                    await cursor.execute(queries.PURGE_EVENTS, (ids[start : start + BATCH], *columns))
                await cursor.execute(queries.PURGE_COUNTS, (ids,))
                turns = cursor.rowcount
                await cursor.execute(queries.PURGE_DRAFT, (GONE, [UUID(agent) for agent in found.drafts]))
                for table, statement in queries.PURGE_COPIES.items():
                    if await _exists(cursor, table):
                        await cursor.execute(statement, (ids,))
        return turns

    async def rewrite(self) -> list[Rewritten]:
        """Write the tables anew, so that their files do not hold what was purged; programs that store have to wait.

        Also tables in which no row holds it now: the files keep rows that were deleted or replaced. And the statistics
        of the server, which sample them. What goes wrong is told, and nothing is raised.
        """
        tables = [*queries.WRITTEN, *queries.PURGE_COPIES, STATISTICS]
        return [done for table in tables if (done := await self._rewrite(table))]

    async def clear_write_ahead_log(self) -> str:
        """Remove every segment of the embedded server's write-ahead log that was written so far.

        Returns why that failed, "" if it did not. Call it after `rewrite`, as the checkpoint in here also removes the
        files that the tables had before.
        """
        try:
            async with self._session.use(patient=True) as cursor:
                await cursor.execute(queries.PURGE_SETTINGS)
                for _ in range(MOST_SEGMENTS):
                    await cursor.execute(queries.BEGIN_SEGMENT)
                    await cursor.execute(queries.SEGMENTS_AHEAD)
                    ahead = await cursor.fetchall()
                    await cursor.execute(queries.SWITCH_SEGMENT)
                    if ahead == [(0,)]:  # one that was recycled holds what was written under its old name
                        break
                await cursor.execute(queries.CHECKPOINT)
        except StoreError as error:
            return error.what
        return ""

    async def _rewrite(self, table: str) -> Rewritten | None:
        try:
            async with self._session.use(patient=True) as cursor:
                if not await _exists(cursor, table):
                    return None
                await cursor.execute(queries.PURGE_SETTINGS)
                done = await _vacuumed(cursor, table)
                for _ in range(TRIES - 1):
                    if done.kept and not done.why:
                        await asyncio.sleep(1)
                        done = await _vacuumed(cursor, table)
                return done
        except StoreError as error:
            return Rewritten(table, why=error.what)

    async def _page(self, cursor: Cursor, first: int, last: int) -> list[tuple[Any, ...]]:
        await cursor.execute(queries.PURGE_PAGE, (first, last, self._agent, self._agent, PAGE), prepare=False)
        return await cursor.fetchall()

    def _purged(self, row: Row) -> Row | None:
        if self._wanted is None:
            return purged(row, anything)
        return purged(row, self._wanted.said) if self._wanted.likely(row) else None

    def _words(self, row: Row) -> str:
        said = self._wanted.said if self._wanted else anything
        text = next((text for text in texts(row, said) if said(text)), "[image]")
        return " ".join((self._wanted.around(text) if self._wanted else text[:400]).split())[:120]

    async def _drafts(self, cursor: Cursor, ids: set[int]) -> tuple[str, ...]:
        """The agents whose unfinished reply holds the text, or answers an event that is purged."""
        await cursor.execute(queries.PURGE_DRAFTS, (self._agent, self._agent))
        rows = await cursor.fetchall()
        if self._wanted is None:
            return tuple(agent for agent, asked_by, *_ in rows if asked_by in ids)
        said = self._wanted.said
        return tuple(agent for agent, _, text, thinking in rows if said(text) or said(thinking))

    @asynccontextmanager
    async def _pens(self, cursor: Cursor, found: Found) -> AsyncIterator[None]:
        """Holds the pens of all agents that have one of these events in memory when they are open."""
        first: dict[str, int] = dict.fromkeys(found.drafts, NO_LIMIT)
        for hit in reversed(found.hits):
            first[hit.agent] = hit.id
        await cursor.execute(queries.PURGE_AGENTS, ([UUID(agent) for agent in first], [*first.values()]))
        held: list[UUID] = []
        try:
            for id, name in await cursor.fetchall():
                try:
                    await pen.take(self._session, cursor, id, name)
                except Busy as busy:
                    raise Busy(
                        busy.what, "Leave it there, then purge again: nothing was changed.", busy.holder
                    ) from None
                held.append(id)
            yield
        finally:
            for id in held:
                with suppress(psycopg.Error, TimeoutError):
                    await pen.drop(cursor, id)


async def _exists(cursor: Cursor, table: str) -> bool:
    await cursor.execute(queries.HAS_TABLE, (table,))
    return await cursor.fetchall() == [(True,)]


async def _vacuumed(cursor: Cursor, table: str) -> Rewritten:
    """The table with nothing in its files but what is there; the server tells how many dead rows it had to keep."""
    told: list[str] = []
    connection = cursor.connection
    connection.add_notice_handler(notice := lambda diagnostic: told.append(diagnostic.message_detail or ""))
    try:
        ((file, before),) = await _file(cursor, table)
        await cursor.execute(sql.SQL(queries.REWRITE).format(sql.Identifier(table)))
        ((new_file, after),) = await _file(cursor, table)
    finally:
        connection.remove_notice_handler(notice)
    if file == new_file:  # it only warns of that
        return Rewritten(table, why="the database user is not its owner")
    # "0 dead row versions cannot be removed yet", in the language of the server
    kept = next((int(number[0]) for detail in told if (number := re.match(r"\D*(\d+)", detail))), 0)
    return Rewritten(table, (before, after), kept)


async def _file(cursor: Cursor, table: str) -> list[tuple[int, int]]:
    await cursor.execute(queries.FILE_OF, (table, table))
    return await cursor.fetchall()


def _missing(first: int, last: int, of_agent: bool) -> str:
    whose = " of this agent" if of_agent else ""
    return f"There is no event {first}{whose}." if first == last else f"There are no events {first}-{last}{whose}."
