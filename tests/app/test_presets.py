"""Every preset of a provider: its key, its address, and a turn with a call at a server with its vendor's quirks."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from ikigai import config as configuration
from ikigai.app.run import factories
from ikigai.config import Config
from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Message, Role, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.request.build import Request, join
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, reply_events
from ikigai.core.vendors import PRESETS, VENDORS
from ikigai.providers.http.failures import ProviderRequestFailed
from tests.providers.conftest import collect, reply
from tests.providers.conftest import wire_server as wire_server
from tests.support.vendor_proxy import VendorProxy, host_of
from tests.support.wire_server import DONE, Answer, Received, WireServer, call_delta, chunk, completion, failure, sse

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
    assert {*SITES, *LOCAL_ADDRESSES} == PRESETS.keys()


class VendorSite(NamedTuple):
    """A vendor's server: the usual variable of its key, where it is asked, and what `ikigai login` asks it."""

    variable: str
    chat: str
    listing: tuple[str, ...]


SITES = {
    "deepseek": VendorSite(
        "DEEPSEEK_API_KEY", "https://api.deepseek.com/chat/completions", ("https://api.deepseek.com/models",)
    ),
    "mistral": VendorSite(
        "MISTRAL_API_KEY", "https://api.mistral.ai/v1/chat/completions", ("https://api.mistral.ai/v1/models",)
    ),
    "xai": VendorSite("XAI_API_KEY", "https://api.x.ai/v1/chat/completions", ("https://api.x.ai/v1/models",)),
    "groq": VendorSite(
        "GROQ_API_KEY", "https://api.groq.com/openai/v1/chat/completions", ("https://api.groq.com/openai/v1/models",)
    ),
    "openrouter": VendorSite(  # its list is public, and says nothing of the key
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/api/v1/chat/completions",
        ("https://openrouter.ai/api/v1/key", "https://openrouter.ai/api/v1/models"),
    ),
    "moonshot": VendorSite(
        "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1/chat/completions", ("https://api.moonshot.ai/v1/models",)
    ),
    "cerebras": VendorSite(
        "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1/chat/completions", ("https://api.cerebras.ai/v1/models",)
    ),
    "together": VendorSite(
        "TOGETHER_API_KEY", "https://api.together.ai/v1/chat/completions", ("https://api.together.ai/v1/models",)
    ),
    "fireworks": VendorSite(
        "FIREWORKS_API_KEY",
        "https://api.fireworks.ai/inference/v1/chat/completions",
        ("https://api.fireworks.ai/inference/v1/models",),
    ),
    "github": VendorSite(
        "GITHUB_TOKEN",
        "https://models.github.ai/inference/chat/completions",
        ("https://models.github.ai/catalog/models",),
    ),
}
LOCAL_ADDRESSES = {
    "ollama": "http://localhost:11434/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
    "llamacpp": "http://localhost:8080/v1",
}
"""The usual addresses of servers without a key. A test that listened there would meet this machine's servers."""


@pytest.mark.parametrize("name", SITES)
async def test_vendor_is_asked_at_its_address_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    """All vendors' keys are set, and each server knows its own key alone."""
    site = SITES[name]
    keys = {each.variable: f"key-of-{other}" for other, each in SITES.items()}
    listed = Answer(b'{"data": [{"id": "x/y"}]}', headers=JSON)
    catalog = Answer(b'[{"id": "x/y", "limits": {}}]', headers=JSON)

    def answer(received: Received) -> Answer:
        if received.headers.get("authorization") != f"Bearer key-of-{name}":
            return failure(401, "Another vendor's key.")
        url = f"https://{host_of(received)}{received.path}"
        if url == site.chat:
            return completion("Hi")
        return failure(404, "Nothing is here.") if url not in site.listing else catalog if name == "github" else listed

    async with VendorProxy(tmp_path, [str(urlsplit(each.chat).hostname) for each in SITES.values()]) as proxy:
        proxy.answer = answer
        proxy.use(monkeypatch)
        for variable, key in keys.items():
            monkeypatch.setenv(variable, key)
        config = load(tmp_path, **keys)
        assert config.keys == {other: f"environment {each.variable}" for other, each in SITES.items()}
        pool = factories.make_pool(config)
        try:
            assert pool.default_model(config.keys) in ("", pool.local_model()), "no model of it is chosen unasked"
            pool.require(name)
            assert reply(await collect(pool.provider(f"{name}/model-x"), Request("model-x", (USER,)))).text == "Hi"
            assert [model.id for model in await pool.listed(name)] == ["x/y"]
        finally:
            await pool.close()
    asked = [f"https://{host_of(received)}{received.path}" for received in proxy.requests]
    assert asked == [site.chat, *site.listing]


