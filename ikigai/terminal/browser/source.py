"""What the history browser asks of the world: pages of the log, whose they are, and where words stand in them."""

from collections.abc import Mapping
from typing import Protocol

from ikigai.core.events import StoredEvent
from ikigai.core.search.query import Term
from ikigai.core.state.memory import Memory


class Seeker(Protocol):
    """A search; from an event, the next hit in either direction, None where there is none. Both raise StoreError."""

    @property
    def terms(self) -> tuple[Term, ...]: ...
    @property
    def behind(self) -> int:
        """Events that are not in the index yet."""
        ...

    @property
    def reached(self) -> int | None:
        """The event down to which there was time to look the last time; None for all of them."""
        ...

    async def older(self, than: int) -> int | None: ...
    async def newer(self, than: int) -> int | None: ...


class Lineage(Protocol):
    """Names of the agent and its ancestors by id; the clears, rewinds, filters and undos among their events; and the
    agents that began at an event of theirs, by that event.
    """

    @property
    def names(self) -> Mapping[str, str]: ...
    @property
    def controls(self) -> tuple[StoredEvent, ...]: ...
    @property
    def branches(self) -> Mapping[int, tuple[str, ...]]: ...


class Source(Protocol):
    """The history of one agent and its ancestors. What is read raises StoreError."""

    @property
    def agent(self) -> str:
        """Its name."""
        ...

    @property
    def memory(self) -> Memory:
        """What it means now."""
        ...

    @property
    def refusal(self) -> str:
        """Why nothing can be done to it, in words; "" where everything can."""
        ...

    async def lineage(self) -> Lineage: ...

    async def before(self, id: int | None, limit: int) -> tuple[StoredEvent, ...]:
        """The newest events below this id (None: of all), ascending; fewer than `limit` only where they are long, or
        there are no more: none at all says that.
        """
        ...

    async def after(self, id: int, limit: int) -> tuple[StoredEvent, ...]:
        """The oldest events above this id, ascending; the same of their number."""
        ...

    async def seek(self, query: str) -> Seeker:
        """Begin a search. Raises Refused for a query with nothing in it, too."""
        ...
