"""Add up the usage ledger in the database: in all, by day, by model, by agent, over time.

Reports read sums by hour, agent and model, which each append keeps; the log itself only for hours that a report cuts.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from ikigai.core.events.events import UsageReported
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.reading import decode_row, read_snapshot
from ikigai.store.sql import usage

if TYPE_CHECKING:
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.core.request.spending import CapScope, Money, SpendingQuery
    from ikigai.core.views.cache_report import CacheReport
    from ikigai.store.usage.window_history import WindowFill

replace = msgspec.structs.replace

By: TypeAlias = Literal["day", "month", "model", "agent", "tree", "folder"]
TimeUnit: TypeAlias = Literal["hour", "day", "week", "month", "year"]
TIME_UNITS: tuple[TimeUnit, ...] = ("hour", "day", "week", "month", "year")
QUARTER, HOUR, DAY = 900, 3600, 86_400
MAX_UNIT_SECONDS: dict[str, int] = {"hour": HOUR, "day": DAY + HOUR, "week": 7 * DAY, "month": 31 * DAY}
"""Seconds that a period has at most, summer time and all."""
PERIODS = "day", "month"
"""Groups in the order of time, the newest last; the others are in the order of cost."""


class UsageGroups(NamedTuple):
    """Usage in groups, and of all groups together. `more` groups were left out."""

    rows: list[tuple[str, UsageTotals]]
    total: UsageTotals
    more: int = 0


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
        await cursor.execute(usage.TOTALS_OF_EVENTS, {"ids": list(ids)}, prepare=False)
    else:
        await cursor.execute(usage.TOTALS, _which(agent, since), prepare=False)
    ((*row,),) = await cursor.fetchall()
    return _totals(row)


async def read_groups(
    cursor: Cursor, by: By, agent: str | None = None, since: float | None = None, most: int | None = None
) -> UsageGroups:
    """Return usage in groups: days (2026-11-30) or months (2026-11) of the local time zone ascending, the others by
    cost; the newest `most` days or months, or the dearest `most` of the others.

    An agent's requests are its own, without its ancestors'. A tree is an agent of the user with the subagents below it,
    a folder is that in which such an agent was last used, "" for none.
    """
    async with read_snapshot(cursor):
        if by not in PERIODS:
            return UsageGroups(*await _read_groups(cursor, by, _which(agent, since), most))
        first, last = await _bounds(cursor, _which(agent, since))
        if first is None or last is None:
            return UsageGroups([], UsageTotals())
        unit: TimeUnit = "month" if by == "month" else "day"
        began = _beginnings(unit, first, last)
        rows, total, more = await _read_groups(cursor, "day", _which(agent, since, began), most)
        return UsageGroups([(_period_name(unit, began[number - 1]), of) for number, of in reversed(rows)], total, more)


async def _read_groups(
    cursor: Cursor, by: str, which: dict[str, Any], most: int | None = None
) -> tuple[list[tuple[Any, UsageTotals]], UsageTotals, int]:
    """Return the fields of `UsageGroups`; days by their number from 1 on, the newest first."""
    await cursor.execute(usage.report(by), which | {"most": most or None}, prepare=False)
    (_, *total, count), *rows = await cursor.fetchall()
    return [(key, _totals(row)) for key, *row, _ in rows], _totals(total), count - len(rows)


async def read_totals_over_time(
    cursor: Cursor, most: int, agent: str | None = None, since: float | None = None
) -> tuple[TimeUnit, list[tuple[str, UsageTotals]], UsageTotals]:
    """Return usage over time, in at most `most` periods of one unit, those without requests included.

    The unit is the shortest of the local time zone that suffices; a week is named by its Monday. The last value is the
    usage before the newest `most` years.
    """
    first, last = await _bounds(cursor, _which(agent, since))
    if first is None or last is None:
        return "hour", [], UsageTotals()
    unit, began = next(periods for unit in TIME_UNITS if (periods := _periods(unit, first, last, most)))
    rows, _, _ = await _read_groups(cursor, "day", _which(agent, since, began))
    totals = dict(rows)
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
        hours = list(_hours(first, last))
        return (unit, hours) if len(hours) <= most else None
    began = _beginnings(unit, first, last)
    return (unit, began) if len(began) <= most else None


def _hours(first: float, last: float) -> Iterator[datetime]:
    """Yield the beginnings of the hours from one moment to the other. Clocks may be set by half an hour."""
    start, name = datetime.fromtimestamp(first).replace(minute=0, second=0, microsecond=0).timestamp(), ""
    for at in range(int(start), int(last) + 1, QUARTER):
        moment = datetime.fromtimestamp(at).astimezone()
        if moment.minute == 0 or _period_name("hour", moment) != name:
            yield moment
        name = _period_name("hour", moment)


def _beginnings(unit: TimeUnit, first: float, last: float) -> list[datetime]:
    """Return the beginnings of the days, weeks or months from one moment to the other."""
    day, end = _floor(unit, datetime.fromtimestamp(first).date()), datetime.fromtimestamp(last).date()
    return [local_midnight(each) for each in _days(day, end) if each == _floor(unit, each)]


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


async def _bounds(cursor: Cursor, which: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the times of the first request, to the hour, and of the last one."""
    await cursor.execute(usage.BOUNDS, which, prepare=False)
    ((first, last),) = await cursor.fetchall()
    return first, last


