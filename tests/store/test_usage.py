"""The ledger in the database: exact sums of every row, by the day where one is, whatever a row may hold."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest

from ikigai.core import codec
from ikigai.core import events as ev
from ikigai.core.messages import Usage
from ikigai.core.views.usage_totals import UsageTotals, sum_totals, totals_of
from ikigai.store.database import Database
from ikigai.store.sql import search as search_queries
from ikigai.store.sql import summed_usage
from ikigai.store.sql import usage as usage_queries
from ikigai.store.sql import window_history as plotting_queries
from ikigai.store.usage import By, UsageGroups
from ikigai.store.usage_sums import UsageSums
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh

replace = msgspec.structs.replace
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
    everything = sum_totals(map(totals_of, every))
    assert everything.unpriced and everything.failed and everything.interrupted and everything.retried
    assert await database.usage.totals() == everything
    assert everything.cost == sum(Decimal(repr(report.cost)) for report in every if report.cost is not None)

    by_model: dict[str, UsageTotals] = defaultdict(UsageTotals)
    for report in every:
        by_model[report.model] += totals_of(report)
    found = await database.usage.totals_by("model")
    assert dict(found) == by_model
    assert [of.cost for _, of in found] == sorted((of.cost for _, of in found), reverse=True)

    names = {agent.id: agent.name for agent in await database.agents.all()}
    by_agent = {names[id]: sum_totals(map(totals_of, made)) for id, made in stored.items()}
    assert dict(await database.usage.totals_by("agent")) == by_agent
    today = datetime.now().date().isoformat()
    assert await database.usage.totals_by("day") == [(today, everything)]

    for id, made in stored.items():
        assert await database.usage.totals(agent=id) == sum_totals(map(totals_of, made))
        assert await database.usage.totals_by("agent", agent=id) == [(names[id], sum_totals(map(totals_of, made)))]
        assert await database.usage.totals(ids=ids[id][:50]) == sum_totals(map(totals_of, made[:50]))
    assert await database.usage.totals(ids=[]) == UsageTotals()
    assert await database.usage.totals(since=time.time() + 3600) == UsageTotals()
    assert await database.usage.totals(since=time.time() - 3600) == everything


async def test_empty_ledger(database: Database) -> None:
    await Talk.open(database)
    assert await database.usage.totals() == UsageTotals()
    for by in ("day", "model", "agent"):
        assert await database.usage.totals_by(by) == []


async def test_fork_has_spent_what_it_spent_itself(database: Database) -> None:
    parent = await Talk.open(database)
    await parent.log.append((ev.UsageReported("a/b", Usage(100), cost=1.0),))
    (row,) = (await parent.log.append((ev.UsageReported("a/b", Usage(10), cost=2.0),))).rows
    child = await Talk.open(database, await database.agents.create(parent=parent.agent.id, forked_at=row.id))
    await child.log.append((ev.UsageReported("a/b", Usage(1), cost=4.0),))
    assert (await database.usage.totals(agent=child.agent.id)).input == 1
    assert (await database.usage.totals(agent=parent.agent.id)).input == 110
    assert (await database.usage.totals()).cost == 7


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
    found = await database.usage.totals_by("day")
    assert [(day, of.requests) for day, of in found] == [(day, len(times)) for day, times in moments.items()]
    assert {of.cost / of.requests for _, of in found} == {Decimal("0.5")}
    begins = datetime(2026, 11, 2).timestamp()
    assert [day for day, _ in await database.usage.totals_by("day", since=begins)] == ["2026-11-02"]
    assert (await database.usage.totals(since=begins)).requests == 2


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
    spoken = await database.usage.totals()
    assert spoken.requests == 2 and spoken.cost >= Decimal("0.5") and spoken.unpriced == ("1e300" not in data)
    assert sum(of.requests for _, of in await database.usage.totals_by("model")) == 2
    with psycopg.connect(dsn) as other:
        for view in ("usage", "usage_by_day", "usage_by_model"):
            assert other.execute(f"select * from {view}".encode()).fetchall()


async def test_views_say_what_the_reports_say(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    made = reports(100, 5)
    await talk.log.append(tuple(made))
    columns = ", ".join(name for name in UsageTotals.__struct_fields__ if name not in ("prunes", "pruned"))
    with psycopg.connect(dsn) as other:
        days = other.execute(f"select {columns} from usage_by_day".encode()).fetchall()
        models = other.execute(f"select model, {columns} from usage_by_model".encode()).fetchall()
        rows = other.execute("select model, purpose, failure, seconds, cost from usage order by id").fetchall()
    cost = UsageTotals.__struct_fields__.index("cost")
    found = {model: UsageTotals(*of[:cost], of[cost] or Decimal(0), *of[cost + 1 :]) for model, *of in models}
    assert sum_totals(UsageTotals(*day) for day in days) == await database.usage.totals()
    assert found == dict(await database.usage.totals_by("model"))
    assert {model: of[cost] for model, *of in models} == {model: of.known_cost for model, of in found.items()}
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


@pytest.mark.parametrize(
    ("costs", "shown"),
    [
        ((0, None), None),
        ((None,), None),
        ((0,), Decimal(0)),
        ((0.25, None, 0), Decimal("0.25")),
        ((None, 0, None), None),
    ],
)
async def test_views_do_not_call_requests_of_unknown_price_free(
    dsn: str, database: Database, costs: tuple[float | None, ...], shown: Decimal | None
) -> None:
    talk = await Talk.open(database)
    await talk.log.append(tuple(ev.UsageReported("m/n", cost=cost) for cost in costs))
    with psycopg.connect(dsn) as other:
        for view in ("usage_by_day", "usage_by_model"):
            assert other.execute(f"select cost from {view}".encode()).fetchall() == [(shown,)]
    assert (await database.usage.totals()).known_cost == shown


async def test_ledger_is_found_by_its_index(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    for _ in range(20):
        await talk.log.append(tuple(ev.UserMessage(f"message {n}" * 20) for n in range(500)))
    put(dsn, count=50)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("analyze messages")
        for agents in (None, [UUID(talk.agent.id)]):
            plan = other.execute(
                "explain " + usage_queries.CACHE_TOTALS, {"since": time.time() - 60, "agents": agents}
            ).fetchall()
            assert any("messages_usage" in line for (line,) in plan), plan


GROUPED: tuple[By, ...] = ("day", "month", "model", "agent", "tree", "folder")
SUMS = "days", "quarters", "model_days", "models", "agents", "counts", "progress"


def check_part(by: By, part: UsageGroups, whole: UsageGroups, most: int) -> bool:
    """Compare the newest or dearest groups with all of them; return True if the others are counted."""
    is_of_time = by in ("day", "month")
    assert part.rows == (whole.rows[-most:] if is_of_time else whole.rows[:most])
    total = whole.total
    assert part.total == total and not whole.more
    assert part.more == len(whole.rows) - len(part.rows) or (part.more is None and by == "day")
    return part.more is not None


@pytest.mark.ordinary("America/New_York", "Pacific/Chatham")  # clocks are set there; days begin at a quarter past
@pytest.mark.parametrize("here", ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Chatham"])
async def test_sums_are_those_of_the_ledger(
    dsn: str, database: Database, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of it is summed up already, and in each time zone: the ledger alone gives the same report."""
    draw = random.Random(7)
    begins = datetime(2026, 10, 20, tzinfo=UTC).timestamp()
    agents = [await database.agents.create() for _ in range(3)]

    def store(count: int) -> None:
        with psycopg.connect(dsn) as other:
            for agent in agents:
                for report in reports(count, draw.randrange(9)):
                    report = msgspec.structs.replace(report, out=draw.randrange(6))
                    at = begins + draw.choice((draw.random() * 30 * 86_400, 900.0 * draw.randrange(2_880)))
                    kind, content, data = codec.encode(report)
                    other.execute(
                        "insert into messages (event_id, agent_id, seq, kind, content, data, created_at) select"
                        " gen_random_uuid(), %s, coalesce(max(seq), 0) + 1, %s, %s, %s, to_timestamp(%s) from messages"
                        " where agent_id = %s",
                        (agent.id, kind, content, data, at, agent.id),
                    )

    with psycopg.connect(dsn) as other:
        ((of_server,),) = other.execute("select replace(current_setting('TimeZone'), 'Etc/', '')").fetchall()

    async def report() -> list[object]:
        found: list[object] = []
        for since in (None, begins + 86_400 * 3, begins + 1_234_567.891, begins + 900 * 1_111):
            for agent in (None, agents[0].id):
                for by in GROUPED:
                    found.append(whole := await database.usage.groups(by, agent, since))
                    is_counted = check_part(by, await database.usage.groups(by, agent, since, 2), whole, 2)
                    assert is_counted or here != of_server
                found += [await database.usage.totals(agent, since), await database.usage.over_time(31, agent, since)]
        return found

    monkeypatch.setenv("TZ", here)
    time.tzset()
    try:
        store(20)
        ledger = await report()
        assert await database.indexer.usage.index_some() == 20
        assert await report() == ledger, "one of the agents is in the sums"
        while await database.indexer.usage.index_some():
            pass
        assert await report() == ledger
        assert await database.indexer.usage.unlist_some() == 3
        assert await report() == ledger
        for agent in agents:
            await (await database.open_agent(agent)).close()
        store(7)
        with psycopg.connect(dsn) as other:
            more = await report()
            for table in SUMS:
                other.execute(f"delete from usage_{table}".encode())
            other.commit()
            assert more == await report() != ledger
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_step_of_an_earlier_version_adds_nothing(dsn: str, database: Database) -> None:
    """It knows only some of the sums: what it would add to them would be missing in the others."""
    talk = await Talk.open(database)
    await talk.log.append(tuple(reports(5, 1)))
    await database.indexer.usage.index_some()
    begin = search_queries.progress_statements("usage", "usage_progress").begin
    for agent in (talk.agent, await database.agents.create()):
        with psycopg.connect(dsn) as other, pytest.raises(psycopg.errors.NotNullViolation):
            other.execute(begin, (agent.id,))


