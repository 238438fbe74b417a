"""The database as the rest of the program knows it: its agents, their logs, and what people look back at.

What searches and what purges is imported when it is asked for: a start does neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ikigai.core.errors import Busy
from ikigai.core.events import StoredEvent, UsageReported
from ikigai.core.record import Record
from ikigai.core.state.loading import Loading, Reading
from ikigai.core.views.usage_totals import Spent
from ikigai.store import history, reading, schema, usage
from ikigai.store.agents import Agent, Agents
from ikigai.store.connection import DEADLINE, Session
from ikigai.store.follow import Follower
from ikigai.store.log import AgentLog
from ikigai.store.mail import Mails
from ikigai.store.search.indexer import Indexer
from ikigai.store.sql import agents as queries
from ikigai.store.tree import Family

if TYPE_CHECKING:
    from ikigai.core.search.prompt_history import Earlier
    from ikigai.core.transfer.redact import Wanted
    from ikigai.core.transfer.unsaved import Unsaved
    from ikigai.store import purge as purging
    from ikigai.store.paging import Lineage
    from ikigai.store.search.search import Search
    from ikigai.store.transfer import Export, Import
    from ikigai.store.unsaved_place import Place
    from ikigai.store.window_history import Filled

_T = TypeVar("_T")


IDLE = 10.0
"""Seconds after which the second connection of a program is ended: idle programs hold one each."""


class Status(Record, frozen=True):
    """What `ikigai db status` tells. Sizes are bytes; `events` is an estimate once there are many.

    `durable` says that the server keeps what it has confirmed even when the power fails.
    """

    where: str
    server: str
    database: str
    user: str
    schema: str
    schema_version: int
    size: int
    messages_size: int
    agents: int
    events: int
    extensions: tuple[str, ...]
    durable: bool


class Database:
    """Made by `Database.open`. Everything goes over one connection, which is made anew when it was lost.

    Only what searches, and what fills the index for that, has a second one while it does: nothing that is stored waits
    for them. Whoever follows an agent listens on a further one.
    """

    def __init__(self, session: Session, beside: Session, schema_version: int) -> None:
        self._session, self._beside = session, beside
        self.indexer = Indexer(beside)
        self._open: dict[str, AgentLog] = {}
        self.schema_version = schema_version
        self.agents = Agents(session)
        self.family = Family(session, self.agents)
        self.mail = Mails(session)

    @classmethod
    async def open(
        cls,
        dsn: str,
        migrations: Path,
        write: bool = True,
        deadline: float = DEADLINE,
        revive: Callable[[], Awaitable[str]] | None = None,
        told: Callable[[int, int], None] = lambda done, total: None,
    ) -> Self:
        """Connect, and bring the schema up to this program's.

        `dsn` "" means libpq's own variables. With `write` false nothing is ever changed, and a schema newer than this
        program is no obstacle. `deadline` is how many seconds any one statement may take; `revive` is called before a
        lost connection is made anew, and says where; `told` hears of each migration of how many.
        Raises BadDatabase (NewerSchema among them) and Unavailable.
        """
        turn = asyncio.Lock()

        async def revived() -> str:
            async with turn:  # both connections may have been lost
                assert revive
                return await revive()

        again, newest = revived if revive else None, len(schema.migrations(migrations))
        session = Session(dsn, write, deadline, again, newest)
        beside = Session(dsn, write, deadline, again, newest, IDLE)
        try:
            return cls(session, beside, await schema.make_current(session, migrations, write, told))
        except BaseException:
            await session.close()
            raise

    @cached_property
    def _search(self) -> Search:
        from ikigai.store.search.search import Search

        return Search(self._beside, self.indexer)

    @property
    def host(self) -> str:
        """Where the server is, in a word; "local" on a socket."""
        host = self._session.place.host
        return "local" if not host or host.startswith("/") else host

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of its connection, by name."""
        return self._session.passwords

    async def open_agent(self, agent: Agent, directory: str = "") -> AgentLog:
        """Take the pen of the agent, in this working directory.

        Raises Busy, with the holder, when it is open in another program or already in this one.
        """
        self._open = {id: log for id, log in self._open.items() if not log.closed}
        if agent.id in self._open:
            raise Busy(f"Agent {agent.name} is open in this program already.", "Go on there.")
        log = self._open[agent.id] = AgentLog(self._session, agent, directory, self.indexer.news)
        try:
            await log.open()
        except BaseException:
            self._open.pop(agent.id, None)
            raise
        return log

    def reader(self, agent: Agent) -> Reader:
        """The agent as it looks to somebody who does not write, whoever has the pen."""
        return Reader(self._session, agent.id)

    def follow(self, agent: Agent, load: Callable[[], Loading]) -> Follower:
        """Follow what another program stores and says in this agent; `load` begins the loading of its memory.

        It has a connection of its own, for whoever asks for it to close.
        """
        return Follower(self._session.another(), agent.id, load)

    async def prompts(self, limit: int) -> list[str]:
        """What users typed last, over all agents: at most `limit` different texts, the newest first."""
        async with self._session.use() as cursor:
            return await history.prompts(cursor, limit)

    async def earlier(
        self, typed: str, here: str, before: int | None, most: tuple[int, int]
    ) -> tuple[list[Earlier], int | None]:
        """What users typed that fits, of the next stretch of it, and where that ends: see `history.earlier`."""
        async with self._session.use() as cursor:
            return await history.earlier(cursor, typed, here, before, most)

    async def spent(
        self, agent: str | Sequence[str] | None = None, since: float | None = None, ids: Sequence[int] | None = None
    ) -> Spent:
        """What the ledger's requests took; `usage.spent` says which."""
        async with self._session.use() as cursor:
            return await usage.spent(cursor, agent, since, ids)

    async def spent_by(
        self, by: usage.By, agent: str | None = None, since: float | None = None
    ) -> list[tuple[str, Spent]]:
        """The same by day, model or agent."""
        async with self._session.use() as cursor:
            return await usage.spent_by(cursor, by, agent, since)

    async def spent_over_time(
        self, most: int, agent: str | None = None, since: float | None = None
    ) -> tuple[usage.Unit, list[tuple[str, Spent]], Spent]:
        """The same over time; see `usage.over_time`."""
        async with self._session.use() as cursor:
            return await usage.over_time(cursor, most, agent, since)

    async def filled(self, agent: str, most: int, since: float | None = None) -> list[Filled]:
        """How full the window of the agent with this id was, in its newest turns; see `window_history.turns`."""
        from ikigai.store import window_history as plotting

        async with self._session.use() as cursor:
            return await plotting.turns(cursor, agent, most, since)

    async def chosen(self, agent: str, key: str) -> Any:
        """What the agent with this id has chosen of itself for a setting, None for nothing."""
        from ikigai.store import window_history as plotting

        async with self._session.use() as cursor:
            return await plotting.chosen(cursor, agent, key)

    def purge(self, wanted: Wanted | None, ids: purging.Ids, agent: str | None = None) -> purging.Purge:
        """A purge of the events with these ids, of this agent's alone if one is named; of those that hold `wanted`."""
        from ikigai.store import purge as purging

        return purging.Purge(self._session, wanted, ids, agent)

    @property
    def search(self):
        """`Search.search`: events in which something was said."""
        return self._search.search

    @property
    def excerpts(self):
        """`Search.excerpts`: what was said that may answer a question."""
        return self._search.excerpts

    @property
    def seeker(self):
        """`Search.seeker`: from hit to hit in one history."""
        return self._search.seeker

    def exported(self, agent: Agent, first: int = 0, last: int = reading.NO_LIMIT) -> Export:
        """The events of the agent and its ancestors with ids from `first` to `last`."""
        from ikigai.store.transfer import Export

        return Export(self._beside, agent, first, last)

    def importing(self) -> Import:
        """An agent to be made of the events of another."""
        from ikigai.store.transfer import Import

        return Import(self._beside)

    async def place(self, unsaved: Unsaved) -> Place:
        """Where events belong that another run could not store."""
        from ikigai.store import unsaved_place

        async with self._session.use() as cursor:
            return await unsaved_place.place(cursor, unsaved)

    async def fork_with(self, parent: Agent, place: Place, unsaved: Unsaved, name: str = "") -> Agent:
        """A fork of `parent` with these events; see `recovery.fork`."""
        from ikigai.store import recovery

        return await self.agents.find(await recovery.fork(self._session, parent, place, unsaved, name))

    async def lineage(self, agent: str) -> dict[str, int | None]:
        """The ids of the agent and its ancestors, each with the last event that belongs to the agent; None for all."""
        from ikigai.store.search import search

        async with self._session.use() as cursor:
            return await search.lineage(cursor, agent)

    async def around(self, id: int, before: int = 3, after: int = 3) -> tuple[str, tuple[StoredEvent, ...]]:
        """The event `id` with those beside it in its agent, and the agent's name. Raises Refused when there is none."""
        async with self._session.use() as cursor:
            return await history.around(cursor, id, before, after)

    async def status(self) -> Status:
        async with self._session.use() as cursor:
            await cursor.execute(queries.STATUS)
            ((server, name, user, schema, size, messages, rows, agents, extensions, durable),) = await cursor.fetchall()
            if rows < 100_000:
                await cursor.execute(queries.COUNT_EVENTS)
                ((rows,),) = await cursor.fetchall()
        where, version = str(self._session.place), self._session.greeting.schema_version
        return Status(
            where, server, name, user, schema, version, size, messages, agents, rows, tuple(extensions), durable
        )

    async def close(self) -> None:
        """Put down every pen and disconnect. Never fails."""
        for log in self._open.values():
            await log.close()
        await self._session.close()
        await self._beside.close()


