"""Tree of agents in the database: forks without a write lock, the tree with the state of its agents, and new names.

A fork is a row of `agents` with its parent and the last event that both share (`forked_at`), and a `forked` event in
its own log. No event of the parent is copied: loading follows `parent` up to `forked_at`.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID, uuid4

import psycopg

from ikigai.core.agents.tree import ANCESTOR_CIRCLE, PARENT_MISSING, THIS_PROGRAM, AgentInfo, AgentLink, subtree
from ikigai.core.errors import AgentLocked, CorruptLineage, Rejected
from ikigai.core.events.events import Event
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import storable
from ikigai.store.agents import agent_names
from ikigai.store.agents.agents import Agent, Agents, check_name, name_taken
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.retry_on_conflict import retry_in_doubt, retry_on_conflict
from ikigai.store.log import write_lock
from ikigai.store.log.append_attempt import new_event_id, sealed_row
from ikigai.store.log.history import no_such_event
from ikigai.store.sql import agent_lists, forks

LEVELS_ABOVE = 20
"""Levels of agents above a listed one that are listed with it."""
AGENTS_PER_STATEMENT = 1_000
"""Agents whose state one statement reads, at most."""
STRETCH_AGENTS = 2_000
"""Agents that one statement looks through for a typed text, at most."""


class AgentSummary(Record, frozen=True):
    """An agent to choose; it was last used at `last_used_at`, in seconds since 1970.

    `made` says that a tool made it. `in_turn` and `holder` are as in `AgentInfo`.
    """

    id: str
    name: str
    directory: str
    last_used_at: float
    killed: bool
    archived: bool
    made: bool
    last_words: str
    in_turn: bool
    holder: str = ""


class AgentPage(NamedTuple):
    """Agents to choose, the most recently used first, and where the next page goes on; None at the end."""

    agents: list[AgentSummary]
    next: tuple[str, str] | None


class AgentTree:
    """The tree of agents of a database. Made by `Database`."""

    def __init__(self, session: DatabaseSession, agents: Agents) -> None:
        self._session, self._agents = session, agents

    async def fork_point(self, agent: Agent) -> int:
        """Return the event at which a fork of the agent begins: its last one, or the last one before an open turn.

        It needs no write lock: the agent may be running, or open in another process.
        """
        async with self._session.use() as cursor:
            await cursor.execute(forks.FORK_POINT, (agent.id,))
            rows = await cursor.fetchall()
        if not rows:
            raise Rejected(f"There is no agent {agent.name} in this database.", "Fork another agent.")
        return rows[0][0]

    async def fork_point_at(self, id: int) -> tuple[Agent, int]:
        """Return the agent of the event `id`, and where a fork "at" it begins: the end of its turn, or itself between
        turns.

        Raise Rejected if there is no such event, or its turn is open.
        """
        async with self._session.use() as cursor:
            await cursor.execute(forks.EVENT_PLACE, (id,))
            rows = await cursor.fetchall()
        agent = await self._agents.get(rows[0][0]) if rows else None
        if agent is None:
            raise no_such_event(id)
        _, in_turn, end = rows[0]
        if in_turn and end is None:
            raise Rejected(
                f"The turn of event #{id} has not ended yet.",
                "Wait for its end, or use /fork without an id, which forks before that turn.",
            )
        return agent, end if in_turn else id

    async def fork(
        self,
        parent: Agent,
        at: int,
        events: Sequence[Event],
        name: str = "",
        directory: str = "",
        made: UUID | None = None,
    ) -> Agent:
        """Create a child of `parent` that shares its lineage up to the event `at`, with its first events.

        Both are stored or neither. Generate a name if `name` is empty. `made` is the id of a subagent, which a tool
        makes. Raise Rejected if the name is taken or invalid.
        """
        if name:
            check_name(name)
        child = {"parent": parent.id, "at": at, "directory": storable(directory) or None}
        child |= {"made": made is not None, "unlisted": self._session.unlisted}
        return await self._agents.make_once(made or uuid4(), lambda id: self._fork(id, child, events, name))

    @retry_on_conflict
    async def _fork(self, id: UUID, child: dict[str, Any], events: Sequence[Event], name: str) -> Agent:
        rows = [sealed_row(event, str(id), seq, self._session.seal) for seq, event in enumerate(events, 1)]
        kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
        stored = {"ids": [new_event_id() for _ in events], "kinds": kinds, "contents": contents, "datas": datas}
        attempt = 0
        while True:
            async with self._session.use() as cursor, cursor.connection.transaction():
                await cursor.execute(forks.FORK, {**child, "id": id, "name": name or agent_names.suggest_name(attempt)})
                if forked := cursor.rowcount > 0:
                    await cursor.execute(forks.FIRST_EVENTS, {"id": id, **stored})
            if forked and (agent := await self._agents.get(str(id))):
                return agent
            if name:
                raise name_taken(name)
            attempt += 1

    async def lineage_defect(self, agent: Agent) -> str:
        """Return the defect in the path from the agent to its root, in words, or ""."""
        if agent.parent is None:
            return ""
        async with self._session.use() as cursor:
            await cursor.execute(forks.LINEAGE_DEFECTS, (agent.id,))
            ((circle, missing),) = await cursor.fetchall()
        return ANCESTOR_CIRCLE if circle else PARENT_MISSING if missing else ""

    async def check(self, agent: Agent) -> None:
        """Raise CorruptLineage if the agent can only be read."""
        if why := await self.lineage_defect(agent):
            raise CorruptLineage(
                f"Agent {agent.name} is read-only: {why}.", "Repair the table agents with: ikigai db psql"
            )

    async def subtree(self, id: str) -> list[AgentLink]:
        """Return the agent with this id and all below it, each behind all agents below it."""
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.SUBTREE, {"agent": UUID(id)}, prepare=False)
            return subtree([AgentLink(*row) for row in await cursor.fetchall()], id)

    async def relative(self, agent: Agent, where: str) -> Agent | None:
        """Return the relative of an agent among the listed ones, None without one.

        `where` is "up" for its parent, "down" for its newest child, "left" and "right" for its elder and younger
        sibling. Roots are each other's siblings.
        """
        siblings = agent_lists.SIBLINGS if agent.parent else agent_lists.ROOTS
        statements: dict[str, LiteralString] = {
            "up": agent_lists.PARENT,
            "down": agent_lists.NEWEST_CHILD,
            "left": siblings.left,
            "right": siblings.right,
        }
        which = {"agent": UUID(agent.id), "parent": UUID(agent.parent) if agent.parent else None}
        async with self._session.use() as cursor:
            await cursor.execute(statements[where], which, prepare=False)
            rows = await cursor.fetchall()
        return await self._agents.get(rows[0][0]) if rows else None

    async def names(self, ids: Collection[str]) -> dict[str, str]:
        """Return the names of these agents by id."""
        if not ids:
            return {}
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.NAMES, ([UUID(id) for id in ids],))
            return dict(await cursor.fetchall())

    async def open_ids(self) -> list[str]:
        """Return the ids of the agents that any program has open."""
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.MAYBE_OPEN)
            ids = [id for (id,) in await cursor.fetchall()]
        return list(await self.owners(ids))

    async def newest(self, limit: int | None, unlisted: bool = False) -> list[str]:
        """Return the ids of the `limit` agents that were used last (None: of all), the last one first. With
        `unlisted` killed and archived ones are included.
        """
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.newest_ids(unlisted), {"limit": limit}, prepare=False)
            return [id for (id,) in await cursor.fetchall()]

    async def all(self, unlisted: bool = False, ids: Sequence[str] | None = None) -> list[AgentInfo]:
        """Return the agents of `newest` with their state, as their newest rows tell it, and their lock owners, the
        oldest first. `ids` limits them to those, and to the agents above those.
        """
        which = {"unlisted": unlisted, "levels": 0 if ids is None else LEVELS_ABOVE}
        wanted = [UUID(id) for id in (await self.newest(None, unlisted) if ids is None else ids)]
        rows = dict[str, tuple[Any, ...]]()
        for at in range(0, len(wanted), AGENTS_PER_STATEMENT):
            async with self._session.use() as cursor:
                part = {**which, "ids": wanted[at : at + AGENTS_PER_STATEMENT]}
                await cursor.execute(agent_lists.AGENT_INFOS, part, prepare=False)
                rows |= {row[0]: row for row in await cursor.fetchall()}
        owners = await self.owners(rows)
        infos = [AgentInfo(*row, holder=owners.get(id, "")) for id, row in rows.items()]
        return sorted(infos, key=lambda info: (info.created_at, info.id))

    async def holders(self) -> dict[int, str]:
        """Return the lock owners by lock key: THIS_PROGRAM for this process, else "host, pid N"."""
        async with self._session.use() as cursor:
            await cursor.execute(forks.WRITE_LOCK_OWNERS, (write_lock.WRITE_LOCK,))
            rows = await cursor.fetchall()
        ours = self._session.info.backend
        return {
            key: THIS_PROGRAM if backend == ours else str(write_lock.LockOwner(backend, program))
            for key, backend, program in rows
        }

    async def holder(self, id: str) -> str:
        """Return the lock owner of this agent, or ""."""
        return (await self.holders()).get(write_lock.lock_key(UUID(id), self._session.schema), "")

    async def owners(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the lock owners of these agents as `holders` does, by the ids of those that have one."""
        owners = await self.holders()
        keys = {id: write_lock.lock_key(UUID(id), self._session.schema) for id in ids}
        return {id: owners[key] for id, key in keys.items() if key in owners}

    @retry_in_doubt
    async def rename(self, agent: Agent, name: str) -> None:
        """Rename an agent. Raise Rejected if the name is taken or invalid, AgentLocked if another process has the agent
        open.
        """
        check_name(name)
        async with self._session.use() as cursor:
            holder = await write_lock.read_owner(self._session, cursor, UUID(agent.id))
            ours = holder and holder.backend in (self._session.info.backend, *self._session.lost)
            if holder and not ours and not holder.is_dead():
                raise AgentLocked(
                    f"Agent {agent.name} is open in another ikigai ({holder}).",
                    "Rename it there, or after that program has ended.",
                    str(holder),
                )
            try:
                await cursor.execute(forks.RENAME, (name, agent.id))
            except psycopg.errors.UniqueViolation:
                raise name_taken(name) from None
            is_missing = not cursor.rowcount
        if is_missing:
            raise Rejected(f"There is no agent {agent.name} in this database.", "/agents lists them.")

    async def archive(self, agent: Agent) -> int:
        """Take the agent and all below it out of the lists; return how many were in them, 0 if that is not known."""
        return await self._change_lists(agent, forks.ARCHIVE)

    async def list_again(self, agent: Agent) -> int:
        """Bring an archived agent back into the lists, and those that were archived with it; return how many."""
        return await self._change_lists(agent, forks.LIST_AGAIN)

    @retry_in_doubt
    @retry_on_conflict
    async def _change_lists(self, agent: Agent, statement: LiteralString) -> int:
        async with self._session.use() as cursor:
            await cursor.execute(statement, {"agent": agent.id})
            return cursor.rowcount

    async def in_turn(self, ids: Sequence[str]) -> set[str]:
        """Return the agents among these whose newest turn has not ended."""
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.IN_TURN, ([UUID(id) for id in ids],))
            return {id for (id,) in await cursor.fetchall()}

    async def page(
        self, limit: int, after: tuple[str, str] | None = None, *, typed: str = "", everything: bool = False
    ) -> AgentPage:
        """Return a page of at most `limit` agents, the most recently used first; `after` is where it goes on.

        `typed` is a part of the name or the directory; `everything` adds archived agents and those that tools made. A
        page ends early, even without an agent, where few agents have that part.
        """
        used, id = after or (None, None)
        which = {"typed": storable(typed), "after": used, "id": id, "limit": limit}
        which |= {"stretch": max(STRETCH_AGENTS, limit) if typed else limit}
        async with self._session.use() as cursor:
            await cursor.execute(agent_lists.agent_page(everything), which, prepare=False)
            rows = await cursor.fetchall()
        found = await self._summaries([row[2:-1] for row in rows if row[2]])
        used, id = rows[0][:2]
        return AgentPage(found, (used, id) if used else None)

    async def to_choose(self, ids: Sequence[str], everything: bool = False) -> list[AgentSummary]:
        """Return the agents among these that can be chosen, as `page` has them."""
        async with self._session.use() as cursor:
            which = {"ids": [UUID(id) for id in ids]}
            await cursor.execute(agent_lists.agents_to_choose(everything), which, prepare=False)
            rows = await cursor.fetchall()
        return await self._summaries(rows)

    async def _summaries(self, rows: Sequence[tuple[Any, ...]]) -> list[AgentSummary]:
        owners = await self.owners([row[0] for row in rows]) if rows else {}
        return [AgentSummary(*row, holder=owners.get(row[0], "")) for row in rows]
