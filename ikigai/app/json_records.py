"""This module defines every JSON object that the program prints, and prints it: one object a line, its kind in `type`.

The schema in docs/reference/json-schema.json is made from these classes, see tests/support/json_schema.py. Exported
histories are not among them: their format is that of `ikigai.export.json_export`.

Every object has the same dialect: compact, UTF-8, characters escaped that a terminal would obey. `agent` is the name of
an agent and `agent_id` its id. Times are in UTC, as RFC 3339 writes them; amounts of money are exact.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ikigai.core.errors import IkigaiError
from ikigai.core.events import Ending
from ikigai.core.messages import StopReason
from ikigai.core.request.cache_diagnosis import MISS_CAUSES
from ikigai.core.views.context_report import CountComparison, RequestPart
from ikigai.system.output import print_lines

_ENCODER = msgspec.json.Encoder(decimal_format="number")

Dollars: TypeAlias = Annotated[Decimal | float | None, Meta(description="US dollars; null if no price is known")]
Id: TypeAlias = Annotated[int, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
Stop: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*StopReason, Ending.INTERRUPTED, Ending.FAILED]})]


class JsonObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all that is printed as JSON."""


# ── print mode ──


class EventRecord(JsonObject, tag="event"):
    """An event of the turn, as it is in the log."""

    agent: str
    agent_id: str
    id: Id
    seq: Count
    at: Time
    kind: str
    content: str | None
    data: dict[str, Any] | None


class DeltaRecord(JsonObject, tag="delta"):
    """Words of the reply, as they come."""

    text: str


class ThinkingRecord(JsonObject, tag="thinking"):
    """Thinking of the model, as it comes."""

    text: str


class UsageCounts(JsonObject):
    """The requests of a turn added up: tokens and dollars. `unpriced` requests are not in `cost`.

    `at_least` of them can have cost more: their replies were cut off before they were counted.

    `agents` is the same for subagents, if there were any.
    """

    input: Count
    output: Count
    cached: Count
    written: Count
    thinking: Count
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


class ResultRecord(JsonObject, tag="result"):
    """The outcome of print mode; the last object unless an error is.

    A turn has `model`, `usage`, `turn` (the id of its first event) and `stop`, with `reason` unless it ended by itself.
    With --schema a reply that matches is in `structured`. A slash command has `command`, and one that a model answers
    has both.
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
    command: CommandOutcome | UnsetType = UNSET


class ErrorRecord(JsonObject, tag="error"):
    """The reason why the program did nothing, or not all, with its exit code and what to do."""

    code: Annotated[int, Meta(ge=1, le=255)]
    message: str
    remedy: str | None = None


# ── agents ──


class AgentFields(JsonObject):
    """An agent. `parent` is where it was forked from, at the event `forked_at`; `lock_owner` the program that writes
    to it.
    """

    agent: str
    agent_id: str
    parent: str | None
    parent_id: str | None
    forked_at: Id | None
    depth: Count
    state: str
    killed: bool
    archived: bool
    model: str
    turns: Count
    tokens: Count
    last_words: str
    lock_owner: str | None
    last_used_at: Time
    problem: str | None


class AgentRecord(AgentFields, tag="agent"):
    """One agent: `ikigai agents show`."""


class AgentsRecord(JsonObject, tag="agents"):
    """The tree of agents, parents before children: `ikigai agents` and /agents."""

    agents: tuple[AgentFields, ...]


class DoneRecord(JsonObject, tag="done"):
    """The outcome of a subcommand that changes something."""

    did: str
    text: str
    agent: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET


# ── the history ──


class ReadableEvent(JsonObject):
    """An event with its text, as people read it."""

    agent: str
    agent_id: str
    id: Id
    seq: Count
    at: Time
    kind: str
    text: str


class EventsRecord(JsonObject, tag="events"):
    """Events in their order: `ikigai history list` and `show`, /search #ID."""

    agent: str
    agent_id: str
    events: tuple[ReadableEvent, ...]


