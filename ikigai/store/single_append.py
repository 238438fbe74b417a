"""This module stores one event outside of a transaction, as every message of the user is, in the fewest steps.

It writes and reads the formats of the server itself: a cursor of the driver takes nearly twice the processor time.
"""

import struct
from typing import NamedTuple, cast
from uuid import UUID

from ikigai.core.codec import Row
from ikigai.core.ports import Meanwhile
from ikigai.store.driver_connection import Connection, Cursor, PreparedStatement
from ikigai.store.sql import agents

_UUID, _INTEGER, _TEXT = 2950, 23, 25  # OIDs, which are constant
_APPEND = PreparedStatement(
    b"ikigai_append", agents.APPEND_ONE.encode(), (_UUID, _INTEGER, _UUID, _TEXT, _TEXT, _TEXT, _INTEGER, _INTEGER)
)


class StoredRow(NamedTuple):
    """The columns that the database adds or changes: id, time in seconds since 1970, and data as it keeps them."""

    id: int
    at: float
    data: str | None


async def prepare(cursor: Cursor) -> None:
    """Prepare the statement ahead of the first message, which would wait for it."""
    await cast("Connection", cursor.connection).prepare(_APPEND)


async def append_one(
    cursor: Cursor,
    agent: UUID,
    seq: int,
    event_id: UUID,
    row: Row,
    followers_lock: tuple[int, int],
    meanwhile: Meanwhile | None = None,
) -> StoredRow | None:
    """Store a row of the log; return None if one with this `event_id` is there. Run `meanwhile` during the commit."""
    kind, content, data = row
    values = (
        agent.bytes,
        seq.to_bytes(4),
        event_id.bytes,
        kind.encode(),
        None if content is None else content.encode(),
        None if data is None else data.encode(),
        *[number.to_bytes(4, signed=True) for number in followers_lock],
    )
    result = await cast("Connection", cursor.connection).execute_prepared(_APPEND, values, meanwhile)
    if not result.ntuples:
        return None
    id, at, stored = (result.get_value(0, column) for column in range(3))
    (id,), (at,) = struct.unpack("!q", id or b""), struct.unpack("!d", at or b"")
    return StoredRow(id, at, None if stored is None else stored.decode())
