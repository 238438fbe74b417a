"""This module defines the objects about agents."""

from __future__ import annotations

from ikigai.app.json_records.record_fields import Count, Id, JsonObject, Time


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
