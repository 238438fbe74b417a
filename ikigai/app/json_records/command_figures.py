"""Figures of slash commands."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from ikigai.app.json_records.agent_records import AgentsRecord
from ikigai.app.json_records.history_records import EventsRecord, HitsRecord
from ikigai.app.json_records.record_fields import AgentObject, Id, JsonObject, Time
from ikigai.app.json_records.skill_records import SkillsRecord
from ikigai.app.json_records.usage_records import CostRecord, LimitsRecord
from ikigai.core.events.record import Count
from ikigai.core.views.context_report import ContextRecord
from ikigai.core.views.usage_totals import Dollars


class StatusRecord(AgentObject, tag="status"):
    """Agent, model, window and database: /status. Sizes are tokens."""

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
    """The summary in force, and the summaries of cleared turns: /summary."""

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
    """The slash commands: /help. `own` are your own commands and skills, each with its help."""

    commands: tuple[SlashCommandFields, ...]
    own: dict[str, str] | UnsetType = UNSET


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
    | SkillsRecord
    | StatusRecord
    | SummariesRecord
    | SystemPromptRecord
)
"""Figures of a slash command that shows something."""
