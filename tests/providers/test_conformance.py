"""One suite for all vendors: the same conversations over every adapter, through fold and memory, byte for byte.

Every reply comes as a real stream over HTTP and becomes events; the events are stored and folded, memory makes the next
request of them, and what the server really received is looked at.
"""

import json
import re
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmock.scenarios import Reply
from llmock.scenarios import ToolCall as Called
from msgspec.structs import replace

from ikigai.core.events.events import AssistantMessage, TurnEnded, UsageReported, UserMessage
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.cross_model import portable_name
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Interrupted,
    Replied,
    RunTool,
    StartTool,
    Submitted,
    ToolDone,
)
from ikigai.core.state.memory import AgentStatus, next_request
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models.models import ModelCatalog
from ikigai.providers.pool import Endpoint, ProviderPool
from tests.core import worlds
from tests.providers.conformance import CONVERSATIONS, TOOLS, Step, Talk, expected, plain, renamed, replied
from tests.providers.conftest import KEY, collect, reply
from tests.providers.formats import FORMATS, USAGE, Format
from tests.support.examples import examples
from tests.support.invariants import sound
from tests.support.wire_server import Answer, WireServer

one_loop = pytest.mark.asyncio(loop_scope="module")
"""For tests that talk to the server and through the clients that they share."""


class World(NamedTuple):
    server: WireServer
    pool: ProviderPool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with WireServer() as server:
        pool = pool_at(lambda form: f"http://127.0.0.1:{server.port}{form.path}", tmp_path_factory.mktemp("data"))
        yield World(server, pool)
        await pool.close()


def pool_at(address: Any, folder: Path) -> ProviderPool:
    endpoints = {form.provider: Endpoint(address(form), lambda: KEY, form.api) for form in FORMATS.values()}
    return ProviderPool(endpoints, LocalModel("", 4096, folder), ModelCatalog())


def run_with(pool: ProviderPool, form: Format, budget: int = 100_000) -> RunConfig:
    settings = {"model": form.model, "system": "Be brief.", "budget": budget}
    return RunConfig(settings, pool.limits, pool.encoder, tools=TOOLS)


class Conversation:
    """One agent's conversation over several vendors, and the last body that each of them received."""

    def __init__(self, world: World, form: Format) -> None:
        self.server, self.pool, self.form = world.server, world.pool, form
        self.talk = Talk(run_with(world.pool, form))
        self.steps: list[Step] = []
        self.said_by: list[Format] = []
        self.bodies: dict[str, bytes] = {}

    def turn_to(self, form: Format) -> None:
        self.form = form
        if self.talk.memory.model != form.model:
            self.talk.happen(Change({"model": form.model}))

    async def step(self, step: Step) -> None:
        form = self.form
        self.steps.append(step)
        self.said_by.append(form)
        self.server.script.append(Answer(form.stream(step.said, step.stop)))
        before = len(self.server.requests)
        size, events = await self.talk.step(step, self.pool.provider(form.model))
        [received] = self.server.requests[before:]
        self.looks_well(received.body, received.json, size)
        self.is_what_was_said(replied(events), step)
        assert [event.usage for event in events if isinstance(event, UsageReported)] == [USAGE]

    def looks_well(self, body: bytes, decoded: dict[str, Any], size: int) -> None:
        form, upto = self.form, len(self.steps) - 1
        own = [by is form and form.api != "chat" for by in self.said_by]
        assert form.read(decoded) == expected(tuple(self.steps), upto, own.__getitem__)
        assert form.validated(decoded) == decoded
        images = [image for step in self.steps for image in step.images]
        images += [image for step in self.steps[:-1] for image in step.shown]
        encoder: Any = self.pool.encoder(form.model)
        hidden = sum(len(image.data) - BYTES_PER_TOKEN * encoder.image_tokens(image) for image in images)
        assert size == len(body) - hidden
        if before := self.bodies.get(form.model):
            begun = re.sub(rb'\](,"diagnostics":\{[^{}]*\})?\}$', b"", before)
            assert body.startswith(begun + b","), "the same up to the first new message"
        self.bodies[form.model] = body

    def is_what_was_said(self, blocks: tuple[ReplyBlock, ...], step: Step) -> None:
        assert plain(blocks) == plain(step.said)
        for block in blocks:
            if isinstance(block, Thinking):
                by = f"openai-chat/{self.form.model}" if self.form.api == "chat" else self.form.model
                assert block.vendor == by and block.signature


@one_loop
@pytest.mark.ordinary("text-*", "*-messages")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_conversation_and_how_it_goes_on_with_every_other_vendor(world: World, name: str, form: str):
    talk = Conversation(world, FORMATS[form])
    for step in CONVERSATIONS[name]:
        await talk.step(step)
    for other in (*(other for other in FORMATS if other != form), form):
        talk.turn_to(FORMATS[other])
        await talk.step(Step((Thinking("Hm.", f"{other}+/=="), Text(f"I am {other}.")), f"And you, {other}?"))
    assert set(talk.bodies) == {form.model for form in FORMATS.values()}


