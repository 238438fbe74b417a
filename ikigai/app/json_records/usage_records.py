"""Objects about usage: the ledger, providers' caches, costs, spending caps."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from ikigai.app.json_records.record_fields import JsonObject, PrintedRecord, Time
from ikigai.core.events.record import Count
from ikigai.core.request.cache_diagnosis import MISS_CAUSES
from ikigai.core.views.usage_totals import Dollars


class UsageFields(JsonObject):
    """Rows of the usage ledger added up: requests, tokens, dollars, and how often turns left the window.

    `searches` are the web searches that vendors ran and charged for.
    """

    requests: Count
    failed: Count
    interrupted: Count
    retried: Count
    input: Count
    cached: Count
    written: Count
    output: Count
    thinking: Count
    searches: Count
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


class UsageRecord(PrintedRecord, tag="usage"):
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
    """The input tokens of some requests: `cached` were read from a cache, `missed` could have been."""

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


class CacheRecord(PrintedRecord, tag="cache"):
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
    searches: Count
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
    """A spending cap, or null, and the amounts that it counts: spent, and reserved for requests under way."""

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
