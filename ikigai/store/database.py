"""The database for the rest of the program: its agents, their logs, reports of usage, search and purge.

Only what connects is imported with this module; the rest on first use, or by a start while the server answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ikigai.core.events.record import Record
from ikigai.store.agents.agents import Agent, Agents
from ikigai.store.connection.address import DEFAULT_SCHEMA, ServerAddress
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import STATEMENT_DEADLINE
from ikigai.store.schema import schema
from ikigai.store.sql import agents as queries

if TYPE_CHECKING:
    from ikigai.core.events.events import StoredEvent
    from ikigai.core.relocation.position import UnsavedPosition
    from ikigai.core.relocation.redact import PurgeTarget
    from ikigai.core.relocation.unsaved import Unsaved
    from ikigai.core.state.loading import Loading
    from ikigai.store.agents.undelivered_mail import MailStore
    from ikigai.store.connection.replica import ReplicaLag, ReplicaSession
    from ikigai.store.connection.server_probe import ServerProbe
    from ikigai.store.forks.agent_tree import AgentTree
    from ikigai.store.log.agent_reader import AgentReader
    from ikigai.store.log.follow import Follower
    from ikigai.store.log.log import AgentLog
    from ikigai.store.log.write_access import OpenLogs
    from ikigai.store.purge.purge import Ids, Purge
    from ikigai.store.search.indexer import Indexer
    from ikigai.store.search.prompts import PromptLookup
    from ikigai.store.search.search import EventSearch
    from ikigai.store.search.turn_recall import TurnRecall
    from ikigai.store.transfer.transfer import Export, Import
    from ikigai.store.usage.usage import UsageReports

MAX_COUNTED_EVENTS, MAX_COUNTED_AGENTS = 100_000, 5_000
"""The numbers from which on the status estimates how many there are."""
IDLE_TIMEOUT = 10.0
"""Seconds until the second connection of a program is closed: idle programs hold one each."""


class DatabaseInfo(Record, frozen=True):
    """The output of `ikigai db status`. Sizes are bytes; `events` and `agents` are estimates once there are many.

    `durable` says that the server keeps confirmed writes even when the power fails. `index_behind` counts the events
    that searches and recall do not know yet.
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
    index_behind: int

    @property
    def holds(self) -> str:
        """The numbers of agents and events in words, with "about" where they are estimates."""
        numbers = (self.agents, "agent", MAX_COUNTED_AGENTS), (self.events, "event", MAX_COUNTED_EVENTS)
        return ", ".join(
            f"{'about ' * (number >= counted)}{number:,} {noun}{'s' * (number != 1)}"
            for number, noun, counted in numbers
        )