class Hit(JsonObject):
    """An event that was found; `places` are pairs of character offsets in the snippet."""

    agent: str
    agent_id: str
    id: Id
    at: Time
    kind: str
    snippet: str
    places: tuple[tuple[Count, Count], ...]
    in_context: bool | UnsetType = UNSET


class HitsRecord(JsonObject, tag="hits"):
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
    """A message of a recalled turn. `score` ranks messages as that of turns does."""

    id: Id
    kind: str
    at: Time
    score: float
    excerpt: str


class RecalledTurnFields(JsonObject):
    """A turn that a question recalls: `id` is the event that matches best, `first` and `last` are those of the turn.

    `last` is null while the turn is open.
    """

    agent: str
    agent_id: str
    id: Id
    first: Id
    last: Id | None
    score: float
    messages: tuple[RecalledMessageFields, ...]


class RecallRecord(JsonObject, tag="recall"):
    """The turns that a question recalls, the best first: `ikigai history recall`.

    `behind` is how many events are not indexed yet.
    """

    question: str
    turns: tuple[RecalledTurnFields, ...]
    behind: Count


# ── usage ──


class UsageFields(JsonObject):
    """Rows of the usage ledger added up: requests, tokens, dollars, and how often turns left the window."""

    requests: Count
    failed: Count
    interrupted: Count
    retried: Count
    input: Count
    cached: Count
    written: Count
    output: Count
    thinking: Count
    cost: Dollars
    unpriced: Count
    at_least: Count
    prunes: Count
    pruned: Count


class UsageRow(UsageFields):
    """A row for one day, month, model, agent, tree of agents or folder."""

    day: str | UnsetType = UNSET
    month: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    tree: str | UnsetType = UNSET
    folder: str | UnsetType = UNSET


class UsageRecord(JsonObject, tag="usage"):
    """The usage ledger: `ikigai usage`. `agents` is the usage of the agent's subagents, if it has any."""

    by: Literal["day", "month", "model", "agent", "tree", "folder"]
    since: str | None
    agent: str | None
    agent_id: str | None
    rows: tuple[UsageRow, ...]
    total: UsageFields
    agents: UsageFields | UnsetType = UNSET


MissCause: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": list(MISS_CAUSES)})]


class MissCauseFields(JsonObject):
    """The requests that read less from a cache than they could have, for one cause, and the tokens missed."""

    cause: MissCause
    requests: Count
    missed: Count


class CacheFields(JsonObject):
    """The input tokens of some requests: those `cached` were read from a cache, those `missed` could have been, too."""

    requests: Count
    input: Count
    cached: Count
    written: Count
    missed: Count
    causes: tuple[MissCauseFields, ...]


class CacheMissFields(JsonObject):
    """A request that read less from a cache than it could have. `provider` is the provider's own word for the cause."""

    at: Time
    agent: str
    model: str
    input: Count
    cached: Count
    written: Count
    missed: Count
    cause: MissCause
    provider: str | None


class CacheRecord(JsonObject, tag="cache"):
    """Tokens that providers' caches served: `ikigai usage --cache`. `newest` are the newest requests that missed."""

    since: str | None
    agent: str | None
    agent_id: str | None
    total: CacheFields
    newest: tuple[CacheMissFields, ...]


class CostFields(JsonObject):
    """A row of /cost."""

    requests: Count
    input: Count
    cached: Count
    written: Count
    output: Count
    thinking: Count
    unpriced: Count
    at_least: Count
    cost: Dollars


class CostRecord(JsonObject, tag="cost"):
    """Tokens and dollars: /cost. `cache` is about this agent's requests."""

    this_agent: CostFields
    today: CostFields
    in_all: CostFields
    its_agents: CostFields | UnsetType = UNSET
    with_them: CostFields | UnsetType = UNSET
    this_session: CostFields | UnsetType = UNSET
    cache: CacheFields | UnsetType = UNSET


