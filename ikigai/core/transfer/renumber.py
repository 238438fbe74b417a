"""What becomes of a row that moves to another log: the ids that it names are those of the other log.

Ids only ever name what came before. Where the other log has only a part of this one, what is named may not be there:

    SAME      that very event; 0, which names none, where it is not there
    STILL     that very event; -1, which is the id of none and not 0, where it is not there
    UPTO      a place, behind the event; behind the last one before it where it is not there, 0 for the beginning
    EACH      events by themselves; those that are not there are left out
    RANGES    first and last events of stretches; each is cut to what is there of it
    NOBODY    the agent that a message is for: nobody, it has been on its way once
    NOTHING   left out: which message has come, where one of another log says nothing

Whoever adds a kind of event that names others adds it here: a test looks at the fields of every event. Text is left as
it is, whatever ids people have written in it. What an agent was allowed to do without a question does not move with it:
that is for whoever owns the other log to say.
"""

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from ikigai.core.codec import Row


class Raw(NamedTuple):
    """A row of the log as it stands there, with the name of its agent.

    `at` is when it was stored, in seconds since 1970; `data` is JSON text of an object, or None.
    """

    id: int
    agent: str
    seq: int
    at: float
    kind: str
    content: str | None
    data: str | None


class Numbers:
    """Ids of the one log, ascending, each with its id in the other; 16 bytes for each."""

    def __init__(self) -> None:
        self._old, self._new = array("q"), array("q")

    def add(self, old: int, new: int) -> None:
        """One more event, behind all others in both logs."""
        self._old.append(old)
        self._new.append(new)

    def same(self, id: int) -> int:
        place = bisect_left(self._old, id)
        return self._new[place] if place < len(self._old) and self._old[place] == id else 0

    def upto(self, id: int) -> int:
        place = bisect_right(self._old, id)
        return self._new[place - 1] if place else 0

    def stretch(self, first: int, last: int) -> tuple[int, int] | None:
        """What is there of the events from `first` to `last`; None for nothing."""
        start, end = bisect_left(self._old, first), bisect_right(self._old, last)
        return (self._new[start], self._new[end - 1]) if start < end else None


_Moved: TypeAlias = Callable[[Numbers, Any], Any]


def _same(numbers: Numbers, value: Any) -> Any:
    return numbers.same(value) if _is_id(value) else value


def _still(numbers: Numbers, value: Any) -> Any:
    return numbers.same(value) or -1 if _is_id(value) and value else value


def _upto(numbers: Numbers, value: Any) -> Any:
    return numbers.upto(value) if _is_id(value) else value


def _each(numbers: Numbers, value: Any) -> Any:
    return [new for id in _items(value) if _is_id(id) and (new := numbers.same(id))]


def _ranges(numbers: Numbers, value: Any) -> Any:
    ends = [_items(item) for item in _items(value)]
    cut = [numbers.stretch(*item) for item in ends if len(item) == 2 and all(map(_is_id, item))]
    return [list(stretch) for stretch in cut if stretch]


def _nobody(numbers: Numbers, value: Any) -> Any:
    return "" if isinstance(value, str) else value


def _nothing(numbers: Numbers, value: Any) -> Any:
    return msgspec.UNSET


SAME, STILL, UPTO, EACH, RANGES, NOBODY, NOTHING = _same, _still, _upto, _each, _ranges, _nobody, _nothing

NAMED: dict[str, dict[str, _Moved]] = {
    "turn_end": {"first": SAME},
    "rewind": {"to": UPTO},
    "filter_plan": {"ranges": RANGES, "ids": EACH},
    "filter": {"ranges": RANGES, "ids": EACH, "planning": SAME},
    "undo": {"of": SAME},
    "fork": {"at": UPTO},
    "summary": {"upto": UPTO, "covers": RANGES, "of": EACH, "closed": STILL},
    "mail_sent": {"to": NOBODY},
    "mail_taken": {"of": NOTHING, "reply_to": NOTHING},
}
"""The fields of data, by kind, that name events by id, and agents."""

CHOICES = {"settings": "values", "clear": "own"}
"""The fields of data, by kind, that hold settings."""
APPROVAL, SAFE, ASK = "approval", ("ask", "read-only"), "ask"
"""The setting that says what runs without a question, what of it may come from elsewhere, and what stands instead."""
PROFILE, OWN = "profile", "agent"
"""The setting that names a profile, and the origin of what an agent has chosen itself."""


def moved(row: Row, numbers: Numbers) -> Row:
    """The row as the other log takes it; `numbers` hold the events before it.

    Fields that are none of their kind stay as they are: such a row is an Unknown event there as well as here. Raises
    ValueError where data is no JSON.
    """
    named, choices = NAMED.get(row.kind, {}), CHOICES.get(row.kind, "")
    if row.data is None or not (named or choices):
        return row
    # As decimals numbers come back exactly as they were, whatever their size.
    fields: Any = json.loads(row.data, parse_float=Decimal)
    for name, move in named.items():
        if name in fields:
            fields[name] = move(numbers, fields[name])
    fields = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    if isinstance(settings := fields.get(choices), dict):
        _restrain(fields, choices, cast("dict[str, Any]", settings))
    return Row(row.kind, row.content, _JSON.encode(fields).decode())


def _restrain(fields: dict[str, Any], choices: str, settings: dict[str, Any]) -> None:
    """Have what asked for more ask here. A profile of that name may be here, and allow more: the choice goes before it.

    So does one that was taken back, for what stands behind it may be such a profile.
    """
    profiled = settings.get(PROFILE) is not None
    if settings.get(APPROVAL, None if profiled else ASK) not in SAFE:
        fields[choices] = settings = {**settings, APPROVAL: ASK}
    if profiled and isinstance(origins := fields.get("origins"), dict):
        fields["origins"] = {**origins, APPROVAL: OWN}


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_JSON = msgspec.json.Encoder(decimal_format="number")
