"""The OpenAI adapter with Responses over real HTTP: requests byte for byte, whole replies, streams that break; what a
request is refused for and can do without; counting and listing."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import TypeAdapter

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Image, Message, Role, Text, Thinking, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta
from ikigai.core.tools.vendor_search import VENDOR_SEARCH_SPEC
from ikigai.providers.models.models import ListedModel, ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, ask, collect, measured, reply
from tests.providers.openai.test_responses_api import ENDS, SIGNATURE, STREAMS, THINKS, VENDOR
from tests.providers.requests import histories, requests
from tests.support.examples import examples
from tests.support.wire_server import DONE, Answer, WireServer, completion, failure, sse

WORDS = (STREAMS / "text.sse").read_bytes()
CALLS = (STREAMS / "reasoning_and_calls.sse").read_bytes()


@pytest.fixture
async def responses(wire_server: WireServer) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider("openai", wire_server.base_url, KEY, api="responses", traits=lambda _: THINKS)
    yield provider
    await provider.close()


# ── requests ──


async def test_body_on_the_wire_is_as_long_as_the_encoder_says(responses: OpenAIProvider, wire_server: WireServer):
    loop = asyncio.get_running_loop()
    encoder = responses.encoder("test-model")

    @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def check(request: Request):
        wire_server.script = [Answer(WORDS)]
        asyncio.run_coroutine_threadsafe(collect(responses, request), loop).result()
        body = wire_server.requests[-1].body
        assert measured(encoder, request) == len(body)
        assert body == encoder.body(request)

    await asyncio.to_thread(check)


async def test_address_and_headers(responses: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [Answer(WORDS)]
    await collect(responses)
    [request] = wire_server.requests
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("address", "api", "format"),
    [
        ("", "", "input"),
        ("https://eu.api.openai.com/v1", "", "input"),
        ("http://localhost:8080/v1", "", "messages"),
        ("https://mine.openai.azure.com/openai/v1", "", "messages"),
        ("", "chat", "messages"),
        ("http://localhost:8080/v1", "responses", "input"),
    ],
)
def test_which_format_is_spoken(address: str, api: str, format: str):
    provider = OpenAIProvider("openai", address, KEY, api=api)
    assert format in json.loads(provider.encoder("m").body(ask()))
    assert provider.encoder("m") is provider.encoder("m")


TALK = (
    Message(Role.USER, (Image("image/png", "aGk=", 64, 32), Text("List it."))),
    Message(Role.ASSISTANT, (Thinking("a", SIGNATURE, VENDOR), Text("I look."), ToolCall("c1", "ls"))),
    Message(Role.TOOL, (ToolResult("c1", "a"),)),
    Message(Role.ASSISTANT, (Text("Done."),)),
    Message(Role.USER, (Text("More."),)),
)
TOOLS = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}}}'),)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_two_requests_share_everything_up_to_the_first_new_message(wire_server: WireServer, api: str):
    provider = OpenAIProvider("openai", wire_server.base_url, KEY, api=api, traits=lambda _: THINKS)
    answer = Answer(WORDS) if api == "responses" else completion("Hi")
    wire_server.script = [answer] * len(TALK)
    for upto in range(1, len(TALK) + 1):
        await collect(provider, Request("gpt-x", TALK[:upto], "Be brief.", TOOLS, "high", 100))
    bodies = [request.body for request in wire_server.requests]
    for before, after in zip(bodies, bodies[1:], strict=False):
        assert after.startswith(before.removesuffix(b"]}") + b",")
    await provider.close()


def exhausted(value: Any) -> Any:
    """Return the value with every lazily validated list read to its end."""
    if isinstance(value, dict):
        return {key: exhausted(inner) for key, inner in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    return [exhausted(inner) for inner in value]


def orphans(calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of ("call" | "result", id) in order: what has no other half, results having to come behind all calls before."""
    wrong, waiting = [], []
    for at, (kind, id) in enumerate(calls):
        if kind == "call":
            if waiting and calls[at - 1][0] == "result":
                wrong += [("call", id) for id in waiting]
                waiting = []
            waiting.append(id)
        elif id in waiting:
            waiting.remove(id)
        else:
            wrong.append((kind, id))
    return wrong + [("call", id) for id in waiting]


