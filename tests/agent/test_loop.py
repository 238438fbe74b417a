"""The loop over the log in memory and the scripted provider: interrupt, late answers, tools, queue, a lost database."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from ikigai.agent.loop import AgentLoop
from ikigai.agent.loop_options import LoopOptions, NoServices
from ikigai.core.errors import Unavailable
from ikigai.core.events.events import (
    AssistantMessage,
    Choices,
    Ending,
    SettingsChanged,
    StoredEvent,
    ToolStarted,
    TurnEnded,
    TurnsRecalled,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import Message, Role, StopReason, Text, ToolCall, ToolResult, Usage
from ikigai.core.ports import Appended
from ikigai.core.request.build import Request
from ikigai.core.request.default_prompt import Surroundings
from ikigai.core.request.reply import (
    FailureKind,
    ProviderEvent,
    RetryScheduled,
    StreamFinished,
    TextDelta,
    UsageUpdate,
)
from ikigai.core.request.reply_draft import Draft
from ikigai.core.request.system_prompt import with_instructions
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state import inputs
from ikigai.core.state.decisions import decisions, settings
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Interrupted, SetMark, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory
from ikigai.core.views import transcript
from ikigai.core.views.context_rule import ContextRule, context_rule
from ikigai.core.views.live_state import LiveState
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import TranscriptBlock
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.retry import RetryingProvider
from ikigai.providers.scripted import ScriptedCall, ScriptedFailure, ScriptedHang, ScriptedPause, ScriptedProvider
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.registry import ToolRegistry
from tests.core.encoders import encoder, limits
from tests.core.memory_log import LogOf, MemoryLog
from tests.support.running import running
from tests.support.wire_server import Answer, WireServer, sse

AGENT = "a"

Recall: TypeAlias = Callable[[Memory, str], Awaitable[TurnsRecalled | None]]


class Watcher:
    """A view that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.memory: Memory | None = None
        self.saved_characters = 0
        self.live = LiveState()

    def attach(self, live: LiveState) -> None:
        self.live, self.memory = live, live.memory
        self.seen += [("live", each) for each in live.reply.deltas] if live.reply else []
        self.seen.append(("queued", live.waiting))

    def show(self, block: TranscriptBlock) -> None:
        self.seen.append((block.speaker.value, block.text))

    def rule(self, rule: ContextRule) -> None:
        self.seen.append(("rule", rule))

    def show_delta(self, asked_by: int, event: Any) -> None:
        self.seen.append(("live", event))

    def draft_saved(self, asked_by: int, characters: int) -> None:
        self.saved_characters = characters

    def progress(self, call_id: str, text: str) -> None:
        self.seen.append(("progress", text))

    async def ask(self, question: Question) -> QuestionAnswer:
        self.seen.append(("ask", question))
        return QuestionAnswer(question.yes or question.default)

    def stored(self, event: StoredEvent) -> None: ...

    def changed(self, memory: Memory) -> None:
        self.memory = memory

    def notice(self, text: str) -> None:
        self.seen.append(("notice", text))

    note = notice

    def database_unreachable(self, is_unreachable: bool) -> None:
        self.seen.append(("away", is_unreachable))

    def restore_input(self, text: str) -> None:
        self.seen.append(("returned", text))

    def queued(self, texts: tuple[str, ...]) -> None:
        self.seen.append(("queued", texts))

    def told(self, what: str) -> list[Any]:
        return [value for kind, value in self.seen if kind == what]


def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    """A dollar a token."""
    return float(usage.input + usage.output), "toy"


