"""Create the agents of a database, find them by name or id, and list them."""

import time
from collections.abc import Awaitable, Callable
from typing import LiteralString
from uuid import UUID, uuid4

from ikigai.core.errors import Rejected, Unavailable, closest_names
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import storable
from ikigai.store.agents import agent_names
from ikigai.store.connection.address import schema_number
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.sql import agent_lists, agents

FIRST_AGENT_LOCK = int.from_bytes(b"ikia")
"""Key of the advisory lock under which one process at a time creates a first agent. Write locks and migrations have
keys of their own.
"""

MAX_NAME_CHARACTERS = 64
MAX_NAMES = 1_000
"""Names that are read to complete or correct a typed one."""
MAX_SUGGESTED_NAMES = 5
"""Names of the most recently used agents that a message suggests when an agent is missing."""


class Agent(Record, frozen=True):
    """One conversation. Times are seconds since 1970; `events` counts its own, without its ancestors'.

    `forked_at` is the last event that it shares with its parent's lineage. `directory` is where it was last used.
    `killed_at` is None while it is alive, `archived_at` while it is in the lists. An `ephemeral` one is purged when the
    program that made it ends. `made` says that a tool made it.
    """

    id: str
    name: str
    parent: str | None
    forked_at: int | None
    directory: str
    created_at: float
    last_used_at: float
    events: int
    killed_at: float | None = None
    archived_at: float | None = None
    ephemeral: bool = False
    made: bool = False

    def check_living(self, killed: bool = False) -> None:
        """Raise Rejected if the agent is killed. `killed` says that it was killed after this record was read."""
        if self.killed_at or killed:
            raise Rejected(f"Agent {self.name} was killed.", f"/revive {self.name} brings it back.")


class Agents:
    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    @retry_on_conflict
    async def create(
        self,
        name: str = "",
        directory: str = "",
        parent: str | None = None,
        forked_at: int | None = None,
        ephemeral: bool = False,
    ) -> Agent:
        """Create an agent: a root, or the child of `parent` that shares its lineage up to the event `forked_at`.

        Generate a name if `name` is empty. Raise Rejected if the name is taken or invalid.
        """
        if name:
            check_name(name)
        archived = self._session.unlisted

        async def create(id: UUID) -> Agent:
            async with self._session.use() as cursor:
                return await create_agent(cursor, name, directory, parent, forked_at, ephemeral, archived, id)

        return await self.make_once(uuid4(), create)

    async def make_once(self, id: UUID, make: Callable[[UUID], Awaitable[Agent]]) -> Agent:
        """Have an agent made under this id, and return it. Where the answer was lost, return the agent that is there,
        or have it made again.
        """
        try:
            return await make(id)
        except Unavailable as lost:
            if not lost.in_doubt:
                raise
        return await self.get(str(id)) or await make(id)

    async def find(self, name_or_id: str) -> Agent:
        """Return the agent with this name, id, or unique start of an id (at least four characters). Raise Rejected if
        none exists.
        """
        name_or_id = storable(name_or_id)
        if found := await self._select(agents.AGENT_BY_NAME, name_or_id):
            return found[0]
        bounds = id_bounds(name_or_id) if len(name_or_id) >= 4 else None
        found = await self._select(agents.AGENTS_BETWEEN_IDS, *bounds) if bounds else []
        if len(found) == 1:
            return found[0]
        if found:
            raise Rejected(f"More than one agent's id begins with {name_or_id}.", "Type more of it, or a name.")
        known = await names_of(self._session)
        similar = closest_names(name_or_id, known, 3)
        hint = f"Did you mean {' or '.join(similar)}?" if similar else _suggestion(known)
        raise Rejected(f"There is no agent {name_or_id[:80]}.", hint)

    async def names(self) -> tuple[list[str], list[str]]:
        """Return the names of listed agents, and of killed and archived ones: at most 1000 of each, the most recently
        used first.
        """
        return await names_of(self._session), await names_of(self._session, unlisted=True)

    async def suggestion(self) -> str:
        """Return the sentence that names some agents, the most recently used first."""
        return _suggestion(await names_of(self._session))

    async def get(self, id: str) -> Agent | None:
        found = await self._select(agents.AGENT_BY_ID, UUID(id))
        return found[0] if found else None

    async def all(self, limit: int = 1000, unlisted: bool = False) -> list[Agent]:
        """Return agents, the most recently used first; `unlisted` adds the killed and the archived ones."""
        return await self._select(agents.AGENTS, unlisted, limit)

    async def last(self, directory: str = "") -> Agent | None:
        """Return the agent that this role used last, anywhere or in `directory`: not one that is killed, archived or
        ephemeral, nor one that a tool made.
        """
        async with self._session.use() as cursor:
            return await _last(cursor, directory)

    @retry_on_conflict
    async def last_or_new(self, directory: str, anywhere: bool = True) -> Agent:
        """Return the agent that this role used last, in `directory` unless `anywhere`; create one if necessary.

        Processes that start at once create only one between them.
        """
        where = "" if anywhere else directory
        if found := await self.last(where):
            return found
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(agents.FIRST_AGENT_TURN, (FIRST_AGENT_LOCK, schema_number(self._session.schema)))
            if not (found := await _last(cursor, where)):
                found = await create_agent(cursor, "", directory)
                await mark_used(cursor, UUID(found.id), None)
            return found

    async def _select(self, query: LiteralString, *parameters: object) -> list[Agent]:
        async with self._session.use() as cursor:
            await cursor.execute(query, parameters)
            return [Agent(*row) for row in await cursor.fetchall()]


