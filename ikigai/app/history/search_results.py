"""Carry out `ikigai history` and /search: find events by words or id, and format them as text and as JSON."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ikigai.app.history import export
from ikigai.app.json_records.history_records import EventsRecord, Hit, HitsRecord, ReadableEvent
from ikigai.app.json_records.record_fields import record_of, timestamp
from ikigai.app.list_options import day_start, parse_since
from ikigai.core.errors import as_config_error
from ikigai.core.events.codec import KIND_OF, SEARCHED_KINDS
from ikigai.core.events.events import StoredEvent
from ikigai.core.search.snippets import MarkedText, SearchHit
from ikigai.core.text.sanitize import clean, clean_line
from ikigai.core.views import transcript
from ikigai.core.views.transcript import Speaker, TranscriptBlock

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.search.search import SearchResult

MAX_RESULTS = 1_000
"""Hits or events that one command lists."""
EVENT_ROWS, NEIGHBOR_ROWS = 40, 3
"""Rows of the event and of each neighbor that /search #ID shows."""
SCANNED_CHARACTERS = 1 << 16
"""Characters that are looked at where only a few rows are shown."""
PIPED_WIDTH = 80
"""Cells of a row where there is no terminal."""
EXCERPT_CHARACTERS = 100
"""Characters of an event in a list."""
LIST_PAGE_EVENTS = 200
"""Events that a list reads in one query."""