@pytest.mark.parametrize("name", PRESETS)
def test_preset_without_its_key_is_refused_and_a_local_one_needs_none(tmp_path: Path, name: str):
    config = load(tmp_path, f"[providers.{name}]\ncontext = 1000\n")
    pool = factories.make_pool(config)
    if name in LOCAL_ADDRESSES:
        assert factories.server_address(config, name) == LOCAL_ADDRESSES[name]
        pool.require(name)
        return
    with pytest.raises(IkigaiError, match=f"There is no key for {name}.*") as refused:
        pool.require(name)
    assert f"ikigai login {name}" in refused.value.remedy and SITES[name].variable in refused.value.remedy


def thinking(field: str) -> dict[str, Any]:
    if field == "content":
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I look."}]}]}
    if field == "reasoning_details":
        return {"reasoning": "I look.", field: [{"type": "reasoning.text", "text": "I look.", "index": 0}]}
    return {field: "I look."}


def effort(name: str) -> dict[str, str]:
    return {"reasoning_effort": name}


USUAL_LEVELS = effort("high"), effort("none"), effort("low")
SWITCHED_LEVELS = effort("high"), {"thinking": {"type": "disabled"}}, effort("low")


class Quirks(NamedTuple):
    """Where a server's thinking stands, and how it takes the levels high, off and low.

    It `wants_thinking` with every call, or `own_forms` of calls: ids of nine letters, and a reply behind results.
    """

    thinking: str = "reasoning_content"
    levels: tuple[dict[str, Any], ...] = USUAL_LEVELS
    wants_thinking: bool = False
    own_forms: bool = False


QUIRKS = {
    "deepseek": Quirks(levels=SWITCHED_LEVELS, wants_thinking=True),
    "mistral": Quirks("content", (effort("high"), effort("none"), effort("high")), own_forms=True),
    "groq": Quirks("reasoning"),
    "openrouter": Quirks(
        "reasoning_details", tuple({"reasoning": {"effort": name}} for name in ("high", "none", "low"))
    ),
    "moonshot": Quirks(levels=SWITCHED_LEVELS, wants_thinking=True),
    "cerebras": Quirks("reasoning"),
    "together": Quirks("reasoning"),
    "ollama": Quirks("reasoning"),
}
"""The others have what is usual."""