class Reader:
    """Reads one agent: memory and history."""

    def __init__(self, session: Session, agent: str) -> None:
        self._session = session
        self._agent = agent

    async def load(self, asking: Reading[_T]) -> _T:
        """Memory as of one moment, or what else is asked of the log, though somebody else may be writing."""
        async with self._session.use() as cursor, reading.snapshot(cursor):
            return await reading.load(cursor, asking)

    async def history(self, before: int | None, limit: int, glance: bool = False) -> tuple[StoredEvent, ...]:
        """The newest `limit` events of the agent and its ancestors with ids below `before` (None: all), ascending.

        All kinds, whatever clears and rewinds say. For the page before pass the id of the first one. At a glance long
        tool results have only their beginning.
        """
        async with self._session.use() as cursor:
            return await history.events(cursor, self._agent, before, limit, history.GLANCE if glance else None)

    async def page(
        self, limit: int, most_bytes: int, before: int | None = None, after: int | None = None
    ) -> tuple[StoredEvent, ...]:
        """A page of the same in either direction; `paging.page` says which."""
        from ikigai.store import paging

        async with self._session.use() as cursor:
            return await paging.page(cursor, self._agent, limit, most_bytes, before, after)

    async def lineage(self) -> Lineage:
        """Whose history it is, and what has taken events out of the context."""
        from ikigai.store import paging

        async with self._session.use() as cursor:
            return await paging.lineage(cursor, self._agent)

    async def result(self, call_id: str) -> str | None:
        """The whole text that came of this tool call of the agent or an ancestor; None where nothing did."""
        async with self._session.use() as cursor:
            return await history.result(cursor, self._agent, call_id)

    async def last_counted(self) -> UsageReported | None:
        """The agent's newest request of which both the provider's count and our own size are known."""
        async with self._session.use() as cursor:
            return await usage.last_counted(cursor, self._agent)
