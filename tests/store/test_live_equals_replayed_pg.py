"""The random lives of the log in memory run over real PostgreSQL."""

import asyncio
import random
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from msgspec.structs import replace

from ikigai.core.context.forget_selection import SENT_EVENTS, EventRange
from ikigai.core.events import codec
from ikigai.core.events.events import Event, Filtered, StoredEvent, TurnEnded, Undone
from ikigai.core.events.messages import Text
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.inputs import Clear, Filter, Undo
from ikigai.core.state.intervals import Interval, excluded_by, within
from ikigai.core.state.lineage import undone_ids
from ikigai.core.state.loading import Loading
from ikigai.core.state.memory import Memory
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.log import AgentLog
from tests.conftest import MIGRATIONS
from tests.core.life import Life, condensed_life, family_life, recalling_life, run_lives
from tests.core.memory_log import seal
from tests.core.worlds import PLANNING, RUNS
from tests.support.examples import seeds

ROWS = """
select id, seq, extract(epoch from created_at)::float8, kind, content, data::text
from messages where agent_id = %s order by id
"""
FILTERS = """
select id, filtered_message_ids, planning_start_id, planning_end_id, in_force
from filter_events where agent_id = %s order by id
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

    def append(self, agent: str, events: Sequence[Event], reload: Loading | None = None) -> Appended:
        return self._run(self._log(agent).append(events, reload))

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

    def check_view_of_filters(self, agent: str) -> list[bool]:
        """Compare the view with the rule that memory is folded by; return which filters are in force."""
        history = self.history(agent)
        own = [row for row in history if row.agent == agent]
        out = undone_ids((row.id, row.event.of) for row in own if isinstance(row.event, Undone))
        wanted: list[tuple[object, ...]] = []
        for row in own:
            if isinstance(row.event, Filtered):
                named = excluded_by(row.id, replace(row.event, planning=0))
                sent = [each.id for each in history if isinstance(each.event, SENT_EVENTS)]
                ids = {id for id in sent if within(id, named.intervals)}
                talk = _talk(row.id, excluded_by(row.id, replace(row.event, ranges=())).intervals, own)
                wanted.append((row.id, sorted({*ids, *named.ids}), *talk, row.id not in out))
        assert self._reader.execute(FILTERS, (agent,)).fetchall() == wanted
        return [bool(row[-1]) for row in wanted]

    def close(self) -> None:
        for agent in [*self._open]:
            self.let_go(agent)

    def _log(self, agent: str) -> AgentLog:
        if agent not in self._open:
            self._open[agent] = self._run(self._database.open_agent(self._agents[agent]))
        return self._open[agent]


def _talk(filtered: int, intervals: Sequence[Interval], own: Sequence[StoredEvent]) -> tuple[int | None, int | None]:
    """The first event of the talk that planned a filter, and the end of its last turn."""
    ids = [row.id for row in own if within(row.id, intervals)]
    assert not ids or max(row.id for row in own if row.id < filtered) == ids[-1]
    ends = [row.id for row in own if row.id in ids and isinstance(row.event, TurnEnded)]
    return (ids[0], ends[-1]) if ids else (None, None)


@pytest.fixture
def life(dsn: str) -> Iterator[type[Life]]:
    with asyncio.Runner() as runner, psycopg.connect(dsn, autocommit=True) as reader:
        database = runner.run(Database.open(dsn, MIGRATIONS))
        database.seal_with(seal)

        class LifeInPostgres(Life):
            @staticmethod
            def open_log() -> PostgresLogs:
                return PostgresLogs(runner, database, reader)

            def teardown(self) -> None:
                assert isinstance(self.log, PostgresLogs)
                for agent in self.agents:
                    self.log.check_view_of_filters(agent)
                super().teardown()

        yield LifeInPostgres
        runner.run(database.close())


def test_live_replayed_and_the_rules_agree_in_postgres(life: type[Life]) -> None:
    run_lives(life, examples=2, steps=25)


def test_family_in_postgres(life: type[Life]) -> None:
    family_life(life)
    condensed_life(life)


def test_recalled_excerpts_are_undone_and_forgotten_in_postgres(life: type[Life]) -> None:
    recalling_life(life)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_view_of_filters_agrees_with_the_rule_of_the_fold(life: type[Life], seed: int) -> None:
    draw, one = random.Random(seed), life()
    one.start(
        one.agents[0], replace(RUNS[0], below={**RUNS[0].below, "model": "chat/large"}, planning=lambda: PLANNING)
    )
    assert isinstance(one.log, PostgresLogs)
    for number in range(60):
        back = draw.randint(1, 2)
        match draw.choice(
            ["turn", "turn", "turns", "recall", "forget", "forget", "one", "plan", "undo", "undo", "fork", "clear"]
        ):
            case "turn":
                one.turns([f"{number}"], results=1)
            case "turns":
                one.turns([f"{number}", f"{number}?"], results=0)
            case "recall":
                one.send_recalling(f"{number}")
                one.replied((Text("!"),))
            case "forget":
                if found := one.selected((EventRange(newest_turns=back),)):
                    one.happen(Filter(found.ranges, found.ids, found.messages))
            case "one":
                ids = [row.id for row in one.log.history(one.agent)][-12:] or [0]
                if found := one.selected((EventRange(id := draw.choice(ids), id),)):
                    one.happen(Filter(found.ranges, found.ids, found.messages))
            case "plan":
                one.talk("forget", f"{number}", back, ending=2)
            case "undo":
                acts = one.memory.changes[-3:]
                one.happen(Undo(draw.choice(acts).id if acts else 0))
            case "fork":
                one.forked(draw.choice(["now", "newest turn_end", "old turn_end"]))
            case _:
                one.happen(Clear())
    in_force = [force for agent in one.agents for force in one.log.check_view_of_filters(agent)]
    assert {*in_force} == {True, False} and len(one.agents) > 1
    one.teardown()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_live_replayed_and_the_rules_agree_in_postgres_for_long(life: type[Life]) -> None:
    run_lives(life, examples=400, steps=50)