class Priced(NoServices):
    """Services that price a request, with a redactor of their own, and what a message recalls."""

    def __init__(self, redactor: Redactor | None = None, recall: Recall | None = None) -> None:
        self._redactor, self._recall = redactor, recall

    def price(self, model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        return price(model, usage, at)

    def redactor(self) -> Redactor:
        return self._redactor or super().redactor()

    async def recall_for(self, memory: Memory, message: str) -> TurnsRecalled | None:
        return await self._recall(memory, message) if self._recall else None


class Prompt:
    """The prompt that these functions return."""

    def __init__(self, instructions: Callable[[], str] | None, default_system: Callable[[Memory], str] | None) -> None:
        self.instructions = instructions or (lambda: "")
        self.default_system = default_system or (lambda memory: "")

    def mcp_tools(self, memory: Memory) -> str:
        return ""

    def skills(self, memory: Memory) -> str:
        return ""


class Session:
    """A running loop: `say` submits, `until` waits, `events` reads the log."""

    def __init__(
        self,
        replies: Any,
        tools: ToolRegistry | None = None,
        log: Any = None,
        budget: int = 100_000,
        counter: str = "bytes",
        instructions: Callable[[], str] | None = None,
        default_system: Callable[[Memory], str] | None = None,
        redactor: Redactor | None = None,
        recall: Recall | None = None,
    ) -> None:
        self.logs = MemoryLog()
        self.logs.create(AGENT)
        settings: Choices = {"model": "chat/large", "level": "", "budget": budget, "system": ""}
        self.run_settings = RunConfig(settings, limits, encoder, counter=counter)
        self.view = Watcher()
        self.provider: Any = ScriptedProvider(replies)
        store = log(self.logs) if log else LogOf(self.logs, AGENT)
        self.runtime = AgentLoop(
            self.load(),
            store,
            lambda model: self.provider,
            tools or ToolRegistry(),
            self.view,
            LoopOptions(
                services=Priced(redactor, recall),
                prompt=Prompt(instructions, default_system) if instructions or default_system else None,
            ),
        )

    def load(self) -> Memory:
        return self.logs.load(load_memory(self.run_settings, AGENT))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Session"]:
        async with running(self.runtime):
            yield self
        assert self.load() == self.runtime.memory, "memory after live use is memory after a restart"

    def tell(self, incoming: inputs.Input) -> None:
        self.runtime.inbox.put_nowait(incoming)

    async def until(self, true: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.001)

    async def idle(self, turns: int) -> None:
        await self.until(lambda: len(self.ended()) >= turns and self.runtime.memory.status is AgentStatus.IDLE)

    def events(self, kind: type) -> list[Any]:
        return [stored.event for stored in self.logs.history(AGENT) if isinstance(stored.event, kind)]

    def ended(self) -> list[Ending]:
        return [event.ending for event in self.events(TurnEnded)]


class Number(msgspec.Struct):
    n: int = 0


class Toy:
    description, arguments, set = "a toy", Number, "toys"

    def __init__(self, name: str, run: Callable[[dict[str, object]], Awaitable[str]]) -> None:
        self.name, self._run = name, run

    async def preview(self, arguments: Number) -> Effect:
        return Effect(EffectKind.NOTHING, "")

    async def run(self, arguments: Number, progress: OnOutput) -> ToolOutput:
        return ToolOutput(await self._run(msgspec.to_builtins(arguments)))


def tool(name: str, run: Callable[[dict[str, object]], Awaitable[str]]) -> ToolRegistry:
    return ToolRegistry([Toy(name, run)])


async def test_turn_is_stored_shown_and_told_in_order():
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


async def test_instructions_that_changed_are_stored_before_what_asks_and_sent_with_it():
    now = ["Obey."]
    session = Session(["One.", "Two.", "Three.", "Four."], instructions=lambda: now[0])
    async with session.running():
        sent = list[str]()
        for turns, incoming in enumerate((inputs.Submitted("a"), inputs.Submitted("b"), inputs.Retry()), 1):
            session.tell(incoming)
            await session.idle(turns)
            sent.append(session.provider.requests[-1].system)
            now[0] = ["Obey.", "", "Never."][turns - 1]
        session.tell(inputs.Quote("c"))
        await session.idle(4)
        below = {**session.run_settings.below}
        assert session.runtime.memory.run.below == below, "a quote asks nobody, so nothing was looked at"
        session.tell(inputs.Submitted("d"))
        await session.idle(5)
        session.run_settings = msgspec.structs.replace(
            session.run_settings, below={**session.run_settings.below, "instructions": "Never."}
        )
    assert (sent, session.provider.requests[-1].system) == (["Obey.", "Obey.", ""], "Never.")
    assert [event.values for event in session.events(SettingsChanged)] == [
        {"instructions": value} for value in ("Obey.", None, "Never.")
    ]
    kinds = [type(stored.event) for stored in session.logs.history(AGENT)]
    first = kinds.index(SettingsChanged)
    assert kinds[first + 1] is UserMessage and kinds[: first + 1].count(UserMessage) == 0


REFUSED: dict[str, inputs.Input] = {
    "a retry without a turn": inputs.Retry(),
    "a message that is too long": Submitted("x" * 5_000_000),
    "criteria where there are none": inputs.Plan("forget", "all"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("later", ["", "Never."])
async def test_instructions_that_changed_before_a_refused_input_are_in_the_next_turn(
    refused: inputs.Input, later: str
) -> None:
    now = ["Obey."]
    session = Session(["One.", "Two."], instructions=lambda: now[0])
    async with session.running():
        session.tell(Submitted("a"))
        await session.idle(1)
        session.tell(inputs.Clear())
        now[0] = later
        session.tell(refused)
        await session.until(lambda: bool(session.view.told("notice")))
        session.tell(Submitted("b"))
        await session.idle(2)
        session.run_settings = msgspec.structs.replace(
            session.run_settings, below=with_instructions(session.run_settings.below, later)
        )
    assert [request.system for request in session.provider.requests] == ["Obey.", later]


async def test_default_system_prompt_changes_with_the_first_turn_of_a_day_alone():
    date = ["2026-11-23"]

    def default(memory: Memory) -> str:
        return settings.default_system(memory, Surroundings("/here", "Linux", date[0]))

    session = Session(list("abcdefgh"), default_system=default)

    async def turn(incoming: inputs.Input) -> str:
        session.tell(incoming)
        await session.idle(len(session.provider.requests) + 1)
        return session.provider.requests[-1].system

    async with session.running():
        assert not session.events(SettingsChanged), "opening stores none"
        first = await turn(Submitted("Go on."))
        assert "Date: 2026-11-23" in first and await turn(Submitted("Go on.")) == first
        date[0] = "2026-11-24"
        assert await turn(Submitted("Go on.")) == first.replace("-23", "-24"), "a new day"
        assert await turn(inputs.Retry()) == first.replace("-23", "-24")
        session.tell(inputs.Change({"system": ""}))
        assert await turn(Submitted("Go on.")) == ""
        session.tell(inputs.Change({"system": "Be brief."}))
        date[0] = "2026-11-25"
        assert await turn(Submitted("Go on.")) == "Be brief."
        session.tell(inputs.Change({"system": None}))
        assert await turn(Submitted("Go on.")) == first.replace("-23", "-25")
    changes = [event.values for event in session.events(SettingsChanged)]
    days = [str(each["default_system"] or "none") for each in changes if "default_system" in each]
    stored = [first, first.replace("-23", "-24"), "none", first.replace("-23", "-25")]
    assert days == stored, "each once, and none where the user's own stands"
    assert changes[2] == {"system": "", "default_system": None}
    for row in session.logs.history(AGENT):
        if isinstance(row.event, SettingsChanged) and row.event.values.keys() == {"default_system"}:
            assert not list(transcript.event_blocks(row, True)), "no line on screen and in exports"


@pytest.mark.parametrize(
    ("reply", "stop", "ending"),
    [
        (("begun", ScriptedHang()), [Interrupted()], Ending.INTERRUPTED),
        (("begun", ScriptedHang()), [Interrupted(), None], Ending.INTERRUPTED),
        (("begun", ScriptedPause(0.05), ScriptedFailure(FailureKind.REFUSED)), [], Ending.FAILED),
        (("begun", ScriptedPause(0.05), "and done"), [], Ending.COMPLETED),
    ],
)
async def test_command_outputs_are_stored_once_however_the_turn_ends(
    reply: Any, stop: list[Any], ending: Ending
) -> None:
    session = Session([reply, "More."])
    async with session.running():
        session.tell(Submitted("a"))
        await session.until(lambda: session.runtime.memory.open is not None)
        for incoming in (
            inputs.Quote("!x\n1", is_command_output=True),
            SetMark("m"),
            inputs.Quote("quoted"),
            inputs.Quote("!y\n2", is_command_output=True),
        ):
            session.tell(incoming)
        await session.until(lambda: session.view.told("queued") and len(session.view.told("queued")[-1]) == 2)
        assert session.view.told("queued")[-1] == ("/mark m", "quoted"), "what ran is no input, and cannot run again"
        for incoming in stop:
            session.runtime.inbox.put_nowait(incoming)
        await session.idle(3 if stop else 4)
    assert session.view.told("notice") == (["Not run: /mark m, quoted."] if stop else [])
    said = [event.text for event in session.events(UserMessage)]
    assert said == ["a", "!x\n1", *([] if stop else ["quoted"]), "!y\n2"]
    assert session.ended() == [ending, *[Ending.COMPLETED] * (len(said) - 1)]
    assert session.runtime.unsent() == []


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

    session = Session([[ScriptedCall("toy", {"n": 1}), ScriptedCall("toy", {"n": 2})], "done"], tool("toy", run))
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

    session = Session([[ScriptedCall("toy", {})], "done"], tool("toy", run))
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert not session.events(ToolResult)[0].is_error


async def test_unknown_tool_and_arguments_that_are_no_object_come_back_as_errors():
    session = Session([[ScriptedCall("nope", {}), ScriptedCall("nope", "{broken")], "I see."])
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

    session = Session([["Half a ", ScriptedHang()], [ScriptedCall("toy", {})], "fine"], tool("toy", run))
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


class Lingering(ScriptedProvider):
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

    async def append(self, events: Any, reload: Any = None, ids: Any = ()) -> Appended:
        await asyncio.sleep(0.02)
        return await super().append(events, reload, ids)


async def test_cancelled_request_is_put_down_whole_before_the_loop_ends():
    session = Session([], log=lambda logs: Slow(logs, AGENT))
    session.provider = provider = Lingering()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: len(session.view.told("live")) == 2)
        session.tell(Interrupted())
        await session.idle(1)
    assert provider.down == ["whole"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_reply_that_was_cancelled_leaves_no_draft(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.request.reply_drafts.DRAFT_EVERY", 0.04)
    session = Session([])
    session.provider = Lingering()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: len(session.view.told("live")) == 2)
        session.tell(Interrupted())
        await session.idle(1)
        await asyncio.sleep(0.06)  # here the save of the second piece would have been due
    assert session.logs.draft(AGENT) is None


async def test_agent_is_busy_from_the_moment_something_is_sent():
    session = Session(["a"], log=lambda logs: Slow(logs, AGENT))
    async with session.running():
        await session.until(lambda: not session.runtime.busy)
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.ended()) or not session.runtime.busy)
        assert session.ended()
        await session.until(lambda: not session.runtime.busy)


async def test_messages_and_commands_sent_while_busy_wait_their_turn_and_come_back_on_interrupt():
    session = Session([["a", ScriptedPause(0.05)], "b", ["c", ScriptedHang()]])
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
        assert session.runtime.queue.unqueue() == "four" and session.runtime.queue.unqueue() == ""
        session.tell(Submitted("five"))
        session.tell(Interrupted())
        await session.idle(3)
    assert session.view.told("returned") == ["five"]
    assert [message.text for message in session.events(UserMessage)] == ["one", "two", "three"]


async def test_broken_stream_fails_the_turn_in_words_and_keeps_the_partial_reply():
    session = Session([["Some ", ScriptedFailure(FailureKind.CUT, "The line went dead.", "Type /retry.")]])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert session.ended() == [Ending.FAILED]
    assert session.events(AssistantMessage)[0].text == "Some "
    assert ("stopped", "The line went dead. Type /retry.") in session.view.seen
    assert session.events(UsageReported)[0].failure == "cut"


async def test_late_answer_changes_nothing():
    session = Session([["x", ScriptedHang()]])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.runtime.memory.open))
        (job,) = decisions.work(session.runtime.memory)
        assert isinstance(job, inputs.CallModel)
        session.tell(Interrupted())
        await session.idle(1)
        before = session.runtime.memory
        session.tell(inputs.Replied(job, (), decisions.StopReason.END, UsageReported("m")))
        await session.until(lambda: session.runtime.inbox.empty())
        assert session.runtime.memory == before


