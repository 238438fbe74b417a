"""The cost of loading grows with the window, not with the history."""

import gc
import json
from collections.abc import Generator
from typing import cast

import psycopg
import pytest

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Submitted
from ikigai.core.state.lineage import Span
from ikigai.core.state.loading import Answer, AskPage, AskSpans, Loading, Question, load_memory
from ikigai.core.state.memory import Memory, next_request, replace
from ikigai.core.state.tool_results import ToolResultLimits
from ikigai.core.views import transcript
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log import reading
from ikigai.store.log.append_attempt import new_event_id
from ikigai.store.sql import agents as queries
from ikigai.store.sql import reading as reading_queries
from ikigai.terminal.render.blocks import draw_block
from ikigai.terminal.render.theme import Theme
from tests.core.encoders import encoder, limits
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh

RUN = RunConfig({"model": "chat/large", "budget": 2_000}, limits, encoder, rules=WindowRules(prune_fraction=0))
LENGTHS = (100, 1_000, 5_000)


def turn(first: int, number: int) -> tuple[ev.Event, ...]:
    """The events of one of many turns of the same size, as a program would have stored them from the id `first` on."""
    before, previous = (ev.Totals(n, 2 * n, 400 * n) for n in (number, max(0, number - 1)))
    return (
        ev.UserMessage("q" * 100),
        ev.AssistantMessage((Text("a" * 200),)),
        ev.UsageReported("chat/large"),
        ev.TurnEnded(ev.Ending.COMPLETED, "", first, 400, before, previous),
    )


def fill(dsn: str, agent: Agent, turns: int, analyze: bool = True) -> None:
    with psycopg.connect(dsn) as other:
        ((id,),) = other.execute("select coalesce(max(id), 0) from messages").fetchall()
        columns = "copy messages (id, event_id, agent_id, seq, kind, content, data) from stdin"
        with other.cursor().copy(columns) as copy:
            for seq, event in enumerate((event for n in range(turns) for event in turn(id + 1 + 4 * n, n)), start=1):
                copy.write_row((id + seq, new_event_id(), agent.id, seq, *codec.encode(event)))
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages")
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("analyze messages" if analyze else "alter table messages set (autovacuum_enabled = off)")


class Counted:
    """A loading, and how many questions it asked and rows it was given."""

    def __init__(self, run: RunConfig, agent: Agent) -> None:
        self.loading: Loading = load_memory(run, agent.id)
        self.questions: list[Question] = []
        self.rows = 0

    def __call__(self) -> Generator[Question, Answer, Memory]:
        question = next(self.loading)
        while True:
            self.questions.append(question)
            answer = yield question
            self.rows += len(answer)
            try:
                question = self.loading.send(answer)
            except StopIteration as done:
                return done.value


async def test_cost_is_bound_to_the_window(database: Database, dsn: str) -> None:
    costs: list[tuple[int, int, int]] = []
    touched: list[dict[str, int]] = []
    for turns in LENGTHS:
        agent = await database.agents.create()
        fill(dsn, agent, turns)
        counted = Counted(RUN, agent)
        memory = await database.reader(agent).load(counted())
        costs.append((len(counted.questions), counted.rows, len(memory.window.turns)))
        assert memory.window.older.turns == turns - len(memory.window.turns) > 0
        assert await (await database.open_agent(agent)).load(load_memory(RUN, agent.id)) == memory
        touched.append(await blocks_touched(database, agent))
    assert len(set(costs)) == 1
    questions, rows, kept = costs[0]
    assert questions == 3 and kept > 10 and rows <= 256 + 1
    for name, blocks in touched[-1].items():
        assert blocks <= touched[0][name] + 40 and blocks < 150, name


async def test_cost_is_bound_to_the_window_where_the_planner_knows_nothing(database: Database, dsn: str) -> None:
    agent = await database.agents.create()
    fill(dsn, agent, LENGTHS[-1], analyze=False)
    with psycopg.connect(dsn) as other:
        assert other.execute("select from pg_stats where tablename = 'messages'").rowcount == 0
    for name, blocks in (await blocks_touched(database, agent)).items():
        assert blocks < 150, name


