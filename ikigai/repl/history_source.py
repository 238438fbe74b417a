"""The history browser's view of the world: the agent on screen, its log, and the search in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ikigai.core.events import StoredEvent
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.app.services import World
    from ikigai.store.agents import Agent
    from ikigai.store.paging import Lineage
    from ikigai.store.search.seek import Seeker

MOST_BYTES = 2_000_000
"""Of one page, as stored."""


class Seated(Protocol):
    """The agent on screen, its memory, and its loop; that is None where it is only looked at."""

    @property
    def agent(self) -> Agent | None: ...
    @property
    def memory(self) -> Memory | None: ...
    @property
    def runtime(self) -> object | None: ...


class History:
    """A `browser_source.Source` over the database, for the agent that is on screen when it is made."""

    def __init__(self, world: World, seat: Seated) -> None:
        assert seat.agent and seat.memory
        self._database, self._seat = world.database, seat
        self._agent, self._known = seat.agent, seat.memory
        self._reader = world.database.reader(seat.agent)

    @property
    def agent(self) -> str:
        return self._agent.name

    @property
    def memory(self) -> Memory:
        if self._on_screen:
            self._known = self._seat.memory or self._known
        return self._known

    @property
    def refusal(self) -> str:
        if not self._on_screen:
            return f"{self._agent.name} is not on the screen any more: nothing can be done to it."
        return "" if self._seat.runtime else "This agent is read-only here: f goes on from there with another one."

    @property
    def _on_screen(self) -> bool:
        """What is typed ahead may have gone to another agent meanwhile."""
        return self._seat.agent is not None and self._seat.agent.id == self._agent.id

    async def lineage(self) -> Lineage:
        return await self._reader.lineage()

    async def before(self, id: int | None, limit: int) -> tuple[StoredEvent, ...]:
        return await self._reader.page(limit, MOST_BYTES, before=id)

    async def after(self, id: int, limit: int) -> tuple[StoredEvent, ...]:
        return await self._reader.page(limit, MOST_BYTES, after=id)

    async def seek(self, query: str) -> Seeker:
        return await self._database.seeker(query, self._agent.id)
