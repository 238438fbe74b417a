"""Unsaved events are kept in files, and are stored once when their agent is opened, or in a fork."""

import argparse
import asyncio
import contextlib
import json
import resource
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ikigai.app.agents import agent_manager
from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
from ikigai.app.agents.managed_subagents import ManagedSubagents
from ikigai.app.run import factories as making
from ikigai.app.run.services import Services
from ikigai.app.unsaved import unsaved_events
from ikigai.app.unsaved.spool import keep_events, spool
from ikigai.app.unsaved.unsaved_events import read_file, run_recover
from ikigai.cli.commands import purge_files
from ikigai.config import Config
from ikigai.core.agents.mail import Mail
from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.errors import AgentLocked, ConfigError, Misconfigured, Rejected, Unavailable
from ikigai.core.events import events as ev
from ikigai.core.events.events import CUT_OFF, Event, MailSent, StoredEvent
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.relocation import redact
from ikigai.core.relocation.unsaved import Unsaved, serialize
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import CallModel, Edit, Filter, Interrupted, Quote, Replied, Send, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, next_request
from ikigai.providers.scripted import Reply, ScriptedHang, ScriptedPause, ScriptedProvider
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import AppendAttempt, new_event_id
from ikigai.system import paths
from tests.agent.test_loop import Watcher
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.proxy import TO_CLIENT, Proxy, proxied
from tests.store.talk import Talk
from tests.support.invariants import check

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of these files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(agent_manager, "SHUTDOWN_TIMEOUT", 0.3)
    return tmp_path / "ikigai"


def files(state: Path) -> list[Path]:
    return sorted(state.glob("unsaved-*.jsonl"))


def world(database: Database) -> Services:
    config = Config(model="scripted/echo")
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    return Services(config, database, None, pool, making.make_run(config, pool, tools), tools)


@contextlib.asynccontextmanager
async def crossing(dsn: str, *replies: Reply) -> AsyncIterator[tuple[Proxy, AgentManager]]:
    """Agents over a connection that can be cut."""
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS, deadline=60)
        database.logs.keep_events = keep_events
        try:
            manager = AgentManager(world(database), ManagedSubagents)
            scripted = ScriptedProvider(replies) if replies else None
            if scripted:
                manager.services.pool.provider = lambda name: scripted  # type: ignore[method-assign, assignment]
            yield proxy, manager
        finally:
            await database.close()


async def until(true: Any) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.002)


