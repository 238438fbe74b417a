"""The usage ledger added up by the database: in all, by day, by model, by agent."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, LiteralString, TypeAlias
from uuid import UUID

import msgspec

from ikigai.core.events import UsageReported
from ikigai.core.views.usage_totals import Spent
from ikigai.store.connection import Cursor
from ikigai.store.reading import stored
from ikigai.store.sql import usage as queries

replace = msgspec.structs.replace

By: TypeAlias = Literal["day", "model", "agent"]
Unit: TypeAlias = Literal["hour", "day", "week", "month", "year"]
UNITS: tuple[Unit, ...] = ("hour", "day", "week", "month", "year")
HOUR, DAY = 3600, 86_400
LONGEST: dict[str, int] = {"hour": HOUR, "day": DAY + HOUR, "week": 7 * DAY, "month": 31 * DAY}
"""Seconds that a stretch has at most, summer time and all."""
_BY: dict[str, tuple[LiteralString, LiteralString]] = {
    "model": (queries.USAGE_BY_MODEL, queries.PRUNES_BY_MODEL),
    "agent": (queries.USAGE_BY_AGENT, queries.PRUNES_BY_AGENT),
}


async def spent(
    cursor: Cursor,
    agent: str | Sequence[str] | None = None,
    since: float | None = None,
    ids: Sequence[int] | None = None,
) -> Spent:
    """What requests took: of one agent or of several, since a time (seconds since 1970), of these usage events."""
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
        spending, pruning = _BY[by]
        await cursor.execute(spending, which, prepare=False)
        rows = [(name, _spent(row)) for name, *row in await cursor.fetchall()]
        pruned = await _pruned(cursor, pruning, which)
        return [(name, _with(of, pruned.get(name))) for name, of in rows]
    await cursor.execute(queries.USAGE_BOUNDS, which, prepare=False)
    ((first, last),) = await cursor.fetchall()
    if first is None:
        return []
    # A second earlier: a moment right behind midnight may have been rounded.
    days = list(_days(datetime.fromtimestamp(first - 1).date(), datetime.fromtimestamp(last).date()))
    which["days"] = [midnight(day) for day in days]
    await cursor.execute(queries.USAGE_BY_DAY, which, prepare=False)
    found = [(number, _spent(row)) for number, *row in await cursor.fetchall()]
    pruned = await _pruned(cursor, queries.PRUNES_BY_DAY, which)
    return [(days[number - 1].isoformat(), _with(of, pruned.get(number))) for number, of in found]


async def over_time(
    cursor: Cursor, most: int, agent: str | None = None, since: float | None = None
) -> tuple[Unit, list[tuple[str, Spent]], Spent]:
    """The same over time, in at most so many stretches of equal kind, those without requests included.

    They are the shortest unit of the local time zone that will do; a week is called by its Monday. What lies before the
    newest `most` years is apart.
    """
    which = _which(agent, since, None)
    await cursor.execute(queries.USAGE_BOUNDS, which, prepare=False)
    ((first, last),) = await cursor.fetchall()
    if first is None:
        return "hour", [], Spent()
    # As above: a moment right behind the hour may have been rounded.
    unit, began = next(found for unit in UNITS if (found := _stretches(unit, first - 1, last, most)))
    which["days"] = began
    await cursor.execute(queries.USAGE_BY_DAY, which, prepare=False)
    found = {number: _spent(row) for number, *row in await cursor.fetchall()}
    named = [(_named(unit, at), found.get(number, Spent())) for number, at in enumerate(began, 1)]
    while len(named) > 1 and not named[0][1].requests:
        del named[0]
    return unit, named, found.get(0, Spent())


def _stretches(unit: Unit, first: float, last: float, most: int) -> tuple[Unit, list[datetime]] | None:
    """When the stretches begin in which these two moments and all between them lie; None when they are too many."""
    if unit == "year":
        newest = datetime.fromtimestamp(last).year
        oldest = max(datetime.fromtimestamp(first).year, newest - most + 1)
        return unit, [midnight(date(year, 1, 1)) for year in range(oldest, newest + 1)]
    if last - first > most * LONGEST[unit]:
        return None
    if unit == "hour":
        began = datetime.fromtimestamp(first).replace(minute=0, second=0, microsecond=0).timestamp()
        hours = [datetime.fromtimestamp(at).astimezone() for at in range(int(began), int(last) + 1, 3600)]
        return (unit, hours) if len(hours) <= most else None
    day, end = datetime.fromtimestamp(first).date(), datetime.fromtimestamp(last).date()
    days = [midnight(each) for each in _days(_floor(unit, day), end) if each == _floor(unit, each)]
    return (unit, days) if len(days) <= most else None


def _floor(unit: Unit, day: date) -> date:
    """The first day of the unit that this one is in."""
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case _:
            return day


def _named(unit: Unit, at: datetime) -> str:
    forms = {"hour": "%Y-%m-%d %H:00", "month": "%Y-%m", "year": "%Y"}
    return at.strftime(forms.get(unit, "%Y-%m-%d"))


async def last_counted(cursor: Cursor, agent: str) -> UsageReported | None:
    """The agent's newest request of which both the provider's count and our own size are known."""
    await cursor.execute(queries.LAST_COUNTED, (agent,), prepare=False)
    events = [stored(agent, row).event for row in await cursor.fetchall()]
    return next((event for event in events if isinstance(event, UsageReported)), None)


async def _pruned(cursor: Cursor, query: LiteralString, which: dict[str, Any]) -> dict[Any, tuple[int, int]]:
    """By group: how often turns left the window, and how many did."""
    await cursor.execute(query, which, prepare=False)
    return {key: (times, int(turns)) for key, times, turns in await cursor.fetchall()}


def _with(of: Spent, pruned: tuple[int, int] | None) -> Spent:
    return replace(of, prunes=pruned[0], pruned=pruned[1]) if pruned else of


def midnight(day: date) -> datetime:
    """When the day begins where this program runs."""
    return datetime(day.year, day.month, day.day).astimezone()


def _days(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += timedelta(days=1)


def _which(agent: str | Sequence[str] | None, since: float | None, ids: Sequence[int] | None) -> dict[str, Any]:
    agents = [agent] if isinstance(agent, str) else agent
    return {
        "agents": None if agents is None else [UUID(each) for each in agents],
        "since": since,
        "ids": None if ids is None else list(ids),
    }


def _spent(row: Sequence[Any]) -> Spent:
    *counts, cost, unpriced = row
    values: list[Any] = [*map(int, counts), cost, unpriced]  # sums come as numeric
    return Spent(*values)
