"""Follow an agent that another process writes: read new rows of the log by `seq`, and the reply draft.

    writer: append, save_draft ──► NOTIFY schema, 'agent seq' or 'agent draft', if the agent has followers
    follower: LISTEN ──► rows with seq above the last one read ──► the new part of the draft

Memory is loaded from a replica, where there is one. Only the primary has notifications and the lock: rows and drafts
come from there. A notification only triggers a read: a lost one costs POLL_SECONDS seconds. Followers share a lock on
the agent; the writer tries to take it exclusively and notifies if that fails. The writer keeps it until its commit, so
a follower that has got its share reads everything that came without a notification.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

import msgspec
import psycopg

from ikigai.core.events.events import CHANGES_THE_PAST, StoredEvent
from ikigai.core.request.reply_draft import Draft, Parts
from ikigai.core.state.loading import Loading
from ikigai.core.state.memory import Memory
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReadingSession
from ikigai.store.log import reading, write_lock
from ikigai.store.sql import agents

FOLLOWER_LOCK = int.from_bytes(b"ikif")
"""The first number of the lock that followers share; the second is the write lock's."""
POLL_SECONDS = 1.0
"""Seconds between two reads without a notification."""
MIN_READ_INTERVAL = 0.05
"""Minimum seconds between two reads, however many notifications come."""
FOLLOW_PAGE_ROWS = 500
"""Rows read at a time, after a long absence."""


def lock(agent: UUID, schema: str) -> tuple[int, int]:
    """Return the two numbers of the lock that the followers of an agent in this schema share."""
    return FOLLOWER_LOCK, write_lock.lock_number(agent, schema)


def encode_parts(parts: Parts) -> str:
    """Return the parts of a draft as they are stored. Names of calls lose NUL, which the database cannot hold."""
    return msgspec.json.encode(parts).decode().replace("\\u0000", "\\ufffd")


def decode_parts(parts: str) -> Parts:
    """Return the parts of a stored draft; () if they cannot be read."""
    try:
        return msgspec.json.decode(parts, type=Parts)
    except ValueError:
        return ()


class FollowUpdate(NamedTuple):
    """The news of an agent: `rows` of the log, ascending by seq without a gap, and the new text and thinking of
    `draft`.

    `memory` was loaded after the rows, if one of them changes the past or `reload` asked for it. `owner` is the lock
    owner, and `name` is the agent's name now, "" if the user may not read its news; `looked` says that both were read.
    """

    rows: tuple[StoredEvent, ...] = ()
    memory: Memory | None = None
    draft: Draft | None = None
    owner: write_lock.LockOwner | None = None
    looked: bool = False
    name: str = ""


