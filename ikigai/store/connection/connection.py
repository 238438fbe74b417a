"""Connect to PostgreSQL on first use, and reconnect after a loss."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

import psycopg
from psycopg import conninfo, pq

from ikigai.core.errors import BadDatabase, Misconfigured, NewerSchema, StoreError, Unavailable
from ikigai.store.connection import address, driver_errors
from ikigai.store.connection.driver_connection import STATEMENT_DEADLINE, Connection, Cursor, is_alive
from ikigai.store.connection.session_settings import SessionInfo, SessionSettings, apply_settings, no_rights
from ikigai.store.sql import agents

REFUSAL_RETRY_DELAY = 60.0
"""Seconds until a server that refused the login is tried again: some lock out clients that retry more often."""

FIRST_CONNECT_TIMEOUT = 15.0
"""Seconds within which a first connection is retried to the embedded server, which may just have been killed: on a busy
machine some pass until that is noticed.
"""
UNANSWERED_SECONDS = 3.0
"""Seconds without an answer after which a first connection is not retried."""


class DatabaseSession:
    """One connection for everything that this process does in a database, one statement at a time.

    `parameters` are libpq's, the password included, for programs that connect by themselves. `lost` holds the server
    processes of connections that were dropped without a farewell: they may still hold locks. `revive` runs before each
    reconnect and returns the address: an embedded server may have to be started. `newest` is the newest schema version
    that may be written; on a newer one every write raises NewerSchema. The connection is closed after `idle` seconds
    without a use; the next use makes one. `on_lost` is called when the connection was lost, `on_reconnected` with a new
    one before anything else uses it. `schema` is the name of the one schema on the search_path: nothing that others put
    elsewhere is taken for a table or function of ikigai. While `unlisted`, agents that are made are archived, and none
    becomes the one that the user used last. With `replicated` each commit waits for a synchronous standby. `seal` seals
    rows that grant something.
    """

    seal: Callable[[bytes], str] | None = None

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
    ) -> None:
        self.schema, self.unlisted, self.replicated = schema, False, replicated
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
        self.info = SessionInfo(0, 0)
        self.lost: set[int] = set()
        self._accepted: dict[str, str] = {}  # passwords that the server accepted
        self._is_mixed_up = False  # True once a session had what another program left in it

    def _resolve_address(self, dsn: str) -> None:
        self.parameters = address.connection_parameters(dsn)
        self._conninfo = conninfo.make_conninfo(**self.parameters)

    def another(self) -> "DatabaseSession":
        """Return a further connection to the same place, which changes nothing."""
        return DatabaseSession(self._conninfo, False, self._deadline, self._revive, schema=self.schema)

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
        is_first = not self.info.backend
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
        while not self.info.backend:
            began = time.monotonic()
            try:
                return await self._connect()
            except Unavailable:
                if time.monotonic() > min(until, began + UNANSWERED_SECONDS):
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
                self.info = await self._apply_settings(connection)
        except BaseException:
            await connection.close()
            raise
        return connection, connection.cursor(binary=True)

    def _is_newer(self, version: int) -> bool:
        """Return True if this program may not write to a schema of this version."""
        return self._newest is not None and version > self._newest

    async def _note_schema(self, connection: Connection) -> None:
        """Read after a failed statement what may have changed meanwhile. Raise Misconfigured if the user may no longer
        use the schema: its tables seem to be missing then. Raise NewerSchema if a newer program has changed it, and let
        the next connection begin with that.
        """
        is_idle = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        if self._is_newer(self.info.schema_version) or not is_idle:
            return
        version, error = None, None
        with suppress(psycopg.Error, TimeoutError):
            error = await no_rights(connection, self.place, self.schema)
        if error:
            raise error
        with suppress(psycopg.Error, TimeoutError):
            ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
        if self._is_newer(version or 0):
            self._drop_connection()
            raise self.newer_schema(version or 0)

    def newer_schema(self, version: int = 0) -> NewerSchema:
        """Return the error for a schema that this program must not write to."""
        return NewerSchema(
            f"The database {self.place} has schema {version or self.info.schema_version}, and this ikigai knows "
            f"schemas up to {self._newest}.",
            "Install a newer ikigai to write to it.",
        )

    @contextmanager
    def _translate_errors(self, make: Callable[[psycopg.Error, address.ServerAddress], StoreError]) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if self._is_newer(self.info.schema_version):
                raise self.newer_schema() from error
            if self._write:
                self._drop_connection()  # a connection keeps the setting that it began with
                raise make(error, self.place) from error
            raise BadDatabase("The database was opened for reading, so nothing can be written.") from error
        except psycopg.Error as error:
            failure = make(error, self.place)
            if isinstance(failure, BadDatabase) and self._is_newer(self.info.schema_version):
                raise self.newer_schema() from error
            raise failure from error
        except TimeoutError as error:
            raise driver_errors.no_answer(self.place, self._deadline, self.replicated) from error

    def _drop_connection(self) -> None:
        if self._connected is not None:
            self.lost.add(self.info.backend)
            self._connected[0].pgconn.finish()
            self._connected = None
            self.on_lost()

    async def _apply_settings(self, connection: Connection) -> SessionInfo:
        """Apply the settings of a new connection. Raise BadDatabase if the server is unsuitable."""
        settings = SessionSettings(self.schema, not self._write, self._newest, self.replicated)
        info = await apply_settings(connection, self.place, settings, again=bool(self.info.backend))
        is_pooled = info.backend != connection.info.backend_pid
        if is_pooled and await self._is_shared(connection, info.backend):
            raise BadDatabase(
                f"The database {self.place} is behind a pooler in transaction mode, which cannot keep a lock.",
                driver_errors.CONNECT_DIRECTLY,
            )
        if is_pooled or self._is_mixed_up:  # a pool may not reset the sessions of programs that have ended
            await connection.execute(agents.RESET_SESSION)
            info = await apply_settings(connection, self.place, settings, again=bool(self.info.backend))
        return info

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
        except Unavailable as unavailable:
            unavailable.in_doubt = True
            raise
        finally:
            if driver_errors.is_mixed_up(error):
                self._session._is_mixed_up = True
                self._session._drop_connection()
