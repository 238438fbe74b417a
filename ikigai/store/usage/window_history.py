"""Read how full the window was from turn to turn, from the newest rows of an agent alone."""

from typing import Any

from ikigai.core.events.record import Record
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.sql import window_history

MAX_EVENTS = 20_000
"""Limit of the newest events of an agent that are read for its turns."""


class WindowFill(Record, frozen=True):
    """The last request of a turn: its `tokens` by the provider's count, or estimated from bytes if it gave none.

    `at` is seconds since 1970, `out` the number of turns that were left out of it.
    """

    at: float
    tokens: int
    out: int = 0


async def read_turns(cursor: Cursor, agent: str, most: int, since: float | None = None) -> list[WindowFill]:
    """Return the agent's own newest turns, `most` at most, oldest first."""
    which = {"agent": agent, "events": MAX_EVENTS, "since": since, "most": most}
    await cursor.execute(window_history.TURNS, which, prepare=False)
    return [WindowFill(at, int(tokens), int(out)) for at, tokens, out in await cursor.fetchall()]


async def read_choice(cursor: Cursor, agent: str, key: str) -> Any:
    """Return the value that the agent has set itself for a setting, as its newest rows say; None if it has none."""
    await cursor.execute(window_history.CHOSEN, {"agent": agent, "key": key}, prepare=False)
    rows = await cursor.fetchall()
    return rows[0][0] if rows else None
