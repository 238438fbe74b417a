"""Poolers: one that gives every transaction another connection is refused, one that keeps it is not."""

import asyncio
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from psycopg import conninfo

from ikigai.core.errors import BadDatabase
from ikigai.core.events import events as ev
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Connection
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS, address

PREPARED_AFTER = 9
"""Appends until the driver has prepared their statement in the session, at the latest."""


class Pooler:
    """A small pooler: clients get a server connection, for each transaction or for as long as they stay.

    Like real ones it answers the start itself, with a process number and key that are not the server's.
    """

    def __init__(self, upstream: str, by_transaction: bool, spare: int, oldest_first: bool, options: bool) -> None:
        self._upstream, self._by_transaction, self._options = upstream, by_transaction, options
        self._spare, self._oldest_first = spare, oldest_first
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._greeting = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            start = await reader.readexactly(length - 4)
            if start == struct.pack("!I", 80877103):  # asks for TLS
                writer.write(b"N")
                (length,) = struct.unpack("!I", await reader.readexactly(4))
                start = await reader.readexactly(length - 4)
            if not self._options and b"\0options\0" in start:
                fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                writer.write(packed(b"E", fields))
                return
            server = await self._server(start)
            writer.write(self._greeting)
            while True:
                kind, body = await message(reader)
                if kind == b"X":
                    break
                if server is None:
                    server = await self._server(start)
                server[1].write(packed(kind, body))
                if kind not in b"QS":  # the server answers when it is asked to
                    continue
                while kind != b"Z":
                    kind, body = await message(server[0])
                    writer.write(packed(kind, body))
                if body == b"I" and self._by_transaction:
                    self._idle.append(server)
                    server = None
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _server(self, start: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._spare:
            self._spare -= 1
            self._idle.append(await self._connect(start))
        return self._idle.pop(0 if self._oldest_first else -1) if self._idle else await self._connect(start)

    async def _connect(self, start: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(self._upstream)
        writer.write(struct.pack("!I", len(start) + 4) + start)
        greeting = b""
        while True:
            kind, body = await message(reader)
            greeting += packed(kind, struct.pack("!II", 1, 1) if kind == b"K" else body)
            if kind == b"Z":
                self._greeting = greeting
                return reader, writer


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, length = struct.unpack("!cI", await reader.readexactly(5))
    return kind, await reader.readexactly(length - 4)


def packed(kind: bytes, body: bytes) -> bytes:
    return struct.pack("!cI", kind, len(body) + 4) + body


@asynccontextmanager
async def pooled(
    dsn: str, by_transaction: bool, spare: int = 0, oldest_first: bool = False, options: bool = True
) -> AsyncIterator[str]:
    """Yield the address of a pooler; without `options` it refuses clients that send that parameter, as PgBouncer."""
    server = conninfo.conninfo_to_dict(dsn)
    name = f".s.PGSQL.{server['port']}"
    pooler = Pooler(str(Path(str(server["host"]), name)), by_transaction, spare, oldest_first, options)
    with tempfile.TemporaryDirectory(prefix="pooler-") as folder:
        listening = await asyncio.start_unix_server(pooler.serve, str(Path(folder, name)))
        yield address(dsn, host=folder)
        listening.close()


async def test_pooler_by_transaction_is_refused(dsn: str) -> None:
    for spare, oldest_first in ((0, False), (3, False), (3, True)):
        async with pooled(dsn, True, spare, oldest_first) as through:
            with pytest.raises(BadDatabase, match="pooler in transaction mode") as refused:
                await Database.open(through, MIGRATIONS)
            assert "session mode" in refused.value.remedy


async def test_pooler_by_session_will_do(dsn: str) -> None:
    async with pooled(dsn, by_transaction=False) as through:
        database = await Database.open(through, MIGRATIONS)
        log = await database.open_agent(await database.agents.create())
        assert (await log.append((ev.UserMessage("?"),))).rows[0].seq == 1
        await database.close()


async def test_pooler_that_mixes_up_sessions_is_reported(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not found at the start, a statement that is prepared in another session is."""

    async def is_not_shared(*_: object) -> bool:
        return False

    monkeypatch.setattr(DatabaseSession, "_is_shared", is_not_shared)
    async with pooled(dsn, by_transaction=True, spare=9, oldest_first=True) as through:
        database = await Database.open(through, MIGRATIONS)
        log = await database.open_agent(await database.agents.create())
        with pytest.raises(BadDatabase, match=r"mixes up the sessions of programs: .* does not exist") as refused:
            for _ in range(PREPARED_AFTER):
                await log.append((ev.UserMessage("?"),))
        assert "session mode" in refused.value.remedy
        await database.close()


async def test_session_in_which_another_program_left_a_statement_is_reset(dsn: str) -> None:
    """As behind a pooler that is not seen, since it tells the number of the server's process."""
    database = await Database.open(dsn, MIGRATIONS)
    agent = await database.agents.create()
    apply_settings = DatabaseSession._apply_settings

    async def reuse_session(session: DatabaseSession, connection: Connection) -> object:
        await connection.execute("prepare _pg3_0 as select 1")
        return await apply_settings(session, connection)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DatabaseSession, "_apply_settings", reuse_session)
        used = await Database.open(dsn, MIGRATIONS)
        log = await used.open_agent(agent)
        event = (ev.UserMessage("?"),)
        with pytest.raises(BadDatabase, match=r'mixes up .*"_pg3_0" already exists'):
            for _ in range(PREPARED_AFTER):
                await log.append(event := (ev.UserMessage("?"),))
        stored = (await log.append(event)).rows[0]
        assert stored.seq == (await database.agents.all())[0].events
        await used.close()
    await database.close()