@settings(max_examples=examples(30), deadline=None)
@given(requests, histories)
def test_any_history_makes_a_request_of_the_sdks_types(request_: Request, messages: tuple[Message, ...]):
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    request_ = Request("m", messages, request_.system, request_.tools, request_.level, request_.max_output)
    for api, params in ("responses", ResponseCreateParamsStreaming), ("chat", CompletionCreateParamsStreaming):
        adapter = ADAPTERS.setdefault(api, TypeAdapter(params)) if api not in ADAPTERS else ADAPTERS[api]
        for traits in THINKS, ModelTraits(images=False):
            body = json.loads(
                OpenAIProvider("openai", "", KEY, api=api, traits=lambda _, t=traits: t).encoder("m").body(request_)
            )
            if api == "chat":
                body.pop("max_completion_tokens", None)
            assert exhausted(adapter.validate_python(body)) == body
            found = _chat(body) if api == "chat" else _responses(body)
            assert orphans(found) == []


ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _responses(body: dict[str, Any]) -> list[tuple[str, str]]:
    kinds = {"function_call": "call", "function_call_output": "result"}
    assert body["input"]
    for before, after in zip(body["input"], [*body["input"][1:], {"type": "end"}], strict=True):
        if before["type"] == "reasoning":
            assert after["type"] in ("reasoning", "function_call") or after.get("role") == "assistant"
    return [(kinds[item["type"]], item["call_id"]) for item in body["input"] if item["type"] in kinds]


def _chat(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for message in body["messages"]:
        assert message["content"] or message.get("tool_calls")
        found += [("call", call["id"]) for call in message.get("tool_calls", [])]
        found += [("result", message["tool_call_id"])] if message["role"] == "tool" else []
    return found


def test_golden_streams_are_of_the_sdks_types():
    from openai.types.responses import ResponseStreamEvent

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for file in STREAMS.iterdir():
        events = [json.loads(line[6:]) for line in file.read_text().splitlines() if line.startswith("data: ")]
        assert len(events) > 2
        for event in events:
            assert adapter.validate_python(event).type == event["type"]


# ── replies ──


@pytest.mark.parametrize("name", ENDS)
async def test_reply(responses: OpenAIProvider, wire_server: WireServer, name: str):
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "X-Request-Id": "req_1"}
    wire_server.script = [Answer((STREAMS / f"{name}.sse").read_bytes(), headers=headers)]
    found = await collect(responses, ask_as("gpt-x"))
    blocks, end = ENDS[name]
    assert reply(found).blocks() == blocks
    assert found[-1] == StreamFinished(end.stop, end.usage, "req_1")


def ask_as(model: str) -> Request:
    return Request(model, ask().messages)


@pytest.mark.parametrize("step", [131, pytest.param(1, marks=pytest.mark.long, id="every")])
@pytest.mark.parametrize("end", ["clean", "reset"])
async def test_cut_anywhere(responses: OpenAIProvider, wire_server: WireServer, end: str, step: int):
    """At sampled bytes, and at every one around the end."""
    whole = len(CALLS)
    last = CALLS.rindex(b"event: response.completed")
    for cut in [
        *range(0, last, step),
        *range(last - 12, last + 30),
        *range(last, whole, step),
        *range(whole - 12, whole),
    ]:
        wire_server.script = [Answer(CALLS, cut=cut, end=end)]
        found = await collect(responses, ask_as("gpt-x"))
        if isinstance(found[-1], StreamFailed):
            assert found[-1].kind is FailureKind.CUT
            assert cut < whole
        else:
            assert cut >= whole - 2, f"finished after {cut} bytes of {whole}"
            assert reply(found).blocks() == ENDS["reasoning_and_calls"][0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        DONE,
        WORDS[: WORDS.rindex(b"event: response.completed")] + DONE,
        WORDS[: WORDS.rindex(b"event: response.completed")] + b"data: {not json}\n\n",
        WORDS[: WORDS.rindex(b"event: response.completed")] + b'data: "\xff\xfe"\n\n',
        WORDS[: WORDS.rindex(b"event: response.completed")] + b"data: " + b"[" * 100_000 + b"\n\n",
        b"<html>hello</html>",
    ],
)
async def test_stream_without_its_end_marker_is_cut(responses: OpenAIProvider, wire_server: WireServer, body: bytes):
    wire_server.script = [Answer(body)]
    found = await collect(responses)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.CUT


