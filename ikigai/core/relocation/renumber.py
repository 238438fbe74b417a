"""Renumber a row that moves to another log: its references become ids of the other log.

Ids only ever name earlier events. Where the other log has only a part of this one, a named event may be missing there:

    SAME      that very event; 0, the id of none, where it is missing
    STILL     that very event; -1, which is the id of none and not 0, where it is missing
    UPTO      a place, behind the event; behind the last one before it where it is missing, 0 for the beginning
    EACH      events by themselves; missing ones are left out
    RANGES    first and last events of stretches; each is cut to the part that is there
    NOBODY    the agent that a message is for, for that has been on its way once, or the parent of a fork, which the
              other log does not have: emptied
    NOTHING   left out: the message that has come, where one of another log says nothing; what a cache depends on,
              because no request of the other log has filled one

A new kind of event that names others is added here: a test looks at the fields of every event. Text is left as it is,
whatever ids people have written in it. No choice of the settings counts in the other log until it is made there: such
rows are marked as imported.
"""

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from ikigai.core.events.codec import Row
from ikigai.core.state.grants import IMPORTED


class RawRow(NamedTuple):
    """A row as the log stores it, with the name of its agent.

    `at` is the time of storing, in seconds since 1970; `data` is JSON text of an object, or None.
    """

    id: int
    agent: str
    seq: int
    at: float
    kind: str
    content: str | None
    data: str | None


class IdMap:
    """The ids of the one log, ascending, each with its id in the other; 16 bytes for each."""

    def __init__(self) -> None:
        self._old, self._new = array("q"), array("q")

    def add(self, old: int, new: int) -> None:
        """Add one event, behind all others in both logs."""
        self._old.append(old)
        self._new.append(new)

    def __len__(self) -> int:
        return len(self._old)

    def same(self, id: int) -> int:
        place = bisect_left(self._old, id)
        return self._new[place] if place < len(self._old) and self._old[place] == id else 0

    def upto(self, id: int) -> int:
        place = bisect_right(self._old, id)
        return self._new[place - 1] if place else 0

    def map_range(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the mapped ids of the events from `first` to `last`; None where none of them is there."""
        start, end = bisect_left(self._old, first), bisect_right(self._old, last)
        return (self._new[start], self._new[end - 1]) if start < end else None


class MovedIds(IdMap):
    """The ids of events that came back to their own log under others; all other events have theirs still."""

    def __bool__(self) -> bool:
        return bool(self._old)

    def same(self, id: int) -> int:
        return super().same(id) or id

    def upto(self, id: int) -> int:
        return self.same(id)

    def map_range(self, first: int, last: int) -> tuple[int, int] | None:
        return self.same(first), self.same(last)


_Moved: TypeAlias = Callable[[IdMap, Any], Any]


def _same(numbers: IdMap, value: Any) -> Any:
    return numbers.same(value) if _is_id(value) else value


def _still(numbers: IdMap, value: Any) -> Any:
    return numbers.same(value) or -1 if _is_id(value) and value else value


def _upto(numbers: IdMap, value: Any) -> Any:
    return numbers.upto(value) if _is_id(value) else value


def _each(numbers: IdMap, value: Any) -> Any:
    return [new for id in _items(value) if _is_id(id) and (new := numbers.same(id))]


def _ranges(numbers: IdMap, value: Any) -> Any:
    ends = [_items(item) for item in _items(value)]
    cut = [numbers.map_range(*item) for item in ends if len(item) == 2 and all(map(_is_id, item))]
    return [list(stretch) for stretch in cut if stretch]


def _nobody(numbers: IdMap, value: Any) -> Any:
    return "" if isinstance(value, str) else value


def _nothing(numbers: IdMap, value: Any) -> Any:
    return msgspec.UNSET


SAME, STILL, UPTO, EACH, RANGES, NOBODY, NOTHING = _same, _still, _upto, _each, _ranges, _nobody, _nothing

ID_FIELDS: dict[str, dict[str, _Moved]] = {
    "turn_end": {"first": SAME},
    "rewind": {"to": UPTO},
    "filter_plan": {"ranges": RANGES, "ids": EACH},
    "filter": {"ranges": RANGES, "ids": EACH, "planning": SAME},
    "undo": {"of": SAME},
    "recall": {"ids": EACH},
    "fork": {"at": UPTO, "parent_id": NOBODY},
    "summary": {"upto": UPTO, "covers": RANGES, "of": EACH, "closed": STILL},
    "mail_sent": {"to": NOBODY},
    "usage": {"prefix": NOTHING},
    "mail_taken": {"of": NOTHING, "reply_to": NOTHING},
}
"""The fields of data, by kind, that name events by id, and agents."""

SETTINGS_FIELDS = {"settings": "values", "clear": "own"}
"""The fields of data, by kind, that hold settings."""


def renumber_row(row: Row, numbers: IdMap, same_log: bool = False) -> Row:
    """Return the row as the other log takes it; `numbers` hold the events before it. With `same_log` it comes back to
    its own one: mail and choices stay as they are.

    Fields of unexpected types stay as they are: such a row is an Unknown event there as well as here. Raise ValueError
    where data is not JSON.
    """
    named, choices = ID_FIELDS.get(row.kind, {}), SETTINGS_FIELDS.get(row.kind, "")
    if row.data is None or not (named or choices):
        return row
    # As decimals numbers come back exactly as they were, whatever their size.
    fields: Any = json.loads(row.data, parse_float=Decimal)
    for name, move in named.items():
        if name in fields and not (same_log and move in (NOBODY, NOTHING)):
            fields[name] = move(numbers, fields[name])
    fields = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    if not same_log and choices:
        fields["seal"] = IMPORTED
    return Row(row.kind, row.content, _JSON.encode(fields).decode())


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_JSON = msgspec.json.Encoder(decimal_format="number")
