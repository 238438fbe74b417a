"""List the agents to go to, for a picker: by name, folder and words of their conversations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.core.agents.tree import THIS_PROGRAM
from ikigai.core.errors import Rejected
from ikigai.system import paths
from ikigai.terminal.browser.picker_source import PickerRow
from ikigai.terminal.input.prompt_finder import format_ago, shorten_home

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.forks.agent_tree import AgentSummary

PAGE_AGENTS = 50
"""Agents that are read together."""
MAX_HITS = 50
"""Events that a search for words finds at most."""


class AgentSource:
    """The agents of a database, without the one on screen, whose id is `current`."""

    title, verb, more_key = "Agents", "switches", "shows archived and subagents, too"

    def __init__(self, database: Database, current: str = "") -> None:
        self._database, self._current = database, current
        self._next: tuple[str, str] | None = None  # where those found by name go on
        self._named = True  # there may be more of those

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return the agents by name and folder first, then those in which the words were said."""
        if not shown:
            self._next, self._named = None, True
        found: list[AgentSummary] = []
        while self._named and not found:
            found, self._next = await self._database.tree.page(
                PAGE_AGENTS, self._next, typed=typed.strip(), everything=everything
            )
            self._named = self._next is not None
        complete = not self._named
        if complete and typed.strip():
            ids = await self._ids_by_words(typed)
            found += await self._database.tree.to_choose(ids, everything) if ids else []
        known = {row.value for row in shown} | {self._current}
        rows = {each.id: _row(each) for each in found if each.id not in known}
        return list(rows.values()), complete

    async def _ids_by_words(self, typed: str) -> list[str]:
        try:
            hits = (await self._database.search(typed, limit=MAX_HITS)).hits
        except Rejected:  # no words yet
            return []
        return list(dict.fromkeys(hit.agent_id for hit in hits))

    def typed_value(self, typed: str) -> str:
        raise Rejected("No agent matches.", "Tab shows archived ones, too; Ctrl+U clears the filter.")


def _row(agent: AgentSummary) -> PickerRow:
    if agent.holder and agent.holder != THIS_PROGRAM:
        state = f"open in another ikigai ({agent.holder})"
    else:
        state = ("running" if agent.holder else "stopped in a turn") if agent.in_turn else ""
    here = agent.directory == paths.current_directory()
    kind = "archived" if agent.archived else "subagent" if agent.made else ""
    folder = "this folder" if here else shorten_home(agent.directory)
    facts = (format_ago(time.time() - agent.last_used_at), kind, state, folder)
    return PickerRow(agent.id, agent.name, facts, agent.last_words)