class CapFields(JsonObject):
    """A spending cap, null where there is none, and what it counts: spent, and reserved for requests under way."""

    usd: float | None
    tokens: int | None
    used_usd: float
    used_tokens: Count


class LimitsRecord(JsonObject, tag="limits"):
    """The spending caps: /limit."""

    turn: CapFields
    run: CapFields
    day: CapFields
    agent: CapFields


# ── models, settings, checks, the database ──


class ModelRecord(JsonObject, tag="model"):
    """A model that can be used: `ikigai models`. Prices are dollars per million tokens."""

    model: str
    provider: str
    context: Count
    max_output: Count | None
    levels: tuple[str, ...]
    images: bool
    input_price: float | None
    output_price: float | None


class SettingRecord(JsonObject, tag="setting"):
    """A key of the configuration, its value and where that comes from: `ikigai config` and `config get`."""

    key: str
    value: Any
    origin: str
    allowed: str | UnsetType = UNSET


class McpServerRecord(JsonObject, tag="mcp_server"):
    """An MCP server: `ikigai mcp list` and `test`. `place` names where it is configured; list does not connect, so that
    `state` is null there.
    """

    name: str
    where: str
    place: str
    state: Annotated[str | None, Meta(extra_json_schema={"enum": ["ready", "failed", "login", None]})]
    detail: str | None = None
    protocol: str | None = None
    tools: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


class CheckFields(JsonObject):
    """A finding of the doctor; `remedy` is null where nothing is to be done."""

    about: str
    state: Annotated[str, Meta(extra_json_schema={"enum": ["ok", "warn", "bad"]})]
    said: str
    remedy: str | None


class DoctorRecord(JsonObject, tag="doctor"):
    """The findings of `ikigai doctor` and `ikigai config validate`; `ok` is false if one is bad."""

    ok: bool
    findings: tuple[CheckFields, ...]


class DatabaseRecord(JsonObject, tag="database"):
    """Where the database is and what is in it: `ikigai db status`. Sizes are bytes.

    `schema_version` is that of the tables, `program_version` that of this ikigai. `recall_behind`
    counts the events that are not in the index of recall yet.
    """

    server: str
    where: str
    embedded: bool
    database: str
    schema: str
    user: str
    schema_version: Count
    program_version: Count
    size: Count
    log_size: Count
    agents: Count
    events: Count
    extensions: tuple[str, ...]
    durable: bool
    recall_behind: Count
    connect: str


# ── figures of slash commands ──


class ContextRecord(JsonObject, tag="context"):
    """The window in numbers, in tokens: /context.

    `price` is that of the next request's input without a cache, `cached_price` with one. `cache_seconds` is how long
    the provider's cache is kept from now on: 0 if it has expired, null if there is none.
    """

    model: str
    used: Count
    ceiling: Count
    budget: Count
    budget_from: str
    context: Count
    learned: bool
    room: int
    parts: tuple[RequestPart, ...]
    turns: Count
    turns_out: Count
    messages_out: Count
    pictures: Count
    images: Count
    documents: Count
    documents_size: Count
    prune_fraction: float
    keep_first_turn: bool
    max_history_tokens: Count
    counter: str
    takes_tools: bool
    compared: CountComparison | None
    mcp_deferred: tuple[str, ...]
    price: Dollars
    cached_price: Dollars
    cache_seconds: Count | None


class StatusRecord(JsonObject, tag="status"):
    """Agent, model, window and database: /status. Sizes are tokens."""

    agent: str
    agent_id: str
    model: str
    level: str
    state: str
    used: Count
    ceiling: Count
    budget: Count
    context: Count
    turns: Count
    turns_out: Count
    marks: tuple[str, ...]
    database: str


