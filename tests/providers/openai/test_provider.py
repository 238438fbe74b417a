"""The OpenAI adapter over real HTTP: requests byte for byte, whole replies, streams that do not end as they should."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings

from ikigai.core.messages import StopReason, Text, Thinking, ToolCall, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, collect, is_cut, measured, reply
from tests.providers.requests import requests
from tests.support.examples import examples
from tests.support.wire_server import DONE, Answer, WireServer, call_delta, chunk, completion, failure, sse


async def test_body_on_the_wire_is_as_long_as_the_encoder_says(provider: OpenAIProvider, wire_server: WireServer):
    loop = asyncio.get_running_loop()
    encoder = provider.encoder("test-model")

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def check(request: Request):
        asyncio.run_coroutine_threadsafe(collect(provider, request), loop).result()
        body = wire_server.requests[-1].body
        assert measured(encoder, request) == len(body)
        assert body == encoder.body(request)

    await asyncio.to_thread(check)


async def test_headers(provider: OpenAIProvider, wire_server: WireServer):
    await collect(provider)
    [request] = wire_server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


async def test_server_that_knows_no_stream_options_is_asked_without(provider: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [failure(422, "stream_options: Extra inputs are not permitted"), completion("Hi")]
    assert reply(await collect(provider)).text == "Hi"
    await collect(provider)
    assert ["stream_options" in request.json for request in wire_server.requests] == [True, False, False]


async def test_reply(provider: OpenAIProvider, wire_server: WireServer):
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    answer = completion("Hello 👩‍👩‍👧!", "let me see", usage=usage)
    answer.headers["X-Request-Id"] = "req_1"
    wire_server.script = [answer]
    found = await collect(provider)
    thinking = Thinking("let me see", '{"field":"reasoning_content"}', "openai-chat/openai/test-model")
    assert reply(found).blocks() == (thinking, Text("Hello 👩‍👩‍👧!"))
    assert found[-1] == StreamFinished(StopReason.END, Usage(100, 20, 64, 7), "req_1")


async def test_several_calls(provider: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [
        completion(
            "Looking.",
            calls=[
                {"id": "a", "name": "ls", "arguments": {"path": "é"}},
                {"id": "b", "name": "cat", "arguments": '{"x": '},
                {"id": "c", "name": "pwd", "arguments": ""},
            ],
        )
    ]
    found = await collect(provider)
    assert reply(found).blocks() == (
        Text("Looking."),
        ToolCall("a", "ls", '{"path": "\\u00e9"}'),
        ToolCall("b", "cat", "{}", malformed='{"x": '),
        ToolCall("c", "pwd", "{}"),
    )
    assert found[-1] == StreamFinished(StopReason.TOOLS, Usage(10, 5))


PIECES = [
    chunk({"content": "Hé!"}),
    chunk({"tool_calls": [call_delta(0, id="c", name="rm", arguments='{"a":')]}),
    chunk({"tool_calls": [call_delta(0, arguments=' "b"}')]}),
]
HALF = sse(*PIECES[:2])
WHOLE = sse(*PIECES, chunk(finish="tool_calls"))
ENDED = WHOLE + DONE


@pytest.mark.parametrize("end", ["clean", "reset"])
async def test_cut_anywhere(provider: OpenAIProvider, wire_server: WireServer, end: str):
    """At sampled bytes, and at every one around the end."""
    for cut in [*range(0, len(WHOLE), 7), *range(len(WHOLE) - 60, len(ENDED))]:
        wire_server.script = [Answer(ENDED, cut=cut, end=end)]
        found = await collect(provider)
        if isinstance(found[-1], StreamFailed):
            assert found[-1].kind is FailureKind.CUT
            assert end == "reset" or cut < len(WHOLE) - 2  # the line ends behind the last event may be missing
        else:
            assert cut >= len(WHOLE) - 2, f"finished after {cut} bytes"
            assert reply(found).blocks() == (Text("Hé!"), ToolCall("c", "rm", '{"a": "b"}'))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", ""),
        (DONE, ""),
        (sse(chunk({"content": "Half"})), "Half"),
        (sse(chunk({"content": "Half"}), DONE), "Half"),
        (sse(chunk({"content": "Half"})) + b"data: {not json}\n\n" + sse(chunk(finish="stop")), "Half"),
        (sse(chunk({"content": "Half"})) + b'data: "\xff\xfe"\n\n' + sse(chunk(finish="stop")), "Half"),
        (sse(chunk({"content": "Half"})) + b"data: " + b"[" * 100_000 + b"\n\n", "Half"),
        (b"<html>hello</html>", ""),
    ],
)
async def test_stream_without_its_end_marker_is_cut(
    provider: OpenAIProvider, wire_server: WireServer, body: bytes, said: str
):
    await is_cut(provider, wire_server, body, said)


async def test_what_is_no_event_is_passed_over(provider: OpenAIProvider, wire_server: WireServer):
    body = b": ping\n\nevent: x\r\ndata: 7\r\n\r\ndata: [1]\n\ndata: null\n\n"
    wire_server.script = [Answer(body + sse({"object": "hello"}, chunk({"content": "Hi"}), chunk(finish="stop")))]
    found = await collect(provider)
    assert found == [TextDelta("Hi"), StreamFinished(StopReason.END)]
