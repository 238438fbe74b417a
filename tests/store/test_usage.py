"""The ledger in the database: exact sums of every row, by the day where one is, whatever a row may hold."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID, uuid4

import psycopg
import pytest

from ikigai.core import events as ev
from ikigai.core.messages import Usage
from ikigai.core.spending import Spent, spent, total
from ikigai.store import queries
from ikigai.store.database import Database
from tests.store.talk import Talk

MODELS = ("anthropic/a", "openai/b", "local/c")


def reports(count: int, seed: int) -> list[ev.UsageReported]:
    """Random rows of every kind."""
    draw = random.Random(seed)
    return [
        ev.UsageReported(
            draw.choice(MODELS),
            Usage(*(draw.randrange(10 ** draw.randrange(1, 9)) for _ in range(5))),
            seconds=round(draw.random() * 9, 3),
            attempt=draw.choice((1, 1, 1, 2, 8)),
            failure=draw.choice(("", "", "rate", "interrupted", "cut")),
            cost=draw.choice((None, 0.0, 1e-12, round(draw.random() / 10 ** draw.randrange(8), 12), 123.45)),
            purpose=draw.choice(("", "title")),
        )
        for _ in range(count)
    ]


async def test_sums_are_exact(database: Database) -> None:
    stored: dict[str, list[ev.UsageReported]] = {}
    ids: dict[str, list[int]] = {}
    for seed in range(3):
        talk = await Talk.open(database)
        made = reports(200, seed)
        rows = (await talk.log.append((ev.UserMessage("?"), *made, ev.TurnEnded(ev.Ending.COMPLETED)))).rows
        stored[talk.agent.id] = made
        ids[talk.agent.id] = [row.id for row in rows if isinstance(row.event, ev.UsageReported)]
    every = [report for made in stored.values() for report in made]
    everything = total(map(spent, every))
    assert everything.unpriced and everything.failed and everything.interrupted and everything.retried
    assert await database.spent() == everything
    assert everything.cost == sum(Decimal(repr(report.cost)) for report in every if report.cost is not None)

    by_model: dict[str, Spent] = defaultdict(Spent)
    for report in every:
        by_model[report.model] += spent(report)
    found = await database.spent_by("model")
    assert dict(found) == by_model
    assert [of.cost for _, of in found] == sorted((of.cost for _, of in found), reverse=True)

    names = {agent.id: agent.name for agent in await database.agents.all()}
    by_agent = {names[id]: total(map(spent, made)) for id, made in stored.items()}
    assert dict(await database.spent_by("agent")) == by_agent
    today = datetime.now().date().isoformat()
    assert await database.spent_by("day") == [(today, everything)]

    for id, made in stored.items():
        assert await database.spent(agent=id) == total(map(spent, made))
        assert await database.spent_by("agent", agent=id) == [(names[id], total(map(spent, made)))]
        assert await database.spent(ids=ids[id][:50]) == total(map(spent, made[:50]))
    assert await database.spent(ids=[]) == Spent()
    assert await database.spent(since=time.time() + 3600) == Spent()
    assert await database.spent(since=time.time() - 3600) == everything


async def test_an_empty_ledger(database: Database) -> None:
    await Talk.open(database)
    assert await database.spent() == Spent()
    for by in ("day", "model", "agent"):
        assert await database.spent_by(by) == []


async def test_a_fork_has_spent_what_it_spent_itself(database: Database) -> None:
    parent = await Talk.open(database)
    await parent.log.append((ev.UsageReported("a/b", Usage(100), cost=1.0),))
    (row,) = (await parent.log.append((ev.UsageReported("a/b", Usage(10), cost=2.0),))).rows
    child = await Talk.open(database, await database.agents.create(parent=parent.agent.id, forked_at=row.id))
    await child.log.append((ev.UsageReported("a/b", Usage(1), cost=4.0),))
    assert (await database.spent(agent=child.agent.id)).input == 1
    assert (await database.spent(agent=parent.agent.id)).input == 110
    assert (await database.spent()).cost == 7


def put(dsn: str, at: datetime | None = None, data: str | None = None, count: int = 1) -> str:
    """Usage rows of a fresh agent, stored at a time; the agent's id."""
    id = uuid4()
    body = json.dumps({"model": "a/b", "usage": {"input": 1}, "cost": 0.5}) if data is None else data
    with psycopg.connect(dsn) as other:
        other.execute("insert into agents (id, name) values (%s, %s)", (id, f"agent-{id}"))
        for seq in range(1, count + 1):
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind, data, created_at)"
                " values (%s, %s, %s, 'usage', %s, coalesce(%s, clock_timestamp()))",
                (uuid4(), id, seq, body, at),
            )
    return str(id)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This program is in New York, where the clocks are set: on 2026-03-08 and 2026-11-01."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
