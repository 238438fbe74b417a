"""How full the window was from turn to turn, read from the newest rows of an agent and never from all of them."""

from typing import Any

from ikigai.core.record import Record
from ikigai.store.connection import Cursor
from ikigai.store.sql import window_history as own

EVENTS = 20_000
"""The newest events of an agent that are looked through for its turns."""


class Filled(Record, frozen=True):
    """What the last request of a turn held: `tokens` by the provider's count, or by ours of bytes where it gave none.

    `at` is seconds since 1970, `out` how many turns were left out of it.
    """

    at: float
    tokens: int
    out: int = 0


async def turns(cursor: Cursor, agent: str, most: int, since: float | None = None) -> list[Filled]:
    """The agent's own newest turns, `most` at most, oldest first."""
    which = {"agent": agent, "events": EVENTS, "since": since, "most": most}
    await cursor.execute(own.TURNS, which, prepare=False)
    return [Filled(at, int(tokens), int(out)) for at, tokens, out in await cursor.fetchall()]


async def chosen(cursor: Cursor, agent: str, key: str) -> Any:
    """What the agent's own choice of a setting is, None where it has none; as its newest rows say it."""
    await cursor.execute(own.CHOSEN, (agent, key, key, key), prepare=False)
    found = await cursor.fetchall()
    return found[0][0] if found else None
