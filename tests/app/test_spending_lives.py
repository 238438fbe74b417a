"""No sum of real costs passes a cap, over random lives of agents in several programs that run, are killed and restart.

The database, its connections and locks are real. Of a model there are only figures: a request really takes what its
bound allows at most, and a killed program's takes what had been streamed and saved when it died.

IKIGAI_LONG_LIVES sets the number of lives of the long run (1,000).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ikigai.agent.loop import AgentLoop
from ikigai.agent.spending_guard import GuardTerms, RunSpending, SpendingGuard, Ticket, day_start
from ikigai.core.events.events import Ending, Forked, TurnEnded, UsageReported, UserMessage
from ikigai.core.events.messages import Message, Role, Text, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import StreamFailed
from ikigai.core.request.reply_draft import Draft
from ikigai.core.request.spending import NOTHING, Cap, Caps, Money, SpendingQuery
from ikigai.core.state.inputs import Input, UsageRecorded
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.log import AgentLog
from tests.conftest import MIGRATIONS
from tests.support.usage_sums import check_sums

LONG_LIVES = int(os.environ.get("IKIGAI_LONG_LIVES") or 1_000)
MODEL = "wire/x"
IN, WRITTEN, OUT = Decimal("0.00001"), Decimal("0.0000125"), Decimal("0.00005")
"""Dollars for a token."""
T = TypeVar("T")


def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    fresh = usage.input - usage.written
    return float(fresh * IN + usage.written * WRITTEN + usage.output * OUT), "figures"


def cost(input: int, output: int) -> Money:
    """Return the real cost of a request whose whole input is written to a cache."""
    return Money(input * WRITTEN + output * OUT, input + output)


async def reservations_written() -> None:
    """Wait until the guards have written, or failed to write, what is under way."""
    for task in asyncio.all_tasks():
        if task.get_name() == "reservations":
            await asyncio.wait({task})


class Bill:
    """The real costs so far, by what they count for."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, object], Money] = {}

    def add(self, amount: Money, keys: set[tuple[str, object]]) -> None:
        for key in keys:
            self.sums[key] = self.sums.get(key, NOTHING) + amount

    def check(self, caps: dict[str, Cap]) -> None:
        for (scope, of), amount in self.sums.items():
            cap = caps[scope]
            assert not cap.usd or amount.usd <= cap.usd, (scope, of, amount, cap)
            assert not cap.tokens or amount.tokens <= cap.tokens, (scope, of, amount, cap)


class Seat:
    """One agent in one program: its log, its guard, and the requests under way with the keys they count for."""

    def __init__(self, agent: Agent, log: AgentLog, run: RunSpending, view: Any) -> None:
        self.agent, self.log, self.first = agent, log, 0
        self.inputs: list[Input] = []
        self.asked: list[tuple[Ticket, set[tuple[str, object]]]] = []
        self.ended: list[UsageReported] = []  # rows that are not stored yet

        async def until_available(call: Callable[[], Awaitable[T]]) -> T:
            return await call()

        async def no_count(request: Request) -> None:
            return None

        async def none_counted() -> None:
            return None

        loop = SimpleNamespace(
            memory=SimpleNamespace(open=None),
            can_ask=False,
            until_available=until_available,
            put_input=self.inputs.append,
        )
        self.loop = loop
        provider = cast("Any", SimpleNamespace(count=no_count))
        terms = GuardTerms(agent.id, log, view, lambda _: ChatEncoder(), lambda _: provider, none_counted)
        self.guard = SpendingGuard(run, terms, price, cast("AgentLoop", loop))

    async def begin_turn(self) -> None:
        if not self.loop.memory.open:
            self.first = (await self.log.append((UserMessage("?"),))).rows[0].id
            self.loop.memory.open = SimpleNamespace(first=self.first)

    async def end_turn(self) -> None:
        if self.loop.memory.open and not self.asked and not self.ended:
            await self.log.append((TurnEnded(Ending.COMPLETED, first=self.first),))
            self.loop.memory.open = None

    async def store(self) -> None:
        for incoming in self.inputs:
            assert isinstance(incoming, UsageRecorded)
            self.ended.append(incoming.usage)
        self.inputs.clear()
        while self.ended:
            report = self.ended.pop()
            await self.log.append((report,))
            self.guard.stored(report)


