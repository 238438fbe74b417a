"""Tests of the agent to start with: it is opened while other modules are imported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ikigai.app.run.first_agent import AgentChoice, open_ahead
from ikigai.app.run.services import Services
from ikigai.config import Config
from ikigai.config.records import DatabaseSettings
from ikigai.core.errors import AgentLocked, ConfigError
from ikigai.store.database import Database


@asynccontextmanager
async def opened(dsn: str, choice: AgentChoice) -> AsyncIterator[Services]:
    """Yield the services of a start with this choice of an agent."""
    config = Config(database=DatabaseSettings(url=dsn))
    opening = asyncio.create_task(open_ahead(config, True, lambda done, total: None, choice))
    services = await Services.open(config, opening=opening)
    try:
        yield services
    finally:
        await services.close()


@pytest.mark.parametrize("choice", [AgentChoice("first"), AgentChoice(last=True)])
async def test_first_agent_has_its_write_lock_when_the_services_are_open(
    dsn: str, database: Database, choice: AgentChoice
) -> None:
    agent = await database.agents.create("first")
    await (await database.open_agent(agent, "/")).close()  # it is the one used last
    async with opened(dsn, choice) as services:
        with pytest.raises(AgentLocked):
            await database.open_agent(agent)
        assert (await services.choose(choice)).id == agent.id
        memory, log, _ = await services.acquire(agent)
        assert (memory.agent, log.agent) == (agent.id, agent.id)
    await (await database.open_agent(agent)).close()


async def test_first_agent_of_another_program_is_refused_when_it_is_acquired(dsn: str, database: Database) -> None:
    agent = await database.agents.create("first")
    await database.open_agent(agent)
    async with opened(dsn, choice := AgentChoice("first")) as services:
        assert (await services.choose(choice)).id == agent.id
        with pytest.raises(AgentLocked):
            await services.acquire(agent)


async def test_first_agent_that_does_not_exist_is_refused_when_it_is_chosen(dsn: str, database: Database) -> None:
    async with opened(dsn, choice := AgentChoice("none")) as services:
        with pytest.raises(ConfigError, match="There is no agent none"):
            await services.choose(choice)


async def test_first_agent_is_created_when_it_is_chosen_not_before(dsn: str, database: Database) -> None:
    async with opened(dsn, choice := AgentChoice(new=True)) as services:
        assert not await database.agents.all()
        created = await services.choose(choice)
    assert [agent.id for agent in await database.agents.all()] == [created.id]
