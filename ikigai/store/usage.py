"""This module adds up the usage ledger in the database: in all, by day, by model, by agent, over time.

A report of the newest days or of the dearest agents does not read the others.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from ikigai.core.events import UsageReported
from ikigai.core.views.usage_totals import UsageTotals, sum_totals
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.reading import decode_row, read_snapshot
from ikigai.store.sql import summed_usage, usage

if TYPE_CHECKING:
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.core.spending import CapScope, Money, SpendingQuery
    from ikigai.core.views.cache_report import CacheReport
    from ikigai.store.search.indexer import Indexer
    from ikigai.store.window_history import WindowFill

replace = msgspec.structs.replace

By: TypeAlias = Literal["day", "month", "model", "agent", "tree", "folder"]
TimeUnit: TypeAlias = Literal["hour", "day", "week", "month", "year"]
TIME_UNITS: tuple[TimeUnit, ...] = ("hour", "day", "week", "month", "year")
HOUR, DAY = 3600, 86_400
MAX_UNIT_SECONDS: dict[str, int] = {"hour": HOUR, "day": DAY + HOUR, "week": 7 * DAY, "month": 31 * DAY}
"""Seconds that a period has at most, summer time and all."""
USAGE_FIELDS = 13
"""Fields of `UsageTotals` that a row of the ledger has by itself."""
PERIODS = "day", "month"
"""Groups in the order of time, the newest last; the others are in the order of cost."""
DAYS_PER_DAY = 3
"""Days of the sums that a day of another time zone overlaps, at most."""
SUM_UP_SECONDS = 1.0
"""Seconds before a report in which usage is summed up."""


class UsageGroups(NamedTuple):
    """Usage in groups, and of all groups together. `more` groups were left out; None if they were not counted."""

    rows: list[tuple[str, UsageTotals]]
    total: UsageTotals
    more: int | None = 0


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
    return replace(await _read_sum(cursor, _which(agent, since)), prunes=0, pruned=0)


async def read_groups(
    cursor: Cursor,
    by: By,
    agent: str | None = None,
    since: float | None = None,
    most: int | None = None,
) -> UsageGroups:
    """Return usage in groups: days (2026-11-30) or months (2026-11) of the local time zone ascending, the others by
    cost; the newest `most` days or months, or the dearest `most` of the others.

    An agent's requests are its own, without its ancestors'. A tree is an agent of the user with the subagents below it,
    a folder is that in which such an agent was last used, "" for none.
    """
    which = _which(agent, since)
    async with read_snapshot(cursor):
        if most and agent is None and since is None:  # else there are hardly more rows than of agents and days in use
            if by == "agent":
                return await _read_dearest_agents(cursor, which, most)
            if by == "day" and (first := await _read_first_day(cursor, most)):
                return await _read_newest_days(cursor, which, first, most)
        if by in PERIODS:
            rows = await _read_periods(cursor, "month" if by == "month" else "day", which)
        else:
            rows = await _read_rows(cursor, by, which)
    shown = _cut(by, rows, most)
    return UsageGroups(shown, sum_totals(of for _, of in rows), len(rows) - len(shown))


def _cut(by: By, rows: list[tuple[str, UsageTotals]], most: int | None) -> list[tuple[str, UsageTotals]]:
    if not most:
        return rows
    return rows[-most:] if by in PERIODS else rows[:most]


async def _read_dearest_agents(cursor: Cursor, which: dict[str, Any], most: int) -> UsageGroups:
    await cursor.execute(summed_usage.DEAREST_AGENTS, which | {"most": most}, prepare=False)
    rows = [(name, _totals(row)) for name, *row in await cursor.fetchall()]
    await cursor.execute(summed_usage.COUNT_AGENTS, which, prepare=False)
    ((count,),) = await cursor.fetchall()
    return UsageGroups(rows, await _read_sum(cursor, which), count - len(rows))


async def _read_first_day(cursor: Cursor, most: int) -> float | None:
    """Return a time from which on there are requests on more than `most` days; None if there may be fewer."""
    await cursor.execute(summed_usage.FIRST_OF_DAYS, (DAYS_PER_DAY * (most + 1),), prepare=False)
    return next((first for (first,) in await cursor.fetchall()), None)


async def _read_newest_days(cursor: Cursor, which: dict[str, Any], first: float, most: int) -> UsageGroups:
    rows = _cut("day", await _read_periods(cursor, "day", which | {"since": first}), most)
    begin, end = await _bounds(cursor, which)
    # Days of two zones may begin together in winter alone: some of each month are compared, and all that are shown.
    days = _days(datetime.fromtimestamp((begin or first) - 1).date(), datetime.fromtimestamp(end or first).date())
    compared = {day for day in days if day.day in (1, 15)}.union(date.fromisoformat(day) for day, _ in rows)
    edges = [local_midnight(day) for day in sorted(compared)]
    await cursor.execute(summed_usage.COUNT_DAYS, which | {"days": edges}, prepare=False)
    counts = [count - len(rows) for (count,) in await cursor.fetchall()]
    return UsageGroups(rows, await _read_sum(cursor, which), next(iter(counts), None))


async def _read_periods(
    cursor: Cursor, unit: Literal["day", "month"], which: dict[str, Any]
) -> list[tuple[str, UsageTotals]]:
    first, last = await _bounds(cursor, which)
    if first is None or last is None:
        return []
    # A second earlier: a moment right after midnight may have been rounded.
    begin, end = _floor(unit, datetime.fromtimestamp(first - 1).date()), datetime.fromtimestamp(last).date()
    days = [local_midnight(day) for day in _days(begin, end) if day == _floor(unit, day)]
    return [
        (_period_name(unit, days[number - 1]), of)
        for number, of in await _read_rows(cursor, "day", which | {"days": days})
    ]


async def _read_rows(cursor: Cursor, by: str, which: dict[str, Any]) -> list[tuple[Any, UsageTotals]]:
    """Return the usage of each group; a day is the number of the moment in `which` at which it begins, from 1 on."""
    is_of_time = which["since"] is not None or bool(which["days"])
    report = summed_usage.report(by, which["agents"] is not None, is_of_time)
    await cursor.execute(report, which, prepare=False)
    return [(group, _totals(row)) for group, *row in await cursor.fetchall()]


async def _read_sum(cursor: Cursor, which: dict[str, Any]) -> UsageTotals:
    ((_, total),) = await _read_rows(cursor, "all", which)
    return total


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
    rows = await _read_rows(cursor, "day", which | {"days": began})
    totals = {number: replace(of, prunes=0, pruned=0) for number, of in rows}
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
    await cursor.execute(usage.LAST_COUNTED, {"agent": UUID(agent)}, prepare=False)
    events = [decode_row(agent, row).event for row in await cursor.fetchall()]
    return next((event for event in events if isinstance(event, UsageReported)), None)


async def read_chosen_model(cursor: Cursor, agent: str) -> str:
    """Return the model of the agent's newest request in a turn that had not fallen back; "" if it is not known."""
    await cursor.execute(usage.CHOSEN_MODEL, {"agent": UUID(agent)}, prepare=False)
    return next((model for (model,) in await cursor.fetchall()), "")


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

    await cursor.execute(usage.REQUEST_TIMES, {"agent": UUID(agent)})
    times = [float(at) for (at,) in reversed(await cursor.fetchall())]
    await cursor.execute(usage.LAST_CACHED, {"agent": UUID(agent)})
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
        MissRow(at, agent, model, int(input), int(cached), int(written), int(missed), cause, reason)
        for at, agent, model, input, cached, written, missed, cause, reason in await cursor.fetchall()
    )
    return CacheReport(*totals, causes, newest)


