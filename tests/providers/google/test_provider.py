"""The Google adapter over real HTTP: requests byte for byte, whole replies, streams that do not end as they should."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import (
    Image,
    Message,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta, UsageUpdate
from ikigai.providers.google.provider import GoogleProvider
from ikigai.providers.models.models import ListedModel, ModelTraits
from tests.providers.conftest import KEY, ask, collect, is_cut, measured, reply
from tests.providers.google.gemini import USAGE, call, chunk, failed, said, sse, stream, text, thought
from tests.providers.requests import requests
from tests.support.examples import examples
from tests.support.wire_server import Answer, WireServer

LEVEL = ModelTraits("level", ("min", "low", "med", "high"))
OWN = "google/test-model"


def made(server: WireServer, **more: float) -> GoogleProvider:
    return GoogleProvider("google", f"http://127.0.0.1:{server.port}", KEY, traits=lambda model: LEVEL, **more)


@pytest.fixture
async def provider(wire_server: WireServer) -> AsyncIterator[GoogleProvider]:
    provider = made(wire_server)
    yield provider
    await provider.close()


async def test_body_on_the_wire_is_the_encoders(provider: GoogleProvider, wire_server: WireServer):
    loop = asyncio.get_running_loop()

    @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def check(request: Request):
        wire_server.script = [said()]
        asyncio.run_coroutine_threadsafe(collect(provider, request), loop).result()
        encoder, body = provider.encoder(request.model), wire_server.requests[-1].body
        assert body == encoder.body(request)
        assert measured(encoder, request) == len(body)

    await asyncio.to_thread(check)


async def test_headers_and_path(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [said()]
    await collect(provider)
    [request] = wire_server.requests
    assert request.path == "/v1beta/models/test-model:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("behind", "model", "path"),
    [
        ("/", "m", "/v1beta/models/m:"),
        ("/v1beta", "m", "/v1beta/models/m:"),
        ("/v1alpha/", "models/m", "/v1alpha/models/m:"),
        ("/v1", "m", "/v1/models/m:"),
        ("/gateway", "tunedModels/m", "/gateway/v1beta/tunedModels/m:"),
        ("", "a b?x=1#é%", "/v1beta/models/a%20b%3Fx%3D1%23%C3%A9%25:"),
    ],
)
async def test_addresses_and_names(wire_server: WireServer, behind: str, model: str, path: str):
    provider = GoogleProvider("google", f"http://127.0.0.1:{wire_server.port}{behind}", KEY)
    wire_server.script = [said()]
    assert reply(await collect(provider, Request(model, ask().messages))).text == "Hi"
    assert wire_server.requests[0].path == f"{path}streamGenerateContent?alt=sse"
    await provider.close()


async def test_nothing_of_the_environment_is_used(wire_server: WireServer, monkeypatch: pytest.MonkeyPatch):
    async with WireServer() as elsewhere:
        for name, value in {
            "GOOGLE_API_KEY": "stray-key-1",
            "GEMINI_API_KEY": "stray-key-2",
            "GOOGLE_GEMINI_BASE_URL": elsewhere.base_url,
            "GOOGLE_VERTEX_BASE_URL": elsewhere.base_url,
            "GOOGLE_GENAI_USE_VERTEXAI": "true",
            "GOOGLE_GENAI_USE_ENTERPRISE": "true",
            "GOOGLE_GENAI_API_VERSION": "v9",
            "GOOGLE_GENAI_CLIENT_MODE": "replay",
            "GOOGLE_GENAI_REPLAYS_DIRECTORY": "/nowhere",
            "GOOGLE_CLOUD_PROJECT": "stray-project",
            "GOOGLE_CLOUD_LOCATION": "stray-location",
            "http_proxy": "http://127.0.0.1:9",
            "ALL_PROXY": "http://127.0.0.1:9",
        }.items():
            monkeypatch.setenv(name, value)
        provider = GoogleProvider("google", f"http://127.0.0.1:{wire_server.port}")
        wire_server.script = [said()]
        assert reply(await collect(provider)).text == "Hi"
        [request] = wire_server.requests
        assert request.path.startswith("/v1beta/models/test-model:")
        assert "stray" not in str(request.headers)
        assert not elsewhere.requests
        await provider.close()


async def test_reply(provider: GoogleProvider, wire_server: WireServer):
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 64,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 127,
    }
    early = {"promptTokenCount": 100, "totalTokenCount": 100}
    wire_server.script = [
        stream(
            chunk(thought("let me "), usageMetadata=early),
            chunk(thought("see"), usageMetadata=early),
            chunk(text("Hello 👩‍👩‍👧 \u2028"), usageMetadata=early),
            chunk(text("é!"), usageMetadata=early),
            chunk(text("", thoughtSignature="c2ln/+=="), finish="STOP", usageMetadata=usage),
        )
    ]
    found = await collect(provider)
    assert reply(found).blocks() == (
        Thinking("let me see", "", OWN),
        Text("Hello 👩‍👩‍👧 \u2028é!"),
        Thinking("", "c2ln/+==", OWN),
    )
    assert [event for event in found if isinstance(event, UsageUpdate)] == [
        UsageUpdate(Usage(100), "resp-1"),
        UsageUpdate(Usage(100, 27, 64, 7), "resp-1"),
    ]
    assert found[-1] == StreamFinished(StopReason.END, Usage(100, 27, 64, 7), "resp-1")


async def test_turn_with_parallel_calls_comes_back_as_it_came(provider: GoogleProvider, wire_server: WireServer):
    came = [
        call("ls", {"path": "é"}, "fc1", thoughtSignature="bG9uZw=="),
        call("cat", {"n": 1.0}, "fc2"),
        call("pwd", {}),
    ]
    wire_server.script = [stream(chunk(thought("Two.")), chunk(*came[:2]), chunk(came[2], finish="STOP")), said()]
    request = ask(tools=(ToolSpec("ls", "List", '{"type":"object"}'),))
    found = await collect(provider, request)
    assert isinstance(found[-1], StreamFinished)
    assert found[-1].stop is StopReason.TOOLS
    blocks = reply(found).blocks()
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    assert len({one.id for one in calls}) == 3
    results = tuple(ToolResult(one.id, "ok", name=one.name) for one in calls)
    more = (Message(Role.ASSISTANT, blocks), Message(Role.TOOL, results))
    await collect(provider, Request("test-model", (*request.messages, *more), tools=request.tools))
    first, second = wire_server.requests
    *_, model, user = second.json["contents"]
    came[2]["functionCall"]["id"] = calls[2].id
    assert model == {"role": "model", "parts": came}
    assert [part["functionResponse"]["id"] for part in user["parts"]] == ["fc1", "fc2", calls[2].id]
    # The same bytes up to the first new message.
    assert second.body.startswith(first.body[:-2])
    assert second.body[len(first.body) - 2 :].startswith(b',{"role":"model"')


async def test_images(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [said()]
    image = Image("image/png", "iVBORw0KGgo=", 1, 1)
    await collect(provider, Request("test-model", (Message(Role.USER, (image, Text("What?"))),)))
    [content] = wire_server.requests[0].json["contents"]
    assert content["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"text": "What?"},
    ]


@pytest.mark.parametrize("message", ["Corrupted thought signature.", "Thought signature is not valid."])
async def test_signatures_that_google_refuses_are_left_out(
    provider: GoogleProvider, wire_server: WireServer, message: str
):
    blocks = (Thinking("", "b2xk", OWN), ToolCall("a", "ls"))
    history = (*ask().messages, Message(Role.ASSISTANT, blocks), Message(Role.TOOL, (ToolResult("a", "x", name="ls"),)))
    wire_server.script = [failed(400, message, "INVALID_ARGUMENT"), said()]
    assert reply(await collect(provider, Request("test-model", history))).text == "Hi"
    first, second = (request.body for request in wire_server.requests)
    assert first.replace(b"b2xk", b"skip_thought_signature_validator") == second
    wire_server.script = [failed(400, message, "INVALID_ARGUMENT"), said()]
    [broke] = await collect(provider)  # nothing to leave out
    assert isinstance(broke, StreamFailed)
    assert len(wire_server.requests) == 3


PIECES = [
    chunk(text("Hé!"), usageMetadata=USAGE),
    chunk(call("rm", {"a": "b"}, "c", thoughtSignature="c2ln"), usageMetadata=USAGE),
]
HALF = sse(*PIECES)
WHOLE = sse(*PIECES, chunk(text(""), finish="STOP", usageMetadata=USAGE)).removesuffix(b"\r\n\r\n")
ENDED = sse(WHOLE, b"\r\n\r\n", {"usageMetadata": USAGE})


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long, id="every")])
@pytest.mark.parametrize("end", ["clean", "reset"])
async def test_cut_anywhere(provider: GoogleProvider, wire_server: WireServer, end: str, step: int):
    """At sampled bytes, and at every one around the end."""
    for cut in [
        *range(0, len(HALF), step),
        *range(len(WHOLE) - 60, len(WHOLE) + 20),
        *range(len(WHOLE), len(ENDED), 7),
    ]:
        wire_server.script = [Answer(ENDED, cut=cut, end=end)]
        found = await collect(provider)
        if isinstance(found[-1], StreamFailed):
            assert found[-1].kind is FailureKind.CUT
            assert end == "reset" or cut < len(WHOLE)
        else:
            assert cut >= len(WHOLE), f"finished after {cut} bytes"
            assert reply(found).blocks() == (
                Text("Hé!"),
                Thinking("", "c2ln", OWN),
                ToolCall("c", "rm", '{"a":"b"}'),
            )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", ""),
        (b"\r\n\r\n", ""),
        (sse(chunk(text("Half"))), "Half"),
        (sse(chunk(text("Half")), b"data: {not json}\r\n\r\n", chunk(finish="STOP")), "Half"),
        (sse(chunk(text("Half")), b"data: " + b"[" * 100_000 + b"\r\n\r\n"), "Half"),
        (sse(chunk(text("Half")), b'data: "\xff\xfe"\r\n\r\n'), "Half"),
        (b"<html>hello</html>", ""),
        (b"[]", ""),
    ],
)
async def test_stream_without_its_end_marker_is_cut(
    provider: GoogleProvider, wire_server: WireServer, body: bytes, said: str
):
    await is_cut(provider, wire_server, body, said)


async def test_what_is_unknown_is_passed_over(provider: GoogleProvider, wire_server: WireServer):
    strange = [7, [1], None, {"object": "hello"}, chunk({"executableCode": {"code": "x"}}, text("Hi"), {}, "x")]  # type: ignore[arg-type]
    wire_server.script = [stream(*strange, chunk(finish="STOP", groundingMetadata={}))]
    assert await collect(provider) == [TextDelta("Hi"), StreamFinished(StopReason.END, request_id="resp-1")]


async def test_two_ends_and_what_comes_behind_them(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [stream(chunk(text("Hi"), finish="STOP"), chunk(call("rm", {}), finish="MAX_TOKENS"))]
    assert await collect(provider) == [TextDelta("Hi"), StreamFinished(StopReason.END, request_id="resp-1")]


# ── counting and listing ──


def page(body: object, status: int = 200) -> Answer:
    return Answer(json.dumps(body).encode(), status, {"Content-Type": "application/json; charset=UTF-8"})


async def test_count(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [page({"totalTokens": 321, "promptTokensDetails": []}), said()]
    request = ask(system="Be brief.", tools=(ToolSpec("ls", "List", '{"type":"object"}'),), level="low")
    assert await provider.count(request) == 321
    await collect(provider, request)
    counted, sent = wire_server.requests
    assert counted.path == "/v1beta/models/test-model:countTokens"
    assert counted.json == {"generateContentRequest": {"model": "models/test-model", **sent.json}}


@pytest.mark.parametrize(
    "answer",
    [
        failed(500),
        failed(400, "no", "INVALID_ARGUMENT"),
        page({}),
        page({"totalTokens": "many"}),
        page([1]),
        Answer(b"<html>", 200, {"Content-Type": "text/html"}),
        Answer(b"\xff\xfe", 200),
        Answer(b"", end="reset"),
    ],
)
async def test_count_that_does_not_come_is_none(provider: GoogleProvider, wire_server: WireServer, answer: Answer):
    wire_server.script = [answer]
    assert await provider.count(ask()) is None


async def test_count_can_be_cancelled(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [Answer(b"", end="hang")]
    counting = asyncio.create_task(provider.count(ask()))
    await asyncio.wait_for(wire_server.got_one.wait(), 60)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


def model(name: str, *methods: str, **more: object) -> dict[str, object]:
    limits = {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
    return {"name": f"models/{name}", "supportedGenerationMethods": list(methods), **limits, **more}


async def test_models(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [
        page({"models": [model("gemini-embedding", "embedContent")], "nextPageToken": "a b/1"}),
        page({"models": [model("gemini-x", "generateContent", "countTokens", thinking=True)], "nextPageToken": "2"}),
        page({"models": [model("gemini-y", "generateContent", thinking=False), 7, {"name": "models/z"}]}),
    ]
    assert await provider.models() == [
        ListedModel("gemini-x", 1_048_576, 65_536),
        ListedModel("gemini-y", 1_048_576, 65_536, levels=()),
    ]
    assert [request.path for request in wire_server.requests] == [
        "/v1beta/models?pageSize=1000",
        "/v1beta/models?pageSize=1000&pageToken=a%20b%2F1",
        "/v1beta/models?pageSize=1000&pageToken=2",
    ]
    assert all(request.headers["x-goog-api-key"] == KEY for request in wire_server.requests)


async def test_pages_without_end(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = list(itertools.repeat(page({"models": [], "nextPageToken": "again"}), 5))
    assert await provider.models() == []
    assert len(wire_server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failed(403, "Method not allowed.", "PERMISSION_DENIED"), "google did not accept the key (403): Method not"),
        (failed(404), "google has no model to list at"),
        (failed(503, "busy"), "google could not answer (503): busy."),
        (Answer(b"<html>Hello", 200, {"Content-Type": "text/html"}), "is not a model API: it sent a web page"),
        (page([1]), "is not a model API: it sent a web page"),
        (page({"error": {"code": 401, "message": f"who is {KEY}"}}), "google did not accept the key: who is [key]."),
        (Answer(b"", end="reset"), "google cannot be reached at"),
        (Answer(b"", end="hang"), "google sent nothing for 0.3 seconds."),
    ],
)
async def test_list_that_does_not_come(wire_server: WireServer, answer: Answer, words: str):
    provider = made(wire_server, idle=0.3 if answer.end == "hang" else 30)
    await provider.preload()
    wire_server.script = [answer]
    with pytest.raises(IkigaiError) as caught:
        await provider.models()
    assert words in caught.value.what
    assert caught.value.remedy.endswith(".")
    await provider.close()