async def joined(manager: AgentManager, name: str) -> OpenAgent:
    member = await manager.open(await manager.services.create(name))
    manager.start_loop(member)
    await until(lambda: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
    return member


def rows(dsn: str, *kinds: str) -> list[tuple[str, str, str]]:
    """Agent, kind and content of the events, in order."""
    with psycopg.connect(dsn) as other:
        found = other.execute(
            "select name, kind, coalesce(content, '') from messages join agents on agents.id = agent_id"
            " order by messages.id"
        ).fetchall()
    return [row for row in found if not kinds or row[1] in kinds]


async def test_agents_do_not_share_a_file_and_have_their_events_back(database: Database, dsn: str, state: Path) -> None:
    names = [f"agent-{n}" for n in range(3)]
    async with crossing(dsn) as (proxy, manager):
        members = [await joined(manager, name) for name in names]
        proxy.down = True
        for member in members:
            member.agent_loop.put_input(Submitted(f"to {member.agent.name}"))
        await until(lambda: all(member.agent_loop.unsaved for member in members))
        told = await manager.close()
    assert len(files(state)) == 3 and all(str(file) in told for file in files(state))
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files(state))
    assert told.count("2 events could not be saved; they are kept in ") == 3
    assert not rows(dsn, "user")
    for times in range(2):
        manager = AgentManager(world(database), ManagedSubagents)
        for name in names:
            front = Watcher()
            member = await manager.open(await database.agents.find(name), front)
            manager.start_loop(member)
            await until(lambda member=member: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
            put_back = [text for text in front.told("notice") if "could not be saved" in text]
            assert put_back == ([] if times else ["2 events that could not be saved are in the log now."])
        assert await manager.close() == "" and not files(state)
        assert [row for row in rows(dsn, "user", "turn_end") if row[1] == "user"] == [
            (name, "user", f"to {name}") for name in names
        ]
    check(dsn)


async def test_reply_that_could_not_be_saved_is_whole_again(database: Database, dsn: str, state: Path) -> None:
    async with crossing(dsn, ("A whole ", ScriptedPause(0.2), "reply.")) as (proxy, manager):
        member = await joined(manager, "one")
        member.agent_loop.put_input(Submitted("ask"))
        await until(lambda: member.agent_loop.memory.open)
        proxy.down = True
        await until(lambda: member.agent_loop.unsaved)
        kinds = [type(event) for event in member.agent_loop.unsaved]
        assert kinds == [ev.AssistantMessage, ev.UsageReported, ev.TurnEnded]
        assert "3 events could not be saved; they are kept in" in await manager.close()
    manager = AgentManager(world(database), ManagedSubagents)
    member = await manager.open(await database.agents.find("one"))
    assert [row[1:] for row in rows(dsn, "user", "assistant", "turn_end")] == [
        ("user", "ask"),
        ("assistant", "A whole reply."),
        ("turn_end", ""),
    ]
    assert member.agent_loop.memory.open is None and "A whole reply." in str(next_request(member.agent_loop.memory))
    await manager.close()
    check(dsn)


async def talked(database: Database, name: str = "one") -> tuple[Talk, tuple[Event, ...]]:
    """An agent in a turn, and the reply that ends it."""
    talk = await Talk.open(database, await database.agents.create(name))
    await talk.turn("a", "b")
    await talk.happen(Submitted("c"))
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    return talk, decide(talk.memory, Replied(job, (Text("d"),), StopReason.END, ev.UsageReported(talk.memory.model)))


def kept(talk: Talk, events: tuple[Event, ...], state: Path) -> Path:
    told, whole, _ = spool(talk.log.unsaved(events))
    (file,) = files(state)
    assert whole and str(file) in told
    return file


def stored_by(memory: Memory, events: tuple[Event, ...]) -> Memory:
    """The memory, had they been stored."""
    last = memory.open.last if memory.open else 0
    for number, event in enumerate(events, 1):
        memory = evolve(memory, StoredEvent(last + number, memory.agent, 0, 0.0, event))
    return memory


async def test_kill_before_the_file_is_gone_doubles_nothing(database: Database, dsn: str, state: Path) -> None:
    talk, events = await talked(database)
    expected, copy = next_request(stored_by(talk.memory, events)), state / "copy"
    file = kept(talk, events, state)
    shutil.copy(file, copy)
    await talk.log.close()
    for times in range(2):
        memory, log, told = await world(database).acquire(talk.agent)
        assert told == ([] if times else ["3 events that could not be saved are in the log now."])
        assert not file.exists() and [row[2] for row in rows(dsn, "assistant")] == ["b", "d"]
        assert memory.open is None
        assert next_request(await log.load(load_memory(RUN, talk.agent.id))) == expected
        await log.close()
        copy.rename(file) if copy.exists() else None
    check(dsn)


async def test_unsaved_events_are_not_stored_twice_after_a_lost_confirmation(
    database: Database, dsn: str, state: Path
) -> None:
    talk, _ = await talked(database)
    await talk.log.close()
    async with proxied(dsn) as (proxy, through):
        other = await Database.open(through, MIGRATIONS)
        log = await other.open_agent(talk.agent)
        events = (ev.CommandRan("/status", "fine"),)
        proxy.cut_after(TO_CLIENT, 1)
        with pytest.raises(Unavailable):
            await log.append(events)
        assert [row[2] for row in rows(dsn, "command")] == ["/status"]
        spool(log.unsaved(events))
        await other.close()
    _, log, told = await world(database).acquire(talk.agent)
    assert not told and not files(state)
    assert [row[2] for row in rows(dsn, "command")] == ["/status"]
    await log.close()
    check(dsn, idle=False)


async def recovered(database: Database, file: Path, name: str = "") -> str:
    return await run_recover(database, argparse.Namespace(file=str(file), name=name))


async def test_unsaved_events_make_a_fork_when_the_log_has_gone_on(database: Database, dsn: str, state: Path) -> None:
    talk, events = await talked(database)
    expected, mail = stored_by(talk.memory, events), ev.MailSent(talk.agent.id, "report")
    file = kept(talk, (*events, mail), state)
    await talk.log.close()
    other = await Talk.open(database, talk.agent)  # closes the turn, as another program does
    await other.turn("e", "f")
    await other.log.close()
    before = rows(dsn)

    _, log, (told,) = await world(database).acquire(talk.agent)
    assert file.exists() and rows(dsn) == before
    assert told.startswith("4 events could not be saved, and the log went on without them. To restore them in a fork: ")
    command = shlex.split(told.rpartition(": ")[2])
    assert command == ["ikigai", "history", "recover", str(file)]

    told = await recovered(database, Path(command[-1]))  # while the agent is open
    await log.close()
    assert not file.exists()
    assert "is new: a fork of one with 4 events that could not be saved. Go on with it: ikigai -r " in told
    assert rows(dsn)[: len(before)] == before
    child = await database.agents.find(told.split()[0])
    assert child.parent == talk.agent.id
    assert [row[1] for row in rows(dsn) if row[0] == child.name] == [
        *("fork", "user", "assistant", "usage", "turn_end", "mail_sent"),
    ], "no turn lies in two agents"
    with psycopg.connect(dsn) as other_program:
        turns = "select asked, messages, ending from turns where agent = %s"
        assert other_program.execute(turns, (child.name,)).fetchall() == [("c", 2, "completed")]
    fork = await Talk.open(database, child)
    assert fork.memory.open is None and next_request(fork.memory) == next_request(expected)
    assert (fork.memory.size, fork.memory.full_window.total) == (expected.size, expected.full_window.total)
    assert (await database.mail.waiting(talk.agent.id)).own == (), "mail has been on its way once"
    await fork.turn("g", "h")
    assert await fork.reloaded() == fork.memory
    assert [turn.messages[0].text for turn in fork.memory.window.turns] == ["a", "c", "g"]
    asked = fork.memory.window.turns[1]
    found = await fork.log.load(select_events(RUN, child.id, (EventRange(asked.id, asked.id),)))
    await fork.happen(Filter(found.ranges, found.ids, found.messages))
    await fork.happen(Edit())
    assert await fork.reloaded() == fork.memory and "[removed]" in str(next_request(fork.memory))
    check(dsn)


async def test_turn_of_tools_is_whole_in_the_fork_and_its_requests_count_once(
    database: Database, dsn: str, state: Path
) -> None:
    talk = await Talk.open(database, await database.agents.create("one"))
    await talk.happen(Submitted("look"))
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    call = ToolCall("1", "shell", "{}")
    await talk.happen(Replied(job, (Text("so"), call), StopReason.END, ev.UsageReported(talk.memory.model)))
    await talk.store((ev.ToolStarted("1"),))
    file = kept(talk, (ToolResult("1", "out", name="shell"),), state)
    await talk.happen(Interrupted())
    told = await recovered(database, file, "mine")
    assert told.startswith("mine is new: a fork of one with 1 event ")
    assert len(rows(dsn, "usage")) == 1
    fork = await Talk.open(database, await database.agents.find("mine"))
    (turn,) = fork.memory.window.turns
    assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]
    assert "out" in str(turn.messages[2]) and "Interrupted, outcome unknown" not in str(turn)
    assert await fork.reloaded() == fork.memory
    check(dsn)


