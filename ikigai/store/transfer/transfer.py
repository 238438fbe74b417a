"""Read the rows of a lineage page by page for an export, and make agents of such rows for an import."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg

from ikigai.core.errors import Rejected, Unavailable
from ikigai.core.events.codec import Row
from ikigai.core.events.record import Record
from ikigai.core.relocation.renumber import IdMap, RawRow, renumber_row
from ikigai.core.relocation.shared_rows import ConflictingRow, ForkPoint, SharedRows
from ikigai.store.agents import agent_names
from ikigai.store.agents.agents import Agent, Agents, is_name
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReadingSession
from ikigai.store.log.append_attempt import new_event_id
from ikigai.store.schema import schema
from ikigai.store.sql import dump, transfer

PAGE_ROWS, PAGE_BYTES = 500, 4_000_000
"""Limits of a page, in rows and in bytes as they are stored; one row may be longer than that."""
UNSTORABLE_ERRORS = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
"""Errors of the server for a value that it cannot keep."""


class LineageMember(Record, frozen=True):
    """An agent of a lineage. `first` and `last` are ids: its events between them belong to the export."""

    id: str
    name: str
    first: int
    last: int


class Export:
    """The events of an agent and its ancestors with ids from `first` to `last`, as they are when `open` is called."""

    def __init__(self, session: ReadingSession, agent: Agent, first: int = 0, last: int = 2**63 - 1) -> None:
        self._session, self.agent = session, agent
        self._first, self._last = first, last
        self.members: tuple[LineageMember, ...] = ()
        self.events = 0

    async def open(self) -> None:
        """Read the agents of the events, the root first, and count the events."""
        async with self._session.use() as cursor:
            await cursor.execute(transfer.NEWEST, (self.agent.id,))
            ((newest,),) = await cursor.fetchall()
            await cursor.execute(transfer.LINEAGE, (self.agent.id,))
            lineage = await cursor.fetchall()
            ends = [newest or 0 if id == self.agent.id else upto for id, _, upto in lineage]
            spans = [(id, name, min(end, self._last)) for (id, name, _), end in zip(lineage, ends, strict=True)]
            self.members = tuple(LineageMember(id, name, self._first, last) for id, name, last in spans)
            counts = [await self._count(cursor, member) for member in self.members]
        self.members = tuple(member for member, count in zip(self.members, counts, strict=True) if count)
        self.events = sum(counts)

    async def _count(self, cursor: Cursor, member: LineageMember) -> int:
        await cursor.execute(transfer.COUNT, {"agent": member.id, "first": member.first, "last": member.last})
        ((count,),) = await cursor.fetchall()
        return max(0, count)

    async def pages(self) -> AsyncIterator[list[RawRow]]:
        """Yield the rows, ascending, in pages of some megabytes."""
        for member in self.members:
            first = member.first
            while page := await self._page(member, first):
                yield page
                first = page[-1].id + 1

    async def _page(self, member: LineageMember, first: int) -> list[RawRow]:
        which = {"agent": member.id, "first": first, "last": member.last, "limit": PAGE_ROWS, "bytes": PAGE_BYTES}
        async with self._session.use() as cursor:
            await cursor.execute(transfer.PAGE, which, prepare=False)
            return [RawRow(id, member.name, *rest) for id, *rest in await cursor.fetchall()]


class History(NamedTuple):
    """A history to import: its rows, ascending by id; the `name` of its agent, or the one that is `wanted` if that is
    valid and free.
    """

    rows: Iterator[RawRow]
    name: str = ""
    wanted: str = ""


class Imported(Record, frozen=True):
    """The result of an import: the agent's id and name, the number of its own events, and the name of the agent that it
    is a fork of; "" for a root.
    """

    agent: str
    name: str
    events: int
    parent: str = ""


class Import:
    """Makes agents of rows, in one transaction: all of them or nothing."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def store(
        self,
        rows: Iterator[RawRow],
        name: str = "",
        wanted: str = "",
        on_progress: Callable[[int], None] = lambda count: None,
    ) -> Imported:
        """Store one history; return its agent. Otherwise as `store_all`."""
        (made,) = await self.store_all((History(rows, name, wanted),), on_progress)
        return made

    async def store_all(
        self, histories: Iterable[History], on_progress: Callable[[int], None] = lambda count: None
    ) -> list[Imported]:
        """Store the histories under new ids; `on_progress` is called with the number of events stored so far of each.

        An agent without a `name` or a free `wanted` one gets a generated name. Rows that an earlier history has are not
        stored again: the agent becomes a fork. Raise Rejected if a name is taken or invalid, and if a history differs
        from an earlier one in the middle; raise `BadRow`. Errors of the iterators pass through. In all these cases
        nothing is stored.
        """
        made, shared, complete = list[Imported](), SharedRows(), False
        try:
            async with self._session.use(patient=True) as cursor, cursor.connection.transaction():
                await cursor.execute(dump.RESTORE_TURN)
                for history in histories:
                    made.append(await self._store_history(cursor, history, shared, made, on_progress))
                complete = True
        except Unavailable:
            # All was sent: perhaps only the answer to the commit was lost.
            if not complete or not await Agents(self._session).get(made[-1].agent):
                raise
        await schema.analyze_tables(self._session)
        return made

    async def _store_history(
        self,
        cursor: Cursor,
        history: History,
        shared: SharedRows,
        made: list[Imported],
        on_progress: Callable[[int], None],
    ) -> Imported:
        name = history.name
        if name and not is_name(name):
            raise Rejected(f"{name[:80]!r} is not a name for an agent.", "Begin with a letter or digit; no spaces.")
        try:
            numbers, fork, rows = await asyncio.to_thread(shared.split, history.rows)
        except ConflictingRow:
            raise Rejected(
                f"The history of {name or history.wanted} differs from another one in an event that both have.",
                "Export them again, or import them one by one.",
            ) from None
        skipped = len(numbers)
        agent, name = await self._create(cursor, name, history.wanted if is_name(history.wanted) else "", fork)
        count, began = 0, 0.0
        while batch := await asyncio.to_thread(_batch, rows):
            try:
                ids = await self._store(cursor, agent, batch, numbers, count)
            except BadRow as error:
                raise BadRow(skipped + error.number) from error
            for raw, id in zip(batch, ids, strict=True):
                shared.add(raw, str(agent), id)
            began = began if count else batch[0].at
            count += len(batch)
            on_progress(count)
        shared.end()
        if count:
            await cursor.execute(transfer.USED, {"began": began, "agent": agent})
        parent = next((each.name for each in made if fork and each.agent == fork.agent), "")
        return Imported(str(agent), name, count, parent)

    async def _create(self, cursor: Cursor, name: str, wanted: str, fork: ForkPoint | None) -> tuple[UUID, str]:
        agent, attempt = uuid4(), 0
        parent, forked_at = fork or (None, None)
        while True:
            chosen = name or (wanted if not attempt and wanted else agent_names.suggest_name(attempt))
            await cursor.execute(transfer.CREATE, (agent, chosen, parent, forked_at))
            if cursor.rowcount:
                return agent, chosen
            if name:
                raise Rejected(f"There is an agent named {name} already.", "Choose another name.")
            attempt += 1

    async def _store(self, cursor: Cursor, agent: UUID, batch: list[RawRow], numbers: IdMap, before: int) -> list[int]:
        """Store the rows behind the `before` first ones of the agent; return their ids."""
        await cursor.execute(transfer.RESERVE, (len(batch),))
        ids = [id for (id,) in await cursor.fetchall()]
        rows: list[Row] = []
        for raw, id in zip(batch, ids, strict=True):
            try:
                rows.append(renumber_row(Row(raw.kind, raw.content, raw.data), numbers))
            except (ValueError, RecursionError) as error:
                raise BadRow(before + len(rows) + 1) from error
            numbers.add(raw.id, id)
        try:
            await _insert(cursor, agent, batch, rows, ids, before)
        except UNSTORABLE_ERRORS:
            for n, id in enumerate(ids):  # find the bad row
                try:
                    await _insert(cursor, agent, batch[n : n + 1], rows[n : n + 1], [id], before + n)
                except UNSTORABLE_ERRORS as error:
                    raise BadRow(before + n + 1) from error
            raise
        return ids


class BadRow(Rejected):
    """Row `number`, counted from 1, holds a value that the database cannot keep."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Event {number} contains data that PostgreSQL cannot store.", "Remove it from the file.")
        self.number = number


async def _insert(
    cursor: Cursor, agent: UUID, batch: list[RawRow], rows: list[Row], ids: list[int], before: int
) -> None:
    kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
    values = {
        "agent": agent,
        "ids": ids,
        "event_ids": [new_event_id() for _ in ids],
        "seqs": [before + n for n in range(1, len(ids) + 1)],
        "ats": [raw.at for raw in batch],
    }
    async with cursor.connection.transaction():
        await cursor.execute(transfer.STORE, {**values, "kinds": kinds, "contents": contents, "datas": datas})


def _batch(rows: Iterator[RawRow]) -> list[RawRow]:
    """Return the next rows, up to the size of a page."""
    batch: list[RawRow] = []
    size = 0
    for raw in rows:
        batch.append(raw)
        size += len(raw.content or "") + len(raw.data or "")
        if len(batch) == PAGE_ROWS or size >= PAGE_BYTES:
            break
    return batch