async def test_refused_message_goes_back_to_the_input_line():
    session = Session([])
    session.run_settings = RunConfig({"model": "", "budget": 0}, limits, encoder)
    session.runtime.memory = session.load()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("returned")))
    assert session.view.told("returned") == ["hi"] and "No model yet." in session.view.told("notice")[0]


async def test_queued_message_that_is_refused_is_no_longer_queued():
    session = Session([["x" * 3000, ScriptedPause(0.05)]])
    session.run_settings = RunConfig({"model": "chat/tiny", "level": "", "budget": 0, "system": ""}, limits, encoder)
    session.runtime.memory = session.load()
    async with session.running():
        session.tell(Submitted("one"))
        session.tell(Submitted("two"))
        await session.until(lambda: session.view.told("returned") == ["two"])
        assert ("two",) in session.view.told("queued") and session.view.told("queued")[-1] == ()


async def test_rule_is_shown_behind_the_turn_that_moved_it_and_agrees_with_the_next_request():
    session = Session(["x" * 400] * 6, budget=300)
    async with session.running():
        for n in range(5):
            session.tell(Submitted(f"question {n}"))
            await session.idle(n + 1)
            place = context_rule(session.runtime.memory)
            if place:
                assert session.view.seen[-2][0] == "rule" or ("rule", place) in session.view.seen
    rules = session.view.told("rule")
    assert rules and rules[-1].turns > 0
    session.tell(Submitted("last"))
    async with session.running():
        await session.idle(6)
    first = session.provider.requests[-1].messages
    assert "older messages omitted" in first[0].text and first[1].text.startswith(rules[-1].words)


