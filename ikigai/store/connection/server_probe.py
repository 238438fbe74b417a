"""Test what ikigai needs of a server beyond tables: session locks and notifications between connections.

A pooler that gives each transaction another connection keeps neither, and an engine that speaks PostgreSQL's protocol
may accept the statements and do nothing. Two programs could then write to one agent.
"""

import asyncio
import secrets
from typing import LiteralString

import psycopg

from ikigai.core.errors import BadDatabase
from ikigai.core.events.record import Record
from ikigai.store.connection.address import ServerAddress
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.driver_errors import CONNECT_DIRECTLY
from ikigai.store.sql import agents

PROBE_LOCK = int.from_bytes(b"ikip")
"""The first number of the lock that is tried; the second is random, so that programs may probe at once."""
NOTIFICATION_SECONDS = 3.0
"""Seconds within which a notification has to arrive; on a quiet server it takes a millisecond."""
NOTIFICATION_POLL = 0.02
LACKING = (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFunction, psycopg.errors.SyntaxError)
"""The answers of engines that do not know a statement."""


class ServerProbe(Record, frozen=True):
    """The findings: `keeps_locks` if a session lock is refused to another connection and held until it is released,
    `notifies` if a notification of another connection arrives.
    """

    keeps_locks: bool
    notifies: bool

    def check(self, place: ServerAddress) -> None:
        """Raise BadDatabase with the missing features."""
        if not self.keeps_locks:
            raise BadDatabase(
                f"The database {place} does not keep session locks, so two programs could write to one agent.",
                CONNECT_DIRECTLY,
            )
        if not self.notifies:
            raise BadDatabase(
                f"The database {place} delivers no notifications, so programs could not tell each other of events.",
                CONNECT_DIRECTLY,
            )


async def probe(session: DatabaseSession) -> ServerProbe:
    """Try the server of this session, with a second connection that is closed again. Raise StoreError."""
    another = session.another()
    try:
        async with session.use() as cursor, another.use() as other:
            return ServerProbe(await _keeps_locks(cursor, other), await _notifies(cursor, other))
    finally:
        await another.close()


async def _keeps_locks(cursor: Cursor, other: Cursor) -> bool:
    key = PROBE_LOCK, secrets.randbits(31)
    try:
        taken = await _is_true(cursor, agents.ACQUIRE_LOCK, key)
        taken_twice = await _is_true(other, agents.ACQUIRE_LOCK, key)
        if taken_twice:
            await other.execute(agents.RELEASE_LOCK, key)
        return await _is_true(cursor, agents.RELEASE_LOCK, key) and taken and not taken_twice
    except LACKING:
        return False


async def _is_true(cursor: Cursor, statement: LiteralString, values: tuple[int, int]) -> bool:
    await cursor.execute(statement, values)
    return await cursor.fetchall() == [(True,)]


async def _notifies(cursor: Cursor, other: Cursor) -> bool:
    channel, arrived = f"ikigai_probe_{secrets.token_hex(4)}", asyncio.Event()
    connection = cursor.connection

    def note(notification: psycopg.Notify) -> None:
        if notification.channel == channel:
            arrived.set()

    connection.add_notify_handler(note)
    try:
        await cursor.execute(agents.listen(channel))
        await other.execute(agents.NOTIFY, (channel, ""))
        until = asyncio.get_running_loop().time() + NOTIFICATION_SECONDS
        while True:
            await cursor.execute(agents.BACKEND, prepare=False)  # an answer brings the notifications that have come
            if arrived.is_set() or asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(NOTIFICATION_POLL)
        await cursor.execute(agents.unlisten(channel))
    except LACKING:
        return False
    finally:
        connection.remove_notify_handler(note)
    return arrived.is_set()
