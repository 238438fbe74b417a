"""What a purge leaves of a row: its place, its kind and the names that pairs go by; what was said in it is gone.

A row is purged whole or not at all: where one of its texts holds what is looked for, all of them go, with pictures,
thinking and signatures. Kinds that this program does not know lose their content and every text in their data that
holds it.
"""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias, cast

import msgspec

from ikigai.core.codec import CONTENT_FIELD, Row
from ikigai.core.redaction import json_spellings
from ikigai.core.sanitize import storable

GONE = "[purged]"
"""Stands where a text was."""
HIDDEN = "***"
"""Stands for what was looked for where its surroundings are shown."""

WORDLESS = frozenset({"usage", "fork", "agent_killed", "agent_revived", "tool_started", "filter_plan", "mail_taken"})
"""Kinds in which nobody says anything."""
DROPPED = {
    "user": ("images",),
    "assistant": ("blocks",),
    "tool_call": ("malformed",),
    "tool_result": ("images", "diff"),
}
"""Fields of data that are what was said, or pictures of it; a row is whole without them."""
KEPT = frozenset(
    ("id", "call_id", "name", "tool", "type", "vendor", "media_type", "model", "level", "provider", "parent", "stop")
) | {"ending", "counted", "mode", "origin", "origins", "decision", "planning", "what", "to", "sender"}
"""Fields of data that hold names: without them the row, or the other one of its pair, could not be read."""

Said: TypeAlias = Callable[[str], bool]
"""Whether a text is to go."""


def anything(text: str) -> bool:
    """`Said` of a purge by ids."""
    return text not in ("", GONE)


class Wanted:
    """What is looked for: a text as it is, and as JSON writes it within arguments and results."""

    def __init__(self, text: str) -> None:
        assert text
        text = storable(text)
        self._forms = json_spellings(text)
        self._stored = tuple(map(_escaped, self._forms))

    def said(self, text: str) -> bool:
        """Whether `text` holds it."""
        return any(form in text for form in self._forms)

    def likely(self, row: Row) -> bool:
        """Whether a closer look at the row is worth it; never False where one of its texts holds it."""
        if row.content and self.said(row.content):
            return True
        return row.data is not None and any(form in row.data for form in self._stored)

    def around(self, text: str) -> str:
        """The words before and behind the first place where `text` holds it; it stands hidden between them."""
        start, length = min((text.find(form), -len(form)) for form in self._forms if form in text)
        before, behind = text[:start], text[start - length :]
        for form in self._forms:
            before, behind = before.replace(form, HIDDEN), behind.replace(form, HIDDEN)
        return f"{'…' * (len(before) > 30)}{before[-30:]}{HIDDEN}{behind}"


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def texts(row: Row, said: Said = anything) -> Iterator[str]:
    """All that such a purge of the row would look at, its content first."""
    if row.kind not in WORDLESS:
        names = _names(row.kind, said)
        if row.content and row.content != "{}":
            yield row.content
        for key, value in _fields(row).items():
            # A picture's name goes with it.
            yield from _leaves({key: value}, names - {"name"} if key in DROPPED.get(row.kind, ()) else names)


def _names(kind: str, said: Said) -> frozenset[str]:
    """The fields whose texts stay; in a kind that nobody knows, no name is worth more than what is looked for."""
    return KEPT if said is anything or kind in CONTENT_FIELD else frozenset()


def purged(row: Row, said: Said) -> Row | None:
    """What is left of the row; None where none of its texts is to go, and no picture either."""
    fields = _fields(row)
    lost = [fields.pop(key, None) for key in DROPPED.get(row.kind, ())]
    if not (any(map(said, texts(row, said))) or (said is anything and any(lost))):
        return None
    content = row.content
    if row.kind == "tool_call":
        content = "{}"
    elif content or _was_sent(row.kind, lost):
        content = GONE
    fields = _without(fields, said, _names(row.kind, said))
    return Row(row.kind, content, _JSON.encode(fields).decode() if fields else None)


def _was_sent(kind: str, lost: list[Any]) -> bool:
    """Whether a message without words was one to a model, and has to stay one: a picture, thinking that is sent back.

    Otherwise there would be fewer messages than the totals of its turn say.
    """
    if kind == "user":
        return bool(lost[0])
    blocks = cast("list[Any]", lost[0]) if kind == "assistant" and isinstance(lost[0], list) else []
    return any(isinstance(block, dict) and cast("dict[str, Any]", block).get("signature") for block in blocks)


def _fields(row: Row) -> dict[str, Any]:
    # As decimals numbers come back exactly as they were, whatever their size.
    fields: Any = json.loads(row.data, parse_float=Decimal, parse_int=Decimal) if row.data else {}
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _leaves(value: Any, names: frozenset[str]) -> Iterator[str]:
    """The texts in a value of JSON, without those in fields of these names."""
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


def _without(value: Any, said: Said, names: frozenset[str]) -> Any:
    match value:
        case str():
            return GONE if said(value) else value
        case list():
            return [_without(item, said, names) for item in cast("list[Any]", value)]
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {key: item if _stays(key, item, names) else _without(item, said, names) for key, item in items}
        case _:
            return value


def _stays(key: str, value: Any, names: frozenset[str]) -> bool:
    return key in names and (isinstance(value, str) or key == "origins")


_JSON = msgspec.json.Encoder(decimal_format="number")