async def test_rule_that_is_shown_last_begins_the_very_next_request():
    session, drawn = Session(["x" * 400] * 9, budget=300), list[ContextRule | None]()
    async with session.running():
        for n in range(9):
            session.tell(Submitted(f"question {n}"))
            await session.idle(n + 1)
            shown = session.view.told("rule")
            drawn.append(msgspec.structs.replace(shown[-1], left=0, used_before=0, used=0) if shown else None)
            assert drawn[-1] == context_rule(session.runtime.memory), "none is shown a turn late"
    requests = [[message.text for message in request.messages] for request in session.provider.requests]
    for rule, sent in zip(drawn, requests[1:], strict=False):
        assert sent[0] == "question 0" if rule is None else sent[1] == rule.words
    assert len({rule.before for rule in drawn if rule}) > 5


async def test_command_that_changes_the_past_loads_memory_again():
    session = Session(["one", "two", "three"])
    async with session.running():
        session.tell(Submitted("a"))
        await session.idle(1)
        session.tell(SetMark("m"))
        session.tell(Submitted("b"))
        await session.idle(2)
        session.tell(inputs.RewindTo("m"))
        await session.until(lambda: len(session.runtime.memory.window.turns) == 1)
        session.tell(inputs.Change({"budget": 50_000}))
        await session.until(lambda: session.runtime.memory.budget == 50_000)
    assert session.runtime.memory.own == {"budget": 50_000}


class Flaky(LogOf):
    """A log whose database is away for the next `down` appends."""

    down = 0

    async def append(self, events: Any, reload: Any = None, ids: Any = ()) -> Appended:
        if Flaky.down > 0:
            Flaky.down -= 1
            raise Unavailable("The database does not answer.")
        return await super().append(events, reload, ids)

    async def save_draft(self, draft: Draft) -> None:
        if Flaky.down > 0:
            raise Unavailable("The database does not answer.")
        await super().save_draft(draft)


async def test_lost_database_is_told_once_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.db_retry.RETRY_AFTER", (0.01,))
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


async def test_connection_that_was_cut_is_worth_no_word():
    session = Session(["Hello."], log=lambda logs: Flaky(logs, AGENT))
    async with session.running():
        await session.until(lambda: session.runtime.inbox.empty())
        Flaky.down = 1
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert session.view.told("notice") == session.view.told("away") == [] and session.ended() == [Ending.COMPLETED]


class Noting(ScriptedProvider):
    """A provider that notes each request that is sent, with what the view has shown by then."""

    def __init__(self, view: Watcher, replies: Any) -> None:
        super().__init__(replies)
        self.view = view
        self.sent: list[tuple[Request, list[tuple[str, Any]]]] = []

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.sent.append((request, list(self.view.seen)))
        async for event in super().stream(request):
            yield event


def noting(session: Session, replies: Any) -> list[tuple[Request, list[tuple[str, Any]]]]:
    session.provider = provider = Noting(session.view, replies)
    return provider.sent


async def test_request_is_sent_after_its_message_is_stored_and_shown():
    session = Session([])
    sent = noting(session, ["Hello."])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    ((request, shown),) = sent
    assert request.messages[-1].text == "hi" and ("user", "hi") in shown


async def test_message_that_is_interrupted_in_the_inbox_sends_no_request():
    session = Session([])
    sent = noting(session, [[ScriptedHang()]])
    async with session.running():
        session.tell(Submitted("hi"))
        session.tell(Interrupted())  # it is in the inbox before the message is stored
        await session.idle(1)
    assert not sent and session.ended() == [Ending.INTERRUPTED]


async def test_turn_sends_no_request_beyond_its_limit():
    async def run(arguments: dict[str, object]) -> str:
        return "again"

    session = Session([], tool("toy", run))
    sent = noting(session, [[ScriptedCall("toy", {})]] * 9)
    session.runtime.jobs._max_requests = 2
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert len(sent) == 2 and session.ended() == [Ending.FAILED]


