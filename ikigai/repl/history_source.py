"""Give the history browser the agent on screen, its log, and the search in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.events.events import StoredEvent
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.repl.active_agent import ActiveAgent
    from ikigai.store.log.paging import LineageNames
    from ikigai.store.search.search import SearchCursor

MAX_PAGE_BYTES = 2_000_000
"""Bytes of one page, as stored."""


class HistorySource:
    """`terminal.browsable_history.HistoryPages` over the database, for the agent on screen when this is built."""

    def __init__(self, services: Services, active_agent: ActiveAgent) -> None:
        assert active_agent.agent and active_agent.memory
        self._database, self._active_agent = services.database, active_agent
        self._agent, self._memory = active_agent.agent, active_agent.memory
        self._reader = services.database.reader(active_agent.agent)

    @property
    def agent(self) -> str:
        return self._agent.name

    @property
    def memory(self) -> Memory:
        if self._on_screen:
            self._memory = self._active_agent.memory or self._memory
        return self._memory

    @property
    def refusal(self) -> str:
        if not self._on_screen:
            return f"{self._agent.name} is no longer the agent on screen, so it cannot be changed here."
        how = "f continues from there in another agent."
        return "" if self._active_agent.agent_loop else f"This agent is read-only here: {how}"

    @property
    def _on_screen(self) -> bool:
        """True if the agent is still on screen; keys that were typed ahead may have switched to another one."""
        return self._active_agent.agent is not None and self._active_agent.agent.id == self._agent.id

    async def lineage(self) -> LineageNames:
        return await self._reader.lineage()

    async def before(self, id: int | None, limit: int) -> tuple[StoredEvent, ...]:
        return await self._reader.page(limit, MAX_PAGE_BYTES, before=id)

    async def after(self, id: int, limit: int) -> tuple[StoredEvent, ...]:
        return await self._reader.page(limit, MAX_PAGE_BYTES, after=id)

    async def seek(self, query: str) -> SearchCursor:
        return await self._database.seeker(query, self._agent.id)
