"""Export and import as the database sees them: the rows of a lineage page by page, and an agent made of such rows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from uuid import UUID, uuid4

import psycopg

from ikigai.core.codec import Row
from ikigai.core.errors import Refused
from ikigai.core.record import Record
from ikigai.core.transfer.renumber import Numbers, Raw, moved
from ikigai.store import names, schema
from ikigai.store.agents import Agent, is_name
from ikigai.store.connection import Cursor, Session
from ikigai.store.log import event_id
from ikigai.store.sql import dump as dump_queries
from ikigai.store.sql import transfer as own

ROWS, BYTES = 500, 4_000_000
"""That a page holds at most, as they are stored; one row may be longer than that."""
TOO_MUCH = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
"""What the server answers to a value that it cannot keep."""


class Member(Record, frozen=True):
    """An agent of a lineage; `first` and `last` are ids: of its events these belong to what is exported, if any do."""

    id: str
    name: str
    first: int
    last: int


class Export:
    """The events of an agent and its ancestors with ids from `first` to `last`, as they are when `open` is called."""

    def __init__(self, session: Session, agent: Agent, first: int = 0, last: int = 2**63 - 1) -> None:
        self._session, self.agent = session, agent
        self._first, self._last = first, last
        self.members: tuple[Member, ...] = ()
        self.events = 0

    async def open(self) -> None:
        """Find out whose events they are, the root's first, and how many."""
        async with self._session.use() as cursor:
            await cursor.execute(own.NEWEST, (self.agent.id,))
            ((newest,),) = await cursor.fetchall()
            await cursor.execute(own.LINEAGE, (self.agent.id,))
            lineage = await cursor.fetchall()
            ends = [newest or 0 if id == self.agent.id else upto for id, _, upto in lineage]
            spans = [(id, name, min(end, self._last)) for (id, name, _), end in zip(lineage, ends, strict=True)]
            self.members = tuple(Member(id, name, self._first, last) for id, name, last in spans)
            counts = [await self._count(cursor, member) for member in self.members]
        self.members = tuple(member for member, count in zip(self.members, counts, strict=True) if count)
        self.events = sum(counts)

    async def _count(self, cursor: Cursor, member: Member) -> int:
        await cursor.execute(own.COUNT, {"agent": member.id, "first": member.first, "last": member.last})
        ((count,),) = await cursor.fetchall()
        return max(0, count)

    async def pages(self) -> AsyncIterator[list[Raw]]:
        """The rows, ascending, in pages of some megabytes."""
        for member in self.members:
            first = member.first
            while page := await self._page(member, first):
                yield page
                first = page[-1].id + 1

    async def _page(self, member: Member, first: int) -> list[Raw]:
        which = {"agent": member.id, "first": first, "last": member.last, "limit": ROWS, "bytes": BYTES}
        async with self._session.use() as cursor:
            await cursor.execute(own.PAGE, which, prepare=False)
            return [Raw(id, member.name, *rest) for id, *rest in await cursor.fetchall()]


class Imported(Record, frozen=True):
    """What an import made: the agent's id and name, and how many events it has."""

    agent: str
    name: str
    events: int


class Import:
    """Makes a root agent of rows, in one transaction: all of them or nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def store(
        self, rows: Iterator[Raw], name: str = "", wanted: str = "", told: Callable[[int], None] = lambda count: None
    ) -> Imported:
        """Take the rows, ascending by id, under new ids; `told` hears how many are stored.

        `name` is the agent's; without one it is `wanted`, if that is a name nobody has, or it is given one. Raises
        Refused when `name` is taken or none, and `BadRow`; whatever else the iterator raises leaves, too. Then nothing
        is stored.
        """
        if name and not is_name(name):
            raise Refused(f"{name[:80]!r} is no name for an agent.", "Begin with a letter or digit; no spaces.")
        async with self._session.use(patient=True) as cursor, cursor.connection.transaction():
            await cursor.execute(dump_queries.RESTORE_TURN)
            agent, called = await self._create(cursor, name, wanted if is_name(wanted) else "")
            numbers, count, began = Numbers(), 0, 0.0
            while batch := await asyncio.to_thread(_batch, rows):
                await self._store(cursor, agent, batch, numbers, count)
                began = began if count else batch[0].at
                count += len(batch)
                told(count)
            if count:
                await cursor.execute(own.USED, {"began": began, "agent": agent})
        await schema.analyze(self._session)
        return Imported(str(agent), called, count)

    async def _create(self, cursor: Cursor, name: str, wanted: str) -> tuple[UUID, str]:
        agent, tried = uuid4(), 0
        while True:
            chosen = name or (wanted if not tried and wanted else names.suggest(tried))
            await cursor.execute(own.CREATE, (agent, chosen))
            if cursor.rowcount:
                return agent, chosen
            if name:
                raise Refused(f"There is an agent named {name} already.", "Choose another name.")
            tried += 1

    async def _store(self, cursor: Cursor, agent: UUID, batch: list[Raw], numbers: Numbers, before: int) -> None:
        await cursor.execute(own.RESERVE, (len(batch),))
        ids = [id for (id,) in await cursor.fetchall()]
        rows: list[Row] = []
        for raw, id in zip(batch, ids, strict=True):
            try:
                rows.append(moved(Row(raw.kind, raw.content, raw.data), numbers))
            except (ValueError, RecursionError) as error:
                raise BadRow(before + len(rows) + 1) from error
            numbers.add(raw.id, id)
        try:
            await _insert(cursor, agent, batch, rows, ids, before)
        except TOO_MUCH:
            for n, id in enumerate(ids):  # which one it is
                try:
                    await _insert(cursor, agent, batch[n : n + 1], rows[n : n + 1], [id], before + n)
                except TOO_MUCH as error:
                    raise BadRow(before + n + 1) from error
            raise


class BadRow(Refused):
    """Row `number`, counted from 1, holds what the database cannot keep."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Event {number} holds what PostgreSQL cannot keep.", "Take it out of the file.")
        self.number = number


async def _insert(cursor: Cursor, agent: UUID, batch: list[Raw], rows: list[Row], ids: list[int], before: int) -> None:
    kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
    values = {
        "agent": agent,
        "ids": ids,
        "event_ids": [event_id() for _ in ids],
        "seqs": [before + n for n in range(1, len(ids) + 1)],
        "ats": [raw.at for raw in batch],
    }
    async with cursor.connection.transaction():
        await cursor.execute(own.STORE, {**values, "kinds": kinds, "contents": contents, "datas": datas})


def _batch(rows: Iterator[Raw]) -> list[Raw]:
    """The next rows, as many as a page holds."""
    batch: list[Raw] = []
    size = 0
    for raw in rows:
        batch.append(raw)
        size += len(raw.content or "") + len(raw.data or "")
        if len(batch) == ROWS or size >= BYTES:
            break
    return batch
