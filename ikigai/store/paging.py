"""A whole history a page at a time, in both directions, and what one has to know of it to look through it."""

from typing import NamedTuple

from ikigai.core.events import StoredEvent
from ikigai.store.connection import Cursor
from ikigai.store.reading import NO_LIMIT, stored
from ikigai.store.sql import paging as queries

MOST_CONTROLS = MOST_BRANCHES = 10_000
"""That are read to look back: the newest."""


class Lineage(NamedTuple):
    """Whose history it is: `names` of the agent and its ancestors by id, the agent first. `controls` are the clears,
    rewinds, filters and undos in it, `branches` the other agents that began at an event of it, by that event.
    """

    names: dict[str, str]
    controls: tuple[StoredEvent, ...]
    branches: dict[int, tuple[str, ...]]


async def page(
    cursor: Cursor, agent: str, limit: int, most_bytes: int, before: int | None = None, after: int | None = None
) -> tuple[StoredEvent, ...]:
    """`limit` events of the agent's lineage, ascending: the newest below `before` (None: of all), or the oldest above
    `after`; fewer, but one at least, where they come to more than `most_bytes`. Images come without their data.
    """
    which = {"agent": agent, "limit": limit, "bytes": most_bytes}
    if after is not None:
        await cursor.execute(queries.PAGE_AFTER, {**which, "id": after}, prepare=False)
        rows = await cursor.fetchall()
    else:
        last = NO_LIMIT if before is None else before
        await cursor.execute(queries.PAGE_BEFORE, {**which, "id": last}, prepare=False)
        rows = (await cursor.fetchall())[::-1]
    return tuple(stored(row[0], row[1:]) for row in rows)


async def lineage(cursor: Cursor, agent: str) -> Lineage:
    """What one has to know of a lineage to look through its history."""
    await cursor.execute(queries.LINEAGE, {"agent": agent}, prepare=False)
    names = dict(await cursor.fetchall())
    await cursor.execute(queries.CONTROLS, {"agent": agent, "limit": MOST_CONTROLS}, prepare=False)
    controls = tuple(stored(row[0], row[1:]) for row in reversed(await cursor.fetchall()))
    await cursor.execute(queries.BRANCHES, {"agent": agent, "limit": MOST_BRANCHES}, prepare=False)
    branches: dict[int, tuple[str, ...]] = {}
    for at, name in await cursor.fetchall():
        branches[at] = (*branches.get(at, ()), name)
    return Lineage(names, controls, branches)