# ── against a server that judges its clients ──

LLMOCK = {"messages": "anthropic", "responses": "openai", "chat": "openai", "contents": "gemini"}


@pytest.mark.parametrize("form", FORMATS)
async def test_llmock_finds_nothing_wrong_with_any_conversation(llmock: Any, tmp_path: Path, form: str):
    pool = pool_at(lambda _: llmock.base_url(LLMOCK[form]), tmp_path)
    vendor = FORMATS[form]
    for name, conversation in CONVERSATIONS.items():
        steps = tuple(_for_llmock(step) for step in conversation)
        if any(step.stop is StopReason.REFUSED for step in steps):
            continue  # it does not know how vendors refuse
        llmock.reset()
        talk = Talk(run_with(pool, vendor))
        for step in steps:
            llmock.add(_scripted(step))
            _, events = await talk.step(step, pool.provider(vendor.model))
            assert renamed(_told(replied(events))) == renamed(_told(step.said)), name
        bodies = [record.body for record in llmock.requests]
        assert len(bodies) == len(steps)
        for at, body in enumerate(bodies):
            assert renamed(vendor.read(body)) == renamed(expected(steps, at, lambda _: False)), name
        llmock.assert_resilient(strict=True)
    await pool.close()


def _for_llmock(step: Step) -> Step:
    """It does not think, and calls behind words only."""
    return step._replace(said=tuple(block for block in step.said if not isinstance(block, Thinking)))


def _scripted(step: Step) -> Reply:
    text = "".join(block.text for block in step.said if isinstance(block, Text))
    calls = [Called(block.name, json.loads(block.arguments)) for block in step.said if isinstance(block, ToolCall)]
    return Reply(text, tuple(calls), "length" if step.stop is StopReason.LENGTH else None)


def _told(blocks: tuple[ReplyBlock, ...]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            found.append(("call", portable_name(block.id), block.name, json.loads(block.arguments)))
        else:
            found.append(("said", block.text))
    return found


# ── streams that break ──

LAST_CALL = ToolCall("call_2", "cat", '{"path": "a.txt", "n": 3}')
BROKEN = (
    Thinking("I want to look around.", "c2lnbmF0dXJl"),
    Text("I look."),
    ToolCall("call_1", "ls", '{"path": "é/\\"x\\""}'),
    LAST_CALL,
)


@one_loop
@pytest.mark.parametrize("step", [211, pytest.param(1, marks=pytest.mark.long, id="every")])
@pytest.mark.parametrize("end", ["clean", "reset"])
@pytest.mark.parametrize("form", FORMATS)
async def test_stream_that_is_cut_anywhere_leaves_no_call_behind(world: World, form: str, end: str, step: int):
    vendor = FORMATS[form]
    whole = vendor.stream(BROKEN, StopReason.TOOLS)
    provider = vendor.connect(f"http://127.0.0.1:{world.server.port}", KEY)
    talk = Talk(run_with(world.pool, vendor))
    said = set[str]()
    for number, cut in enumerate(range(0, len(whole), step)):
        if number % 50 == 49:  # a talk that goes on for thousands of turns is another test's subject
            sound(next_request(talk.memory))
            talk = Talk(run_with(world.pool, vendor))
        talk.ask(Step((), "Look around."))
        world.server.script.append(Answer(whole, cut=cut, end=end))
        events = await collect(provider, next_request(talk.memory))
        ended = events[-1]
        if not isinstance(ended, StreamFailed):  # behind the end marker, only counts were missing
            last = reply(events).blocks()[-1]
            assert isinstance(last, ToolCall) and json.loads(last.arguments) == json.loads(LAST_CALL.arguments)
            talk.happen(Interrupted())
            continue
        assert ended.kind in (FailureKind.CUT, FailureKind.UNREACHABLE)
        events = talk.fail(ended, reply(events).blocks())
        assert all(isinstance(event, AssistantMessage | TurnEnded) for event in events)
        said |= {event.text for event in events if isinstance(event, AssistantMessage)}
    assert "I look." in said
    sound(next_request(talk.memory))
    await provider.close()  # type: ignore[attr-defined]


# ── any history ──

MODELS = {form.model: form for form in FORMATS.values()}
ANTHROPIC, OPENAI, MINE, GOOGLE = MODELS
REASONING = '{"id":"rs_1","summary":["a"],"encrypted_content":"gAAA+/=="}'
CHAT_THINKING = [
    '{"field":"reasoning_content"}',
    '{"field":"reasoning"}',
    '{"call":0,"fields":{"extra_content":{"a":1}}}',
]
base64s = st.sampled_from(["", "c2ln+/s=", "AAAA"])
thoughts = st.one_of(
    st.builds(Thinking, worlds.words, base64s | worlds.words, st.sampled_from([ANTHROPIC, f"{ANTHROPIC}#redacted"])),
    st.builds(Thinking, worlds.words, st.sampled_from(["", "{}", REASONING]) | worlds.words, st.just(OPENAI)),
    st.builds(Thinking, st.just(""), st.sampled_from(["commentary", "x"]), st.just(f"{OPENAI}#phase")),
    st.builds(Thinking, worlds.words, base64s, st.just(GOOGLE)),
    st.builds(Thinking, worlds.words, st.sampled_from(CHAT_THINKING) | worlds.words, st.just(f"openai-chat/{MINE}")),
    st.builds(Thinking, worlds.words, worlds.words, st.sampled_from(["openai-chat", "anthropic/claude-2", MINE, ""])),
)
ids = st.sampled_from(["call_1", "c:1|é", "", "x" * 90]) | worlds.words
names = st.sampled_from(["ls", "my tool", "x" * 90, ""]) | worlds.words
calls = st.builds(ToolCall, ids, names, worlds.arguments) | worlds.malformed
blocks = st.lists(st.builds(Text, worlds.words) | thoughts | calls, max_size=5).map(tuple)
replies = st.tuples(blocks, st.sampled_from(StopReason))
things = st.one_of(
    st.builds(UserMessage, worlds.words, worlds.images),
    replies,
    replies,
    st.builds(ToolResult, st.just(""), worlds.words, st.booleans(), st.just(""), worlds.images),
    st.just(Interrupted()),
    st.sampled_from(list(MODELS)),
)
"""Return the next step: a message, a reply, the result of the oldest call, an interruption, another model."""


@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(things, max_size=20), st.sampled_from(list(MODELS)), st.sampled_from([100_000, 400]))
def test_any_history_is_a_request_of_every_vendor(incoming: list[Any], model: str, budget: int):
    pool = the_pool()
    talk = Talk(run_with(pool, MODELS[model], budget))
    for thing in incoming:
        _live(talk, thing)
        _is_a_sound_request(talk, pool)
    for form in MODELS.values():
        run = replace(talk.run, above={"model": form.model})
        other = Talk(run, talk.log)  # as another run of the program finds it
        other.happen(Submitted("And now?"))
        assert other.memory.model == form.model
        _is_a_sound_request(other, pool)


