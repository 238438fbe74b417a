"""Objects about models, settings, MCP servers, the doctor's findings and the database."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from ikigai.app.json_records.record_fields import JsonObject, PrintedRecord
from ikigai.core.events.record import Count


class ModelRecord(PrintedRecord, tag="model"):
    """A model that can be used: `ikigai models`. Prices are dollars per million tokens."""

    model: str
    provider: str
    context: Count
    max_output: Count | None
    levels: tuple[str, ...]
    images: bool
    input_price: float | None
    output_price: float | None


class SettingRecord(PrintedRecord, tag="setting"):
    """A key of the configuration, its value and where that comes from: `ikigai config` and `config get`."""

    key: str
    value: Any
    origin: str
    allowed: str | UnsetType = UNSET


class McpServerRecord(PrintedRecord, tag="mcp_server"):
    """An MCP server: `ikigai mcp list` and `test`. `place` names where it is configured; list does not connect, so that
    `state` is null there. `problems` are sentences about what it has and cannot be offered, or not to every model.
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
    problems: tuple[str, ...] = ()


class CheckFields(JsonObject):
    """A finding of the doctor; `remedy` is null where nothing is to be done."""

    about: str
    state: Annotated[str, Meta(extra_json_schema={"enum": ["ok", "warn", "bad"]})]
    said: str
    remedy: str | None


class DoctorRecord(PrintedRecord, tag="doctor"):
    """The findings of `ikigai doctor` and `ikigai config validate`; `ok` is false if one is bad."""

    ok: bool
    findings: tuple[CheckFields, ...]


class DatabaseRecord(PrintedRecord, tag="database"):
    """Where the database is and what is in it: `ikigai db status`. Sizes are bytes, `agents` and `events` estimates
    once there are many.

    `schema_version` is the version of the tables, `program_version` the version of this ikigai. `index_behind` counts
    the events that are not in the index of words yet, by which searches and recall find.
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
    index_behind: Count
    connect: str