class Follower:
    """Reads one agent on a connection of its own, and its memory from `pages`. Made by `Database.follow`; call `begin`
    first.

    Each row and each word of a draft is returned once. After a failure the next call returns them. Calls raise
    Unavailable when the database is out of reach; the next one connects again.
    """

    def __init__(
        self, session: DatabaseSession, agent: str, load: Callable[[], Loading], pages: ReadingSession
    ) -> None:
        self.seq = 0  # of the newest row that was returned
        self._agent, self._uuid = agent, UUID(agent)
        self._session, self._load, self._pages = session, load, pages
        self._listens_on: psycopg.AsyncConnection | None = None
        self._has_news = self._stale = self._owner_waits = False
        self._returned = (0, 0, 0)  # the draft's asked_by, returned characters of text, of thinking
        self._read_at = self._owner_read_at = 0.0  # times of the last read, of the last read of the lock owner

    async def begin(self) -> tuple[Memory, write_lock.LockOwner | None]:
        """Return the agent's memory and lock owner; later events are news."""
        async with self._listening() as cursor:
            holder = await write_lock.read_owner(self._session, cursor, self._uuid)
        async with self._pages.use() as cursor, reading.read_snapshot(cursor):
            await cursor.execute(agents.LAST_SEQ, (self._uuid,))
            ((seq,),) = await cursor.fetchall()
            memory = await reading.load(cursor, self._load())
        self.seq = seq
        return memory, holder

    async def look(self) -> FollowUpdate:
        """Return the rows and the part of the draft that are new."""
        clock = asyncio.get_running_loop().time
        self._has_news = False
        async with self._listening() as cursor:
            rows, memory = await self._rows(cursor, FOLLOW_PAGE_ROWS), None
        if self._stale or any(isinstance(row.event, CHANGES_THE_PAST) for row in rows):
            async with self._pages.use() as cursor, reading.read_snapshot(cursor):
                rows = await self._rows(cursor, reading.NO_LIMIT)
                memory = await reading.load(cursor, self._load())
        async with self._listening() as cursor:
            draft = None if len(rows) == FOLLOW_PAGE_ROWS else await self._draft(cursor)
            holder, name = None, ""
            looked = clock() - self._owner_read_at >= POLL_SECONDS or (self._owner_waits and bool(rows))
            if looked:
                holder, self._owner_read_at = await write_lock.read_owner(self._session, cursor, self._uuid), clock()
                self._owner_waits = holder is not None and holder.is_waiting
                await cursor.execute(agents.AGENT_NAME, (self._uuid,))
                name = "".join(name for (name,) in await cursor.fetchall())
        if rows:
            self.seq = rows[-1].seq
        self._stale = self._stale and memory is None
        if draft:
            asked_by, text, thinking = self._returned if self._returned[0] == draft.asked_by else (draft.asked_by, 0, 0)
            self._returned = asked_by, text + len(draft.text), thinking + len(draft.thinking)
        self._read_at = clock()
        self._has_news = self._has_news or len(rows) == FOLLOW_PAGE_ROWS
        return FollowUpdate(rows, memory, draft, holder, looked, name)

    def reload(self) -> None:
        """Load memory anew with the next look: the settings that it depends on have changed."""
        self._stale = self._has_news = True

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[Cursor]:
        """Yield a cursor on a connection that listens."""
        async with self._session.use() as cursor:
            if cursor.connection is not self._listens_on:
                cursor.connection.add_notify_handler(lambda note: self._note(note.payload))
                await cursor.execute(agents.listen(self._session.schema))
                await cursor.execute(agents.FOLLOW, lock(self._uuid, self._session.schema))
                self._listens_on = cursor.connection
            yield cursor

    async def _rows(self, cursor: Cursor, limit: int) -> tuple[StoredEvent, ...]:
        await cursor.execute(agents.NEWS, (self._uuid, self.seq, limit))
        return tuple(reading.decode_row(self._agent, row) for row in await cursor.fetchall())

    async def _draft(self, cursor: Cursor) -> Draft | None:
        """Return the new part of the draft, or None."""
        asked_by, text, thinking = self._returned
        known = {"agent": self._uuid, "known": asked_by, "text": text, "thinking": thinking}
        await cursor.execute(agents.DRAFT_NEWS, known)
        rows = await cursor.fetchall()
        if not rows or not any(rows[0][1:3]):
            return None
        asked_by, text, thinking, parts = rows[0]
        return Draft(asked_by, text, thinking, decode_parts(parts))

    async def wait(self) -> None:
        """Wait until something may be new, POLL_SECONDS seconds at most."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._read_at + MIN_READ_INTERVAL - loop.time()))
        until, connection = self._read_at + POLL_SECONDS, self._listens_on
        readable = asyncio.Event()
        while not self._has_news and (left := until - loop.time()) > 0:
            if connection is None or connection.closed:
                return  # `look` reconnects
            socket = connection.pgconn.socket
            loop.add_reader(socket, readable.set)
            try:
                async with asyncio.timeout(left):
                    await readable.wait()
            except TimeoutError:
                return
            finally:
                loop.remove_reader(socket)
            readable.clear()
            try:
                connection.pgconn.consume_input()
            except psycopg.OperationalError:
                return
            while note := connection.pgconn.notifies():
                self._note(note.extra.decode(errors="replace"))

    def _note(self, payload: str) -> None:
        """Handle a notification. Ignore other agents, and rows that are known already."""
        agent, _, change = payload.partition(" ")
        if agent == self._agent:
            with contextlib.suppress(ValueError):
                self._has_news = self._has_news or change == "draft" or int(change) > self.seq