async def test_steering_message_behind_results_is_in_their_request():
    gate, tools = held()
    session = Session([], tools)
    sent = noting(session, [[ScriptedCall("toy", {})], "so it is"])
    async with session.running():
        session.tell(Submitted("go"))
        await session.until(lambda: bool(session.events(ToolStarted)))
        session.tell(inputs.Steered("and mind the gap"))
        await session.until(lambda: bool(session.runtime.queue.steering))
        gate.set()
        await session.idle(1)
    assert len(sent) == 2 and "and mind the gap" in str(sent[1][0].messages[-1])


async def test_message_that_is_not_stored_sends_no_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.db_retry.RETRY_AFTER", (0.01,))
    session = Session([], log=lambda logs: LostBehind(logs, AGENT))
    sent = noting(session, ["Hello."])
    async with session.running():
        await session.until(lambda: session.runtime.inbox.empty())
        LostBehind.lost, LostBehind.tries = True, 0
        session.tell(Submitted("hi"))
        await session.until(lambda: LostBehind.tries > 2)
        assert not sent
        LostBehind.lost = False
        await session.idle(1)
    assert len(sent) == 1


class LostBehind(LogOf):
    """A log whose database is lost while it stores."""

    lost = False
    tries = 0

    async def append(self, events: Any, reload: Any = None, ids: Any = ()) -> Appended:
        if not LostBehind.lost:
            return await super().append(events, reload, ids)
        LostBehind.tries += 1
        raise Unavailable("The database does not answer.")


async def test_patience_ends_the_loop_with_what_is_unsaved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.db_retry.RETRY_AFTER", (0.01,))
    session = Session(["Hello."], log=lambda logs: Flaky(logs, AGENT))
    Flaky.down = 10**9
    session.runtime.until_available._timeout = 0.05
    session.tell(Submitted("hi"))
    with pytest.raises(Unavailable):
        await session.runtime.run()
    Flaky.down = 0
    assert session.runtime.unsaved == (UserMessage("hi"),)


async def test_draft_that_could_not_be_saved_is_saved_later(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("ikigai.agent.request.reply_drafts.DRAFT_EVERY", 0.01)
    session = Session([[ScriptedPause(0.05), "Half", ScriptedHang()]], log=lambda logs: Flaky(logs, AGENT))
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


async def test_messages_sent_while_the_database_is_away_are_unsent_when_the_loop_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.db_retry.RETRY_AFTER", (0.01,))
    session = Session([], log=lambda logs: Flaky(logs, AGENT))
    Flaky.down = 10**9
    session.runtime.until_available._timeout = 0.05
    for text in ("one", "two", "three"):
        session.tell(Submitted(text))
    with pytest.raises(Unavailable):
        await session.runtime.run()
    Flaky.down = 0
    assert session.runtime.unsaved == (UserMessage("one"),)
    assert session.runtime.unsent() == [Submitted("two"), Submitted("three")] and session.runtime.unsent() == []


async def test_max_requests_ends_a_turn_that_goes_round():
    async def run(arguments: dict[str, object]) -> str:
        return "again"

    session = Session([[ScriptedCall("toy", {})]] * 9, tool("toy", run))
    session.runtime.jobs._max_requests = 3
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert len(session.provider.requests) == 3 and session.ended() == [Ending.FAILED]
    assert [report.failure for report in session.events(UsageReported)] == [""] * 3, "the fourth was not sent"


async def test_dead_programs_draft_becomes_the_interrupted_reply():
    session = Session([["Some words", ScriptedHang()]])
    task = asyncio.create_task(session.runtime.run())
    session.tell(Submitted("hi"))
    await session.until(lambda: session.logs.draft(AGENT) is not None)
    task.cancel()
    await asyncio.wait([task])
    again = Session([])
    again.logs = session.logs
    again.runtime = AgentLoop(
        again.load(), LogOf(again.logs, AGENT), lambda model: again.provider, ToolRegistry(), again.view
    )
    async with again.running():
        await again.idle(1)
    said = again.events(AssistantMessage)[0]
    assert said.interrupted and "Some words".startswith(said.text) and said.text
    assert again.ended() == [Ending.INTERRUPTED]


# -- the usage ledger ------------------------------------------------------------------------------------------------


def rows(session: Session) -> list[tuple[int, str]]:
    """Attempt and failure of every row of the ledger."""
    return [(report.attempt, report.failure) for report in session.events(UsageReported)]


class Spending(ScriptedProvider):
    """A provider that counts before it speaks."""

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield UsageUpdate(Usage(40), "req_1")
        async with contextlib.aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


BUSY = (ScriptedFailure(FailureKind.OVERLOADED, "Busy."),)


async def test_every_request_has_its_row_in_the_order_of_things():
    async def run(arguments: dict[str, object]) -> str:
        return "seen"

    session = Session([], tool("toy", run))
    session.provider = RetryingProvider(
        ScriptedProvider([BUSY, [ScriptedCall("toy", {})], BUSY, BUSY, "done"]), jitter=lambda: 0.0
    )
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    assert rows(session) == [(1, "overloaded"), (2, ""), (1, "overloaded"), (2, "overloaded"), (3, "")]
    kinds = [type(stored.event).__name__ for stored in session.logs.history(AGENT)]
    assert kinds == [
        "UserMessage", "UsageReported", "AssistantMessage", "ToolCall", "UsageReported", "ToolStarted", "ToolResult",
        "UsageReported", "UsageReported", "AssistantMessage", "UsageReported", "TurnEnded",
    ]  # fmt: skip
    reports = session.events(UsageReported)
    assert [report.cost for report in reports] == [
        0.0 if report.failure else float(report.usage.input + report.usage.output) for report in reports
    ]
    assert {report.purpose for report in reports} == {""} and reports[1].priced_by == "toy"


async def test_size_in_a_row_is_what_was_sent():
    session = Session(["one", "two"])
    async with session.running():
        for n, text in enumerate(("first", "a second, longer one")):
            session.tell(Submitted(text))
            await session.idle(n + 1)
    sent = [
        len(encoder("chat/large").body(request)) for request in session.provider.requests
    ]  # memory's measure is the body's length
    assert [report.size for report in session.events(UsageReported)] == sent and sent[0] < sent[1]


async def test_interrupted_request_has_a_row_with_what_was_counted():
    session = Session([])
    session.provider = Spending([("Half", ScriptedHang())])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("live")))
        session.tell(Interrupted())
        await session.idle(1)
    (report,) = session.events(UsageReported)
    assert (report.failure, report.usage, report.request_id, report.cost) == ("interrupted", Usage(40), "req_1", 40.0)
    assert report.size > 0 and report.seconds >= 0 and report.first_token_seconds is not None
    assert all(not isinstance(event, UsageUpdate) for event in session.view.told("live"))


