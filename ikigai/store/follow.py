"""Following an agent that another program writes: what is new in its log, read by `seq`, and in its draft.

    writer: append, save_draft ──► NOTIFY ikigai, 'agent seq' or 'agent draft', where somebody follows
    follower: LISTEN ──► rows with seq above the last one read ──► the draft, what of it is new

A notification only says that looking is worth it: one that is lost costs POLL seconds. Whoever follows shares a lock on
the agent; the writer tries to take it alone and notifies where that fails. It keeps it until its commit, so a follower
that has got its share reads everything that it was not told of.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

import msgspec
import psycopg

from ikigai.core.events import CHANGES_THE_PAST, StoredEvent
from ikigai.core.request.reply_draft import Draft, Parts
from ikigai.core.state.loading import Loading
from ikigai.core.state.memory import Memory
from ikigai.store import reading
from ikigai.store import write_lock as pen
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import agents as queries

NAMESPACE = int.from_bytes(b"ikif")
"""The first number of the lock that followers share; the second is that of the pen."""
POLL = 1.0
"""Seconds between two looks when nothing was notified."""
PACE = 0.05
"""Seconds between two looks however much is notified."""
PAGE = 500
"""Rows read at a time, after a long absence."""


def lock(agent: UUID) -> tuple[int, int]:
    """The lock that the followers of an agent share."""
    return NAMESPACE, pen.number(agent)


def encoded(parts: Parts) -> str:
    """The parts of a draft as they are stored; names of calls hold what the database can hold."""
    return msgspec.json.encode(parts).decode().replace("\\u0000", "\\ufffd")


def _decoded(parts: str) -> Parts:
    """The same read; () for what is none."""
    try:
        return msgspec.json.decode(parts, type=Parts)
    except ValueError:
        return ()


class News(NamedTuple):
    """What is new: `rows` of the log, ascending by seq without a gap; `draft` has of text and thinking what is new.

    `memory` is what was loaded behind the rows, where one of them changes the past or `reload` asked for it. `holder`
    has the pen, and `name` is what the agent is called now; `looked` says whether both were asked.
    """

    rows: tuple[StoredEvent, ...] = ()
    memory: Memory | None = None
    draft: Draft | None = None
    holder: pen.Holder | None = None
    looked: bool = False
    name: str = ""


class Follower:
    """Reads one agent on a connection of its own. Made by `Database.follow`; `begin` first.

    Every row and every word of a draft is given once: one that a failure kept from being given is given next time.
    Calls raise Unavailable when the database is out of reach; the next one connects again.
    """

    def __init__(self, session: Session, agent: str, load: Callable[[], Loading]) -> None:
        self.seq = 0  # of the newest row that was given
        self._agent, self._uuid = agent, UUID(agent)
        self._session, self._load = session, load
        self._heard_on: psycopg.AsyncConnection | None = None
        self._hinted = self._stale = False
        self._given = (0, 0, 0)  # the draft's asked_by, characters of its text, of its thinking
        self._looked = self._asked = 0.0  # when, at all and for the holder

    async def begin(self) -> tuple[Memory, pen.Holder | None]:
        """The agent's memory, and who has its pen; what was stored behind it is news."""
        async with self._heard() as cursor, reading.snapshot(cursor):
            await cursor.execute(queries.LAST_SEQ, (self._uuid,))
            ((seq,),) = await cursor.fetchall()
            memory = await reading.load(cursor, self._load())
            holder = await pen.holder_of(cursor, self._uuid)
        self.seq = seq
        return memory, holder

    async def news(self) -> News:
        """Wait until something may be new, POLL seconds at most, and look."""
        await self._wait()
        return await self.look()

    async def look(self) -> News:
        clock = asyncio.get_running_loop().time
        self._hinted = False
        async with self._heard() as cursor:
            rows, memory = await self._rows(cursor, PAGE), None
            if self._stale or any(isinstance(row.event, CHANGES_THE_PAST) for row in rows):
                async with reading.snapshot(cursor):
                    rows = await self._rows(cursor, reading.NO_LIMIT)
                    memory = await reading.load(cursor, self._load())
            draft = None if len(rows) == PAGE else await self._draft(cursor)
            holder, name, looked = None, "", clock() - self._asked >= POLL
            if looked:
                holder, self._asked = await pen.holder_of(cursor, self._uuid), clock()
                await cursor.execute(queries.AGENT_NAME, (self._uuid,))
                name = "".join(name for (name,) in await cursor.fetchall())
        if rows:
            self.seq = rows[-1].seq
        self._stale = self._stale and memory is None
        if draft:
            asked_by, text, thinking = self._given if self._given[0] == draft.asked_by else (draft.asked_by, 0, 0)
            self._given = asked_by, text + len(draft.text), thinking + len(draft.thinking)
        self._looked = clock()
        self._hinted = self._hinted or len(rows) == PAGE
        return News(rows, memory, draft, holder, looked, name)

    def reload(self) -> None:
        """Memory is to be loaded anew: what it is made by has changed."""
        self._stale = self._hinted = True

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def _heard(self) -> AsyncIterator[Cursor]:
        """A cursor on a connection that is notified."""
        async with self._session.use() as cursor:
            if cursor.connection is not self._heard_on:
                cursor.connection.add_notify_handler(lambda note: self._note(note.payload))
                await cursor.execute(queries.LISTEN)
                await cursor.execute(queries.FOLLOW, lock(self._uuid))
                self._heard_on = cursor.connection
            yield cursor

    async def _rows(self, cursor: Cursor, limit: int) -> tuple[StoredEvent, ...]:
        await cursor.execute(queries.NEWS, (self._uuid, self.seq, limit))
        return tuple(reading.stored(self._agent, row) for row in await cursor.fetchall())

    async def _draft(self, cursor: Cursor) -> Draft | None:
        """What is new in the draft; None when nothing is."""
        asked_by, text, thinking = self._given
        known = {"agent": self._uuid, "known": asked_by, "text": text, "thinking": thinking}
        await cursor.execute(queries.DRAFT_NEWS, known)
        rows = await cursor.fetchall()
        if not rows or not any(rows[0][1:3]):
            return None
        asked_by, text, thinking, parts = rows[0]
        return Draft(asked_by, text, thinking, _decoded(parts))

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._looked + PACE - loop.time()))
        until, connection = self._looked + POLL, self._heard_on
        readable = asyncio.Event()
        while not self._hinted and (left := until - loop.time()) > 0:
            if connection is None or connection.closed:
                return  # looking makes it anew
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
        """Somebody notified; what is not of this agent, or is known already, is none of ours."""
        agent, _, what = payload.partition(" ")
        if agent == self._agent:
            with contextlib.suppress(ValueError):
                self._hinted = self._hinted or what == "draft" or int(what) > self.seq
