"""This module connects to PostgreSQL on first use, reconnects after a loss, and limits every wait."""

import asyncio
import logging
import select
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, LiteralString, NamedTuple, Self, TypeAlias, cast

import psycopg
from psycopg import conninfo, generators, pq, waiting
from psycopg.abc import RV, PQGen, PQGenConn
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import AsyncRowFactory, tuple_row

from ikigai.core.errors import BadDatabase, Misconfigured, NewerSchema, StoreError, Unavailable
from ikigai.core.ports import Meanwhile
from ikigai.store import address, driver_errors, sqlstate
from ikigai.store.greeting import ConnectionGreeting, ConnectionTerms, greet
from ikigai.store.sql import agents

STATEMENT_DEADLINE = 20.0
"""Seconds that a statement may take before its connection is given up. The server's own limit is 15, but a server that
is stopped or cut off keeps no limit.
"""

REFUSAL_RETRY_DELAY = 60.0
"""Seconds until a server that refused the login is tried again: some lock out clients that retry more often."""

FIRST_CONNECT_TIMEOUT = 3.0
"""Seconds within which a first connection is retried to the embedded server, which may just have been killed."""

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
        while True:
            await self.prepare(statement)
            formats = [pq.Format.BINARY] * len(values)
            self.pgconn.send_query_prepared(statement.name, values, formats, pq.Format.BINARY)
            try:
                results = await self._wait_while(generators.execute(self.pgconn), meanwhile)
                return _checked(results, pq.ExecStatus.TUPLES_OK)
            except psycopg.errors.InvalidSqlStatementName:  # the driver deallocates all when it rolls back
                self._prepared_names.discard(statement.name)
                meanwhile = None

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


