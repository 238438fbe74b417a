"""Convert events to rows and back: the `kind`, `content` and `data` of the table `messages`.

One table says how. `content` is the text that people search and read. `data` holds the other fields as a JSON object,
without those that have their default. Text that must come back byte for byte (arguments, signatures) stands in strings,
because jsonb reorders objects. An unreadable row becomes an Unknown event: kept, shown, never fatal.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from ikigai.core.events import events
from ikigai.core.events.messages import Citation, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import storable

CONTENT_FIELD: dict[str, tuple[type, str]] = {
    "user": (events.UserMessage, "text"),
    "recall": (events.TurnsRecalled, "text"),
    "assistant": (
        events.AssistantMessage,
        "",
    ),  # content is its words, `blocks` says where thinking stands between them
    "tool_call": (ToolCall, "arguments"),
    "tool_started": (events.ToolStarted, ""),
    "tool_result": (ToolResult, "content"),
    "turn_end": (events.TurnEnded, "reason"),
    "clear": (events.Cleared, ""),
    "mark": (events.Marked, "label"),
    "rewind": (events.Rewound, ""),
    "approval": (events.ApprovalDecided, "reason"),
    "filter_plan": (events.FilterPlanned, ""),
    "filter": (events.Filtered, "criteria"),
    "summary": (events.Summarized, "text"),
    "undo": (events.Undone, ""),
    "settings": (events.SettingsChanged, ""),
    "fork": (events.Forked, ""),
    "agent_killed": (events.AgentKilled, ""),
    "agent_revived": (events.AgentRevived, ""),
    "mail_sent": (events.MailSent, "text"),
    "mail_taken": (events.MailTaken, ""),
    "command": (events.CommandRan, "line"),
    "usage": (events.UsageReported, ""),
}
KIND_OF = {cls: kind for kind, (cls, _) in CONTENT_FIELD.items()}
SEARCHED_KINDS = ("user", "assistant", "tool_call", "tool_result", "mark", "command", "summary")
"""Kinds whose content is something said, and can be searched for."""


class Row(NamedTuple):
    """A row of the log. `data` is JSON text of an object, or None for an empty one."""

    kind: str
    content: str | None
    data: str | None


class CitedText(Record, frozen=True, tag="cited"):
    """A Text with citations: so many characters of the content."""

    characters: int
    citations: tuple[Citation, ...]


_Place: TypeAlias = int | Thinking | CitedText


class _AssistantData(Record, frozen=True):
    """The data of an AssistantMessage. Where its content is not simply one Text, `blocks` lists its parts:

    a number is that many characters of the content, a Thinking is itself.
    """

    blocks: tuple[_Place, ...] | None = None
    stop: StopReason = StopReason.END
    model: str = ""
    interrupted: bool = False


def encode(event: events.Event) -> Row:
    if isinstance(event, events.Unknown):
        raise ValueError(f"an event of unknown kind {event.kind!r} is never stored")
    kind = KIND_OF[type(event)]
    content = ""
    if isinstance(event, events.AssistantMessage):
        content = event.text
        fields = _fields(_AssistantData(_places(event.blocks), event.stop, event.model, event.interrupted))
    else:
        fields = _fields(event)
        if name := CONTENT_FIELD[kind][1]:
            content = fields.pop(name, getattr(event, name))
    data = msgspec.json.encode(_storable(fields)).decode() if fields else None
    return Row(kind, storable(content) or None, data)


def _fields(record: events.Event | _AssistantData) -> dict[str, Any]:
    fields = cast("dict[str, Any]", msgspec.to_builtins(record))
    fields.pop("type", None)  # the tag of a block; the kind says it
    return fields


def _places(blocks: tuple[Text | Thinking, ...]) -> tuple[_Place, ...] | None:
    match blocks:
        case ():
            return None
        case (Text(words, ()),) if words:
            return None
        case _:
            return tuple(map(_place, blocks))


def _place(block: Text | Thinking) -> _Place:
    if isinstance(block, Thinking):
        return block
    return CitedText(len(block.text), block.citations) if block.citations else len(block.text)


def _storable(value: Any) -> Any:
    """Return the value with every string made storable; `storable` keeps the length, so places in text stay true."""
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(key)): _storable(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_storable(item) for item in cast("list[Any]", value)]
        case _:
            return value


def decode(kind: str, content: str | None, data: str | None) -> events.Event:
    try:
        return _READERS[kind](content or "", data)
    except (KeyError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return events.Unknown(kind, content or data or "")


def decode_rows(agent: str, rows: Iterable[Sequence[Any]]) -> list[events.StoredEvent]:
    """Convert rows of a log, in any number: id, seq, time, kind, content, data."""
    found: list[events.StoredEvent] = []
    for id, seq, at, kind, content, data in rows:
        try:  # `decode`, without a call for each
            event = _READERS[kind](content or "", data)
        except (KeyError, ValueError, RecursionError):
            event = events.Unknown(kind, content or data or "")
        found.append(events.StoredEvent(id, agent, seq, at, event))
    return found


def _blocks(content: str, places: tuple[_Place, ...] | None) -> tuple[Text | Thinking, ...]:
    if places is None:
        return (Text(content),) if content else ()
    found: list[Text | Thinking] = []
    start = 0
    for place in places:
        if isinstance(place, Thinking):
            found.append(place)
            continue
        characters, cited = (place, ()) if isinstance(place, int) else (place.characters, place.citations)
        found.append(Text(content[start : start + characters], cited))
        start += characters
    if start != len(content):
        raise ValueError("the blocks are not made of this content")
    return tuple(found)


_Read: TypeAlias = Callable[[str, str | None], events.Event]
"""A function that makes an event of its content and its data."""


def _assistant(content: str, data: str | None) -> events.AssistantMessage:
    if data is None:
        return events.AssistantMessage((Text(content),) if content else ())
    fields = _ASSISTANT_DATA.decode(data)
    return events.AssistantMessage(_blocks(content, fields.blocks), fields.stop, fields.model, fields.interrupted)


def _reader(cls: type[events.Event], name: str) -> _Read:
    """Return a reader for events of this class: it decodes the data into a record of the other fields, with the content
    between them.
    """
    if not name:
        whole = msgspec.json.Decoder(cls)
        return lambda content, data: whole.decode(data or "{}")
    fields, config = msgspec.structs.fields(cls), cls.__struct_config__
    rest = [(field.name, field.type, _default(field)) for field in fields if field.name != name]
    others = msgspec.defstruct(
        f"_{cls.__name__}", rest, bases=(Record,), frozen=True, tag=config.tag, tag_field=config.tag_field
    )
    decode, place = msgspec.json.Decoder(others).decode, cls.__struct_fields__.index(name)
    values_of, make = msgspec.structs.astuple, cast("Callable[..., events.Event]", cls)

    def read(content: str, data: str | None) -> events.Event:
        values = list(values_of(decode(data or "{}")))
        values.insert(place, content)  # half the time of putting it between two slices
        return make(*values)

    return read


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field() if field.required else msgspec.field(default=field.default)


def _user_reader() -> _Read:
    read = _reader(events.UserMessage, "text")
    return lambda content, data: events.UserMessage(content) if data is None else read(content, data)


class _Readers(dict[str, _Read]):
    """The readers by kind, each made when the first event of its kind is read: all of them take 2 ms of a start."""

    def __missing__(self, kind: str) -> _Read:
        made = self[kind] = _user_reader() if kind == "user" else _reader(*CONTENT_FIELD[kind])
        return made


_ASSISTANT_DATA = msgspec.json.Decoder(_AssistantData)
_READERS = _Readers(assistant=_assistant)
