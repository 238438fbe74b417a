"""The agents of a database: made, found by name or id, listed."""

from typing import LiteralString
from uuid import UUID, uuid4

from ikigai.core.errors import Refused, nearest
from ikigai.core.record import Record
from ikigai.core.sanitize import storable
from ikigai.store import names
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import agents as queries

NAMESPACE = int.from_bytes(b"ikia")
"""Of the lock under which one program at a time makes a first agent, as others are of the pens and of migrations."""

LONGEST_NAME = 64
SAID = 5
"""Names of other agents that are said where one is not there, those used last."""


class Agent(Record, frozen=True):
    """One line of conversation. Times are seconds since 1970; `events` counts its own, not its ancestors'.

    `forked_at` is the last event of its parent's lineage that it shares; `directory` is where it was last used.
    `killed_at` is None while it lives.
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

    def check_living(self, killed: bool = False) -> None:
        """Raise Refused when it was killed; `killed` says that it has been since it was asked for."""
        if self.killed_at or killed:
            raise Refused(f"Agent {self.name} was killed.", f"/revive {self.name} brings it back.")


class Agents:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self, name: str = "", directory: str = "", parent: str | None = None, forked_at: int | None = None
    ) -> Agent:
        """A new agent: a root, or the child of `parent` that shares its lineage up to the event `forked_at`.

        Without a name it is given one. Raises Refused when the name is taken, or is none.
        """
        if name:
            check_name(name)
        async with self._session.use() as cursor:
            return await _create(cursor, name, directory, parent, forked_at)

    async def find(self, wanted: str) -> Agent:
        """The agent of that name, id, or unique start of an id (four characters or more). Raises Refused."""
        wanted = storable(wanted)
        if found := await self._ask(queries.AGENT_BY_NAME, wanted):
            return found[0]
        found = await self._ask(queries.AGENTS_BY_ID_START, wanted.lower()) if len(wanted) >= 4 else []
        if len(found) == 1:
            return found[0]
        if found:
            raise Refused(f"More than one agent's id begins with {wanted}.", "Type more of it, or a name.")
        known = await names_of(self._session)
        near = nearest(wanted, known, 3)
        there = f"There are: {', '.join(known[:SAID])}{', …' * (len(known) > SAID)}" if known else "There are none yet."
        hint = f"Did you mean {' or '.join(near)}?" if near else there
        raise Refused(f"There is no agent {wanted[:80]}.", hint)

    async def get(self, id: str) -> Agent | None:
        found = await self._ask(queries.AGENT_BY_ID, UUID(id))
        return found[0] if found else None

    async def all(self, limit: int = 1000, dead: bool = False) -> list[Agent]:
        """The one used last first; with `dead` also those that were killed."""
        return await self._ask(queries.AGENTS, dead, limit)

    async def last(self, directory: str = "") -> Agent | None:
        """The living agent used last that no tool made, in this database or in this working directory."""
        async with self._session.use() as cursor:
            return await _last(cursor, directory)

    async def last_or_new(self, directory: str, anywhere: bool = True) -> Agent:
        """The agent used last, in this working directory unless `anywhere`; where there is none a new one is made.

        Programs that find none make one together.
        """
        where = "" if anywhere else directory
        if found := await self.last(where):
            return found
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(queries.FIRST_AGENT_TURN, (NAMESPACE,))
            return await _last(cursor, where) or await _create(cursor, "", directory)

    async def _ask(self, query: LiteralString, *parameters: object) -> list[Agent]:
        async with self._session.use() as cursor:
            await cursor.execute(query, parameters)
            return [Agent(*row) for row in await cursor.fetchall()]


async def _last(cursor: Cursor, directory: str) -> Agent | None:
    if directory:
        await cursor.execute(queries.LAST_AGENT_IN, (storable(directory),))
    else:
        await cursor.execute(queries.LAST_AGENT)
    rows = await cursor.fetchall()
    return Agent(*rows[0]) if rows else None


async def _create(
    cursor: Cursor, name: str, directory: str, parent: str | None = None, forked_at: int | None = None
) -> Agent:
    id, tried = uuid4(), 0
    while True:
        chosen = name or names.suggest(tried)
        await cursor.execute(queries.CREATE_AGENT, (id, chosen, parent, forked_at, storable(directory) or None))
        if cursor.rowcount:
            await cursor.execute(queries.AGENT_BY_ID, (id,))
            return Agent(*(await cursor.fetchall())[0])
        if name:
            raise taken(name)
        tried += 1


def check_name(name: str) -> None:
    """Raise Refused for what is no name of an agent."""
    if not is_name(name):
        raise Refused(
            f"{name[:80]!r} is no name for an agent.",
            f"Begin with a letter or digit, and use up to {LONGEST_NAME} characters without spaces.",
        )


def taken(name: str) -> Refused:
    return Refused(f"There is an agent named {name} already.", f"Choose another name, or: /switch {name}")


async def names_of(session: Session) -> list[str]:
    """The names of agents, the one used last first; the first thousand of them."""
    async with session.use() as cursor:
        await cursor.execute(queries.AGENT_NAMES)
        return [name for (name,) in await cursor.fetchall()]


def is_name(name: str) -> bool:
    """Whether an agent can be called that."""
    return 0 < len(name) <= LONGEST_NAME and name[0].isalnum() and name.isprintable() and " " not in name
