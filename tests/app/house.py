"""A program without a screen over a real database, for tests of agents that work with one another."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
from ikigai.app.agents.managed_subagents import DEFAULT_LIMITS, ManagedSubagents, SubagentLimits
from ikigai.app.run import factories as making
from ikigai.app.run.services import Services
from ikigai.config import Config
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.core.events.messages import ToolResult
from ikigai.core.state.inputs import Change
from ikigai.store.database import Database

HANG = [{"do": "hang"}]


def call(name: str, /, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": name, "arguments": arguments}


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not (found if isinstance(found := holds(), bool) else await found):
            await asyncio.sleep(0.01)


class House:
    """A program without a screen: a world and its crew, over a database that outlives both."""

    def __init__(
        self, database: Database, folder: Path, config: Config, limits: SubagentLimits = DEFAULT_LIMITS
    ) -> None:
        pool, tool_runtime = making.make_pool(config), making.make_tool_runtime(config)
        self.world = Services(config, database, None, pool, making.make_run(config, pool, tool_runtime), tool_runtime)
        self.manager = AgentManager(self.world, partial(ManagedSubagents, limits=limits))
        self.database, self.folder = database, folder

    def script(self, name: str, *replies: object) -> str:
        """A model of this script."""
        (self.folder / name).write_text(json.dumps(replies))
        return f"scripted/{self.folder / name}"

    async def member(self, name: str, *replies: object) -> OpenAgent:
        """An agent with a model of its own script."""
        agent = await self.world.create()
        await self.database.tree.rename(agent, name)
        member = await self.open(name)
        member.agent_loop.put_input(Change({"model": self.script(name, *replies)}))
        return member

    async def open(self, name: str) -> OpenAgent:
        member = await self.manager.open(await self.database.agents.find(name))
        self.manager.start_loop(member)
        return member

    async def rested(self, *members: OpenAgent) -> None:
        await until(lambda: not any(self.manager.is_running(member.agent.id) for member in members or self.all))

    @property
    def all(self) -> tuple[OpenAgent, ...]:
        return tuple(self.manager.agents.values())

    async def history(self, name: str) -> list[StoredEvent]:
        agent = await self.database.agents.find(name)
        return [row for row in await self.database.reader(agent).history(None, 5000) if row.agent == agent.id]

    async def results(self, name: str) -> list[str]:
        return [row.event.content for row in await self.history(name) if isinstance(row.event, ToolResult)]

    async def heard(self, name: str) -> list[str]:
        rows = [row.event for row in await self.history(name)]
        return [f"{event.sender}: {event.text}" for event in rows if isinstance(event, UserMessage)]


async def delivered(database: Database) -> dict[int, int]:
    """How often each message has come, by its event; and that all came in the order of each sender."""
    async with database.mail._session.use() as cursor:
        await cursor.execute("select id, agent_id::text, kind, data from messages where kind like 'mail%%' order by id")
        rows = await cursor.fetchall()
    sent = {id: (sender, data["to"]) for id, sender, kind, data in rows if kind == "mail_sent"}
    came = dict.fromkeys(sent, 0)
    last = dict[tuple[str, str], int]()
    for _, receiver, kind, data in rows:
        if kind == "mail_taken":
            sender, to = sent[of := data["of"]]
            assert to == receiver and of > last.get((sender, to), 0), "to whom it was sent, in order"
            last[sender, to] = of
            came[of] += 1
    assert all(times <= 1 for times in came.values()), "at most once"
    return came
