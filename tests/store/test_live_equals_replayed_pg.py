"""The same lives as over the log in memory, over real PostgreSQL."""

import asyncio
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from ikigai.core import codec
from ikigai.core.events import Event, StoredEvent
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.loading import Loading
from ikigai.core.state.memory import Memory
from ikigai.store.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log import AgentLog
from tests.conftest import MIGRATIONS
from tests.core.life import Life, condensed_life, family_life, run_lives

ROWS = """
select id, seq, extract(epoch from created_at)::float8, kind, content, data::text
from messages where agent_id = %s order by id
"""


class PostgresLogs:
    """`tests.core.memory_log.Logs` over one database, whose agents of other lives it does not mind."""

    def __init__(self, runner: asyncio.Runner, database: Database, reader: psycopg.Connection) -> None:
        self._run, self._database, self._reader = runner.run, database, reader
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
        """Read past the store: every row of every ancestor, and the fork points looked at here."""
        line, limit = self._agents[agent], 2**63 - 1
        rows = self._rows_of(agent)
        while line.parent is not None:
            limit = limit if line.forked_at is None else min(limit, line.forked_at)
            line = self._agents[line.parent]
            rows = [row for row in self._rows_of(line.id) if row.id <= limit] + rows
        return rows

    def _rows_of(self, agent: str) -> list[StoredEvent]:
        found = self._reader.execute(ROWS, (agent,)).fetchall()
        return [
            StoredEvent(id, agent, seq, at, codec.decode(kind, content, data))
            for id, seq, at, kind, content, data in found
        ]

    def close(self) -> None:
        for agent in [*self._open]:
            self.let_go(agent)

    def _log(self, agent: str) -> AgentLog:
        if agent not in self._open:
            self._open[agent] = self._run(self._database.open_agent(self._agents[agent]))
        return self._open[agent]


@pytest.fixture
def life(dsn: str) -> Iterator[type[Life]]:
    with asyncio.Runner() as runner, psycopg.connect(dsn, autocommit=True) as reader:
        database = runner.run(Database.open(dsn, MIGRATIONS))

        class LifeInPostgres(Life):
            @staticmethod
            def open_log() -> PostgresLogs:
                return PostgresLogs(runner, database, reader)

        yield LifeInPostgres
        runner.run(database.close())


def test_live_replayed_and_the_rules_agree_in_postgres(life: type[Life]) -> None:
    run_lives(life, examples=10, steps=25)


def test_a_family_in_postgres(life: type[Life]) -> None:
    family_life(life)
    condensed_life(life)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_live_replayed_and_the_rules_agree_in_postgres_for_long(life: type[Life]) -> None:
    run_lives(life, examples=400, steps=50)
