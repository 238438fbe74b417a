"""Implement /export and `ikigai history export`, and define the arguments of `ikigai history import` and `recover`."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ikigai.core.commands.arguments import quoted
from ikigai.core.errors import ConfigError, Rejected, WrongArgument, as_config_error
from ikigai.system.atomic_file import write_atomically
from ikigai.system.output import writing_output
from ikigai.system.paths import expand_home
from ikigai.system.progress import show_progress

if TYPE_CHECKING:
    from ikigai.core.relocation.renumber import RawRow
    from ikigai.export.json_export import ExportInfo
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database

EXPORT_FORMATS = ("md", "html", "json", "jsonl")
LAST_EVENT_ID = 2**63 - 1
PROGRESS_INTERVAL = 0.3
"""Seconds between two progress lines of /export."""


class ExportFormat(Protocol):
    """Formats a history as pieces of text."""

    def begin(self, about: ExportInfo) -> Iterator[str]: ...
    def rows(self, page: list[RawRow]) -> Iterator[str]: ...
    def end(self) -> Iterator[str]: ...


class ExportRequest(NamedTuple):
    """An export: its file (None: the standard output), its format, and its first and last id (both included)."""

    target: Path | None
    form: str
    first: int = 0
    last: int = LAST_EVENT_ID
    force: bool = False


def add(commands: Any, common: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Add `export`, `import` and `recover` to the commands of `ikigai history`; return their parsers."""
    export = commands.add_parser(
        "export",
        parents=[common],
        help="write a history to a file: Markdown, HTML, JSON, JSONL",
        description="Write the whole history of an agent and its ancestors, including what was forgotten. Markdown "
        "and HTML are for people; JSON and JSONL are complete, and `ikigai history import` reads them.",
    )
    export.add_argument("--agent", metavar="NAME|ID", help="the agent (default: the one used last)")
    export.add_argument("--format", choices=EXPORT_FORMATS, help="the format (default: by the file's suffix, else md)")
    export.add_argument("--from", dest="first", type=_id, default=0, metavar="ID", help="from this event on")
    export.add_argument("--to", dest="last", type=_id, default=LAST_EVENT_ID, metavar="ID", help="up to this event")
    export.add_argument(
        "-o", "--output", default="-", metavar="FILE|-", help="the file to write; - is the standard output (-)"
    )
    export.add_argument("--force", action="store_true", help="overwrite an existing file")
    imported = commands.add_parser(
        "import",
        parents=[common],
        help="make agents of exported histories (JSON, JSONL)",
        description="Make a new agent whose events are those of the file, with their times. All of them are stored or "
        "none; a file that was damaged or changed since its export is refused. Its settings, "
        "approvals among them, are not in force here. Turns without an end, as in a file that another program made, "
        "get one where the next message comes. Of several files each makes an agent; those that begin with events of "
        "another one become forks of it.",
    )
    imported.add_argument(
        "file", nargs="+", metavar="FILE|-", help="a file that `ikigai history export` wrote; - reads a pipe"
    )
    recover = commands.add_parser(
        "recover",
        parents=[common],
        help="store events that ikigai could not save and kept in a file",
        description="Store the events of a file that ikigai wrote when the database was out of reach. They go back "
        "into their agent if nothing has been stored in it since, as happens when it is opened; otherwise into a "
        "new fork, which begins where the two differ. Then the file is deleted.",
    )
    recover.add_argument("file", metavar="FILE", help="the file that ikigai has named")
    for made in (imported, recover):
        made.add_argument("--name", default="", help="the name of the new agent")
    return {"export": export, "import": imported, "recover": recover}


def _id(text: str) -> int:
    if not re.fullmatch("#?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an event id; write a number")
    return int(text.removeprefix("#"))


# ── export ──


