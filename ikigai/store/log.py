"""The log of one agent, with the pen: append, load, and the draft of the reply under way."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import psycopg

from ikigai.core import codec
from ikigai.core.errors import Busy, Refused, StoreError, Unavailable
from ikigai.core.events import AgentKilled, AgentRevived, AssistantMessage, Event, StoredEvent, TurnEnded
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.core.sanitize import storable
from ikigai.core.state.loading import Loading, Reading
from ikigai.core.state.memory import Memory
from ikigai.store import follow, reading
from ikigai.store import write_lock as pen
from ikigai.store.agents import Agent
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import agents as queries
from ikigai.store.sql import tree as family_queries

if TYPE_CHECKING:
    from ikigai.core.transfer.unsaved import Unsaved
    from ikigai.store.unsaved_place import Place

_T = TypeVar("_T")


class _Attempt:
    """Facts on their way into the log, under ids and numbers that stay the same however often it is tried."""

    def __init__(self, facts: Sequence[Event], after: int, ids: Sequence[UUID] = ()) -> None:
        self.facts = facts
        self.after = after
        self.ids = list(ids) or [event_id() for _ in facts]
        self.rows = [codec.encode(fact) for fact in facts]

    @property
    def last(self) -> int:
        return self.after + len(self.rows)


class AgentLog:
    """`ports.Log` over PostgreSQL. Made by `Database.open_agent`, which takes the pen.

    A connection that was lost is made anew by the next call, and the pen is taken again before anything else is done.
    `news` is set when a turn has ended.
    """

    def __init__(self, session: Session, agent: Agent, directory: str, news: asyncio.Event | None = None) -> None:
        self.agent = agent.id
        self.name = agent.name
        self.closed = False
        self.killed = False  # when the pen was taken: from then on nobody else kills or revives it
        self._news = news
        self._uuid = UUID(agent.id)
        self._session = session
        self._directory = storable(directory) or None
        self._held_on: psycopg.AsyncConnection | None = None
        self._last: int | None = None  # seq of the newest event, as far as the caller knows
        self._newest: UUID | None = None  # its event_id
        self._attempt: _Attempt | None = None
        self._drafted = True  # whether there may be a draft: a program that died may have left one

    async def open(self) -> None:
        """Take the pen. Raises Busy when another program has it, Refused when there is no such agent."""
        async with self._pen():
            pass

    async def append(self, facts: Sequence[Event], reload: Loading | None = None) -> Appended:
        """Store the facts in one transaction and, in the same, load memory anew by `reload`.

        Raises Unavailable when the database is out of reach or full: then nothing is stored, or everything is, and a
        second call with the very same sequence (the same object) returns what was stored. Raises Busy when another
        program wrote to the agent meanwhile, or when other facts follow on ones that were stored unseen.
        """
        async with self._pen(facts) as cursor:
            attempt = self._attempt
            if attempt is None or attempt.facts is not facts:
                attempt = self._attempt = _Attempt(facts, self._last or 0)
            ends_reply = self._drafted and any(isinstance(fact, (AssistantMessage, TurnEnded)) for fact in facts)
            fate = next((fact for fact in facts if isinstance(fact, AgentKilled | AgentRevived)), None)
            memory: Memory | None = None
            try:
                if reload is None and fate is None:
                    rows = await self._store(cursor, attempt, ends_reply)
                else:
                    async with cursor.connection.transaction():
                        rows = await self._store(cursor, attempt, ends_reply)
                        memory = await reading.load(cursor, reload) if reload else None
                        if fate:
                            killed = isinstance(fate, AgentKilled), self._uuid
                            await cursor.execute(family_queries.SET_KILLED, killed)
            except psycopg.errors.UniqueViolation as error:
                raise self._written_elsewhere() from error
            self._last, self._newest = attempt.last, attempt.ids[-1] if attempt.ids else self._newest
            self._attempt = None
            self._drafted = self._drafted and not ends_reply
        if self._news and any(isinstance(fact, TurnEnded) for fact in facts):
            self._news.set()
        return Appended(rows, memory)

    def unsaved(self, facts: Sequence[Event], more: Sequence[Event]) -> Unsaved:
        """Return `facts`, as `append` has tried to store them, and `more` behind them, for a file."""
        from ikigai.core.transfer.unsaved import Unsaved

        tried = self._attempt if self._attempt and self._attempt.facts is facts else _Attempt(facts, 0)
        ids = tuple(map(str, (*tried.ids, *(event_id() for _ in more))))
        behind = str(self._newest) if self._newest else None
        return Unsaved(self.agent, self.name, behind, ids, (*facts, *more))

    async def put_back(self, unsaved: Unsaved) -> Place:
        """Store what another run could not, if it follows on what is there; returns where it had its place before.

        Raises as `append` does.
        """
        from ikigai.store import unsaved_place

        async with self._pen() as cursor:
            place = await unsaved_place.place(cursor, unsaved)
        if place.follows and place.missing:
            facts, ids = unsaved.events[-place.missing :], unsaved.ids[-place.missing :]
            self._attempt = _Attempt(facts, self._last or 0, list(map(UUID, ids)))
            await self.append(facts)
        return place

    async def load(self, asking: Reading[_T]) -> _T:
        async with self._pen() as cursor:
            return await reading.load(cursor, asking)

    async def save_draft(self, draft: Draft) -> None:
        """Keep what a streaming reply has said so far; gone with the append that stores the reply or ends the turn."""
        text, thinking = storable(draft.text), storable(draft.thinking)
        async with self._pen() as cursor:
            self._drafted = True
            said = (self._uuid, draft.asked_by, text, thinking, follow.encoded(draft.parts))
            await cursor.execute(queries.SAVE_DRAFT, (*said, *follow.lock(self._uuid)))

    async def draft(self) -> Draft | None:
        async with self._pen() as cursor:
            await cursor.execute(queries.DRAFT, (self._uuid,))
            rows = await cursor.fetchall()
        return Draft(*rows[0]) if rows else None

    async def come_back(self) -> None:
        """The user has come back to it: it is the agent used last."""
        async with self._pen() as cursor:
            await cursor.execute(queries.USE_AGENT, (self._directory, self._uuid))

    async def close(self) -> None:
        """Put the pen down. Never fails: what cannot be said to the database ends with the connection."""
        self.closed = True
        held_on, self._held_on = self._held_on, None
        if held_on is None or not await self._session.connected_by(held_on):
            return
        with suppress(StoreError):
            async with self._session.use() as cursor:
                if cursor.connection is held_on:
                    await cursor.execute(queries.USE_AGENT, (self._directory, self._uuid))
                    await pen.drop(cursor, self._uuid)

    @asynccontextmanager
    async def _pen(self, facts: Sequence[Event] | None = None) -> AsyncIterator[Cursor]:
        """A cursor on the connection that holds the pen; `facts` are those about to be stored."""
        async with self._session.use() as cursor:
            if self.closed:  # a late draft must not take the pen again: nobody would put it down
                raise Unavailable(f"Agent {self.name} has been left.")
            if cursor.connection is not self._held_on:
                await pen.take(self._session, cursor, self._uuid, self.name)
                try:
                    await self._see_where_the_log_ends(cursor, facts)
                except BaseException:
                    # Else the same connection would take it a second time, and have to drop it twice.
                    with suppress(psycopg.Error, TimeoutError):
                        await pen.drop(cursor, self._uuid)
                    raise
                self._held_on = cursor.connection
            yield cursor

    async def _see_where_the_log_ends(self, cursor: Cursor, facts: Sequence[Event] | None) -> None:
        await cursor.execute(queries.USE_AGENT, (self._directory, self._uuid))
        rows = await cursor.fetchall()
        if not rows:
            raise Refused(f"There is no agent {self.name} in this database any more.", "Use another, or --new.")
        ((last, newest, self.killed),) = rows
        tried = self._attempt if self._attempt and self._attempt.facts is facts else None
        if self._last is None:
            self._last, self._newest = last, newest
        elif last != self._last and not (tried and last == tried.last):
            raise self._written_elsewhere()

    async def _store(self, cursor: Cursor, attempt: _Attempt, ends_reply: bool) -> tuple[StoredEvent, ...]:
        if len(attempt.rows) == 1 and not ends_reply:
            one = (self._uuid, attempt.last, attempt.ids[0], *attempt.rows[0], *follow.lock(self._uuid))
            await cursor.execute(queries.APPEND_ONE, one)
        elif attempt.rows:
            kinds, contents, datas = (list(column) for column in zip(*attempt.rows, strict=True))
            every = {"agent": self._uuid, "after": attempt.after, "ids": attempt.ids, "forget": ends_reply}
            following, key = follow.lock(self._uuid)
            every |= {"kinds": kinds, "contents": contents, "datas": datas, "following": following, "key": key}
            await cursor.execute(queries.APPEND_ALL, every)
        else:
            return ()
        rows = await cursor.fetchall()
        if not rows:  # an earlier try was stored, and only its answer was lost
            await cursor.execute(queries.STORED_BEFORE, (attempt.ids, self._uuid))
            rows = await cursor.fetchall()
        if len(rows) < len(attempt.rows):  # events that were put back are in another agent meanwhile
            raise self._written_elsewhere()
        return tuple(reading.stored(self.agent, row[: reading.COLUMNS]) for row in rows)

    def _written_elsewhere(self) -> Busy:
        return Busy(
            f"Another program wrote to agent {self.name} while the connection was lost.",
            f"Open it again to see what: /switch {self.name}, or start ikigai again.",
        )


def event_id() -> UUID:
    """A fresh id (version 7): ordered by time, so that the index over them grows at one end.

    Such an id knows no time before 1970, which a clock that was never set may show.
    """
    value = (max(0, time.time_ns() // 1_000_000) << 80) | int.from_bytes(os.urandom(10))
    return UUID(int=value & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
