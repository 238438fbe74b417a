"""The agents of a database: made, found by name or id, listed."""

from typing import LiteralString
from uuid import UUID, uuid4

from ikigai.core.errors import Refused, nearest
from ikigai.core.record import Record
from ikigai.core.sanitize import storable
from ikigai.store import names
from ikigai.store.connection import Session
from ikigai.store.sql import agents as queries

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
        id, tried = uuid4(), 0
        while True:
            chosen = name or names.suggest(tried)
            async with self._session.use() as cursor:
                await cursor.execute(queries.CREATE_AGENT, (id, chosen, parent, forked_at, storable(directory) or None))
                if cursor.rowcount:
                    await cursor.execute(queries.AGENT_BY_ID, (id,))
                    return Agent(*(await cursor.fetchall())[0])
            if name:
                raise taken(name)
            tried += 1

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
        if directory:
            found = await self._ask(queries.LAST_AGENT_IN, storable(directory))
        else:
            found = await self._ask(queries.LAST_AGENT)
        return found[0] if found else None

    async def _ask(self, query: LiteralString, *parameters: object) -> list[Agent]:
        async with self._session.use() as cursor:
            await cursor.execute(query, parameters)
            return [Agent(*row) for row in await cursor.fetchall()]


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
