"""Store the newest events of a log again if a server that took over does not have them.

A promoted standby may lack what the lost server confirmed last. This program knows those events, because it stored or
read them:

    connection lost ──► they are written to a file, in case this program also ends connected again ──► write lock ──►
    compared with the log by `event_id` (`core.relocation.position`)
                    ──► the missing ones in one transaction ──► the reply draft ──► the file is removed

The events keep `event_id` and `seq`, and their ids unless other events have those by now. The next start treats a file
that is left as it treats all unsaved events.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import psycopg

from ikigai.core.errors import AgentLocked, LogDiverged, Unavailable
from ikigai.core.events import codec
from ikigai.core.events.events import AgentKilled, AgentRevived, AssistantMessage, StoredEvent, TurnEnded
from ikigai.core.relocation.known_tail import MAX_TAIL_BYTES, MAX_TAIL_SECONDS, KnownTail
from ikigai.core.relocation.position import UnsavedPosition, reusable_ids
from ikigai.core.relocation.renumber import MovedIds, renumber_row
from ikigai.core.relocation.unsaved import Unsaved
from ikigai.core.request.reply_draft import Draft
from ikigai.store.agents import agent_names
from ikigai.store.agents.agents import Agent
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log import reading, unsaved_place
from ikigai.store.sql import agents, forks, transfer

MAX_READ_ROWS = 200
"""Rows at the end of a log that are read when it is opened: another program may just have stored them."""
RESERVED_IDS = 10_000
"""Ids that new events skip when a server took over, so that those which it lacks can come back under their own."""
ID_LOCK = int.from_bytes(b"ikii")
"""Key of the advisory lock under which one program at a time moves the counter of ids."""

WITHOUT_TIMELINE = (
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ObjectNotInPrerequisiteState,
)
"""The answers of servers that tell no timeline: engines of their own, and a standby."""


class Restored(NamedTuple):
    """The events that were stored again, their `event_id`s, their bytes, and the message about them. `moved` has the
    new ids of those that could not keep theirs.
    """

    rows: tuple[StoredEvent, ...]
    ids: tuple[str, ...]
    size: int
    message: str
    moved: MovedIds | None = None


class LogTail:
    """The end of one agent's log as this program knows it. `keep` writes events to a file and returns the function that
    removes it; `draft` is the reply draft that was saved last.
    """

    def __init__(self, agent: Agent, keep: Callable[[Unsaved], Callable[[], None]] | None) -> None:
        self._agent, self._uuid = agent, UUID(agent.id)
        self._keep = keep
        self._kept: Callable[[], None] | None = None
        self._known = KnownTail(None)
        self.draft: Draft | None = None
        self.has_diverged = False  # the log lacks known events, and they cannot follow on it

    async def begin(self, cursor: Cursor, newest: UUID | None) -> None:
        """Read the newest events of the log, which ends with the event `newest`."""
        limits = MAX_TAIL_SECONDS, self._uuid, MAX_READ_ROWS, MAX_TAIL_BYTES
        await cursor.execute(transfer.NEWEST_EVENTS, limits, prepare=False)
        rows = await cursor.fetchall()
        behind = rows[0][0] if rows else newest
        self._known = KnownTail(str(behind) if behind else None)
        for _, event_id, size, *row in rows:
            self.add([reading.decode_row(self._agent.id, row)], [str(event_id)], size)

    def add(self, rows: Sequence[StoredEvent], ids: Sequence[str], size: int) -> None:
        """Remember events that were stored together."""
        self._known.add(rows, ids, size, time.monotonic())

    @property
    def newest(self) -> int:
        """The id of the newest known event."""
        return self._known.newest

    def unsaved(self, name: str) -> Unsaved | None:
        """Return the known events as unsaved ones, or None."""
        return self._known.unsaved(self._agent.id, name)

    def on_lost(self, name: str) -> None:
        """Write the known events to a file, because the connection was lost."""
        if self._keep and not self._kept and (unsaved := self.unsaved(name)):
            self._kept = self._keep(unsaved)

    def on_confirmed(self) -> None:
        """Remove the file: the log has its events."""
        if self._kept:
            self._kept()
            self._kept = None

    async def make_agent(self, cursor: Cursor) -> bool:
        """Make the agent again; return False if too little of its log is known.

        Raise Unavailable if its parent is also missing: the program that knows the parent may still bring it back.
        """
        if self._known.behind is not None or not self.newest:
            return False
        agent, attempt, name = self._agent, 0, self._agent.name
        while True:
            which = self._uuid, name, agent.parent, agent.forked_at, agent.directory or None
            try:
                await cursor.execute(agents.CREATE_AGENT, (*which, agent.ephemeral, agent.made, False))
            except psycopg.errors.ForeignKeyViolation:
                what = f"The database lost agent {agent.name} and its parent when another server took over."
                raise Unavailable(what, "Open the parent in the program that used it.") from None
            if cursor.rowcount:
                return True
            name, attempt = agent_names.suggest_name(attempt), attempt + 1

    async def heal(self, cursor: Cursor, name: str, is_shorter: bool) -> Restored | None:
        """Store again what the log lacks; return None if it lacks nothing and has more. `is_shorter` says that it ends
        before the newest known event.

        Raise LogDiverged if another program went on without those events, AgentLocked if too few of them are known.
        """
        unsaved = self.unsaved(name)
        await cursor.execute(transfer.IS_PURGED, (self._uuid,))
        if await cursor.fetchall() == [(True,)]:
            return None
        place = await unsaved_place.place(cursor, unsaved) if unsaved else None
        if (place and place.at is None) or (not unsaved and is_shorter):
            self.has_diverged = unsaved is not None
            what = f"The database lost more events of agent {name} than this program still knows"
            remedy = f"To see what it has: /switch {name}, or start ikigai again."
            raise AgentLocked(f"{what}, when another server took over.", remedy)
        if not (unsaved and place and place.missing):
            return None
        if not place.follows:
            self.has_diverged = True
            raise LogDiverged(f"{_lost(place.missing, name)}, and another program went on.")
        try:
            return await self.restore(cursor, unsaved, place)
        except psycopg.errors.UniqueViolation:
            return None

    async def restore(self, cursor: Cursor, unsaved: Unsaved, place: UnsavedPosition) -> Restored:
        """Store the missing events at the end of the log, in one transaction."""
        try:
            return await self._restore(cursor, unsaved, place)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != "messages_pkey":
                raise
            # Events that this role may not read have some of the ids.
            return await self._restore(cursor, unsaved, place, keeps_ids=False)

    async def _restore(
        self, cursor: Cursor, unsaved: Unsaved, place: UnsavedPosition, keeps_ids: bool = True
    ) -> Restored:
        first, count = len(unsaved.ids) - place.missing, place.missing
        async with cursor.connection.transaction():
            wanted = unsaved.numbers[first:]
            kept = await _free_ids(cursor, wanted, place.at or 0) if keeps_ids else []
            await cursor.execute(transfer.RESERVE, (count - len(kept),))
            ids = [*kept, *(id for (id,) in await cursor.fetchall())]
            moved = MovedIds()
            for old, new in zip(wanted, ids, strict=False):
                if old != new:
                    moved.add(old, new)
            events = unsaved.events[first:]
            rows = [codec.encode(event) for event in events]
            if moved:
                rows = [renumber_row(row, moved, same_log=True) for row in rows]
            kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
            times = [*unsaved.times[first:], *[None] * count][:count]
            await cursor.execute(transfer.LAST_SEQ, (self._uuid,))
            ((last,),) = await cursor.fetchall()
            seqs = list(range(last + 1, last + 1 + count))
            values = {"agent": self._uuid, "ids": ids, "event_ids": list(map(UUID, unsaved.ids[first:]))}
            values |= {"seqs": seqs, "ats": times, "kinds": kinds, "contents": contents, "datas": datas}
            await cursor.execute(transfer.STORE, values)
            if change := next((e for e in reversed(events) if isinstance(e, AgentKilled | AgentRevived)), None):
                await cursor.execute(forks.SET_KILLED, (isinstance(change, AgentKilled), self._uuid))
            if any(isinstance(event, AssistantMessage | TurnEnded) for event in events):
                await cursor.execute(transfer.FORGET_DRAFT, (self._uuid,))
        decoded = [codec.decode(*row) for row in rows] if moved else events
        now = time.time()
        stored = [
            StoredEvent(id, self._agent.id, seq, at or now, event)
            for id, seq, at, event in zip(ids, seqs, times, decoded, strict=True)
        ]
        size = sum(len(row.content or "") + len(row.data or "") for row in rows)
        message = f"{_lost(count, unsaved.name)}. They are stored again."
        return Restored(tuple(stored), unsaved.ids[first:], size, message, moved if moved else None)


def _lost(count: int, name: str) -> str:
    events = "1 event" if count == 1 else f"{count:,} events"
    return f"The database lost {events} of agent {name} when another server took over"


async def _free_ids(cursor: Cursor, wanted: Sequence[int], after: int) -> list[int]:
    """Return the leading ids among `wanted` that can be used again; see `position.reusable_ids`."""
    if not wanted:
        return []
    await reserve_ids(cursor, max(wanted))
    await cursor.execute(transfer.IDS_IN_USE, (list(wanted),))
    ((highest, taken),) = await cursor.fetchall()
    return reusable_ids(wanted, after, frozenset(taken), highest)


async def reserve_ids(cursor: Cursor, newest: int) -> None:
    """Let new events skip the ids that the lost server may have given after `newest`. Nothing happens without the right
    to do so: events that come back get new ids then.
    """
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        async with cursor.connection.transaction():
            await cursor.execute(transfer.ID_TURN, (ID_LOCK,))
            await cursor.execute(transfer.SKIP_IDS, {"upto": newest + RESERVED_IDS})


async def read_server(cursor: Cursor) -> str:
    """Return the server that answers, with its timeline, which changes when a standby is promoted. The timeline is left
    out where it cannot be read.

    That of `pg_control_checkpoint` is the old one for a while after a promotion.
    """
    info, timeline = cursor.connection.info, ""
    with contextlib.suppress(*WITHOUT_TIMELINE):
        await cursor.execute(transfer.TIMELINE)
        ((timeline,),) = await cursor.fetchall()
    return f"{info.host}:{info.port} {timeline}"
