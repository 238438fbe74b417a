"""This module adds up the usage ledger in the database: in all, by day, by model, by agent, over time."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, LiteralString, TypeAlias
from uuid import UUID

import msgspec

from ikigai.core.events import UsageReported
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.store.driver_connection import Cursor
from ikigai.store.reading import decode_row
from ikigai.store.sql import summed_usage, usage

if TYPE_CHECKING:
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.core.views.cache_report import CacheReport

replace = msgspec.structs.replace

By: TypeAlias = Literal["day", "month", "model", "agent", "tree", "folder", "user"]
TimeUnit: TypeAlias = Literal["hour", "day", "week", "month", "year"]
TIME_UNITS: tuple[TimeUnit, ...] = ("hour", "day", "week", "month", "year")
HOUR, DAY = 3600, 86_400
MAX_UNIT_SECONDS: dict[str, int] = {"hour": HOUR, "day": DAY + HOUR, "week": 7 * DAY, "month": 31 * DAY}
"""Seconds that a period has at most, summer time and all."""
USAGE_FIELDS = 13
"""Fields of `UsageTotals` that a row of the ledger has by itself."""
_BY: dict[str, LiteralString] = {
    "model": summed_usage.BY_MODEL,
    "agent": summed_usage.BY_AGENT,
    "tree": summed_usage.BY_TREE,
    "folder": summed_usage.BY_FOLDER,
    "user": usage.BY_USER,
}


async def read_totals(
    cursor: Cursor,
    agent: str | Sequence[str] | None = None,
    since: float | None = None,
    ids: Sequence[int] | None = None,
) -> UsageTotals:
    """Return the usage of requests: of these usage events, else of one agent or of several, since a time (seconds since
    1970).
    """
    if ids is not None:
        await cursor.execute(usage.USAGE_OF_EVENTS, {"ids": list(ids)}, prepare=False)
        return _totals((await cursor.fetchall())[0])
    await cursor.execute(summed_usage.ALL, _which(agent, since), prepare=False)
    return replace(_totals((await cursor.fetchall())[0]), prunes=0, pruned=0)


async def read_totals_by(
    cursor: Cursor, by: By, agent: str | None = None, since: float | None = None
) -> list[tuple[str, UsageTotals]]:
    """Return usage in groups: days (2026-11-30) or months (2026-11) of the local time zone ascending, the others by
    cost.

    An agent's requests are its own, without its ancestors'. A tree is an agent of the user with the subagents below it,
    a folder is that in which such an agent was last used, "" for none. A user is the role, or the user of this
    role, that sent the requests.
    """
    which = _which(agent, since)
    if by not in ("day", "month"):
        await cursor.execute(_BY[by], which, prepare=False)
        return [(name, _totals(row)) for name, *row in await cursor.fetchall()]
    first, last = await _bounds(cursor, which)
    if first is None or last is None:
        return []
    # A second earlier: a moment right after midnight may have been rounded.
    unit: TimeUnit = "month" if by == "month" else "day"
    begin, end = _floor(unit, datetime.fromtimestamp(first - 1).date()), datetime.fromtimestamp(last).date()
    days = [day for day in _days(begin, end) if day == _floor(unit, day)]
    which["days"] = [local_midnight(day) for day in days]
    await cursor.execute(summed_usage.BY_DAY, which, prepare=False)
    totals = [(number, _totals(row)) for number, *row in await cursor.fetchall()]
    names = [_period_name(unit, local_midnight(day)) for day in days]
    return [(names[number - 1], of) for number, of in totals]


async def read_totals_over_time(
    cursor: Cursor, most: int, agent: str | None = None, since: float | None = None
) -> tuple[TimeUnit, list[tuple[str, UsageTotals]], UsageTotals]:
    """Return usage over time, in at most `most` periods of one unit, those without requests included.

    The unit is the shortest of the local time zone that suffices; a week is named by its Monday. The last value is the
    usage before the newest `most` years.
    """
    which = _which(agent, since)
    first, last = await _bounds(cursor, which)
    if first is None or last is None:
        return "hour", [], UsageTotals()
    # As above: a moment right after the hour may have been rounded.
    unit, began = next(periods for unit in TIME_UNITS if (periods := _periods(unit, first - 1, last, most)))
    which["days"] = began
    await cursor.execute(summed_usage.BY_DAY, which, prepare=False)
    totals = {number: replace(_totals(row), prunes=0, pruned=0) for number, *row in await cursor.fetchall()}
    named = [(_period_name(unit, at), totals.get(number, UsageTotals())) for number, at in enumerate(began, 1)]
    while len(named) > 1 and not named[0][1].requests:
        del named[0]
    return unit, named, totals.get(0, UsageTotals())


def _periods(unit: TimeUnit, first: float, last: float, most: int) -> tuple[TimeUnit, list[datetime]] | None:
    """Return the beginnings of the periods from one moment to the other; None if they are more than `most`."""
    if unit == "year":
        newest = datetime.fromtimestamp(last).year
        oldest = max(datetime.fromtimestamp(first).year, newest - most + 1)
        return unit, [local_midnight(date(year, 1, 1)) for year in range(oldest, newest + 1)]
    if last - first > most * MAX_UNIT_SECONDS[unit]:
        return None
    if unit == "hour":
        began = datetime.fromtimestamp(first).replace(minute=0, second=0, microsecond=0).timestamp()
        hours = [datetime.fromtimestamp(at).astimezone() for at in range(int(began), int(last) + 1, 3600)]
        return (unit, hours) if len(hours) <= most else None
    day, end = datetime.fromtimestamp(first).date(), datetime.fromtimestamp(last).date()
    days = [local_midnight(each) for each in _days(_floor(unit, day), end) if each == _floor(unit, each)]
    return (unit, days) if len(days) <= most else None


def _floor(unit: TimeUnit, day: date) -> date:
    """Return the first day of the unit that contains this one."""
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case _:
            return day


def _period_name(unit: TimeUnit, at: datetime) -> str:
    forms = {"hour": "%Y-%m-%d %H:00", "month": "%Y-%m", "year": "%Y"}
    return at.strftime(forms.get(unit, "%Y-%m-%d"))


async def read_last_counted(cursor: Cursor, agent: str) -> UsageReported | None:
    """Return the agent's newest request that has both the provider's token count and ikigai's own size."""
    await cursor.execute(usage.LAST_COUNTED, (agent,), prepare=False)
    events = [decode_row(agent, row).event for row in await cursor.fetchall()]
    return next((event for event in events if isinstance(event, UsageReported)), None)