async def test_events_that_begin_an_agent_make_a_fork_of_nothing(database: Database, state: Path) -> None:
    talk = await Talk.open(database, await database.agents.create("empty"))
    file = kept(talk, (ev.UserMessage("first"),), state)
    await talk.turn("other", "reply")
    told = await recovered(database, file, "mine")
    assert told.startswith("mine is new: a fork of empty with 1 event ")
    fork = await Talk.open(database, await database.agents.find("mine"))
    assert [turn.messages[0].text for turn in fork.memory.window.turns] == ["first"]


async def test_recover_puts_back_what_follows_unless_a_fork_is_named(database: Database, dsn: str, state: Path) -> None:
    talk, events = await talked(database)
    file = kept(talk, events, state)
    with pytest.raises(AgentLocked, match="is open in this program already"):
        await recovered(database, file)
    await talk.log.close()
    copy = file.with_name("copy.jsonl")
    shutil.copy(file, copy)
    told = await recovered(database, file, "apart")
    assert told.startswith("apart is new: a fork of one with 3 events") and not file.exists()
    assert (await database.agents.find("one")).events < (await database.agents.find("apart")).events + 7
    with pytest.raises(Rejected, match="apart has these events already"):
        await recovered(database, copy)
    assert copy.exists()

    talk, events = await talked(database, "two")
    file = kept(talk, events, state)
    await talk.log.close()
    told = await recovered(database, file)
    assert told == "3 events that could not be saved are in two now. Go on with it: ikigai -r two"
    assert not file.exists() and len([row for row in rows(dsn) if row[0] == "two" and row[1] == "assistant"]) == 2


