"""Objects about skills and plugins."""

from __future__ import annotations

from ikigai.app.json_records.record_fields import JsonObject, PrintedRecord, Time
from ikigai.core.events.record import Count


class SkillFields(JsonObject):
    """A skill. `listed_tokens` are what its line in the list for models takes, `tokens` its instructions.

    `uses` counts the uses in the newest 500,000 events; null where the log is not read.
    """

    name: str
    description: str
    folder: str
    place: str
    on: bool
    by_model: bool
    by_user: bool
    listed_tokens: Count
    tokens: Count
    uses: Count | None
    last_used_at: Time | None
    warnings: tuple[str, ...]


class SkillsRecord(PrintedRecord, tag="skills"):
    """The skills: /skills and `ikigai skills list`. The list for models takes at most `max_tokens`."""

    skills: tuple[SkillFields, ...]
    max_tokens: Count


class SkillCheckRecord(PrintedRecord, tag="skill_check"):
    """The verdict on a skill: `ikigai skills check`. It is valid without errors."""

    folder: str
    valid: bool
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


class PluginRecord(PrintedRecord, tag="plugin"):
    """An installed plugin: `ikigai plugins list`. One whose content has changed is not used."""

    name: str
    version: str
    folder: str
    changed: bool
    skills: tuple[str, ...]
    servers: tuple[str, ...]
    problems: tuple[str, ...]
