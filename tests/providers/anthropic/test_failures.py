"""The Anthropic adapter when the answer is an error, in its own words; its counts and its list."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.models.models import ListedModel, ModelTraits
from ikigai.providers.retry import RetryingProvider
from tests.providers.anthropic.messages_wire import answer, failure, page, said, spoken, sse, start
from tests.providers.conftest import KEY, ask, collect, reply
from tests.support.wire_server import Answer, WireServer


@pytest.fixture
async def claude(wire_server: WireServer) -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY)
    yield provider
    await provider.close()


@pytest.mark.parametrize(
    ("given", "kind", "words", "retry_after"),
    [
        (
            failure(400, "max_tokens: Field required"),
            FailureKind.REFUSED,
            "anthropic refused the request (400): ",
            None,
        ),
        (
            failure(401, "invalid x-api-key", "authentication_error"),
            FailureKind.AUTH,
            "anthropic did not accept the",
            None,
        ),
        (
            failure(402, "pay", "billing_error"),
            FailureKind.QUOTA,
            "anthropic: the credit is used up (402)",
            None,
        ),
        (
            failure(403, "pay", "billing_error"),
            FailureKind.QUOTA,
            "anthropic: the credit is used up (403)",
            None,
        ),
        (
            failure(400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
            FailureKind.QUOTA,
            "anthropic: the credit is used up (400): Your credit balance",
            None,
        ),
        (failure(403, "no", "permission_error"), FailureKind.AUTH, "anthropic did not accept the key (403): no.", None),
        (failure(404, "model: claude-x", "not_found_error"), FailureKind.NOT_FOUND, "anthropic has no model", None),
        (
            failure(400, "prompt is too long: 208732 tokens > 200000 maximum"),
            FailureKind.CONTEXT,
            "The conversation is too long for test-model (400): prompt is too long: 208732 tokens > 200000 maximum.",
            None,
        ),
        (
            failure(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
            FailureKind.CONTEXT,
            "The conversation is too long for test-model (400): input length",
            None,
        ),
        (
            failure(413, "Request exceeds the maximum size", "request_too_large"),
            FailureKind.CONTEXT,
            "The conversation",
            None,
        ),
        (
            failure(
                429, "This request would exceed your rate limit of 40,000 input tokens per minute", Retry_After="7"
            ),
            FailureKind.RATE,
            "anthropic: too many requests in a short time (429)",
            7,
        ),
        (
            failure(500, "Internal server error", "api_error"),
            FailureKind.OVERLOADED,
            "anthropic could not answer (500)",
            None,
        ),
        (failure(504, "", "timeout_error"), FailureKind.OVERLOADED, "anthropic could not answer (504).", None),
        (
            failure(529, "Overloaded", "overloaded_error"),
            FailureKind.OVERLOADED,
            "anthropic could not answer (529): Ov",
            None,
        ),
        (Answer(b"<html>no</html>", 502), FailureKind.OVERLOADED, "anthropic could not answer (502).", None),
        (Answer(b"plain words", 400), FailureKind.REFUSED, "anthropic refused the request (400): plain words.", None),
        (Answer(b"", 503, {"Retry-After": "3"}), FailureKind.OVERLOADED, "anthropic could not answer (503).", 3),
        (page([7], 400), FailureKind.REFUSED, "anthropic refused the request (400)", None),
    ],
)
async def test_status(
    claude: AnthropicProvider,
    wire_server: WireServer,
    given: Answer,
    kind: FailureKind,
    words: str,
    retry_after: float | None,
):
    given.headers["Request-Id"] = "req_9"
    wire_server.script = [given]
    [broke] = await collect(claude)
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.retry_after, broke.request_id) == (kind, retry_after, "req_9")
    assert broke.text.startswith(words)
    assert broke.remedy.endswith(".")
    assert len(wire_server.requests) == 1


@pytest.mark.parametrize("text", ["", "Half"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, FailureKind.OVERLOADED),
        ({"type": "rate_limit_error", "message": "slow"}, FailureKind.RATE),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, FailureKind.CONTEXT),
        ("words alone", FailureKind.OVERLOADED),
    ],
)
async def test_error_inside_the_stream(
    claude: AnthropicProvider, wire_server: WireServer, error: object, kind: FailureKind, text: str
):
    begin = sse(start(), said(0, text)) if text else b""
    event = {"type": "error", "error": error, "request_id": "req_7"}
    body = begin + sse(event, *spoken("not this"))
    wire_server.script = [Answer(body, headers={"Content-Type": "text/event-stream", "Request-Id": "req_7"})]
    found = await collect(claude)
    assert isinstance(found[-1], StreamFailed)
    assert (found[-1].kind, found[-1].request_id) == (kind, "req_7")
    assert reply(found).text == text


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"a"', b"[]"])
async def test_error_event_of_another_shape(claude: AnthropicProvider, wire_server: WireServer, data: bytes):
    wire_server.script = [Answer(b"event: error\ndata: " + data + b"\n\n" + sse(*spoken("not this")))]
    [broke] = await collect(claude)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.OVERLOADED


async def test_overload_before_the_first_word_is_tried_again(claude: AnthropicProvider, wire_server: WireServer):
    overload = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    wire_server.script = [Answer(sse(start(), overload)), failure(529, "", "overloaded_error"), answer("At last.")]
    found = await collect(RetryingProvider(claude, sleep=lambda seconds: asyncio.sleep(0)))
    assert reply(found).text == "At last."
    assert len(wire_server.requests) == 3


async def test_text_that_is_no_unicode(claude: AnthropicProvider, wire_server: WireServer):
    [broke] = await collect(claude, ask("\ud800"))
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.REFUSED
    assert await claude.count(ask("\ud800")) is None
    assert wire_server.requests == []


# ── counts ──


async def test_count(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [page({"input_tokens": 2095})]
    request = ask("Hi", system="Be brief.", level="low", max_output=100)
    assert await claude.count(request) == 2095
    [counted] = wire_server.requests
    assert counted.path == "/v1/messages/count_tokens"
    assert counted.body == claude.encoder("test-model").countable(request)
    assert not {"max_tokens", "stream"} & counted.json.keys()


async def test_count_of_words_of_the_model(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [page({"input_tokens": 9})]
    said = Message(Role.ASSISTANT, (Text("Hello. "),))
    assert await claude.count(Request("test-model", (*ask().messages, said))) == 9
    assert wire_server.requests[0].json["messages"][-1]["role"] == "user"


@pytest.mark.parametrize(
    "given",
    [
        failure(404),
        failure(500),
        page({}),
        page([]),
        page({"input_tokens": "9"}),
        page({"input_tokens": 0}),
        Answer(b"<html>", 200, {"Content-Type": "text/html"}),
        Answer(b"{", 200, {"Content-Type": "application/json"}),
        Answer(b'{"input_tokens": 1', cut=5, end="reset"),
    ],
)
async def test_no_count(claude: AnthropicProvider, wire_server: WireServer, given: Answer):
    wire_server.script = [given]
    assert await claude.count(ask()) is None


async def test_count_can_be_given_up(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [Answer(b"", end="hang", headers={"Content-Type": "application/json"})]
    counting = asyncio.create_task(claude.count(ask()))
    await asyncio.wait_for(wire_server.got_one.wait(), 60)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


# ── the list ──

YES, NO = {"supported": True}, {"supported": False}


def able(thinking: bool = True, effort: tuple[str, ...] = ("low", "medium", "high"), **types: bool) -> dict:
    ways = ("adaptive", "between_tools", "disabled", "enabled")
    return {
        "image_input": YES,
        "effort": {level: YES if level in effort else NO for level in ("low", "medium", "high", "max")},
        "thinking": {
            "supported": thinking,
            "types": {way: YES if types.get(way) else NO for way in ways},
        },
    }


def model(id: str, **more: object) -> dict:
    known = {"type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
    return known | {"id": id} | more


async def test_models_of_all_pages(claude: AnthropicProvider, wire_server: WireServer):
    first = [
        model(
            "claude-sonnet-5-5",
            max_input_tokens=1_000_000,
            max_tokens=128_000,
            capabilities=able(adaptive=True, between_tools=True),
        ),
        model("claude-opus-5-5", max_input_tokens=1_000_000, max_tokens=128_000, capabilities=able(adaptive=True)),
    ]
    second = [
        model("claude-haiku-4-5", max_input_tokens=200_000, capabilities=able(enabled=True, disabled=True)),
        model("claude-opus-4-6", capabilities=able(adaptive=True, enabled=True, disabled=True, effort=("low", "high"))),
        model("claude-3-haiku", capabilities=able(thinking=False, disabled=True) | {"image_input": NO}),
        model("claude-1", lifecycle="retired"),
        model("claude-x", lifecycle="deprecated", capabilities=None),
    ]
    wire_server.script = [
        page({"data": first, "has_more": True, "first_id": first[0]["id"], "last_id": first[-1]["id"]}),
        page({"data": second, "has_more": False, "last_id": "claude-x"}),
    ]
    levels = ("low", "med", "high")
    assert await claude.models() == [
        ListedModel("claude-sonnet-5-5", 1_000_000, 128_000, ("off", *levels), True, "adaptive", "between_tools"),
        ListedModel("claude-opus-5-5", 1_000_000, 128_000, levels, True, "adaptive"),
        ListedModel("claude-haiku-4-5", 200_000, 0, ("off", "min", *levels), True, "budget"),
        ListedModel("claude-opus-4-6", 0, 0, ("off", "low", "high"), True, "adaptive"),
        ListedModel("claude-3-haiku", 0, 0, (), False),
        ListedModel("claude-x"),
    ]
    paths = [request.path for request in wire_server.requests]
    assert paths == ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=claude-opus-5-5"]


async def test_what_was_listed_is_what_is_sent(claude: AnthropicProvider, wire_server: WireServer):
    capable = able(adaptive=True, between_tools=True)
    wire_server.script = [page({"data": [model("claude-sonnet-5-5", capabilities=capable)]})]
    [found] = await claude.models()
    traits = ModelTraits(found.thinking, found.levels or (), off=found.off)
    provider = AnthropicProvider("anthropic", traits=lambda model: traits)
    body = json.loads(provider.encoder(found.id).body(Request(found.id, ask().messages, level="off")))
    assert body["thinking"] == {"type": "between_tools"}


async def test_server_without_pages(claude: AnthropicProvider, wire_server: WireServer):
    plain = {"object": "list", "data": [{"id": "smol", "object": "model"}, {"name": "no id"}, "odd"]}
    wire_server.script = [page(plain), page({"data": []})]
    assert await claude.models() == [ListedModel("smol")]
    assert await claude.models() == []
    endless = page({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    wire_server.script = [endless] * 9
    assert await claude.models() == [ListedModel("a")]
    assert len(wire_server.requests) == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (failure(401, "invalid x-api-key", "authentication_error"), "anthropic did not accept the key (401): invalid"),
        (failure(529, "", "overloaded_error"), "anthropic could not answer (529)."),
        (failure(404, "", "not_found_error"), "anthropic has no model to list at "),
        (Answer(b"<html>", 200, {"Content-Type": "text/html"}), "The server at "),
        (page([1]), "The server at "),
        (page({"data": {}}), "The server at "),
        (Answer(b"{", 200, {"Content-Type": "application/json"}), "anthropic "),
    ],
)
async def test_no_list(claude: AnthropicProvider, wire_server: WireServer, given: Answer, words: str):
    wire_server.script = [given]
    with pytest.raises(IkigaiError) as caught:
        await claude.models()
    assert caught.value.what.startswith(words)
    assert caught.value.remedy


async def test_list_that_never_comes(wire_server: WireServer):
    wire_server.script = [Answer(b"{", end="hang", headers={"Content-Type": "application/json"})]
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY, idle=0.2)
    await provider.preload()
    with pytest.raises(IkigaiError, match=r"sent nothing for 0\.2 seconds"):
        await provider.models()
    await provider.close()
