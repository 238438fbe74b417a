"""Log of one agent under its write lock: append, load, and the reply draft."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import psycopg

from ikigai.core.errors import AgentLocked, Rejected, StoreError, Unavailable
from ikigai.core.events import codec
from ikigai.core.events.events import AgentKilled, AgentRevived, AssistantMessage, Event, TurnEnded
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft, has_hosted
from ikigai.core.state.loading import Loading, Reading
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import storable
from ikigai.store.agents.agents import Agent, mark_used
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log import follow, reading, write_lock
from ikigai.store.log.append_attempt import AppendAttempt, AppendTarget, EventsElsewhere
from ikigai.store.sql import agents, forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.core.relocation.position import UnsavedPosition
    from ikigai.core.relocation.renumber import MovedIds
    from ikigai.core.relocation.unsaved import Unsaved
    from ikigai.core.request.spending import CapScope, Money, ReservedAmount, SpendingQuery
    from ikigai.store.log.healing import LogTail, Restored

_T = TypeVar("_T")

HEALING_AT_CLOSE = 2.0
"""Seconds that closing waits to compare the log with what this program knows, after the connection was lost."""


class AgentLog:
    """`ports.Log` over PostgreSQL. Made by `Database.open_agent`, which acquires the write lock.

    After a lost connection the next call connects again and first re-acquires the write lock; events that the server
    lacks then are stored again from `tail`, and `report` gets the message about them. `news` is set when a turn has
    ended.
    """

    def __init__(
        self,
        session: DatabaseSession,
        agent: Agent,
        directory: str,
        news: asyncio.Event | None = None,
        tail: LogTail | None = None,
    ) -> None:
        self.agent = agent.id
        self.name = agent.name
        self.closed = False
        self.killed = False  # as of the write lock: no other process kills or revives it from then on
        self.report: Callable[[str], object] = lambda message: None
        self.tail = tail
        self._moved: MovedIds | None = None  # the ids of events that came back under others
        self._news = news
        self._uuid = UUID(agent.id)
        self._session = session
        self._target = AppendTarget(self.agent, self._uuid, follow.lock(self._uuid, session.schema), session.replicated)
        self._directory = storable(directory) or None
        self._locked_on: psycopg.AsyncConnection | None = None
        self._last_seq: int | None = None  # seq of the newest event that the caller knows
        self._newest: UUID | None = None  # its event_id
        self._attempt: AppendAttempt | None = None
        self._asks = False  # True while the user is being asked something
        self._has_draft = True  # a killed process may have left a draft

    async def open(self) -> None:
        """Acquire the write lock. Raise AgentLocked if another process has it, Rejected if there is no such agent."""
        async with self._write_lock():
            pass

    async def append(
        self,
        events: Sequence[Event],
        reload: Loading | None = None,
        ids: Sequence[str] = (),
    ) -> Appended:
        """Store the events in one transaction, under `ids` if they have some; load memory anew by `reload` in it.

        Raise Unavailable if the database is out of reach or full: then either nothing or everything is stored. A second
        call with the very same sequence (the same object) returns what was stored. Raise AgentLocked if another process
        wrote to the agent meanwhile, or if other events follow on ones that were stored unseen.
        """
        async with self._session.use() as cursor:
            await self._ensure_lock(cursor, events)
            attempt = self._attempt
            if attempt is None or attempt.events is not events:
                attempt = AppendAttempt(
                    self._target, events, self._last_seq or 0, list(map(UUID, ids)), self._session.seal
                )
                self._attempt = attempt
            kinds = frozenset(map(type, events))
            ends_reply = self._has_draft and not kinds.isdisjoint((AssistantMessage, TurnEnded))
            killed = AgentKilled in kinds
            memory: Memory | None = None
            try:
                if reload is None and not killed and AgentRevived not in kinds:
                    rows = await attempt.store(cursor, ends_reply)
                else:
                    async with cursor.connection.transaction():
                        rows = await attempt.store(cursor, ends_reply)
                        memory = await reading.load(cursor, reload) if reload else None
                        if killed or AgentRevived in kinds:
                            await cursor.execute(forks.SET_KILLED, (killed, self._uuid))
            except (psycopg.errors.UniqueViolation, psycopg.errors.ExclusionViolation, EventsElsewhere) as error:
                raise self._written_elsewhere() from error
            self._last_seq, self._newest = attempt.last_seq, attempt.ids[-1] if attempt.ids else self._newest
            self._attempt = None
            self._has_draft = self._has_draft and not ends_reply
            if self.tail:
                size = sum(len(row.content or "") + len(row.data or "") for row in attempt.rows)
                self.tail.add(rows, list(map(str, attempt.ids)), size)
                self.tail.draft = None if ends_reply else self.tail.draft
        if self._news and TurnEnded in kinds:
            self._news.set()
        return Appended(rows, memory)

    def unsaved(self, events: Sequence[Event]) -> Unsaved:
        """Return `events`, with the ids under which `append` tried to store them, for a file. Where the log has
        diverged they follow on those that it lacks.
        """
        from ikigai.core.relocation.renumber import renumber_row
        from ikigai.core.relocation.unsaved import Unsaved

        attempt = self._attempt
        if not attempt or attempt.events is not events:
            attempt = AppendAttempt(self._target, events, 0)
        behind = str(self._newest) if self._newest else None
        if moved := self._moved:
            events = [codec.decode(*renumber_row(row, moved, same_log=True)) for row in attempt.rows]
        unsaved = Unsaved(self.agent, self.name, behind, tuple(map(str, attempt.ids)), tuple(events))
        known = self.tail.unsaved(self.name) if self.tail and self.has_diverged else None
        return known.followed_by(unsaved) if known else unsaved

    @property
    def has_diverged(self) -> bool:
        """True if the log lacks events that this program knows, and they cannot follow on it."""
        return self.tail is not None and self.tail.has_diverged

    async def place(self, unsaved: Unsaved) -> UnsavedPosition:
        """Return where these events belong."""
        from ikigai.store.log import unsaved_place

        async with self._write_lock() as cursor:
            return await unsaved_place.place(cursor, unsaved)

    async def store_unsaved(self, unsaved: Unsaved) -> UnsavedPosition:
        """Store the events of another process that follow on the log; return where they had their place before.

        Raise as `append` does.
        """
        place = await self.place(unsaved)
        if place.follows and place.missing and self.tail and len(unsaved.ids) - place.missing < len(unsaved.numbers):
            async with self._write_lock() as cursor:
                restored = await self.tail.restore(cursor, unsaved, place)
            self._last_seq, self._newest = restored.rows[-1].seq, UUID(restored.ids[-1])
            self.tail.add(restored.rows, restored.ids, restored.size)
        elif place.follows and place.missing:
            await self.append(unsaved.events[-place.missing :], ids=unsaved.ids[-place.missing :])
        return place

    async def load(self, asking: Reading[_T]) -> _T:
        async with self._write_lock() as cursor:
            return await reading.load(cursor, asking)

    async def reserve(
        self, query: SpendingQuery, decide: Callable[[dict[CapScope, Money]], ReservedAmount | None]
    ) -> None:
        """See `reservations.reserve`."""
        from ikigai.store.log import reservations

        async with self._write_lock() as cursor:
            await reservations.reserve(self._session, cursor, self._uuid, query, decide)

    async def set_reserved(self, writer: str, amount: ReservedAmount) -> None:
        """See `reservations.write`."""
        from ikigai.store.log import reservations

        async with self._write_lock() as cursor:
            await reservations.write(self._session, cursor, self._uuid, writer, amount)

    async def left_behind(self, writer: str) -> tuple[str, Money] | None:
        """See `reservations.read_left_behind`."""
        from ikigai.store.log import reservations

        async with self._write_lock() as cursor:
            return await reservations.read_left_behind(cursor, self._uuid, writer)

    async def save_draft(self, draft: Draft) -> None:
        """Save the reply draft. The append that stores the reply or ends the turn deletes it."""
        async with self._write_lock() as cursor:
            self._has_draft = True
            await self._store_draft(cursor, draft)
            if self.tail:
                self.tail.draft = draft

    async def _store_draft(self, cursor: Cursor, draft: Draft) -> None:
        text, thinking = storable(draft.text), storable(draft.thinking)
        values = (self._uuid, draft.asked_by, text, thinking, follow.encode_parts(draft.parts))
        await cursor.execute(agents.SAVE_DRAFT, (*values, *self._target.followers_lock))

    async def draft(self) -> Draft | None:
        async with self._write_lock() as cursor:
            await cursor.execute(agents.DRAFT, (self._uuid,))
            rows = await cursor.fetchall()
        if not rows:
            return None
        asked_by, text, thinking, parts = rows[0]
        order = follow.decode_parts(parts)
        return Draft(asked_by, text, thinking, order if has_hosted(order) else ())

    async def asks(self, asks: bool) -> None:
        """Tell followers if the user is being asked something; the mark ends with the process."""
        async with self._write_lock() as cursor:
            if asks is not self._asks:
                await write_lock.set_waiting(self._session, cursor, self._uuid, asks)
                self._asks = asks

    async def mark_used(self) -> None:
        """Mark the agent as the most recently used one."""
        async with self._write_lock() as cursor:
            await self._mark_used(cursor)

    async def _mark_used(self, cursor: Cursor) -> None:
        by_user = not self._session.unlisted
        await mark_used(cursor, self._uuid, self._directory if by_user else None, by_user)

    async def close(self) -> None:
        """Release the write lock. Never fails: without an answer of the database the lock ends with the connection."""
        was_closed, self.closed = self.closed, True
        if self._locked_on is None:
            return
        if not await self._session.is_connected_by(self._locked_on):
            if was_closed or not self.tail or not self.tail.newest:
                return
            with suppress(StoreError, TimeoutError):  # else the file with the events stays
                async with asyncio.timeout(HEALING_AT_CLOSE), self._session.use() as cursor:
                    await self.resume(cursor)
        locked_on, self._locked_on = self._locked_on, None
        with suppress(StoreError):
            async with self._session.use() as cursor:
                if cursor.connection is locked_on:
                    await self._mark_used(cursor)
                    if self._asks:
                        await write_lock.set_waiting(self._session, cursor, self._uuid, False)
                    await write_lock.release(self._session, cursor, self._uuid)

    @asynccontextmanager
    async def _write_lock(self) -> AsyncIterator[Cursor]:
        """Yield a cursor on the connection that holds the write lock."""
        async with self._session.use() as cursor:
            await self._ensure_lock(cursor)
            yield cursor

    async def _ensure_lock(self, cursor: Cursor, events: Sequence[Event] | None = None) -> None:
        """Acquire the write lock if this connection has not got it; `events` are those about to be stored."""
        if self.closed:  # a late draft must not acquire the write lock again: nothing would release it
            raise Unavailable(f"Agent {self.name} is closed.")
        await self.resume(cursor, events)

    async def resume(self, cursor: Cursor, events: Sequence[Event] | None = None) -> None:
        """Acquire the write lock on a new connection, and store again what the log lacks; `events` are those about to
        be stored. Raise AgentLocked if another program has written meanwhile.
        """
        if cursor.connection is self._locked_on:
            return
        await write_lock.acquire(self._session, cursor, self._uuid, self.name)
        try:
            await self._read_log_end(cursor, events)
        except BaseException:
            # Else the same connection would acquire it a second time, and have to release it twice.
            with suppress(psycopg.Error, TimeoutError):
                await write_lock.release(self._session, cursor, self._uuid)
            raise
        self._locked_on = cursor.connection
        if self._asks:
            await write_lock.set_waiting(self._session, cursor, self._uuid, True)

    async def _read_log_end(self, cursor: Cursor, events: Sequence[Event] | None) -> None:
        await self._mark_used(cursor)
        rows = await cursor.fetchall()
        if not rows and self._last_seq is not None and self.tail and await self.tail.make_agent(cursor):
            rows = [(0, None, False)]
        if not rows:
            raise Rejected(f"There is no agent {self.name} in this database.", "Use another agent, or --new.")
        ((last, newest, self.killed),) = rows
        attempt = self._attempt if self._attempt and self._attempt.events is events else None
        if self._last_seq is None:
            self._last_seq, self._newest = last, newest
            if self.tail:
                await self.tail.begin(cursor, newest)
        elif newest != self._newest and not (attempt and attempt.ids and newest == attempt.ids[-1]):
            is_shorter = last < self._last_seq
            self._on_restored(await self.tail.heal(cursor, self.name, is_shorter) if self.tail else None)
        if self.tail:
            self.tail.on_confirmed()
            if draft := self.tail.draft:
                await self._store_draft(cursor, draft)

    def _on_restored(self, restored: Restored | None) -> None:
        """Go on behind events that were stored again. Raise AgentLocked if the log has others, or if some got other ids
        than those in memory.
        """
        if restored is None:
            raise self._written_elsewhere()
        self._last_seq, self._newest = restored.rows[-1].seq, UUID(restored.ids[-1])
        self._moved = restored.moved
        if restored.moved:
            raise AgentLocked(
                f"{restored.message} Some have other ids now.",
                f"To go on: /switch {self.name}, or start ikigai again.",
            )
        self.report(restored.message)

    def _written_elsewhere(self) -> AgentLocked:
        return AgentLocked(
            f"Another program wrote to agent {self.name} while the connection was lost.",
            f"To see what it wrote: /switch {self.name}, or start ikigai again.",
        )