class Database:
    """The database of one process. Made by `Database.open`, which may have migrated the schema from `version_before`,
    0 if there was none.

    Everything uses one connection, which is made anew after a loss. Search and the indexer share a second one while
    they work, so that no write waits for them. Each follower of an agent listens on a further one.
    """

    def __init__(self, session: DatabaseSession, beside: DatabaseSession, schema_version: int) -> None:
        self._session, self._beside = session, beside
        self._news = asyncio.Event()  # there may be something to index
        self._replica: ReplicaSession | None = None
        self.schema_version = schema_version
        self.version_before = session.info.schema_version
        self.agents = Agents(session)

    @classmethod
    async def open(
        cls,
        dsn: str,
        migrations: Path,
        write: bool = True,
        deadline: float = STATEMENT_DEADLINE,
        revive: Callable[[], Awaitable[str]] | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        name: str = DEFAULT_SCHEMA,
        check: Callable[[DatabaseSession], Awaitable[None]] | None = None,
        replicated: bool = False,
    ) -> Self:
        """Connect, and bring the schema `name` up to this program's.

        `dsn` "" means libpq's own variables. With `write` false nothing is ever changed, and a newer schema is allowed.
        `deadline` is how many seconds any one statement may take. `revive` runs before each reconnect and returns the
        address. `on_progress` is called with the number of each migration and of all. `check` is called with the
        session before anything is changed. With `replicated` each commit waits for a synchronous standby. Raise
        BadDatabase (NewerSchema among them) or Unavailable.
        """
        lock = asyncio.Lock()

        async def revived() -> str:
            async with lock:  # both connections may have been lost
                assert revive
                return await revive()

        again, newest = revived if revive else None, schema.SCHEMA_VERSION
        session = DatabaseSession(dsn, write, deadline, again, newest, None, name, replicated)
        beside = DatabaseSession(dsn, write, deadline, again, newest, IDLE_TIMEOUT, name, replicated)
        try:
            if check:
                await check(session)
            return cls(session, beside, await schema.make_current(session, migrations, write, on_progress))
        except BaseException:
            await session.close()
            raise

    def seal_with(self, seal: Callable[[bytes], str] | None) -> None:
        """Seal rows that grant something from now on."""
        self._session.seal = seal

    @cached_property
    def logs(self) -> OpenLogs:
        """The logs that this process writes."""
        from ikigai.store.log.write_access import OpenLogs

        return OpenLogs(self._session, self._news)

    @cached_property
    def indexer(self) -> Indexer:
        """Fills the indexes that search and recall read."""
        from ikigai.store.search.indexer import Indexer

        return Indexer(self._beside, self._news)

    @cached_property
    def tree(self) -> AgentTree:
        """The tree of agents."""
        from ikigai.store.forks.agent_tree import AgentTree

        return AgentTree(self._session, self.agents)

    @cached_property
    def mail(self) -> MailStore:
        """The messages between agents."""
        from ikigai.store.agents.undelivered_mail import MailStore

        return MailStore(self._session)

    @cached_property
    def usage(self) -> UsageReports:
        """The reports of usage."""
        from ikigai.store.usage.usage import UsageReports

        return UsageReports(self._session)

    @cached_property
    def _search(self) -> EventSearch:
        from ikigai.store.search.search import EventSearch

        return EventSearch(self._replica or self._beside, self.indexer)

    @cached_property
    def _recall(self) -> TurnRecall:
        from ikigai.store.search.turn_recall import TurnRecall

        return TurnRecall(self._replica or self._beside, self.indexer)

    @property
    def host(self) -> str:
        """The server's host for the status line; see `ServerAddress.short`."""
        return self._session.place.short

    @property
    def place(self) -> ServerAddress:
        """The server, the database and the role."""
        return self._session.place

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of its connection, by name."""
        return self._session.passwords

    async def probe(self) -> ServerProbe:
        """Try session locks and notifications of the server."""
        from ikigai.store.connection.server_probe import probe

        return await probe(self._session)

    async def standbys(self) -> str:
        """Return the server's setting that names its synchronous standbys; "" if commits wait for none."""
        async with self._session.use() as cursor:
            await cursor.execute(queries.STANDBYS)
            ((names,),) = await cursor.fetchall()
        return names.strip()

    def read_from(self, dsn: str) -> None:
        """Let a replica serve search, recall, the browser, exports and loading by followers, where it has caught up."""
        from ikigai.store.connection.replica import ReplicaSession

        replica = DatabaseSession(dsn, write=False, idle=IDLE_TIMEOUT, schema=self._session.schema)
        self._replica = ReplicaSession(self._beside, replica)

    async def replica_lag(self) -> ReplicaLag | None:
        """Return how far the replica is behind, or None. Raise StoreError if it is away."""
        return await self._replica.lag() if self._replica else None

    def keep_unlisted(self) -> None:
        """Archive the agents made from now on, and let none become the one that the user used last."""
        self._session.unlisted = True

    async def open_agent(self, agent: Agent, directory: str = "") -> AgentLog:
        """Open the log of the agent; see `OpenLogs.open`."""
        return await self.logs.open(agent, directory)

    def reader(self, agent: Agent) -> AgentReader:
        """Return a reader of the agent, which needs no write lock."""
        from ikigai.store.log.agent_reader import AgentReader

        return AgentReader(self._session, agent.id, self._replica or self._session)

    def follow(self, agent: Agent, load: Callable[[], Loading]) -> Follower:
        """Follow what another process stores and streams in this agent; `load` begins the loading of its memory.

        The follower has a connection of its own, which the caller closes.
        """
        from ikigai.store.log.follow import Follower

        session = self._session.another()
        return Follower(session, agent.id, load, self._replica or session)

    async def prompts(self, limit: int) -> list[str]:
        """Return the last prompts of users, over all agents: at most `limit` different texts, the newest first."""
        from ikigai.store.log import history

        async with self._session.use() as cursor:
            return await history.read_prompts(cursor, limit)

    async def skill_uses(self) -> dict[str, tuple[int, float]]:
        """Return how often each skill was used lately, and when last in seconds since 1970."""
        from ikigai.store.log import history

        async with self._session.use() as cursor:
            return await history.read_skill_uses(cursor)

    def search_prompts(self, typed: str, here: str) -> PromptLookup:
        """Return a search in the prompts of users; `here` is the directory of this program."""
        from ikigai.store.search.prompts import PromptLookup

        return PromptLookup(self._session, self._replica or self._beside, typed, here)

    async def last_event_id(self) -> int:
        """Return the id of the newest event of all agents, or 0."""
        async with self._session.use() as cursor:
            await cursor.execute(queries.LAST_EVENT)
            ((newest,),) = await cursor.fetchall()
        return newest

    async def chosen(self, agent: str, key: str) -> Any:
        """Return the value that the agent with this id has set itself for a setting, None for nothing."""
        from ikigai.store.usage import window_history

        async with self._session.use() as cursor:
            return await window_history.read_choice(cursor, agent, key)

    async def purge_ephemeral(self, min_age: float = 0) -> list[str]:
        """See `ephemeral.purge_ephemeral`."""
        from ikigai.store.purge import ephemeral

        return await ephemeral.purge_ephemeral(self._session, self.logs.ids, min_age)

    def purge(self, wanted: PurgeTarget | None, ids: Ids, agent: str | None = None) -> Purge:
        """Return a purge of the events with these ids, only events of this agent if one is named. `wanted` limits it to
        events that hold that text.
        """
        from ikigai.store.purge.purge import Purge

        return Purge(self._session, wanted, ids, agent)

    @property
    def search(self):
        """`EventSearch.search`: events that hold the terms of a query."""
        return self._search.search

    @property
    def recall(self):
        """`TurnRecall.recall`: turns that may answer a question."""
        return self._recall.recall

    @property
    def seeker(self):
        """`EventSearch.seeker`: moves from hit to hit in one history."""
        return self._search.seeker

    def export(self, agent: Agent, first: int = 0, last: int | None = None) -> Export:
        """Return an export of the events of the agent and its ancestors with ids from `first` to `last` (None: all)."""
        from ikigai.store.log.reading import NO_LIMIT
        from ikigai.store.transfer.transfer import Export

        return Export(self._replica or self._beside, agent, first, NO_LIMIT if last is None else last)

    def begin_import(self) -> Import:
        """Return an import that makes an agent of the events of another."""
        from ikigai.store.transfer.transfer import Import

        return Import(self._beside)

    async def locate_unsaved(self, unsaved: Unsaved) -> UnsavedPosition:
        """Return where events belong that another process could not store."""
        from ikigai.store.log import unsaved_place

        async with self._session.use() as cursor:
            return await unsaved_place.place(cursor, unsaved)

    async def fork_with(self, parent: Agent, place: UnsavedPosition, unsaved: Unsaved, name: str = "") -> Agent:
        """Fork `parent` with these events; see `unsaved_fork.fork_with_unsaved`."""
        from ikigai.store.forks import unsaved_fork

        return await self.agents.find(await unsaved_fork.fork_with_unsaved(self._session, parent, place, unsaved, name))

    async def lineage(self, agent: str) -> dict[str, int | None]:
        """Return the ids of the agent and its ancestors, each with the last event that belongs to the agent; None for
        all.
        """
        from ikigai.store.search import search

        async with self._beside.use() as cursor:  # a caller may stop waiting, which costs the connection
            return await search.read_lineage_ids(cursor, agent)

    async def neighbors(self, id: int, before: int = 3, after: int = 3) -> tuple[str, tuple[StoredEvent, ...]]:
        """Return the name of the agent of the event `id`, and the event with its neighbors. Raise Rejected if there is
        no such event.
        """
        from ikigai.store.log import history

        async with self._session.use() as cursor:
            return await history.read_neighbors(cursor, id, before, after)

    async def status(self) -> DatabaseInfo:
        async with self._session.use() as cursor:
            await cursor.execute(queries.STATUS, (MAX_COUNTED_AGENTS,))
            ((server, name, user, schema, size, messages, rows, agents, extensions, durable),) = await cursor.fetchall()
            if rows < MAX_COUNTED_EVENTS:
                await cursor.execute(queries.COUNT_EVENTS)
                ((rows,),) = await cursor.fetchall()
        where, version = str(self._session.place), self._session.info.schema_version
        behind = await self.indexer.behind()
        fields = where, server, name, user, schema, version, size, messages, agents, rows, tuple(extensions), durable
        return DatabaseInfo(*fields, behind)

    async def close(self) -> None:
        """Release every write lock and disconnect. Never fails."""
        await self.logs.close()
        await self._session.close()
        await self._beside.close()
        if self._replica:
            await self._replica.close()
