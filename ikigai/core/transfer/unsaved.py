"""Events that the database did not take, as a file keeps them: under their ids, behind the event that they follow.

JSON lines: one that says what the file is, and one for each event. An event has the id that it was to be stored under,
so that it is stored once however often somebody tries.
"""

from typing import Annotated, NoReturn, TypeAlias

import msgspec

from ikigai.core import codec
from ikigai.core.errors import Refused
from ikigai.core.events import Event, Unknown
from ikigai.core.record import Record
from ikigai.core.sanitize import clean_line

FORMAT, VERSION = "ikigai-unsaved", 1
NOTHING = "Nothing was recovered."

Uuid: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\\Z")]


class Unsaved(Record, frozen=True):
    """The `events` of the agent with the id `agent`, called `name` then, under the `ids` that they are stored by.

    `behind` is the `event_id` of the event that they follow, None where the agent had none.
    """

    agent: Uuid
    name: str
    behind: Uuid | None
    ids: tuple[Uuid, ...]
    events: tuple[Event, ...]


class _Head(msgspec.Struct):
    format: str
    version: int
    agent: Uuid
    name: str
    behind: Uuid | None
    count: int


class _Line(msgspec.Struct, omit_defaults=True):
    id: Uuid
    kind: str
    content: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


_HEAD, _LINE = msgspec.json.Decoder(_Head), msgspec.json.Decoder(_Line)


def text_of(unsaved: Unsaved) -> bytes:
    """Return what the file holds."""
    head = _Head(FORMAT, VERSION, unsaved.agent, unsaved.name, unsaved.behind, len(unsaved.events))
    rows = map(codec.encode, unsaved.events)
    lines = [_Line(id, *row[:2], msgspec.Raw(row.data or b"null")) for id, row in zip(unsaved.ids, rows, strict=True)]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *lines))


def read(name: str, text: bytes) -> Unsaved:
    """Return what a file called `name` holds. Raise Refused, with the line, where it cannot be read."""
    first, _, rest = text.partition(b"\n")
    try:
        head = _HEAD.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _foreign(name)
    if head.format != FORMAT or head.count < 1:
        _foreign(name)
    if head.version != VERSION:
        _refuse(f"{name}: the format has version {head.version}, this ikigai knows {VERSION}.", "Install a newer one.")
    lines = rest.splitlines()
    found = [_event(name, number, line) for number, line in enumerate(lines, 2)]
    if len(found) != head.count or not text.endswith(b"\n"):
        _refuse(
            f"{name} ends after {len(found)} of {head.count} events: it was cut off.",
            'To recover those, make that the "count" in line 1, and let the last line end.',
        )
    if len({id for id, _ in found}) < len(found):
        _refuse(f"{name} holds an event twice.", "Take one of the two lines out, and count again.")
    ids, events = tuple(id for id, _ in found), tuple(event for _, event in found)
    return Unsaved(head.agent, clean_line(head.name), head.behind, ids, events)


def _event(name: str, number: int, line: bytes) -> tuple[str, Event]:
    try:
        found = _LINE.decode(line)
        data = bytes(found.data).decode()
        event = codec.decode(found.kind, found.content, None if data == "null" else data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = clean_line(str(error))[:200].rstrip(".")
        _refuse(f"{name}, line {number} is cut off or damaged: {why}.", "Repair that line, or take it out.")
    except RecursionError:
        _refuse(f"{name}, line {number} is nested too deep.", "Take it out.")
    if isinstance(event, Unknown):
        what = f"cannot be an event of the kind {clean_line(found.kind)[:64]!r}"
        _refuse(f"{name}, line {number} {what}.", "Repair that line, or use the ikigai that wrote the file.")
    return found.id, event


def _foreign(name: str) -> NoReturn:
    _refuse(f"{name} holds no events that ikigai could not save.", "Name an unsaved-….jsonl file of the state folder.")


def _refuse(what: str, remedy: str) -> NoReturn:
    raise Refused(f"{what} {NOTHING}", remedy)
