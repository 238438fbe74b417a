"""Find the agent that a program starts with, and open its log while other modules are being imported."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.run.open_database import close_database, import_module, open_database
from ikigai.config.layers import split_layers
from ikigai.core.errors import AgentLocked, ConfigError, CorruptLineage, Rejected, as_config_error
from ikigai.system.paths import current_directory
from ikigai.system.process_memory import protect_process_memory

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.store.log.log import AgentLog
    from ikigai.system.progress import OnProgress


class AgentChoice(NamedTuple):
    """The flags that choose the agent to start with: `resume` is its name or id, `last` the one used last."""

    resume: str | None = None
    new: bool = False
    last: bool = False

    def start_with(self, config: Config) -> str:
        """Return these flags as a value of `start_with`, which counts without flags."""
        return "new" if self.new else "last" if self.last else config.start_with


class FirstAgent(NamedTuple):
    """The agent to start with; `log` is None if it could not be opened for writing."""

    agent: Agent
    log: AgentLog | None


class OpenedDatabase(NamedTuple):
    """The open database; `since` is the newest event where flags override an agent's own choices, else 0."""

    lease: Lease | None
    database: Database
    since: int
    first: FirstAgent | None


async def import_behind_driver(*modules: str) -> None:
    """Import the driver of the database first and alone, to connect at once; then these modules, while the server
    answers.
    """
    for module in ("ikigai.store.database", *modules):
        await import_module(module)


async def open_ahead(
    config: Config, write: bool, on_progress: OnProgress, choice: AgentChoice | None = None
) -> OpenedDatabase:
    """Open the database, and let it answer what depends on no other module while those are being imported.

    The agent of `choice` is opened if it exists and can be had.
    """
    protect_process_memory()  # after the prompt is shown, which it would delay by 1 ms; no command can run yet
    lease, database = await open_database(config, write, on_progress)
    try:
        await import_module("ikigai.store.log.write_access")
        if lease is None:  # another server can take over
            await import_module("ikigai.app.unsaved.spool")
            from ikigai.app.unsaved.spool import keep_events

            database.logs.keep_events = keep_events
        since = await database.last_event_id() if split_layers(config).above else 0
        return OpenedDatabase(lease, database, since, await open_first(database, config, choice) if choice else None)
    except BaseException:
        await close_database(lease, database)
        raise


async def close_opened(opening: asyncio.Task[OpenedDatabase]) -> None:
    """Wait until the database is open, and close it: the start has failed. Never fails."""
    with contextlib.suppress(Exception):
        opened = await opening
        await close_database(opened.lease, opened.database)


async def find_agent(database: Database, config: Config, choice: AgentChoice) -> Agent | None:
    """Return the chosen agent; None for a new one, or before one exists. Raise ConfigError."""
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
