"""Read one agent without its write lock: memory, history, and the results of its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from ikigai.core.events.events import StoredEvent, UsageReported
from ikigai.core.state.loading import Reading
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.log import history, reading

if TYPE_CHECKING:
    from ikigai.store.connection.replica import ReadingSession
    from ikigai.store.log.paging import LineageNames

_T = TypeVar("_T")


class AgentReader:
    """Reads one agent: memory and history."""

    def __init__(self, session: DatabaseSession, agent: str, pages: ReadingSession) -> None:
        self._session, self._pages = session, pages
        self._agent = agent

    async def load(self, asking: Reading[_T]) -> _T:
        """Load memory, or run another reading of the log, in one snapshot. Another process may be writing."""
        async with self._session.use() as cursor, reading.read_snapshot(cursor):
            return await reading.load(cursor, asking)

    async def history(self, before: int | None, limit: int, glance: bool = False) -> tuple[StoredEvent, ...]:
        """Return the newest `limit` events of the agent and its ancestors with ids below `before` (None: all),
        ascending.

        They include all kinds, also those that clears and rewinds took out of the context. Pass the id of the first one
        to get the page before. With `glance` long tool results have only their beginning.
        """
        async with self._session.use() as cursor:
            return await history.read_events(
                cursor, self._agent, before, limit, history.GLANCE_ENDS if glance else None
            )

    async def page(
        self, limit: int, most_bytes: int, before: int | None = None, after: int | None = None
    ) -> tuple[StoredEvent, ...]:
        """Return a page of the agent's history in either direction; see `paging.read_page`."""
        from ikigai.store.log import paging

        async with self._pages.use() as cursor:
            return await paging.read_page(cursor, self._agent, limit, most_bytes, before, after)

    async def lineage(self) -> LineageNames:
        """Return the agents of this history, and the events that took others out of the context."""
        from ikigai.store.log import paging

        async with self._pages.use() as cursor:
            return await paging.read_lineage(cursor, self._agent)

    async def result(self, call_id: str) -> str | None:
        """Return the whole result of this tool call of the agent or an ancestor, or None."""
        async with self._session.use() as cursor:
            return await history.read_result(cursor, self._agent, call_id)

    async def chosen_model(self) -> str:
        """Return the model of the agent's newest request in a turn that had not fallen back; "" if it is not known."""
        from ikigai.store.sql import usage

        async with self._session.use() as cursor:
            await cursor.execute(usage.CHOSEN_MODEL, {"agent": UUID(self._agent)}, prepare=False)
            return next((model for (model,) in await cursor.fetchall()), "")

    async def last_counted(self) -> UsageReported | None:
        """Return the agent's newest request that has both the provider's token count and ikigai's own size."""
        from ikigai.store.sql import usage

        async with self._session.use() as cursor:
            await cursor.execute(usage.LAST_COUNTED, {"agent": UUID(self._agent)}, prepare=False)
            events = [reading.decode_row(self._agent, row).event for row in await cursor.fetchall()]
        return next((event for event in events if isinstance(event, UsageReported)), None)
