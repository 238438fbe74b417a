"""The loop over the log in memory and the scripted provider: interrupt, late answers, tools, queue, a lost database."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ikigai.core import machine
from ikigai.core.errors import Unavailable
from ikigai.core.events import AssistantMessage, Ending, StoredEvent, ToolStarted, TurnEnded, UsageReported, UserMessage
from ikigai.core.loading import loading
from ikigai.core.machine import Interrupted, SetMark, Submitted
from ikigai.core.memory import Memory, Run, Status
from ikigai.core.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Appended, Draft
from ikigai.core.reply import Failure, ProviderEvent, TextDelta
from ikigai.core.request import Request
from ikigai.core.transcript import Block, Rule, rule
from ikigai.providers.scripted import Break, Call, Hang, Pause, Scripted
from ikigai.runtime import Runtime
from ikigai.tools.registry import Registry
from tests.core.encoders import encoder, limits
from tests.core.memory_log import LogOf, MemoryLog

AGENT = "a"


class Watcher:
    """A view that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.memory: Memory | None = None
        self.saved_characters = 0

    def show(self, block: Block) -> None:
        self.seen.append((block.speaker.value, block.text))

    def rule(self, rule: Rule) -> None:
        self.seen.append(("rule", rule))

    def live(self, asked_by: int, event: Any) -> None:
        self.seen.append(("live", event))

    def saved(self, asked_by: int, characters: int) -> None:
        self.saved_characters = characters

    def stored(self, event: StoredEvent) -> None: ...

    def changed(self, memory: Memory) -> None:
        self.memory = memory

    def notice(self, text: str) -> None:
        self.seen.append(("notice", text))

    def away(self, is_away: bool) -> None:
        self.seen.append(("away", is_away))

    def returned(self, text: str) -> None:
        self.seen.append(("returned", text))

    def queued(self, texts: tuple[str, ...]) -> None:
        self.seen.append(("queued", texts))

    def told(self, what: str) -> list[Any]:
        return [value for kind, value in self.seen if kind == what]


class Session:
    """A running loop: `say` submits, `until` waits, `events` reads the log."""

    def __init__(self, replies: Any, tools: Registry | None = None, log: Any = None, budget: int = 100_000) -> None:
        self.logs = MemoryLog()
        self.logs.create(AGENT)
        self.run_settings = Run({"model": "chat/large", "level": "", "budget": budget, "system": ""}, limits, encoder)
        self.view = Watcher()
        self.provider = Scripted(replies)
        store = log(self.logs) if log else LogOf(self.logs, AGENT)
        self.runtime = Runtime(self.load(), store, lambda model: self.provider, tools or Registry(), self.view)

    def load(self) -> Memory:
        return self.logs.load(loading(self.run_settings, AGENT))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Session"]:
        task = asyncio.create_task(self.runtime.run())
        try:
            yield self
        finally:
            self.runtime.inbox.put_nowait(None)
            await task
        assert self.load() == self.runtime.memory, "memory after live use is memory after a restart"

    def tell(self, happened: machine.Input) -> None:
        self.runtime.inbox.put_nowait(happened)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.001)

    async def idle(self, turns: int) -> None:
        await self.until(lambda: len(self.ended()) >= turns and self.runtime.memory.status is Status.IDLE)

    def events(self, kind: type) -> list[Any]:
        return [stored.event for stored in self.logs.history(AGENT) if isinstance(stored.event, kind)]

    def ended(self) -> list[Ending]:
        return [event.ending for event in self.events(TurnEnded)]


def tool(name: str, run: Callable[[dict[str, object]], Awaitable[str]]) -> Registry:
    return Registry([(ToolSpec(name, "a toy", '{"type":"object"}'), run)])


async def test_a_turn_is_stored_shown_and_told_in_order():
    session = Session(["Hello there."])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert [block for block in session.view.seen if block[0] in ("user", "assistant")] == [
        ("user", "hi"),
        ("assistant", "Hello there."),
    ]
    (usage,) = session.events(UsageReported)
    assert usage.model == "chat/large" and usage.usage.output > 0 and usage.first_token_seconds is not None
    assert session.view.saved_characters <= len("Hello there.")


