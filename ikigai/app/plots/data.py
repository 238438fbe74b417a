"""Gathers what a picture of the ledger shows: the bars, and the window of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.app.usage_report import spent_below
from ikigai.config import Config, layers, under
from ikigai.core.record import Record
from ikigai.core.sanitize import clean_line
from ikigai.core.views.usage_totals import Spent, total

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.window_history import Filled

BARS = 31
"""At most: a month of days."""
TURNS = 240
"""That the picture of a window has at most."""


class Window(Record, frozen=True):
    """The window of an agent in its newest turns, oldest first; `budget` is tokens, 0 where nothing slides out."""

    agent: str
    turns: Sequence[Filled]
    budget: int = 0

    @property
    def left(self) -> list[int]:
        """For each turn, how many others left the window with it."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return [0, *(max(0, turn.out - before.out) for before, turn in pairs)]


class Figures(Record, frozen=True):
    """What is drawn. `rows` are named sums by `by`, a stretch of time, "model" or "agent"; `notes` stand below them."""

    title: str
    by: str
    rows: Sequence[tuple[str, Spent]]
    notes: tuple[str, ...] = ()
    window: Window | None = None


async def gathered(
    database: Database,
    config: Config,
    by: str = "day",
    agent: Agent | None = None,
    since: float | None = None,
    window: Agent | None = None,
    budget: int | None = None,
) -> Figures:
    """The figures: of one agent's requests or of all, since a time (seconds since 1970), and of the window of `window`.

    `budget` is that agent's; without it, it is looked up. `by` "day" is over time, in whatever unit fits.
    """
    id = agent.id if agent else None
    notes = list[str]()
    if by == "day":
        unit, rows, earlier = await database.spent_over_time(BARS, id, since)
        if earlier.requests:
            notes.append(f"{earlier.requests:,} requests are older than that.")
    else:
        unit, found = by, await database.spent_by("model" if by == "model" else "agent", id, since)
        rows = found if len(found) <= BARS else [*found[: BARS - 1], _others(found[BARS - 1 :])]
    rows = [(clean_line(name) or "?", of) for name, of in rows]
    if missing := sum(of.unpriced for _, of in rows):
        one = "1 request without a known price is"
        notes.append(f"{one if missing == 1 else f'{missing:,} requests without a known price are'} not in the cost.")
    if agent and (below := await spent_below(database, agent.id, since)) and below.requests:
        notes.append(f"The {below.requests:,} requests of its agents are not in it: `ikigai usage --by agent`.")
    whose = f", {clean_line(agent.name)}" if agent else ""
    return Figures(
        f"Tokens and cost by {unit}{whose}",
        unit,
        rows,
        tuple(notes),
        await _window(database, config, window, since, budget),
    )


def _others(found: Sequence[tuple[str, Spent]]) -> tuple[str, Spent]:
    return f"{len(found):,} others", total(of for _, of in found)


async def _window(
    database: Database, config: Config, agent: Agent | None, since: float | None, budget: int | None
) -> Window | None:
    if agent is None or not (turns := await database.filled(agent.id, TURNS, since)):
        return None
    if budget is None:
        budget = await _budget(database, config, agent)
    return Window(clean_line(agent.name) or "?", turns, budget)


async def _budget(database: Database, config: Config, agent: Agent) -> int:
    """The sliding budget that the agent would have now: a flag's or variable's, its own, its profile's, or ours."""
    layered = layers(config)
    if "budget" in layered.above:
        return config.context.sliding_context_tokens
    own = await database.chosen(agent.id, "budget")
    if isinstance(own, int):
        return own
    profile = layered.above.get("profile") or await database.chosen(agent.id, "profile") or layered.below.get("profile")
    return under(config, str(profile or "")).context.sliding_context_tokens
