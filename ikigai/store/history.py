"""What people look back at: all that happened to an agent and its ancestors, and what was typed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.codec import SEARCHED
from ikigai.core.errors import Refused
from ikigai.core.events import StoredEvent
from ikigai.core.state.tool_results import Ends
from ikigai.store.connection import Cursor
from ikigai.store.reading import NO_LIMIT, sizes, stored
from ikigai.store.sql import reading as reading_queries
from ikigai.store.sql import search as search_queries

if TYPE_CHECKING:
    from ikigai.core.search.prompt_history import Earlier

STRETCH = 2_000
"""Messages of users that are looked through by one statement: about a hundredth of a second, for which others wait."""


GLANCE = Ends(1 << 18, 1 << 16, 1 << 12)
"""What is read of a long tool result of which a few lines are shown; the tail only where it failed."""


async def events(
    cursor: Cursor, agent: str, before: int | None, limit: int, ends: Ends | None = None
) -> tuple[StoredEvent, ...]:
    """The newest `limit` events of the agent's lineage with ids below `before` (None: the newest of all), ascending.

    All kinds, whatever clears and rewinds say; of each ancestor what lies up to the fork. Ids are handles for paging:
    pass the first one's as the next `before`. Images come without their data, long tool results as `ends` say.
    """
    last = NO_LIMIT if before is None else before - 1
    await cursor.execute(reading_queries.HISTORY, (agent, last, limit, *sizes(ends), limit), prepare=False)
    return tuple(stored(row[0], row[1:]) for row in reversed(await cursor.fetchall()))


async def prompts(cursor: Cursor, limit: int) -> list[str]:
    """What users typed last, over all agents: at most `limit` different texts, the newest first."""
    await cursor.execute(reading_queries.PROMPTS, (4 * limit, limit), prepare=False)
    return [text for (text,) in await cursor.fetchall()]


async def earlier(
    cursor: Cursor, typed: str, here: str, before: int | None, most: tuple[int, int]
) -> tuple[list[Earlier], int | None]:
    """What was typed before the event `before` and fits, of a stretch of it; where the next begins, None at the end.

    At most so many texts of agents in the directory `here`, and so many of others.
    """
    from ikigai.core.search.prompt_history import HEAD, Earlier, loosely, words

    which = {
        "before": NO_LIMIT if before is None else before,
        "most": STRETCH,
        "words": words(typed),
        "loosely": loosely(typed),
        "head": HEAD,
        "here": here,
        "most_here": most[0],
        "most_elsewhere": most[1],
    }
    await cursor.execute(reading_queries.EARLIER, which, prepare=False)
    rows = await cursor.fetchall()
    found = [Earlier(row[1], row[0], row[2], row[3], row[4], row[4] == here) for row in rows if row[1] is not None]
    return found, next((row[0] for row in rows if row[1] is None), None)


async def result(cursor: Cursor, agent: str, call_id: str) -> str | None:
    """The whole text of the newest result of the call `call_id` in the agent's lineage; None where there is none."""
    await cursor.execute(reading_queries.RESULT, (agent, call_id), prepare=False)
    rows = await cursor.fetchall()
    return (rows[0][0] or "") if rows else None


async def around(cursor: Cursor, id: int, before: int, after: int) -> tuple[str, tuple[StoredEvent, ...]]:
    """The event `id` with those beside it in its agent in which something was said, and the agent's name.

    Raises Refused when there is no such event.
    """
    if not 0 < id <= NO_LIMIT:
        raise Refused(f"There is no event #{id}.", "Ids are shown by /search and `ikigai history list`.")
    await cursor.execute(search_queries.AGENT_OF, (id,), prepare=False)
    if not (rows := await cursor.fetchall()):
        raise Refused(f"There is no event #{id}.", "Ids are shown by /search and `ikigai history list`.")
    ((agent, name),) = rows
    which = {"agent": agent, "id": id, "kinds": list(SEARCHED), "before": before, "after": after}
    await cursor.execute(search_queries.AROUND, which, prepare=False)
    return name, tuple(stored(agent, row) for row in await cursor.fetchall())
