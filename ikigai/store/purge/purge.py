"""Purge a text from the log for good, and rewrite the tables that held it.

The purged text stays in this process. The server only gets the replacements, because it may log its statements.
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

from ikigai.core.errors import AgentLocked, Rejected, StoreError
from ikigai.core.events.codec import Row
from ikigai.core.events.record import Record
from ikigai.core.relocation.redact import PURGED_TEXT, PurgeTarget, match_anything, purge_row, row_texts
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.log import write_lock
from ikigai.store.search import word_index
from ikigai.store.sql import purge

LAST_ID = 2**63 - 1
PURGE_PAGE_ROWS = 250
"""Events read together: some hold megabytes."""
CHANGED_PER_STATEMENT = 5_000
"""Events that one statement changes."""
STATISTICS_TABLE = "pg_statistic"
"""The server's table with samples of the columns."""
MAX_REWRITES = 10
"""Times that a table is rewritten while other transactions can still see its old rows."""

MAX_SEGMENTS = 1_000
"""Limit of the segments of the write-ahead log that are passed: far more than one server keeps."""

Ids: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of ids, both ends included."""


class PurgeHit(Record, frozen=True):
    """An event that is to be purged: the row that is left of it, and its first words; `at` is in seconds since 1970.

    `words` are those around the purged text, which is hidden in them, or the first ones if ids were named.
    """

    id: int
    agent: str
    at: float
    words: str
    left: Row


class PurgePlan(Record, frozen=True):
    """The changes that a purge would make. `drafts` are the ids of agents whose reply draft is purged.

    `empty` are the ids of named events that hold no words, `last` is the last id that was read.
    """

    hits: tuple[PurgeHit, ...]
    drafts: tuple[str, ...]
    empty: tuple[int, ...]
    last: int

    @property
    def kinds(self) -> Counter[str]:
        return Counter(hit.left.kind for hit in self.hits)


class RewriteReport(Record, frozen=True):
    """The result for one table. `sizes` are its bytes before and after. `kept` is the number of old rows that stay in
    its files because another transaction could still see them. `why` is the reason why it was not rewritten, "" if it
    was.
    """

    table: str
    sizes: tuple[int, int] = (0, 0)
    kept: int = 0
    why: str = ""


class Purge:
    """One purge among the events with these ids: of all of them if `wanted` is None, else of those that hold that text.

    From here on no statement over this session has a timeout.
    """

    def __init__(
        self, session: DatabaseSession, wanted: PurgeTarget | None, ids: Ids = ((0, LAST_ID),), agent: str | None = None
    ):
        self._session = session
        self._wanted, self._ids = wanted, ids
        self._agent = UUID(agent) if agent else None

    @property
    def by_ids(self) -> bool:
        return self._wanted is None

    async def find(self, after: int = 0, looked: Callable[[int], None] = lambda count: None) -> PurgePlan:
        """Return the plan of a purge among the events after `after`; `looked` is called with the number of events read
        so far.

        Raise Rejected if an id was named that does not exist.
        """
        hits: list[PurgeHit] = []
        empty: list[int] = []
        count, last = 0, after
        async with self._session.use(patient=True) as cursor:
            await cursor.execute(purge.PURGE_SETTINGS)
            for first, end in self._ids:
                read, position = 0, max(first, after + 1)
                while page := await self._page(cursor, position, end):
                    for id, agent, at, *columns in page:
                        if hit := self._hit(id, agent, at, Row(*columns)):
                            hits.append(hit)
                        elif self._wanted is None:
                            empty.append(id)
                    read, position = read + len(page), page[-1][0] + 1
                    last = max(last, page[-1][0])
                    looked(count := count + len(page))
                if not read and self._wanted is None:
                    raise Rejected(_missing(first, end, bool(self._agent)), "/history and /search show the ids.")
            if self._wanted is None:
                hits += await self._recalled(cursor, [hit.id for hit in hits])
            drafts = await self._drafts(cursor, {hit.id for hit in hits})
        unique = {hit.id: hit for hit in hits}
        return PurgePlan(tuple(unique[id] for id in sorted(unique)), drafts, tuple(sorted(set(empty))), last)

    async def check_write_locks(self, plan: PurgePlan) -> None:
        """Raise AgentLocked if another process has one of these agents, or a fork that inherited from them, open."""
        async with self._session.use() as cursor, self._write_locks(cursor, plan):
            pass

    @retry_on_conflict
    async def carry_out(self, plan: PurgePlan) -> int:
        """Carry out the plan in one transaction; return how many turns lost the count of their tokens.

        Raise as `check_write_locks` does: then nothing is changed.
        """
        ids = [hit.id for hit in plan.hits]
        async with self._session.use(patient=True) as cursor, self._write_locks(cursor, plan):
            await cursor.execute(purge.PURGE_SETTINGS)
            async with cursor.connection.transaction():
                await cursor.execute(purge.PURGING)
                for start in range(0, len(ids), CHANGED_PER_STATEMENT):
                    rows = [hit.left for hit in plan.hits[start : start + CHANGED_PER_STATEMENT]]
                    columns = [row.content for row in rows], [row.data for row in rows]
                    await cursor.execute(purge.PURGE_EVENTS, (ids[start : start + CHANGED_PER_STATEMENT], *columns))
                await cursor.execute(purge.PURGE_COUNTS, (ids,))
                turns = cursor.rowcount
                await cursor.execute(purge.PURGE_DRAFT, (PURGED_TEXT, [UUID(agent) for agent in plan.drafts]))
                await word_index.renew_events(cursor, ids)
        return turns

    async def rewrite(self) -> list[RewriteReport]:
        """Rewrite the tables, so that their files do not hold the purged text; processes that store have to wait.

        That includes tables in which no row holds it now, since files keep rows that were deleted or replaced, and the
        statistics of the server, which sample them. Failures are in the reports; nothing is raised.
        """
        tables = [*purge.WRITTEN, STATISTICS_TABLE]
        return [await self._rewrite(table) for table in tables]

    async def clear_write_ahead_log(self) -> str:
        """Remove every segment of the embedded server's write-ahead log that was written so far.

        Return why that failed, "" if it succeeded. Call it after `rewrite`: its checkpoint also removes the old files
        of the tables.
        """
        try:
            async with self._session.use(patient=True) as cursor:
                await cursor.execute(purge.PURGE_SETTINGS)
                for _ in range(MAX_SEGMENTS):
                    await cursor.execute(purge.BEGIN_SEGMENT)
                    await cursor.execute(purge.SEGMENTS_AHEAD)
                    ahead = await cursor.fetchall()
                    await cursor.execute(purge.SWITCH_SEGMENT)
                    if ahead == [(0,)]:  # a recycled segment holds the data of its old name
                        break
                await cursor.execute(purge.CHECKPOINT)
        except StoreError as error:
            return error.what
        return ""

    async def _rewrite(self, table: str) -> RewriteReport:
        try:
            async with self._session.use(patient=True) as cursor:
                await cursor.execute(purge.PURGE_SETTINGS)
                done = await _vacuum(cursor, table)
                for _ in range(MAX_REWRITES - 1):
                    if done.kept and not done.why:
                        await asyncio.sleep(1)
                        done = await _vacuum(cursor, table)
                return done
        except StoreError as error:
            return RewriteReport(table, why=error.what)

    async def _page(self, cursor: Cursor, first: int, last: int) -> list[tuple[Any, ...]]:
        await cursor.execute(purge.PURGE_PAGE, (first, last, self._agent, self._agent, PURGE_PAGE_ROWS), prepare=False)
        return await cursor.fetchall()

    async def _recalled(self, cursor: Cursor, ids: list[int]) -> list[PurgeHit]:
        """Return the excerpts of these events that were recalled."""
        await cursor.execute(purge.PURGE_RECALLED, (min(ids, default=LAST_ID), ids), prepare=False)
        found = [self._hit(id, agent, at, Row(*row)) for id, agent, at, *row in await cursor.fetchall()]
        return [hit for hit in found if hit]

    def _hit(self, id: int, agent: str, at: float, row: Row) -> PurgeHit | None:
        left = self._purge_row(row)
        return PurgeHit(id, agent, at, self._words(row), left) if left else None

    def _purge_row(self, row: Row) -> Row | None:
        if self._wanted is None:
            return purge_row(row, match_anything)
        return purge_row(row, self._wanted.is_in) if self._wanted.may_match(row) else None

    def _words(self, row: Row) -> str:
        matches = self._wanted.is_in if self._wanted else match_anything
        text = next((text for text in row_texts(row, matches) if matches(text)), "[image]")
        return " ".join((self._wanted.format_context(text) if self._wanted else text[:400]).split())[:120]

    async def _drafts(self, cursor: Cursor, ids: set[int]) -> tuple[str, ...]:
        """Return the agents whose reply draft holds the text, or answers an event that is purged."""
        await cursor.execute(purge.PURGE_DRAFTS, (self._agent, self._agent))
        rows = await cursor.fetchall()
        if self._wanted is None:
            return tuple(agent for agent, asked_by, *_ in rows if asked_by in ids)
        matches = self._wanted.is_in
        return tuple(agent for agent, _, text, thinking in rows if matches(text) or matches(thinking))

    @asynccontextmanager
    async def _write_locks(self, cursor: Cursor, plan: PurgePlan) -> AsyncIterator[None]:
        """Hold the write locks of all agents that have one of these events in memory when they are open."""
        first: dict[str, int] = dict.fromkeys(plan.drafts, LAST_ID)
        for hit in reversed(plan.hits):
            first[hit.agent] = hit.id
        await cursor.execute(purge.PURGE_AGENTS, ([UUID(agent) for agent in first], [*first.values()]))
        held: list[UUID] = []
        try:
            for id, name in await cursor.fetchall():
                try:
                    await write_lock.acquire(self._session, cursor, id, name)
                except AgentLocked as locked:
                    raise AgentLocked(
                        locked.what, "Leave it there, then purge again. Nothing was changed.", locked.owner
                    ) from None
                held.append(id)
            yield
        finally:
            for id in held:
                with suppress(psycopg.Error, TimeoutError):
                    await write_lock.release(self._session, cursor, id)


async def _vacuum(cursor: Cursor, table: str) -> RewriteReport:
    """Rewrite the table; the server's notice tells how many dead rows it had to keep."""
    details: list[str] = []
    connection = cursor.connection
    connection.add_notice_handler(notice := lambda diagnostic: details.append(diagnostic.message_detail or ""))
    try:
        ((file, before),) = await _file(cursor, table)
        await cursor.execute(sql.SQL(purge.REWRITE).format(sql.Identifier(table)))
        ((new_file, after),) = await _file(cursor, table)
    finally:
        connection.remove_notice_handler(notice)
    if file == new_file:  # a missing right is only a warning
        return RewriteReport(table, why="the database user is not its owner")
    # "0 dead row versions cannot be removed yet", in the language of the server
    kept = next((int(number[0]) for detail in details if (number := re.match(r"\D*(\d+)", detail))), 0)
    return RewriteReport(table, (before, after), kept)


async def _file(cursor: Cursor, table: str) -> list[tuple[int, int]]:
    await cursor.execute(purge.FILE_OF, (table, table))
    return await cursor.fetchall()


def _missing(first: int, last: int, of_agent: bool) -> str:
    whose = " of this agent" if of_agent else ""
    return f"There is no event {first}{whose}." if first == last else f"There are no events {first}-{last}{whose}."
