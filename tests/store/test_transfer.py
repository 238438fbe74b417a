"""Export and import over PostgreSQL: an agent made of another's events is the same agent."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.relocation.turn_ends import TurnEnds
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.effective_settings import WindowRules
from ikigai.core.state.inputs import CallModel, Change, Clear, Filter, Replied, RewindTo, SetMark, Submitted, Undo
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, next_request, replace
from ikigai.export.json_export import ExportInfo, JsonlExport
from ikigai.export.json_import import ImportReader
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.transfer import transfer
from ikigai.store.transfer.transfer import BadRow
from tests.core.agent import RUN
from tests.store.talk import Talk
from tests.store.test_schema import analyzed

TEXTS = ("", "\\.\n", "tab\tand\\back", "ž🐎\u202e", "x" * 300_000, '{"to": 1}')
ROWS = """
select kind, content, data::text, extract(epoch from created_at)::float8, seq from messages
where agent_id = %s order by id
"""


async def talked(database: Database) -> Agent:
    """A child whose memory is made of everything that names events, its own and its parent's."""
    talk = await Talk.open(database, await database.agents.create("root"))
    for text in TEXTS:
        await talk.turn(text or "?", text or "!")
    await talk.happen(Clear())
    await talk.happen(Undo())
    await talk.happen(Submitted("see", (Image("image/png", "aGk=", 3, 4, "cat.png"),)))
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    await talk.happen(Replied(job, (Thinking("hm"), Text("a cat")), StopReason.END, ev.UsageReported("chat/large")))
    await talk.happen(SetMark("m"))
    await talk.turn("a", "b")
    fork = (await talk.log.append((ev.CommandRan("/status", "\\."),))).rows[0].id
    await talk.turn("not the child's", "?")
    child = await Talk.open(database, await database.agents.create("child", parent=talk.agent.id, forked_at=fork))
    await child.store((ev.Forked(talk.agent.id, fork),))
    for text in ("c", "d", "e", "f"):
        await child.turn(text, text)
        await child.happen(SetMark(text))
    found = await child.log.load(select_events(RUN, child.agent.id, (EventRange(newest_turns=1),)))
    await child.happen(Filter(found.ranges, found.ids, found.messages))
    asked = next(turn.id for turn in child.memory.window.turns if turn.messages[0].text == "c")
    found = await child.log.load(select_events(RUN, child.agent.id, (EventRange(asked, asked),)))
    assert found.ids == (asked,) and not found.ranges
    await child.happen(Filter(found.ranges, found.ids, found.messages))
    assert "[removed]" in str(next_request(child.memory))
    await child.happen(RewindTo("d"))
    await child.happen(Change({"budget": 500}))
    await child.happen(Submitted("left open"))
    return child.agent


async def exported(database: Database, agent: Agent, first: int = 0, last: int = 2**63 - 1) -> list[RawRow]:
    source = database.export(agent, first, last)
    await source.open()
    rows = [raw async for page in source.pages() for raw in page]
    assert len(rows) == source.events and [raw.id for raw in rows] == sorted({raw.id for raw in rows})
    return rows


