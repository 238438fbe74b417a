"""The Anthropic adapter over real HTTP: requests byte for byte, whole replies, streams that do not end rightly."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from ikigai.core.events.messages import Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta, UsageUpdate
from ikigai.providers.anthropic.messages_api import THINKING_BINDING_BETA
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.models.models import ModelTraits
from tests.providers.anthropic.messages_wire import (
    END,
    MEANT,
    MODEL,
    SIGNATURE,
    STREAMS,
    VENDOR,
    answer,
    block,
    delta,
    failure,
    finish,
    page,
    said,
    spoken,
    sse,
    start,
    stop,
)
from tests.providers.conftest import KEY, ask, collect, is_cut, measured, reply
from tests.providers.requests import requests
from tests.support.examples import examples
from tests.support.wire_server import Answer, Received, WireServer

ADAPTIVE = ModelTraits("adaptive", ("off", "low", "med", "high"), max_output=64_000)


@pytest.fixture
async def claude(wire_server: WireServer) -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY, traits=lambda model: ADAPTIVE)
    yield provider
    await provider.close()


def without_id(event: object) -> StreamFinished:
    """Return the end of a stream without the id of its reply."""
    assert isinstance(event, StreamFinished)
    return replace(event, usage=replace(event.usage, reply=""))


def asked(text: str = "Hello?", **more: object) -> Request:
    return Request(MODEL, ask(text).messages, **more)  # type: ignore[arg-type]


async def test_body_on_the_wire_is_as_long_as_the_encoder_says(claude: AnthropicProvider, wire_server: WireServer):
    loop = asyncio.get_running_loop()

    @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def check(request: Request):
        wire_server.script = [answer("Hi")]
        asyncio.run_coroutine_threadsafe(collect(claude, request), loop).result()
        body, encoder = wire_server.requests[-1].body, claude.encoder(request.model)
        assert measured(encoder, request) == len(body)
        assert body == encoder.body(request)

    await asyncio.to_thread(check)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/proxy", "/proxy/v1"])
async def test_where_a_request_goes(wire_server: WireServer, path: str):
    address = wire_server.base_url.removesuffix("/v1") + path
    provider = AnthropicProvider("anthropic", address, KEY)
    wire_server.script = [answer("Hi"), page({"input_tokens": 3}), page({"data": []})]
    await collect(provider)
    await provider.count(ask())
    await provider.models()
    root = path.removesuffix("/").removesuffix("/v1")
    assert [request.path.partition("?")[0] for request in wire_server.requests] == [
        f"{root}/v1/messages",
        f"{root}/v1/messages/count_tokens",
        f"{root}/v1/models",
    ]
    assert provider.address == address
    await provider.close()


async def test_headers(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [answer("Hi"), answer("Hi"), page({"input_tokens": 1})]
    await collect(claude)
    await collect(claude, asked(level="high"))
    await claude.count(asked())
    plain, bound, counted = (request.headers for request in wire_server.requests)
    assert plain["authorization"] == f"Bearer {KEY}"
    assert plain["content-type"] == "application/json"
    assert plain["x-api-key"] == KEY  # here, where it is not Anthropic itself that listens
    assert plain["anthropic-version"].startswith("20")
    assert "anthropic-beta" not in plain  # "test-model" binds no thinking
    assert (bound["anthropic-beta"], counted["anthropic-beta"]) == (THINKING_BINDING_BETA, THINKING_BINDING_BETA)


def test_without_an_address_it_is_anthropics_own():
    provider = AnthropicProvider("anthropic", "", KEY)
    assert (provider.host, provider.address) == ("api.anthropic.com", "https://api.anthropic.com")
    client, _ = provider.connect()
    assert str(client.base_url).rstrip("/") == "https://api.anthropic.com"
    assert client.auth_headers == {"Authorization": f"Bearer {KEY}"}
    assert "X-Api-Key" not in client.default_headers


async def test_two_successive_requests_share_everything_but_what_is_new(
    claude: AnthropicProvider, wire_server: WireServer
):
    tools = (ToolSpec("ls", "List", '{"type":"object","properties":{"path":{"type":"string"}}}'),)
    conversation = asked("List it.").messages
    wire_server.script = [Answer(STREAMS["tools"]), answer("Two files."), answer("Yes.")]
    for _ in range(3):
        request = Request(MODEL, conversation, "Be brief.", tools, "low", 1000)
        blocks = reply(await collect(claude, request)).blocks()
        conversation += (Message(Role.ASSISTANT, blocks),)
        if calls := conversation[-1].calls:
            conversation += (Message(Role.TOOL, tuple(ToolResult(call.id, "a\nb") for call in calls)),)
        else:
            conversation += (Message(Role.USER, (Text("Sure?"),)),)
    bodies = [request.body for request in wire_server.requests]
    for earlier, later in zip(bodies, bodies[1:], strict=False):
        assert later.startswith(earlier.removesuffix(b'],"diagnostics":{"previous_message_id":null}}') + b",")
    assert len(json.loads(bodies[2])["messages"]) == 5


@pytest.mark.parametrize("name", MEANT)
async def test_golden_streams(claude: AnthropicProvider, wire_server: WireServer, name: str):
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Request-Id": "req_1"}
    wire_server.script = [Answer(STREAMS[name], headers=headers)]
    found = await collect(claude, asked())
    blocks, end = MEANT[name]
    assert reply(found).blocks() == blocks
    assert without_id(found[-1]) == StreamFinished(end.stop, end.usage, "req_1")
    assert isinstance(found[0], UsageUpdate)
    assert found[0].request_id == "req_1"


async def test_thinking_turn_with_tools_goes_back_as_it_came(claude: AnthropicProvider, wire_server: WireServer):
    wire_server.script = [Answer(STREAMS["redacted"]), answer("Good.")]
    message = Message(Role.ASSISTANT, reply(await collect(claude, asked())).blocks())
    await collect(claude, Request(MODEL, (*asked().messages, message, *asked("And?").messages)))
    assert wire_server.requests[1].json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw=="},
        {"type": "redacted_thinking", "data": "SecondOne+/=="},
        {"type": "text", "text": "Done."},
    ]
    foreign = Request("claude-opus-4-8", (*asked().messages, message, *asked("And?").messages))
    wire_server.script = [answer("Good.")]
    await collect(claude, foreign)
    assert [part["type"] for part in wire_server.requests[2].json["messages"][1]["content"]] == ["text"]


THOUGHT = (
    *asked().messages,
    Message(Role.ASSISTANT, (Thinking("hm", SIGNATURE, VENDOR), Text("Hi."))),
    *asked("And?").messages,
)
REFUSALS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
]


@pytest.mark.parametrize("words", REFUSALS)
async def test_thinking_that_is_refused_is_left_out(claude: AnthropicProvider, wire_server: WireServer, words: str):
    wire_server.script = [failure(400, words), answer("Good.")]
    assert reply(await collect(claude, Request(MODEL, THOUGHT))).text == "Good."
    first, second = (request.json for request in wire_server.requests)
    assert [part["type"] for part in first["messages"][1]["content"]] == ["thinking", "text"]
    assert [part["type"] for part in second["messages"][1]["content"]] == ["text"]
    wire_server.script = [answer("Still.")]
    await collect(claude, Request(MODEL, THOUGHT))
    assert wire_server.requests[-1].json == first, "the next request is none the poorer"


async def test_server_that_knows_no_controls_for_thinking_is_asked_without(
    claude: AnthropicProvider, wire_server: WireServer
):
    words = "thinking.adaptive.block_binding: Extra inputs are not permitted"
    wire_server.script = [failure(400, words), answer("Good."), answer("Good.")]
    for _ in range(2):
        assert reply(await collect(claude, Request(MODEL, THOUGHT))).text == "Good."
    assert ["block_binding" in request.json["thinking"] for request in wire_server.requests] == [True, False, False]
    assert ["anthropic-beta" in request.headers for request in wire_server.requests] == [True, False, False]
    assert "thinking" in str(wire_server.requests[1].json["messages"])


async def test_requests_that_are_refused_at_once_are_all_sent_without(
    claude: AnthropicProvider, wire_server: WireServer
):
    """Agents share a provider: what one of them has learned must not make the refusal of another final."""

    def refuse(received: Received) -> Answer:
        if "block_binding" not in received.json["thinking"]:
            return answer("Good.")
        refusal = failure(400, "thinking.adaptive.block_binding: Extra inputs are not permitted")
        refusal.pause = 0.3  # so that all requests are on their way
        return refusal

    wire_server.answer = refuse
    found = await asyncio.gather(*(collect(claude, Request(MODEL, THOUGHT)) for _ in range(3)))
    assert [reply(each).text for each in found] == ["Good."] * 3


@pytest.mark.parametrize("words", [*REFUSALS, "block_binding"])
async def test_same_request_is_never_sent_twice(claude: AnthropicProvider, wire_server: WireServer, words: str):
    wire_server.script = [failure(400, words)] * 9
    request = Request("test-model", asked().messages)  # no thinking to leave out
    [broke] = await collect(claude, request)
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, len(wire_server.requests)) == (FailureKind.REFUSED, 1)
    [broke] = await collect(claude, Request(MODEL, THOUGHT))
    bodies = [received.body for received in wire_server.requests]
    assert len(set(bodies)) == len(bodies) <= 4


async def test_server_is_asked_why_its_cache_missed(claude: AnthropicProvider, wire_server: WireServer):
    missed = {"diagnostics": {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}}}
    began, *others = spoken("Yes.")
    replies = {"id": "msg_1"}, {"id": "msg_2"} | missed
    wire_server.script = [
        Answer(
            sse(began | {"message": began["message"] | each}, *others), headers={"Content-Type": "text/event-stream"}
        )
        for each in replies
    ]
    one = (await collect(claude, asked()))[-1]
    assert isinstance(one, StreamFinished) and (one.usage.reply, one.usage.diagnosis) == ("msg_1", "")
    other = (await collect(claude, asked(previous_reply=one.usage.reply)))[-1]
    assert isinstance(other, StreamFinished) and (other.usage.reply, other.usage.diagnosis) == (
        "msg_2",
        "tools_changed",
    )
    sent = [json.loads(request.body)["diagnostics"] for request in wire_server.requests]
    assert sent == [{"previous_message_id": None}, {"previous_message_id": "msg_1"}]


async def test_server_that_does_not_diagnose_is_asked_without(claude: AnthropicProvider, wire_server: WireServer):
    refused = failure(400, "diagnostics: Extra inputs are not permitted")
    wire_server.script = [refused, answer("Yes."), answer("Yes.")]
    for _ in range(2):
        assert isinstance((await collect(claude, asked()))[-1], StreamFinished)
    assert ["diagnostics" in json.loads(request.body) for request in wire_server.requests] == [True, False, False]


@pytest.mark.ordinary("text-*", "tools-*", "overloaded-clean-*")
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.long, id="every")])
@pytest.mark.parametrize("end", ["clean", "reset"])
@pytest.mark.parametrize("name", [*MEANT, "overloaded"])
async def test_cut_anywhere(claude: AnthropicProvider, wire_server: WireServer, name: str, end: str, step: int):
    """At sampled bytes, and at every one of the last."""
    stream = STREAMS[name]
    whole = len(stream.rstrip())  # what is behind the last event's JSON does not matter
    for cut in [*range(0, whole - 12, step), *range(whole - 12, whole)]:
        wire_server.script = [Answer(stream, cut=cut, end=end)]
        found = await collect(claude, asked())
        assert isinstance(found[-1], StreamFailed), f"finished after {cut} of {len(stream)} bytes"
        assert found[-1].kind is (FailureKind.CUT if name != "overloaded" else found[-1].kind)
        assert found[-1].text
    if name == "overloaded":
        return
    wire_server.script = [Answer(stream, end=end)]
    found = await collect(claude, asked())
    if end == "clean":
        assert without_id(found[-1]) == MEANT[name][1]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (sse(END), ""),
        (sse(start()), ""),
        (sse(start(), said(0, "Half"), END), "Half"),
        (sse(start(), said(0, "Half"), finish()), "Half"),
        (sse(start(), said(0, "Half")) + b"event: message_delta\ndata: {not json}\n\n" + sse(finish(), END), "Half"),
        (sse(start(), said(0, "Half")) + b'event: x\ndata: "\xff\xfe"\n\n' + sse(finish(), END), "Half"),
        (sse(start(), said(0, "Half")) + b"event: x\ndata: " + b"[" * 100_000 + b"\n\n", "Half"),
        (b"<html>hello</html>", ""),
        (b"data: " + json.dumps(start()).encode() + b"\n\n", ""),
    ],
)
async def test_stream_without_its_end_marker_is_cut(
    claude: AnthropicProvider, wire_server: WireServer, body: bytes, text: str
):
    await is_cut(claude, wire_server, body, text)


async def test_what_is_no_event_is_passed_over(claude: AnthropicProvider, wire_server: WireServer):
    odd = b": hi\n\nevent: x\r\ndata: 7\r\n\r\nevent: y\ndata: [1]\n\nevent: z\ndata: null\n\nevent: ping\ndata: 1\n\n"
    wire_server.script = [Answer(odd + sse({"type": "new_event"}, *spoken("Hi")))]
    found = await collect(claude)
    assert [event for event in found if not isinstance(event, UsageUpdate)] == [
        TextDelta("Hi"),
        StreamFinished(StopReason.END, Usage(10, 5)),
    ]


async def test_two_finishes_and_what_comes_behind_them(claude: AnthropicProvider, wire_server: WireServer):
    late = [finish("max_tokens"), said(0, "late"), block(1, "tool_use", id="x", name="rm", input={}), END, *spoken("x")]
    wire_server.script = [Answer(sse(*spoken("Hi")[:-1], *late))]
    found = await collect(claude)
    assert reply(found).blocks() == (Text("Hi"),)
    assert found[-1] == StreamFinished(StopReason.END, Usage(10, 5))


async def test_ids_that_a_server_uses_twice(claude: AnthropicProvider, wire_server: WireServer):
    calls = [(n, id) for n, id in enumerate(["old", "a", "a", ""])]
    begun = [chunk for n, id in calls for chunk in (block(n, "tool_use", id=id, name="f", input={}), stop(n))]
    wire_server.script = [Answer(sse(start(), *begun, finish("tool_use"), END))]
    earlier = Message(Role.ASSISTANT, (ToolCall("old", "f"),))
    found = await collect(claude, Request(MODEL, (*asked().messages, earlier, *asked().messages)))
    ids = [call.id for call in reply(found).blocks() if isinstance(call, ToolCall)]
    assert len({"old", *ids}) == 5
    assert ids[1] == "a"


HALF = sse(start(), block(0, "text", text=""), said(0, "Half"))
THINKS = sse(start(), block(0, "thinking", thinking="", signature=""))


@pytest.mark.parametrize(
    ("body", "seconds"),
    [(b"", 0.4), (sse(start()), 0.4), (THINKS, 0.4), (HALF, 0.2), (HALF + THINKS, 0.4), (sse(*spoken("Hi")), None)],
)
async def test_server_that_falls_silent(wire_server: WireServer, body: bytes, seconds: float | None):
    wire_server.script = [Answer(body, end="hang")]
    first = 0.4 if seconds == 0.4 else 30  # what is to be seen before the silence may come late
    provider = AnthropicProvider("anthropic", wire_server.base_url, KEY, first=first, idle=0.2)
    await provider.preload()
    found = await collect(provider)
    if seconds is None:
        assert found[-1] == StreamFinished(StopReason.END, Usage(10, 5))
    else:
        assert isinstance(found[-1], StreamFailed)
        assert found[-1].kind is FailureKind.CUT
        assert found[-1].text == f"anthropic sent nothing for {seconds} seconds."
    if wire_server.requests:  # none, if the time was over before it was sent
        await asyncio.wait_for(wire_server.hung_up.wait(), 60)
    await provider.close()


def test_nothing_of_the_environment_is_taken_for_ours(wire_server: WireServer, tmp_path: Path):
    """In a process of its own: the SDK reads some of these when it is loaded."""
    profile = tmp_path / "configs"
    profile.mkdir()
    (profile / "default.json").write_text(
        '{"base_url": "http://127.0.0.1:9", "authentication": {"type": "user_oauth"}}'
    )
    leaks = {
        "ANTHROPIC_API_KEY": "leaked",
        "ANTHROPIC_AUTH_TOKEN": "leaked",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/leaked",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Leaked: leaked\nAuthorization: Bearer leaked",
        "ANTHROPIC_CONFIG_DIR": str(tmp_path),
        "ANTHROPIC_PROFILE": "default",
    }
    code = """
