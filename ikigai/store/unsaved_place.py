"""This module finds where unsaved events of another process belong: if they are stored, and if they follow."""

from uuid import UUID

from ikigai.core.record import Record
from ikigai.core.transfer.unsaved import Unsaved
from ikigai.store.connection import Cursor
from ikigai.store.sql import transfer


class UnsavedPosition(Record, frozen=True):
    """The place of unsaved events: the last `missing` of them are not in the log yet; `holder` is the name of the agent
    that has the others.

    They belong after the event `at`: 0 is the beginning, None says that it is not in this database. `follows` says that
    no other event comes after it in their agent.
    """

    missing: int
    holder: str
    at: int | None
    follows: bool


async def place(cursor: Cursor, unsaved: Unsaved) -> UnsavedPosition:
    """Return where these events belong."""
    behind = (unsaved.behind,) if unsaved.behind else ()
    await cursor.execute(transfer.STORED_BY_ID, (list(map(UUID, (*behind, *unsaved.ids))),))
    by_id = {str(event_id): row for event_id, *row in await cursor.fetchall()}
    await cursor.execute(transfer.LAST_SEQ, (UUID(unsaved.agent),))
    ((newest,),) = await cursor.fetchall()
    stored = [id for id in unsaved.ids if id in by_id]
    missing = len(unsaved.ids) - len(stored)
    common = stored[-1] if stored else unsaved.behind
    if common is None:
        return UnsavedPosition(missing, "", 0, newest == 0)
    if common not in by_id:
        return UnsavedPosition(missing, "", None, False)
    id, seq, agent, name = by_id[common]
    return UnsavedPosition(missing, name, id, str(agent) == unsaved.agent and seq == newest)