async def test_one_process_at_a_time_adds_up_and_a_killed_one_adds_nothing(dsn: str, database: Database) -> None:
    """Two could wait for each other's sums over all agents."""
    for seed in range(2):
        await (await Talk.open(database)).log.append(tuple(reports(5, seed)))
    ledger = [await database.usage.groups(by) for by in GROUPED]
    other = await Database.open(dsn, MIGRATIONS)
    try:
        agent = (await database.agents.all())[0]
        with pytest.raises(ZeroDivisionError):
            async with other._beside.use() as cursor, cursor.connection.transaction():
                assert await UsageSums().take(cursor, UUID(agent.id))
                assert await database.indexer.usage.index_some() == 0
                assert [await database.usage.groups(by) for by in GROUPED] == ledger
                raise ZeroDivisionError
    finally:
        await other.close()
    assert await database.indexer.usage.catch_up(60) == 0
    assert [await database.usage.groups(by) for by in GROUPED] == ledger


async def test_reports_do_not_read_what_is_summed_up(dsn: str, database: Database) -> None:
    """The rows of the log that a report reads are those of agents in use, however many requests there were."""
    talk = await Talk.open(database)
    for seed in range(4):
        await talk.log.append(tuple(reports(200, seed)))
    await talk.log.close()
    await database.indexer.usage.catch_up(60)
    read: list[float] = []
    with psycopg.connect(dsn, autocommit=True) as other:
        for further in range(2):
            if further:
                talk = await Talk.open(database, talk.agent)
                await talk.log.append(tuple(reports(5, 1)))
            for statement in map(summed_usage.report, ("all", "model", "agent", "tree")):
                which = {"since": None, "agents": None, "days": []}
                ((plan,),) = other.execute(f"explain (analyze, format json) {statement}".encode(), which).fetchall()
                of_log = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "messages"]
                read.append(sum(node["Actual Rows"] * node["Actual Loops"] for node in of_log))
    assert read[:4] == [0] * 4 and max(read) <= 20, read


