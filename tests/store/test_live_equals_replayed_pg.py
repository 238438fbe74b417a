"""The same lives as over the log in memory, over real PostgreSQL."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from ikigai.core.events import Event, StoredEvent
from ikigai.core.loading import Loading
from ikigai.core.memory import Memory
from ikigai.core.ports import Appended, Draft
from ikigai.store.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log import AgentLog
from tests.conftest import MIGRATIONS
from tests.core.life import Life, run_lives


class PostgresLogs:
    """`tests.core.memory_log.Logs` over one database, whose agents of other lives it does not mind."""

    def __init__(self, runner: asyncio.Runner, database: Database) -> None:
        self._run, self._database = runner.run, database
        self._agents: dict[str, Agent] = {}
        self._open: dict[str, AgentLog] = {}

    def create(self, name: str, parent: str | None = None, forked_at: int | None = None) -> str:
        agent = self._run(self._database.agents.create(parent=parent, forked_at=forked_at))
        self._agents[agent.id] = agent
        return agent.id

    def let_go(self, agent: str) -> None:
        if log := self._open.pop(agent, None):
            self._run(log.close())

    def append(self, agent: str, facts: Sequence[Event], reload: Loading | None = None) -> Appended:
        return self._run(self._log(agent).append(facts, reload))

    def load(self, loading: Loading) -> Memory:
        return self._run(self._database.reader(next(iter(self._agents.values()))).load(loading))

    def save_draft(self, agent: str, draft: Draft) -> None:
        self._run(self._log(agent).save_draft(draft))

    def draft(self, agent: str) -> Draft | None:
        return self._run(self._log(agent).draft())

    def history(self, agent: str) -> list[StoredEvent]:
        return list(self._run(self._database.reader(self._agents[agent]).history(None, 100_000)))

    def close(self) -> None:
        for agent in [*self._open]:
            self.let_go(agent)

    def _log(self, agent: str) -> AgentLog:
        if agent not in self._open:
            self._open[agent] = self._run(self._database.open_agent(self._agents[agent]))
        return self._open[agent]


@pytest.fixture
def life(dsn: str) -> Iterator[type[Life]]:
    with asyncio.Runner() as runner:
        database = runner.run(Database.open(dsn, MIGRATIONS))

        class LifeInPostgres(Life):
            @staticmethod
            def open_log() -> PostgresLogs:
                return PostgresLogs(runner, database)

        yield LifeInPostgres
        runner.run(database.close())


def test_live_replayed_and_the_rules_agree_in_postgres(life: type[Life]) -> None:
    run_lives(life, examples=12, steps=25)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_live_replayed_and_the_rules_agree_in_postgres_for_long(life: type[Life]) -> None:
    run_lives(life, examples=400, steps=50)