async def test_what_is_no_event_is_passed_over(responses: OpenAIProvider, wire_server: WireServer):
    odd = b": ping\n\nevent: keepalive\r\ndata: {}\r\n\r\ndata: 7\n\ndata: [1]\n\ndata: null\n\n"
    wire_server.script = [Answer(odd + WORDS + odd + WORDS)]
    found = await collect(responses, ask_as("gpt-x"))
    assert reply(found).blocks() == ENDS["text"][0]
    assert isinstance(found[-1], StreamFinished)


async def test_ten_megabytes_in_one_line(responses: OpenAIProvider, wire_server: WireServer):
    text = "x" * 10_000_000
    events = sse({"type": "response.output_text.delta", "delta": text}, {"type": "response.completed", "response": {}})
    wire_server.script = [Answer(events)]
    assert reply(await collect(responses)).text == text


async def test_server_that_falls_silent(wire_server: WireServer):
    thinking = CALLS[: CALLS.index(b"event: response.reasoning_summary_text.done")]
    speaking = WORDS[: WORDS.index(b"event: response.output_text.done")]
    for body, first, seconds in (b"", 0.4, 0.4), (thinking, 0.4, 0.4), (speaking, 30, 0.2), (WORDS, 30, None):
        wire_server.script = [Answer(body, end="hang")]
        provider = OpenAIProvider("openai", wire_server.base_url, KEY, first=first, idle=0.2, api="responses")
        await provider.preload()
        found = await collect(provider)
        await provider.close()
        if seconds is None:
            assert isinstance(found[-1], StreamFinished)
        else:
            assert isinstance(found[-1], StreamFailed)
            assert found[-1].text == f"openai sent nothing for {seconds} seconds."


async def test_cancelling_closes_the_connection(responses: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [Answer(WORDS[: WORDS.index(b"event: response.output_text.done")], end="hang")]
    stream = responses.stream(ask())
    assert isinstance([await anext(stream), await anext(stream)][-1], TextDelta)
    await stream.aclose()
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failure(429, "You exceeded your current quota", "insufficient_quota"), FailureKind.QUOTA),
        (failure(429, "Rate limit reached", "rate_limit_exceeded"), FailureKind.RATE),
        (failure(400, "Your input exceeds the context window of this model."), FailureKind.CONTEXT),
        (failure(401, "Incorrect API key"), FailureKind.AUTH),
        (failure(404, "The model does not exist", "model_not_found"), FailureKind.NOT_FOUND),
        (failure(500), FailureKind.OVERLOADED),
        (failure(200, "loading", "503"), FailureKind.OVERLOADED),
        (Answer(b"<html>", headers={"Content-Type": "text/html"}), FailureKind.NOT_FOUND),
        (Answer((STREAMS / "failed.sse").read_bytes()), FailureKind.OVERLOADED),
        (Answer((STREAMS / "error.sse").read_bytes()), FailureKind.RATE),
        (Answer(sse({"type": "error", "error": {"code": "insufficient_quota", "message": "No."}})), FailureKind.QUOTA),
    ],
)
async def test_failures(responses: OpenAIProvider, wire_server: WireServer, answer: Answer, kind: FailureKind):
    wire_server.script = [answer]
    broke = (await collect(responses))[-1]
    assert isinstance(broke, StreamFailed)
    assert broke.kind is kind
    assert len(wire_server.requests) == 1


# ── what a server refuses and we can do without ──