async def test_prunes_since_a_time_are_found_by_an_index(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    await talk.log.append(tuple(ev.UsageReported("a/b", Usage(7), size=1, out=n // 3) for n in range(600)))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("analyze messages")
        assert other.execute("select count(*), sum(turns) from prunes").fetchall() == [(199, 199)]
        query = "explain (analyze, format json) select * from prunes where created_at > now() + interval '1 hour'"
        ((plan,),) = other.execute(query.encode()).fetchall()
    read = [node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in nodes(plan[0]["Plan"])]
    assert max(read) == 0, plan


@pytest.mark.usefixtures("zone")
async def test_stretches_of_time_are_as_long_as_it_takes(dsn: str, database: Database) -> None:
    async def units(most: int = 31, **which: Any) -> tuple[str, list[tuple[str, int]], int]:
        unit, rows, earlier = await database.usage.over_time(most, **which)
        return unit, [(name, of.requests) for name, of in rows], earlier.requests

    def at(text: str) -> datetime:
        return datetime.fromisoformat(text).astimezone()

    assert await units() == ("hour", [], 0)
    one = put(dsn, at("2026-11-22 14:00:00"))
    assert await units() == ("hour", [("2026-11-22 14:00", 1)], 0)
    put(dsn, at("2026-11-22 16:59:59.999"))
    assert await units() == (
        "hour", [("2026-11-22 14:00", 1), ("2026-11-22 15:00", 0), ("2026-11-22 16:00", 1)], 0,
    )  # fmt: skip
    put(dsn, at("2026-10-24 00:00:00"), count=2)  # 30 days, one of them of 25 hours
    unit, days, _ = await units()
    assert unit == "day" and len(days) == 30 and days[0] == ("2026-10-24", 2) and days[-1] == ("2026-11-22", 2)
    assert sum(requests for _, requests in days) == 4
    assert await units(agent=one) == ("hour", [("2026-11-22 14:00", 1)], 0)
    assert (await units(since=at("2026-11-22 15:00").timestamp()))[1] == [("2026-11-22 16:00", 1)]
    assert await units(5) == (
        "week",
        [("2026-10-19", 2), ("2026-10-26", 0), ("2026-11-02", 0), ("2026-11-09", 0), ("2026-11-16", 2)],
        0,
    )
    assert await units(2) == ("month", [("2026-10", 2), ("2026-11", 2)], 0)
    put(dsn, at("1999-12-31 23:59:59"))
    unit, years, earlier = await units()
    assert (unit, years[0], years[-1], len(years), earlier) == ("year", ("1999", 1), ("2026", 4), 28, 0)
    assert await units(3) == ("year", [("2026", 4)], 1), "the newest three, and of those what is not before the first"


async def test_turns_and_what_they_held(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    ended = ev.TurnEnded(ev.Ending.COMPLETED)
    for number in range(1, 21):
        asked = (
            ev.UserMessage("?"),
            ev.UsageReported("a/b", Usage(7), size=1, out=number),  # a request of tools, not the turn's last
            ev.UsageReported("a/b", Usage(1_000 * number) if number % 5 else Usage(), size=40, out=number // 4),
            ev.UsageReported("a/b", Usage(999_999), purpose="title"),
            ended,
        )
        await talk.log.append(asked)
    await talk.log.append((ev.UserMessage("?"), ended, ev.UserMessage("?"), ev.UsageReported("a/b", Usage(5), out=5)))
    turns = await database.usage.window_fills(talk.agent.id, 240)
    assert [turn.tokens for turn in turns] == [*(1_000 * n if n % 5 else 10 for n in range(1, 21)), 5]
    assert [turn.out for turn in turns] == [*(n // 4 for n in range(1, 21)), 5]
    assert await database.usage.window_fills(talk.agent.id, 3) == turns[-3:]
    assert await database.usage.window_fills(talk.agent.id, 3, since=time.time() + 60) == []
    assert await database.usage.window_fills(put(dsn, data='{"usage": {"input": "x"}, "out": {}}', count=3), 9) == []
    assert [
        turn.tokens for turn in await database.usage.window_fills(put(dsn, data='{"usage": {"input": 1e300}}'), 9)
    ] == [10**300]


async def test_turns_are_not_looked_for_in_a_million_events(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content) select gen_random_uuid(), agent_id,"
            " newest + n, 'tool_result', repeat('x', 200) from generate_series(1, 4000) as n,"
            " (select agent_id, max(seq) as newest from messages where agent_id = %s group by agent_id) as log",
            (talk.agent.id,),
        )
        other.execute("analyze messages")
        which = {"agent": talk.agent.id, "events": 500, "since": None, "most": 9}
        plan = other.execute("explain (analyze, format json) " + plotting_queries.TURNS, which).fetchall()[0][0]
    # Whatever there are more of lies further back in the index, where nobody looks.
    read = [
        node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        for node in nodes(plan[0]["Plan"])
        if node.get("Relation Name") == "messages"
    ]
    assert read and max(read) <= 501, plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def test_what_an_agent_has_chosen(database: Database) -> None:
    parent = await Talk.open(database)

    async def choose(talk: Talk, value: object, origin: str = "agent") -> int:
        return (await talk.log.append((ev.SettingsChanged({"budget": value}, {"budget": origin}),))).rows[-1].id  # type: ignore[dict-item]

    assert await database.chosen(parent.agent.id, "budget") is None
    await choose(parent, 5_000)
    at = await choose(parent, 9_000, "configuration")
    assert await database.chosen(parent.agent.id, "budget") == 5_000
    child = await Talk.open(database, await database.agents.create(parent=parent.agent.id, forked_at=at))
    await choose(parent, 7_000)
    assert await database.chosen(child.agent.id, "budget") == 5_000, "as it was when it was forked"
    assert await database.chosen(parent.agent.id, "profile") is None
    await parent.log.append((ev.Cleared({"budget": 7_000, "profile": "small"}),))
    assert await database.chosen(parent.agent.id, "budget") == 7_000
    assert await database.chosen(parent.agent.id, "profile") == "small"
    await choose(parent, None)
    assert await database.chosen(parent.agent.id, "budget") is None


async def test_days_are_counted_only_where_all_of_them_begin_as_in_the_sums(
    dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest days begin as those of the server, and those of the summer do not."""
    agent = await database.agents.create()
    summer = [datetime(2026, 7, day, hour, 30, tzinfo=UTC) for day in (1, 3, 5) for hour in (12, 23)]
    winter = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in range(2, 12)]
    kind, content, data = codec.encode(ev.UsageReported("a/b", cost=1.0))
    with psycopg.connect(dsn) as other:
        for seq, at in enumerate([*summer, *winter], 1):
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind, content, data, created_at)"
                " values (gen_random_uuid(), %s, %s, %s, %s, %s, %s)",
                (agent.id, seq, kind, content, data, at),
            )
    while await database.indexer.usage.index_some():
        pass
    monkeypatch.setenv("TZ", "Europe/London")  # the sums have days of UTC
    time.tzset()
    try:
        whole = await database.usage.groups("day")
        part = await database.usage.groups("day", most=2)
        assert len(whole.rows) == 16 and part.rows == whole.rows[-2:]
        assert part.more in (None, 14)
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_dearest_agents_of_one_cost_are_the_first_of_all(database: Database) -> None:
    for n in range(12):
        log = await database.open_agent(await database.agents.create(f"agent-{n:02}"))
        await log.append((ev.UsageReported("local/a"),))
        await log.close()
    while await database.indexer.usage.index_some():
        pass
    assert await database.indexer.usage.unlist_some() == 12
    whole = await database.usage.groups("agent")
    assert (await database.usage.groups("agent", most=3)).rows == whole.rows[:3]
