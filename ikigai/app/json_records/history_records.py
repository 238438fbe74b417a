"""Objects about the history: events, hits of a search, recalled turns."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ikigai.app.json_records.record_fields import AgentObject, Id, JsonObject, PrintedRecord, Time
from ikigai.core.events.record import Count


class ReadableEvent(AgentObject):
    """An event with its text, as people read it."""

    id: Id
    seq: Count
    at: Time
    kind: str
    text: str


class EventsRecord(AgentObject, PrintedRecord, tag="events"):
    """Events in their order: `ikigai history list` and `show`, /search #ID."""

    events: tuple[ReadableEvent, ...]


class Hit(AgentObject):
    """An event that was found; `places` are pairs of character offsets in the snippet."""

    id: Id
    at: Time
    kind: str
    snippet: str
    places: tuple[tuple[Count, Count], ...]
    in_context: bool | UnsetType = UNSET


class HitsRecord(PrintedRecord, tag="hits"):
    """The hits of a search: `ikigai history search` and /search.

    `widened` says that they are within words, `behind` how many events are not indexed yet, `reached` the id at which
    the search ran out of time.
    """

    query: str
    hits: tuple[Hit, ...]
    widened: bool
    behind: Count
    reached: Id | None


class RecalledMessageFields(JsonObject):
    """A message of a recalled turn, or the event of a tool in it that matches best. `score` ranks it as turns are."""

    id: Id
    kind: str
    at: Time
    score: float
    excerpt: str


class RecalledTurnFields(AgentObject):
    """A turn that a question recalls: `id` is the event that matches best, `first` and `last` the first and last event
    of the turn.

    `last` is null while the turn is open.
    """

    id: Id
    first: Id
    last: Id | None
    score: float
    messages: tuple[RecalledMessageFields, ...]


class RecallRecord(PrintedRecord, tag="recall"):
    """The turns that a question recalls, the best first: `ikigai history recall`.

    `behind` is how many events are not indexed yet.
    """

    question: str
    turns: tuple[RecalledTurnFields, ...]
    behind: Count