def expected_messages(quirks: Quirks, id: str) -> list[dict[str, Any]]:
    """Return `foreign` and two messages of the user as a server with these quirks takes them; `id` is the call's."""
    call = {"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    wanted = {"reasoning_content": ""} if quirks.wants_thinking else {}
    bridge = [{"role": "assistant", "content": "[empty]"}] if quirks.own_forms else []
    return [
        {"role": "user", "content": "How many files?"},
        {"role": "assistant", "content": None, "tool_calls": [call]} | wanted,
        {"role": "tool", "tool_call_id": id, "content": "4 files"},
        *bridge,
        {"role": "user", "content": "How many files?"},
        {"role": "user", "content": "How many files?"},
    ]


@pytest.mark.parametrize("name", PRESETS)
async def test_turn_with_a_call_at_a_server_with_the_quirks_of_its_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire_server: WireServer, name: str
):
    quirks = QUIRKS.get(name, Quirks())
    variables = dict.fromkeys(PRESETS[name].key_variables, KEY)
    for variable in variables:
        monkeypatch.setenv(variable, KEY)
    config = load(tmp_path, f'[providers.{name}]\nbase_url = "{wire_server.base_url}"\n', **variables)
    pool = factories.make_pool(config)
    provider: Any = pool.provider(f"{name}/model-x")
    sent = thinking(quirks.thinking)

    def answer(received: Received) -> Answer:
        said = [one for one in received.json["messages"] if one["role"] == "assistant"]
        if not said:
            call = call_delta(0, id="callsNine", name="ls", arguments="{}")
            end = chunk(finish="tool_calls", usage=USAGE)
            return Answer(sse(chunk(sent), chunk({"tool_calls": [call]}), end, DONE))
        if received is wire_server.requests[1] and said[0].get(quirks.thinking) != sent[quirks.thinking]:
            return failure(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
        return Answer(sse(chunk({"content": "4"}), chunk(finish="stop"), DONE))

    wire_server.answer = answer
    try:
        found = await collect(provider, Request("model-x", (USER,), level="high"))
        ended = found[-1]
        assert isinstance(ended, StreamFinished) and reply(found).thinking == "I look."
        messages = [USER]
        for event in reply_events(reply(found).blocks(), ended.stop, f"{name}/model-x"):
            join(messages, event)
        join(messages, ToolResult("callsNine", "4 files"))
        request = Request("model-x", tuple(messages), level="off")
        interrupted = Request("model-x", (*foreign(), USER, USER), level="low", max_output=100)
        encoder: Any = pool.encoder(f"{name}/model-x")
        for each in (request, interrupted):
            found = await collect(provider, each)
            assert isinstance(found[-1], StreamFinished), found[-1]
            assert encoder.body(each) == wire_server.requests[-1].body, "measured as it is sent"
    finally:
        await pool.close()
    assert len(wire_server.requests) == 3, "nothing had to be sent twice"
    for received, level in zip(wire_server.requests, quirks.levels, strict=True):
        body = received.json
        assert {key: body[key] for key in ("reasoning_effort", "reasoning", "thinking") if key in body} == level
        assert received.path == "/v1/chat/completions"
        assert received.headers["authorization"] == f"Bearer {KEY if name in KEYED else 'none'}"
    body = wire_server.requests[-1].json
    id = body["messages"][2]["tool_call_id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", id) if quirks.own_forms else id == "c"
    assert body["messages"] == expected_messages(quirks, id)
    assert body["max_tokens"] == 100 and "max_completion_tokens" not in body


def foreign() -> tuple[Message, ...]:
    said = Message(Role.ASSISTANT, (Thinking("hm", "sig", "anthropic/claude-x"), ToolCall("c", "ls")))
    return (USER, said, Message(Role.TOOL, (ToolResult("c", "4 files", name="ls"),)))


@pytest.mark.parametrize("name", LOCAL_ADDRESSES)
async def test_models_behind_a_key_on_this_machine_stand_at_the_usual_path(
    tmp_path: Path, wire_server: WireServer, name: str
):
    """`ikigai login ollama`, say, for a server behind a gateway."""
    wire_server.script = [Answer(b'{"data": [{"id": "x"}]}', headers=JSON)]
    pool = factories.make_pool(load(tmp_path, f'[providers.{name}]\nbase_url = "{wire_server.base_url}"\n'))
    assert [model.id for model in await pool.listed(name, KEY)] == ["x"]
    [request] = wire_server.requests
    assert request.path == "/v1/models" and request.headers["authorization"] == f"Bearer {KEY}"


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
    "deepseek": ("deepseek", "deepseek-chat"),
    "mistral": ("mistral", "mistral-large-latest"),
    "xai": ("x-ai", "grok-4"),
    "groq": ("groq", "openai/gpt-oss-120b"),
    "openrouter": ("openrouter", "openai/gpt-5"),
    "moonshot": ("moonshotai", "kimi-k2-0905-preview"),
    "cerebras": ("cerebras", "gpt-oss-120b"),
    "together": ("together", "MiniMaxAI/MiniMax-M3"),
    "fireworks": ("fireworks", "accounts/fireworks/models/deepseek-v4-pro"),
}
"""The price list of each preset in genai-prices, and a model in it. GitHub's is free, and those without a key run on
this machine.
"""


def seller_at(address: str) -> str:
    """Return the price list of an address; "" if genai-prices knows none."""
    try:
        return get_snapshot().find_provider(None, None, address).id
    except LookupError:
        return ""


@pytest.mark.parametrize("name", PRESETS)
def test_requests_to_a_preset_are_priced(tmp_path: Path, name: str):
    at = 1_795_000_000.0
    book, model = PRICED.get(name, ("", "openai/gpt-4.1"))
    cost, source = factories.make_price(load(tmp_path))(f"{name}/{model}", Usage(1_000_000, 100_000, 400_000), at)
    if book:
        usage = genai_prices.Usage(input_tokens=1_000_000, cache_read_tokens=400_000, output_tokens=100_000)
        day = datetime.fromtimestamp(at, UTC)
        listed = genai_prices.calc_price(usage, model, provider_id=book, genai_request_timestamp=day)
        assert cost == pytest.approx(float(listed.total_price), abs=1e-9) and cost > 0
        assert (PRESETS[name].prices or seller_at(PRESETS[name].base_url)) == book, "others may have its models, too"
    else:
        assert not PRESETS[name].prices
    assert source.startswith("genai-prices") is bool(book) is (cost is not None)
    moved = load(tmp_path, f'[providers.{name}]\nbase_url = "https://elsewhere.example/v1"\n')
    assert factories.make_price(moved)(f"{name}/{model}", Usage(1_000, 100), 0)[0] is None


async def test_failure_names_the_preset(tmp_path: Path, wire_server: WireServer):
    wire_server.script = [failure(401, "no")]
    config = load(tmp_path, f'[providers.xai]\nbase_url = "{wire_server.base_url}"\n')
    pool = factories.make_pool(config)
    [failed] = await collect(pool.provider("xai/grok"), Request("grok", (USER,)))
    assert isinstance(failed, StreamFailed) and "ikigai login xai" in failed.remedy
    assert len(wire_server.requests) == 1, "a server of one's own is asked without a key"
    await pool.close()