async def test_tools_run_side_by_side_and_their_results_go_back_in_the_order_of_the_calls():
    gate = asyncio.Event()
    began: list[str] = []

    async def run(arguments: dict[str, object]) -> str:
        began.append(str(arguments["n"]))
        if arguments["n"] == 1:
            await gate.wait()
        else:
            gate.set()
        return f"result {arguments['n']}"

    session = Session([[Call("toy", {"n": 1}), Call("toy", {"n": 2})], "done"], tool("toy", run))
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert sorted(began) == ["1", "2"]
    assert [result.content for result in session.events(ToolResult)] == ["result 2", "result 1"]
    answered = session.provider.requests[1].messages[-1].blocks
    assert [block.content for block in answered if isinstance(block, ToolResult)] == ["result 1", "result 2"]


async def test_no_tool_runs_before_its_start_is_stored():
    session: Session

    async def run(arguments: dict[str, object]) -> str:
        assert [event.call_id for event in session.events(ToolStarted)] == [session.events(ToolCall)[0].id]
        return "ok"

    session = Session([[Call("toy", {})], "done"], tool("toy", run))
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert not session.events(ToolResult)[0].is_error


async def test_an_unknown_tool_and_arguments_that_are_no_object_come_back_as_errors():
    session = Session([[Call("nope", {}), Call("nope", "{broken")], "I see."])
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert [result.is_error for result in session.events(ToolResult)] == [True, True]
    assert all(call.arguments == "{}" for call in session.events(ToolCall))


async def test_interrupt_keeps_what_was_said_and_cancels_the_tools():
    cancelled = asyncio.Event()

    async def run(arguments: dict[str, object]) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    session = Session([["Half a ", Hang()], [Call("toy", {})], "fine"], tool("toy", run))
    async with session.running():
        session.tell(Submitted("one"))
        await session.until(lambda: len(session.view.told("live")) >= 2)
        session.tell(Interrupted())
        await session.idle(1)
        session.tell(Submitted("two"))
        await session.until(lambda: bool(session.events(ToolStarted)))
        session.tell(Interrupted())
        await session.idle(2)
        await cancelled.wait()
        session.tell(Submitted("three"))
        await session.idle(3)
    assert session.ended() == [Ending.INTERRUPTED, Ending.INTERRUPTED, Ending.COMPLETED]
    said = session.events(AssistantMessage)[0]
    assert said.interrupted and said.text == "Half a "
    last = session.provider.requests[-1].messages
    assert [block.is_error for message in last for block in message.blocks if isinstance(block, ToolResult)] == [True]


