"""The connection to PostgreSQL: made on first use, made anew when it was lost, and never waiting for ever."""

import asyncio
import logging
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString, NamedTuple, TypeAlias, cast

import psycopg
from psycopg import conninfo, pq, waiting
from psycopg.abc import RV, PQGen

from ikigai.core.errors import BadDatabase, Misconfigured, NewerSchema, StoreError, Unavailable
from ikigai.store import address
from ikigai.store import errors as failures
from ikigai.store.sql import agents as queries

DEADLINE = 20.0
"""Seconds a statement may take before its connection is given up: the server's own limit is 15, but a server that is
stopped or cut off keeps no limit."""

REFUSED_AGAIN = 60.0
"""Seconds after which a server that did not let this program in is asked again: some lock out who asks more often."""

FOUND_WITHIN = 3.0
"""Seconds within which a first connection is tried again, to a server of our own that may just have been killed."""

OLDEST_SERVER = 150000

# The driver warns of rollbacks that fail on a lost connection; without a handler that would land on the screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Greeting(NamedTuple):
    """What the server says of itself on a new connection: its process there, and the version of ikigai's schema."""

    backend: int
    schema_version: int


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that is closed when an answer does not come in time, or is not waited for."""

    deadline: float | None = DEADLINE
    _leaves = False  # whether the answer to what is sent now is waited for later
    _left: PQGen[Any] | None = None  # the rest of that

    async def send(self, cursor: "Cursor", statement: LiteralString, values: Sequence[Any]) -> None:
        """Send a statement, unprepared, and let the server work on it; nothing else may be sent before `answered`."""
        self._leaves = True
        try:
            await cursor.execute(statement, values, prepare=False)
        finally:
            self._leaves = False

    async def answered(self) -> None:
        """Wait for the answer to what was sent, if anything was; then its cursor has the rows."""
        left, self._left = self._left, None
        if left is not None:
            await self.wait(_resumed(left, waiting.WAIT_R))

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:  # noqa: ASYNC109
        # Most answers are there within a millisecond, and it would take a fifth of that to have the loop look for them.
        until = time.monotonic() + 0.001
        try:
            wanted = next(gen)
            if self._leaves and wanted == waiting.WAIT_R:
                self._left = gen
                return cast("RV", None)  # as `execute` has it
            while wanted == waiting.WAIT_R and time.monotonic() < until and _readable(self.pgconn.socket, 1):
                wanted = gen.send(waiting.READY_R)
        except StopIteration as done:
            return done.value
        # The driver's own way to give up would ask the server to cancel, and give it five seconds to do so.
        try:
            async with asyncio.timeout(self.deadline):
                return await waiting.wait_async(_resumed(gen, wanted), self.pgconn.socket, interval=interval)
        except (TimeoutError, asyncio.CancelledError):
            self.pgconn.finish()
            raise


def _readable(socket: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _resumed(gen: PQGen[RV], wanted: waiting.Wait) -> PQGen[RV]:
    """The rest of a generator that was left when it yielded `wanted`."""
    try:
        while True:
            wanted = gen.send((yield wanted))
    except StopIteration as done:
        return done.value


Cursor: TypeAlias = psycopg.AsyncCursor[tuple[Any, ...]]


class Session:
    """One connection for everything this program does in a database, one statement at a time.

    `parameters` are what libpq is given, the password included: for programs that connect by themselves.
    `lost` holds the server processes of connections given up without a farewell: they may still hold locks.
    `revive` is called before a lost connection is made anew, and says where: a server of our own may have to be
    started. `newest` is the newest schema that may be written; on a newer one every write raises NewerSchema.
    After `idle` seconds without a use the connection is ended; the next use makes one.
    """

    def __init__(
        self,
        dsn: str,
        write: bool = True,
        deadline: float = DEADLINE,
        revive: Callable[[], Awaitable[str]] | None = None,
        newest: int | None = None,
        idle: float | None = None,
    ) -> None:
        self._aim(dsn)
        self._write = write
        self._deadline = deadline
        self._revive = revive
        self._newest = newest
        self._idle = idle
        self._idle_end: asyncio.TimerHandle | None = None
        self._refused: tuple[Misconfigured, float] | None = None  # and when
        self._turn = asyncio.Lock()
        self._connected: tuple[Connection, Cursor] | None = None
        self.greeting = Greeting(0, 0)
        self.lost: set[int] = set()
        self._used: dict[str, str] = {}  # passwords that the server took

    def _aim(self, dsn: str) -> None:
        self.parameters = address.parameters(dsn)
        self._conninfo = conninfo.make_conninfo(**self.parameters)

    def another(self) -> "Session":
        """A further connection to the same place, which changes nothing."""
        return Session(self._conninfo, False, self._deadline, self._revive)

    @property
    def place(self) -> address.Place:
        return address.place(self.parameters)

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of this connection by name; once connected also one that libpq took from a file."""
        found = {f"database {name}": self.parameters.get(name) for name in ("password", "sslpassword")}
        return {name: password for name, password in {**found, **self._used}.items() if password}

    @asynccontextmanager
    async def use(self, patient: bool = False) -> AsyncIterator[Cursor]:
        """A cursor (binary results, autocommit), for the caller alone; connects when there is no connection.

        A patient caller waits for answers as long as they take.
        Every error of the driver leaves as a StoreError. Whatever leaves a transaction open, or does not wait for an
        answer, loses the connection.
        """
        async with self._turn:
            connection, cursor = await self._ready()
            connection.deadline = None if patient else self._deadline
            try:
                with self._in_words(failures.using):
                    yield cursor
            finally:
                if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                    self._give_up()
                self._count_idle()

    async def connected_by(self, connection: psycopg.AsyncConnection) -> bool:
        """Whether this connection is the one that is used, and still there; looked at while no answer is waited for."""
        async with self._turn:
            return self._connected is not None and self._connected[0] is connection and alive(connection)

    async def close(self) -> None:
        """End the connection, and with it every lock it holds; a later use would make a new one."""
        async with self._turn:
            if self._connected is not None:
                await self._connected[0].close()
                self._connected = None

    def _count_idle(self) -> None:
        """Begin to count the seconds until the connection is ended, if it is to be."""
        if self._idle_end:
            self._idle_end.cancel()
        if self._idle is not None:
            self._idle_end = asyncio.get_running_loop().call_later(self._idle, self._end_idle)

    def _end_idle(self) -> None:
        if self._connected is not None and not self._turn.locked():
            self._connected[0].pgconn.finish()
            self._connected = None

    async def _ready(self) -> tuple[Connection, Cursor]:
        if self._connected is not None and alive(self._connected[0]):
            return self._connected
        self._give_up()
        if self._refused and time.monotonic() < self._refused[1] + REFUSED_AGAIN:
            raise self._refused[0].with_traceback(None)
        try:
            self._connected = await (self._connect_again() if self._revive else self._connect())
        except Misconfigured as error:
            self._refused = error, time.monotonic()
            raise
        return self._connected

    async def _connect_again(self) -> tuple[Connection, Cursor]:
        """Connect to a server of our own, which may have to be started; at the first time it has just been found."""
        assert self._revive
        until = time.monotonic() + FOUND_WITHIN
        while not self.greeting.backend:
            try:
                return await self._connect()
            except Unavailable:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)
            self._aim(await self._revive())
        try:
            self._aim(await self._revive())
        except BadDatabase as error:  # it ran before, so it can be mended
            raise Misconfigured(error.what, error.remedy) from error
        return await self._connect()

    async def _connect(self) -> tuple[Connection, Cursor]:
        embedded = self._revive is not None
        with self._in_words(lambda error, place: failures.connecting(error, place, embedded)):
            async with asyncio.timeout(self._deadline):
                connection = await Connection.connect(self._conninfo, autocommit=True)
        connection.deadline = self._deadline
        if password := connection.pgconn.password:
            self._used = {"database password": password.decode(errors="replace")}
        try:
            with self._in_words(failures.using):
                self.greeting = await self._greet(connection)
        except BaseException:
            await connection.close()
            raise
        return connection, connection.cursor(binary=True)

    def newer_schema(self) -> NewerSchema:
        """The error for a schema that this program must not write to."""
        return NewerSchema(
            f"The database {self.place} has schema {self.greeting.schema_version}, and this ikigai knows schemas up to "
            f"{self._newest}.",
            "Install a newer ikigai to write to it.",
        )

    @contextmanager
    def _in_words(self, tell: Callable[[psycopg.Error, address.Place], StoreError]) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if self._newest is not None and self.greeting.schema_version > self._newest:
                raise self.newer_schema() from error
            if self._write:
                self._give_up()  # a connection keeps the setting that it began with
                raise tell(error, self.place) from error
            raise BadDatabase("The database was opened for reading, so nothing can be stored.") from error
        except psycopg.Error as error:
            raise tell(error, self.place) from error
        except TimeoutError as error:
            raise failures.no_answer(self.place, self._deadline) from error

    def _give_up(self) -> None:
        if self._connected is not None:
            self.lost.add(self.greeting.backend)
            self._connected[0].pgconn.finish()
        self._connected = None

    async def _greet(self, connection: Connection) -> Greeting:
        """Settings, and whether this server will do. Raises BadDatabase when it will not."""
        info = connection.info
        if info.server_version < OLDEST_SERVER:
            raise BadDatabase(
                f"The database {self.place} is PostgreSQL {info.server_version // 10000}; ikigai needs 15 or later.",
                "Upgrade the server, or name another.",
            )
        encoding = info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise BadDatabase(
                f"The database {self.place} is encoded in {encoding}, which cannot hold every text.",
                "Create one with: createdb --encoding=UTF8 --template=template0 ikigai",
            )
        try:
            rows = await connection.execute(queries.GREET, (not self._write, self._newest))
        except psycopg.errors.UndefinedTable:
            rows = await connection.execute(queries.GREET_EMPTY, (not self._write, self._newest))
        greeting = Greeting._make((await rows.fetchall())[0][-2:])
        if greeting.backend != info.backend_pid and await self._shared(connection, greeting.backend):
            raise BadDatabase(
                f"The database {self.place} is behind a pooler in transaction mode, which cannot keep a lock.",
                "Connect to the server itself, or to a pool in session mode.",
            )
        return greeting

    async def _shared(self, connection: Connection, backend: int) -> bool:
        """Whether another connection can be given the server process of this one while this one is idle."""
        other = await Connection.connect(self._conninfo)
        other.deadline = address.CONNECT_TIMEOUT
        try:
            (theirs,) = (await (await other.execute(queries.BACKEND)).fetchall())[0]  # in a transaction of its own
            if theirs == backend:
                return True
            (ours,) = (await (await connection.execute(queries.BACKEND)).fetchall())[0]
            return ours != backend
        except TimeoutError:  # a pool of one connection, and it is ours
            return False
        finally:
            await other.close()


def alive(connection: psycopg.AsyncConnection) -> bool:
    """Whether the connection is still there; a farewell that came while nobody listened is read now.

    Never to be asked while somebody waits for an answer: it would be read here, and waited for until the deadline.
    """
    try:
        while not connection.closed and _readable(connection.pgconn.socket, 0):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed
