"""The token counts and costs of servers with a preset, over HTTP, in the places that their documentation names."""

from typing import Any

import pytest

from ikigai.core.messages import Usage
from ikigai.core.request.reply import StreamFinished
from ikigai.core.vendors import PRESETS
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, collect
from tests.support.wire_server import DONE, Answer, WireServer, chunk, sse

COUNTS = {"prompt_tokens": 5_000, "completion_tokens": 40, "total_tokens": 5_040}
END = {"index": 0, "delta": {}, "finish_reason": "stop"}


def ending(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the chunk with the counts alone, behind the one that ends the reply."""
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}


REPLIES: dict[str, tuple[list[Any], Usage]] = {
    "moonshot": (
        [{**ending({}), "choices": [END | {"usage": COUNTS | {"cached_tokens": 4_096}}]}],
        Usage(5_000, 40, 4_096),
    ),
    "groq": (
        [
            chunk(
                finish="stop", x_groq={"id": "req_1", "usage": COUNTS | {"prompt_tokens_details": {"cached_tokens": 9}}}
            )
        ],
        Usage(5_000, 40, 9),
    ),
    "deepseek": (
        [
            chunk(finish="stop"),
            ending(
                COUNTS
                | {
                    "prompt_cache_hit_tokens": 4_800,
                    "prompt_cache_miss_tokens": 200,
                    "completion_tokens_details": {"reasoning_tokens": 30},
                }
            ),
        ],
        Usage(5_000, 40, 4_800, 30),
    ),
    "openrouter": (
        [
            chunk(finish="stop"),
            ending(
                COUNTS
                | {
                    "cost": 0.0123,
                    "cost_details": {"upstream_inference_cost": None},
                    "prompt_tokens_details": {"cached_tokens": 4_000, "cache_write_tokens": 900},
                    "completion_tokens_details": {"reasoning_tokens": 7},
                }
            ),
        ],
        Usage(5_000, 40, 4_000, 7, 900, cost=0.0123),
    ),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_usage_is_read_as_the_server_tells_it(wire_server: WireServer, name: str):
    chunks, expected = REPLIES[name]
    stream = sse(chunk({"role": "assistant", "content": "Yes."}), *chunks) + DONE
    wire_server.script = [Answer(stream, headers={"Content-Type": "text/event-stream"})]
    provider = OpenAIProvider(name, wire_server.base_url, KEY, preset=PRESETS[name])
    try:
        end = (await collect(provider))[-1]
    finally:
        await provider.close()
    assert isinstance(end, StreamFinished) and end.usage == expected
    assert wire_server.requests[0].json["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("name", ["groq", "deepseek", "moonshot"])
async def test_cost_of_another_server_is_not_taken_for_dollars(wire_server: WireServer, name: str):
    stream = sse(chunk({"content": "Yes."}), chunk(finish="stop", usage=COUNTS | {"cost": 3})) + DONE
    wire_server.script = [Answer(stream, headers={"Content-Type": "text/event-stream"})]
    provider = OpenAIProvider(name, wire_server.base_url, KEY, preset=PRESETS[name])
    try:
        end = (await collect(provider))[-1]
    finally:
        await provider.close()
    assert isinstance(end, StreamFinished) and end.usage.cost is None
