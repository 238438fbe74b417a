"""Objects of a subcommand that changed something, and of an error."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ikigai.app.json_records.record_fields import PrintedRecord


class DoneRecord(PrintedRecord, tag="done"):
    """The outcome of a subcommand that changes something."""

    did: str
    text: str
    agent: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET


class ErrorRecord(PrintedRecord, tag="error"):
    """The reason why the program did nothing, or not all, with its exit code and what to do."""

    code: Annotated[int, Meta(ge=1, le=255)]
    message: str
    remedy: str | None = None
