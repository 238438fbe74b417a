"""The tree of agents in the database: forks made without anybody's pen, the whole tree as people see it, names."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg

from ikigai.core import codec
from ikigai.core.agents.tree import CIRCLE, HERE, MISSING, Kin, Link
from ikigai.core.errors import Broken, Busy, Refused
from ikigai.core.events import Event
from ikigai.core.sanitize import storable
from ikigai.store import names
from ikigai.store import write_lock as pen
from ikigai.store.agents import Agent, Agents, check_name, taken
from ikigai.store.connection import Session
from ikigai.store.log import event_id
from ikigai.store.sql import tree as queries


class Family:
    """Made by `Database`."""

    def __init__(self, session: Session, agents: Agents) -> None:
        self._session, self._agents = session, agents

    async def point(self, agent: Agent) -> int:
        """Where a fork of the agent begins: its last event, or, where a turn is open, the last one before that.

        Needs no pen: the agent may be busy, or held by another program.
        """
        async with self._session.use() as cursor:
            await cursor.execute(queries.FORK_POINT, (agent.id,))
            rows = await cursor.fetchall()
        if not rows:
            raise Refused(f"There is no agent {agent.name} in this database any more.", "Fork another.")
        return rows[0][0]

    async def place(self, id: int) -> tuple[Agent, int]:
        """Whose the event is, and where a fork "at" it begins: the end of its turn, or itself between turns.

        Raises Refused when there is no such event, or its turn is open.
        """
        async with self._session.use() as cursor:
            await cursor.execute(queries.PLACE, (id,))
            rows = await cursor.fetchall()
        agent = await self._agents.get(rows[0][0]) if rows else None
        if agent is None:
            raise Refused(f"There is no event #{id}.", "Ids are shown by /search and `ikigai history list`.")
        _, in_turn, end = rows[0]
        if in_turn and end is None:
            raise Refused(
                f"The turn of event #{id} has not ended yet.", "Wait for its end; /fork without an id goes before it."
            )
        return agent, end if in_turn else id

    async def fork(
        self,
        parent: Agent,
        at: int,
        facts: Sequence[Event],
        name: str = "",
        directory: str = "",
        made: UUID | None = None,
    ) -> Agent:
        """A child of `parent` that shares its lineage up to the event `at`, with its first events.

        Both are stored or neither. Without a name it is given one. `made` is the id of one that a
        tool makes. Raises Refused when the name is taken, or is none.
        """
        if name:
            check_name(name)
        rows = [codec.encode(fact) for fact in facts]
        kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
        id, tried = made or uuid4(), 0
        agent = {"id": id, "parent": parent.id, "at": at, "directory": storable(directory) or None}
        agent["made"] = made is not None
        stored = {"ids": [event_id() for _ in facts], "kinds": kinds, "contents": contents, "datas": datas}
        while True:
            async with self._session.use() as cursor:
                await cursor.execute(queries.FORK, {**agent, **stored, "name": name or names.suggest(tried)})
                forked = cursor.rowcount > 0
            if forked and (child := await self._agents.get(str(id))):
                return child
            if name:
                raise taken(name)
            tried += 1

    async def broken(self, agent: Agent) -> str:
        """What is wrong with the way from the agent to its root, in words; "" when all is well."""
        if agent.parent is None:
            return ""
        async with self._session.use() as cursor:
            await cursor.execute(queries.BROKEN, (agent.id,))
            ((circle, missing),) = await cursor.fetchall()
        return CIRCLE if circle else MISSING if missing else ""

    async def check(self, agent: Agent) -> None:
        """Raise Broken when the agent can only be read."""
        if why := await self.broken(agent):
            raise Broken(f"Agent {agent.name} can only be read: {why}.", "Mend the table agents with: ikigai db psql")

    async def links(self) -> list[Link]:
        """All agents, the eldest first."""
        async with self._session.use() as cursor:
            await cursor.execute(queries.LINKS)
            return [Link(*row) for row in await cursor.fetchall()]

    async def all(self, dead: bool = False) -> list[Kin]:
        """The same with what the newest rows of each say, and who holds them; with `dead` also those that are."""
        async with self._session.use() as cursor:
            await cursor.execute(queries.FAMILY, {"dead": dead})
            rows = await cursor.fetchall()
        held = await self.holders()
        return [Kin(*row, holder=held.get(pen.key(UUID(row[0])), "")) for row in rows]

    async def holders(self) -> dict[int, str]:
        """Who has which pens, by their keys: HERE for this program, else "host, pid N"."""
        async with self._session.use() as cursor:
            await cursor.execute(queries.PENS, (pen.NAMESPACE,))
            rows = await cursor.fetchall()
        ours = self._session.greeting.backend
        return {key: HERE if backend == ours else str(pen.Holder(backend, program)) for key, backend, program in rows}

    async def holder(self, id: str) -> str:
        """Who has the pen of this agent; "" for nobody."""
        return (await self.holders()).get(pen.key(UUID(id)), "")

    async def rename(self, agent: Agent, name: str) -> None:
        """Raises Refused when the name is taken, or is none; Busy when another program writes the agent."""
        check_name(name)
        async with self._session.use() as cursor:
            holder = await pen.holder_of(cursor, UUID(agent.id))
            ours = holder and holder.backend in (self._session.greeting.backend, *self._session.lost)
            if holder and not ours and not holder.is_dead():
                raise Busy(
                    f"Agent {agent.name} is being written by another program ({holder}).",
                    "Rename it there, or when that program has gone.",
                    str(holder),
                )
            try:
                await cursor.execute(queries.RENAME, (name, agent.id))
            except psycopg.errors.UniqueViolation:
                raise taken(name) from None
            gone = not cursor.rowcount
        if gone:
            raise Refused(f"There is no agent {agent.name} in this database any more.", "Look at /agents.")
