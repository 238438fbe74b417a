"""Event ⇄ row: the `kind`, `content` and `data` of the table `messages`.

One table says how; `content` is what people search and read, `data` the other fields as a JSON object without those
that have their default. Text that must come back byte for byte (arguments, signatures) stands in strings, because
jsonb reorders objects. A row that cannot be read is an Unknown event: kept, shown, never fatal.
"""

from typing import Any, NamedTuple, cast

import msgspec

from ikigai.core import events as ev
from ikigai.core.messages import StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.sanitize import storable

CONTENT_FIELD: dict[str, tuple[type, str]] = {
    "user": (ev.UserMessage, "text"),
    "assistant": (ev.AssistantMessage, ""),  # content is its words, `blocks` says where thinking stands between them
    "tool_call": (ToolCall, "arguments"),
    "tool_started": (ev.ToolStarted, ""),
    "tool_result": (ToolResult, "content"),
    "turn_end": (ev.TurnEnded, "reason"),
    "clear": (ev.Cleared, ""),
    "mark": (ev.Marked, "label"),
    "rewind": (ev.Rewound, ""),
    "approval": (ev.ApprovalDecided, "reason"),
    "filter_plan": (ev.FilterPlanned, ""),
    "filter": (ev.Filtered, "criteria"),
    "undo": (ev.Undone, ""),
    "settings": (ev.SettingsChanged, ""),
    "fork": (ev.Forked, ""),
    "command": (ev.CommandRan, "line"),
    "usage": (ev.UsageReported, ""),
}
KIND = {cls: kind for kind, (cls, _) in CONTENT_FIELD.items()}


class Row(NamedTuple):
    """`data` is JSON text of an object, or None where there is nothing to say."""

    kind: str
    content: str | None
    data: str | None


class _Said(Record, frozen=True):
    """The data of an AssistantMessage. Where its content is not simply one Text, `blocks` says what it is made of:

    a number is that many characters of the content, a Thinking is itself.
    """

    blocks: tuple[int | Thinking, ...] | None = None
    stop: StopReason = StopReason.END
    model: str = ""
    interrupted: bool = False


def encode(event: ev.Event) -> Row:
    if isinstance(event, ev.Unknown):
        raise ValueError(f"an event of unknown kind {event.kind!r} is never stored")
    kind = KIND[type(event)]
    content = ""
    if isinstance(event, ev.AssistantMessage):
        content = event.text
        fields = _fields(_Said(_places(event.blocks), event.stop, event.model, event.interrupted))
    else:
        fields = _fields(event)
        if name := CONTENT_FIELD[kind][1]:
            content = fields.pop(name, getattr(event, name))
    data = msgspec.json.encode(_storable(fields)).decode() if fields else None
    return Row(kind, storable(content) or None, data)


def _fields(record: ev.Event | _Said) -> dict[str, Any]:
    fields = cast("dict[str, Any]", msgspec.to_builtins(record))
    fields.pop("type", None)  # the tag of a block; the kind says it
    return fields


def _places(blocks: tuple[Text | Thinking, ...]) -> tuple[int | Thinking, ...] | None:
    match blocks:
        case ():
            return None
        case (Text(words),) if words:
            return None
        case _:
            return tuple(len(block.text) if isinstance(block, Text) else block for block in blocks)


def _storable(value: Any) -> Any:
    """The same with every string made storable; `storable` keeps the length, so places in text stay true."""
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(key)): _storable(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_storable(item) for item in cast("list[Any]", value)]
        case _:
            return value


def decode(kind: str, content: str | None, data: str | None) -> ev.Event:
    if kind == "user" and data is None:  # many rows, by the shortest way
        return ev.UserMessage(content or "")
    try:
        if kind == "assistant":
            said = _SAID.decode(data or "{}")
            return ev.AssistantMessage(_blocks(content or "", said.blocks), said.stop, said.model, said.interrupted)
        cls, name = CONTENT_FIELD[kind]
        fields = _FIELDS.decode(data) if data else {}
        if name:
            fields[name] = content or ""
        return cast("ev.Event", msgspec.convert(fields, cls))
    except (KeyError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return ev.Unknown(kind, content or data or "")


def _blocks(content: str, places: tuple[int | Thinking, ...] | None) -> tuple[Text | Thinking, ...]:
    if places is None:
        return (Text(content),) if content else ()
    found: list[Text | Thinking] = []
    start = 0
    for place in places:
        if isinstance(place, Thinking):
            found.append(place)
        else:
            found.append(Text(content[start : start + place]))
            start += place
    if start != len(content):
        raise ValueError("the blocks are not made of this content")
    return tuple(found)


_SAID = msgspec.json.Decoder(_Said)
_FIELDS = msgspec.json.Decoder(dict[str, Any])