async def blocks_touched(database: Database, agent: Agent) -> dict[str, int]:
    """How many blocks of 8 kB the server reads for each query."""
    last = 2**63 - 1
    parameters = {
        "ANCESTRY": (agent.id,),
        "CONTROLS": ([agent.id], [0], [last]),
        "PAGE": (100_000, 50_000, 0, agent.id, 0, last, 256),
        "PAGES": ([agent.id], [0], [last], 256, 100_000, 50_000, 0, 256),
        "HISTORY": (agent.id, last, 100, 100_000, 50_000, 1_000, 100),
        "USE_AGENT": {"user": "me", "directory": None, "agent": agent.id, "by_user": True},
        "PROMPTS": {"most": 100, "limit": 25},
    }
    statements = {**vars(queries), **vars(reading_queries)}
    found = {}
    async with database._session.use() as cursor:
        for name, values in parameters.items():
            explain = f"explain (analyze, buffers, format json) {statements[name]}".encode()
            for _ in range(2):  # the first run pays for what is not in memory yet
                await cursor.execute(explain, values, prepare=False)
                (([plan],),) = await cursor.fetchall()
            assert '"Relation Name": "messages"' in json.dumps(plan)
            found[name] = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return found


async def test_child_costs_what_its_window_costs(database: Database, dsn: str) -> None:
    parent = await database.agents.create()
    fill(dsn, parent, 1_000)
    middle = (await database.reader(parent).history(None, 2_000))[-1].id - 2_000
    child = await database.agents.create(parent=parent.id, forked_at=middle - middle % 4)
    talk = await Talk.open(database, child, RUN)
    for _ in range(3):
        await talk.turn("q" * 100, "a" * 200)
    counted = Counted(RUN, child)
    assert await database.reader(child).load(counted()) == talk.memory
    assert counted.rows < 600 and sum(isinstance(asked, AskPage | AskSpans) for asked in counted.questions) == 2
    assert talk.memory.window.turns[0].id < middle < talk.memory.window.turns[-1].id


@pytest.mark.parametrize("part", ["head", "tail", "both"])
@pytest.mark.parametrize("keep", [0, 2])
async def test_of_long_results_only_what_a_model_sees_is_read(
    database: Database, monkeypatch: pytest.MonkeyPatch, part: str, keep: int
) -> None:
    """Memory is the same by that, whether or not results are masked; who asks for all of a result gets it."""
    run = replace(
        RUN,
        below={**RUN.below, "budget": 50_000},
        rules=WindowRules(result_limits=ToolResultLimits(500, part, 0, keep)),
    )
    talk = await Talk.open(database, run=run)
    long = "".join(f"{n} ž🐎\n" for n in range(30_000))
    texts = ("short", long, "x" * 67_000, "y" * 67_600, long[::-1], "the end")
    await talk.happen(Submitted("look"))
    calls = [ToolCall(f"c{n}", "look") for n in range(len(texts))]
    await talk.store((ev.AssistantMessage(stop=StopReason.TOOLS), *calls))
    for call, text in zip(calls, texts, strict=True):
        await talk.store((ev.ToolStarted(call.id), ToolResult(call.id, text)))
    opened = await talk.reloaded()
    assert opened == talk.memory and opened.open
    await talk.store((ev.AssistantMessage((Text("done"),)), ev.TurnEnded(ev.Ending.COMPLETED, first=opened.open.first)))

    read: list[int] = []
    decode = codec.decode_rows

    def counted(agent: str, rows: list[tuple[object, ...]]) -> list[ev.StoredEvent]:
        read.append(sum(len(str(row[4])) for row in rows))
        return decode(agent, rows)

    monkeypatch.setattr(codec, "decode_rows", counted)
    assert await talk.reloaded() == talk.memory and "[truncated: kept" in str(next_request(talk.memory))
    assert 0 < sum(read) < 67_000 + 5 * 2_100
    reader = database.reader(talk.agent)
    assert [await reader.result(call.id) for call in calls] == list(texts)
    found = [row.event for row in await reader.history(None, 50) if isinstance(row.event, ToolResult)]
    assert found == [ToolResult(call.id, text) for call, text in zip(calls, texts, strict=True)]


