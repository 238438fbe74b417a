"""Objects that print mode prints: the events and deltas of a turn, and its result."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from ikigai.app.json_records.command_figures import Figures
from ikigai.app.json_records.record_fields import AgentObject, Id, JsonObject, PrintedRecord, Time
from ikigai.core.events.events import Ending
from ikigai.core.events.messages import StopReason
from ikigai.core.events.record import Count
from ikigai.core.views.usage_totals import Dollars

Stop: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*StopReason, Ending.INTERRUPTED, Ending.FAILED]})]


class EventRecord(AgentObject, PrintedRecord, tag="event"):
    """An event of the turn, as it is in the log."""

    id: Id
    seq: Count
    at: Time
    kind: str
    content: str | None
    data: dict[str, Any] | None


class DeltaRecord(PrintedRecord, tag="delta"):
    """Words of the reply, as they come."""

    text: str


class ThinkingRecord(PrintedRecord, tag="thinking"):
    """Thinking of the model, as it comes."""

    text: str


class UsageCounts(JsonObject):
    """The requests of a turn added up: tokens, web searches of vendors, and dollars.

    `unpriced` requests are not in `cost`. `at_least` of them can have cost more: their replies were cut off before they
    were counted.

    `agents` is the same for subagents, if there were any.
    """

    input: Count
    output: Count
    cached: Count
    written: Count
    thinking: Count
    searches: Count
    unpriced: Count
    at_least: Count
    cost: Dollars
    agents: UsageCounts | UnsetType = UNSET


class CommandOutcome(JsonObject):
    """The slash command that was carried out: the text about what it did where `text` is an answer of a model, the ids
    of the events that it stored, and figures for what it shows.
    """

    name: str
    did: str | UnsetType = UNSET
    events: tuple[Id, ...] | UnsetType = UNSET
    figures: Figures | UnsetType = UNSET


class SourceFields(JsonObject):
    """A page that a reply relies on."""

    url: str
    title: str


class ResultRecord(PrintedRecord, tag="result"):
    """The outcome of print mode; the last object unless an error is.

    A turn has `model`, `usage`, `turn` (the id of its first event) and `stop`, with `reason` unless it ended by itself
    with a text. `sources` are the pages that the reply relies on, where a vendor searched the web. With --schema a
    reply that matches is in `structured`. A slash command has `command`, and one that a model answers has both.
    """

    text: str
    agent: str | None
    agent_id: str | None
    model: str | UnsetType = UNSET
    usage: UsageCounts | UnsetType = UNSET
    turn: Id | UnsetType | None = UNSET
    stop: Stop | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    structured: Any = UNSET
    sources: tuple[SourceFields, ...] | UnsetType = UNSET
    command: CommandOutcome | UnsetType = UNSET
