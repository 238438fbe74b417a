"""Every preset of a provider: its key, its address, and a turn with a call at a server with its vendor's quirks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ikigai import config as configuration
from ikigai.app import factories
from ikigai.config import Config
from ikigai.core.errors import IkigaiError
from ikigai.core.messages import Message, Role, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.request.build import Request, join
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, reply_events
from ikigai.core.vendors import PRESETS, VENDORS
from ikigai.providers.failures import ProviderRequestFailed
from tests.providers.conftest import collect, reply
from tests.providers.conftest import wire_server as wire_server
from tests.support.wire_server import DONE, Answer, Received, WireServer, call_delta, chunk, failure, sse

KEY = "sk-canary-0123456789"
JSON = {"Content-Type": "application/json"}
USER = Message(Role.USER, (Text("How many files?"),))
USAGE = {"prompt_tokens": 90, "completion_tokens": 20}


def load(tmp_path: Path, text: str = "", **environ: str) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return configuration.load(file, environ, {})


KEYED = [name for name, preset in PRESETS.items() if preset.key_variables]


def test_presets_are_no_vendors_and_name_their_source():
    assert not PRESETS.keys() & VENDORS.keys()
    assert all(preset.source.startswith("https://") for preset in PRESETS.values())
    variables = [name for preset in PRESETS.values() for name in preset.key_variables]
    assert len(variables) == len(set(variables))


@pytest.mark.parametrize("name", PRESETS)
async def test_preset_is_asked_at_its_address(tmp_path: Path, name: str):
    pool = factories.make_pool(load(tmp_path))
    endpoint = pool._endpoint(name)
    assert endpoint.base_url == PRESETS[name].base_url
    if name in KEYED:
        with pytest.raises(IkigaiError, match=f"There is no key for {name}.*") as refused:
            pool.require(name)
        assert f"ikigai login {name}" in refused.value.remedy
        assert PRESETS[name].key_variables[0] in refused.value.remedy
    else:
        pool.require(name)


@pytest.mark.parametrize("name", KEYED)
def test_key_of_a_preset_comes_from_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    variable = PRESETS[name].key_variables[0]
    monkeypatch.setenv(variable, KEY)
    config = load(tmp_path, **{variable: KEY})
    assert config.keys == {name: f"environment {variable}"}
    pool = factories.make_pool(config)
    pool.require(name)
    assert pool._endpoint(name).key() == KEY
    assert pool.default_model(config.keys) in ("", pool.local_model()), "no model of it is chosen unasked"


@pytest.mark.parametrize("name", PRESETS)
def test_table_of_a_preset_needs_no_address(tmp_path: Path, name: str):
    config = load(tmp_path, f"[providers.{name}]\ncontext = 1000\n")
    assert factories.server_address(config, name) == PRESETS[name].base_url


def thinking(field: str) -> dict[str, Any]:
    if field == "content":
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I look."}]}]}
    if field == "reasoning_details":
        return {"reasoning": "I look.", field: [{"type": "reasoning.text", "text": "I look.", "index": 0}]}
    return {field: "I look."}


def at_end(**more: Any) -> dict[str, Any]:
    return chunk(finish="tool_calls", **more)


def in_choice(usage: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "usage": usage}]}


QUIRKS: dict[str, tuple[str, Callable[[], dict[str, Any]], int, dict[str, Any], dict[str, Any]]] = {
    "deepseek": (
        "reasoning_content",
        lambda: at_end(usage=USAGE | {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 26}),
        64,
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "high"},
    ),
    "mistral": (
        "content",
        lambda: at_end(usage=USAGE),
        0,
        {"reasoning_effort": "none"},
        {"reasoning_effort": "high"},
    ),
    "groq": (
        "reasoning",
        lambda: at_end(x_groq={"usage": USAGE}),
        0,
        {"reasoning_effort": "none"},
        {"reasoning_effort": "high"},
    ),
    "openrouter": (
        "reasoning_details",
        lambda: at_end(usage=USAGE | {"cost": 0.25, "prompt_tokens_details": {"cached_tokens": 8}}),
        8,
        {"reasoning": {"effort": "none"}},
        {"reasoning": {"effort": "high"}},
    ),
    "moonshot": (
        "reasoning_content",
        lambda: in_choice(USAGE | {"cached_tokens": 32}),
        32,
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "high"},
    ),
}
"""Where a server's thinking stands, its last chunk, the cached tokens in that, and how it takes off and high. The
others have what is usual: reasoning_content or reasoning, usage in the last chunk, reasoning_effort.
"""


def quirks(name: str) -> tuple[str, Callable[[], dict[str, Any]], int, dict[str, Any], dict[str, Any]]:
    field = "reasoning" if name in ("ollama", "cerebras", "together") else "reasoning_content"
    usual = {"reasoning_effort": "none"}, {"reasoning_effort": "high"}
    return QUIRKS.get(name) or (field, lambda: at_end(usage=USAGE), 0, *usual)


@pytest.mark.parametrize("name", PRESETS)
async def test_turn_with_a_call_at_a_server_with_the_quirks_of_its_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire_server: WireServer, name: str
):
    field, end, cached, off, high = quirks(name)
    for variable in PRESETS[name].key_variables:
        monkeypatch.setenv(variable, KEY)
    variables = dict.fromkeys(PRESETS[name].key_variables, KEY)
    config = load(tmp_path, f'[providers.{name}]\nbase_url = "{wire_server.base_url}"\n', **variables)
    pool = factories.make_pool(config)
    provider: Any = pool.provider(f"{name}/model-x")
    sent = thinking(field)

    def answer(received: Received) -> Answer:
        said = [one for one in received.json["messages"] if one["role"] == "assistant"]
        if not said:
            call = call_delta(0, id="c", name="ls", arguments="{}")
            return Answer(sse(chunk(sent), chunk({"tool_calls": [call]}), end(), DONE))
        kept = sent[field]
        if said[0].get(field) != kept:
            return failure(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
        return Answer(sse(chunk({"content": "4"}), chunk(finish="stop"), DONE))

    wire_server.answer = answer
    try:
        found = await collect(provider, Request("model-x", (USER,), level="high"))
        ended = found[-1]
        assert isinstance(ended, StreamFinished)
        assert (ended.usage.input, ended.usage.output, ended.usage.cached) == (90, 20, cached)
        assert ended.usage.cost == (0.25 if name == "openrouter" else None)
        assert reply(found).thinking == "I look."
        messages = [USER]
        for event in reply_events(reply(found).blocks(), ended.stop, f"{name}/model-x"):
            join(messages, event)
        join(messages, ToolResult("c", "4 files"))
        request = Request("model-x", tuple(messages), level="off")
        found = await collect(provider, request)
        assert isinstance(found[-1], StreamFinished), found[-1]
    finally:
        await pool.close()
    assert len(wire_server.requests) == 2, "nothing had to be sent twice"
    for received, level in zip(wire_server.requests, (high, off), strict=True):
        body = received.json
        assert {key: body[key] for key in ("reasoning_effort", "reasoning", "thinking") if key in body} == level
        assert received.path == "/v1/chat/completions"
        if name in KEYED:
            assert received.headers["authorization"] == f"Bearer {KEY}"
    encoder: Any = pool.encoder(f"{name}/model-x")
    assert encoder.body(request) == wire_server.requests[-1].body, "measured as it is sent"


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.keeps_thinking])
async def test_calls_of_other_models_get_empty_thinking_at_once(tmp_path: Path, wire_server: WireServer, name: str):
    config = load(tmp_path, f'[providers.{name}]\nbase_url = "{wire_server.base_url}"\n')
    pool = factories.make_pool(config)
    body = json.loads(pool.encoder(f"{name}/model-x").body(Request("model-x", foreign())))  # type: ignore[attr-defined]
    assert body["messages"][1]["reasoning_content"] == ""
    await pool.close()


def foreign() -> tuple[Message, ...]:
    said = Message(Role.ASSISTANT, (Thinking("hm", "sig", "anthropic/claude-x"), ToolCall("c", "ls")))
    return (USER, said, Message(Role.TOOL, (ToolResult("c", "4 files", name="ls"),)))


async def test_models_of_github_stand_in_its_catalog(tmp_path: Path, wire_server: WireServer):
    """docs.github.com/en/rest/models/catalog."""
    limits = {"max_input_tokens": 1_048_576, "max_output_tokens": 32_768}
    entry = {"id": "openai/gpt-4.1", "limits": limits, "supported_input_modalities": ["text", "image"]}
    blind = {"id": "meta/llama", "limits": {}, "supported_input_modalities": ["text"]}
    wire_server.script = [Answer(json.dumps([entry, blind]).encode(), headers=JSON)]
    root = wire_server.base_url.removesuffix("/v1")
    pool = factories.make_pool(load(tmp_path, f'[providers.github]\nbase_url = "{root}/inference"\n'))
    found = await pool.listed("github", KEY)
    [request] = wire_server.requests
    assert request.path == "/catalog/models" and request.headers["authorization"] == f"Bearer {KEY}"
    assert [(each.id, each.context, each.max_output, each.images) for each in found] == [
        ("openai/gpt-4.1", 1_048_576, 32_768, True),
        ("meta/llama", 0, 0, False),
    ]


async def test_key_of_openrouter_is_tried_where_it_counts(tmp_path: Path, wire_server: WireServer):
    """Its list of models is public: it says nothing of the key."""
    listed = Answer(b'{"data": [{"id": "x/y"}]}', headers=JSON)
    wire_server.answer = lambda received: listed if received.path == "/v1/models" else failure(401, "User not found.")
    pool = factories.make_pool(load(tmp_path, f'[providers.openrouter]\nbase_url = "{wire_server.base_url}"\n'))
    with pytest.raises(ProviderRequestFailed, match="did not accept the key") as refused:
        await pool.listed("openrouter", KEY)
    assert refused.value.kind is FailureKind.AUTH
    wire_server.answer = lambda received: listed
    assert [model.id for model in await pool.listed("openrouter", KEY)] == ["x/y"]
    assert [request.path for request in wire_server.requests] == ["/v1/key", "/v1/key", "/v1/models"]


PRICED = {
    "deepseek": "deepseek-chat",
    "mistral": "mistral-large-latest",
    "xai": "grok-4",
    "groq": "openai/gpt-oss-120b",
    "openrouter": "openai/gpt-5",
    "moonshot": "kimi-k2-0905-preview",
    "cerebras": "gpt-oss-120b",
    "together": "MiniMaxAI/MiniMax-M3",
    "fireworks": "accounts/fireworks/models/deepseek-v4-pro",
}
"""A model of each preset with a price list; GitHub's is free, and those without a key run on this machine."""


@pytest.mark.parametrize("name", KEYED)
def test_requests_to_a_preset_are_priced(tmp_path: Path, name: str):
    price = factories.make_price(load(tmp_path))
    cost, source = price(f"{name}/{PRICED.get(name, 'openai/gpt-4.1')}", Usage(1_000, 100), 1_795_000_000.0)
    assert (cost is not None and cost > 0 and source.startswith("genai-prices")) is (name in PRICED)
    moved = load(tmp_path, f'[providers.{name}]\nbase_url = "https://elsewhere.example/v1"\n')
    assert factories.make_price(moved)(f"{name}/{PRICED.get(name, 'x')}", Usage(1_000, 100), 0)[0] is None


async def test_failure_names_the_preset(tmp_path: Path, wire_server: WireServer):
    wire_server.script = [failure(401, "no")]
    config = load(tmp_path, f'[providers.xai]\nbase_url = "{wire_server.base_url}"\n')
    pool = factories.make_pool(config)
    [failed] = await collect(pool.provider("xai/grok"), Request("grok", (USER,)))
    assert isinstance(failed, StreamFailed) and "ikigai login xai" in failed.remedy
    await pool.close()