def local_midnight(day: date) -> datetime:
    """Return the beginning of the day in the local time zone, which is later where clocks are set at midnight."""
    at = datetime(day.year, day.month, day.day).timestamp()
    return datetime.fromtimestamp(at).astimezone()  # of a time that clocks skip, `astimezone` makes one before it


def _days(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += timedelta(days=1)


def _which(agent: str | Sequence[str] | None, since: float | None, began: Sequence[datetime] = ()) -> dict[str, Any]:
    """Return the parameters of the statements; periods of the report begin at `began`."""
    agents = [agent] if isinstance(agent, str) else agent
    edges = [*(each.timestamp() for each in began), since or 0.0]
    return {
        "agents": None if agents is None else [UUID(each) for each in agents],
        "since": since,
        "days": list(began),
        "cut": [datetime.fromtimestamp(hour * HOUR, UTC) for hour in {int(at // HOUR) for at in edges if at % HOUR}],
    }


def _totals(row: Sequence[Any]) -> UsageTotals:
    totals = UsageTotals(*row)
    counts = {name: int(getattr(totals, name)) for name in UsageTotals.__struct_fields__ if name != "cost"}
    return replace(totals, **counts)  # sums come as numeric


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

    which, of = _which(agent, since), await read_totals(cursor, agent, since)
    await cursor.execute(usage.CACHE_CAUSES, which, prepare=False)
    causes = tuple(MissCount(cause, count, int(missed)) for cause, count, missed in await cursor.fetchall())
    await cursor.execute(usage.NEWEST_MISSES, which, prepare=False)
    newest = tuple(
        MissRow(at, agent, model, int(input), int(cached), int(written), int(missed), cause, reason)
        for at, agent, model, input, cached, written, missed, cause, reason in await cursor.fetchall()
    )
    return CacheReport(of.requests, of.input, of.cached, of.written, causes, newest)


async def read_recent_models(cursor: Cursor, limit: int) -> list[str]:
    """Return the models of the newest requests, the newest first."""
    await cursor.execute(usage.RECENT_MODELS, (limit,))
    return [model for (model,) in await cursor.fetchall()]


class UsageReports:
    """Reports of usage. Made by `Database`."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def totals(
        self, agent: str | Sequence[str] | None = None, since: float | None = None, ids: Sequence[int] | None = None
    ) -> UsageTotals:
        """Return the usage of the ledger's requests; see `read_totals`."""
        async with self._session.use() as cursor:
            return await read_totals(cursor, agent, since, ids)

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
        from ikigai.store.usage import window_history

        async with self._session.use() as cursor:
            return await window_history.read_turns(cursor, agent, most, since)

    async def spent(self, agent: str, query: "SpendingQuery") -> "dict[CapScope, Money]":
        """Return what was spent and is reserved by others, for the agent of this id; see `reservations.read_spent`."""
        from ikigai.store.log import reservations

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
