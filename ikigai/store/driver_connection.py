"""This module provides a connection to PostgreSQL whose every wait has a limit, and which sends statements ahead."""

import asyncio
import logging
import select
import time
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple, Self, TypeAlias, cast

import psycopg
from psycopg import generators, pq, waiting
from psycopg.abc import RV, PQGen, PQGenConn
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import AsyncRowFactory, tuple_row

from ikigai.core.ports import Meanwhile
from ikigai.store import sqlstate

STATEMENT_DEADLINE = 20.0
"""Seconds that a statement may take before its connection is given up. The server's own limit is 15, but a server that
is stopped or cut off keeps no limit.
"""


# The driver warns of rollbacks that fail on a lost connection; without a handler that would land on the screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

StatementValues: TypeAlias = Sequence[Any] | Mapping[str, Any]


class PreparedStatement(NamedTuple):
    """A statement that a connection prepares once. `types` are the OIDs of its parameters."""

    name: bytes
    text: bytes
    types: tuple[int, ...]


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that is closed when an answer is late or its wait is cancelled."""

    deadline: float | None = STATEMENT_DEADLINE
    _defers = False  # True while a statement is sent whose answer `answered` awaits
    _deferred: PQGen[Any] | None = None  # awaits that answer

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[tuple[Any, ...]]) -> None:
        super().__init__(pgconn, row_factory)
        self._prepared_names = set[bytes]()

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        """Connect as the driver does, but include the SQLSTATE of a refusal in the error."""
        return cls((yield from sqlstate.connect(conninfo)), row_factory=tuple_row)

    async def send(
        self, cursor: "Cursor", statement: LiteralString, values: StatementValues, prepare: bool | None = False
    ) -> None:
        """Send a statement without waiting for its answer. Call `answered` before sending more."""
        self._defers = True
        try:
            await cursor.execute(statement, values, prepare=prepare)
        finally:
            self._defers = False

    async def answered(self) -> None:
        """Wait for the answer to the statement that was sent, if any; its cursor then has the rows."""
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            await self.wait(_resumed(deferred, waiting.WAIT_R))

    async def execute_prepared(
        self, statement: PreparedStatement, values: Sequence[bytes | None], meanwhile: Meanwhile | None = None
    ) -> PGresult:
        """Execute a statement with values in binary format; return its rows in that format. Run `meanwhile` from when
        it has been sent, then wait for its answer.

        Nothing adapts types here, which takes a cursor of the driver longer than all the rest. Call it outside of a
        transaction.
        """
        try:
            return await self._execute_once(statement, values, meanwhile)
        except psycopg.errors.InvalidSqlStatementName:  # the driver deallocates all when it rolls back
            self._prepared_names.discard(statement.name)
            # Nothing rolls back in between: a statement that is missing again was prepared in another session.
            return await self._execute_once(statement, values, None)

    async def _execute_once(
        self, statement: PreparedStatement, values: Sequence[bytes | None], meanwhile: Meanwhile | None
    ) -> PGresult:
        await self.prepare(statement)
        formats = [pq.Format.BINARY] * len(values)
        self.pgconn.send_query_prepared(statement.name, values, formats, pq.Format.BINARY)
        results = await self._wait_while(generators.execute(self.pgconn), meanwhile)
        return _checked(results, pq.ExecStatus.TUPLES_OK)

    async def prepare(self, statement: PreparedStatement) -> None:
        """Prepare a statement, unless that was done before."""
        if statement.name not in self._prepared_names:
            self.pgconn.send_prepare(statement.name, statement.text, statement.types)
            _checked(await self.wait(generators.execute(self.pgconn)), pq.ExecStatus.COMMAND_OK)
            self._prepared_names.add(statement.name)

    async def _wait_while(self, gen: PQGen[RV], meanwhile: Meanwhile | None) -> RV:
        """Run `meanwhile` once `gen` has sent its statement, then wait for what it returns."""
        try:
            needed = next(gen)
        except StopIteration as done:
            return done.value
        if meanwhile:
            await meanwhile()
        return await self._answer(gen, needed)

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:  # noqa: ASYNC109
        try:
            needed = next(gen)
        except StopIteration as done:
            return done.value
        if self._defers and needed == waiting.WAIT_R:
            self._deferred = gen
            return cast("RV", None)  # as `execute` has it
        return await self._answer(gen, needed, interval)

    async def _answer(self, gen: PQGen[RV], needed: waiting.Wait, interval: float = 0.1) -> RV:
        """Wait for what `gen` returns, which has yielded `needed`."""
        # Most answers arrive within a millisecond, and asking the event loop for them would take a fifth of that.
        until = time.monotonic() + 0.001
        try:
            while needed == waiting.WAIT_R and time.monotonic() < until and _readable(self.pgconn.socket, 1):
                needed = gen.send(waiting.READY_R)
        except StopIteration as done:
            return done.value
        # The driver's own cancellation would ask the server to cancel, and give it five seconds to do so.
        try:
            async with asyncio.timeout(self.deadline):
                return await waiting.wait_async(_resumed(gen, needed), self.pgconn.socket, interval=interval)
        except (TimeoutError, asyncio.CancelledError):
            self.pgconn.finish()
            raise


Cursor: TypeAlias = psycopg.AsyncCursor[tuple[Any, ...]]


async def execute_while(
    cursor: Cursor, statement: LiteralString, values: StatementValues, meanwhile: Meanwhile | None
) -> None:
    """Execute a statement; run `meanwhile` from when it has been sent, then wait for its answer."""
    if meanwhile is None:
        await cursor.execute(statement, values)
        return
    connection = cast("Connection", cursor.connection)
    await connection.send(cursor, statement, values, prepare=None)
    await meanwhile()
    await connection.answered()


def is_alive(connection: psycopg.AsyncConnection) -> bool:
    """Return True if the connection is open. Read a farewell of the server that has arrived meanwhile.

    Call it only while no statement waits for an answer: the answer would be read here, and awaited until the deadline.
    """
    try:
        while not connection.closed and _readable(connection.pgconn.socket, 0):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed


def _readable(socket: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _checked(results: Sequence[PGresult], status: pq.ExecStatus) -> PGresult:
    """Return the one result of a statement. Raise its error if it has not this status."""
    if not results:
        raise psycopg.OperationalError("the connection was lost")
    if results[0].status != status:
        raise psycopg.errors.error_from_result(results[0])
    return results[0]


def _resumed(gen: PQGen[RV], needed: waiting.Wait) -> PQGen[RV]:
    """Continue a generator that was left when it yielded `needed`."""
    try:
        while True:
            needed = gen.send((yield needed))
    except StopIteration as done:
        return done.value