class DatabaseSession:
    """One connection for everything that this process does in a database, one statement at a time.

    `parameters` are those of libpq, the password included, for programs that connect by themselves. `lost` holds the
    server processes of connections that were dropped without a farewell: they may still hold locks. `revive` runs
    before each reconnect and returns the address: an embedded server may have to be started. `newest` is the newest
    schema version that may be written; on a newer one every write raises NewerSchema. The connection is closed after
    `idle` seconds without a use; the next use makes one. `on_lost` is called when the connection was lost,
    `on_reconnected` with a new one before anything else uses it. `schema` is the name of the one schema on the
    search_path: nothing that others put elsewhere is taken for a table or function of ikigai. While `unlisted`, agents
    that are made are archived, and none becomes the one that the user used last. With `replicated` each commit waits
    for a synchronous standby. `user` is the name of the user among those who share the role; agents of an embedded
    server belong to the role unless it is configured.
    """

    def __init__(
        self,
        dsn: str,
        write: bool = True,
        deadline: float = STATEMENT_DEADLINE,
        revive: Callable[[], Awaitable[str]] | None = None,
        newest: int | None = None,
        idle: float | None = None,
        schema: str = address.DEFAULT_SCHEMA,
        replicated: bool = False,
        user: str = "",
    ) -> None:
        self.schema, self.unlisted, self.replicated = schema, False, replicated
        self.user = user or address.this_user()
        self._owner_user = user if revive else self.user
        self._resolve_address(dsn)
        self._write = write
        self._deadline = deadline
        self._revive = revive
        self._newest = newest
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._refused: tuple[Misconfigured, float] | None = None  # the error, and its time
        self.on_lost: Callable[[], None] = lambda: None
        self.on_reconnected: Callable[[Cursor], Awaitable[None]] | None = None
        self._lock = asyncio.Lock()
        self._connected: tuple[Connection, Cursor] | None = None
        self.greeting = ConnectionGreeting(0, 0)
        self.lost: set[int] = set()
        self._accepted: dict[str, str] = {}  # passwords that the server accepted

    def _resolve_address(self, dsn: str) -> None:
        self.parameters = address.connection_parameters(dsn)
        self._conninfo = conninfo.make_conninfo(**self.parameters)

    def another(self) -> "DatabaseSession":
        """Return a further connection to the same place, which changes nothing."""
        return DatabaseSession(
            self._conninfo, False, self._deadline, self._revive, schema=self.schema, user=self._owner_user
        )

    @property
    def place(self) -> address.ServerAddress:
        return address.place(self.parameters)

    @property
    def is_embedded(self) -> bool:
        """True if the server is ikigai's own, which no other one replaces."""
        return self._revive is not None

    @property
    def server(self) -> str:
        """The server of the present connection: its host, port, database, and what it calls its version."""
        if self._connected is None:
            return ""
        info = self._connected[0].info
        return f"{info.host}:{info.port}/{info.dbname} {info.parameter_status('server_version')}"

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of this connection by name; once connected also one that libpq took from a file."""
        found = {f"database {name}": self.parameters.get(name) for name in ("password", "sslpassword")}
        return {name: password for name, password in {**found, **self._accepted}.items() if password}

    def use(self, patient: bool = False) -> "SessionUse":
        """Return a context manager: its cursor (binary results, autocommit) is the caller's alone; connect if there is
        no connection.

        A patient caller waits for answers without a deadline. Every error of the driver leaves as a StoreError. A
        caller that leaves a transaction open, or does not wait for an answer, loses the connection.
        """
        return SessionUse(self, patient)

    async def is_connected_by(self, connection: psycopg.AsyncConnection) -> bool:
        """Return True if `connection` is in use and alive. Check while no statement waits for an answer."""
        async with self._lock:
            return self._connected is not None and self._connected[0] is connection and is_alive(connection)

    def is_cut_off(self) -> bool:
        """Return True if nothing uses the session and its connection was lost."""
        if self._lock.locked():
            return False
        if self._connected is not None and not is_alive(self._connected[0]):
            self._drop_connection()
        return self._connected is None

    async def close(self) -> None:
        """Close the connection, and release every lock it holds. A later use makes a new one."""
        async with self._lock:
            if self._connected is not None:
                await self._connected[0].close()
                self._connected = None

    def _start_idle_timer(self) -> None:
        """Start the timer that closes an idle connection, if this session has one."""
        if self._idle_timer:
            self._idle_timer.cancel()
        if self._idle is not None:
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle, self._close_idle)

    def _close_idle(self) -> None:
        if self._connected is not None and not self._lock.locked():
            self._connected[0].pgconn.finish()
            self._connected = None

    async def _ensure_connected(self) -> tuple[Connection, Cursor]:
        if self._connected is not None and is_alive(self._connected[0]):
            return self._connected
        self._drop_connection()
        if self._refused and time.monotonic() < self._refused[1] + REFUSAL_RETRY_DELAY:
            raise self._refused[0].with_traceback(None)
        is_first = not self.greeting.backend
        try:
            connected = await (self._connect_again() if self._revive else self._connect())
        except Misconfigured as error:
            self._refused = error, time.monotonic()
            raise
        if self.on_reconnected and not is_first:
            try:
                with self._translate_errors(driver_errors.statement_error):
                    await self.on_reconnected(connected[1])
            except BaseException:
                connected[0].pgconn.finish()
                raise
        self._connected = connected
        return connected

    async def _connect_again(self) -> tuple[Connection, Cursor]:
        """Connect to the embedded server, and start it if needed. On the first call it has just been found running."""
        assert self._revive
        until = time.monotonic() + FIRST_CONNECT_TIMEOUT
        while not self.greeting.backend:
            try:
                return await self._connect()
            except Unavailable:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)
            self._resolve_address(await self._revive())
        try:
            self._resolve_address(await self._revive())
        except BadDatabase as error:  # it ran before, so it can be mended
            raise Misconfigured(error.what, error.remedy) from error
        return await self._connect()

    async def _connect(self) -> tuple[Connection, Cursor]:
        embedded = self._revive is not None
        with self._translate_errors(lambda error, place: driver_errors.connection_error(error, place, embedded)):
            servers = 1 + self.parameters.get("host", "").count(",")  # one may take `connect_timeout` to be given up
            async with asyncio.timeout(self._deadline + (servers - 1) * address.CONNECT_TIMEOUT):
                connection = await Connection.connect(self._conninfo, autocommit=True)
        connection.deadline = self._deadline
        if password := connection.pgconn.password:
            self._accepted = {"database password": password.decode(errors="replace")}
        try:
            with self._translate_errors(driver_errors.statement_error):
                self.greeting = await self._greet(connection)
        except BaseException:
            await connection.close()
            raise
        return connection, connection.cursor(binary=True)

    def _is_newer(self, version: int) -> bool:
        """Return True if this program may not write to a schema of this version."""
        return self._newest is not None and version > self._newest

    async def _note_schema(self, connection: Connection) -> None:
        """Read the version of the schema after a failed statement: a newer program may have changed it meanwhile. Raise
        NewerSchema, and let the next connection begin with that.
        """
        is_idle = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        if self._is_newer(self.greeting.schema_version) or not is_idle:
            return
        version = None
        with suppress(psycopg.Error, TimeoutError):
            ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
        if self._is_newer(version or 0):
            self._drop_connection()
            raise self.newer_schema(version or 0)

    def newer_schema(self, version: int = 0) -> NewerSchema:
        """Return the error for a schema that this program must not write to."""
        return NewerSchema(
            f"The database {self.place} has schema {version or self.greeting.schema_version}, and this ikigai knows "
            f"schemas up to {self._newest}.",
            "Install a newer ikigai to write to it.",
        )

    @contextmanager
    def _translate_errors(self, make: Callable[[psycopg.Error, address.ServerAddress], StoreError]) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if self._is_newer(self.greeting.schema_version):
                raise self.newer_schema() from error
            if self._write:
                self._drop_connection()  # a connection keeps the setting that it began with
                raise make(error, self.place) from error
            raise BadDatabase("The database was opened for reading, so nothing can be written.") from error
        except psycopg.Error as error:
            failure = make(error, self.place)
            if isinstance(failure, BadDatabase) and self._is_newer(self.greeting.schema_version):
                raise self.newer_schema() from error
            raise failure from error
        except TimeoutError as error:
            raise driver_errors.no_answer(self.place, self._deadline, self.replicated) from error

    def _drop_connection(self) -> None:
        if self._connected is not None:
            self.lost.add(self.greeting.backend)
            self._connected[0].pgconn.finish()
            self._connected = None
            self.on_lost()

    async def _greet(self, connection: Connection) -> ConnectionGreeting:
        """Apply the settings of a new connection. Raise BadDatabase if the server is unsuitable."""
        terms = ConnectionTerms(self.schema, self._owner_user, not self._write, self._newest, self.replicated)
        greeting = await greet(connection, self.place, terms, again=bool(self.greeting.backend))
        if greeting.backend != connection.info.backend_pid and await self._is_shared(connection, greeting.backend):
            raise BadDatabase(
                f"The database {self.place} is behind a pooler in transaction mode, which cannot keep a lock.",
                "Connect to the server directly, or to a pool in session mode.",
            )
        return greeting

    async def _is_shared(self, connection: Connection, backend: int) -> bool:
        """Return True if another connection can get the server process of this one while this one is idle."""
        other = await Connection.connect(self._conninfo)
        other.deadline = address.CONNECT_TIMEOUT
        try:
            (theirs,) = (await (await other.execute(agents.BACKEND)).fetchall())[0]  # in a transaction of its own
            if theirs == backend:
                return True
            (ours,) = (await (await connection.execute(agents.BACKEND)).fetchall())[0]
            return ours != backend
        except TimeoutError:  # a pool of one connection, and it is ours
            return False
        finally:
            await other.close()


class SessionUse:
    """One use of a session, as `DatabaseSession.use` says. Generators would take longer, and each message waits."""

    __slots__ = ("_connection", "_patient", "_session")

    def __init__(self, session: DatabaseSession, patient: bool) -> None:
        self._session, self._patient = session, patient

    async def __aenter__(self) -> Cursor:
        session = self._session
        await session._lock.acquire()
        try:
            self._connection, cursor = await session._ensure_connected()
        except BaseException:
            session._lock.release()
            raise
        self._connection.deadline = None if self._patient else session._deadline
        return cursor

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, (psycopg.Error, TimeoutError)):
                await self._translate(error)
        finally:
            try:
                if self._connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                    self._session._drop_connection()
                self._session._start_idle_timer()
            finally:
                self._session._lock.release()

    async def _translate(self, error: Exception) -> None:
        try:
            with self._session._translate_errors(driver_errors.statement_error):
                raise error
        except BadDatabase:
            await self._session._note_schema(self._connection)
            raise


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
