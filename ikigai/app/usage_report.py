"""What requests took, as tables: `ikigai usage` and /cost. Rows of the ledger are added up, and nothing else."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core.agents.tree import descendants
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.sanitize import clean_line
from ikigai.core.views.usage_totals import Spent, dollars, total

if TYPE_CHECKING:
    from ikigai.store.database import Database

BY = ("day", "model", "agent")

COLUMNS: dict[str, Callable[[Spent], str]] = {
    "requests": lambda of: f"{of.requests:,}",
    "in": lambda of: f"{of.input:,}",
    "cached": lambda of: f"{of.cached:,}",
    "out": lambda of: f"{of.output:,}",
    "thinking": lambda of: f"{of.thinking:,}",
    "cost": lambda of: cost(of),
    "failed": lambda of: f"{of.failed:,}",
    "retried": lambda of: f"{of.retried:,}",
}
"""Cached tokens are part of those that went in, thinking is part of what came out."""
FEW = ("requests", "in", "cached", "out", "cost")
"""The columns that fit beside a conversation."""

_JSON = msgspec.json.Encoder(decimal_format="number")


def add_command(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """`ikigai usage` among the subcommands; `common` holds the options that every command takes."""
    usage = commands.add_parser("usage", parents=[common], help="tokens and cost of all requests")
    usage.add_argument("--by", choices=BY, default="day", help="a row for each of these (day)")
    usage.add_argument(
        "--since", type=since, metavar="DATE|Nd", help="from this day on (2026-11-30), or the last N days with today"
    )
    usage.add_argument("--agent", metavar="NAME|ID", help="the requests of this agent alone")
    usage.add_argument("--json", action="store_true", help="one object: by, since, agent, rows, total")
    usage.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw it, and how full the window was; to a file (.png, .svg) with the extra `plot`",
    )
    usage.add_argument("--force", action="store_true", help="replace the file if there is one")
    return usage


def since(text: str) -> date:
    """The day that DATE or Nd means, here and now."""
    if re.fullmatch("[1-9][0-9]{0,3}d", text):
        return date.today() - timedelta(days=int(text[:-1]) - 1)
    try:
        day = date.fromisoformat(text if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else "")
        begins(day)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no day; write 2026-11-30, or 7d for the last seven") from None
    return day


async def usage(database: Database, arguments: argparse.Namespace) -> str:
    """What `ikigai usage` prints. Raises ConfigError for an agent that is not there."""
    id = None
    if arguments.agent:
        try:
            id = (await database.agents.find(arguments.agent)).id
        except Refused as refusal:
            raise ConfigError(refusal.what, refusal.remedy) from None
    start = begins(arguments.since) if arguments.since else None
    rows, made = (
        await database.spent_by(arguments.by, id, start),
        await spent_below(database, id, start) if id else None,
    )
    if arguments.json:
        found = [{arguments.by: name, **_figures(of)} for name, of in rows]
        asked = {"by": arguments.by, "since": arguments.since, "agent": arguments.agent}
        apart = {"agents": _figures(made)} if made else {}
        return json({**asked, "rows": found, "total": _figures(total(of for _, of in rows)), **apart})
    if not rows and not made:
        return "There are no requests to add up."
    whole = total(of for _, of in rows)
    both = [("its agents", made), ("with them", total((whole, made)))] if made else []
    told = table(arguments.by, [*rows, ("total", whole), *both])
    return f"{told}\n{_left(whole)}" if whole.prunes else told


def _left(of: Spent) -> str:
    """How often turns left the window."""
    times = "once" if of.prunes == 1 else f"{of.prunes:,} times"
    return f"Turns left the window {times}, {of.pruned:,} in all."


async def spent_so_far(database: Database, session: Sequence[int] | None, agent: str) -> list[tuple[str, Spent]]:
    """What /cost tells of; `session` are the usage events of this run, `agent` is the id of the one asked about."""
    own, made = await database.spent(agent=agent), await spent_below(database, agent)
    return [
        *([("this session", await database.spent(ids=session))] if session is not None else ()),
        ("this agent", own),
        *([("its agents", made), ("with them", total((own, made)))] if made else ()),
        ("today", await database.spent(since=begins(date.today()))),
        ("in all", await database.spent()),
    ]


async def spent_below(database: Database, agent: str, since: float | None = None) -> Spent | None:
    """What the agents took that work for this one, by tools that made them; None where there are none."""
    below = descendants(await database.mail.tree(agent), agent)
    return await database.spent([each.id for each in below], since) if below else None


def cost_so_far(rows: Sequence[tuple[str, Spent]]) -> str:
    """What /cost answers."""
    return table("", rows, FEW)


def json(value: Any) -> str:
    """The value as one line of JSON, sums of money exact."""
    return _JSON.encode(value).decode()


def cost_figures(of: Spent) -> dict[str, Any]:
    """What /cost says, to programs; `cost` as far as it is known, None when it is not at all."""
    names = ("requests", "input", "cached", "written", "output", "thinking", "unpriced")
    return {name: getattr(of, name) for name in names} | {"cost": of.known_cost}


def table(title: str, rows: Sequence[tuple[str, Spent]], columns: Sequence[str] = tuple(COLUMNS)) -> str:
    """A line for each row, the last of which is the sum of all; and what the costs leave out."""
    lines = [[title, *columns]]
    lines += [[clean_line(name) or "?", *(COLUMNS[column](of) for column in columns)] for name, of in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    made = [_line(line, widths) for line in lines]
    if missing := rows[-1][1].unpriced:
        one = "1 request without a known price is"
        made.append(f"{one if missing == 1 else f'{missing:,} requests without a known price are'} not in the cost.")
    return "\n".join(made)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    figures = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join((cells[0].ljust(widths[0]), *figures))


def cost(of: Spent) -> str:
    """The cost as far as it is known; a question mark stands for what is not."""
    if of.known_cost is None:
        return "?"
    return dollars(of.known_cost) + "+?" * bool(of.unpriced)


def _figures(of: Spent) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Spent.__struct_fields__} | {"cost": of.known_cost}


def begins(day: date) -> float:
    """Seconds since 1970 at the beginning of the day, in the local time zone."""
    return datetime(day.year, day.month, day.day).timestamp()