async def test_two_at_once_recover_it_once(database: Database, dsn: str, state: Path) -> None:
    talk, events = await talked(database)
    file = kept(talk, events, state)
    await talk.happen(Interrupted())
    copies = [file.with_name(f"copy-{n}.jsonl") for n in range(4)]
    for copy in copies:
        shutil.copy(file, copy)
    others = [await Database.open(dsn, MIGRATIONS) for _ in copies]
    found = await asyncio.gather(*map(recovered, others, copies), return_exceptions=True)
    for other in others:
        await other.close()
    assert len([each for each in found if isinstance(each, str)]) == 1, found
    assert all(isinstance(each, str | Rejected) for each in found), found
    assert [row[2] for row in rows(dsn, "assistant")] == ["b", "d"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: b"", "contains no unsaved events of ikigai"),
        (lambda text: b"\xff\xfe\n", "contains no unsaved events of ikigai"),
        (lambda text: b'{"format":"ikigai-history","version":1}\n', "contains no unsaved events of ikigai"),
        (lambda text: text.replace(b"ikigai-unsaved", b"other"), "contains no unsaved events of ikigai"),
        (lambda text: text.replace(b'"version":1', b'"version":2'), "the format has version 2, this ikigai knows 1"),
        (lambda text: text[:-1], "ends after 3 of 3 events: it is incomplete"),
        (lambda text: text[:-9], "line 4 is cut off or damaged"),
        (lambda text: text[: text.rindex(b"\n", 0, -1) + 1], "ends after 2 of 3 events: it is incomplete"),
        (lambda text: text.replace(b'"assistant"', b'"parrot"'), "line 2 is not a valid event of the kind 'parrot'"),
        (lambda text: text.replace(b'"content":"d"', b'"content":7'), "line 2 is cut off or damaged: Expected"),
    ],
)
async def test_files_that_are_none_are_refused(
    database: Database, dsn: str, state: Path, damage: Any, words: str
) -> None:
    talk, events = await talked(database)
    file = kept(talk, events, state)
    file.write_bytes(damage(file.read_bytes()))
    await talk.log.close()
    before = rows(dsn)
    with pytest.raises(Rejected) as refused:
        await recovered(database, file)
    assert words in refused.value.what and str(file) in refused.value.what and refused.value.remedy
    assert refused.value.what.endswith("Nothing was recovered.")
    _, log, told = await world(database).acquire(talk.agent)
    assert told == [str(refused.value)] and file.exists() and rows(dsn) == before, "the agent opens all the same"
    await log.close()


async def test_place_that_is_not_there_is_told(database: Database, dsn: str, state: Path) -> None:
    talk, events = await talked(database)
    unsaved = talk.log.unsaved(events)
    nowhere = "01234567-89ab-cdef-0123-456789abcdef"
    file = state / "lost.jsonl"
    state.mkdir(exist_ok=True)
    for changed, kind, words in (
        ({"agent": nowhere}, ConfigError, "of agent one, which is not in this database"),
        ({"behind": nowhere}, Rejected, "The event that they follow is not in this database"),
        ({"behind": None}, None, "is new: a fork of one"),
    ):
        fields = {name: changed.get(name, getattr(unsaved, name)) for name in unsaved.__struct_fields__}
        file.write_bytes(serialize(type(unsaved)(**fields)))
        if kind is None:
            assert words in await recovered(database, file)
            continue
        with pytest.raises(kind, match=words):
            await recovered(database, file)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        await recovered(database, state / "missing.jsonl")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        await recovered(database, state)


