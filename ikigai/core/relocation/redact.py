"""Purge a row: its position, its kind and the names that pair it with others stay, its words go.

A row is purged whole or not at all: where one of its texts matches, all of them go, with pictures, thinking and
signatures. Kinds that this program does not know lose their content and every text in their data that matches.
"""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias, cast

import msgspec

from ikigai.core.events.codec import CONTENT_FIELD, Row
from ikigai.core.secrets.redaction import spellings_in_json
from ikigai.core.text.sanitize import storable

PURGED_TEXT = "[purged]"
"""The text that stands where a text was purged."""
HIDDEN_TEXT = "***"
"""The text that stands for the match where its surroundings are shown."""

WORDLESS_KINDS = frozenset(
    {"usage", "fork", "agent_killed", "agent_revived", "tool_started", "filter_plan", "mail_taken"}
)
"""Kinds without words of a user, model or tool."""
DROPPED_FIELDS = {
    "user": ("images", "documents"),
    "assistant": ("blocks",),
    "tool_call": ("malformed",),
    "tool_result": ("images", "diff", "opaque"),
}
"""Fields of data that hold words or pictures; a row is whole without them."""
KEPT_FIELDS = frozenset(
    (
        "id",
        "call_id",
        "name",
        "tool",
        "type",
        "vendor",
        "hosted",
        "media_type",
        "model",
        "level",
        "provider",
        "parent",
        "stop",
    )
) | {
    *(
        "ending",
        "counted",
        "mode",
        "origin",
        "origins",
        "decision",
        "planning",
        "what",
        "command",
        "to",
        "sender",
        "kind",
    ),
    "hosted",
}
"""Fields of data that hold names: without them the row, or the other one of its pair, could not be read."""

TextPredicate: TypeAlias = Callable[[str], bool]
"""A function that returns True for a text that is to be purged."""


def match_anything(text: str) -> bool:
    """Match every text: the function for a purge by ids."""
    return text not in ("", PURGED_TEXT)


class PurgeTarget:
    """The text to purge: as it is, and as JSON writes it within arguments and results."""

    def __init__(self, text: str) -> None:
        assert text
        text = storable(text)
        self._forms = spellings_in_json(text)
        self._stored = tuple(map(_escaped, self._forms))

    def is_in(self, text: str) -> bool:
        """Return True if `text` holds the target."""
        return any(form in text for form in self._forms)

    def may_match(self, row: Row) -> bool:
        """Return True if the row may hold the target; never False where one of its texts holds it."""
        if row.content and self.is_in(row.content):
            return True
        return row.data is not None and any(form in row.data for form in self._stored)

    def format_context(self, text: str) -> str:
        """Return the words around the first place where `text` holds the target; the target is hidden between them."""
        start, length = min((text.find(form), -len(form)) for form in self._forms if form in text)
        before, behind = text[:start], text[start - length :]
        for form in self._forms:
            before, behind = before.replace(form, HIDDEN_TEXT), behind.replace(form, HIDDEN_TEXT)
        return f"{'…' * (len(before) > 30)}{before[-30:]}{HIDDEN_TEXT}{behind}"


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def row_texts(row: Row, matches: TextPredicate = match_anything) -> Iterator[str]:
    """Yield all texts of the row that such a purge would look at, its content first."""
    if row.kind not in WORDLESS_KINDS:
        names = _names(row.kind, matches)
        if row.content and row.content != "{}":
            yield row.content
        for key, value in _fields(row).items():
            # A picture's name goes with it.
            yield from _leaves({key: value}, names - {"name"} if key in DROPPED_FIELDS.get(row.kind, ()) else names)


def _names(kind: str, matches: TextPredicate) -> frozenset[str]:
    """Return the fields whose texts stay. In a kind that this program does not know, every text that matches goes."""
    return KEPT_FIELDS if matches is match_anything or kind in CONTENT_FIELD else frozenset()


def purge_row(row: Row, matches: TextPredicate) -> Row | None:
    """Return the rest of the row; None where none of its texts is to go, and no picture either."""
    fields = _fields(row)
    lost = [fields.pop(key, None) for key in DROPPED_FIELDS.get(row.kind, ())]
    if not (any(map(matches, row_texts(row, matches))) or (matches is match_anything and any(lost))):
        return None
    content = row.content
    if row.kind == "tool_call":
        content = "{}"
    elif content or _was_sent(row.kind, lost):
        content = PURGED_TEXT
    fields = _without(fields, matches, _names(row.kind, matches))
    return Row(row.kind, content, _JSON.encode(fields).decode() if fields else None)


def _was_sent(kind: str, lost: list[Any]) -> bool:
    """Return True if a message without words was one to a model, and has to stay one: a picture, thinking that is sent
    back.

    Otherwise there would be fewer messages than the totals of its turn say.
    """
    if kind == "user":
        return any(lost)
    blocks = cast("list[Any]", lost[0]) if kind == "assistant" and isinstance(lost[0], list) else []
    return any(isinstance(block, dict) and cast("dict[str, Any]", block).get("signature") for block in blocks)


def _fields(row: Row) -> dict[str, Any]:
    # As decimals numbers come back exactly as they were, whatever their size.
    fields: Any = json.loads(row.data, parse_float=Decimal, parse_int=Decimal) if row.data else {}
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _leaves(value: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield the texts in a JSON value, without those in fields of these names."""
    match value:
        case str():
            yield value
        case list():
            for item in cast("list[Any]", value):
                yield from _leaves(item, names)
        case dict():
            for key, item in cast("dict[str, Any]", value).items():
                if not _stays(key, item, names):
                    yield from _leaves(item, names)
        case _:
            pass


def _without(value: Any, matches: TextPredicate, names: frozenset[str]) -> Any:
    match value:
        case str():
            return PURGED_TEXT if matches(value) else value
        case list():
            return [_without(item, matches, names) for item in cast("list[Any]", value)]
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {key: item if _stays(key, item, names) else _without(item, matches, names) for key, item in items}
        case _:
            return value


def _stays(key: str, value: Any, names: frozenset[str]) -> bool:
    return key in names and (isinstance(value, str) or key == "origins")


_JSON = msgspec.json.Encoder(decimal_format="number")
