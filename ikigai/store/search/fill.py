"""This module takes the logs of the agents into an index, a few events at a time.

Within an agent events are committed in the order of `seq`, because there is one write lock. So a number for each agent
says how far its log is indexed, and no slow transaction of another agent is missed. Processes that index at once take
different agents.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import psycopg

from ikigai.core.errors import StoreError
from ikigai.store import write_lock
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.sql import search

LISTED_AGENTS, LIST_SECONDS = 256, 2.0
"""Agents that are listed at once to be indexed, and for how long: to list them reads a row of each that is behind."""
STEP_EVENTS, STEP_CHARACTERS = 400, 100_000
"""Limits of one step of indexing."""
STRETCH_CHARACTERS = 1_000_000
"""Characters of a longer event in one step: the server unpacks all that is before them, each time."""

UNLIST_INTERVAL = 60.0
"""Seconds between two looks for listed agents that are indexed and not open."""
UNLISTED_AT_ONCE = 1_000

NOT_FILLABLE_ERRORS = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedColumn,
)
"""Errors of a database that is read-only, and of an index that another version of the schema made."""


class LoggedEvent(NamedTuple):
    id: int
    seq: int
    kind: str
    at: datetime
    text: str | None


class TextPiece(NamedTuple):
    """A piece of the text of an event, from the character `start` on."""

    event: LoggedEvent
    start: int
    text: str


class Filler:
    """Fills the index over `session`, which no append uses.

    `take` takes the next events of an agent into it, in the open transaction; it returns how many, 0 if another process
    has the agent.
    """

    def __init__(self, session: DatabaseSession, take: Callable[[Cursor, UUID], Awaitable[int]]) -> None:
        self._session, self._take = session, take
        self._unlisted_at: float | None = None
        self._listed: list[UUID] = []  # agents whose logs are not indexed as far as is known, the next one last
        self._listed_until = 0.0

    @repeat_on_conflict
    async def index_some(self) -> int:
        """Take the next few events into the index: at most 400, and of a long one a part; return how many.

        0 means that all events are indexed, or that another process indexes them. Raise StoreError on failure.
        """
        async with self._session.use() as cursor:
            if time.monotonic() < self._listed_until and (count := await self._step_listed(cursor)):
                return count
            await cursor.execute(search.BEHIND, (LISTED_AGENTS,), prepare=False)
            self._listed = [agent for (agent,) in reversed(await cursor.fetchall())]
            self._listed_until = time.monotonic() + LIST_SECONDS
            return await self._step_listed(cursor)

    async def catch_up(self, seconds: float) -> int:
        """Index for at most `seconds`; return how many events are not in the index then.

        An index that this program cannot fill is left as it is. Raise StoreError on other failures.
        """
        until = time.monotonic() + seconds
        self._listed_until = 0.0  # the agents that were used last come first
        try:
            while time.monotonic() < until and await self.index_some():
                pass
            while time.monotonic() < until and await self.unlist_some():
                pass
        except StoreError as error:
            if not isinstance(error.__cause__, NOT_FILLABLE_ERRORS):
                raise
        return await self.behind()

    async def behind(self) -> int:
        """Return how many events are not in the index."""
        async with self._session.use() as cursor:
            await cursor.execute(search.BEHIND_BY, prepare=False)
            ((behind,),) = await cursor.fetchall()
        return behind

    @repeat_on_conflict
    async def unlist_some(self) -> int:
        """Take agents out of the list of those behind that are indexed and that no program has open; return how many.

        It looks once a minute. Raise StoreError on failure.
        """
        if self._unlisted_at is not None and time.monotonic() < self._unlisted_at + UNLIST_INTERVAL:
            return 0
        async with self._session.use() as cursor, cursor.connection.transaction():
            # A program lists its agent after it has acquired the write lock: from here on it waits for this
            # transaction. An agent whose lock is free now has no event under way, and `unlist` sees all that it has.
            await cursor.execute(search.COMPLETE, (UNLISTED_AT_ONCE,), prepare=False)
            agents: list[UUID] = [agent for (agent,) in await cursor.fetchall()]
            await cursor.execute(search.HELD_WRITE_LOCKS, (write_lock.WRITE_LOCK,))
            held = {key for (key,) in await cursor.fetchall()}
            free = [agent for agent in agents if write_lock.lock_key(agent, self._session.schema) not in held]
            if free:
                await cursor.execute(search.UNLIST, (free,), prepare=False)
        if not free:
            self._unlisted_at = time.monotonic()
        return len(free)

    async def _step_listed(self, cursor: Cursor) -> int:
        """Run one step for the first listed agent of which there is something to take; return 0 if there is none."""
        while self._listed:
            if count := await self._step(cursor, self._listed[-1]):
                return count
            self._listed.pop()
        return 0

    async def _step(self, cursor: Cursor, agent: UUID) -> int:
        """Run one step for one agent; return 0 if another process has it."""
        async with cursor.connection.transaction():
            await cursor.execute(search.COMMIT_LATER)
            return await self._take(cursor, agent)


def cut_pieces(events: Sequence[LoggedEvent], place: int) -> tuple[list[TextPiece], int, int]:
    """Return the pieces of these events, and the progress of the index; the first begins at `place`.

    An event longer than one step is here alone, and its last piece is left for the next step.
    """
    from ikigai.core.search import lexer

    pieces: list[TextPiece] = []
    for event in events:
        text = lexer.searchable_text(event.kind, event.text or "")
        cut = list(lexer.split_pieces(text))
        is_cut = len(text) == STRETCH_CHARACTERS and len(cut) > 1
        pieces += [TextPiece(event, place + start, piece) for start, piece in (cut[:-1] if is_cut else cut)]
        if is_cut:
            return pieces, event.seq - 1, place + cut[-1][0]
        place = 0
    return pieces, events[-1].seq, 0