def unstored_agent(directory: str) -> Agent:
    """Return an agent without events that the database does not have, to show what a new one would be."""
    now = time.time()
    return Agent(str(uuid4()), "", None, None, directory, now, now, 0)


async def _last(cursor: Cursor, directory: str) -> Agent | None:
    if directory:
        await cursor.execute(agents.LAST_AGENT_IN, (storable(directory),))
    else:
        await cursor.execute(agents.LAST_AGENT)
    rows = await cursor.fetchall()
    return Agent(*rows[0]) if rows else None


async def mark_used(cursor: Cursor, agent: UUID, directory: str | None, by_user: bool = True) -> None:
    """Mark the agent as used, and unless `by_user` is false as the one that this role used last, in `directory` unless
    that is None. The row that comes back has the seq and event_id of its newest event, and if it is killed; none if
    there is no such agent.
    """
    use = {"directory": directory, "agent": agent, "by_user": by_user}
    await cursor.execute(agents.USE_AGENT, use)


async def create_agent(
    cursor: Cursor,
    name: str,
    directory: str,
    parent: str | None = None,
    forked_at: int | None = None,
    ephemeral: bool = False,
    archived: bool = False,
    id: UUID | None = None,
) -> Agent:
    """Create an agent as `Agents.create` does. Raise Rejected if the name is taken."""
    id, tried = id or uuid4(), 0
    while True:
        chosen = name or agent_names.suggest_name(tried)
        row = (id, chosen, parent, forked_at, storable(directory) or None, ephemeral, False, archived)
        await cursor.execute(agents.CREATE_AGENT, row)
        if cursor.rowcount:
            await cursor.execute(agents.AGENT_BY_ID, (id,))
            return Agent(*(await cursor.fetchall())[0])
        if name:
            raise name_taken(name)
        tried += 1


def check_name(name: str) -> None:
    """Raise Rejected if `name` is not a valid name of an agent."""
    if not is_name(name):
        raise Rejected(
            f"{name[:80]!r} is not a name for an agent.",
            f"Begin with a letter or digit, and use up to {MAX_NAME_CHARACTERS} characters without spaces.",
        )


def name_taken(name: str) -> Rejected:
    return Rejected(f"There is an agent named {name} already.", "Choose another name, or use that agent.")


async def names_of(session: DatabaseSession, unlisted: bool = False) -> list[str]:
    """Return the names of at most 1000 agents that are listed, or that are not, the most recently used first."""
    async with session.use() as cursor:
        await cursor.execute(agent_lists.newest_names(unlisted), {"limit": MAX_NAMES})
        return [name for (name,) in await cursor.fetchall()]


def _suggestion(known: list[str]) -> str:
    if not known:
        return "There are no agents yet."
    return f"There are: {', '.join(known[:MAX_SUGGESTED_NAMES])}{', …' * (len(known) > MAX_SUGGESTED_NAMES)}"


def id_bounds(start: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id that begin with this text; None if none can."""
    lowest, highest = (start + str(UUID(int=edge))[len(start) :] for edge in (0, (1 << 128) - 1))
    try:
        bounds = UUID(lowest), UUID(highest)
    except ValueError:
        return None
    return bounds if str(bounds[0]).startswith(start.lower()) else None


def is_name(name: str) -> bool:
    """Return True if `name` is a valid name of an agent."""
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name[0].isalnum() and name.isprintable() and " " not in name