async def test_unsaved_messages_return_to_the_prompt_when_no_file_can_be_written(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    async with crossing(dsn, (ScriptedHang(),)) as (proxy, manager):
        member, front = await joined(manager, "one"), Watcher()
        member.view.attach(front)
        monkeypatch.setattr(paths, "state_dir", lambda: tmp_path / "file" / "state")
        proxy.down = True
        member.agent_loop.put_input(Submitted("one"))
        await until(lambda: member.agent_loop.unsaved)
        member.agent_loop.put_input(Submitted("two"))
        told = await manager.close()
    assert told.startswith("2 events could not be saved, nor kept in") and told.endswith("Not a directory.")
    assert front.told("returned") == ["one\ntwo"] and front.told("queued")[-1] == ()


async def brought_back(database: Database, dsn: str, name: str = "one") -> list[tuple[str, str]]:
    """The messages and the ends of turns in the log after the next start."""
    manager = AgentManager(world(database), ManagedSubagents)
    member = await manager.open(await database.agents.find(name))
    manager.start_loop(member)
    await until(
        lambda: member.agent_loop.opened.is_set() and not member.agent_loop.busy and not member.agent_loop.checks_mail
    )
    assert await manager.close() == ""
    return [row[1:] for row in rows(dsn, "user", "turn_end")]


OUTPUTS = ["!echo x\nx", "!echo y\ny", "!echo x\nx"]
TURNS = [(kind, text) for text in ("ask", *OUTPUTS) for kind, text in (("user", text), ("turn_end", ""))]


async def test_outputs_that_could_not_be_saved_are_turns_of_their_own(
    database: Database, dsn: str, state: Path
) -> None:
    async with crossing(dsn, (ScriptedHang(),)) as (proxy, manager):
        member = await joined(manager, "one")
        member.agent_loop.put_input(Submitted("ask"))
        await until(lambda: member.agent_loop.memory.open)
        proxy.down = True
        for output in OUTPUTS:
            member.agent_loop.put_input(Quote(output, is_command_output=True))
        told = await manager.close()
    unsaved = [file for file in files(state) if not read_file(file).numbers]
    assert told.count("could not be saved; ") == len(unsaved) == 4
    assert len(files(state)) == 5, "one has the events that the log should have"
    with pytest.raises(Rejected, match="it is added to the conversation when one is opened") as refused:
        await recovered(database, unsaved[0])
    assert refused.value.remedy == "Open it: ikigai -r one"
    for _ in range(2):
        assert await brought_back(database, dsn) == TURNS and not files(state)
    check(dsn)


async def test_output_that_waits_for_its_turn_survives_a_kill(database: Database, dsn: str, state: Path) -> None:
    """The loop is not told of its end, and the next program finds the turn open."""
    async with crossing(dsn, (ScriptedHang(),)) as (_, manager):
        member = await joined(manager, "one")
        member.agent_loop.put_input(Submitted("ask"))
        await until(lambda: member.agent_loop.memory.open)
        for output in OUTPUTS:
            member.agent_loop.put_input(Quote(output, is_command_output=True))
        assert len(files(state)) == 3
        assert member.loop_task
        member.loop_task.cancel()
        await asyncio.wait({member.loop_task})
    assert [row[1] for row in rows(dsn, "user", "turn_end")] == ["user"]
    assert await brought_back(database, dsn) == [TURNS[0], ("turn_end", CUT_OFF), *TURNS[2:]]
    assert not files(state)
    check(dsn)


async def test_output_is_in_a_file_when_mail_began_a_turn_just_before_it(
    database: Database, dsn: str, state: Path
) -> None:
    """The output is told while the mailbox is read, and no turn is open yet."""
    async with crossing(dsn, (ScriptedHang(),)) as (_, manager):
        one, two = [await joined(manager, name) for name in ("one", "two")]
        collect = manager.mailbox.collect

        async def collect_while_a_command_ends(member: Any) -> tuple[Mail, ...]:
            if mails := await collect(member):
                one.agent_loop.put_input(Quote(OUTPUTS[0], is_command_output=True))
            return mails

        manager.mailbox.collect = collect_while_a_command_ends  # type: ignore[method-assign]
        two.agent_loop.put_input(Send(MailSent(one.agent.id, "work", "one", by_user=True)))
        await until(lambda: one.agent_loop.queue.follow_up)
        assert one.agent_loop.memory.open and len(files(state)) == 1
        assert await manager.close() == "" and not files(state)
    assert [row[2] for row in rows(dsn, "user") if row[0] == "one"][-1] == OUTPUTS[0]
    check(dsn)


def test_file_is_whole_or_not_there(state: Path) -> None:
    """A part of one, behind a disk that is full, would be refused in words at each start."""
    state.mkdir(exist_ok=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    id = new_event_id()
    unsaved = Unsaved(str(id), "one", None, (str(id),), (ev.UserMessage("x" * 100_000, alone=True),))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        result = spool(unsaved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not result.is_complete and "nor kept in" in result.message and not list(state.iterdir())
    result = spool(unsaved)
    assert result.is_complete and list(state.iterdir()) == [result.path]


async def test_output_that_a_killed_program_had_stored_is_not_stored_again(
    database: Database, dsn: str, state: Path
) -> None:
    async with crossing(dsn, (ScriptedHang(),)) as (_, manager):
        member = await joined(manager, "one")
        member.agent_loop.put_input(Submitted("ask"))
        await until(lambda: member.agent_loop.memory.open)
        for output in OUTPUTS:
            member.agent_loop.put_input(Quote(output, is_command_output=True))
        copies = [(file, file.read_bytes()) for file in files(state)]
        assert await manager.close() == "" and not files(state)
    for file, content in copies:
        file.write_bytes(content)
    assert await brought_back(database, dsn) == TURNS and not files(state)


async def test_files_are_put_back_in_the_order_of_what_they_follow(database: Database, dsn: str, state: Path) -> None:
    """Their names say when they were written, and a clock may have jumped."""
    talk = await Talk.open(database, await database.agents.create("one"))
    await talk.turn("a", "b")
    state.mkdir(exist_ok=True)
    unsaved = talk.log.unsaved((ev.CommandRan("/1"), ev.CommandRan("/2"), ev.CommandRan("/3")))
    chain = (unsaved.behind, *unsaved.ids)
    for number, (behind, id, event) in enumerate(zip(chain, unsaved.ids, unsaved.events, strict=False)):
        one = type(unsaved)(unsaved.agent, "one", behind, (id,), (event,))
        (state / f"unsaved-{talk.agent.id}-{9 - number}.jsonl").write_bytes(serialize(one))
    await talk.log.close()
    _, log, told = await world(database).acquire(talk.agent)
    assert told == ["1 event that could not be saved is in the log now."] * 3 and not files(state)
    assert [row[2] for row in rows(dsn, "command")] == ["/1", "/2", "/3"]
    await log.close()


async def test_changed_file_is_refused_and_one_without_checksum_is_said_to_have_none(
    database: Database, dsn: str, state: Path
) -> None:
    talk, events = await talked(database)
    file = kept(talk, events, state)
    await talk.log.close()
    file.write_bytes(file.read_bytes().replace(b'"content":"d"', b'"content":"e"'))
    for _ in range(2):
        with pytest.raises(Rejected, match="damaged or was changed: its checksum does not match") as refused:
            await recovered(database, file)
        assert refused.value.remedy == "If you changed it yourself, remove `sha256` from line 1."
    _, log, told = await world(database).acquire(talk.agent)
    assert told == [str(refused.value)] and file.exists()
    await log.close()
    head, rest = file.read_bytes().split(b"\n", 1)
    fields = json.loads(head)
    del fields["sha256"]
    file.write_bytes(json.dumps(fields).encode() + b"\n" + rest)
    _, log, told = await world(database).acquire(talk.agent)
    assert told == [
        "3 events that could not be saved are in the log now."
        " The file has no checksum, so damage could not be detected."
    ]
    assert [row[2] for row in rows(dsn, "assistant")] == ["b", "e"]
    await log.close()


async def test_agent_that_was_killed_is_not_forked(database: Database, state: Path) -> None:
    root = await Talk.open(database, await database.agents.create("root"))
    await root.turn()
    child: Agent = await database.agents.create("child", parent=root.agent.id, forked_at=1)
    talk = await Talk.open(database, child)
    file = kept(talk, (ev.UserMessage("first"),), state)
    await talk.log.append((ev.AgentKilled(),))
    await talk.log.close()
    with pytest.raises(Rejected, match=r"Agent child was killed\. Run: ikigai agents revive child"):
        await recovered(database, file)


@pytest.mark.parametrize("secret", ["plain", 'a "quote"', "two\nlines", "ä\\b"])
async def test_purge_deletes_the_file_that_holds_the_text(
    database: Database, state: Path, secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk, _ = await talked(database)
    call = ToolCall("1", "shell", json.dumps({"command": f"echo {secret}!"}))
    file = kept(talk, (ev.AssistantMessage(), call), state)
    purge_files.offer(redact.PurgeTarget("elsewhere"), yes=True)
    assert file.exists()
    purge_files.offer(redact.PurgeTarget(secret), yes=True)
    assert not file.exists() and capsys.readouterr().out == f"Deleted: {file}\n"


async def test_file_without_end_is_refused_in_words(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unsaved_events, "MAX_UNSAVED_FILE_BYTES", 1_000)
    talk = await Talk.open(database)
    file = tmp_path / "unsaved-big.jsonl"
    file.write_bytes(serialize(talk.log.unsaved((ev.UserMessage("word " * 1_000),))))
    (told,) = await unsaved_events.put_back([file], talk.log)
    assert "is too large for a file of ikigai" in told and file.exists()


async def test_refusal_that_may_pass_keeps_the_file_for_later(database: Database, dsn: str, tmp_path: Path):
    """The events still follow; to name a fork would be wrong."""
    talk = await Talk.open(database)
    await talk.turn("A", "B")
    file = tmp_path / "unsaved-later.jsonl"
    file.write_bytes(serialize(talk.log.unsaved((ev.UserMessage("later"),))))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "create function not_now() returns trigger language plpgsql as "
            "$$ begin raise exception 'permission denied for table messages' using errcode = '42501'; end $$"
        )
        other.execute("create trigger not_now before insert on messages for each row execute function not_now()")
        try:
            with pytest.raises(Misconfigured):
                await unsaved_events.put_back([file], talk.log)
        finally:
            other.execute("drop function not_now() cascade")
    assert file.exists()
    (told,) = await unsaved_events.put_back([file], talk.log)
    assert told == "1 event that could not be saved is in the log now." and not file.exists()


async def test_events_that_another_agent_has_meanwhile_are_not_taken_for_stored(database: Database):
    """Two programs put the same events back: nothing of them is told as stored where it is not."""
    one, other = await Talk.open(database), await Talk.open(database)
    events = (ev.UserMessage("later"), ev.UserMessage("and later"))
    ids = [new_event_id() for _ in events]
    other.log._attempt = AppendAttempt(other.log._target, events, 0, ids)
    assert len((await other.log.append(events)).rows) == 2
    one.log._attempt = AppendAttempt(one.log._target, again := (*events,), one.log._last_seq or 0, ids)
    with pytest.raises(AgentLocked):
        await one.log.append(again)


async def test_file_of_an_early_program_is_named_once_and_stays(database: Database, state: Path):
    state.mkdir(parents=True)
    (early := state / "unsaved-20251123-024559-4711.jsonl").write_text(
        '{"agent":"otter","kind":"user","content":"hi","data":null}\n'
    )
    services = world(database)
    for name, count in (("a", 1), ("b", 0)):
        _, log, messages = await services.acquire(await services.create(name))
        assert len(messages) == count and all(str(early) in each and "of otter" in each for each in messages)
        await log.close()
    assert early.exists()
