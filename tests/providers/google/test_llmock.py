"""The Google adapter with retries against llmock, which breaks things and grades its clients."""

import json

import pytest

from ikigai.core.events.messages import Message, Role, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, RetryScheduled, StreamFailed, StreamFinished
from ikigai.providers.google.provider import GoogleProvider
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.retry import RetryingProvider
from tests.providers.conftest import ask, collect, reply

TOOLS = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'),)


def made(llmock, **more: float) -> GoogleProvider:
    return GoogleProvider(
        "google", llmock.base_url("gemini"), "llmock-key", traits=lambda model: ModelTraits("level"), **more
    )


@pytest.fixture
async def mocked(llmock):
    provider = made(llmock)
    yield RetryingProvider(provider, jitter=lambda: 0.1)
    await provider.close()


async def test_llmock_a_reply_and_a_call(mocked: RetryingProvider, llmock):
    llmock.reply("Good morning.").call_tool("ls", {"path": "."}).reply("One file.")
    assert reply(await collect(mocked)).text == "Good morning."
    request = ask(tools=TOOLS)
    [block] = reply(await collect(mocked, request)).blocks()
    assert isinstance(block, ToolCall)
    assert (block.name, json.loads(block.arguments)) == ("ls", {"path": "."})
    more = Message(Role.ASSISTANT, (block,)), Message(Role.TOOL, (ToolResult(block.id, "a.txt", name="ls"),))
    assert reply(await collect(mocked, Request("m", (*request.messages, *more), tools=TOOLS))).text == "One file."
    llmock.assert_resilient(strict=True)


@pytest.mark.long  # the ordinary run does it in one format: how long is waited is no matter of the vendor
async def test_llmock_faults_that_pass(mocked: RetryingProvider, llmock):
    llmock.rate_limit(times=1, retry_after=0.2).fail(503).fail(500).fail(408).fail(529).reply("Still here.")
    found = await collect(mocked)
    assert reply(found).text == "Still here."
    assert [event.attempt for event in found if isinstance(event, RetryScheduled)] == [2, 3, 4, 5, 6]
    llmock.assert_resilient(strict=True)


async def test_llmock_real_limits(mocked: RetryingProvider, llmock):
    llmock.limits(context_window=20)
    [broke] = await collect(mocked, ask("many words " * 100))
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CONTEXT
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_llmock_faults_that_stay(mocked: RetryingProvider, llmock, status: int):
    llmock.fail(status, times=None)
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_llmock_an_outage(mocked: RetryingProvider, llmock):
    llmock.fail(503, times=None, retry_after=0.1)
    found = await collect(mocked)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].text.endswith("Stopped after 8 attempts.")
    assert [event.seconds for event in found if isinstance(event, RetryScheduled)] == [0.1] * 7
    llmock.assert_resilient(strict=True)


async def test_llmock_context_overflow(mocked: RetryingProvider, llmock):
    llmock.context_overflow()
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CONTEXT
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_before_anything_was_shown(mocked: RetryingProvider, llmock, fault: str):
    getattr(llmock, fault)(after_chunks=0)
    llmock.reply("Second try.", times=None)
    assert reply(await collect(mocked)).text == "Second try."
    assert len(llmock.requests) == 2
    if fault != "corrupt":  # llmock may have sent the rest of that stream before we hang up, and then it blames us
        llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_in_the_middle(mocked: RetryingProvider, llmock, fault: str):
    getattr(llmock, fault)(after_chunks=2)
    llmock.reply("One two three four five.", times=None)
    found = await collect(mocked)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.CUT
    assert reply(found).text.startswith("One ")
    assert len(llmock.requests) == 1
    assert reply(await collect(mocked)).text == "One two three four five."  # the user sends it again
    if fault != "corrupt":  # as above
        llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("chunks", [0, 2])
async def test_llmock_a_stream_that_stalls(llmock, chunks: int):
    # Only the silence that is meant: what comes before it, and the second try, may be late.
    provider = made(llmock, first=30, idle=0.3) if chunks else made(llmock, first=2, idle=30)
    await provider.preload()
    llmock.stall(after_chunks=chunks, seconds=30).reply("One two three.", times=None)
    found = await collect(RetryingProvider(provider, jitter=lambda: 0.1))
    if chunks:
        assert isinstance(found[-1], StreamFailed)
        assert found[-1].kind is FailureKind.CUT
    else:
        assert reply(found).text == "One two three."
    llmock.assert_resilient(strict=True)
    await provider.close()


async def test_llmock_slow_answers_are_waited_for(mocked: RetryingProvider, llmock):
    llmock.delay(0.5).slow_first_token(0.5).pace(20).reply("One two three.")
    found = await collect(mocked)
    assert isinstance(found[-1], StreamFinished)
    assert reply(found).text == "One two three."
    llmock.assert_resilient(strict=True)


async def test_llmock_a_call_of_a_tool_that_nobody_offered(mocked: RetryingProvider, llmock):
    llmock.break_tool_call("unknown_tool").call_tool("ls", {"path": "."})
    [block] = reply(await collect(mocked, ask(tools=TOOLS))).blocks()
    assert isinstance(block, ToolCall)
    assert block.name not in ("", "ls")
    llmock.assert_resilient(strict=True)


async def test_llmock_models(llmock):
    provider = made(llmock)
    found = {model.id: model for model in await provider.models()}
    assert found["gemini-2.5-pro"].context == 1_048_576
    await provider.close()


async def test_llmock_every_thing_a_request_can_hold_is_taken(mocked: RetryingProvider, llmock):
    llmock.reply("Fine.")
    history = (
        Message(Role.USER, (Text("List."),)),
        Message(Role.ASSISTANT, (Text("I look."), ToolCall("a", "ls", '{"path": "é"}'), ToolCall("b", "ls"))),
        Message(Role.TOOL, (ToolResult("a", "x", name="ls"), ToolResult("b", "no", True, "ls"))),
        Message(Role.ASSISTANT, (Text("Done."),)),
        Message(Role.USER, (Text("Thanks."),)),
    )
    request = Request("m", history, system="Be brief.", tools=TOOLS, level="high", max_output=100)
    assert reply(await collect(mocked, request)).text == "Fine."
    llmock.assert_resilient(strict=True)
