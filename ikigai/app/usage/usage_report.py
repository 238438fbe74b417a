"""Carry out `ikigai usage` and /cost: add up rows of the ledger and format the totals as tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.app.json_records.record_fields import record_of
from ikigai.app.json_records.usage_records import (
    CacheRecord,
    CostFields,
    CostRecord,
    UsageFields,
    UsageRecord,
    UsageRow,
)
from ikigai.app.list_options import day_start, parse_limit, parse_since, resolve_limit
from ikigai.core.agents.tree import descendants
from ikigai.core.errors import ConfigError, as_config_error
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.usage_totals import (
    CENT,
    UsageTotals,
    at_least,
    describe_unpriced,
    format_count,
    format_dollars,
    sum_totals,
)

if TYPE_CHECKING:
    from ikigai.core.views.cache_report import CacheReport
    from ikigai.store.database import Database

GROUPINGS = ("day", "month", "model", "agent", "tree", "folder")

USAGE_COLUMNS: dict[str, Callable[[UsageTotals], str]] = {
    "requests": lambda of: f"{of.requests:,}",
    "in": lambda of: format_count(of.input),
    "cached": lambda of: format_count(of.cached),
    "out": lambda of: format_count(of.output),
    "thinking": lambda of: format_count(of.thinking),
    "searches": lambda of: f"{of.searches:,}",
    "cost": lambda of: format_cost(of),
    "failed": lambda of: f"{of.failed:,}",
    "retried": lambda of: f"{of.retried:,}",
}
"""Cached tokens are part of the input, thinking tokens part of the output."""
NARROW_COLUMNS = ("requests", "in", "cached", "out", "searches", "cost")
"""The columns that fit beside a conversation."""


def add_command(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `ikigai usage` to the subcommands; `common` has the options of every command."""
    usage = commands.add_parser("usage", parents=[common], help="tokens and cost of all requests")
    usage.add_argument("--by", choices=GROUPINGS, help="a row for each of these (day)")
    usage.add_argument(
        "--since",
        type=parse_since,
        metavar="DATE|Nd",
        help="from this day on (2026-11-30), or the last N days with today",
    )
    usage.add_argument("--agent", metavar="NAME|ID", help="only the requests of this agent")
    usage.add_argument(
        "--limit",
        type=parse_limit,
        metavar="N",
        help="the newest N days or months, or the dearest N of the others; 0 lists all (default: 100, all with --json "
        "and --csv)",
    )
    usage.add_argument("--cache", action="store_true", help="what providers' caches served, and why they served less")
    format = usage.add_mutually_exclusive_group()
    format.add_argument("--json", action="store_true", help="one object: by, since, agent, rows, total")
    format.add_argument("--csv", action="store_true", help="a table for spreadsheets: the columns of --json")
    format.add_argument("--plot", action="store_true", help="draw it, and how full the window was")
    return usage


def check_flags(arguments: argparse.Namespace) -> None:
    """Check the options against each other, and give --by its default. Raise ConfigError."""
    given = [name for name in ("by", "limit") if getattr(arguments, name) is not None] + ["plot"] * arguments.plot
    if arguments.cache and given:
        raise ConfigError(
            f"--cache has rows of its own, so --{given[0]} does not apply to it.", "Leave out one of the two."
        )
    if {"limit", "plot"} <= set(given):
        raise ConfigError("--plot draws as much as fits, so --limit does not apply to it.", "Leave out one of the two.")
    arguments.by = arguments.by or "day"


async def report_usage(database: Database, arguments: argparse.Namespace) -> str | UsageRecord | CacheRecord:
    """Return the output of `ikigai usage`. Raise ConfigError for an unknown agent."""
    agent = None
    if arguments.agent:
        with as_config_error():
            agent = await database.agents.find(arguments.agent)
    id = agent.id if agent else None
    start = day_start(arguments.since) if arguments.since else None
    if arguments.cache:
        from ikigai.app.usage import cache_usage

        report = await database.usage.cache_report(id, start)
        if arguments.json:
            return cache_usage.cache_record(report, arguments.since, agent)
        return cache_usage.format_cache_csv(report) if arguments.csv else cache_usage.format_cache(report)
    most = resolve_limit(arguments.limit, arguments.json or arguments.csv)
    rows, total, more = await database.usage.groups(arguments.by, id, start, most)
    below = await spent_below(database, id, start) if id else None
    if arguments.json:
        return UsageRecord(
            by=arguments.by,
            since=arguments.since and arguments.since.isoformat(),
            agent=agent.name if agent else None,
            agent_id=id,
            rows=tuple(record_of(UsageRow, of, cost=of.known_cost, **{arguments.by: name}) for name, of in rows),
            total=record_of(UsageFields, total, cost=total.known_cost),
            agents=record_of(UsageFields, below, cost=below.known_cost) if below else msgspec.UNSET,
        )
    if arguments.csv:
        return format_csv(arguments.by, rows)
    if not rows and not below:
        return "No requests were found."
    both = [("its agents", below), ("with them", sum_totals((total, below)))] if below else []
    text = format_table(arguments.by, [*rows, ("total", total), *both])
    notes = [_describe_more(arguments.by, more)] * (more > 0) + [_describe_prunes(total)] * (total.prunes > 0)
    return "\n".join([text, *notes])


