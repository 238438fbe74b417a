"""Protocols by which the history browser reads pages of the log, agents and search hits."""

from collections.abc import Mapping
from typing import Protocol

from ikigai.core.events.events import StoredEvent
from ikigai.core.search.query import Term
from ikigai.core.state.memory import Memory


class HitSeeker(Protocol):
    """A search. From an event, `older` and `newer` return the next hit, or None. Both raise StoreError."""

    @property
    def terms(self) -> tuple[Term, ...]: ...
    @property
    def behind(self) -> int:
        """The number of events that are not in the index yet."""
        ...

    @property
    def reached(self) -> int | None:
        """The event down to which the last call had time to look; None for all of them."""
        ...

    async def older(self, than: int) -> int | None: ...
    async def newer(self, than: int) -> int | None: ...


class BrowserLineage(Protocol):
    """The names of the agent and its ancestors by id, their control events, and the agents that fork off them, by
    event.

    Control events are clears, rewinds, filters and undos.
    """

    @property
    def names(self) -> Mapping[str, str]: ...
    @property
    def controls(self) -> tuple[StoredEvent, ...]: ...
    @property
    def branches(self) -> Mapping[int, tuple[str, ...]]: ...


class HistoryPages(Protocol):
    """The history of one agent and its ancestors. Methods that read raise StoreError."""

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def memory(self) -> Memory:
        """The agent's memory as it is now."""
        ...

    @property
    def refusal(self) -> str:
        """The reason in words why the agent cannot be changed; "" where it can."""
        ...

    async def lineage(self) -> BrowserLineage: ...

    async def before(self, id: int | None, limit: int) -> tuple[StoredEvent, ...]:
        """Return the newest events below `id` (None: of all), ascending.

        There are fewer than `limit` only where they are long or where there are no more; no event at all means no more.
        """
        ...

    async def after(self, id: int, limit: int) -> tuple[StoredEvent, ...]:
        """Return the oldest events above `id`, ascending. Their number is limited as in `before`."""
        ...

    async def seek(self, query: str) -> HitSeeker:
        """Begin a search. Raise Rejected also for a query without any term."""
        ...