def stored(dsn: str, agent: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as other:
        return other.execute(ROWS, (agent,)).fetchall()


def counts(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as other:
        return other.execute("select (select count(*) from agents), (select count(*) from messages)").fetchall()


async def test_imported_agent_is_the_same(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = await talked(database)
    rows = await exported(database, agent)
    assert {raw.agent for raw in rows} == {"root", "child"} and "not the child's" not in {raw.content for raw in rows}
    monkeypatch.setattr(transfer, "PAGE_ROWS", 7)
    assert await exported(database, agent) == rows, "in pages of seven"
    monkeypatch.setattr(transfer, "PAGE_BYTES", 1)
    assert await exported(database, agent) == rows, "one by one"
    monkeypatch.undo()
    monkeypatch.setattr(transfer, "PAGE_ROWS", 5)
    told: list[int] = []
    made = await database.begin_import().store(iter(rows), "copy", on_progress=told.append)
    assert (made.name, made.events) == ("copy", len(rows)) and told == sorted(told) and told[-1] == len(rows)
    assert analyzed(dsn)
    there = stored(dsn, made.agent)
    assert [row[0:2] for row in there] == [(raw.kind, raw.content) for raw in rows]
    assert [row[3] for row in there] == [raw.at for raw in rows] and len(rows) == there[-1][4]
    here = await database.reader(agent).load(load_memory(RUN, agent.id))
    memory = await database.reader(agent).load(load_memory(RUN, made.agent))
    assert memory.own == {} and memory.settings == RUN.below and memory.unconfirmed, "no choice came with it"
    plain = msgspec.structs.replace(next_request(here), level="", system=next_request(memory).system)
    assert next_request(memory) == plain
    assert [mark.label for mark in memory.marks] == [mark.label for mark in here.marks] == ["c", "d"]
    copy = await database.agents.find("copy")
    assert copy.parent is None and (last := await database.agents.last()) and last.name != "copy"
    again = await exported(database, copy)
    assert [raw[4:6] for raw in again] == [raw[4:6] for raw in rows]

    # It goes on: the open turn is closed, undos reach the acts, new events lie behind.
    talk = await Talk.open(database, copy)
    await talk.happen(Undo())
    await talk.happen(Undo())
    assert [turn.messages[0].text for turn in talk.memory.window.turns][-3:] == ["d", "e", "left open"]
    await talk.turn("on", "and on")
    assert await talk.reloaded() == talk.memory
    assert [row[4] for row in stored(dsn, copy.id)] == list(range(1, len(stored(dsn, copy.id)) + 1))
    assert (await database.search("left open", copy.id, order="time")).hits


async def test_through_a_file(database: Database, dsn: str, tmp_path: Any) -> None:
    agent = await talked(database)
    rows = await exported(database, agent)
    form, path = JsonlExport(), tmp_path / "x.jsonl"
    path.write_text("".join([*form.begin(ExportInfo("child", 0, None, len(rows), 0)), *form.rows(rows), *form.end()]))
    with path.open("rb") as file:
        intake = ImportReader(path, file, path.stat().st_size)
        made = await database.begin_import().store(intake.rows(), wanted=intake.agent)
    assert made.name not in ("child", "root"), "that name is taken"
    assert [row[:2] for row in stored(dsn, made.agent)] == [(raw.kind, raw.content) for raw in rows]
    assert [raw[4:] for raw in await exported(database, await database.agents.find(made.name))][:3] == [
        (raw.kind, raw.content, raw.data) for raw in rows[:3]
    ]


async def test_messages_that_came_do_not_come_again(database: Database, dsn: str) -> None:
    sender = await Talk.open(database, await database.agents.create("sender"))
    receiver = await Talk.open(database, await database.agents.create("receiver"))
    await sender.store((ev.MailSent(receiver.agent.id, "look", "receiver"),))
    (sent,) = (await database.mail.waiting(receiver.agent.id)).own
    await receiver.store((ev.MailTaken(sent.id, "sender"),))
    for agent in (sender.agent, receiver.agent):
        rows = await exported(database, agent)
        for _ in range(2):  # the database has each message come once
            copy = await database.agents.find((await database.begin_import().store(iter(rows))).name)
        assert [raw.kind for raw in await exported(database, copy)] == [raw.kind for raw in rows]
    assert (await database.mail.waiting(receiver.agent.id)).own == ()
    await sender.store((ev.MailSent(receiver.agent.id, "again"),))
    assert [mail.text for mail in (await database.mail.waiting(receiver.agent.id)).own] == ["again"]


async def test_part(database: Database) -> None:
    agent = await talked(database)
    rows = await exported(database, agent)
    ids = [raw.id for raw in rows]
    for first, last in ((ids[3], ids[9]), (0, ids[5]), (ids[-4], 2**63 - 1), (ids[2], ids[2])):
        assert await exported(database, agent, first, last) == [raw for raw in rows if first <= raw.id <= last]
    assert await exported(database, agent, 10**12) == [] and await exported(database, agent, ids[4], ids[3]) == []
    made = await database.begin_import().store(iter(rows[5:-7]), wanted="part")
    talk = await Talk.open(database, await database.agents.find(made.name))
    await talk.turn("on", "and on")
    assert await talk.reloaded() == talk.memory


async def test_conversation_written_by_hand_comes_to_what_living_it_did(database: Database, tmp_path: Any) -> None:
    """Without ends, settings or anything else that only ikigai knows of.

    The ends of an import have sizes of their own, on which the steps of the window depend: so it moves turn by turn.
    """
    run = replace(RUN, below={**RUN.below, "budget": 1_000}, rules=WindowRules(prune_fraction=0))
    lived = await Talk.open(database, await database.agents.create("lived"), run)
    for n in range(40):
        await lived.happen(Submitted(f"question {n} {'x' * 7 * n}"))
        if n % 3 == 0:
            (job,) = (job for job in work(lived.memory) if isinstance(job, CallModel))
            call = ToolCall(f"c{n}", "shell", '{"command": "ls"}')
            await lived.happen(Replied(job, (Text("look"), call), StopReason.END, ev.UsageReported("chat/large")))
            await lived.store((ev.ToolStarted(call.id), ToolResult(call.id, f"file {n}", name="shell")))
        (job,) = (job for job in work(lived.memory) if isinstance(job, CallModel))
        await lived.happen(Replied(job, (Text(f"answer {n}"),), StopReason.END, ev.UsageReported("chat/large")))
    kinds = ("user", "assistant", "tool_call", "tool_result")
    said = [raw for raw in await exported(database, lived.agent) if raw.kind in kinds]
    rows = [{"id": n, "at": "2026-01-01T00:00:00Z", "kind": raw.kind} for n, raw in enumerate(said, 1)]
    for row, raw in zip(rows, said, strict=True):
        row["content"] = raw.content or ""
        if raw.kind.startswith("tool"):
            row["data"] = json.loads(raw.data or "{}")
    lines = [{"format": "ikigai-history", "version": 1}, *rows, {"count": len(rows)}]
    path = tmp_path / "by-hand.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ends = TurnEnds()
    with path.open("rb") as file:
        made = await database.begin_import().store(
            ends.rows(ImportReader(path, file, path.stat().st_size).rows()), "by-hand"
        )
    assert ends.added == 40 and made.events == len(rows) + 40
    before = counts(database._session._conninfo)
    talk = await Talk.open(database, await database.agents.find("by-hand"), run)
    assert counts(database._session._conninfo) == before, "nothing was left to be closed"

    def counted(totals: ev.Totals) -> tuple[int, int]:
        return totals.turns, totals.messages

    def stands(memory: Memory) -> object:
        window = memory.window
        return (
            next_request(memory),
            memory.size,
            len(window.turns),
            *map(counted, (window.older, window.total)),
            memory.open,
        )

    assert lived.memory.window.older.turns > 10 and "older messages omitted" in str(next_request(lived.memory))
    assert stands(talk.memory) == stands(lived.memory)
    for each in (talk, lived):
        await each.turn("on", "and on")
        assert await each.reloaded() == each.memory
    assert stands(talk.memory) == stands(lived.memory)


async def test_unknown_kinds_and_exact_numbers(database: Database, dsn: str) -> None:
    data = '{"x": 123456789012345678901234567890, "y": 1.10, "z": {"deep": [null, true, "\\\\u0000"]}, "to": 1}'
    rows = [RawRow(7, "a", 1, 5.25, "later", "text", data), RawRow(8, "a", 2, 6.0, "later", None, None)]
    made = await database.begin_import().store(iter(rows))
    assert [row[:4] for row in stored(dsn, made.agent)] == [("later", "text", data, 5.25), ("later", None, None, 6.0)]
    agent = await database.agents.get(made.agent)
    assert agent and agent.created_at == 5.25


def deep(levels: int) -> str:
    return '{"x":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    "data", ['{"x": "\\u0000"}', '{"x": 1e999999}', '{"x"', deep(50_000), '{"x": "\\ud800"}'], ids=range(5)
)
async def test_what_the_database_cannot_keep_is_named_and_nothing_is_stored(
    database: Database, dsn: str, data: str
) -> None:
    before = counts(dsn)
    rows = [RawRow(n, "a", n, 5.0, "later", "text", data if n == 12 else "{}") for n in range(1, 20)]
    with pytest.raises(BadRow) as refused:
        await database.begin_import().store(iter(rows), "x")
    assert refused.value.number == 12 and refused.value.remedy and counts(dsn) == before
    assert (await database.begin_import().store(iter(rows[:11]), "x")).name == "x", "the name is free, and all goes on"


async def test_what_goes_wrong_on_the_way_leaves_nothing(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAGE_ROWS", 2)
    before = counts(dsn)

    def rows(error: type[Exception]) -> Iterator[RawRow]:
        for n in range(1, 8):
            yield RawRow(n, "a", n, 5.0, "user", "text", None)
        raise error("it")

    for error in (Rejected, OSError):
        with pytest.raises(error):
            await database.begin_import().store(rows(error), "x")
        assert counts(dsn) == before
    task = asyncio.create_task(database.begin_import().store(slow(), "x"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counts(dsn) == before
    assert (await database.begin_import().store(iter([RawRow(1, "a", 1, 5.0, "user", "t", None)]), "x")).events == 1


def slow() -> Iterator[RawRow]:
    for n in range(1, 100):
        time.sleep(0.01)
        yield RawRow(n, "a", n, 5.0, "user", "text", None)


async def test_names(database: Database) -> None:
    row = RawRow(1, "a", 1, 5.0, "user", "t", None)
    importing = database.begin_import()
    assert (await importing.store(iter([row]), "mine")).name == "mine"
    assert (await importing.store(iter([row]), wanted="theirs")).name == "theirs"
    for taken in ("theirs", "no name\n", "", "x" * 65, "\x1b[31m"):
        assert (await importing.store(iter([row]), wanted=taken)).name not in ("theirs", taken)
    for bad, why in (("mine", "already"), ("a b", "not a name"), ("\x1b", "not a name")):
        with pytest.raises(Rejected, match=why):
            await importing.store(iter([row]), bad)


async def test_while_somebody_else_writes(database: Database, dsn: str) -> None:
    """Ids of others come between; what is stored meanwhile is not part of what is exported."""
    talk = await Talk.open(database)
    await talk.turn("a", "b")
    source = database.export(talk.agent)
    await source.open()
    await talk.turn("later", "later")
    assert "later" not in {raw.content for raw in [raw async for page in source.pages() for raw in page]}
    rows = await exported(database, talk.agent)

    async def between() -> None:
        for n in range(5):
            await talk.turn(str(n))

    made, _ = await asyncio.gather(database.begin_import().store(iter(rows), "copy"), between())
    assert [row[:2] for row in stored(dsn, made.agent)] == [(raw.kind, raw.content) for raw in rows]