async def test_at_a_glance_long_results_are_not_read_whole(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.happen(Submitted("look"))
    await talk.store((ev.AssistantMessage(stop=StopReason.TOOLS), *(ToolCall(f"c{n}", "look") for n in range(3))))
    long = "first\n" * 5 + "x" * 300_000 + "\nthe end"
    results = (ToolResult("c0", "short"), ToolResult("c1", long), ToolResult("c2", long, is_error=True))
    await talk.store(results)
    rows = await database.reader(talk.agent).history(None, 50, glance=True)
    short, ended, failed = (row.event for row in rows if isinstance(row.event, ToolResult))
    assert short == results[0] and isinstance(ended, ToolResult) and isinstance(failed, ToolResult)
    assert ended.content == long[: 1 << 16] and ended.whole == failed.whole == len(long)
    assert failed.content == long[: 1 << 16] + long[-4096:]
    drawn = [draw_block(made, 60, Theme(plain=True)) for row in rows if (made := transcript.event_block(row))]
    assert [row.rpartition("\n")[2].strip() for row in drawn[-3:]] == ["← short", "… 300,038 bytes in all", "the end"]


async def test_ends_read_at_a_glance_do_not_overlap(database: Database) -> None:
    """Of characters that take four bytes a text is long sooner than its head and tail have all of it."""
    talk = await Talk.open(database)
    await talk.happen(Submitted("look"))
    await talk.store((ev.AssistantMessage(stop=StopReason.TOOLS), ToolCall("c", "look")))
    failed = ToolResult("c", "𝄞" * 66_000 + "the end", is_error=True)
    await talk.store((failed,))
    rows = await database.reader(talk.agent).history(None, 50, glance=True)
    assert [row.event for row in rows if isinstance(row.event, ToolResult)] == [failed]


async def test_reader_sees_one_moment(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    await talk.turn()

    def meddled() -> Loading:
        steps = load_memory(talk.run, talk.agent.id)
        question = next(steps)
        while True:
            answer = yield question
            write_mark(dsn, talk.agent)
            try:
                question = steps.send(answer)
            except StopIteration as done:
                return done.value

    assert await database.reader(talk.agent).load(meddled()) == talk.memory
    assert len((await database.reader(talk.agent).load(load_memory(talk.run, talk.agent.id))).marks) == 3


def write_mark(dsn: str, agent: Agent) -> None:
    """As another program would, between two questions."""
    with psycopg.connect(dsn) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content)"
            " select gen_random_uuid(), agent_id, max(seq) + 1, 'mark', 'm' from messages"
            " where agent_id = %s group by agent_id",
            (agent.id,),
        )


async def test_page_sent_ahead_is_the_one_asked_for_or_harms_nobody(database: Database, dsn: str) -> None:
    agent = await database.agents.create()
    fill(dsn, agent, 100)
    reader = database.reader(agent)
    memory = await reader.load(load_memory(RUN, agent.id))

    def asking(*wanted: tuple[int | None, int], fails: bool = False) -> Loading:
        """Asks for these pages by their last ids and limits, each as if the one before it were to come next."""
        for last, limit in wanted:
            page = cast("tuple[ev.StoredEvent, ...]", (yield AskPage(Span(agent.id, 0, last), limit, prefetch=True)))
            pages.append([stored.id for stored in page])
        if fails:
            raise ZeroDivisionError
        return memory

    pages: list[list[int]] = []
    await reader.load(asking((None, 400)))
    ids = pages.pop()
    assert len(ids) == 300 and ids == sorted(ids, reverse=True)
    assert await reader.load(asking((None, 50), (ids[49] - 1, 50), (None, 20), (ids[19] - 1, 30))) == memory
    assert pages == [ids[:50], ids[50:100], ids[:20], ids[20:50]], "what was sent ahead is never taken for another"
    with pytest.raises(ZeroDivisionError):
        await reader.load(asking((None, 50), fails=True))
    assert gc.isenabled()
    assert await reader.load(load_memory(RUN, agent.id)) == memory
    assert (await database.status()).agents == 1


async def test_snapshot_is_of_one_moment_and_ends_however_it_is_left(dsn: str, database: Database) -> None:
    async with database._session.use() as cursor:
        with psycopg.connect(dsn, autocommit=True) as other:
            async with reading.read_snapshot(cursor):
                await cursor.execute("select count(*) from agents")
                before = await cursor.fetchall()
                other.execute("insert into agents (id, name) values (gen_random_uuid(), 'late')")
                await cursor.execute("select count(*) from agents")
                assert await cursor.fetchall() == before
        for statement in ("select 1", "select 1/0"):
            with pytest.raises((ValueError, psycopg.errors.DivisionByZero)):
                async with reading.read_snapshot(cursor):
                    await cursor.execute(statement)
                    raise ValueError
            assert cursor.connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        await cursor.execute("select count(*) from agents")
        assert await cursor.fetchall() == [(before[0][0] + 1,)]
