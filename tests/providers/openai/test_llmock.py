"""The OpenAI adapter with retries against llmock, which breaks things and grades its clients, on both endpoints."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ikigai.core.events.messages import StopReason, ToolCall, ToolSpec
from ikigai.core.request.reply import FailureKind, RetryScheduled, StreamFailed, StreamFinished
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from tests.providers.conftest import ask, collect, reply

TOOLS = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'),)


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def mocked(llmock: Any, api: str) -> AsyncIterator[RetryingProvider]:
    provider = OpenAIProvider("openai", llmock.base_url("openai"), "llmock-key", first=30, idle=30, api=api)
    yield RetryingProvider(provider, jitter=lambda: 0.1)
    await provider.close()


@pytest.fixture
async def hasty(llmock: Any, api: str) -> AsyncIterator[RetryingProvider]:
    """One that does not wait long, once something was said."""
    provider = OpenAIProvider("openai", llmock.base_url("openai"), "llmock-key", first=30, idle=0.4, api=api)
    yield RetryingProvider(provider, jitter=lambda: 0.1)
    await provider.close()


async def test_llmock_a_reply_and_a_call(mocked: RetryingProvider, llmock: Any, api: str):
    llmock.reply("Good morning.").call_tool("ls", {"path": "."})
    found = await collect(mocked)
    assert reply(found).text == "Good morning."
    assert isinstance(found[-1], StreamFinished)
    assert found[-1].stop is StopReason.END and found[-1].usage.input > 0 and found[-1].usage.output > 0
    found = await collect(mocked, ask(tools=TOOLS))
    [block] = reply(found).blocks()
    assert isinstance(block, ToolCall)
    assert (block.name, json.loads(block.arguments)) == ("ls", {"path": "."})
    assert isinstance(found[-1], StreamFinished)
    assert found[-1].stop is StopReason.TOOLS
    assert {record.path for record in llmock.requests} == {"/v1/chat/completions" if api == "chat" else "/v1/responses"}
    llmock.assert_resilient(strict=True)


@pytest.mark.ordinary("chat")  # how long is waited is no matter of the vendor
async def test_llmock_faults_that_pass(mocked: RetryingProvider, llmock: Any):
    # Three pauses are ours: of two, one that the machine makes longer is enough to look like no growing ones.
    llmock.rate_limit(times=1, retry_after=0.2).fail(503).fail(500).fail(502).reply("Still here.")
    found = await collect(mocked)
    assert reply(found).text == "Still here."
    assert [event.attempt for event in found if isinstance(event, RetryScheduled)] == [2, 3, 4, 5]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_llmock_every_status_that_passes(mocked: RetryingProvider, llmock: Any, status: int):
    llmock.fail(status).reply("Still here.")
    assert reply(await collect(mocked)).text == "Still here."
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_llmock_faults_that_stay(mocked: RetryingProvider, llmock: Any, status: int):
    llmock.fail(status, times=None)
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@pytest.mark.long  # test_retry shows it with a clock of its own
async def test_llmock_an_outage(llmock: Any):
    llmock.outage()
    provider = OpenAIProvider("openai", llmock.base_url("openai"), "llmock-key")
    broke = (await collect(RetryingProvider(provider, jitter=lambda: 0.01)))[-1]
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, len(llmock.requests)) == (FailureKind.OVERLOADED, 8)
    llmock.assert_resilient()
    await provider.close()


async def test_llmock_context_overflow(mocked: RetryingProvider, llmock: Any):
    llmock.context_overflow()
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CONTEXT
    llmock.assert_resilient(strict=True)


async def test_llmock_its_own_limits(mocked: RetryingProvider, llmock: Any):
    llmock.limits(rpm=120).reply("Here.", times=None)
    for number in range(4):
        assert reply(await collect(mocked, ask(f"question {number}"))).text == "Here."
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["delay", "slow_first_token"])
async def test_llmock_a_slow_beginning(mocked: RetryingProvider, llmock: Any, fault: str):
    getattr(llmock, fault)(1.0)
    llmock.reply("At last.")
    assert reply(await collect(mocked)).text == "At last."
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
@pytest.mark.parametrize("chunks", [0, 1])
async def test_llmock_a_stream_that_breaks_before_anything_was_shown(
    mocked: RetryingProvider, llmock: Any, fault: str, chunks: int
):
    getattr(llmock, fault)(after_chunks=chunks)
    llmock.reply("Second try.", times=None)
    assert reply(await collect(mocked)).text == "Second try."
    assert len(llmock.requests) == 2
    if fault != "corrupt":  # llmock may have sent the rest of that stream before we hang up, and then it blames us
        llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt", "stall"])
async def test_llmock_a_stream_that_breaks_in_the_middle(
    mocked: RetryingProvider, hasty: RetryingProvider, llmock: Any, fault: str, api: str
):
    getattr(llmock, fault)(after_chunks=3 if api == "chat" else 6)
    llmock.reply("One two three four five.", times=None)
    found = await collect(hasty if fault == "stall" else mocked)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.CUT
    assert reply(found).text.startswith("One ")
    assert len(llmock.requests) == 1
    # What was shown stays; whether it is asked again is the user's decision.
    assert reply(await collect(mocked)).text == "One two three four five."
    if fault != "corrupt":
        llmock.assert_resilient(strict=True)


async def test_llmock_a_call_that_breaks_off_is_none(mocked: RetryingProvider, llmock: Any, api: str):
    for fault in ("truncate", "disconnect"):
        for chunks in range(1, 12):
            llmock.reset()
            getattr(llmock, fault)(after_chunks=chunks, times=None)
            llmock.call_tool("ls", {"path": "a long path that takes several pieces"})
            found = []
            async for event in mocked.stream(ask(tools=TOOLS)):
                found.append(event)
                if isinstance(event, RetryScheduled):
                    break
            if isinstance(found[-1], StreamFinished):
                [call] = reply(found).blocks()  # the fault came behind the end
                assert isinstance(call, ToolCall) and json.loads(call.arguments)
            else:
                assert isinstance(found[-1], StreamFailed | RetryScheduled)


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_llmock_calls_that_are_broken(mocked: RetryingProvider, llmock: Any, kind: str):
    llmock.break_tool_call(kind).call_tool("ls", {"path": "."})
    [block] = reply(await collect(mocked, ask(tools=TOOLS))).blocks()
    assert isinstance(block, ToolCall)
    if kind == "malformed_arguments":
        assert (block.name, block.arguments) == ("ls", "{}") and block.malformed
    else:
        assert block.name != "ls"
    llmock.assert_resilient(strict=True)
