"""Store events at the end of a log: in one statement, and in each try under the same ids and numbers."""

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ikigai.core.events import codec
from ikigai.core.events.codec import Row
from ikigai.core.events.events import Event, StoredEvent
from ikigai.core.state.grants import Seal, needs_seal, sealed
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log import reading
from ikigai.store.sql import agents


class AppendTarget(NamedTuple):
    """The log to append to: the id of its agent, the lock of its followers, and if a standby confirms each commit."""

    agent: str
    uuid: UUID
    followers_lock: tuple[int, int]
    replicated: bool


class EventsElsewhere(Exception):
    """The log has no such events at its end, and the ids are taken: recovered events are in another agent meanwhile."""


class AppendAttempt:
    """Events to append, under ids and numbers that stay the same in each try. `after` is the number before theirs.

    What grants something gets a `seal`.
    """

    def __init__(
        self,
        target: AppendTarget,
        events: Sequence[Event],
        after: int,
        ids: Sequence[UUID] = (),
        seal: Seal | None = None,
    ) -> None:
        self._target = target
        self.events = events
        self.after = after
        self.ids = list(ids) or [new_event_id() for _ in events]
        self.rows = [sealed_row(event, target.agent, seq, seal) for seq, event in enumerate(events, after + 1)]

    @property
    def last_seq(self) -> int:
        return self.after + len(self.rows)

    async def store(self, cursor: Cursor, ends_reply: bool) -> tuple[StoredEvent, ...]:
        """Store the events and return them; if an earlier try was stored, return its events. With `ends_reply` delete
        the reply draft. Raise EventsElsewhere.
        """
        target = self._target
        if not self.rows:
            return ()
        kinds, contents, datas = (list(column) for column in zip(*self.rows, strict=True))
        values = {"agent": target.uuid, "after": self.after, "ids": self.ids, "forget": ends_reply}
        following, key = target.followers_lock
        values |= {"kinds": kinds, "contents": contents, "datas": datas, "following": following, "key": key}
        await cursor.execute(agents.APPEND, values)
        rows = await cursor.fetchall()
        return self._decoded(rows) if rows else await self._stored_before(cursor)

    async def _stored_before(self, cursor: Cursor) -> tuple[StoredEvent, ...]:
        """Return the events of an earlier try that was stored, but whose answer was lost."""
        if self._target.replicated:  # perhaps because no standby had it
            await cursor.execute(agents.WAIT_FOR_STANDBYS, (self._target.uuid,))
        await cursor.execute(agents.STORED_BEFORE, (self.ids, self._target.uuid))
        return self._decoded(await cursor.fetchall())

    def _decoded(self, rows: Sequence[tuple[Any, ...]]) -> tuple[StoredEvent, ...]:
        if len(rows) < len(self.rows):
            raise EventsElsewhere
        return tuple(reading.decode_row(self._target.agent, row[: reading.ROW_COLUMNS]) for row in rows)


def sealed_row(event: Event, agent: str, seq: int, seal: Seal | None) -> Row:
    """Return the row `seq` of an agent, with a seal over what the log will give back."""
    row = codec.encode(event)
    if not needs_seal(event):
        return row
    return codec.encode(sealed(codec.decode(*row), agent, seq, seal))


def new_event_id() -> UUID:
    """Return a fresh id (version 7): ordered by time, so that the index over them grows at one end.

    Such an id has no time before 1970, which a clock that was never set may show.
    """
    value = (max(0, time.time_ns() // 1_000_000) << 80) | int.from_bytes(os.urandom(10))
    return UUID(int=value & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
