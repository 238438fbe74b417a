"""Objects about agents."""

from __future__ import annotations

from ikigai.app.json_records.record_fields import AgentObject, Id, PrintedRecord, Time
from ikigai.core.events.record import Count


class AgentFields(AgentObject):
    """An agent. `parent` is where it was forked from, at the event `forked_at`; `lock_owner` the program that writes to
    it.
    """

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
