"""The Anthropic adapter when the answer is an error or none, its counts and its list, and what must never be shown."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.messages import Message, Role, Text
from ikigai.core.reply import Broke, Failure
from ikigai.core.request import Request
from ikigai.providers.anthropic import AnthropicProvider
from ikigai.providers.models import Listed, Traits
from ikigai.providers.retry import Retrying
from tests.providers.conftest import KEY, ask, collect, reply
from tests.providers.messages_wire import answer, failure, page, said, spoken, sse, start
from tests.wire_server import Answer, WireServer


@pytest.fixture
async def claude(wire_server: WireServer) -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY)
    yield provider
    await provider.close()


@pytest.mark.parametrize(
    ("given", "kind", "words", "retry_after"),
    [
        (failure(400, "max_tokens: Field required"), Failure.REFUSED, "anthropic refused the request (400): ", None),
        (failure(401, "invalid x-api-key", "authentication_error"), Failure.AUTH, "anthropic did not accept the", None),
        (failure(402, "pay", "billing_error"), Failure.QUOTA, "anthropic says that the credit is used up (402)", None),
        (failure(403, "pay", "billing_error"), Failure.QUOTA, "anthropic says that the credit is used up (403)", None),
        (
            failure(400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
            Failure.QUOTA,
            "anthropic says that the credit is used up (400): Your credit balance",
            None,
        ),
        (failure(403, "no", "permission_error"), Failure.AUTH, "anthropic did not accept the key (403): no.", None),
        (failure(404, "model: claude-x", "not_found_error"), Failure.NOT_FOUND, "anthropic knows no model", None),
        (
            failure(400, "prompt is too long: 208732 tokens > 200000 maximum"),
            Failure.CONTEXT,
            "The conversation is too long for test-model (400): prompt is too long: 208732 tokens > 200000 maximum.",
            None,
        ),
        (
            failure(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
            Failure.CONTEXT,
            "The conversation is too long for test-model (400): input length",
            None,
        ),
        (
            failure(413, "Request exceeds the maximum size", "request_too_large"),
            Failure.CONTEXT,
            "The conversation",
            None,
        ),
        (
            failure(
                429, "This request would exceed your rate limit of 40,000 input tokens per minute", Retry_After="7"
            ),
            Failure.RATE,
            "anthropic says that requests come too fast (429)",
            7,
        ),
        (
            failure(500, "Internal server error", "api_error"),
            Failure.OVERLOADED,
            "anthropic could not answer (500)",
            None,
        ),
        (failure(504, "", "timeout_error"), Failure.OVERLOADED, "anthropic could not answer (504).", None),
        (
            failure(529, "Overloaded", "overloaded_error"),
            Failure.OVERLOADED,
            "anthropic could not answer (529): Ov",
            None,
        ),
        (Answer(b"<html>no</html>", 502), Failure.OVERLOADED, "anthropic could not answer (502).", None),
        (Answer(b"plain words", 400), Failure.REFUSED, "anthropic refused the request (400): plain words.", None),
        (Answer(b"", 503, {"Retry-After": "3"}), Failure.OVERLOADED, "anthropic could not answer (503).", 3),
        (page([7], 400), Failure.REFUSED, "anthropic refused the request (400)", None),
    ],
)
async def test_status(
    claude: AnthropicProvider,
    wire_server: WireServer,
    given: Answer,
    kind: Failure,
    words: str,
    retry_after: float | None,
):
    given.headers["Request-Id"] = "req_9"
    wire_server.script = [given]
    [broke] = await collect(claude)
    assert isinstance(broke, Broke)
    assert (broke.kind, broke.retry_after, broke.request_id) == (kind, retry_after, "req_9")
    assert broke.text.startswith(words)
    assert broke.remedy.endswith(".")
    assert len(wire_server.requests) == 1


@pytest.mark.parametrize("text", ["", "Half"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, Failure.OVERLOADED),
        ({"type": "rate_limit_error", "message": "slow"}, Failure.RATE),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, Failure.CONTEXT),
        ("words alone", Failure.OVERLOADED),
    ],
)
async def test_an_error_inside_the_stream(
    claude: AnthropicProvider, wire_server: WireServer, error: object, kind: Failure, text: str
):
    begin = sse(start(), said(0, text)) if text else b""
    event = {"type": "error", "error": error, "request_id": "req_7"}
    body = begin + sse(event, *spoken("not this"))
    wire_server.script = [Answer(body, headers={"Content-Type": "text/event-stream", "Request-Id": "req_7"})]
    found = await collect(claude)
    assert isinstance(found[-1], Broke)
    assert (found[-1].kind, found[-1].request_id) == (kind, "req_7")
    assert reply(found).text == text


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"a"', b"[]"])
async def test_an_error_event_of_another_shape(claude: AnthropicProvider, wire_server: WireServer, data: bytes):
    wire_server.script = [Answer(b"event: error\ndata: " + data + b"\n\n" + sse(*spoken("not this")))]
    [broke] = await collect(claude)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.OVERLOADED


async def test_an_overload_before_the_first_word_is_tried_again(claude: AnthropicProvider, wire_server: WireServer):
    overload = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    wire_server.script = [Answer(sse(start(), overload)), failure(529, "", "overloaded_error"), answer("At last.")]
    found = await collect(Retrying(claude, sleep=lambda seconds: asyncio.sleep(0)))
    assert reply(found).text == "At last."
    assert len(wire_server.requests) == 3


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><h1>Welcome", b"", b"x" * 1_000_000])
async def test_a_page_instead_of_a_stream(claude: AnthropicProvider, wire_server: WireServer, body: bytes):
    wire_server.script = [Answer(body, headers={"Content-Type": "text/html; charset=utf-8"})]
    [broke] = await collect(claude)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.NOT_FOUND
    assert wire_server.base_url in broke.text


async def test_an_error_dressed_as_success(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [failure(200, "model is loading", "api_error")]
    [broke] = await collect(claude)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.OVERLOADED


async def test_redirects_are_not_followed(claude: AnthropicProvider, wire_server: WireServer):
    async with WireServer() as elsewhere:
        away = Answer(b"", 307, {"Location": f"{elsewhere.base_url}/messages"})
        wire_server.script = [away, away, away]
        [broke] = await collect(claude)
        assert isinstance(broke, Broke)
        assert broke.kind is Failure.NOT_FOUND
        assert await claude.count(ask()) is None
        with pytest.raises(IkigaiError):
            await claude.models()
        assert elsewhere.requests == []


async def test_nothing_listens(wire_server: WireServer):
    await wire_server.stop()
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY)
    [broke] = await collect(provider)
    assert await provider.count(ask()) is None
    with pytest.raises(IkigaiError) as caught:
        await provider.models()
    await wire_server.start()
    words = f"anthropic cannot be reached at {provider.address}: nothing listens there."
    assert broke == Broke(Failure.UNREACHABLE, words, "Check the network and the address.")
    assert caught.value.what == words


async def test_a_name_nobody_knows():
    provider = AnthropicProvider("anthropic", "http://user:pass@nowhere.invalid/v1", KEY)
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNREACHABLE
    assert broke.text == "anthropic cannot be reached at http://nowhere.invalid/v1: the name is not known."


async def test_plain_text_where_tls_was_expected_is_not_tried_again():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = AnthropicProvider("anthropic", f"https://127.0.0.1:{port}", KEY)
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNAVAILABLE
    assert broke.text == f"What answers at https://127.0.0.1:{port} does not speak TLS."
    assert "http://" in broke.remedy
    await provider.close()
    server.close()


async def test_certificates_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    [broke] = await collect(AnthropicProvider("anthropic", "https://nowhere.invalid", KEY))
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNAVAILABLE
    assert broke.text == "The certificates in /nonexistent cannot be read: No such file or directory."


async def test_cut_within_the_header():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = AnthropicProvider("anthropic", f"http://127.0.0.1:{port}/v1", KEY)
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNREACHABLE
    await provider.close()
    server.close()


async def test_a_proxy_from_the_environment_is_not_used_on_this_machine(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for host in ("127.0.0.1", "localhost"):
        wire_server.script = [answer("direct")]
        provider = AnthropicProvider("local", wire_server.base_url.replace("127.0.0.1", host), KEY)
        assert reply(await collect(provider)).text == "direct"
        await provider.close()
    [broke] = await collect(AnthropicProvider("local", "http://[::1]:9/v1", KEY))
    assert isinstance(broke, Broke)
    assert (broke.kind, "http://[::1]:9/v1:" in broke.text) == (Failure.UNREACHABLE, True)
    elsewhere = AnthropicProvider("anthropic", "http://nowhere.invalid", KEY)
    [broke] = await collect(elsewhere)
    assert isinstance(broke, Broke)
    assert "nothing listens there" in broke.text, "the proxy was asked"


async def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    [broke] = await collect(AnthropicProvider("anthropic", "http://nowhere.invalid/v1", KEY))
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNAVAILABLE
    assert "gopher" in broke.text


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "sk-\x00", "sk-é", "\ufeffsk-1"])
def test_a_key_that_no_header_can_hold(key: str):
    with pytest.raises(ConfigError) as caught:
        AnthropicProvider("anthropic", "", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8080/v1", "api.anthropic.com", "ftp://x/v1", "http://x/v1?key=1"])
def test_an_address_that_is_none(address: str):
    with pytest.raises(ConfigError) as caught:
        AnthropicProvider("anthropic", address, KEY)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("status", [200, 401])
async def test_the_key_shows_nowhere(
    wire_server: WireServer, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level("DEBUG")
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY)
    wire_server.script = [failure(status, f"invalid x-api-key\nprovided: {KEY}.", "authentication_error")] * 3
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert "invalid x-api-key provided: [key]." in broke.text
    assert await provider.count(ask()) is None
    with pytest.raises(IkigaiError) as caught:
        await provider.models()
    shown = repr(provider) + str(broke) + str(caught.value) + caplog.text + "".join(capfd.readouterr())
    assert KEY not in shown
    await provider.close()


async def test_text_that_is_no_unicode(claude: AnthropicProvider, wire_server: WireServer):
    [broke] = await collect(claude, ask("\ud800"))
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.REFUSED
    assert await claude.count(ask("\ud800")) is None
    assert wire_server.requests == []


async def test_endless_words_of_a_server_are_shortened(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [failure(400, "x" * 100_000)]
    [broke] = await collect(claude)
    assert isinstance(broke, Broke)
    assert len(broke.text) == 400


# ── counts ──


async def test_a_count(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [page({"input_tokens": 2095})]
    request = ask("Hi", system="Be brief.", level="low", max_output=100)
    assert await claude.count(request) == 2095
    [counted] = wire_server.requests
    assert counted.path == "/v1/messages/count_tokens"
    assert counted.body == claude.encoder("test-model").countable(request)
    assert not {"max_tokens", "stream"} & counted.json.keys()


async def test_a_count_of_words_of_the_model(claude: AnthropicProvider, wire_server: WireServer):
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


async def test_a_count_can_be_given_up(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [Answer(b"", end="hang", headers={"Content-Type": "application/json"})]
    await claude.warm()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(claude.count(ask()), 0.2)
    await asyncio.wait_for(wire_server.hung_up.wait(), 5)


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
        Listed("claude-sonnet-5-5", 1_000_000, 128_000, ("off", *levels), True, "adaptive", "between_tools"),
        Listed("claude-opus-5-5", 1_000_000, 128_000, levels, True, "adaptive"),
        Listed("claude-haiku-4-5", 200_000, 0, ("off", "min", *levels), True, "budget"),
        Listed("claude-opus-4-6", 0, 0, ("off", "low", "high"), True, "adaptive"),
        Listed("claude-3-haiku", 0, 0, (), False),
        Listed("claude-x"),
    ]
    paths = [request.path for request in wire_server.requests]
    assert paths == ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=claude-opus-5-5"]


async def test_what_was_listed_is_what_is_sent(claude: AnthropicProvider, wire_server: WireServer):
    capable = able(adaptive=True, between_tools=True)
    wire_server.script = [page({"data": [model("claude-sonnet-5-5", capabilities=capable)]})]
    [found] = await claude.models()
    traits = Traits(found.thinking, found.levels or (), off=found.off)
    provider = AnthropicProvider("anthropic", traits=lambda model: traits)
    body = json.loads(provider.encoder(found.id).body(Request(found.id, ask().messages, level="off")))
    assert body["thinking"] == {"type": "between_tools"}


async def test_a_server_without_pages(claude: AnthropicProvider, wire_server: WireServer):
    plain = {"object": "list", "data": [{"id": "smol", "object": "model"}, {"name": "no id"}, "odd"]}
    wire_server.script = [page(plain), page({"data": []})]
    assert await claude.models() == [Listed("smol")]
    assert await claude.models() == []
    endless = page({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    wire_server.script = [endless] * 9
    assert await claude.models() == [Listed("a")]
    assert len(wire_server.requests) == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (failure(401, "invalid x-api-key", "authentication_error"), "anthropic did not accept the key (401): invalid"),
        (failure(529, "", "overloaded_error"), "anthropic could not answer (529)."),
        (failure(404, "", "not_found_error"), "anthropic knows no model to list at "),
        (Answer(b"<html>", 200, {"Content-Type": "text/html"}), "What answers at "),
        (page([1]), "What answers at "),
        (page({"data": {}}), "What answers at "),
        (Answer(b"{", 200, {"Content-Type": "application/json"}), "anthropic "),
    ],
)
async def test_no_list(claude: AnthropicProvider, wire_server: WireServer, given: Answer, words: str):
    wire_server.script = [given]
    with pytest.raises(IkigaiError) as caught:
        await claude.models()
    assert caught.value.what.startswith(words)
    assert caught.value.remedy


async def test_a_list_that_never_comes(wire_server: WireServer):
    wire_server.script = [Answer(b"{", end="hang", headers={"Content-Type": "application/json"})]
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY, idle=0.2)
    await provider.warm()
    with pytest.raises(IkigaiError, match=r"sent nothing for 0\.2 seconds"):
        await provider.models()
    await provider.close()