async def test_days_are_those_of_where_one_is(dsn: str, database: Database) -> None:
    moments = {
        "2026-03-07": ("2026-03-08T04:59:59.999999",),
        "2026-03-08": ("2026-03-08T05:00:00", "2026-03-09T03:59:59.999999"),  # of 23 hours
        "2026-03-09": ("2026-03-09T04:00:00",),
        "2026-11-01": ("2026-11-01T04:00:00", "2026-11-02T04:59:59.999999"),  # of 25 hours
        "2026-11-02": ("2026-11-02T05:00:00", "2026-11-02T05:00:00.000001"),
    }
    for times in moments.values():
        for at in times:
            put(dsn, datetime.fromisoformat(at).replace(tzinfo=UTC))
    found = await database.spent_by("day")
    assert [(day, of.requests) for day, of in found] == [(day, len(times)) for day, times in moments.items()]
    assert {of.cost / of.requests for _, of in found} == {Decimal("0.5")}
    begins = datetime(2026, 11, 2).timestamp()
    assert [day for day, _ in await database.spent_by("day", since=begins)] == ["2026-11-02"]
    assert (await database.spent(since=begins)).requests == 2


@pytest.mark.parametrize(
    "data",
    [
        "{}",
        '{"model": 5, "usage": "none", "cost": "dear", "attempt": [1]}',
        '{"model": null, "usage": {"input": null, "output": "7"}, "cost": null, "failure": {}}',
        '{"usage": {"input": 1e300, "output": 1.5}, "cost": 1e300}',
    ],
)
async def test_no_row_stops_a_report(dsn: str, database: Database, data: str) -> None:
    put(dsn, data=data)
    put(dsn)
    spoken = await database.spent()
    assert spoken.requests == 2 and spoken.cost >= Decimal("0.5") and spoken.unpriced == ("1e300" not in data)
    assert sum(of.requests for _, of in await database.spent_by("model")) == 2
    with psycopg.connect(dsn) as other:
        for view in ("usage", "usage_by_day", "usage_by_model"):
            assert other.execute(f"select * from {view}".encode()).fetchall()


async def test_the_views_say_what_the_reports_say(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    made = reports(100, 5)
    await talk.log.append(tuple(made))
    columns = ", ".join(name for name in Spent.__struct_fields__ if name not in ("prunes", "pruned"))
    with psycopg.connect(dsn) as other:
        days = other.execute(f"select {columns} from usage_by_day".encode()).fetchall()
        models = other.execute(f"select model, {columns} from usage_by_model".encode()).fetchall()
        rows = other.execute("select model, purpose, failure, seconds, cost from usage order by id").fetchall()
    assert total(Spent(*day) for day in days) == await database.spent()
    assert {model: Spent(*of) for model, *of in models} == dict(await database.spent_by("model"))
    assert rows == [
        (
            report.model,
            report.purpose,
            report.failure,
            Decimal(repr(report.seconds)),
            None if report.cost is None else Decimal(repr(report.cost)),
        )
        for report in made
    ]


async def test_the_ledger_is_found_by_its_index(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    for _ in range(20):
        await talk.log.append(tuple(ev.UserMessage(f"message {n}" * 20) for n in range(500)))
    put(dsn, count=50)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("analyze messages")
        for agents in (None, [UUID(talk.agent.id)]):
            plan = other.execute(
                "explain " + queries.USAGE, {"since": time.time() - 60, "agents": agents, "ids": None}
            ).fetchall()
            assert any("messages_usage" in line for (line,) in plan), plan