@cache
def the_pool() -> ProviderPool:
    return pool_at(lambda form: f"http://127.0.0.1:1{form.path}", Path("/nowhere"))


def _live(talk: Talk, thing: Any) -> None:
    memory = talk.memory
    match thing:
        case UserMessage(text, images) if memory.status is AgentStatus.IDLE:
            talk.happen(Submitted(text, images))
        case UserMessage() if memory.status is AgentStatus.WAITING:
            talk.store((thing,))
        case (said, stop) if memory.status is AgentStatus.WAITING:
            talk.happen(Replied(talk.job(CallModel), said, stop, UsageReported(memory.model)))
        case ToolResult() if memory.status is AgentStatus.RUNNING_TOOLS:
            talk.happen(Approved(talk.job(StartTool)))
            run = talk.job(RunTool)
            talk.happen(ToolDone(run, replace(thing, call_id=run.call.id)))
        case Interrupted() if memory.open:
            talk.happen(thing)
        case str() if memory.status is AgentStatus.IDLE and thing != memory.model:
            talk.happen(Change({"model": thing}))
        case _:
            pass  # not now


def _is_a_sound_request(talk: Talk, pool: ProviderPool) -> None:
    memory = talk.memory
    if memory.status is not AgentStatus.WAITING:
        return
    form, sent, encoder = MODELS[memory.model], next_request(memory), cast(Any, pool.encoder(memory.model))
    sound(sent)
    body = encoder.body(sent)
    decoded = json.loads(body)
    assert form.validated(decoded) == decoded
    images = [image for message in sent.messages for image in message.images]
    hidden = sum(len(image.data) - BYTES_PER_TOKEN * encoder.image_tokens(image) for image in images)
    assert memory.size == len(body) - hidden
    _has_no_orphan(form.read(decoded))
    thoughts = {block for message in sent.messages for block in message.blocks if isinstance(block, Thinking)}
    own = [block.signature for block in thoughts if block.vendor.partition("#")[0] == form.model]
    for signature in (rest[0] for kind, *rest in form.read(decoded) if kind == "thought"):
        assert any(signature in known for known in own), "thinking of its own alone"


def _has_no_orphan(told: list[tuple[Any, ...]]) -> None:
    waiting: list[str] = []
    answering = False
    for kind, *rest in told:
        if kind == "image" and answering:  # of the result before it
            continue
        if kind == "result":
            assert waiting and rest[0] == waiting.pop(0), "a result that nobody asked for"
            answering = bool(waiting)
            continue
        assert not answering and (not waiting or kind in ("call", "said", "thought")), "a call without its result"
        if kind == "call":
            assert rest[0] not in waiting
            waiting.append(rest[0])
    assert not waiting