def refused(message: str, param: str | None = None, code: str | None = None) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Answer(json.dumps({"error": error}).encode(), 400, {"Content-Type": "application/json"})


async def test_account_that_gets_no_summaries_is_served_without(responses: OpenAIProvider, wire_server: WireServer):
    said = "Your organization must be verified to generate reasoning summaries."
    wire_server.script = [refused(said, "reasoning.summary", "unsupported_value"), Answer(WORDS), Answer(WORDS)]
    for _ in range(2):
        assert isinstance((await collect(responses, ask(level="low")))[-1], StreamFinished)
    sent = [request.json["reasoning"] for request in wire_server.requests]
    assert sent == [{"effort": "low", "summary": "auto"}, {"effort": "low"}, {"effort": "low"}]


PAGES, BOTH = "web_search_call.action.sources", "both, one after the other"


@pytest.mark.parametrize("part", [PAGES, "reasoning.summary", BOTH])
async def test_refused_part_alone_is_left_out(responses: OpenAIProvider, wire_server: WireServer, part: str):
    names = (PAGES, "reasoning.summary")
    refusals = [refused(f"Invalid value: '{name}'.", name) for name in names if part in (name, BOTH)]
    wire_server.script = [*refusals, Answer(WORDS), Answer(WORDS)]
    request = Request("gpt-x", ask().messages, tools=(VENDOR_SEARCH_SPEC,))
    for _ in range(2):
        assert isinstance((await collect(responses, request))[-1], StreamFinished)
    assert len(wire_server.requests) == len(refusals) + 2
    sent = [(PAGES in each.json["include"], "reasoning" in each.json) for each in wire_server.requests[-2:]]
    assert sent == [(part == "reasoning.summary", part == PAGES)] * 2