class ChosenModelRecord(JsonObject, tag="chosen_model"):
    """The model in force: /model and /think. Sizes are tokens; they are null without a model."""

    model: str
    level: str
    origin: str
    context: Count | None
    max_output: Count | None
    takes_tools: bool | None
    levels: tuple[str, ...] | UnsetType = UNSET


class ProfileFields(JsonObject):
    """A profile with what it sets, inherited settings included."""

    name: str
    inherits: str | None
    sets: dict[str, Any]


class ProfilesRecord(JsonObject, tag="profiles"):
    """The profiles, and the one in force: /profile."""

    profile: str
    origin: str
    profiles: tuple[ProfileFields, ...]


class SummaryFields(JsonObject):
    """A summary of turns."""

    id: Id
    at: Time
    text: str
    upto: Id = 0
    covers: tuple[tuple[Id, Id], ...] = ()
    of: tuple[Id, ...] = ()
    turns: Count = 0
    unseen: Count = 0
    focus: str = ""
    automatic: bool = False
    model: str = ""
    cost: Dollars = None
    before: Count = 0
    after: Count = 0
    closed: Id = 0


class SummariesRecord(JsonObject, tag="summaries"):
    """The summary in force, and those of cleared turns: /summary."""

    in_force: SummaryFields | None
    cleared: tuple[SummaryFields, ...]


class SystemPromptRecord(JsonObject, tag="system_prompt"):
    """The system prompt, and the instructions of the project's AGENTS.md: /system."""

    system: str
    default: bool
    instructions: str


class SlashCommandFields(JsonObject):
    """A slash command."""

    name: str
    argument: str
    help: str


class HelpRecord(JsonObject, tag="help"):
    """The slash commands: /help."""

    commands: tuple[SlashCommandFields, ...]


class KeyFields(JsonObject):
    """A key and what it does."""

    keys: str
    help: str


class KeysRecord(JsonObject, tag="keys"):
    """The keys of the prompt: /help keys."""

    keys: tuple[KeyFields, ...]


Figures: TypeAlias = (
    AgentsRecord
    | ChosenModelRecord
    | ContextRecord
    | CostRecord
    | EventsRecord
    | HelpRecord
    | HitsRecord
    | KeysRecord
    | LimitsRecord
    | ProfilesRecord
    | StatusRecord
    | SummariesRecord
    | SystemPromptRecord
)
"""Figures of a slash command that shows something."""

PrintedRecord: TypeAlias = (
    EventRecord
    | DeltaRecord
    | ThinkingRecord
    | ResultRecord
    | ErrorRecord
    | AgentRecord
    | AgentsRecord
    | DoneRecord
    | EventsRecord
    | HitsRecord
    | RecallRecord
    | UsageRecord
    | CacheRecord
    | ModelRecord
    | SettingRecord
    | McpServerRecord
    | DoctorRecord
    | DatabaseRecord
)
"""An object on a line of its own."""


def timestamp(at: float) -> datetime:
    """Return a time in seconds since 1970 as it is printed."""
    return datetime.fromtimestamp(at, UTC)


def encode(record: PrintedRecord) -> str:
    """Return the object as one line, without its end; what a terminal would obey or hide is escaped."""
    text = _ENCODER.encode(record).decode()
    return text if text.isprintable() else re.sub("[^ -~]", _escape_unprintable, text)


def _escape_unprintable(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def use_utf8() -> None:
    """Have standard output take UTF-8, whatever the locale says: JSON is nothing else."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")


def print_answer(answer: str | PrintedRecord) -> None:
    """Print text, or an object on a line. Raise BrokenPipeError when nobody reads, IkigaiError when it cannot be
    written.
    """
    if isinstance(answer, str):
        print_lines(answer)
    else:
        use_utf8()
        print_lines(encode(answer), painted=True)


def print_error(error: IkigaiError) -> None:
    """Print the object of an error, if anybody reads it."""
    with contextlib.suppress(OSError, IkigaiError):
        print_answer(ErrorRecord(code=error.exit_code, message=error.what, remedy=error.remedy or None))
