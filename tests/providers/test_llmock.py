"""The OpenAI adapter with retries against llmock, which breaks things and grades its clients."""

import json

import pytest

from ikigai.core.messages import ToolCall, ToolSpec
from ikigai.core.reply import Broke, Failure
from ikigai.providers.openai import OpenAIProvider
from ikigai.providers.retry import Retrying
from tests.providers.conftest import ask, collect, reply


@pytest.fixture
async def mocked(llmock):
    provider = OpenAIProvider("openai", llmock.base_url("openai"), "llmock-key")
    yield Retrying(provider, jitter=lambda: 0.1)
    await provider.close()


async def test_llmock_a_reply_and_a_call(mocked: Retrying, llmock):
    llmock.reply("Good morning.").call_tool("ls", {"path": "."})
    assert reply(await collect(mocked)).text == "Good morning."
    tools = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}}}'),)
    [block] = reply(await collect(mocked, ask(tools=tools))).blocks()
    assert isinstance(block, ToolCall)
    assert (block.name, json.loads(block.arguments)) == ("ls", {"path": "."})
    llmock.assert_resilient(strict=True)


async def test_llmock_faults_that_pass(mocked: Retrying, llmock):
    llmock.rate_limit(times=1, retry_after=0.2).fail(503).fail(500).reply("Still here.")
    found = await collect(mocked)
    assert reply(found).text == "Still here."
    assert [event.attempt for event in found if hasattr(event, "attempt")] == [2, 3, 4]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_llmock_faults_that_stay(mocked: Retrying, llmock, status: int):
    llmock.fail(status, times=None)
    [broke] = await collect(mocked)
    assert isinstance(broke, Broke)
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_llmock_context_overflow(mocked: Retrying, llmock):
    llmock.context_overflow()
    [broke] = await collect(mocked)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.CONTEXT


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_before_anything_was_shown(mocked: Retrying, llmock, fault: str):
    getattr(llmock, fault)(after_chunks=1)
    llmock.reply("Second try.", times=None)
    assert reply(await collect(mocked)).text == "Second try."
    assert len(llmock.requests) == 2
    if fault != "corrupt":  # llmock may have sent the rest of that stream before we hang up, and then it blames us
        llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_llmock_a_stream_that_breaks_in_the_middle(mocked: Retrying, llmock, fault: str):
    getattr(llmock, fault)(after_chunks=3)
    llmock.reply("One two three four five.")
    found = await collect(mocked)
    assert isinstance(found[-1], Broke)
    assert found[-1].kind is Failure.CUT
    assert reply(found).text.startswith("One ")
    assert len(llmock.requests) == 1
