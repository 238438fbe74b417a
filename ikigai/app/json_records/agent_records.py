"""This module defines the objects about agents."""

from __future__ import annotations

from ikigai.app.json_records.record_fields import AgentObject, Id, JsonObject, PrintedRecord, Time
from ikigai.core.record import Count


class AgentFields(AgentObject):
    """An agent. `owner` is null for the user's own; `parent` is where it was forked from, at the event `forked_at`;
    `lock_owner` the program that writes to it.
    """

    owner: str | None
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


class AgentRecord(AgentFields, PrintedRecord, tag="agent"):
    """One agent: `ikigai agents show`."""


class AgentsRecord(PrintedRecord, tag="agents"):
    """The tree of agents, parents before children: `ikigai agents` and /agents.

    `more` says that agents which were used earlier are left out: /agents has the 100 that were used last, and
    `ikigai agents list` all, unless --limit says how many.
    """

    agents: tuple[AgentFields, ...]
    more: bool


class ShareFields(JsonObject):
    """An agent that its owner, null for the user, shares with another user. `write`: they may continue it, too."""

    agent: str
    agent_id: str
    owner: str | None
    user: str
    write: bool


class SharesRecord(PrintedRecord, tag="shares"):
    """Agents that are shared by the user, or with the user: `ikigai agents share`."""

    shares: tuple[ShareFields, ...]