@pytest.mark.parametrize(
    "error",
    [
        refused("The encrypted content gAAA...DQ== could not be verified.", code="invalid_encrypted_content"),
        refused("Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    ],
)
async def test_thinking_that_is_refused_is_left_out(responses: OpenAIProvider, wire_server: WireServer, error: Answer):
    request = Request("gpt-x", TALK)
    wire_server.script = [error, Answer(WORDS)]
    assert isinstance((await collect(responses, request))[-1], StreamFinished)
    first, second = ([item["type"] for item in request.json["input"]] for request in wire_server.requests)
    assert first.count("reasoning") == 1
    assert second == [type for type in first if type != "reasoning"]


async def test_same_request_is_never_sent_twice(responses: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [refused("invalid_encrypted_content")]
    [broke] = await collect(responses)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.REFUSED
    assert len(wire_server.requests) == 1


# ── counting and listing ──


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(json.dumps(value).encode(), status, {"Content-Type": "application/json"})


async def test_tokens_as_the_server_counts_them(responses: OpenAIProvider, wire_server: WireServer):
    from openai.types.responses.input_token_count_params import InputTokenCountParams

    wire_server.script = [as_json({"object": "response.input_tokens", "input_tokens": 123})]
    assert await responses.count(Request("gpt-x", TALK, "Be brief.", TOOLS, "low", 100)) == 123
    [request] = wire_server.requests
    assert request.path == "/v1/responses/input_tokens"
    assert exhausted(TypeAdapter(InputTokenCountParams).validate_python(request.json)) == request.json
    assert request.json.keys() == {"model", "instructions", "tools", "reasoning", "input"}


@pytest.mark.parametrize(
    "answer",
    [
        failure(404),
        failure(500),
        as_json({"input_tokens": "many"}),
        as_json([]),
        Answer(b"<html>", headers={"Content-Type": "text/html"}),
        Answer(b"{", headers={"Content-Type": "application/json"}),
        Answer(b"{", headers={"Content-Type": "application/json"}, end="reset"),
    ],
)
async def test_count_that_fails_is_none(responses: OpenAIProvider, wire_server: WireServer, answer: Answer):
    wire_server.script = [answer]
    assert await responses.count(ask()) is None


async def test_chat_completions_have_no_count(provider: OpenAIProvider, wire_server: WireServer):
    assert await provider.count(ask()) is None
    assert wire_server.requests == []


async def test_count_can_be_given_up(responses: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [Answer(b"", end="hang")]
    counting = asyncio.create_task(responses.count(ask()))
    await asyncio.wait_for(wire_server.got_one.wait(), 60)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


async def test_models_of_all_kinds_of_servers(responses: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [
        as_json(
            {
                "object": "list",
                "data": [
                    {"id": "plain", "object": "model", "owned_by": "x", "created": 1},
                    {
                        "id": "router",
                        "context_length": 200_000,
                        "architecture": {"input_modalities": ["text", "image"]},
                        "top_provider": {"max_completion_tokens": 64_000},
                    },
                    {"id": "vllm", "max_model_len": 32_768},
                    {"id": "mistral", "max_context_length": 131_072, "capabilities": {"vision": False}},
                    {"id": "groq", "context_window": 8192, "max_completion_tokens": 1024},
                    {"id": "llama.cpp", "meta": {"n_ctx_train": 8192}},
                    {"id": "plain"},
                    {"id": ""},
                    "no model",
                ],
            }
        ),
        as_json([{"id": "together", "context_length": 4096}]),
    ]
    assert await responses.models() == [
        ListedModel("plain"),
        ListedModel("router", 200_000, 64_000, images=True),
        ListedModel("vllm", 32_768),
        ListedModel("mistral", 131_072, images=False),
        ListedModel("groq", 8192, 1024),
        ListedModel("llama.cpp", 8192),
    ]
    assert await responses.models() == [ListedModel("together", 4096)]
    assert wire_server.requests[0].path == "/v1/models"


OWN = {
    "gpt-6-astra": True,
    "gpt-5.6-terra": True,
    "gpt-5.6-terra-2026-05-14": True,
    "gpt-5-codex": True,
    "o4-mini": True,
    "gpt-4o-mini": True,
    "chatgpt-4o-latest": True,
    "ft:gpt-4o-mini:acme::a1": True,
    "text-embedding-3-large": False,
    "omni-moderation-latest": False,
    "whisper-1": False,
    "gpt-4o-transcribe": False,
    "gpt-4o-mini-tts": False,
    "tts-1-hd": False,
    "gpt-4o-audio-preview": False,
    "gpt-realtime-2": False,
    "gpt-image-2.5-sunburst": False,
    "chatgpt-image-latest": False,
    "dall-e-3": False,
    "sora-2": False,
    "gpt-4o-search-preview": False,
    "o3-deep-research": False,
    "gpt-3.5-turbo-instruct": False,
    "davinci-002": False,
    "babbage-002": False,
}


async def test_of_openais_own_models_only_those_to_talk_with(wire_server: WireServer, monkeypatch: pytest.MonkeyPatch):
    """The address is OpenAI's; a proxy stands for the way there."""
    answer = as_json({"data": [{"id": id} for id in OWN]})
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{wire_server.port}")
    wire_server.script = [answer]
    provider = OpenAIProvider("openai", "http://api.openai.com/v1", KEY)
    assert [model.id for model in await provider.models()] == [id for id, chats in OWN.items() if chats]
    await provider.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failure(401, f"Incorrect API key: {KEY}"), "openai did not accept the key (401): Incorrect API key: [key]."),
        (failure(404), "openai has no model to list at {address} (404)."),
        (failure(500), "openai could not answer (500)."),
        (Answer(b"", 307, {"Location": "http://127.0.0.1:9/v1/models"}), "The server at {address} redirects to"),
        (Answer(b"{}", headers={"Content-Type": "application/json"}, cut=1, end="reset"), "openai "),
    ],
)
async def test_list_that_cannot_be_had(responses: OpenAIProvider, wire_server: WireServer, answer: Answer, words: str):
    wire_server.script = [answer]
    with pytest.raises(IkigaiError) as raised:
        await responses.models()
    assert raised.value.what.startswith(words.replace("{address}", wire_server.base_url))
    assert KEY not in str(raised.value) and raised.value.remedy
