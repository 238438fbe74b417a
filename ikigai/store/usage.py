"""The usage ledger added up by the database: in all, by day, by model, by agent."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

from ikigai.core.spending import Spent

from . import queries
from .connection import Cursor

By: TypeAlias = Literal["day", "model", "agent"]


async def spent(
    cursor: Cursor, agent: str | None = None, since: float | None = None, ids: Sequence[int] | None = None
) -> Spent:
    """What requests took: those of one agent, since a time (seconds since 1970), those of these usage events."""
    await cursor.execute(queries.USAGE, _which(agent, since, ids), prepare=False)
    return _spent((await cursor.fetchall())[0])


async def spent_by(
    cursor: Cursor, by: By, agent: str | None = None, since: float | None = None
) -> list[tuple[str, Spent]]:
    """The same in groups: days of the local time zone (2026-11-30) ascending, models and agents by what they cost.

    An agent's requests are its own, not its ancestors'.
    """
    which = _which(agent, since, None)
    if by != "day":
        await cursor.execute(queries.USAGE_BY_MODEL if by == "model" else queries.USAGE_BY_AGENT, which, prepare=False)
        return [(name, _spent(row)) for name, *row in await cursor.fetchall()]
    await cursor.execute(queries.USAGE_BOUNDS, which, prepare=False)
    ((first, last),) = await cursor.fetchall()
    if first is None:
        return []
    # A second earlier: a moment right behind midnight may have been rounded.
    days = list(_days(datetime.fromtimestamp(first - 1).date(), datetime.fromtimestamp(last).date()))
    await cursor.execute(queries.USAGE_BY_DAY, {**which, "days": [midnight(day) for day in days]}, prepare=False)
    return [(days[number - 1].isoformat(), _spent(row)) for number, *row in await cursor.fetchall()]


def midnight(day: date) -> datetime:
    """When the day begins where this program runs."""
    return datetime(day.year, day.month, day.day).astimezone()


def _days(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += timedelta(days=1)


def _which(agent: str | None, since: float | None, ids: Sequence[int] | None) -> dict[str, Any]:
    return {"agent": UUID(agent) if agent else None, "since": since, "ids": None if ids is None else list(ids)}


def _spent(row: Sequence[Any]) -> Spent:
    *counts, cost, unpriced = row
    values: list[Any] = [*map(int, counts), cost, unpriced]  # sums come as numeric
    return Spent(*values)
