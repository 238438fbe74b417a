"""What people look back at: all that happened to an agent and its ancestors, and what was typed before."""

from ikigai.core.events import StoredEvent

from . import queries
from .connection import Cursor
from .reading import NO_LIMIT, stored


async def events(cursor: Cursor, agent: str, before: int | None, limit: int) -> tuple[StoredEvent, ...]:
    """The newest `limit` events of the agent's lineage with ids below `before` (None: the newest of all), ascending.

    All kinds, whatever clears and rewinds say; of each ancestor what lies up to the fork. Ids are handles for paging:
    pass the first one's as the next `before`. Images come without their data.
    """
    last = NO_LIMIT if before is None else before - 1
    await cursor.execute(queries.HISTORY, (agent, last, limit, limit), prepare=False)
    return tuple(stored(row[0], row[1:]) for row in reversed(await cursor.fetchall()))


async def prompts(cursor: Cursor, limit: int) -> list[str]:
    """What users typed last, over all agents: at most `limit` different texts, the newest first."""
    await cursor.execute(queries.PROMPTS, (4 * limit, limit), prepare=False)
    return [text for (text,) in await cursor.fetchall()]


async def result(cursor: Cursor, agent: str, call_id: str) -> str | None:
    """The whole text of the newest result of the call `call_id` in the agent's lineage; None where there is none."""
    await cursor.execute(queries.RESULT, (agent, call_id), prepare=False)
    rows = await cursor.fetchall()
    return (rows[0][0] or "") if rows else None
