"""`ikigai history` and /search: what was said, found by words or by its id, as lines for people and as objects."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ikigai.app import export as exporting
from ikigai.app import usage_report as reports
from ikigai.core.codec import SEARCHED
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import StoredEvent
from ikigai.core.sanitize import clean, clean_line
from ikigai.core.search.snippets import Hit, Marked
from ikigai.core.views import transcript
from ikigai.core.views.transcript import Block, Speaker

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.search.search import Found

LONGEST = 1_000
"""Hits or events that one command shows."""
ROWS, BESIDE = 40, 3
"""Lines of an event, and of one beside it, that /search #ID shows."""
WORDS = 100
"""Characters of an event in a list."""
PAGE = 200
"""Events that a list reads at once."""


def add_command(commands: Any, common: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """`ikigai history` among the subcommands; returns the parsers of what it can do."""
    history = commands.add_parser("history", help="what was said, by all agents")
    what = history.add_subparsers(dest="what", required=True)
    search = what.add_parser(
        "search",
        parents=[common],
        help="find words in everything ever said",
        description='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents '
        "do not matter. Every hit holds all of them.",
    )
    search.add_argument("query", nargs="+", metavar="QUERY", help='words, "phrases", *parts*')
    search.add_argument("--agent", metavar="NAME|ID", help="what this agent and its ancestors said alone")
    search.add_argument(
        "--kind",
        action="append",
        choices=SEARCHED,
        default=[],
        metavar="KIND",
        help=f"events of this kind; may be repeated: {', '.join(SEARCHED)}",
    )
    search.add_argument(
        "--since", type=reports.since, metavar="DATE|Nd", help="from this day on (2026-11-30), or the last N days"
    )
    search.add_argument("--order", choices=("time", "relevance"), default="time", help="newest or best first (time)")
    search.add_argument("--before", type=_id, metavar="ID", help="only what is older than this event")
    listed = what.add_parser("list", parents=[common], help="the last events of an agent")
    listed.add_argument("--agent", metavar="NAME|ID", help="the agent; the one used last without it")
    listed.add_argument("--before", type=_id, metavar="ID", help="those before this event")
    for each in (search, listed):
        each.add_argument("--limit", type=_limit, default=20, metavar="N", help="at most so many (20)")
    show = what.add_parser("show", parents=[common], help="one event, and those beside it")
    show.add_argument("id", type=_id, metavar="ID", help="its number, as lists and hits show it")
    show.add_argument("--beside", type=int, choices=range(101), default=0, metavar="N", help="N before and N behind it")
    for each in (search, listed, show):
        each.add_argument("--json", action="store_true", help="the same as JSON")
    return {"search": search, "list": listed, "show": show, **exporting.add(what, common)}


def event_id(text: str) -> int | None:
    """The id that #ID names; None for anything else."""
    return int(text[1:]) if re.fullmatch("#[0-9]{1,18}", text) else None


def _id(text: str) -> int:
    if (id := event_id(f"#{text.removeprefix('#')}")) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no id of an event; write a number, as it is shown with a #")
    return id


def _limit(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no limit; write 1 to {LONGEST}")
    return int(text)


# ── search ──


async def search(database: Database, arguments: argparse.Namespace) -> str:
    """What `ikigai history search` prints; the escapes in it are our own. Raises ConfigError, StoreError."""
    query = " ".join(arguments.query)
    agent = (await _find(database, arguments.agent)).id if arguments.agent else None
    since = reports.begins(arguments.since) if arguments.since else None
    try:
        found = await database.search(
            query, agent, arguments.kind, since, arguments.order, arguments.limit, arguments.before
        )
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    return _json(figures(query, found)) if arguments.json else _painted(lines(found))


async def _find(database: Database, name: str) -> Agent:
    try:
        return await database.agents.find(name)
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None


def lines(found: Found, known: Collection[int] = ()) -> list[Marked]:
    """Hits as people read them; those in `known` are in the context now."""
    made: list[Marked] = []
    for hit in found.hits:
        now = "  in context" if hit.id in known else ""
        snippet, places = hit.snippet.text, hit.snippet.places
        made.append(Marked(f"#{hit.id}  {when(hit.at)}  {clean_line(hit.agent)}  {clean_line(hit.kind)}{now}"))
        made.append(Marked(f"  {snippet}", tuple((first + 2, last + 2) for first, last in places)))
    if not found.hits:
        made.append(Marked("Nothing was found."))
    return [*made, *map(Marked, _notices(found))]


def _notices(found: Found) -> Iterator[str]:
    if found.widened:
        yield "No word begins like that; this is what is found within words."
    if found.reached is not None:
        yield f"There was no time to look further back than #{found.reached}."
    if found.behind:
        events = "1 event is" if found.behind == 1 else f"{found.behind:,} events are"
        yield f"{events} not in the index yet, and may hold more; search again in a while."


def figures(query: str, found: Found, known: Collection[int] | None = None) -> dict[str, Any]:
    """The same for programs; `places` are characters of the snippet, from and to. Without `known` nobody asks."""
    return {
        "query": query,
        "hits": [{**_figures(hit), **({} if known is None else {"in_context": hit.id in known})} for hit in found.hits],
        "widened": found.widened,
        "behind": found.behind,
        "reached": found.reached,
    }


def _figures(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "agent": hit.agent,
        "agent_id": hit.agent_id,
        "at": hit.at,
        "kind": hit.kind,
        "snippet": hit.snippet.text,
        "places": hit.snippet.places,
    }


def _painted(lines: Sequence[Marked]) -> str:
    """The lines as they stand, or on a terminal with the places set off."""
    from ikigai.terminal.render.theme import output

    style = output(os.environ, sys.stdout.isatty())
    made: list[str] = []
    for line in lines:
        text, at = "", 0
        for first, last in line.places:
            text += line.text[at:first] + style.paint("found", line.text[first:last])
            at = last
        made.append(text + line.text[at:])
    return "\n".join(made)


# ── list and show ──


async def listed(database: Database, arguments: argparse.Namespace) -> str:
    """What `ikigai history list` prints: the last events that people read, oldest first. Raises ConfigError."""
    agent = await _find(database, arguments.agent) if arguments.agent else await database.agents.last()
    if agent is None:
        raise ConfigError("There are no agents yet.", "Start one with: ikigai")
    found: list[tuple[StoredEvent, Block]] = []
    reader, before = database.reader(agent), arguments.before
    while len(found) < arguments.limit and (page := await reader.history(before, PAGE)):
        found[:0] = [(event, block) for event in page if (block := transcript.block(event))]
        before = page[0].id
    found = found[-arguments.limit :]
    if arguments.json:
        return _json({"agent": agent.name, "events": [_event(event, block) for event, block in found]})
    return "\n".join(_row(event, block) for event, block in found) or "Nothing was said yet."


async def shown(database: Database, arguments: argparse.Namespace) -> str:
    """What `ikigai history show` prints. Raises ConfigError for an id that is none."""
    try:
        name, events = await database.around(arguments.id, arguments.beside, arguments.beside)
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    if arguments.json:
        return _json(around_figures(name, events))
    return around_text(name, events, arguments.id, most=None)


def around_text(agent: str, events: Sequence[StoredEvent], id: int, most: int | None = ROWS) -> str:
    """An event and its neighbours; `most` lines of it, of the others a few."""
    made: list[str] = []
    for event in events:
        block = transcript.block(event)
        text = clean(block.text).strip("\n") if block else ""
        rows = text.split("\n")
        keep = (most if event.id == id else BESIDE) or len(rows)
        more = [f"… {len(rows):,} lines in all"] if len(rows) > keep else []
        head = f"#{event.id}  {when(event.at)}  {clean_line(agent)}  {_kind(event, block)}"
        made.append("\n".join((head, *(f"  {row}" for row in (*rows[:keep], *more)))))
    return "\n\n".join(made)


def around_figures(agent: str, events: Sequence[StoredEvent]) -> dict[str, Any]:
    return {"agent": agent, "events": [_event(event, transcript.block(event)) for event in events]}


def _event(event: StoredEvent, block: Block | None) -> dict[str, Any]:
    text = block.text if block else ""
    return {"id": event.id, "seq": event.seq, "at": event.at, "kind": _kind(event, block), "text": text}


def _json(value: Any) -> str:
    """One line in ASCII, so that it is exact and safe for a terminal."""
    return json.dumps(value)


def _row(event: StoredEvent, block: Block) -> str:
    words = " ".join(clean(block.text[: 4 * WORDS]).split())
    cut = f"{words[: WORDS - 1]}…" if len(words) > WORDS else words
    return f"#{event.id}  {when(event.at)}  {_kind(event, block):<11}  {cut}".rstrip()


def _kind(event: StoredEvent, block: Block | None) -> str:
    """The kind of an event in a word."""
    if block is None or block.speaker in (Speaker.NOTE, Speaker.STOPPED):
        return type(event.event).__name__.lower() if block is None else block.speaker.value
    return block.speaker.value + (f" {clean_line(block.name)}" if block.name else "")


def when(at: float) -> str:
    """A moment, here, to the minute."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
