"""This module finds the agent that a program starts with, and opens its log while other modules are being imported."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.errors import AgentLocked, ConfigError, CorruptLineage, Rejected, as_config_error
from ikigai.system.paths import current_directory

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.log import AgentLog


class AgentChoice(NamedTuple):
    """The flags that choose the agent to start with: `resume` is its name or id, `last` the one used last."""

    resume: str | None = None
    new: bool = False
    last: bool = False

    def start_with(self, config: Config) -> str:
        """Return these flags as a value of `start_with`, which counts where there are none."""
        return "new" if self.new else "last" if self.last else config.start_with


class FirstAgent(NamedTuple):
    """The agent to start with; `log` is None if it could not be opened for writing."""

    agent: Agent
    log: AgentLog | None


async def find_agent(database: Database, config: Config, choice: AgentChoice) -> Agent | None:
    """Return the chosen agent; None if that is a new one, or there is none yet. Raise ConfigError."""
    if choice.resume:
        with as_config_error():
            found = await database.agents.find(choice.resume)
        if found.killed_at:
            raise ConfigError(f"Agent {found.name} was killed.", f"Run: ikigai agents revive {found.name}")
        return found
    match choice.start_with(config):
        case "new":
            return None
        case "last":
            return await database.agents.last()
        case _:
            return await database.agents.last(current_directory())


async def open_first(database: Database, config: Config, choice: AgentChoice) -> FirstAgent | None:
    """Find the chosen agent and acquire its write lock; None if it has to be created, or cannot be had.

    Who needs the agent asks again then, and handles the error. Raise StoreError if the database is away.
    """
    agent = log = None
    with contextlib.suppress(ConfigError, Rejected, AgentLocked, CorruptLineage):
        agent = await find_agent(database, config, choice)
        log = await open_log(database, agent) if agent else None
    return FirstAgent(agent, log) if agent else None


async def open_log(database: Database, agent: Agent) -> AgentLog:
    """Acquire the write lock of the agent. Raise AgentLocked if another program has it, CorruptLineage if the agent can
    only be read, Rejected if it was killed meanwhile.
    """
    if agent.parent:  # else the module of the tree is not needed
        await database.tree.check(agent)
    log = await database.open_agent(agent, current_directory())
    try:
        agent.check_living(log.killed)
    except BaseException:
        await log.close()
        raise
    return log
