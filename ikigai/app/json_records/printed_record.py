"""This module lists the objects that the program prints on a line of their own."""

from __future__ import annotations

from typing import TypeAlias

from ikigai.app.json_records.agent_records import AgentRecord, AgentsRecord, SharesRecord
from ikigai.app.json_records.history_records import EventsRecord, HitsRecord, RecallRecord
from ikigai.app.json_records.installation_records import (
    DatabaseRecord,
    DoctorRecord,
    McpServerRecord,
    ModelRecord,
    SettingRecord,
)
from ikigai.app.json_records.outcome_records import DoneRecord, ErrorRecord
from ikigai.app.json_records.turn_records import DeltaRecord, EventRecord, ResultRecord, ThinkingRecord
from ikigai.app.json_records.usage_records import CacheRecord, UsageRecord

PrintedRecord: TypeAlias = (
    EventRecord
    | DeltaRecord
    | ThinkingRecord
    | ResultRecord
    | ErrorRecord
    | AgentRecord
    | AgentsRecord
    | SharesRecord
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