async def test_wait_is_ended_at_once_and_is_no_request():
    session = Session([])
    session.provider = RetryingProvider(
        ScriptedProvider([(ScriptedFailure(FailureKind.RATE, "Slow.", retry_after=30),), "never"])
    )
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("live")))
        assert session.view.told("live") == [RetryScheduled(30, 2, "Slow.", "rate", "", 8)]
        await session.until(lambda: bool(session.events(UsageReported)))
        assert session.runtime.memory.open, "its row is stored while it waits"
        session.tell(Interrupted())
        await session.idle(1)
    assert rows(session) == [(1, "rate")] and session.ended() == [Ending.INTERRUPTED]


async def test_unsent_request_has_no_usage_row():
    session = Session([(ScriptedFailure(FailureKind.UNAVAILABLE, "There is no model."),)])
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert rows(session) == [] and session.ended() == [Ending.FAILED]


async def test_bug_before_the_request_has_no_row_and_one_within_it_has(caplog: pytest.LogCaptureFixture):
    class Buggy(ScriptedProvider):
        async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            yield TextDelta("Some words")
            raise RuntimeError("a bug")

    session = Session([])

    def provider(model: str) -> Any:
        if not session.provider.requests:
            session.provider.requests.append(None)
            raise RuntimeError("a bug")
        return Buggy()

    session.runtime.jobs._provider = provider
    async with session.running():
        session.tell(Submitted("one"))
        await session.idle(1)
        assert rows(session) == []
        session.tell(Submitted("two"))
        await session.idle(2)
    assert rows(session) == [(1, "internal")] and session.ended() == [Ending.FAILED] * 2
    assert [said.text for said in session.events(AssistantMessage)] == ["Some words"], "what was shown is stored"
    assert "a bug" in caplog.text


async def test_side_call_is_stored_at_any_time():
    report = UsageReported("x/y", Usage(5, 1), purpose="title")
    session = Session([["a", ScriptedHang()]])
    async with session.running():
        session.tell(inputs.UsageRecorded(report))
        await session.until(lambda: session.events(UsageReported) == [report])
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("live")))
        session.tell(inputs.UsageRecorded(report))
        await session.until(lambda: session.events(UsageReported) == [report] * 2)
        assert session.runtime.memory.open
        session.tell(Interrupted())
        await session.idle(1)
    assert rows(session) == [(1, ""), (1, ""), (1, "interrupted")]


async def test_reply_and_an_interrupt_at_the_same_time_make_one_row():
    for wait in range(12):
        session = Session(["Hello"])
        async with session.running():
            session.tell(Submitted("hi"))
            for _ in range(wait):
                await asyncio.sleep(0)
            await session.until(lambda session=session: bool(session.runtime.memory.open or session.ended()))
            for _ in range(wait):
                await asyncio.sleep(0)
            session.tell(Interrupted())
            await session.idle(1)
            await session.until(lambda session=session: session.runtime.inbox.empty())
        assert len(session.provider.requests) <= 1
        assert len(rows(session)) == len(session.provider.requests), wait


