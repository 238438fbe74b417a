"""Read a whole history a page at a time, in both directions, and describe its lineage."""

from typing import NamedTuple

from ikigai.core.events.events import StoredEvent
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.reading import NO_LIMIT, decode_row
from ikigai.store.sql import paging

MAX_LINEAGE_ROWS = 10_000
"""Limit of the control events, and of the forks, that are read to look back: the newest."""


class LineageNames(NamedTuple):
    """The agents of a history: `names` of the agent and its ancestors by id, the agent first.

    `controls` are the clears, rewinds, filters and undos in it. `branches` are the names of the other agents that began
    at an event of it, by the id of that event.
    """

    names: dict[str, str]
    controls: tuple[StoredEvent, ...]
    branches: dict[int, tuple[str, ...]]


async def read_page(
    cursor: Cursor, agent: str, limit: int, most_bytes: int, before: int | None = None, after: int | None = None
) -> tuple[StoredEvent, ...]:
    """Return `limit` events of the agent's lineage, ascending: the newest below `before` (None: of all), or the oldest
    above `after`.

    The page has fewer events, at least one, if they exceed `most_bytes`. Images come without their data.
    """
    which = {"agent": agent, "limit": limit, "bytes": most_bytes}
    if after is not None:
        await cursor.execute(paging.PAGE_AFTER, {**which, "id": after}, prepare=False)
        rows = await cursor.fetchall()
    else:
        last = NO_LIMIT if before is None else before
        await cursor.execute(paging.PAGE_BEFORE, {**which, "id": last}, prepare=False)
        rows = (await cursor.fetchall())[::-1]
    return tuple(decode_row(row[0], row[1:]) for row in rows)


async def read_lineage(cursor: Cursor, agent: str) -> LineageNames:
    """Return the names, controls and branches of an agent's lineage."""
    await cursor.execute(paging.LINEAGE, {"agent": agent}, prepare=False)
    names = dict(await cursor.fetchall())
    await cursor.execute(paging.CONTROLS, {"agent": agent, "limit": MAX_LINEAGE_ROWS}, prepare=False)
    controls = tuple(decode_row(row[0], row[1:]) for row in reversed(await cursor.fetchall()))
    await cursor.execute(paging.BRANCHES, {"agent": agent, "limit": MAX_LINEAGE_ROWS}, prepare=False)
    branches: dict[int, tuple[str, ...]] = {}
    for at, name in await cursor.fetchall():
        branches[at] = (*branches.get(at, ()), name)
    return LineageNames(names, controls, branches)