import asyncio
from ikigai.core.events.messages import Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.providers.anthropic.provider import AnthropicProvider

assert str(AnthropicProvider("anthropic").connect()[0].base_url).rstrip("/") == AnthropicProvider.OWN_ADDRESS

async def main(address):
    for key in "", "ours":
        provider = AnthropicProvider("anthropic", address, key)
        request = Request("m", (Message(Role.USER, (Text("Hi"),)),))
        print([event async for event in provider.stream(request)][-1])
        print(await provider.count(request))
        await provider.close()

import sys
asyncio.run(main(sys.argv[1]))
"""

    async def serve() -> list[str]:
        async with WireServer([answer("Hi"), page({"input_tokens": 1})] * 2) as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, server.base_url, env=os.environ | leaks, stdout=subprocess.PIPE
            )
            printed, _ = await process.communicate()
            assert printed.count(b"Finished") == 2, printed
            return [str(request.headers) for request in server.requests]

    headers = asyncio.run(serve())
    assert len(headers) == 4
    assert "leaked" not in str(headers).lower()
    assert [("Bearer ours" in one) for one in headers] == [False, False, True, True]


def test_one_encoder_for_each_model():
    provider = AnthropicProvider("anthropic", "", KEY, traits=lambda model: ModelTraits(images="blind" not in model))
    assert provider.encoder("a") is provider.encoder("a")
    assert provider.encoder("a") is not provider.encoder("blind")


async def test_long_signature_comes_whole(claude: AnthropicProvider, wire_server: WireServer):
    long = "x" * 100_000
    thinks = [block(0, "thinking", thinking=""), delta(0, "signature_delta", signature=long), stop(0)]
    wire_server.script = [Answer(sse(start(), *thinks, *spoken("Hi")[1:]))]
    assert reply(await collect(claude, asked())).blocks()[0] == Thinking("", long, VENDOR)
