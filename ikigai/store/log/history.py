"""Read history for people: the events of an agent and its ancestors, and the prompts that users typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.core.errors import Rejected
from ikigai.core.events.codec import SEARCHED_KINDS
from ikigai.core.events.events import StoredEvent
from ikigai.core.state.tool_results import TextEnds
from ikigai.core.tools.skill_offer import SKILL_TOOL
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.reading import NO_LIMIT, decode_row, end_sizes
from ikigai.store.sql import reading

if TYPE_CHECKING:
    from ikigai.core.search.prompt_history import SentPrompt

MAX_EVENTS_OF_USE = 500_000
"""Newest events in which uses of skills are counted: a third of a second."""
MESSAGES_PER_STATEMENT = 2_000
"""Messages of users that one statement looks through: about a hundredth of a second, for which others wait."""


_HEAD_CHARACTERS, _TAIL_CHARACTERS = 1 << 16, 1 << 12
GLANCE_ENDS = TextEnds(4 * (_HEAD_CHARACTERS + _TAIL_CHARACTERS), _HEAD_CHARACTERS, _TAIL_CHARACTERS)
"""The part that is read of a long tool result of which a few lines are shown; the tail only of failed ones. A character
takes four bytes at most, so that the ends never overlap.
"""


async def read_events(
    cursor: Cursor, agent: str, before: int | None, limit: int, ends: TextEnds | None = None
) -> tuple[StoredEvent, ...]:
    """Return the newest `limit` events of the agent's lineage with ids below `before` (None: the newest of all),
    ascending.

    They are of all kinds, cleared and rewound ones included; of each ancestor only those up to the fork. Ids serve for
    paging: pass the first one as the next `before`. Images come without their data, and `ends` limits long tool
    results.
    """
    last = NO_LIMIT if before is None else before - 1
    await cursor.execute(reading.HISTORY, (agent, last, limit, *end_sizes(ends), limit), prepare=False)
    return tuple(decode_row(row[0], row[1:]) for row in reversed(await cursor.fetchall()))


async def read_prompts(cursor: Cursor, limit: int) -> list[str]:
    """Return the last prompts of users, over all agents: at most `limit` different texts, the newest first."""
    await cursor.execute(reading.PROMPTS, {"most": 4 * limit, "limit": limit}, prepare=False)
    return [text for (text,) in await cursor.fetchall()]


async def read_skill_uses(cursor: Cursor) -> dict[str, tuple[int, float]]:
    """Return how often each skill was used in the newest events of all agents, and when last in seconds since 1970."""
    await cursor.execute(reading.SKILL_USES, {"most": MAX_EVENTS_OF_USE, "tool": SKILL_TOOL}, prepare=False)
    return {name: (count, last) for name, count, last in await cursor.fetchall()}


async def search_prompts(
    cursor: Cursor, typed: str, here: str, before: int | None, most: tuple[int, int]
) -> tuple[list[SentPrompt], int | None]:
    """Return prompts before the event `before` that match `typed`, from one stretch, and where the next stretch begins
    (None at the end).

    `most` limits the texts of agents in the directory `here`, and of others.
    """
    from ikigai.core.search.prompt_history import MATCHED_PREFIX, SentPrompt, loose_pattern, split_words

    which = {
        "before": NO_LIMIT if before is None else before,
        "most": MESSAGES_PER_STATEMENT,
        "words": split_words(typed),
        "loosely": loose_pattern(typed),
        "head": MATCHED_PREFIX,
        "here": here,
        "most_here": most[0],
        "most_elsewhere": most[1],
    }
    await cursor.execute(reading.SEARCH_PROMPTS, which, prepare=False)
    rows = await cursor.fetchall()
    matches = [SentPrompt(row[1], row[0], row[2], row[3], row[4], row[4] == here) for row in rows if row[1] is not None]
    return matches, next((row[0] for row in rows if row[1] is None), None)


async def read_sent_prompts(cursor: Cursor, ids: Sequence[int], here: str) -> list[SentPrompt]:
    """Return the prompts among these events, the newest first; `here` is the directory of this program."""
    from ikigai.core.search.prompt_history import SentPrompt

    await cursor.execute(reading.SENT_PROMPTS, (list(ids),), prepare=False)
    return [
        SentPrompt(text, id, at, agent, directory, directory == here)
        for id, text, at, agent, directory in await cursor.fetchall()
    ]


async def read_result(cursor: Cursor, agent: str, call_id: str) -> str | None:
    """Return the whole newest result of the call `call_id` in the agent's lineage, or None."""
    await cursor.execute(reading.RESULT, (agent, call_id), prepare=False)
    rows = await cursor.fetchall()
    return (rows[0][0] or "") if rows else None


def no_such_event(id: int) -> Rejected:
    return Rejected(f"There is no event #{id}.", "Ids are shown by /search and `ikigai history list`.")


async def read_neighbors(cursor: Cursor, id: int, before: int, after: int) -> tuple[str, tuple[StoredEvent, ...]]:
    """Return the name of the agent of the event `id`, and the event with its neighbors in the conversation.

    Raise Rejected if there is no such event.
    """
    if not 0 < id <= NO_LIMIT:
        raise no_such_event(id)
    await cursor.execute(reading.AGENT_OF, (id,), prepare=False)
    if not (rows := await cursor.fetchall()):
        raise no_such_event(id)
    ((agent, name),) = rows
    which = {"agent": agent, "id": id, "kinds": list(SEARCHED_KINDS), "before": before, "after": after}
    await cursor.execute(reading.AROUND, which, prepare=False)
    return name, tuple(decode_row(agent, row) for row in await cursor.fetchall())
