"""File of unsaved events: the events with their ids, behind the event that they follow.

The file has JSON lines: one that says that it holds unsaved events, and one for each event. An event has the id that it
was to be stored under, so that it is stored once however often storing is tried. The first line has the checksum of all
other data, and is itself not part of it.
"""

from itertools import takewhile
from typing import Annotated, NoReturn, TypeAlias

import msgspec

from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events.events import Event, Unknown, UserMessage
from ikigai.core.events.record import Record
from ikigai.core.relocation.checksum import Checksum
from ikigai.core.text.sanitize import clean_line

FORMAT, VERSION = "ikigai-unsaved", 1
NOTHING_RECOVERED = "Nothing was recovered."

Uuid: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\\Z")]


class Unsaved(Record, frozen=True):
    """The `events` of the agent with the id `agent`, called `name` then, under the `ids` that they are stored by.

    `behind` is the `event_id` of the event that they follow, None where the agent had none. The first of them may have
    been stored once: `numbers` are the ids that these had, ascending, and `times` when they were stored, in seconds
    since 1970. `has_checksum` says that the file had a checksum and matched it.
    """

    agent: Uuid
    name: str
    behind: Uuid | None
    ids: tuple[Uuid, ...]
    events: tuple[Event, ...]
    has_checksum: bool = True
    numbers: tuple[int, ...] = ()
    times: tuple[float, ...] = ()

    def followed_by(self, later: "Unsaved") -> "Unsaved":
        """Return these events and `later` ones that follow on them, which have not been stored yet."""
        return msgspec.structs.replace(self, ids=(*self.ids, *later.ids), events=(*self.events, *later.events))

    @property
    def output(self) -> str | None:
        """The output of a command of the user, if there is nothing else: it is a turn of its own, behind any other."""
        match self.events:
            case (UserMessage(text, alone=True),):
                return text
            case _:
                return None


class _UnsavedHead(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    agent: Uuid
    name: str
    behind: Uuid | None
    count: int
    sha256: str | None = None


class _Line(msgspec.Struct, omit_defaults=True):
    id: Uuid
    kind: str
    content: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    number: Annotated[int, msgspec.Meta(gt=0, le=2**63 - 1)] | None = None
    at: float | None = None


class _EarlyLine(msgspec.Struct):
    agent: str
    kind: str


_EARLY = msgspec.json.Decoder(_EarlyLine)
_HEAD, _LINE = msgspec.json.Decoder(_UnsavedHead), msgspec.json.Decoder(_Line)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def serialize(unsaved: Unsaved) -> bytes:
    """Return the content of the file."""
    head = _UnsavedHead(FORMAT, VERSION, unsaved.agent, unsaved.name, unsaved.behind, len(unsaved.events))
    rows = map(codec.encode, unsaved.events)
    lines = [_Line(id, *row[:2], msgspec.Raw(row.data or b"null")) for id, row in zip(unsaved.ids, rows, strict=True)]
    for line, number, at in zip(lines, unsaved.numbers, unsaved.times, strict=False):
        line.number, line.at = number, at
    texts = [msgspec.json.encode(line) for line in (head, *lines)]
    head.sha256 = _checksum(texts[0], texts[1:])
    return b"".join(text + b"\n" for text in (msgspec.json.encode(head), *texts[1:]))


def read(name: str, text: bytes) -> Unsaved:
    """Return the events in a file called `name`. Raise Rejected, with the line, where it cannot be read."""
    first, _, rest = text.partition(b"\n")
    try:
        head = _HEAD.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _check_early(name, text)
        _foreign(name)
    if head.format != FORMAT or head.count < 1:
        _foreign(name)
    if head.version != VERSION:
        _refuse(
            f"{name}: the format has version {head.version}, this ikigai knows {VERSION}.", "Install a newer ikigai."
        )
    lines = rest.splitlines()
    found = [_event(name, number, line) for number, line in enumerate(lines, 2)]
    if len(found) != head.count or not text.endswith(b"\n"):
        _refuse(
            f"{name} ends after {len(found)} of {head.count} events: it is incomplete.",
            'To recover those, change "count" in line 1, and end the last line with a newline.',
        )
    if len({line.id for line, _ in found}) < len(found):
        _refuse(f"{name} contains an event twice.", 'Remove one of the two lines, and correct "count".')
    if head.sha256 is not None and head.sha256 != _checksum(first, lines):
        what = f"{name} is damaged or was changed: its checksum does not match."
        _refuse(what, "If you changed it yourself, remove `sha256` from line 1.")
    ids, events = tuple(line.id for line, _ in found), tuple(event for _, event in found)
    stored = [(line.number, line.at or 0.0) for line, _ in takewhile(lambda each: each[0].number, found)]
    numbers, times = tuple(number for number, _ in stored if number), tuple(at for _, at in stored)
    has_checksum = head.sha256 is not None
    return Unsaved(head.agent, clean_line(head.name), head.behind, ids, events, has_checksum, numbers, times)


def _checksum(head: bytes, lines: list[bytes]) -> str:
    """Return the checksum of the whole file except the checksum itself."""
    checksum = Checksum()
    fields = {name: value for name, value in _FIELDS.decode(head).items() if name != "sha256"}
    for text in (msgspec.json.encode(fields), *lines):
        checksum.add(text)
    return checksum.digits


def _event(name: str, number: int, line: bytes) -> tuple[_Line, Event]:
    try:
        found = _LINE.decode(line)
        data = bytes(found.data).decode()
        event = codec.decode(found.kind, found.content, None if data == "null" else data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = clean_line(str(error))[:200].rstrip(".")
        _refuse(f"{name}, line {number} is cut off or damaged: {why}.", "Repair that line, or remove it.")
    except RecursionError:
        _refuse(f"{name}, line {number} is nested too deep.", "Remove it.")
    if isinstance(event, Unknown):
        what = f"is not a valid event of the kind {clean_line(found.kind)[:64]!r}"
        _refuse(f"{name}, line {number} {what}.", "Repair that line, or use the ikigai that wrote the file.")
    return found, event


def _check_early(name: str, text: bytes) -> None:
    """Raise Rejected for a file of a program before 0.1, which has neither a first line about it nor ids."""
    try:
        lines = [_EARLY.decode(line) for line in text.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if lines:
        count = f"{len(lines):,} unsaved event{'s' * (len(lines) != 1)}"
        what = f"{name} has {count} of {clean_line(lines[0].agent)} by an ikigai before 0.1, without their ids."
        _refuse(what, "Read the messages in it, then delete it.")


def _foreign(name: str) -> NoReturn:
    _refuse(f"{name} contains no unsaved events of ikigai.", "Name an unsaved-….jsonl file of the state folder.")


def _refuse(what: str, remedy: str) -> NoReturn:
    raise Rejected(f"{what} {NOTHING_RECOVERED}", remedy)