def add_command(commands: Any, common: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Add `ikigai history` to the subcommands; return the parsers of its commands."""
    history = commands.add_parser("history", help="messages of all agents")
    what = history.add_subparsers(dest="what", required=True)
    search = what.add_parser(
        "search",
        parents=[common],
        help="search the whole history",
        description='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents '
        "do not matter. Every hit holds all of them.",
    )
    search.add_argument("query", nargs="+", metavar="QUERY", help='words, "phrases", *parts*')
    search.add_argument(
        "--kind",
        action="append",
        choices=SEARCHED_KINDS,
        default=[],
        metavar="KIND",
        help=f"events of this kind; may be repeated: {', '.join(SEARCHED_KINDS)}",
    )
    search.add_argument(
        "--since",
        type=parse_since,
        metavar="DATE|Nd",
        help="from this day on (2026-11-30), or the last N days",
    )
    search.add_argument("--order", choices=("time", "relevance"), default="time", help="newest or best first (time)")
    search.add_argument("--before", type=_id, metavar="ID", help="only what is older than this event")
    recall = what.add_parser(
        "recall",
        parents=[common],
        help="rank what was said by a question",
        description="Ranks the turns of all conversations by how well they match a question, and shows excerpts. No "
        "model is asked.",
    )
    recall.add_argument("question", nargs="+", metavar="QUESTION", help="a question, or words of it")
    for each in (search, recall):
        each.add_argument("--agent", metavar="NAME|ID", help="only messages of this agent and its ancestors")
    listed = what.add_parser("list", parents=[common], help="the last events of an agent")
    listed.add_argument("--agent", metavar="NAME|ID", help="the agent (default: the one used last)")
    listed.add_argument("--before", type=_id, metavar="ID", help="those before this event")
    for each in (search, recall, listed):
        each.add_argument("--limit", type=_limit, default=20, metavar="N", help="the most results to show (20)")
    show = what.add_parser("show", parents=[common], help="one event and its neighbors")
    show.add_argument("id", type=_id, metavar="ID", help="its number, as lists and hits show it")
    show.add_argument("--beside", type=int, choices=range(101), default=0, metavar="N", help="N before and N after it")
    for each in (search, recall, listed, show):
        each.add_argument("--json", action="store_true", help="the same as JSON")
    return {"search": search, "recall": recall, "list": listed, "show": show, **export.add(what, common)}


def parse_event_id(text: str) -> int | None:
    """Parse #ID; return None for any other text."""
    return int(text[1:]) if re.fullmatch("#[0-9]{1,18}", text) else None


def _id(text: str) -> int:
    if (id := parse_event_id(f"#{text.removeprefix('#')}")) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an event id; write a number as shown after a #")
    return id


def _limit(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_RESULTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a limit; write 1 to {MAX_RESULTS}")
    return int(text)


# ── search ──


async def search(database: Database, arguments: argparse.Namespace) -> str | HitsRecord:
    """Return the output of `ikigai history search`, painted on a terminal. Raise ConfigError, StoreError."""
    query = " ".join(arguments.query)
    agent = (await export.named_or_last(database, arguments.agent)).id if arguments.agent else None
    since = day_start(arguments.since) if arguments.since else None
    with as_config_error():
        limits = arguments.kind, since, arguments.order, arguments.limit, arguments.before
        result = await database.search(query, agent, *limits)
    return hits_record(query, result) if arguments.json else _paint(format_hits(result))


def format_hits(result: SearchResult, known: Collection[int] = ()) -> list[MarkedText]:
    """Return the hits as lines; those with an id in `known` are in the context now."""
    lines: list[MarkedText] = []
    for hit in result.hits:
        now = "  in context" if hit.id in known else ""
        snippet, places = hit.snippet.text, hit.snippet.places
        head = f"#{hit.id}  {format_time(hit.at)}  {clean_line(hit.agent)}  {clean_line(hit.kind)}{now}"
        lines.append(MarkedText(head))
        lines.append(MarkedText(f"  {snippet}", tuple((first + 2, last + 2) for first, last in places)))
    if not result.hits:
        lines.append(MarkedText("Nothing was found."))
    return [*lines, *map(MarkedText, _notices(result))]


def _notices(result: SearchResult) -> Iterator[str]:
    if result.widened:
        yield "No word begins so; these matches are inside words."
    if result.reached is not None:
        yield f"The search stopped at #{result.reached}, when its time was over."
    if result.behind:
        yield behind_notice(result.behind, "search")


def behind_notice(behind: int, act: str) -> str:
    """Return a sentence about the events that an index lacks; `act` is the verb for trying again."""
    events = "1 event is" if behind == 1 else f"{behind:,} events are"
    return f"{events} not in the index yet and may contain more; {act} again later."


def hits_record(query: str, result: SearchResult, known: Collection[int] | None = None) -> HitsRecord:
    """Return the hits as a JSON object, with "in_context" if `known` is given."""

    def fields(hit: SearchHit) -> Hit:
        text, places = hit.snippet.text, hit.snippet.places
        in_context = UNSET if known is None else hit.id in known
        return record_of(Hit, hit, at=timestamp(hit.at), snippet=text, places=places, in_context=in_context)

    return record_of(HitsRecord, result, query=query, hits=tuple(map(fields, result.hits)))


def _paint(lines: Sequence[MarkedText]) -> str:
    """Return the lines as text, on a terminal with the marked places highlighted."""
    from ikigai.terminal.render.theme import output_theme

    style = output_theme(os.environ, sys.stdout.isatty())
    rows: list[str] = []
    for line in lines:
        text, at = "", 0
        for first, last in line.places:
            text += line.text[at:first] + style.paint("found", line.text[first:last])
            at = last
        rows.append(text + line.text[at:])
    return "\n".join(rows)


# ── list and show ──


async def list_events(database: Database, arguments: argparse.Namespace) -> str | EventsRecord:
    """Return the output of `ikigai history list`: the last readable events, oldest first. Raise ConfigError."""
    agent = await export.named_or_last(database, arguments.agent)
    rows: list[tuple[StoredEvent, TranscriptBlock]] = []
    reader, before = database.reader(agent), arguments.before
    while len(rows) < arguments.limit and (page := await reader.history(before, LIST_PAGE_EVENTS)):
        rows[:0] = [(event, block) for event in page if (block := transcript.event_block(event))]
        before = page[0].id
    rows = rows[-arguments.limit :]
    if arguments.json:
        ids = {event.agent for event, _ in rows}
        names = {id: (await database.agents.find(id)).name for id in ids}
        return events_record(agent.name, agent.id, [event for event, _ in rows], names)
    return "\n".join(_rows(rows)) or "There are no messages yet."


async def show_event(database: Database, arguments: argparse.Namespace) -> str | EventsRecord:
    """Return the output of `ikigai history show`. Raise ConfigError for an unknown id."""
    with as_config_error():
        name, events = await database.neighbors(arguments.id, arguments.beside, arguments.beside)
    if arguments.json:
        return events_record(name, events[0].agent, events)
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    return format_neighbors(name, events, arguments.id, width, whole=True)


def format_neighbors(
    agent: str, events: Sequence[StoredEvent], id: int, width: int = PIPED_WIDTH, whole: bool = False
) -> str:
    """Return the first rows of an event (with `whole` its lines as they are) and of its neighbors, in `width` cells."""
    parts: list[str] = []
    for event in events:
        block = transcript.event_block(event)
        text = block.text.strip("\n") if block else ""
        head = f"#{event.id}  {format_time(event.at)}  {clean_line(agent)}  {_kind(event, block)}"
        if whole and event.id == id:
            rows = [head, *(f"  {row}" for row in clean(text).split("\n") if text)]
        else:
            rows = _first_rows(head, text, EVENT_ROWS if event.id == id else NEIGHBOR_ROWS, width, event.id)
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _first_rows(head: str, text: str, most: int, width: int, id: int) -> list[str]:
    """Return the head, the first `most` rows of the text of the event `id`, and how to see the rest of it."""
    from ikigai.terminal.render.text_width import wrap

    rows = list(islice(wrap(clean(text[:SCANNED_CHARACTERS]), width - 2), most + 1)) if text else []
    if len(rows) > most:
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        rows[most:] = wrap(f"… {size} in all: ikigai history show {id}", width - 2)
    return [*wrap(head, width), *(f"  {row}" if row else "" for row in rows)]


def events_record(
    agent: str, agent_id: str, events: Sequence[StoredEvent], names: Mapping[str, str] | None = None
) -> EventsRecord:
    """Return the events of an agent as a JSON object; `names` has the names of agents by id, if there are several."""

    def readable(event: StoredEvent) -> ReadableEvent:
        block = transcript.event_block(event)
        kind, text = _kind(event, block), block.text if block else ""
        name = names[event.agent] if names else agent
        at = timestamp(event.at)
        return record_of(ReadableEvent, event, agent=name, agent_id=event.agent, at=at, kind=kind, text=text)

    return EventsRecord(agent=agent, agent_id=agent_id, events=tuple(map(readable, events)))


def _rows(events: Sequence[tuple[StoredEvent, TranscriptBlock]]) -> Iterator[str]:
    """Yield a line for each event, in columns."""
    heads = [(f"#{event.id}", format_time(event.at), _kind(event, block)) for event, block in events]
    widths = [max((len(head[column]) for head in heads), default=0) for column in range(3)]
    for head, (_, block) in zip(heads, events, strict=True):
        words = " ".join(clean(block.text[: 4 * EXCERPT_CHARACTERS]).split())
        cut = f"{words[: EXCERPT_CHARACTERS - 1]}…" if len(words) > EXCERPT_CHARACTERS else words
        yield "  ".join((*(f"{cell:<{width}}" for cell, width in zip(head, widths, strict=True)), cut)).rstrip()


def _kind(event: StoredEvent, block: TranscriptBlock | None) -> str:
    """Return the kind of an event in a word."""
    if block is None or block.speaker in (Speaker.NOTE, Speaker.STOPPED):
        return KIND_OF.get(type(event.event), "unknown") if block is None else block.speaker.value
    return block.speaker.value + (f" {clean_line(block.name)}" if block.name else "")


def format_time(at: float) -> str:
    """Return a time (seconds since 1970) in the local time zone, to the minute."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
