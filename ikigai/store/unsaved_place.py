"""Where events belong that another run could not store: whether they are there, and whether they follow on what is."""

from uuid import UUID

from ikigai.core.record import Record
from ikigai.core.transfer.unsaved import Unsaved
from ikigai.store.connection import Cursor
from ikigai.store.sql import transfer as queries


class Place(Record, frozen=True):
    """So many of the events as are `missing`, the last ones, are not in the log yet; `holder` is the name of the agent
    that has the others.

    They belong behind the event `at`: 0 is the beginning, None says that it is not in this database. `follows` says
    that nothing else stands behind it in their agent.
    """

    missing: int
    holder: str
    at: int | None
    follows: bool


async def place(cursor: Cursor, unsaved: Unsaved) -> Place:
    """Look where these events belong."""
    behind = (unsaved.behind,) if unsaved.behind else ()
    await cursor.execute(queries.STORED_BY_ID, (list(map(UUID, (*behind, *unsaved.ids))),))
    found = {str(event_id): row for event_id, *row in await cursor.fetchall()}
    await cursor.execute(queries.LAST_SEQ, (UUID(unsaved.agent),))
    ((newest,),) = await cursor.fetchall()
    stored = [id for id in unsaved.ids if id in found]
    missing = len(unsaved.ids) - len(stored)
    common = stored[-1] if stored else unsaved.behind
    if common is None:
        return Place(missing, "", 0, newest == 0)
    if common not in found:
        return Place(missing, "", None, False)
    id, seq, agent, name = found[common]
    return Place(missing, name, id, str(agent) == unsaved.agent and seq == newest)
