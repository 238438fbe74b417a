"""The token counts and costs of every server with a preset, over HTTP, in the places that its documentation names."""

from typing import Any

import pytest

from ikigai.core.events.messages import Usage
from ikigai.core.request.reply import StreamFinished
from ikigai.core.vendors import PRESETS
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, collect
from tests.support.wire_server import DONE, Answer, WireServer, chunk, sse

STRAY = {"cost": 7.5, "cost_in_usd_ticks": 9_000_000}
"""Fields that say nothing of dollars except in answers of the server itself."""
COUNTS = {"prompt_tokens": 5_000, "completion_tokens": 40, "total_tokens": 5_040} | STRAY
END = {"index": 0, "delta": {}, "finish_reason": "stop"}


def ending(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the chunk with the counts alone, behind the one that ends the reply."""
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}


def with_end(usage: dict[str, Any]) -> list[Any]:
    return [chunk(finish="stop"), ending(COUNTS | usage)]


def of_openrouter(**more: Any) -> list[Any]:
    thinking = {"completion_tokens_details": {"reasoning_tokens": 7}}
    cached = {"prompt_tokens_details": {"cached_tokens": 4_000, "cache_write_tokens": 900}}
    return with_end({"cost_details": {"upstream_inference_cost": 0.25}} | thinking | cached | more)


DETAILS = {"prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 30}}
USUAL = with_end(DETAILS), Usage(5_000, 40, 64, 30)

REPLIES: dict[str, list[tuple[list[Any], Usage]]] = {
    "moonshot": [
        (
            [{**ending({}), "choices": [END | {"usage": COUNTS | {"cached_tokens": 4_096}}]}],
            Usage(5_000, 40, 4_096),
        )
    ],
    "groq": [
        (
            [chunk(finish="stop", x_groq={"id": "r", "usage": COUNTS | DETAILS})],
            Usage(5_000, 40, 64, 30),
        )
    ],
    "deepseek": [
        (
            with_end(
                {
                    "prompt_cache_hit_tokens": 4_800,
                    "prompt_cache_miss_tokens": 200,
                    "completion_tokens_details": {"reasoning_tokens": 30},
                }
            ),
            Usage(5_000, 40, 4_800, 30),
        )
    ],
    "mistral": [
        (with_end({"num_cached_tokens": 64, "prompt_audio_seconds": {}}), Usage(5_000, 40, 64)),
        (with_end({"prompt_tokens_details": {"cached_tokens": 128}}), Usage(5_000, 40, 128)),
    ],
    "together": [(with_end({"cached_tokens": 70}), Usage(5_000, 40, 70))],
    # Thinking is counted besides the reply (docs.x.ai/docs/key-information/consumption-and-rate-limits).
    "xai": [
        (
            with_end(
                {
                    "total_tokens": 5_357,
                    "completion_tokens_details": {"reasoning_tokens": 317},
                    "cost_in_usd_ticks": 37_756_000,
                }
            ),
            Usage(5_000, 357, 0, 317, cost=0.0037756),
        ),
        (with_end(DETAILS | {"cost_in_usd_ticks": None}), Usage(5_000, 40, 64, 30)),
        (with_end({"cost_in_usd_ticks": -1}), Usage(5_000, 40)),
    ],
    # With a key of the user's own, the vendor charges besides (openrouter.ai/docs/use-cases/usage-accounting).
    "openrouter": [
        (of_openrouter(cost=0.0123, is_byok=False), Usage(5_000, 40, 4_000, 7, 900, cost=0.0123)),
        (of_openrouter(cost=0, is_byok=True), Usage(5_000, 40, 4_000, 7, 900, cost=0.25)),
        (of_openrouter(cost=0.5, is_byok=True), Usage(5_000, 40, 4_000, 7, 900, cost=0.75)),
        (of_openrouter(cost=0.01, is_byok=True, cost_details={}), Usage(5_000, 40, 4_000, 7, 900)),
        (of_openrouter(cost=None), Usage(5_000, 40, 4_000, 7, 900)),
    ],
}
"""The chunks behind the text, and what they say. All others have what is usual."""


@pytest.mark.parametrize("name", PRESETS)
async def test_usage_is_read_as_the_server_tells_it(wire_server: WireServer, name: str):
    provider = OpenAIProvider(name, wire_server.base_url, KEY, preset=PRESETS[name])
    try:
        for chunks, expected in REPLIES.get(name, [USUAL]):
            wire_server.script = [Answer(sse(chunk({"role": "assistant", "content": "Yes."}), *chunks) + DONE)]
            end = (await collect(provider))[-1]
            assert isinstance(end, StreamFinished) and end.usage == expected
    finally:
        await provider.close()
