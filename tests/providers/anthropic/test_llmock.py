"""The Anthropic adapter with retries against llmock, which breaks things and grades its clients."""

import json

import pytest

from ikigai.core.events.messages import Message, Role, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.retry import RetryingProvider
from tests.providers.conftest import ask, collect, reply

TOOLS = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}}}'),)


@pytest.fixture
async def mocked(llmock):
    provider = AnthropicProvider("anthropic", llmock.base_url("anthropic"), "llmock-key")
    yield RetryingProvider(provider, jitter=lambda: 0.1)
    await provider.close()


async def test_llmock_a_reply_and_a_call(mocked: RetryingProvider, llmock):
    llmock.reply("Good morning.").call_tool("ls", {"path": "."}, text="Looking.").reply("Two files.")
    assert reply(await collect(mocked)).text == "Good morning."
    request = ask(system="Be brief.", tools=TOOLS)
    said, call = reply(await collect(mocked, request)).blocks()
    assert said == Text("Looking.")
    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments)) == ("ls", {"path": "."})
    answers = (Message(Role.ASSISTANT, (said, call)), Message(Role.TOOL, (ToolResult(call.id, "a\nb"),)))
    found = await collect(mocked, Request("test-model", (*request.messages, *answers), "Be brief.", TOOLS))
    assert reply(found).text == "Two files."
    assert isinstance(found[-1], StreamFinished)
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_llmock_a_broken_call(mocked: RetryingProvider, llmock, kind: str):
    llmock.call_tool("ls", {"path": "."}).break_tool_call(kind)
    [call] = reply(await collect(mocked, ask(tools=TOOLS))).blocks()
    assert isinstance(call, ToolCall)
    assert bool(call.malformed) is (kind == "malformed_arguments")
    assert (call.name == "ls") is (kind == "malformed_arguments")
    llmock.assert_resilient(strict=True)


@pytest.mark.long  # the ordinary run does it in one format: how long is waited is no matter of the vendor
async def test_llmock_faults_that_pass(mocked: RetryingProvider, llmock):
    llmock.rate_limit(times=1, retry_after=0.2).fail(529).fail(503).fail(500).reply("Still here.")
    found = await collect(mocked)
    assert reply(found).text == "Still here."
    assert [event.attempt for event in found if hasattr(event, "attempt")] == [2, 3, 4, 5]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_llmock_every_fault_that_passes(mocked: RetryingProvider, llmock, status: int):
    llmock.fail(status).reply("Still here.")
    assert reply(await collect(mocked)).text == "Still here."
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_llmock_faults_that_stay(mocked: RetryingProvider, llmock, status: int):
    llmock.fail(status, times=None)
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_llmock_context_overflow(mocked: RetryingProvider, llmock):
    llmock.context_overflow()
    [broke] = await collect(mocked)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CONTEXT
    llmock.assert_resilient(strict=True)


async def test_llmock_slow_answers(mocked: RetryingProvider, llmock):
    llmock.delay(0.2).slow_first_token(0.2).reply("In the end.")
    assert reply(await collect(mocked)).text == "In the end."
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_llmock_a_stall(llmock):
    provider = AnthropicProvider("anthropic", llmock.base_url("anthropic"), "llmock-key", first=2, idle=30)
    await provider.preload()
    llmock.stall(after_chunks=1, seconds=30).reply("Second try.", times=None)
    assert reply(await collect(RetryingProvider(provider, jitter=lambda: 0.1))).text == "Second try."
    await provider.close()
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_before_anything_was_shown(mocked: RetryingProvider, llmock, fault: str):
    llmock.pace(50)  # else the rest of the stream may be sent before we hang up, and we would be blamed
    getattr(llmock, fault)(after_chunks=1)
    llmock.reply("Second try.", times=None)
    assert reply(await collect(mocked)).text == "Second try."
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_in_the_middle(mocked: RetryingProvider, llmock, fault: str):
    getattr(llmock, fault)(after_chunks=4)  # message_start, content_block_start, ping, the first word
    llmock.reply("One two three four five.")
    found = await collect(mocked)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.CUT
    assert reply(found).text.startswith("One ")
    assert len(llmock.requests) == 1


async def test_llmock_lists_its_models(llmock):
    provider = AnthropicProvider("anthropic", llmock.base_url("anthropic"), "llmock-key")
    assert "claude-opus-4-6" in [model.id for model in await provider.models()]
    assert await provider.count(ask()) is None  # it has no such endpoint
    await provider.close()