def parse_typed(argument: str) -> ExportRequest:
    """Parse the argument of /export: [--force] FILE [FROM-TO] [--force]. Raise WrongArgument."""
    rest = argument.removeprefix("--force ").removesuffix(" --force")
    force, rest = rest != argument, rest.strip()
    found = re.fullmatch(r"(?P<file>.*?)(?:\s+#?(?P<first>\d{1,18})?\s*-\s*#?(?P<last>\d{1,18})?)?", rest, re.DOTALL)
    assert found
    name = found["file"].strip().strip("\"'")
    if not name:
        raise WrongArgument("Name a file to write to.")
    target = expand_home(name)
    if (form := target.suffix[1:].lower()) not in EXPORT_FORMATS:
        what = f"Unknown format {quoted(target.suffix)}." if target.suffix else f"{quoted(target.name)} has no suffix."
        raise WrongArgument(what, f"Formats: .{', .'.join(EXPORT_FORMATS)}.")
    return ExportRequest(target, form, int(found["first"] or 0), int(found["last"] or LAST_EVENT_ID), force)


async def export_typed(
    database: Database, agent: Agent, request: ExportRequest, on_progress: Callable[[str], None]
) -> str:
    """Export as /export requests; return the message. `on_progress` gets lines. Raise IkigaiError."""
    reported = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal reported
        if (now := time.monotonic()) - reported >= PROGRESS_INTERVAL:
            reported = now
            on_progress(f"{done:,} of {total:,} events\n")

    return await export(database, agent, request, report)


def parse_flags(arguments: argparse.Namespace) -> ExportRequest:
    """Parse the options of `ikigai history export`. Raise ConfigError."""
    target = None if arguments.output == "-" else Path(arguments.output)
    form = arguments.format or (target.suffix[1:].lower() if target else "md")
    if form not in EXPORT_FORMATS:
        raise ConfigError(f"The format of {target} is not known.", f"Add --format {'|'.join(EXPORT_FORMATS)}.")
    return ExportRequest(target, form, arguments.first, arguments.last, arguments.force)


async def named_or_last(database: Database, name: str | None) -> Agent:
    """Return the agent of this name, without one that which the user used last. Raise ConfigError if none exists."""
    with as_config_error():
        agent = await (database.agents.find(name) if name else database.agents.last())
    if agent is None:
        raise ConfigError(
            "There is no agent that you used last.", "Add --agent NAME; `ikigai agents --all` lists them."
        )
    return agent


async def run_export(database: Database, arguments: argparse.Namespace) -> str:
    """Run `ikigai history export`; return its message. Raise IkigaiError."""
    request = parse_flags(arguments)
    agent = await named_or_last(database, arguments.agent)
    with show_progress("Exporting", enabled=request.target is not None or not sys.stdout.isatty()) as on_progress:
        return await export(database, agent, request, on_progress)


async def export(
    database: Database, agent: Agent, request: ExportRequest, on_progress: Callable[[int, int], None]
) -> str:
    """Write the history; return the message, "" for the standard output. Raise IkigaiError.

    `on_progress` gets the number of written events and the number of all.
    """
    from ikigai.export.json_export import ExportInfo

    source = database.export(agent, request.first, request.last)
    last = None if request.last == LAST_EVENT_ID else request.last
    await source.open()
    if not source.events:
        part = f" {request.first or 1}-{last or ''}" if request.first or last is not None else ""
        raise Rejected(f"{agent.name} has no events{part}.", "`ikigai history list` shows the ids.")
    about = ExportInfo(agent.name, request.first, last, source.events, time.time())
    form = await asyncio.to_thread(_form, request.form)

    async def write(put: Callable[[str], object]) -> None:
        put("".join(form.begin(about)))
        done = 0
        async for page in source.pages():
            put(await asyncio.to_thread(_joined, form, page))
            on_progress(done := done + len(page), source.events)
        for part in form.end():
            put(part)

    if request.target is None:
        await write(_put)
        return ""
    with write_atomically(request.target, request.force) as file:
        await write(file.write)
    return f"{request.target} holds {source.events:,} events of {agent.name}."


def _joined(form: ExportFormat, page: list[RawRow]) -> str:
    return "".join(form.rows(page))


def _form(name: str) -> ExportFormat:
    from ikigai.export import html, json_export, markdown_export

    return {
        "md": markdown_export.MarkdownExport,
        "html": html.HtmlExport,
        "json": json_export.JsonExport,
        "jsonl": json_export.JsonlExport,
    }[name]()


def _put(text: str) -> None:
    with writing_output():
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