def format_csv(by: str, rows: Sequence[tuple[str, UsageTotals]]) -> str:
    """Return the rows as CSV with a header; the cost is empty where none is known."""
    import csv
    import io

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([by, *UsageTotals.__struct_fields__])
    for name, of in rows:
        # A spreadsheet takes a text that begins so for a formula.
        safe = f"'{name}" if name[:1] in "=+-@" else name
        table.writerow([safe, *msgspec.structs.astuple(msgspec.structs.replace(of, cost=of.known_cost))])
    return text.getvalue().rstrip("\n")


def _describe_more(by: str, more: int) -> str:
    """Return the message about groups that are not in the table but in the total."""
    from ikigai.store.usage.usage import PERIODS

    groups = by if more == 1 else f"{by}s"
    kind = "earlier" if by in PERIODS else "more"
    return f"… and {more:,} {kind} {groups}, in the total too. To list all: --limit 0"


def _describe_prunes(of: UsageTotals) -> str:
    """Return the message about how often turns left the window."""
    times = "once" if of.prunes == 1 else f"{of.prunes:,} times"
    return f"Turns left the window {times}, {of.pruned:,} in all."


async def spent_so_far(database: Database, session: Sequence[int] | None, agent: str) -> list[tuple[str, UsageTotals]]:
    """Return the rows of /cost; `session` has the ids of the usage events of this run, `agent` is an agent's id."""
    own, below = await database.usage.totals(agent=agent), await spent_below(database, agent)
    return [
        *([("this session", await database.usage.totals(ids=session))] if session is not None else ()),
        ("this agent", own),
        *([("its agents", below), ("with them", sum_totals((own, below)))] if below else ()),
        ("today", await database.usage.totals(since=day_start(date.today()))),
        ("in all", await database.usage.totals()),
    ]


async def spent_below(database: Database, agent: str, since: float | None = None) -> UsageTotals | None:
    """Return the usage of all subagents below this agent, None if it has none."""
    below = descendants(await database.mail.tree(agent), agent)
    return await database.usage.totals([each.id for each in below], since) if below else None


def format_costs(rows: Sequence[tuple[str, UsageTotals]]) -> str:
    """Return the answer of /cost."""
    return format_table("", rows, NARROW_COLUMNS)


def cost_record(rows: Sequence[tuple[str, UsageTotals]], cache: CacheReport) -> CostRecord:
    """Return the rows of /cost as a JSON object; "cost" is the known part, None if none is known."""
    from ikigai.app.usage.cache_usage import cache_fields

    fields = {title.replace(" ", "_"): record_of(CostFields, of, cost=of.known_cost) for title, of in rows}
    return CostRecord(cache=cache_fields(cache), **fields)


def format_table(
    title: str, rows: Sequence[tuple[str, UsageTotals]], columns: Sequence[str] = tuple(USAGE_COLUMNS)
) -> str:
    """Return a table with a line for each row, the last of which is the total, and a note about unknown costs.

    Searches have a column where there are any.
    """
    columns = [name for name in columns if name != "searches" or any(of.searches for _, of in rows)]
    lines = [[title, *columns]]
    lines += [[clean_line(name) or "?", *(USAGE_COLUMNS[column](of) for column in columns)] for name, of in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    table = [_line(line, widths) for line in lines]
    if missing := rows[-1][1].unpriced:
        table.append(describe_unpriced(missing))
    return "\n".join(table)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    figures = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join((cells[0].ljust(widths[0]), *figures))


def format_cost(of: UsageTotals) -> str:
    """Return the cost: a lower bound if a part is unknown, "unknown" if nothing worth naming is known."""
    if of.unpriced and of.cost <= CENT / 200:
        return "unknown"
    return at_least(format_dollars(of.cost), of)
