"""Append and replay: what is stored comes back in order, whole, and once."""

import asyncio
import time

import psycopg
import pytest

from ikigai.core.errors import AgentLocked
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.inputs import Change, Clear, Opened, RewindTo, SetMark, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import new_event_id
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.talk import Talk

EVERY_KIND: tuple[ev.Event, ...] = (
    ev.UserMessage("Was kostet ein Ei? 🥚\n\tline two"),
    ev.AssistantMessage((Thinking("hm", "c2ln", "anthropic"), Text("Let me "), Text("look.")), StopReason.TOOLS, "a/b"),
    ToolCall("c1", "shell", '{"b": 1, "a": 1e2}'),
    ToolCall("c2", "shell", "{}", malformed="{not json"),
    ev.ToolStarted("c1"),
    ToolResult("c1", "10 ct", is_error=False),
    ToolResult("c2", "no JSON", is_error=True),
    ev.UsageReported("a/b", Usage(1000, 20, 900, 5), 1.25, 0.5, "req-1", 2, ""),
    ev.TurnEnded(ev.Ending.FAILED, "gave up", 1, 400, ev.Totals(1, 2, 3), ev.Totals()),
    ev.Cleared({"budget": 5000, "system": None, "level": "low", "x": 0.5, "y": True}),
    ev.Marked("here"),
    ev.Rewound(1),
    ev.SettingsChanged({"budget": 0}, {"budget": "agent"}),
    ev.Forked("00000000-0000-0000-0000-000000000001", 7),
    ev.CommandRan("/status", "fine"),
)


async def test_every_kind_comes_back_as_it_was(database: Database) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    before = time.time()
    appended = await log.append(EVERY_KIND)
    assert tuple(row.event for row in appended.rows) == EVERY_KIND
    assert [row.seq for row in appended.rows] == list(range(1, len(EVERY_KIND) + 1))
    assert [row.id for row in appended.rows] == sorted({row.id for row in appended.rows})
    assert {row.agent for row in appended.rows} == {log.agent}
    assert all(before - 60 < row.at < time.time() + 60 for row in appended.rows)
    assert await database.reader(agent).history(None, 100) == appended.rows


async def test_one_by_one_is_the_same_as_at_once(database: Database) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    rows = tuple([(await log.append((event,))).rows[0] for event in EVERY_KIND])
    assert tuple(row.event for row in rows) == EVERY_KIND
    assert [row.seq for row in rows] == list(range(1, len(EVERY_KIND) + 1))
    assert await database.reader(agent).history(None, 100) == rows


async def test_append_is_refused_where_another_program_has_stored(database: Database, dsn: str) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
        row = (agent.id, new_event_id(), "user")
        await other.execute("insert into messages (agent_id, seq, event_id, kind) values (%s, 1, %s, %s)", row)
    with pytest.raises(AgentLocked):
        await log.append(EVERY_KIND[:1])


async def test_no_facts_store_nothing(database: Database) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    assert (await log.append(())).rows == ()
    assert (await log.append((), load_memory(RUN, log.agent))).memory is not None
    assert (await database.agents.all())[0].events == 0


