"""Decide who may write to an agent, and open its log for writing.

The one process may write that has the write lock. Where another server has taken over, the open logs are completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ikigai.core.errors import AgentLocked, Rejected, StoreError
from ikigai.store.agents.agents import Agent
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.log import AgentLog

if TYPE_CHECKING:
    from ikigai.core.relocation.unsaved import Unsaved
    from ikigai.store.connection.connection_watch import ConnectionWatch
    from ikigai.store.log.healing import LogTail


class OpenLogs:
    """The logs that this process has open. `news` is set when a turn has ended; `keep_events` writes events to a file
    while their server is away, and returns the function that removes it.
    """

    def __init__(self, session: DatabaseSession, news: asyncio.Event) -> None:
        self._session, self._news = session, news
        self.keep_events: Callable[[Unsaved], Callable[[], None]] | None = None
        self._logs: dict[str, AgentLog] = {}
        self._answered_by = ""  # the server and its timeline
        self._watch: ConnectionWatch | None = None

    @property
    def ids(self) -> set[str]:
        """The ids of the agents whose logs are open."""
        return {log.agent for log in self._open()}

    def _open(self) -> list[AgentLog]:
        return [log for log in self._logs.values() if not log.closed]

    async def open(self, agent: Agent, directory: str) -> AgentLog:
        """Acquire the write lock of the agent, in this working directory.

        Raise AgentLocked, with the lock owner, if the agent is open in another process or already in this one.
        """
        self._logs = {log.agent: log for log in self._open()}
        if agent.id in self._logs:
            raise AgentLocked(f"Agent {agent.name} is open in this program already.", "Use it there.")
        tail = self._new_tail(agent)
        log = self._logs[agent.id] = AgentLog(self._session, agent, directory, self._news, tail)
        try:
            if tail and not self._answered_by:
                await self._note_server()
            await log.open()
        except BaseException:
            self._logs.pop(agent.id, None)
            raise
        return log

    async def close(self) -> None:
        """Release every write lock. Never fails."""
        if self._watch:
            await self._watch.stop()
        for log in self._logs.values():
            await log.close()

    def _new_tail(self, agent: Agent) -> LogTail | None:
        """Return what keeps the newest events of an agent; None where no other server can take over."""
        if self._session.is_embedded:
            return None
        from ikigai.store.log.healing import LogTail

        if self._watch is None:
            from ikigai.store.connection.connection_watch import ConnectionWatch

            self._session.on_lost, self._session.on_reconnected = self._on_lost, self._on_reconnected
            self._watch = ConnectionWatch(self._session)
            self._watch.start()
        return LogTail(agent, self.keep_events)

    async def _note_server(self) -> None:
        """Note which server answers, before an agent is opened for the first time."""
        from ikigai.store.log import healing

        async with self._session.use() as cursor:
            self._answered_by = await healing.read_server(cursor)

    def _on_lost(self) -> None:
        for log in self._open():
            if log.tail:
                log.tail.on_lost(log.name)

    async def _on_reconnected(self, cursor: Cursor) -> None:
        """Where another server has taken over, store again what it lacks of the agents that are open here.

        Otherwise each of them looks at its log when it is used next.
        """
        from ikigai.store.log import healing

        before, now = self._answered_by, await healing.read_server(cursor)
        if before != now:
            logs = self._open()
            await healing.reserve_ids(cursor, max((log.tail.newest for log in logs if log.tail), default=0))
            for log in logs:
                with suppress(StoreError, Rejected):  # its own next use also raises it
                    await log.resume(cursor)
        self._answered_by = now
