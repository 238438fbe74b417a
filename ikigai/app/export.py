"""/export, `ikigai history export` and `ikigai history import`: what is asked for, and how far it is."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from ikigai.core.errors import ConfigError, IkigaiError, Refused
from ikigai.export import atomic_file as files
from ikigai.system.progress import progress

if TYPE_CHECKING:
    from ikigai.core.transfer.renumber import Raw
    from ikigai.export.json_export import About
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

FORMATS = ("md", "html", "json", "jsonl")
LAST = 2**63 - 1
STEP = 0.3
"""Seconds between two lines about how far /export is."""


class Form(Protocol):
    """Makes text of a history, in pieces."""

    def begin(self, about: About) -> Iterator[str]: ...
    def rows(self, page: list[Raw]) -> Iterator[str]: ...
    def end(self) -> Iterator[str]: ...


class Asked(NamedTuple):
    """What is exported: to which file (None: the standard output), as what, which ids (both included)."""

    target: Path | None
    form: str
    first: int = 0
    last: int = LAST
    force: bool = False


def add(commands: Any, common: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """`export`, `import` and `recover` among the commands of `ikigai history`."""
    export = commands.add_parser(
        "export",
        parents=[common],
        help="write a history to a file: Markdown, HTML, JSON, JSONL",
        description="Write all that was said to an agent and its ancestors, forgotten or not. Markdown and HTML are "
        "for people; JSON and JSONL say everything, and `ikigai history import` reads them.",
    )
    export.add_argument("--agent", metavar="NAME|ID", help="the agent; the one used last without it")
    export.add_argument("--format", choices=FORMATS, help="as the name of the file ends, else md")
    export.add_argument("--from", dest="first", type=_id, default=0, metavar="ID", help="only from this event on")
    export.add_argument("--to", dest="last", type=_id, default=LAST, metavar="ID", help="only up to this event")
    export.add_argument("-o", "--output", default="-", metavar="FILE|-", help="where to; - is the standard output (-)")
    export.add_argument("--force", action="store_true", help="replace the file if there is one")
    imported = commands.add_parser(
        "import",
        parents=[common],
        help="make an agent of an exported history (JSON, JSONL)",
        description="Make a new agent whose events are those of the file, with their times. All of them are stored or "
        "none; a file that was damaged or changed since its export is refused. What ran there without a question asks "
        "here. Turns without an end, as in a file that another program made, get one where the next message comes.",
    )
    imported.add_argument("file", metavar="FILE", help="what `ikigai history export` wrote")
    recover = commands.add_parser(
        "recover",
        parents=[common],
        help="store events that ikigai could not save and kept in a file",
        description="Store the events of a file that ikigai wrote when the database was out of reach. They go back "
        "into their agent if nothing has been stored in it since, as happens when it is opened; otherwise into a "
        "new fork of it that begins where both part. The file is deleted then.",
    )
    recover.add_argument("file", metavar="FILE", help="the file that ikigai named")
    for made in (imported, recover):
        made.add_argument("--name", default="", help="what the new agent is called")
    return {"export": export, "import": imported, "recover": recover}


def _id(text: str) -> int:
    if not re.fullmatch("#?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no id of an event; write a number")
    return int(text.removeprefix("#"))


# ── export ──


def typed(argument: str) -> Asked:
    """What /export means: [--force] FILE [FROM-TO] [--force]. Raises Refused."""
    rest = argument.removeprefix("--force ").removesuffix(" --force")
    force, rest = rest != argument, rest.strip()
    found = re.fullmatch(r"(?P<file>.*?)(?:\s+#?(?P<first>\d{1,18})?\s*-\s*#?(?P<last>\d{1,18})?)?", rest, re.DOTALL)
    assert found
    name = found["file"].strip().strip("\"'")
    if not name:
        raise Refused("Where to?", f"/export FILE [FROM-TO]; the name ends with .{', .'.join(FORMATS)}.")
    target = _path(name)
    if (form := target.suffix[1:].lower()) not in FORMATS:
        raise Refused(f"{target.name} does not say as what.", f"Let the name end with .{', .'.join(FORMATS)}.")
    return Asked(target, form, int(found["first"] or 0), int(found["last"] or LAST), force)


async def typed_export(database: Database, agent: Agent, argument: str, told: Callable[[str], None]) -> str:
    """Do what /export is asked for; what there is to say of it. Raises IkigaiError. `told` hears lines."""
    asked, drawn = typed(argument), time.monotonic()

    def far(done: int, total: int) -> None:
        nonlocal drawn
        if (now := time.monotonic()) - drawn >= STEP:
            drawn = now
            told(f"{done:,} of {total:,} events\n")

    return await export(database, agent, asked, far)


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def flagged(arguments: argparse.Namespace) -> Asked:
    """What the options of `ikigai history export` mean. Raises ConfigError."""
    target = None if arguments.output == "-" else Path(arguments.output)
    form = arguments.format or (target.suffix[1:].lower() if target else "md")
    if form not in FORMATS:
        raise ConfigError(f"{target} does not say as what.", f"Add --format {'|'.join(FORMATS)}.")
    return Asked(target, form, arguments.first, arguments.last, arguments.force)


async def run_export(database: Database, arguments: argparse.Namespace) -> str:
    """Do what `ikigai history export` is asked for; what there is to say of it. Raises IkigaiError."""
    asked = flagged(arguments)
    try:
        agent = await (database.agents.find(arguments.agent) if arguments.agent else database.agents.last())
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    if agent is None:
        raise ConfigError("There are no agents yet.", "Start one with: ikigai")
    with progress("Exporting", wanted=asked.target is not None or not sys.stdout.isatty()) as told:
        return await export(database, agent, asked, told)


async def export(database: Database, agent: Agent, asked: Asked, told: Callable[[int, int], None]) -> str:
    """Write the history; what there is to say of it, "" when it went to the standard output. Raises IkigaiError.

    `told` hears how many events of how many are written.
    """
    from ikigai.export.json_export import About

    source = database.exported(agent, asked.first, asked.last)
    await source.open()
    if not source.events:
        part = f" {asked.first or 1}-{'' if asked.last == LAST else asked.last}" if (asked[2:4] != (0, LAST)) else ""
        raise Refused(f"{agent.name} has no events{part}.", "`ikigai history list` shows the ids.")
    about = About(agent.name, asked.first, None if asked.last == LAST else asked.last, source.events, time.time())
    form = await asyncio.to_thread(_form, asked.form)

    async def write(put: Callable[[str], object]) -> None:
        put("".join(form.begin(about)))
        done = 0
        async for page in source.pages():
            put(await asyncio.to_thread(_joined, form, page))
            told(done := done + len(page), source.events)
        for part in form.end():
            put(part)

    if asked.target is None:
        await write(_put)
        return ""
    with files.made(asked.target, asked.force) as file:
        await write(file.write)
    return f"{asked.target} holds {source.events:,} events of {agent.name}."


def _joined(form: Form, page: list[Raw]) -> str:
    return "".join(form.rows(page))


def _form(name: str) -> Form:
    from ikigai.export import html, markdown
    from ikigai.export import json_export as interchange

    return {"md": markdown.Markdown, "html": html.Html, "json": interchange.Json, "jsonl": interchange.Jsonl}[name]()


def _put(text: str) -> None:
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IkigaiError(f"The output cannot be written: {error.strerror}.", "Send it elsewhere.") from None


# ── import ──


async def run_import(database: Database, arguments: argparse.Namespace, own: Callable[[str], str] = str) -> str:
    """Do what `ikigai history import` is asked for; what there is to say of it. Raises IkigaiError.

    `own` replaces ikigai's own keys in a text.
    """
    from ikigai.core.transfer.redacted_rows import redacted
    from ikigai.core.transfer.turn_ends import TurnEnds
    from ikigai.export.json_import import Intake

    ends = TurnEnds()
    path = Path(arguments.file)
    with opened(path) as file, progress("Importing", "bytes") as told:
        intake = Intake(path, file, max(1, path.stat().st_size))
        try:
            made = await database.importing().store(
                (redacted(row, own) for row in ends.rows(intake.rows())),
                arguments.name,
                intake.agent,
                lambda count: told(intake.done, intake.size),
            )
        except Refused as refusal:
            if number := getattr(refusal, "number", 0):
                raise Refused(f"{path}, {intake.place(ends.given(number))}: {refusal.what}", refusal.remedy) from None
            raise
        except OSError as error:
            raise IkigaiError(f"{path} cannot be read: {error.strerror}.", "Check the disk.") from None
    unchecked = "" if intake.has_checksum else " The file has no checksum, so that damage would not have been seen."
    added = f" {ends.added:,} turn{'s' * (ends.added != 1)} had no end: added." if ends.added else ""
    return f"{made.name} is new and has {made.events:,} events.{added}{unchecked} Go on with it: ikigai -r {made.name}"


def opened(path: Path) -> BinaryIO:
    """The file, to be read. Raises ConfigError."""
    from ikigai.images import mentioned_files as files

    try:
        return files.opened(path)
    except files.NotOrdinary:
        raise ConfigError(f"{path} is no ordinary file.", "Copy what it holds into one.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check the name.") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r} is no path.", "Check the name.") from None
