"""The ledger in the database: exact sums of every row, by the day where one is, whatever a row may hold."""

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Usage
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.core.request.spending import NOTHING, Money, SpendingQuery
from ikigai.core.views.usage_totals import UsageTotals, sum_totals, totals_of
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import AppendAttempt, AppendTarget
from ikigai.store.sql import usage as usage_queries
from ikigai.store.sql import window_history as plotting_queries
from ikigai.store.usage.usage import By
from tests.store.talk import Talk
from tests.support.usage_sums import check_sums

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


@pytest.mark.parametrize(("letter", "count"), [("m", 200), ("m", 2_700), ("é", 9_000), ("😀", 100_000)])
async def test_name_of_a_model_may_have_any_length(dsn: str, database: Database, letter: str, count: int) -> None:
    """The sums have its beginning: an index takes no more. The ledger has all of it."""
    draw = random.Random(count)
    name = "a/" + "".join(chr(ord(letter) + draw.randrange(12)) for _ in range(count))
    talk = await Talk.open(database)
    for _ in range(2):
        await talk.log.append((ev.UsageReported(name, Usage(1)),))
    with psycopg.connect(dsn) as other:
        assert other.execute("select distinct model from usage").fetchall() == [(name,)]
    assert [(model, of.requests) for model, of in await database.usage.totals_by("model")] == [(name[:200], 2)]
    assert check_sums(dsn) == 2


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
                "explain " + usage_queries.CACHE_CAUSES, {"since": time.time() - 60, "agents": agents}
            ).fetchall()
            assert any("messages_usage" in line for (line,) in plan), plan


GROUPED: tuple[By, ...] = ("day", "month", "model", "agent", "tree", "folder")


class Request(NamedTuple):
    """A request as the log has it: when it was stored, of which agent, what it adds to a sum, and what caps count."""

    at: float
    agent: str
    model: str
    adds: UsageTotals
    spent: Money


def period(by: str, at: float) -> str:
    """Return the name of the period that contains a moment."""
    moment = datetime.fromtimestamp(at)
    if by == "week":
        moment -= timedelta(days=moment.weekday())
    forms = {"hour": "%Y-%m-%d %H:00", "month": "%Y-%m", "year": "%Y"}
    return moment.strftime(forms.get(by, "%Y-%m-%d"))