async def _bounds(cursor: Cursor, which: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the times of the first and the last request; of an agent's to a quarter of an hour."""
    statement = usage.USAGE_BOUNDS if which["agents"] is None else summed_usage.BOUNDS_OF_AGENTS
    await cursor.execute(statement, which, prepare=False)
    ((first, last),) = await cursor.fetchall()
    return first, last


def local_midnight(day: date) -> datetime:
    """Return the beginning of the day in the local time zone."""
    return datetime(day.year, day.month, day.day).astimezone()


def _days(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += timedelta(days=1)


def _which(agent: str | Sequence[str] | None, since: float | None) -> dict[str, Any]:
    """Return the parameters of the statements; `days` are the edges of the periods of a report."""
    agents = [agent] if isinstance(agent, str) else agent
    return {"agents": None if agents is None else [UUID(each) for each in agents], "since": since, "days": []}


def _totals(row: Sequence[Any]) -> UsageTotals:
    *counts, cost, unpriced, at_least = row[:USAGE_FIELDS]
    further = row[USAGE_FIELDS:]
    values: list[Any] = [*map(int, counts), cost, *map(int, (unpriced, at_least, *further))]  # sums come as numeric
    return UsageTotals(*values)


async def read_cache_uses(cursor: Cursor, agent: str) -> "tuple[list[float], CacheUse | None]":
    """Return when the newest requests of an agent's turns were sent, in seconds since 1970, oldest first, and the
    newest one that a provider's cache can have.
    """
    from ikigai.core.request.cache_diagnosis import CacheUse

    await cursor.execute(usage.REQUEST_TIMES, (UUID(agent),))
    times = [float(at) for (at,) in reversed(await cursor.fetchall())]
    await cursor.execute(usage.LAST_CACHED, (UUID(agent),))
    for row in await cursor.fetchall():
        stored = decode_row(agent, row)
        if isinstance(stored.event, UsageReported):
            return times, CacheUse(stored.event, stored.at - stored.event.seconds)
    return times, None


async def read_cache_report(cursor: Cursor, agent: str | None, since: float | None) -> "CacheReport":
    """Return what the providers' caches served of the requests of an agent, or of all, since a time, and missed."""
    from ikigai.core.views.cache_report import CacheReport, MissCount, MissRow

    which = _which(agent, since)
    await cursor.execute(usage.CACHE_TOTALS, which, prepare=False)
    ((requests, input, cached, written),) = await cursor.fetchall()
    totals = requests, int(input), int(cached), int(written)
    await cursor.execute(usage.CACHE_CAUSES, which, prepare=False)
    causes = tuple(MissCount(cause, count, int(missed)) for cause, count, missed in await cursor.fetchall())
    await cursor.execute(usage.NEWEST_MISSES, which, prepare=False)
    newest = tuple(
        MissRow(at, agent, model, int(input), int(cached), int(written), int(missed), cause, told)
        for at, agent, model, input, cached, written, missed, cause, told in await cursor.fetchall()
    )
    return CacheReport(*totals, causes, newest)


async def read_recent_models(cursor: Cursor, limit: int) -> list[str]:
    """Return the models of the newest requests, the newest first."""
    await cursor.execute(usage.RECENT_MODELS, (limit,))
    return [model for (model,) in await cursor.fetchall()]
