"""The OpenAI adapter over real HTTP: requests byte for byte, whole replies, streams that do not end as they should."""

import asyncio
import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from ikigai.core.events.messages import Image, Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta
from ikigai.core.vendors import PRESETS, ServerPreset
from ikigai.providers.encoding import dumps
from ikigai.providers.openai.chat_api import EMPTY_REPLY
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, ask, collect, is_cut, measured, reply
from tests.providers.requests import requests
from tests.support.examples import examples
from tests.support.wire_server import DONE, Answer, Received, WireServer, call_delta, chunk, completion, failure, sse


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


@pytest.mark.parametrize("field", ["stream_options", "max_tokens"])
async def test_requests_that_are_refused_at_once_are_all_sent_without(wire_server: WireServer, field: str):
    """Agents share a provider: what one of them has learned must not make the refusal of another final."""

    def answer(received: Received) -> Answer:
        if field not in received.json:
            return completion("Hi")
        refusal = failure(400, f"Unsupported parameter: '{field}'. Use 'max_completion_tokens'.")
        refusal.pause = 0.3  # so that both requests are on their way
        return refusal

    wire_server.answer = answer
    provider = OpenAIProvider("mine", wire_server.base_url, KEY)
    request = Request("test-model", ask().messages, max_output=99)
    found = await asyncio.gather(*(collect(provider, request) for _ in range(3)))
    await provider.close()
    assert [reply(each).text for each in found] == ["Hi"] * 3


async def test_name_of_the_output_limit_is_the_one_that_the_model_wants(wire_server: WireServer):
    """GitHub and other hosts of OpenAI's newer models refuse the usual one."""
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    wire_server.script = [failure(400, said), completion("Hi"), completion("Hi"), completion("Hi")]
    provider = OpenAIProvider("github", wire_server.base_url, KEY)
    for model in ("openai/gpt-5", "openai/gpt-5", "meta/llama"):
        assert reply(await collect(provider, Request(model, ask().messages, max_output=99))).text == "Hi"
    await provider.close()
    names = [[key for key in request.json if key.startswith("max_")] for request in wire_server.requests]
    assert names == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"], ["max_tokens"]]


@pytest.mark.parametrize("preset", [None, PRESETS["mistral"]])
async def test_calls_stand_as_mistral_wants_them(wire_server: WireServer, preset: ServerPreset | None):
    """Its own server takes no other ids of calls, and no message of the user right behind results: of a turn that was
    interrupted. So does vLLM with a tokenizer of Mistral, which is asked again.
    """
    ids = ("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "call_2", "aB3456789")
    calls = Message(Role.ASSISTANT, tuple(ToolCall(id, "ls") for id in ids))
    seen = (Image("image/png", "aGk=", 1, 1),)
    results = Message(Role.TOOL, tuple(ToolResult(id, "4 files", name="ls", images=seen) for id in ids))
    request = Request("devstral", (*ask().messages, calls, results, *ask("And now?").messages))

    def answer(received: Received) -> Answer:
        roles = [message["role"] for message in received.json["messages"]]
        if ("tool", "user") in pairwise(roles):
            said = "Unexpected role 'user' after role 'tool'"
            return failure(400, said, "invalid_request_message_order")
        for id in sent_ids(received):
            if not re.fullmatch("[a-zA-Z0-9]{9}", id):
                said = f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                return failure(400, said, "invalid_function_call")
        return completion("Hi")

    wire_server.answer = answer
    provider = OpenAIProvider("mine", wire_server.base_url, KEY, preset=preset)
    for _ in range(2):
        assert reply(await collect(provider, request)).text == "Hi"
    await provider.close()
    assert len(wire_server.requests) == (2 if preset else 4)
    assert wire_server.requests[-1].json["messages"][-1] == {"role": "user", "content": "And now?"}
    sent = sent_ids(wire_server.requests[-1])
    assert sent[:3] == sent[3:] and len(set(sent)) == 3 and sent[2] == ids[2], "each result answers its call"
    encoder = provider.encoder("devstral")
    bridge = len(dumps(EMPTY_REPLY)) + 1
    assert not preset or measured(encoder, request) + bridge == len(wire_server.requests[-1].body)


@pytest.mark.parametrize("status", [400, 500])
async def test_roles_alternate_where_a_template_wants_it(wire_server: WireServer, status: int):
    """vLLM refuses with 400, llama.cpp with 500."""
    call, result = ToolCall("c", "ls"), ToolResult("c", "4 files", name="ls")
    turn = (*ask("Two?").messages, Message(Role.ASSISTANT, (call,)), Message(Role.TOOL, (result,)))
    request = Request("gemma", (*ask("One?").messages, *turn, *ask("Three?").messages))

    def answer(received: Received) -> Answer:
        roles = [message["role"] for message in received.json["messages"]]
        if ("tool", "user") in pairwise(roles) or ("user", "user") in pairwise(roles):
            said = "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
            return failure(status, said)
        return completion("Hi")

    wire_server.answer = answer
    provider = OpenAIProvider("mine", wire_server.base_url, KEY)
    assert [reply(await collect(provider, request)).text for _ in range(2)] == ["Hi", "Hi"]
    await provider.close()
    assert len(wire_server.requests) == 3
    roles = [message["role"] for message in wire_server.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant", "user"]


def sent_ids(received: Received) -> list[str]:
    """The ids of the calls in a request, and of the results in it."""
    messages = received.json["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    return [*calls, *(message["tool_call_id"] for message in messages if message["role"] == "tool")]


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


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long, id="every")])
@pytest.mark.parametrize("end", ["clean", "reset"])
async def test_cut_anywhere(provider: OpenAIProvider, wire_server: WireServer, end: str, step: int):
    """At sampled bytes, and at every one around the end."""
    for cut in [*range(0, len(WHOLE), step), *range(len(WHOLE) - 60, len(ENDED))]:
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