@pytest.mark.ordinary(
    "America/New_York-10", "Australia/Lord_Howe-9"
)  # clocks are set there; days begin at a quarter past
@pytest.mark.parametrize(
    ("here", "month"),
    [
        ("UTC", 10),
        ("Asia/Kolkata", 10),
        ("America/New_York", 10),
        ("Pacific/Chatham", 10),
        ("Pacific/Chatham", 3),  # from summer time to winter time
        ("Australia/Lord_Howe", 9),  # by half an hour
        ("Australia/Lord_Howe", 3),
        ("America/St_Johns", 10),
        ("America/Havana", 10),  # midnight is twice
        ("Africa/Cairo", 4),  # a day without midnight
        ("Africa/Cairo", 10),
    ],
)
async def test_reports_add_up_every_request_of_a_period_in_each_time_zone(
    dsn: str, database: Database, here: str, month: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(7)
    begins = datetime(2026, month, 20, tzinfo=UTC).timestamp()
    top = await database.agents.create("top", "/work")
    made = await database.tree.fork(top, 0, (ev.Forked(top.id, 0),), made=uuid4())
    agents = [top, made, await database.agents.create("other", "/else")]
    requests: list[Request] = []
    with psycopg.connect(dsn) as other:
        for agent in agents:
            out: int | None = None
            for seq, report in enumerate(reports(40, draw.randrange(9)), 2):
                report = replace(report, out=draw.randrange(6))
                at = begins + draw.choice((draw.random() * 30 * 86_400, 900.0 * draw.randrange(2_880)))
                kind, content, data = codec.encode(report)
                other.execute(
                    "insert into messages (event_id, agent_id, seq, kind, content, data, created_at)"
                    " values (gen_random_uuid(), %s, %s - (%s <> 'made')::integer, %s, %s, %s, to_timestamp(%s))",
                    (agent.id, seq, "made" if agent is made else "", kind, content, data, at),
                )
                pruned = max(0, report.out - out) if out is not None and not report.purpose else 0
                out = out if report.purpose else report.out
                adds = replace(totals_of(report), prunes=int(pruned > 0), pruned=pruned)
                spent = Money(adds.cost, adds.input + adds.output)
                requests.append(Request(at, agent.id, report.model, adds, spent))
    names = {agent.id: agent.name for agent in agents}
    keys: dict[str, Callable[[Request], str]] = {
        "model": lambda each: each.model,
        "agent": lambda each: names[each.agent],
        "tree": lambda each: "other" if each.agent == agents[2].id else "top",
        "folder": lambda each: "/else" if each.agent == agents[2].id else "/work",
    }

    monkeypatch.setenv("TZ", here)
    time.tzset()
    try:
        for since, agent in product(
            (None, begins + 86_400 * 3, begins + 1_234_567.891, begins + 900 * 1_111, begins + 900 * 2_879 - 1e-6),
            (None, agents[0].id, agents[1].id),
        ):
            counted = [each for each in requests if each.at >= (since or 0) and agent in (None, each.agent)]
            whole = sum_totals(each.adds for each in counted)
            if since and agent is None:
                caps = await database.usage.spent(agents[2].id, SpendingQuery("", since, agents=True))
                assert caps["day"] == sum((each.spent for each in counted), NOTHING)
                own = (each.spent for each in requests if each.agent == agents[2].id)
                assert caps["agent"] == sum(own, NOTHING)
            assert await database.usage.totals(agent, since) == whole
            for by in GROUPED:
                key = keys.get(by, lambda each, by=by: period(by, each.at))
                groups: dict[str, UsageTotals] = defaultdict(UsageTotals)
                for each in counted:
                    groups[key(each)] += each.adds
                found = await database.usage.groups(by, agent, since)
                assert dict(found.rows) == groups and found.total == whole and found.more == 0
                shown = [name for name, _ in found.rows]
                if by in ("day", "month"):
                    assert shown == sorted(shown)
                part = await database.usage.groups(by, agent, since, 2)
                assert part.rows == (found.rows[-2:] if by in ("day", "month") else found.rows[:2])
                assert part.total == whole and part.more == max(0, len(groups) - 2)
            for most in (5, 31, 1_000):
                unit, rows, earlier = await database.usage.over_time(most, agent, since)
                groups = defaultdict(UsageTotals)
                for each in counted:
                    groups[period(unit, each.at)] += each.adds
                assert {name: of for name, of in rows if of.requests} == groups and earlier == UsageTotals()
    finally:
        monkeypatch.undo()
        time.tzset()


class Life:
    """Random acts upon the agents of one database, each of which leaves the sums as the log has them."""

    def __init__(self, dsn: str, database: Database, seed: int) -> None:
        self.dsn, self.database, self.draw = dsn, database, random.Random(seed)
        self.agents: list[Agent] = []

    def events(self) -> list[ev.Event]:
        made = reports(self.draw.randrange(1, 5), self.draw.randrange(10**6))
        requests: list[ev.Event] = [replace(each, out=self.draw.randrange(4), most=None) for each in made]
        return [ev.UserMessage("a secret"), *requests, ev.TurnEnded(ev.Ending.COMPLETED)]

    async def create(self) -> None:
        self.agents.append(await self.database.agents.create(ephemeral=self.draw.random() < 0.2))

    async def append(self) -> None:
        log = await self.database.open_agent(self.draw.choice(self.agents))
        for _ in range(self.draw.randrange(1, 4)):
            await log.append(self.events())
        await log.close()

    async def append_twice(self) -> None:
        """Store events whose answer is lost, and again."""
        await self._try(times=2)

    async def append_in_vain(self) -> None:
        """Store events in a transaction that is rolled back."""
        with pytest.raises(ZeroDivisionError):
            await self._try(times=1, fails=True)

    async def _try(self, times: int, fails: bool = False) -> None:
        agent = UUID(self.draw.choice(self.agents).id)
        async with self.database._session.use() as cursor:
            await cursor.execute("select coalesce(max(seq), 0) from messages where agent_id = %s", (agent,))
            ((last,),) = await cursor.fetchall()
            attempt = AppendAttempt(AppendTarget(str(agent), agent, (0, 0), False), self.events(), last)
            async with cursor.connection.transaction():
                for _ in range(times):
                    assert len(await attempt.store(cursor, False)) == len(attempt.rows)
                if fails:
                    raise ZeroDivisionError

    async def fork(self) -> None:
        parent = self.draw.choice(self.agents)
        made = uuid4() if self.draw.random() < 0.5 else None
        self.agents.append(
            await self.database.tree.fork(parent, 0, (ev.Forked(parent.id, 0), *self.events()), made=made)
        )

    async def copy(self) -> None:
        """Export an agent and import it."""
        source = self.database.export(self.draw.choice(self.agents))
        await source.open()
        rows = [raw async for page in source.pages() for raw in page]
        made = await self.database.begin_import().store(iter(rows))
        self.agents.append(await self.database.agents.find(made.agent))

    async def purge(self) -> None:
        task = self.database.purge(PurgeTarget("a secret"), ((0, 2**63 - 1),), self.draw.choice(self.agents).id)
        await task.carry_out(await task.find())

    async def purge_ephemeral(self) -> None:
        gone = await self.database.purge_ephemeral()
        self.agents = [each for each in self.agents if each.id not in gone] or [await self.database.agents.create()]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
async def test_sums_are_those_of_the_log_after_each_act_of_a_life(dsn: str, database: Database, seed: int) -> None:
    life = Life(dsn, database, seed)
    await life.create()
    acts = (
        life.create, life.append, life.append, life.append_twice, life.append_in_vain, life.fork, life.copy, life.purge,
        life.purge_ephemeral,
    )  # fmt: skip
    for act in (*acts, *life.draw.choices(acts, k=40)):
        await act()
        check_sums(dsn)
    assert check_sums(dsn) > 100


async def test_two_programs_add_to_one_hour_without_waiting_for_each_other(dsn: str, database: Database) -> None:
    """Each writes its own agent, and so rows of its own: a transaction that stays open holds up no other one."""
    talks = [await Talk.open(database) for _ in range(2)]
    async with database._beside.use() as cursor, cursor.connection.transaction():
        target = AppendTarget(talks[0].agent.id, UUID(talks[0].agent.id), (0, 0), False)
        await cursor.execute("select coalesce(max(seq), 0) from messages where agent_id = %s", (target.uuid,))
        ((last,),) = await cursor.fetchall()
        await AppendAttempt(target, reports(3, 1), last).store(cursor, False)
        async with asyncio.timeout(2):
            await talks[1].log.append(tuple(reports(3, 2)))
    assert check_sums(dsn) == 6


async def test_only_requests_touch_the_sums(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    with psycopg.connect(dsn, autocommit=True) as other:
        before = other.execute("select xmin, ctid from usage_hours").fetchall()
        await talk.log.append((ev.UserMessage("?"), ev.CommandRan("/status", "fine")))
        assert other.execute("select xmin, ctid from usage_hours").fetchall() == before == []
        query = """
            explain (analyze, format json) insert into messages (agent_id, seq, event_id, kind)
            select agent_id, max(seq) + 1, gen_random_uuid(), %s from messages where agent_id = %s group by 1
        """
        for kind, fired in (("user", False), ("usage", True)):
            ((plan,),) = other.execute(query.encode(), (kind, talk.agent.id)).fetchall()
            names = {trigger["Trigger Name"] for trigger in plan[0]["Triggers"] if trigger["Calls"]}
            assert ("sum_usage" in names) is fired, names


async def test_reports_read_no_row_of_the_log(dsn: str, database: Database) -> None:
    """However many requests there were: only of hours that a report cuts."""
    talk = await Talk.open(database)
    for seed in range(4):
        await talk.log.append(tuple(reports(200, seed)))
    statements = [usage_queries.TOTALS, *map(usage_queries.report, ("model", "agent", "tree", "folder", "day"))]
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    which = {"since": None, "agents": None, "days": [hour], "cut": [], "most": 9}
    with psycopg.connect(dsn, autocommit=True) as other:
        for statement in statements:
            ((plan,),) = other.execute(f"explain (analyze, format json) {statement}".encode(), which).fetchall()
            of_log = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "messages"]
            assert sum(node["Actual Rows"] * node["Actual Loops"] for node in of_log) == 0, statement


async def test_request_before_is_one_step_in_an_index(dsn: str, database: Database) -> None:
    """Other agents that stored since then are not gone through, whatever the planner expects."""
    first = await Talk.open(database)
    await first.log.append((ev.UsageReported("a/b", out=1),))
    other_talk = await Talk.open(database)
    await other_talk.log.append(tuple(ev.UsageReported("a/b", out=n) for n in range(2_000)))
    (row,) = (await first.log.append((ev.UsageReported("a/b", out=4),))).rows
    with psycopg.connect(dsn, autocommit=True) as other:
        for statement in ("analyze messages", "select 1"):
            other.execute(statement.encode())
            query = "explain (analyze, format json) select pruned from usage where id = %s"
            ((plan,),) = other.execute(query.encode(), (row.id,)).fetchall()
            read = [node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in nodes(plan[0]["Plan"])]
            assert max(read) <= 1, plan
        assert other.execute("select pruned from usage where id = %s", (row.id,)).fetchall() == [(3,)]


async def test_request_before_is_one_step_also_of_an_old_request(dsn: str, database: Database) -> None:
    """The agent's newer requests are not gone through: to fill the sums of a restored log would take their square."""
    talk = await Talk.open(database)
    rows = (await talk.log.append(tuple(ev.UsageReported("a/b", out=n // 2) for n in range(4_000)))).rows
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("vacuum analyze messages")
        query = "explain (analyze, buffers, format json) select pruned from usage where id = %s"
        ((plan,),) = other.execute(query.encode(), (rows[2].id,)).fetchall()
        blocks = plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
        assert blocks <= 12, plan
        assert other.execute("select pruned from usage where id = %s", (rows[2].id,)).fetchall() == [(1,)]


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


async def test_dearest_agents_of_one_cost_are_the_first_of_all(database: Database) -> None:
    for n in range(12):
        log = await database.open_agent(await database.agents.create(f"agent-{n:02}"))
        await log.append((ev.UsageReported("local/a"),))
        await log.close()
    whole = await database.usage.groups("agent")
    assert (await database.usage.groups("agent", most=3)).rows == whole.rows[:3]
