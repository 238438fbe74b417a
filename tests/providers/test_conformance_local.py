"""Every adapter for real: llama.cpp serves the small model and speaks Messages, Responses and Chat Completions."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from ikigai.agent.request.one_shot import complete
from ikigai.core.context.forget_matching import ANSWER_SCHEMA
from ikigai.core.events.events import AssistantMessage, UsageReported
from ikigai.core.events.messages import Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta, UsageUpdate
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import CallModel, Change, Interrupted, Replied, Submitted
from ikigai.core.state.memory import next_request
from ikigai.providers.local.model_server import LocalServer
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conformance import PICTURE, TOOLS, Talk
from tests.providers.conftest import ask, collect, reply
from tests.providers.formats import FORMATS
from tests.support.local_weights import smol_weights

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")

SPOKEN = ("messages", "responses", "chat")
EACH = [*(pytest.param(name, marks=pytest.mark.long) for name in SPOKEN[:2]), "chat"]
"""The program speaks Chat Completions to it; one conversation goes over all of them in each run."""
CONTEXT = 2048
DEADLINE = 30  # seconds; reached only by what would never end


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    server = LocalServer.start(smol_weights(), context=CONTEXT)
    yield server
    server.close()


@pytest.fixture
async def adapters(server: LocalServer) -> AsyncIterator[dict[str, Any]]:
    """By format, each as a provider of that name."""
    made = {}
    for name in SPOKEN:
        form = FORMATS[name]
        api = {"api": form.api} if form.make is OpenAIProvider else {}
        traits = ModelTraits("adaptive" if name == "messages" else "effort", ("off", "low"), images=False)
        made[name] = form.make(name, server.base_url, server.api_key, traits=lambda _, t=traits: t, **api)
    yield made
    for provider in made.values():
        await provider.close()


def talk_with(adapters: dict[str, Any], server: LocalServer, name: str) -> Talk:
    def encoder(model: str) -> Any:
        provider, _, model = model.partition("/")
        return adapters[provider].encoder(model)

    settings = {"model": f"{name}/{server.name}", "system": "You answer briefly.", "budget": 100_000}
    return Talk(RunConfig(settings, lambda _: ModelLimits(CONTEXT, 24), encoder))


async def with_input(provider: Any, sent: Request, least: int = 0) -> tuple[list[Any], StreamFinished]:
    """Ask the model; the same again where llama.cpp leaves out `message_start`, which tells the tokens of the input.
    It does so for replies that begin with a character of several tokens, an emoji, and as good as never twice.
    The same holds for a reply of fewer pieces: the model draws its words by lot, and may have none.
    """
    for _ in range(20):
        found = await collect(provider, sent)
        ended = found[-1]
        assert isinstance(ended, StreamFinished), ended
        pieces = [event for event in found if isinstance(event, TextDelta)]
        if (ended.usage.input or provider.name != "messages") and len(pieces) >= least:
            break
    return found, ended


async def with_words(provider: Any, sent: Request) -> list[Any]:
    """Ask the model; the same again while it says nothing."""
    for _ in range(20):
        found = await collect(provider, sent)
        assert isinstance(found[-1], StreamFinished), found
        if reply(found).blocks():
            break
    return found


async def answered(talk: Talk, adapters: dict[str, Any]) -> tuple[str, UsageReported]:
    """Ask the model; gives back what it said and what that took."""
    sent = next_request(talk.memory)
    found, ended = await with_input(adapters[talk.memory.provider], sent, least=2)
    assert ended.stop in (StopReason.END, StopReason.LENGTH)
    usage = UsageReported(talk.memory.model, ended.usage, size=talk.memory.size)
    events = talk.happen(Replied(talk.job(CallModel), reply(found).blocks(), ended.stop, usage))
    assert len([event for event in found if isinstance(event, TextDelta)]) > 1, "it is streamed"
    return "".join(event.text for event in events if isinstance(event, AssistantMessage)), usage


@pytest.mark.parametrize("name", EACH)
async def test_several_turns(adapters: dict[str, Any], server: LocalServer, name: str):
    talk, inputs = talk_with(adapters, server, name), list[int]()
    for question in ("Say hello to all of us.", "What is the capital of France?", "Tell me more about it."):
        talk.happen(Submitted(question))
        text, report = await answered(talk, adapters)
        assert text.strip()
        assert 1 < report.usage.output <= 24
        assert 0 <= report.usage.cached < report.usage.input
        inputs.append(report.usage.input)
    assert 15 < inputs[0] < inputs[1] < inputs[2]
    assert report.usage.cached > inputs[1] // 2, "what was sent before is known to it"


async def test_one_conversation_over_all_of_them(adapters: dict[str, Any], server: LocalServer):
    """One history costs the same tokens in every format."""
    talk, costs = talk_with(adapters, server, SPOKEN[0]), {}
    for name in SPOKEN:
        if talk.memory.provider != name:
            talk.happen(Change({"model": f"{name}/{server.name}"}))
        talk.happen(Submitted(f"I am asking by {name}."))
        for other in SPOKEN:
            sent = next_request(talk.memory)
            one = Request(sent.model, sent.messages, sent.system, max_output=1)
            _, ended = await with_input(adapters[other], one)
            costs.setdefault(name, set()).add(ended.usage.input)
        await answered(talk, adapters)
    assert all(len(inputs) == 1 for inputs in costs.values()), costs
    assert len(talk.memory.window.turns) == len(SPOKEN)


HISTORY = (
    Message(Role.USER, (PICTURE, Text("List it."))),
    Message(
        Role.ASSISTANT,
        (
            Thinking("a", "c2ln", "anthropic/claude-sonnet-5-5"),
            Thinking("b", "c2ln", "google/gemini-3.8-flash"),
            Text("I look."),
            ToolCall("call:1|é", "ls", '{"path": "."}'),
            ToolCall("x" * 90, "cat"),
        ),
    ),
    Message(Role.TOOL, (ToolResult("call:1|é", "a.txt", name="ls"), ToolResult("x" * 90, "no", True, "cat"))),
    Message(Role.ASSISTANT, (Text("One file."),)),
    Message(Role.USER, (Text("And then?"),)),
)
"""Everything that a history can hold, made by everybody else."""


@pytest.mark.parametrize("name", EACH)
async def test_history_of_everybodys_and_every_level(adapters: dict[str, Any], server: LocalServer, name: str):
    for level in ("", "off", "low"):
        request = Request(server.name, HISTORY, "Be brief.", TOOLS, level, 8)
        assert reply(await with_words(adapters[name], request)).blocks()


@pytest.mark.parametrize("name", EACH)
async def test_reply_that_is_interrupted_ends_there(adapters: dict[str, Any], server: LocalServer, name: str):
    talk = talk_with(adapters, server, name)
    talk.happen(Submitted("Count from 1 to 1000, one number on every line."))
    sent = next_request(talk.memory)
    long = Request(sent.model, sent.messages, sent.system, max_output=1500)
    said, at_work = ReplyBuilder(), False
    for _ in range(20):  # on a busy machine the server may be done before we have read its first words
        said = ReplyBuilder()
        async with aclosing(adapters[name].stream(long)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    said.add(event)
                if len(said.text) > 20:
                    at_work = (await asyncio.to_thread(slot, server))["is_processing"]
                    break
        if at_work:
            break
    assert at_work
    [said_so_far, *_] = talk.happen(Interrupted(said.blocks()))
    assert isinstance(said_so_far, AssistantMessage) and said_so_far.interrupted
    await until(lambda: not slot(server)["is_processing"])
    assert slot(server)["n_prompt_tokens"] < 1000, "it went on without us"
    talk.happen(Submitted("Thank you."))
    assert (await answered(talk, adapters))[0]


def slot(server: LocalServer) -> dict[str, Any]:
    root = server.base_url.removesuffix("v1")
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.get(f"{root}slots", headers=headers, timeout=DEADLINE, trust_env=False).json()[0]


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", EACH)
async def test_what_does_not_fit(adapters: dict[str, Any], name: str):
    [broke] = await collect(adapters[name], ask("hello " * 2 * CONTEXT))
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CONTEXT


@pytest.mark.parametrize("name", SPOKEN)
async def test_wrong_key(adapters: dict[str, Any], server: LocalServer, name: str):
    form = FORMATS[name]
    stranger: Any = form.connect(server.base_url.removesuffix("/v1"), "sk-wrong")
    [broke] = await collect(stranger, ask())
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.AUTH
    await stranger.close()


@pytest.mark.parametrize("name", EACH)
async def test_it_lists_its_model_and_counts_as_it_bills(adapters: dict[str, Any], server: LocalServer, name: str):
    assert [model.id for model in await adapters[name].models()] == [server.name]
    request = ask("Say hello to all of them.", system="Be brief.", max_output=1)
    counted = await adapters[name].count(request)
    events, _ = await with_input(adapters[name], request)
    billed = [event.usage.input for event in events if isinstance(event, UsageUpdate | StreamFinished)]
    assert counted == (None if name == "chat" else billed[-1])


@pytest.mark.parametrize(
    ("words", "max_output"),
    [
        ("Tell me a story about a fox.", 24),
        pytest.param("Tell me a story about a fox.", 80, marks=pytest.mark.long),
        pytest.param("[1 user] What is a fox?\n[2 assistant] An animal.", 80, marks=pytest.mark.long),
    ],
)
async def test_answer_in_a_form(adapters: dict[str, Any], server: LocalServer, words: str, max_output: int):
    """Over Chat Completions llama.cpp holds even a model to it that was asked for something else."""
    done = await complete(
        adapters["chat"],
        f"local/{server.name}",
        "You tell stories.",
        words,
        purpose="matching",
        max_output=max_output,
        schema=ANSWER_SCHEMA,
    )
    assert done.failure is None and done.stop in (StopReason.END, StopReason.LENGTH)  # it may not find an end
    assert re.fullmatch(r'\s*\{\s*("ids"\s*:\s*\[[-\d,\s]*(\]\s*(\}\s*)?)?)?', done.text)
    if done.stop is StopReason.END:
        assert all(isinstance(id, int) for id in json.loads(done.text)["ids"])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SPOKEN if name != "chat"])
async def test_form_is_no_obstacle(adapters: dict[str, Any], server: LocalServer, name: str):
    """Over its other formats llama.cpp does not know it, and answers all the same."""
    assert reply(await with_words(adapters[name], ask("Say hello.", max_output=8, schema=ANSWER_SCHEMA))).blocks()