async def test_price_that_takes_long_does_not_hold_up_a_stop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.request.usage_meter.PRICE_TIMEOUT", 0.1)
    session = Session([["Half", ScriptedHang()]])

    over = threading.Event()

    def slow(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        over.wait(60)
        return 1.0, "late"

    session.runtime.jobs._price = slow
    async with session.running():
        session.tell(Submitted("hi"))
        await session.until(lambda: bool(session.view.told("live")))
        session.tell(Interrupted())
        await session.idle(1)
    (report,) = session.events(UsageReported)
    assert report.cost is None and session.ended() == [Ending.INTERRUPTED]
    over.set()


# -- the provider's count of a turn ----------------------------------------------------------------------------------


class Counting(ScriptedProvider):
    """A provider that counts turns; `counting` is set while it does, `result` is what it answers or raises."""

    def __init__(self, replies: Any, result: Any, seconds: float = 0.0) -> None:
        super().__init__(replies)
        self.counting = asyncio.Event()
        self.counted: list[Request] = []
        self._result, self._seconds = result, seconds

    async def count(self, request: Request) -> int | None:
        self.counted.append(request)
        self.counting.set()
        await asyncio.sleep(self._seconds)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def counting(replies: Any, result: Any, seconds: float = 0.0, tools: ToolRegistry | None = None) -> Session:
    session = Session([], tools, counter="provider")
    session.provider = Counting(replies, result, seconds)
    return session


async def test_turn_is_counted_by_the_provider_before_its_end_is_stored():
    async def run(arguments: dict[str, object]) -> str:
        return "seen"

    session = counting([[ScriptedCall("toy", {})], "done", "again"], 23, tools=tool("toy", run))
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
        session.tell(Submitted("on"))
        await session.idle(2)
    first, second = session.events(TurnEnded)
    assert (first.tokens, second.tokens) == (23, 23) and first.counted == "provider chat/large"
    assert session.runtime.memory.window.turns[0].size == 23 * 4
    one, two = session.provider.counted
    assert (one.model, one.system, one.tools) == ("large", "", ())
    assert [message.role for message in one.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert two.messages == (Message(Role.USER, (Text("on"),)), Message(Role.ASSISTANT, (Text("again"),)))


@pytest.mark.parametrize("result", [None, 0, -5, 10**9, 10**30, RuntimeError("a bug")])
async def test_without_a_count_bytes_do(result: Any):
    session = counting(["Hello"], result)
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    (end,) = session.events(TurnEnded)
    assert (end.ending, end.tokens, end.counted) == (Ending.COMPLETED, 0, "")
    assert session.runtime.memory.window.turns[0].size == end.size > 0


async def test_count_may_be_as_many_tokens_as_the_turn_has_bytes_and_no_more():
    size = sum(map(encoder("chat/large").message, SPOKEN))
    for result, tokens in ((size, size), (size + 1, 0)):
        session = counting(["Hello"], result)
        async with session.running():
            session.tell(Submitted("hi"))
            await session.idle(1)
        assert [end.tokens for end in session.events(TurnEnded)] == [tokens]


SPOKEN = (Message(Role.USER, (Text("hi"),)), Message(Role.ASSISTANT, (Text("Hello"),)))


async def test_count_that_takes_long_is_done_without(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.request.model_call.COUNT_TIMEOUT", 0.05)
    session = counting(["Hello"], 9, seconds=60)
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    assert [end.tokens for end in session.events(TurnEnded)] == [0]


async def test_message_sent_while_a_turn_is_counted_waits_for_its_end():
    session = counting(["Hello", "Again"], 9, seconds=0.2)
    async with session.running():
        session.tell(Submitted("one"))
        await session.provider.counting.wait()
        session.tell(Submitted("two"))
        await session.idle(2)
    assert ("two",) in session.view.told("queued")
    assert session.ended() == [Ending.COMPLETED] * 2 and [end.tokens for end in session.events(TurnEnded)] == [9, 9]


async def test_esc_while_a_turn_is_counted_ends_it_with_the_whole_reply():
    session = counting(["Hello there", "never"], 9, seconds=60)
    async with session.running():
        session.tell(Submitted("one"))
        await session.provider.counting.wait()
        session.tell(Submitted("two"))
        await session.until(lambda: ("two",) in session.view.told("queued"))
        session.tell(Interrupted())
        await session.idle(1)
    (end,), (said,) = session.events(TurnEnded), session.events(AssistantMessage)
    assert (end.ending, end.tokens) == (Ending.COMPLETED, 0)
    assert (said.text, said.interrupted, said.stop) == ("Hello there", False, StopReason.END)
    assert session.view.told("returned") == ["two"] and rows(session) == [(1, "")]


async def test_bytes_and_failures_ask_for_no_count():
    session = Session([], counter="bytes")
    session.provider = Counting(["Hello", ("Half", *BUSY)], 9)
    async with session.running():
        session.tell(Submitted("one"))
        await session.idle(1)
        session.run_settings = msgspec.structs.replace(session.run_settings, counter="provider")
        session.runtime.memory = session.load()
        session.tell(Submitted("two"))
        await session.idle(2)
    assert session.provider.counted == [] and session.ended() == [Ending.COMPLETED, Ending.FAILED]


async def test_turn_is_counted_over_http():
    start = {
        "type": "message_start",
        "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 9}},
    }
    parts = (
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
    said = Answer(b"".join(b"event: %s\n%s" % (str(part["type"]).encode(), sse(part)) for part in parts))
    number = Answer(b'{"input_tokens": 42}', headers={"Content-Type": "application/json"})
    async with WireServer([said, number]) as server:
        session = Session([], counter="provider")
        address = server.base_url.removesuffix("/v1")
        session.provider = AnthropicProvider("anthropic", address, "key", traits=lambda model: ModelTraits())
        async with session.running():
            session.tell(Submitted("hi"))
            await session.until(lambda: bool(session.ended()), seconds=60)
        await session.provider.close()
    (end,) = session.events(TurnEnded)
    assert (end.ending, end.tokens, end.counted) == (Ending.COMPLETED, 42, "provider chat/large")
    assert [request.path for request in server.requests] == ["/v1/messages", "/v1/messages/count_tokens"]
    spoken = [message["role"] for message in server.requests[1].json["messages"]]
    assert spoken[:2] == ["user", "assistant"] and rows(session) == [(1, "")]


async def test_calibrated_sizes_follow_the_rows_of_the_ledger():
    class Dear(ScriptedProvider):
        async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            yield TextDelta("Hello")
            yield StreamFinished(StopReason.END, Usage(1000, 2))

    session = Session([], counter="calibrated")
    session.provider = Dear()
    async with session.running():
        session.tell(Submitted("hi"))
        await session.idle(1)
    (end,), (report,) = session.events(TurnEnded), session.events(UsageReported)
    assert end.tokens == round(end.size * min(1000 / report.size, 2.0)) and end.counted == "calibrated chat/large"


async def test_usage_has_the_number_of_turns_that_the_request_left_out():
    session = Session(["x" * 400] * 6, budget=300)
    async with session.running():
        for n in range(6):
            session.tell(Submitted(f"question {n}"))
            await session.idle(n + 1)
    sent = [
        sum(message.role is Role.USER and message.text.startswith("question") for message in request.messages)
        for request in session.provider.requests
    ]
    assert sent[-1] < 6
    outs = [report.out for report in session.events(UsageReported)]
    assert outs == [n + 1 - count for n, count in enumerate(sent)]


async def test_model_that_calls_what_is_not_there_is_not_asked_for_ever():
    session = Session([[ScriptedCall("ls", {})]] * 9)
    async with session.running():
        session.tell(Submitted("go"))
        await session.idle(1)
    (end,) = session.events(TurnEnded)
    assert end.ending is Ending.FAILED and end.reason.startswith(
        "chat/large keeps calling tools that do not exist (ls)."
    )
    assert len(session.provider.requests) == 3


async def test_behind_a_clear_the_rule_is_not_drawn_again_below_what_is_in_the_context():
    session = Session(["answer"])
    async with session.running():
        session.tell(inputs.Clear())
        session.tell(Submitted("kept"))
        await session.idle(1)
        session.tell(inputs.Change({"budget": 50_000}))
        await session.until(lambda: session.runtime.memory.budget == 50_000)
        session.tell(SetMark("here"))
        await session.until(lambda: session.runtime.memory.marks)
    assert [rule.cleared for rule in session.view.told("rule")] == [True]


def held() -> tuple[asyncio.Event, ToolRegistry]:
    """A tool that answers when it is let."""
    gate = asyncio.Event()

    async def run(arguments: dict[str, object]) -> str:
        await gate.wait()
        return "result"

    return gate, tool("toy", run)


async def test_steering_message_follows_the_tool_results():
    gate, tools = held()
    session = Session([[ScriptedCall("toy", {})], "so it is"], tools)
    async with session.running():
        session.tell(Submitted("go"))
        await session.until(lambda: bool(session.events(ToolStarted)))
        session.tell(inputs.Steered("and mind the gap"))
        session.tell(Submitted("later"))
        await session.until(lambda: ("queued", ("and mind the gap", "later")) in session.view.seen)
        assert session.runtime.queue.unqueue() == "later"
        gate.set()
        await session.idle(1)
    kinds = [type(stored.event) for stored in session.logs.history(AGENT)]
    assert kinds.index(ToolResult) < kinds.index(UserMessage, kinds.index(ToolResult)) < kinds.index(TurnEnded)
    assert [event.text for event in session.events(UserMessage)] == ["go", "and mind the gap"]
    sent = session.provider.requests[1].messages
    assert "and mind the gap" in str(sent[-1]) and len(session.provider.requests) == 2
    assert session.view.told("queued")[-1] == ()


async def test_late_steering_message_begins_the_next_turn_and_esc_returns_it():
    session = Session(["one", "two", ["half", ScriptedHang()]])
    async with session.running():
        session.tell(inputs.Steered("first"))  # nothing is under way
        await session.idle(1)
        session.tell(Submitted("second"))
        session.tell(inputs.Steered("third"))
        await session.until(lambda: len(session.ended()) == 2 and session.runtime.memory.open is not None)
        session.tell(inputs.Steered("fourth"))
        await session.until(lambda: session.view.told("queued")[-1] == ("fourth",))
        session.tell(inputs.Interrupted())
        await session.idle(3)
    assert [event.text for event in session.events(UserMessage)] == ["first", "second", "third"]
    assert session.view.told("returned") == ["fourth"]


async def test_turns_are_recalled_anew_for_a_message_that_is_sent_again():
    asked, busy, windows = list[str](), list[bool](), list[str]()

    async def recall(memory: Memory, message: str) -> TurnsRecalled:
        asked.append(message)
        windows.append(repr(memory.window.turns))
        busy.append(session.runtime.busy)
        return TurnsRecalled(f"[excerpt {len(asked)}]", (1,))

    async with Session(["One.", "Two."], recall=recall).running() as session:
        session.tell(Submitted("hi"))
        await session.idle(1)
        session.tell(inputs.Retry())
        await session.idle(2)
        sent = repr(session.provider.requests[-1].messages)
    assert busy == [True, True], "the message is not stored yet"
    assert "excerpt 1" not in windows[1], "nothing of the turn that is taken back is in the window"
    assert asked == ["hi", "hi"] and "[excerpt 2]" in sent and "[excerpt 1]" not in sent


@pytest.mark.parametrize("fails", [True, False])
async def test_message_is_returned_when_the_loop_ends_while_turns_are_recalled_for_it(fails: bool):
    asked = asyncio.Event()

    async def recall(memory: Memory, message: str) -> None:
        asked.set()
        if fails:
            raise ZeroDivisionError
        await asyncio.sleep(60)

    session = Session(["never"], recall=recall)
    running = asyncio.create_task(session.runtime.run())
    session.tell(Submitted("one"))
    session.tell(Submitted("two"))
    await asked.wait()
    if not fails:
        running.cancel()
    await asyncio.wait({running})
    assert not session.runtime.unsaved and not session.events(UserMessage)
    assert session.runtime.unsent() == [Submitted("one"), Submitted("two")]