async def read_recent_models(cursor: Cursor, limit: int) -> list[str]:
    """Return the models of the newest requests, the newest first."""
    await cursor.execute(usage.RECENT_MODELS, (limit,))
    return [model for (model,) in await cursor.fetchall()]


class UsageReports:
    """Reports of usage. Made by `Database`; `indexer` keeps the sums."""

    def __init__(self, session: DatabaseSession, indexer: "Indexer") -> None:
        self._session, self._indexer = session, indexer

    async def totals(
        self, agent: str | Sequence[str] | None = None, since: float | None = None, ids: Sequence[int] | None = None
    ) -> UsageTotals:
        """Return the usage of the ledger's requests; see `read_totals`."""
        async with self._session.use() as cursor:
            return await read_totals(cursor, agent, since, ids)

    async def sum_up(self) -> None:
        """Bring the sums of usage up to date as far as there is time. Reports are exact without it, and slower."""
        await self._indexer.usage.catch_up(SUM_UP_SECONDS)

    async def totals_by(
        self, by: By, agent: str | None = None, since: float | None = None
    ) -> list[tuple[str, UsageTotals]]:
        """Return all groups of `groups`."""
        return (await self.groups(by, agent, since)).rows

    async def groups(
        self, by: By, agent: str | None = None, since: float | None = None, most: int | None = None
    ) -> UsageGroups:
        """Return usage by day, model or agent; see `read_groups`."""
        async with self._session.use() as cursor:
            return await read_groups(cursor, by, agent, since, most)

    async def over_time(
        self, most: int, agent: str | None = None, since: float | None = None
    ) -> tuple[TimeUnit, list[tuple[str, UsageTotals]], UsageTotals]:
        """Return usage over time; see `read_totals_over_time`."""
        async with self._session.use() as cursor:
            return await read_totals_over_time(cursor, most, agent, since)

    async def window_fills(self, agent: str, most: int, since: float | None = None) -> "list[WindowFill]":
        """Return how full the window of the agent with this id was, in its newest turns; see
        `window_history.read_turns`.
        """
        from ikigai.store import window_history

        async with self._session.use() as cursor:
            return await window_history.read_turns(cursor, agent, most, since)

    async def spent(self, agent: str, query: "SpendingQuery") -> "dict[CapScope, Money]":
        """Return what was spent and is reserved by others, for the agent of this id; see `reservations.read_spent`."""
        from ikigai.store import reservations

        async with self._session.use() as cursor:
            return await reservations.read_spent(self._session, cursor, UUID(agent), query)

    async def cache_uses(self, agent: str) -> "tuple[list[float], CacheUse | None]":
        """See `read_cache_uses`."""
        async with self._session.use() as cursor:
            return await read_cache_uses(cursor, agent)

    async def cache_report(self, agent: str | None = None, since: float | None = None) -> "CacheReport":
        """See `read_cache_report`."""
        async with self._session.use() as cursor:
            return await read_cache_report(cursor, agent, since)

    async def recent_models(self, limit: int) -> list[str]:
        """Return the models that were asked lately, the newest first."""
        async with self._session.use() as cursor:
            return await read_recent_models(cursor, limit)
