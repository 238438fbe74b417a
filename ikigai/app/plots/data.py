"""Gather the data of a plot of the ledger: the bars, and the window of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.app.usage.usage_report import spent_below
from ikigai.config import Config, with_profile
from ikigai.config.layers import split_layers
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.usage_totals import UsageTotals, describe_unpriced, sum_totals

if TYPE_CHECKING:
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.usage.usage import By
    from ikigai.store.usage.window_history import WindowFill

MAX_BARS = 31
"""The bars of a plot at most: a month of days."""
MAX_PLOTTED_TURNS = 240
"""The turns of a window's plot at most."""


class WindowHistory(Record, frozen=True):
    """The window of an agent in its newest turns, oldest first; `budget` is in tokens, 0 if no turn slides out."""

    agent: str
    turns: Sequence[WindowFill]
    budget: int = 0

    @property
    def left(self) -> list[int]:
        """For each turn, the number of others that left the window with it."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return [0, *(max(0, turn.out - before.out) for before, turn in pairs)]


class PlotData(Record, frozen=True):
    """The data of a plot. `rows` are totals by `by`: a unit of time, or a group; `notes` stand below them."""

    title: str
    by: str
    rows: Sequence[tuple[str, UsageTotals]]
    notes: tuple[str, ...] = ()
    window: WindowHistory | None = None


async def gather_data(
    database: Database,
    config: Config,
    by: By = "day",
    agent: Agent | None = None,
    since: float | None = None,
    window: Agent | None = None,
    budget: int | None = None,
) -> PlotData:
    """Gather the requests of one agent or of all since a time (seconds since 1970), and the window of agent `window`.

    `budget` is the one of `window`; None looks it up. `by` "day" or "month" means over time, in a unit that fits.
    """
    from ikigai.store.usage.usage import PERIODS

    id = agent.id if agent else None
    notes = list[str]()
    if by in PERIODS:
        unit, rows, earlier = await database.usage.over_time(MAX_BARS, id, since)
        if earlier.requests:
            are = "1 request is" if earlier.requests == 1 else f"{earlier.requests:,} requests are"
            notes.append(f"{are} older than that.")
    else:
        unit, found = by, await database.usage.totals_by(by, id, since)
        rows = found if len(found) <= MAX_BARS else [*found[: MAX_BARS - 1], _others(found[MAX_BARS - 1 :])]
    rows = [(clean_line(name) or "?", of) for name, of in rows]
    if missing := sum(of.unpriced for _, of in rows):
        notes.append(describe_unpriced(missing))
    if agent and (below := await spent_below(database, agent.id, since)) and below.requests:
        are = "request of its agents is" if below.requests == 1 else f"{below.requests:,} requests of its agents are"
        notes.append(f"The {are} not in it: `ikigai usage --by agent`.")
    whose = f", {clean_line(agent.name)}" if agent else ""
    return PlotData(
        f"Tokens and cost by {unit}{whose}",
        unit,
        rows,
        tuple(notes),
        await _window(database, config, window, since, budget),
    )


def _others(found: Sequence[tuple[str, UsageTotals]]) -> tuple[str, UsageTotals]:
    return f"{len(found):,} others", sum_totals(of for _, of in found)


async def _window(
    database: Database, config: Config, agent: Agent | None, since: float | None, budget: int | None
) -> WindowHistory | None:
    if agent is None or not (turns := await database.usage.window_fills(agent.id, MAX_PLOTTED_TURNS, since)):
        return None
    if budget is None:
        budget = await _budget(database, config, agent)
    return WindowHistory(clean_line(agent.name) or "?", turns, budget)


async def _budget(database: Database, config: Config, agent: Agent) -> int:
    """Return the agent's current budget: from a flag or variable, its own, its profile's or the default."""
    layered = split_layers(config)
    if "budget" in layered.above:
        return config.context.sliding_context_tokens
    own = await database.chosen(agent.id, "budget")
    if isinstance(own, int):
        return own
    profile = layered.above.get("profile") or await database.chosen(agent.id, "profile") or layered.below.get("profile")
    return with_profile(config, str(profile or "")).context.sliding_context_tokens