class World:
    """Agents of one database, and the programs that have them open. Agent 1 is a subagent of agent 0."""

    def __init__(self, dsn: str, caps: dict[str, Cap], seed: int) -> None:
        self.dsn, self.caps, self.draw, self.bill = dsn, caps, Random(seed), Bill()
        self.told = list[str]()
        self.programs: dict[int, tuple[Database, RunSpending]] = {}
        self.opening = asyncio.Lock()
        self.seats: dict[int, Seat] = {}
        self.agents: list[Agent] = []
        self.admitted = self.refused = 0
        self.open_turns: dict[int, int] = {}  # of killed programs, by agent

    async def open(self) -> None:
        database, _ = await self.program(0)
        top = await database.agents.create()
        made = await database.tree.fork(top, 0, (Forked(top.id, 0),), made=uuid4())
        self.agents = [top, made, await database.agents.create(), await database.agents.create()]
        spent = (await database.usage.spent(top.id, SpendingQuery("", day_start())))["day"]
        day = self.caps["day"]
        self.caps["day"] = Cap(day.usd and day.usd + spent.usd, day.tokens and day.tokens + spent.tokens)
        self.bill.sums["day", 0] = spent
        for _, run in self.programs.values():
            run.caps = Caps(**self.caps)

    async def program(self, number: int) -> tuple[Database, RunSpending]:
        async with self.opening:  # agents that start at the same time share one program
            if number not in self.programs:
                database = await Database.open(self.dsn, MIGRATIONS, deadline=60)
                self.programs[number] = database, RunSpending(Caps(**self.caps))
            return self.programs[number]

    async def seat(self, number: int) -> Seat:
        """Return the seat of an agent, in the program that it belongs to: agents 0, 1 and 2 share one."""
        if number not in self.seats:
            database, run = await self.program(number // 3)
            log = await database.open_agent(self.agents[number])
            view = SimpleNamespace(notice=self.told.append)
            seat = self.seats[number] = Seat(self.agents[number], log, run, view)
            await seat.guard.recover()
            if number in self.open_turns:
                seat.first = self.open_turns.pop(number)
                await seat.store()
                await log.append((TurnEnded(Ending.INTERRUPTED, first=seat.first),))
        return self.seats[number]

    async def start(self, number: int) -> None:
        seat = await self.seat(number)
        await seat.begin_turn()
        words = "x" * self.draw.randrange(1, 8_000)
        request = Request("x", (Message(Role.USER, (Text(words),)),), max_output=self.draw.choice([0, 500, 8_000]))
        keys = self.keys(number)
        outcome = await seat.guard.admit(request, MODEL)
        if isinstance(outcome, StreamFailed):
            self.refused += 1
            return
        assert outcome
        self.admitted += 1
        seat.asked.append((outcome, keys))

    def keys(self, number: int) -> set[tuple[str, object]]:
        """Return what a request of this agent counts for."""
        _, run = self.programs[number // 3]
        chain = (1, 0) if number == 1 else (number,)
        opened = {("turn", self.seats[n].first) for n in chain if n in self.seats and self.seats[n].loop.memory.open}
        return {("day", 0), ("run", run.id), *(("agent", n) for n in chain), *opened}

    async def finish(self, number: int, cut: bool = False) -> None:
        seat = self.seats.get(number)
        if seat is None or not seat.asked:
            return
        ticket, keys = seat.asked.pop(self.draw.randrange(len(seat.asked)))
        taken = self.draw.randrange(ticket.bound.input // 2, ticket.bound.input + 1)
        most = ticket.bound.output
        output = self.draw.choice([0, most // 3, most])
        seen = output
        if cut:  # the provider goes on a little, and the user sees less than it made
            seen = max(0, output - self.draw.randrange(1_024))
        self.bill.add(cost(taken, output), keys)
        usage = Usage(taken, 1 if cut else output, written=taken)
        known = cast("float", price(MODEL, usage, 0)[0])
        failure = "interrupted" if cut else ""
        seat.ended.append(seat.guard.settle(ticket, UsageReported(MODEL, usage, cost=known, failure=failure), seen))
        await reservations_written()  # before that, what is known of a reply is its draft

    async def fail(self, number: int) -> None:
        """Let a request fail before a model has worked: it costs nothing."""
        seat = self.seats.get(number)
        if seat and seat.asked:
            ticket, _ = seat.asked.pop()
            report = UsageReported(MODEL, cost=0.0, failure="overloaded")
            seat.ended.append(seat.guard.settle(ticket, report, 0))

    async def kill(self, number: int) -> None:
        """Kill a program while its requests run: what it had saved of one reply is in its draft."""
        if number not in self.programs:
            return
        database, _ = self.programs.pop(number)
        for at in [at for at in self.seats if at // 3 == number]:
            seat = self.seats.pop(at)
            if seat.loop.memory.open:
                self.open_turns[at] = seat.first
            for ticket, keys in seat.asked[:-1]:  # side calls leave no draft: a little came
                self.bill.add(cost(ticket.bound.input, min(ticket.bound.output, self.draw.randrange(1_024))), keys)
            for ticket, keys in seat.asked[-1:]:
                output = self.draw.choice([0, ticket.bound.output // 4, ticket.bound.output])
                await seat.log.save_draft(Draft(seat.first, "word" * output))
                late = min(ticket.bound.output - output, self.draw.randrange(1_024))
                self.bill.add(cost(ticket.bound.input, output + late), keys)
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            pid = database._session.info.backend
            admin.execute("select pg_terminate_backend(%s, 10000)", (pid,))
        await reservations_written()
        await database.close()

    async def close(self) -> None:
        for number in list(self.programs):
            await self.kill(number)


Step = tuple[str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["start"] * 4 + ["start all", "finish", "finish", "cut", "fail", "store", "end", "kill"]),
        st.integers(0, 3),
    ),
    min_size=8,
    max_size=30,
)
amounts = st.sampled_from([Decimal(0), Decimal("0.2"), Decimal("0.6"), Decimal(1)])
caps_of = st.fixed_dictionaries(
    {
        scope: st.builds(Cap, amounts, st.sampled_from([0, 0, 12_000, 40_000]))
        for scope in ("turn", "run", "day", "agent")
    }
).filter(lambda caps: any(cap.usd for cap in caps.values()))


async def live(dsn: str, caps: dict[str, Cap], life: list[Step], seed: int) -> World:
    world = World(dsn, dict(caps), seed)
    try:
        await world.open()
        for step, number in life:
            match step:
                case "start":
                    await world.start(number)
                case "start all":  # at the same time, in two programs
                    await asyncio.gather(*(world.start(n) for n in (0, 2, 3)))
                case "finish" | "cut":
                    await world.finish(number, step == "cut")
                case "fail":
                    await world.fail(number)
                case "store" if number in world.seats:
                    await world.seats[number].store()
                case "end" if number in world.seats:
                    await world.seats[number].end_turn()
                case "kill":
                    await world.kill(number % 2)
                case _:
                    pass
            world.bill.check(world.caps)
        for number in range(4):
            while number in world.seats and world.seats[number].asked:
                await world.finish(number)
        world.bill.check(world.caps)
        check_sums(dsn)
    finally:
        await world.close()
    return world


@pytest.mark.parametrize(
    "lives", [3, pytest.param(LONG_LIVES, id="long", marks=[pytest.mark.long, pytest.mark.timeout(4 * 3_600)])]
)
def test_no_sum_of_real_costs_passes_a_cap(dsn: str, lives: int) -> None:
    # A life takes a real database: to shrink one would take minutes, and the events of any show what went wrong.
    @settings(
        max_examples=lives, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate)
    )
    @given(caps_of, steps, st.integers(0, 2**16))
    def check(caps: dict[str, Cap], life: list[Step], seed: int) -> None:
        asyncio.run(live(dsn, caps, life, seed))

    check()


async def test_cap_lets_requests_start_and_stops_them(dsn: str) -> None:
    """The lives say something: under a cap some requests start and some do not."""
    caps = {"turn": Cap(), "run": Cap(), "day": Cap(Decimal(1)), "agent": Cap()}
    world = await live(dsn, caps, [("start", n % 4) for n in range(24)], 1)
    assert world.admitted >= 3 and world.refused >= 3


async def test_four_fifths_of_a_cap_are_told_once_by_a_run(dsn: str) -> None:
    caps = {"turn": Cap(), "run": Cap(tokens=60_000), "day": Cap(), "agent": Cap(tokens=1_000_000)}
    world = World(dsn, caps, 3)
    try:
        await world.open()
        while not world.refused:
            await world.start(3)
            await world.finish(3)
            _, run = world.programs[1]
            assert bool(world.told) is (run.used.tokens >= 48_000), (world.told, run.used)
        assert [line.startswith("80 % of the spending cap for this run") for line in world.told] == [True]
    finally:
        await world.close()


async def test_killed_program_has_spent_the_whole_of_a_finished_request(dsn: str) -> None:
    """The reply has ended, the row with its cost is not stored, and of the reply there is no draft."""
    caps = {"turn": Cap(), "run": Cap(), "day": Cap(Decimal("0.7")), "agent": Cap()}
    world = World(dsn, caps, 1)
    try:
        await world.open()
        seat = await world.seat(3)
        await seat.begin_turn()
        ticket = await seat.guard.admit(Request("x", (Message(Role.USER, (Text("hi"),)),), max_output=8_000), MODEL)
        assert isinstance(ticket, Ticket)
        seat.guard.settle(ticket, UsageReported(MODEL, Usage(1, 7_000, written=1), cost=float(cost(1, 7_000).usd)), 0)
        await reservations_written()
        database, _ = world.programs[0]
        query = SpendingQuery("", day_start())
        before = (await database.usage.spent(world.agents[0].id, query))["day"]
        await world.kill(1)
        assert (await database.usage.spent(world.agents[0].id, query))["day"] == before
        assert before.usd - world.bill.sums["day", 0].usd == cost(1, 7_000).usd
    finally:
        await world.close()


async def test_recovered_request_is_spent_once(dsn: str) -> None:
    caps = {"turn": Cap(), "run": Cap(), "day": Cap(Decimal("0.7")), "agent": Cap()}
    world = World(dsn, caps, 1)
    try:
        await world.open()
        query = SpendingQuery("", day_start())
        await world.start(3)
        await world.kill(1)
        database, _ = world.programs[0]
        lost = (await database.usage.spent(world.agents[0].id, query))["day"]
        assert lost.usd > 0
        for _ in range(2):
            await world.seat(3)
            for _ in range(1_000):  # until the new writer has released what the dead one had reserved
                if (await database.usage.spent(world.agents[0].id, query))["day"] == lost:
                    break
                await asyncio.sleep(0.01)
            await reservations_written()
            assert (await database.usage.spent(world.agents[0].id, query))["day"] == lost
            await world.kill(1)
            assert (await database.usage.spent(world.agents[0].id, query))["day"] == lost
    finally:
        await world.close()


async def test_killed_program_blocks_no_more_than_it_had_sent(dsn: str) -> None:
    caps = {"turn": Cap(), "run": Cap(), "day": Cap(Decimal("0.7")), "agent": Cap()}
    world = World(dsn, caps, 1)
    try:
        await world.open()
        seat = await world.seat(3)
        await seat.begin_turn()
        held = await seat.guard.admit(Request("x", (Message(Role.USER, (Text("hi"),)),), max_output=11_000), MODEL)
        assert isinstance(held, Ticket) and held.reserved.usd > Decimal("0.5")
        other = await world.seat(0)
        small = Request("x", (Message(Role.USER, (Text("hi"),)),), max_output=8_000)
        assert isinstance(await other.guard.admit(small, MODEL), Ticket), "with an output limit of what is left"
        await world.kill(1)
        (await other.log.append((UserMessage("?"),)))
        again = await other.guard.admit(small, MODEL)
        assert isinstance(again, Ticket) and again.request.max_output > 7_000
        assert again.request.output_cap == again.request.max_output
    finally:
        await world.close()


@pytest.mark.ordinary("3")
@pytest.mark.parametrize("number", [0, 3])
def test_program_that_is_killed_again_and_again_stays_below_its_cap(dsn: str, number: int) -> None:
    caps = {"turn": Cap(), "run": Cap(), "day": Cap(Decimal("0.9")), "agent": Cap()}
    life = [("start", number), ("kill", number // 3)] * 15
    world = asyncio.run(live(dsn, caps, life, 2))
    assert world.admitted >= 2 and world.refused >= 2