class Lingering(Scripted):
    """A provider whose requests take a moment to be put down; `down` are the ways in which that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.down: list[str] = []

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta("Half")
        await asyncio.sleep(0.01)
        yield TextDelta(" a word")
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(0.1)
                self.down.append("whole")
            except asyncio.CancelledError:
                self.down.append("cut off")


class Slow(LogOf):
    """A log that takes a moment for everything."""

    async def append(self, facts: Any, reload: Any = None) -> Appended:
        await asyncio.sleep(0.02)
        return await super().append(facts, reload)


async def test_a_cancelled_request_is_put_down_whole_before_the_loop_ends():
    session = Session([], log=lambda logs: Slow(logs, AGENT))
    session.provider = provider = Lingering()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: len(session.view.told("live")) == 2)
        session.tell(Interrupted())
        await session.idle(1)
    assert provider.down == ["whole"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reply_that_was_cancelled_leaves_no_draft(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.drafts.DRAFT_EVERY", 0.04)
    session = Session([])
    session.provider = Lingering()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: len(session.view.told("live")) == 2)
        session.tell(Interrupted())
        await session.idle(1)
        await asyncio.sleep(0.06)  # here the save of the second piece would have been due
    assert session.logs.draft(AGENT) is None


async def test_the_agent_is_busy_from_the_moment_something_is_sent():
    session = Session(["a"], log=lambda logs: Slow(logs, AGENT))
    async with session.running():
        await session.until(lambda: not session.runtime.busy)
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.ended()) or not session.runtime.busy)
        assert session.ended()
        await session.until(lambda: not session.runtime.busy)


async def test_messages_and_commands_sent_while_busy_wait_their_turn_and_come_back_on_interrupt():
    session = Session([["a", Pause(0.05)], "b", ["c", Hang()]])
    async with session.running():
        session.tell(Submitted("one"))
        session.tell(SetMark("here"))
        session.tell(Submitted("two"))
        await session.idle(2)
        assert [mark.label for mark in session.runtime.memory.marks] == ["here"]
        assert ("/mark here", "two") in session.view.told("queued")
        session.tell(Submitted("three"))
        session.tell(Submitted("four"))
        await session.until(lambda: len(session.view.told("live")) >= 3)
        assert session.runtime.unqueue() == "four" and session.runtime.unqueue() == ""
        session.tell(Submitted("five"))
        session.tell(Interrupted())
        await session.idle(3)
    assert session.view.told("returned") == ["five"]
    assert [message.text for message in session.events(UserMessage)] == ["one", "two", "three"]


async def test_a_broken_stream_fails_the_turn_in_words_and_keeps_the_partial_reply():
    session = Session([["Some ", Break(Failure.CUT, "The line went dead.", "Type /retry.")]])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert session.ended() == [Ending.FAILED]
    assert session.events(AssistantMessage)[0].text == "Some "
    assert ("stopped", "The line went dead. Type /retry.") in session.view.seen
    assert session.events(UsageReported)[0].failure == "cut"


async def test_a_late_answer_changes_nothing():
    session = Session([["x", Hang()]])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.runtime.memory.open))
        (job,) = machine.work(session.runtime.memory)
        assert isinstance(job, machine.CallModel)
        session.tell(Interrupted())
        await session.idle(1)
        before = session.runtime.memory
        session.tell(machine.Replied(job, (), machine.StopReason.END, UsageReported("m")))
        await session.until(lambda: session.runtime.inbox.empty())
        assert session.runtime.memory == before


async def test_a_refused_message_goes_back_to_the_input_line():
    session = Session([])
    session.run_settings = Run({"model": "", "budget": 0}, limits, encoder)
    session.runtime.memory = session.load()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("returned")))
    assert session.view.told("returned") == ["hi"] and "no model" in session.view.told("notice")[0]


async def test_a_queued_message_that_is_refused_is_no_longer_queued():
    session = Session([["x" * 3000, Pause(0.05)]])
    session.run_settings = Run({"model": "chat/tiny", "level": "", "budget": 0, "system": ""}, limits, encoder)
    session.runtime.memory = session.load()
    async with session.running():
        session.tell(Submitted("one"))
        session.tell(Submitted("two"))
        await session.until(lambda: session.view.told("returned") == ["two"])
        assert ("two",) in session.view.told("queued") and session.view.told("queued")[-1] == ()


async def test_the_rule_is_shown_behind_the_turn_that_moved_it_and_agrees_with_the_next_request():
    session = Session(["x" * 400] * 6, budget=300)
    async with session.running():
        for n in range(5):
            session.tell(Submitted(f"question {n}"))
            await session.idle(n + 1)
            place = rule(session.runtime.memory)
            if place:
                assert session.view.seen[-2][0] == "rule" or ("rule", place) in session.view.seen
    rules = session.view.told("rule")
    assert rules and rules[-1].turns > 0
    session.tell(Submitted("last"))
    async with session.running():
        await session.idle(6)
    first = session.provider.requests[-1].messages
    assert "older messages omitted" in first[0].text and first[1].text.startswith(rules[-1].words)


async def test_a_command_that_changes_the_past_loads_memory_again():
    session = Session(["one", "two", "three"])
    async with session.running():
        session.tell(Submitted("a"))
        await session.idle(1)
        session.tell(SetMark("m"))
        session.tell(Submitted("b"))
        await session.idle(2)
        session.tell(machine.RewindTo("m"))
        await session.until(lambda: len(session.runtime.memory.window.turns) == 1)
        session.tell(machine.Change({"budget": 50_000}))
        await session.until(lambda: session.runtime.memory.budget == 50_000)
    assert session.runtime.memory.own == {"budget": 50_000}


class Flaky(LogOf):
    """A log whose database is away for the next `down` appends."""

    down = 0

    async def append(self, facts: Any, reload: Any = None) -> Appended:
        if Flaky.down > 0:
            Flaky.down -= 1
            raise Unavailable("The database does not answer.")
        return await super().append(facts, reload)

    async def save_draft(self, draft: Draft) -> None:
        if Flaky.down > 0:
            raise Unavailable("The database does not answer.")
        await super().save_draft(draft)


async def test_a_lost_database_is_told_once_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.runtime.RETRY_AFTER", (0.01,))
    session = Session(["Hello."], log=lambda logs: Flaky(logs, AGENT))
    async with session.running():
        await session.until(lambda: session.runtime.inbox.empty())
        Flaky.down = 3
        session.tell(Submitted("hi"))
        await session.idle(1)
    notices = session.view.told("notice")
    assert len(notices) == 2 and "does not answer" in notices[0] and "back" in notices[1]
    assert session.view.told("away") == [True, False]
    assert session.ended() == [Ending.COMPLETED]


async def test_patience_ends_the_loop_with_what_is_unsaved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.runtime.RETRY_AFTER", (0.01,))
    session = Session(["Hello."], log=lambda logs: Flaky(logs, AGENT))
    Flaky.down = 10**9
    session.runtime._patience = 0.05
    session.tell(Submitted("hi"))
    with pytest.raises(Unavailable):
        await session.runtime.run()
    Flaky.down = 0
    assert session.runtime.unsaved == (UserMessage("hi"),)


async def test_a_draft_that_could_not_be_saved_is_saved_later(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("ikigai.drafts.DRAFT_EVERY", 0.01)
    session = Session([[Pause(0.05), "Half", Hang()]], log=lambda logs: Flaky(logs, AGENT))
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.runtime.memory.open))
        Flaky.down = 1
        await session.until(lambda: bool(session.view.told("live")))
        await asyncio.sleep(0.05)
        assert session.logs.draft(AGENT) is None, "and no more words will come"
        Flaky.down = 0
        await session.until(lambda: session.logs.draft(AGENT) is not None)
        session.tell(Interrupted())
        await session.idle(1)


async def test_what_was_sent_while_the_database_was_away_is_there_when_the_loop_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.runtime.RETRY_AFTER", (0.01,))
    session = Session([], log=lambda logs: Flaky(logs, AGENT))
    Flaky.down = 10**9
    session.runtime._patience = 0.05
    for text in ("one", "two", "three"):
        session.tell(Submitted(text))
    with pytest.raises(Unavailable):
        await session.runtime.run()
    Flaky.down = 0
    assert session.runtime.unsaved == (UserMessage("one"),)
    assert session.runtime.unsent() == ["two", "three"] and session.runtime.unsent() == []


async def test_max_requests_ends_a_turn_that_goes_round():
    async def run(arguments: dict[str, object]) -> str:
        return "again"

    session = Session([[Call("toy", {})]] * 9, tool("toy", run))
    session.runtime._max_requests = 3
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert len(session.provider.requests) == 3 and session.ended() == [Ending.FAILED]


async def test_a_dead_programs_draft_becomes_the_interrupted_reply():
    session = Session([["Some words", Hang()]])
    task = asyncio.create_task(session.runtime.run())
    session.tell(Submitted("hi"))
    await session.until(lambda: session.logs.draft(AGENT) is not None)
    task.cancel()
    await asyncio.wait([task])
    again = Session([])
    again.logs = session.logs
    again.runtime = Runtime(
        again.load(), LogOf(again.logs, AGENT), lambda model: again.provider, Registry(), again.view
    )
    async with again.running():
        await again.idle(1)
    said = again.events(AssistantMessage)[0]
    assert said.interrupted and "Some words".startswith(said.text) and said.text
    assert again.ended() == [Ending.INTERRUPTED]