async def test_memory_after_use_is_memory_after_a_restart(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    for incoming in (SetMark("one"), Clear(), SetMark("two"), Change({"budget": 400, "model": "chat/small"})):
        await talk.turn("question " * 20, "answer " * 20)
        await talk.happen(incoming)
        assert await talk.reloaded() == talk.memory
    await talk.turn()
    await talk.happen(RewindTo("two"))
    assert await talk.reloaded() == talk.memory
    await talk.happen(Submitted("left open"))
    await database.close()

    again = await Database.open(dsn, MIGRATIONS)
    agent = await again.agents.last()
    reread = await again.reader(talk.agent).load(load_memory(RUN, talk.agent.id))
    assert agent and agent.id == talk.agent.id and reread == talk.memory
    recovered = await Talk.open(again, agent)
    assert recovered.memory.open is None and await recovered.reloaded() == recovered.memory
    await again.close()


async def test_reload_sees_the_rows_of_its_own_transaction(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.happen(SetMark("before"))
    await talk.turn()
    rewound = (ev.Rewound(talk.memory.marks[0].id),)
    appended = await talk.log.append(rewound, load_memory(RUN, talk.agent.id))
    assert appended.memory is not None and appended.memory.excluded_intervals == ((rewound[0].to, appended.rows[0].id),)
    assert not appended.memory.window.turns and not appended.memory.stale


async def test_what_postgresql_cannot_hold_is_replaced(database: Database) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    events = (
        ev.UserMessage("nul \0 surrogate \ud800 end"),
        ToolCall("c\0", "shell", '{"a": "\ud800"}', malformed="\0"),
        ev.SettingsChanged({"system": "\0\udfff"}, {"system": "agent\0"}),
    )
    rows = (await log.append(events)).rows
    assert rows[0].event == ev.UserMessage("nul \ufffd surrogate \ufffd end")
    assert rows[1].event == ToolCall("c\ufffd", "shell", '{"a": "\ufffd"}', malformed="\ufffd")
    assert rows[2].event == ev.SettingsChanged({"system": "\ufffd\ufffd"}, {"system": "agent\ufffd"})
    await log.save_draft(Draft(rows[0].id, "half \0 \ud800"))
    assert await log.draft() == Draft(rows[0].id, "half \ufffd \ufffd")


@pytest.mark.parametrize("text", ["x" * 1_000_000, "žluťoučký 🐎 " * 70_000, "\\\"'{},\n\t" * 100_000])
async def test_megabyte_comes_back_whole(database: Database, text: str) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    (row,) = (await log.append((ev.UserMessage(text),))).rows
    assert row.event == ev.UserMessage(text)
    rows = (await log.append((ToolResult("c", text), ev.TurnEnded(ev.Ending.COMPLETED)))).rows
    assert rows[0].event == ToolResult("c", text)
    assert [row.event for row in await database.reader(agent).history(None, 2)] == [row.event for row in rows]


async def test_row_nobody_can_read_is_kept(database: Database, dsn: str) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    with psycopg.connect(dsn) as other:
        for seq, (kind, content, data) in enumerate(
            (("hologram", "shine", None), ("tool_call", "{}", '{"no": "id"}'), ("turn_end", None, '{"ending": "up"}')),
            start=1,
        ):
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind, content, data) values (%s, %s, %s, %s, %s, %s)",
                (new_event_id(), log.agent, seq, kind, content, data),
            )
    found = await database.reader(agent).history(None, 10)
    assert [row.event.kind for row in found if isinstance(row.event, ev.Unknown)] == [
        "hologram",
        "tool_call",
        "turn_end",
    ]


async def test_draft_lives_until_its_reply_is_stored(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    await talk.happen(Submitted("?"))
    asked = talk.memory.open.last if talk.memory.open else 0
    assert await talk.log.draft() is None
    await talk.log.save_draft(Draft(asked, "It"))
    await talk.log.save_draft(Draft(asked, "It is"))
    await talk.log.append((ToolCall("c", "shell"),))
    assert await talk.log.draft() == Draft(asked, "It is")
    await talk.log.append((ev.AssistantMessage((Text("It is 5."),)), ev.UsageReported("a/b")))
    assert await talk.log.draft() is None

    # What a dead program left is read, becomes the interrupted reply, and is gone with it.
    await talk.log.append((ToolResult("c", "5"),))
    talk.memory = await talk.reloaded()
    asked = talk.memory.open.last if talk.memory.open else 0
    await talk.log.save_draft(Draft(asked, "Half a sen"))
    await database.close()
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database, talk.agent)
    history = await database.reader(talk.agent).history(None, 2)
    assert [type(row.event) for row in history] == [ev.AssistantMessage, ev.TurnEnded]
    said = history[0].event
    assert isinstance(said, ev.AssistantMessage) and said.text == "Half a sen" and said.interrupted
    assert await talk.log.draft() is None and talk.memory.open is None
    await talk.happen(Opened(await talk.log.draft()))
    assert (await database.reader(talk.agent).history(None, 1)) == history[1:]
    await database.close()


def test_event_ids_are_version_7_and_ascend() -> None:
    ids = []
    for _ in range(50):
        ids.append(new_event_id())
        time.sleep(0.002)
    assert ids == sorted(set(ids))
    assert {id.version for id in ids} == {7} and {id.variant for id in ids} == {"specified in RFC 4122"}


@pytest.mark.parametrize("seconds", [-1, -40 * 365 * 86_400, 0, 136 * 365 * 86_400])
async def test_clock_before_1970_keeps_nothing_from_the_log(
    dsn: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: seconds * 10**9 + 1)
        talk = await Talk.open(database)
        await talk.turn("Which year", "is it?")
        assert {new_event_id().version for _ in range(9)} == {7}
    assert await talk.reloaded() == talk.memory
    await database.close()


async def test_putting_down_a_pen_takes_no_answer_that_another_agent_waits_for(database: Database) -> None:
    """All agents of a program share one connection; else the other waits until its deadline."""
    one, other = [await database.open_agent(await database.agents.create(name)) for name in ("one", "other")]
    session = database._session

    async def asks() -> None:
        async with session.use() as cursor:
            await cursor.execute("select pg_sleep(0.2)")

    asking = asyncio.create_task(asks())
    while not session._lock.locked():
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)  # it waits for its answer by now
    time.sleep(0.5)  # noqa: ASYNC251  (which has come, and nobody has read it)
    async with asyncio.timeout(60):
        await one.close()
        await asking
        await other.append((ev.UserMessage("?"),))
