"""Find where unsaved events of another process belong: if they are stored, and if they follow."""

from uuid import UUID

from ikigai.core.relocation.position import StoredPlace, UnsavedPosition, locate
from ikigai.core.relocation.unsaved import Unsaved
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.sql import transfer


async def place(cursor: Cursor, unsaved: Unsaved) -> UnsavedPosition:
    """Return where these events belong."""
    behind = (unsaved.behind,) if unsaved.behind else ()
    await cursor.execute(transfer.STORED_BY_ID, (list(map(UUID, (*behind, *unsaved.ids))),))
    stored = {str(event_id): StoredPlace(*row) for event_id, *row in await cursor.fetchall()}
    await cursor.execute(transfer.LAST_SEQ, (UUID(unsaved.agent),))
    ((newest,),) = await cursor.fetchall()
    return locate(unsaved, stored, newest)
