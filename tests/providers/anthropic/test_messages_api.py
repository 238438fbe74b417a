"""The Messages format without a server: the body of a request, and what chunks of a stream mean."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

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
from ikigai.core.request.build import Request, pair_calls
from ikigai.core.request.cross_model import CrossModelFormat, fit_message
from ikigai.core.request.reply import (
    FailureKind,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.providers.anthropic import models as claude
from ikigai.providers.anthropic.messages_api import THINKING_BINDING_BETA, MessagesEncoder
from ikigai.providers.anthropic.messages_reader import MessagesReader
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.models.models import ModelTraits
from tests.providers.anthropic.messages_wire import (
    END,
    MEANT,
    MODEL,
    SIGNATURE,
    STREAMS,
    VENDOR,
    block,
    delta,
    finish,
    said,
    spoken,
    start,
    stop,
)
from tests.providers.conftest import ask, measured, reply
from tests.providers.requests import assistants, images, requests, results, users, words
from tests.support.examples import examples

ADAPTIVE = ModelTraits("adaptive", ("off", "low", "med", "high"), max_output=64_000)
TRAITS = [ModelTraits(), ADAPTIVE, ModelTraits("budget", images=False), ModelTraits("budget", max_output=2_000)]

pictures = st.lists(images | st.builds(Text, words), min_size=1, max_size=3).map(
    lambda blocks: Message(Role.USER, tuple(blocks))
)
thoughts = st.builds(
    Thinking, words, words, st.sampled_from([VENDOR, f"{VENDOR}#redacted", "anthropic/claude-x", "openai/gpt-5", ""])
)
thinkers = st.lists(thoughts | st.builds(Text, words), min_size=1, max_size=4).map(
    lambda blocks: Message(Role.ASSISTANT, tuple(blocks))
)
histories = st.lists(users | pictures | assistants | thinkers | results, min_size=1, max_size=8).map(tuple)


def sent(encoder: MessagesEncoder, request: Request) -> dict[str, Any]:
    return json.loads(encoder.body(request))


def test_request_in_its_wire_form():
    png = Image("image/png", "QUJD", 100, 50, "cat.png")
    request = Request(
        model=MODEL,
        system="Be brief.",
        messages=(
            Message(Role.USER, (png, Text("List it."))),
            Message(
                Role.ASSISTANT,
                (
                    Thinking("foreign", "sig", "openai/gpt-5"),
                    Thinking("mine", SIGNATURE, VENDOR),
                    Thinking("", "data==", f"{VENDOR}#redacted"),
                    Thinking("mine, but unsigned", "", VENDOR),
                    Text("I look."),
                    ToolCall("c1", "ls", '{"z": 1,\n "a":  1.0}'),
                    ToolCall("c 2", "cat", "{}", malformed="{"),
                ),
            ),
            Message(Role.TOOL, (ToolResult("c1", "a\nb", name="ls"), ToolResult("c 2", "", is_error=True, name="cat"))),
        ),
        tools=(ToolSpec("ls", "List files", '{"type":"object","properties":{"path":{"type":"string"}}}'),),
        level="med",
        max_output=100,
    )
    encoder = MessagesEncoder(MODEL, ADAPTIVE)
    body = encoder.body(request)
    odd = sent(encoder, request)["messages"][1]["content"][-1]["id"]
    cached = {"type": "ephemeral"}
    assert json.loads(body) == {
        "model": MODEL,
        "max_tokens": 100,
        "stream": True,
        "thinking": {
            "type": "adaptive",
            "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
        "output_config": {"effort": "medium"},
        "tools": [
            {
                "name": "ls",
                "description": "List files",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                "cache_control": cached,
            }
        ],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
        "cache_control": cached,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                    {"type": "text", "text": "List it."},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "mine", "signature": SIGNATURE},
                    {"type": "redacted_thinking", "data": "data=="},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "ls", "input": {"z": 1, "a": 1.0}},
                    {"type": "tool_use", "id": odd, "name": "cat", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a\nb"},
                    {"type": "tool_result", "tool_use_id": odd, "content": "[empty]", "is_error": True},
                ],
            },
        ],
    }
    assert b'"input":{"z": 1,\n "a":  1.0}' in body  # byte for byte
    assert encoder.beta(request) == THINKING_BINDING_BETA
    assert list(json.loads(body))[-1] == "messages"


@settings(max_examples=examples(75), deadline=None)
@given(requests, histories, st.sampled_from(TRAITS), st.sampled_from([MODEL, "claude-haiku-4-5", "smol"]))
def test_sizes_add_up_images_too(request_: Request, history: tuple[Message, ...], traits: ModelTraits, model: str):
    request = Request(model, history, request_.system, request_.tools, request_.level, request_.max_output)
    encoder = MessagesEncoder(model, traits)
    assert measured(encoder, request) == len(encoder.body(request))


@settings(max_examples=examples(75), deadline=None)
@given(requests, histories, st.sampled_from(TRAITS), st.sampled_from([MODEL, "claude-opus-4-6", "claude-haiku-4-5"]))
def test_any_history_is_a_request_by_the_sdks_own_types(
    request_: Request, history: tuple[Message, ...], traits: ModelTraits, model: str
):
    messages = pair_calls(history, frozenset())
    request = Request(model, messages, request_.system, request_.tools, request_.level, request_.max_output)
    body = sent(MessagesEncoder(model, traits), request)
    assert _validated(body) == body
    assert _breakpoints(body) <= 4
    for message in body["messages"]:
        assert message["content"]
        assert all(part["text"].strip() for part in message["content"] if part["type"] == "text")
    calls: list[str] = []
    for message in body["messages"]:
        answers = [part["tool_use_id"] for part in message["content"] if part["type"] == "tool_result"]
        assert answers == calls, "an orphan"
        calls = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
    assert not calls


def _validated(body: Any) -> Any:
    """The body as the SDK's types take it, field for field; what they do not know is missing."""
    return _read(_types().validate_python(body))


@cache
def _types() -> Any:
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParamsStreaming)  # the beta's types know all that the others do, and block_binding


def _read(value: Any) -> Any:
    """Iterables are validated as they are read."""
    if isinstance(value, dict):
        return {name: _read(inner) for name, inner in value.items()}
    return [_read(inner) for inner in value] if hasattr(value, "__iter__") and not isinstance(value, str) else value


def _breakpoints(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(_breakpoints, value.values()))
    return sum(map(_breakpoints, value)) if isinstance(value, list) else 0


def test_types_notice_what_they_do_not_know():
    body = sent(MessagesEncoder(MODEL), ask())
    assert _validated(body) == body
    assert _validated(body | {"temperatur": 1}) != body | {"temperatur": 1}
    with pytest.raises(ValueError, match="validation error"):
        _validated(body | {"messages": [{"role": "tool", "content": []}]})
    body["messages"][0]["content"][0]["colour"] = "red"
    assert _validated(body) != body


@given(histories)
def test_only_what_a_model_thought_itself_goes_back_to_it(history: tuple[Message, ...]):
    encoder = MessagesEncoder(MODEL)
    own = [
        (block.text, block.signature) if not block.vendor.endswith("#redacted") else block.signature
        for message in history
        for block in message.blocks
        if isinstance(block, Thinking) and block.signature and block.vendor.startswith(VENDOR)
    ]
    parts = [part for message in sent(encoder, Request(MODEL, history))["messages"] for part in message["content"]]
    found = [
        (part["thinking"], part["signature"]) if part["type"] == "thinking" else part["data"]
        for part in parts
        if part["type"] in ("thinking", "redacted_thinking")
    ]
    assert found == own
    without = MessagesEncoder(MODEL, thoughts=False).body(Request(MODEL, history))
    assert b'"thinking"' not in without
    assert b"redacted_thinking" not in without


def test_thinking_alone_is_followed_by_a_word():
    message = Message(Role.ASSISTANT, (Thinking("hm", "s", VENDOR),))
    [entry] = MessagesEncoder(MODEL).entries(fit_message(message, CrossModelFormat(VENDOR)))
    assert [part["type"] for part in entry["content"]] == ["thinking", "text"]


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "nul", '{"a": NaN}', '{"a":1} {}', "[" * 100_000])
def test_arguments_that_are_no_object_never_reach_the_body(arguments: str):
    message = Message(Role.ASSISTANT, (ToolCall("c", "ls", arguments),))
    body = sent(MessagesEncoder(MODEL), Request(MODEL, (message,)))
    assert body["messages"][0]["content"][0]["input"] == {}


BOUND = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
SHOWN = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("model", "form", "level", "thinking", "effort"),
    [
        ("claude-sonnet-5-5", "adaptive", "", SHOWN | BOUND, None),
        ("claude-sonnet-5-5", "adaptive", "low", SHOWN | BOUND, "low"),
        ("claude-sonnet-5-5", "adaptive", "off", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "adaptive", "off", {"type": "disabled"}, None),
        ("claude-opus-5-5", "adaptive", "off", SHOWN | BOUND, "low"),  # it cannot be turned off
        ("claude-fable-5", "adaptive", "", SHOWN, None),
        ("claude-fable-5-1", "adaptive", "high", SHOWN | BOUND, "high"),
        ("claude-mythos-preview", "adaptive", "", SHOWN, None),
        ("claude-opus-5", "adaptive", "", SHOWN, None),
        ("claude-opus-5", "adaptive", "med", SHOWN, "medium"),
        ("claude-opus-5", "adaptive", "off", {"type": "disabled"}, None),
        ("claude-opus-4-8", "adaptive", "", None, None),  # it does not think unless it is asked to
        ("claude-opus-4-8", "adaptive", "min", SHOWN, "low"),
        ("claude-opus-4-8", "adaptive", "off", {"type": "disabled"}, None),
        ("anthropic/claude-opus-4.6", "adaptive", "high", SHOWN, "high"),
        ("claude-haiku-4-5", "budget", "", None, None),
        ("claude-haiku-4-5", "budget", "off", {"type": "disabled"}, None),
        ("claude-haiku-4-5", "budget", "min", {"type": "enabled", "budget_tokens": 1024}, None),
        ("claude-haiku-4-5", "budget", "low", {"type": "enabled", "budget_tokens": 4096}, None),
        ("claude-haiku-4-5", "budget", "med", {"type": "enabled", "budget_tokens": 12_288}, None),
        ("claude-haiku-4-5", "budget", "high", {"type": "enabled", "budget_tokens": 24_576}, None),
        ("claude-3-haiku-20240307", "", "high", None, None),
        ("smol", "", "", None, None),
    ],
)
def test_levels(model: str, form: str, level: str, thinking: object, effort: str | None):
    levels = ("low", "med", "high") if "opus-5-5" in model else ("off", "low", "med", "high")
    encoder = MessagesEncoder(model, ModelTraits(form, levels, off="between_tools" if "sonnet-5-5" in model else ""))
    request = Request(model, ask().messages, level=level)
    body = sent(encoder, request)
    assert body.get("thinking") == thinking
    assert body.get("output_config") == ({"effort": effort} if effort else None)
    assert encoder.beta(request) == (THINKING_BINDING_BETA if "block_binding" in str(thinking) else "")
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("asked", "most", "level", "limit", "budget"),
    [
        (0, 0, "", 8192, None),
        (0, 64_000, "", 64_000, None),
        (100, 64_000, "", 100, None),
        (100_000, 64_000, "", 64_000, None),
        (32_768, 64_000, "high", 32_768, 24_576),  # it already holds the budget
        (20_000, 64_000, "high", 8192 + 24_576, 24_576),
        (8192, 64_000, "high", 8192 + 24_576, 24_576),
        (8192, 0, "high", 8192 + 24_576, 24_576),
        (0, 64_000, "high", 64_000, 24_576),
        (8192, 8192, "high", 8192, 8192 - 1024),
        (8192, 8192, "low", 8192, 4096),
        (0, 1500, "low", 1500, 1024),
        (0, 1024, "low", 1024, None),  # no room to think
    ],
)
def test_max_tokens_are_more_than_the_budget(asked: int, most: int, level: str, limit: int, budget: int | None):
    encoder = MessagesEncoder("claude-haiku-4-5", ModelTraits("budget", max_output=most))
    body = sent(encoder, Request("claude-haiku-4-5", ask().messages, level=level, max_output=asked))
    assert body["max_tokens"] == limit
    assert body.get("thinking", {}).get("budget_tokens") == budget


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("claude-opus-4-6", 200, 200, 64),
        ("claude-opus-4-6", 1000, 1000, 1296),
        ("claude-opus-4-6", 1092, 1092, 1521),
        ("claude-haiku-4-5-20251001", 1568, 1568, 1568),
        ("claude-3-5-sonnet-20241022", 8000, 100, 56),  # scaled to 1568 × 20
        ("claude-opus-4-20250514", 4000, 4000, 1568),
        ("claude-opus-4-7", 1568, 1568, 3136),
        ("claude-sonnet-5-5", 2576, 2576, 4784),
        ("smol", 4000, 4000, 4784),
        ("smol", 1, 1, 1),
        ("smol", 0, 0, 1),
    ],
)
def test_tokens_of_images(model: str, width: int, height: int, tokens: int):
    assert claude.image_tokens(model, Image("image/png", "", width, height)) == tokens


def test_what_is_counted_is_the_request_without_what_only_generation_needs():
    encoder = MessagesEncoder(MODEL, ADAPTIVE)
    request = ask("Hi", system="Be brief.", level="low", tools=(ToolSpec("ls", "", '{"type":"object"}'),))
    counted, body = json.loads(encoder.countable(request)), sent(encoder, request)
    assert counted == {name: value for name, value in body.items() if name not in ("max_tokens", "stream")}
    ended = Request(MODEL, (*request.messages, Message(Role.ASSISTANT, (Text("Hello. "),))))
    assert [entry["role"] for entry in json.loads(encoder.countable(ended))["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


def read(*chunks: object, taken: frozenset[str] = frozenset()) -> tuple[list[Any], StreamFinished | StreamFailed]:
    """Return the events of the pure reader for these chunks, and its end."""
    ids = iter(f"new_{number}" for number in range(1, 100))
    reader = MessagesReader(RequestTarget("anthropic", MODEL, "http://x"), taken, lambda: next(ids))
    return [event for one in chunks for event in reader.events(one)], reader.end()


def chunks(stream: bytes) -> list[Any]:
    lines = stream.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("name", MEANT)
def test_golden_streams(name: str):
    found, end = read(*chunks(STREAMS[name]))
    assert (reply(found).blocks(), end) == MEANT[name]


def test_golden_stream_that_breaks():
    found, _ = read(*chunks(STREAMS["overloaded"]))
    assert isinstance(found[-1], StreamFailed)
    assert (found[-1].kind, found[-1].text) == (FailureKind.OVERLOADED, "anthropic could not answer: Overloaded.")
    assert STREAMS.keys() == {*MEANT, "overloaded"}


@pytest.mark.parametrize("name", MEANT)
def test_what_was_read_is_sent_back_as_it_came(name: str):
    found, _ = read(*chunks(STREAMS[name]))
    message = Message(Role.ASSISTANT, reply(found).blocks())
    [entry] = MessagesEncoder(MODEL).entries(fit_message(message, CrossModelFormat(VENDOR)))
    came = [chunk["content_block"]["type"] for chunk in chunks(STREAMS[name]) if chunk["type"] == "content_block_start"]
    assert [part["type"] for part in entry["content"]] == (came or ["text"])


@pytest.mark.parametrize("name", MEANT)
def test_stream_is_whole_with_its_last_event_and_not_before(name: str):
    found = chunks(STREAMS[name])
    for cut in range(len(found)):
        assert isinstance(read(*found[:cut])[1], StreamFailed)
    without = [chunk for chunk in found if chunk["type"] != "message_delta"]
    assert isinstance(read(*without)[1], StreamFailed), "message_stop without a stop_reason"


def use(index: object, id: object = "a", name: object = "f", **fields: object) -> dict[str, Any]:
    return block(index, "tool_use", id=id, name=name, **({"input": {}} | fields))


def args(index: object, piece: object) -> dict[str, Any]:
    return delta(index, "input_json_delta", partial_json=piece)


CALL_SHAPES = {
    "pieces": ([use(0), args(0, '{"x"'), args(0, ":1}"), stop(0)], [("a", "f", '{"x":1}')]),
    "no arguments": ([use(0), stop(0)], [("a", "f", "{}")]),
    "all at once": ([use(0, input={"x": "é"}), stop(0)], [("a", "f", '{"x": "\\u00e9"}')]),
    "all at once, and no end": ([use(0, input={"x": 1})], [("a", "f", '{"x": 1}')]),
    "all at once as a text": ([use(0, input='{"x": 1}'), stop(0)], [("a", "f", '{"x": 1}')]),
    "at once and in pieces": ([use(0, input={"x": 1}), args(0, '{"x":2}'), stop(0)], [("a", "f", '{"x":2}')]),
    "not JSON": ([use(0), args(0, '{"x": '), stop(0)], [("a", "f", "{}")]),
    "interleaved": (
        [use(1, "a", "f"), use(0, "b", "g"), args(1, '{"x":'), args(0, '{"y":2}'), args(1, "1}"), stop(1), stop(0)],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "no id, an old one, one twice": (
        [use(0, ""), use(1, "old"), use(2, None), use(3, "a"), use(4, "a")],
        [("new_1", "f", "{}"), ("new_2", "f", "{}"), ("new_3", "f", "{}"), ("a", "f", "{}"), ("new_4", "f", "{}")],
    ),
    "the same index twice": (
        [use(0, "a"), args(0, '{"x":1}'), stop(0), use(0, "b"), args(0, '{"y":2}'), stop(0)],
        [("a", "f", '{"x":1}'), ("b", "f", '{"y":2}')],
    ),
    "no index": ([use(None), args(None, "{}"), stop(None)], [("a", "f", "{}")]),
    "pieces of nothing": ([args(7, '{"x":1}'), use(0), args([], "{}"), stop("x"), stop(9)], [("a", "f", "{}")]),
    "null fields": ([use(0, name=None, input=None), args(0, None), stop(0)], [("a", "", "{}")]),
}


@pytest.mark.parametrize("shape", CALL_SHAPES)
def test_calls_in_the_shapes_that_servers_send(shape: str):
    pieces, expected = CALL_SHAPES[shape]
    found, end = read(start(), *pieces, finish(), END, taken=frozenset({"old"}))
    assert [(call.id, call.name, call.arguments) for call in reply(found).blocks()] == expected
    assert isinstance(end, StreamFinished)
    assert end.stop is StopReason.TOOLS


def test_arguments_that_are_not_json_are_kept_apart():
    found, _ = read(use(0), args(0, '{"x": '), stop(0), finish("tool_use"), END)
    assert reply(found).blocks() == (ToolCall("a", "f", "{}", malformed='{"x": '),)


@pytest.mark.parametrize(
    ("reason", "stop_"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("pause_turn", StopReason.END),  # without any search
        ("tool_use", StopReason.END),  # without any call
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("something new", StopReason.END),
    ],
)
def test_stop_reasons(reason: str, stop_: StopReason):
    assert read(start(), finish(reason), END)[1] == StreamFinished(stop_, Usage(10, 5))


def test_refusal_that_had_begun_to_speak_is_not_explained():
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "No."}}}
    assert reply(read(start(), block(0, "text", text=""), said(0, "Well"), end, END)[0]).text == "Well"


def test_first_stop_reason_counts_and_nothing_behind_it_is_believed():
    found, end = read(
        start(),
        block(0, "text", text=""),
        said(0, "a"),
        finish("max_tokens"),
        said(0, "late"),
        use(1, "x", "rm"),
        args(1, "{}"),
        finish("tool_use", output_tokens=7),
        END,
        finish("refusal", output_tokens=9),
        *spoken("another"),
        {"type": "error", "error": {"type": "api_error", "message": "late"}},
    )
    assert [event for event in found if not isinstance(event, UsageUpdate)] == [TextDelta("a")]
    assert end == StreamFinished(StopReason.LENGTH, Usage(10, 7))


def test_stop_without_a_reason_is_none():
    assert isinstance(read(start(), finish(None), END)[1], StreamFailed)
    assert isinstance(read(start(), finish(""), END)[1], StreamFailed)
    assert isinstance(read(start(), END, finish("end_turn"))[1], StreamFailed)


def test_thinking_is_told_of_before_it_says_anything():
    assert read(block(0, "thinking", thinking="", signature=""))[0] == [ThinkingDelta("", vendor=VENDOR)]


def test_signature_closes_its_block_wherever_it_stands():
    def signed(*pieces: object) -> object:
        return reply(read(block(0, "thinking", thinking="a"), *pieces)[0]).blocks()[0]

    signature = delta(0, "signature_delta", signature="s")
    assert signed(signature, stop(0)) == Thinking("a", "s", VENDOR)
    assert signed(signature, block(1, "text", text="x")) == Thinking("a", "s", VENDOR)
    assert signed(signature, finish()) == Thinking("a", "s", VENDOR)
    assert signed(delta(0, "signature_delta", signature="no"), signature, stop(0)) == Thinking("a", "s", VENDOR)
    assert signed(block(1, "text", text="x"), signature, stop(0)) == Thinking("a", "", VENDOR), "too late"
    assert reply(read(block(0, "thinking", thinking="a", signature="s"), stop(0))[0]).blocks() == (
        Thinking("a", "s", VENDOR),
    )


def test_blocks_and_deltas_of_unknown_kinds_are_passed_over():
    found, end = read(
        start(),
        {"type": "ping"},
        block(0, "server_tool_use", id="s", name="code_execution", input={}),
        args(0, '{"query": "x"}'),
        stop(0),
        block(1, "text", text="Hi"),
        delta(1, "citations_delta", citation={}),
        {"type": "vendor_event"},
        said(5, " there"),  # of a block that never began
        finish("end_turn"),
        END,
    )
    assert reply(found).blocks() == (Text("Hi there"),)
    assert end == StreamFinished(StopReason.END, Usage(10, 5))


def test_usage_counts_what_was_read_from_the_cache_and_written_to_it():
    found, end = read(
        start(input_tokens=5, cache_read_input_tokens=100, cache_creation_input_tokens=20),
        finish(output_tokens=30),
        END,
    )
    assert [event.usage for event in found if isinstance(event, UsageUpdate)] == [
        Usage(125, 1, cached=100, written=20),
        Usage(125, 30, cached=100, written=20),
    ]
    assert end == StreamFinished(StopReason.END, Usage(125, 30, cached=100, written=20))


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"output_tokens": -1}, {"output_tokens": 10**30, "x": {}}])
def test_strange_usage_counts_as_nothing(usage: object):
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    assert read(end, END)[1] == StreamFinished(StopReason.END)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, FailureKind.OVERLOADED),
        ({"type": "api_error", "message": "Internal server error"}, FailureKind.OVERLOADED),
        ({"type": "timeout_error", "message": ""}, FailureKind.OVERLOADED),
        ({"type": "rate_limit_error", "message": "slow"}, FailureKind.RATE),
        ({"type": "authentication_error", "message": "who"}, FailureKind.AUTH),
        ({"type": "permission_error", "message": "no"}, FailureKind.AUTH),
        ({"type": "billing_error", "message": "pay"}, FailureKind.QUOTA),
        ({"type": "not_found_error", "message": "model"}, FailureKind.NOT_FOUND),
        ({"type": "invalid_request_error", "message": "bad"}, FailureKind.REFUSED),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, FailureKind.CONTEXT),
        ({"type": "invalid_request_error", "message": "Your credit balance is too low to access"}, FailureKind.QUOTA),
    ],
)
def test_errors_in_the_stream(error: object, kind: FailureKind):
    [broke], end = read({"type": "error", "error": error})
    assert isinstance(broke, StreamFailed)
    assert broke.kind is kind
    assert isinstance(end, StreamFailed)


KINDS = [chunk["type"] for chunk in spoken("")] + ["content_block_delta", "error", "ping", "text", "thinking"]
KINDS += ["redacted_thinking", "tool_use", "text_delta", "thinking_delta", "signature_delta", "input_json_delta"]
FIELDS = ["type", "index", "content_block", "delta", "message", "usage", "stop_reason", "text", "thinking", "signature"]
FIELDS += ["data", "id", "name", "input", "partial_json", "output_tokens", "error", "stop_details", "explanation"]
FIELDS += ["output_tokens_details", "thinking_tokens"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.floats() | st.text(max_size=3) | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(json_values | st.sampled_from([*spoken("x"), use(0), args(0, "{"), stop(0)]), max_size=8))
@settings(max_examples=examples(200))
def test_no_chunk_of_any_shape_breaks_the_reader(pieces: list[object]):
    found, end = read(*pieces)
    assert all(
        isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta | UsageUpdate | StreamFailed) for event in found
    )
    assert isinstance(end, StreamFinished | StreamFailed)
    reply(found).blocks()


@pytest.mark.parametrize("ttl", ["", "5m", "1h"])
def test_lifetime_of_the_cache_stands_at_every_breakpoint_and_changes_no_size(ttl: str):
    encoder = MessagesEncoder(MODEL, lifetimes=True)
    request = replace(ask(), system="Be brief.", tools=(ToolSpec("look", "Looks.", "{}"),), cache_ttl=ttl)
    body = encoder.body(request)
    assert body.count(b'"cache_control":{"type":"ephemeral","ttl":"%b"}' % (ttl or "5m").encode()) == 3
    assert len(body) == encoder.envelope(request) + sum(map(encoder.message, request.messages))
    assert b"ttl" not in MessagesEncoder(MODEL).body(request), "other servers may not know it"


def test_tokens_written_for_an_hour_are_counted():
    reader = MessagesReader(RequestTarget("anthropic", MODEL, ""))
    counts = {"input_tokens": 3, "cache_creation_input_tokens": 50, "cache_creation": {"ephemeral_1h_input_tokens": 40}}
    [update] = reader.events({"type": "message_start", "message": {"usage": counts}})
    assert isinstance(update, UsageUpdate) and (update.usage.written, update.usage.written_1h) == (50, 40)


def after_calls(calls: int) -> Request:
    """Return the request behind a reply with this many calls, whose results have come."""
    made = tuple(ToolCall(f"c{n}", "look", "{}") for n in range(calls))
    results = tuple(ToolResult(call.id, "seen", name="look") for call in made)
    messages = (*ask("Look.").messages, Message(Role.ASSISTANT, made), Message(Role.TOOL, results))
    return replace(ask(), messages=messages, system="Be brief.", tools=(ToolSpec("look", "Looks.", "{}"),))


@pytest.mark.parametrize(("calls", "breakpoints"), [(1, 3), (9, 3), (10, 4), (40, 4)])
def test_breakpoint_stands_at_the_previous_end_where_the_server_would_not_find_it(calls: int, breakpoints: int):
    request = after_calls(calls)
    body = MessagesEncoder(MODEL, lifetimes=True).body(replace(request, cache_ttl="1h"))
    assert body.count(b'"cache_control":{"type":"ephemeral","ttl":"1h"}') == breakpoints
    first = json.loads(body)["messages"][0]["content"][-1]
    assert ("cache_control" in first) is (breakpoints == 4)
    plain = MessagesEncoder(MODEL).body(ask("Look."))
    assert b'"cache_control"' not in plain[plain.index(b'"messages"') :]


def test_marks_of_one_request_are_not_kept_for_the_next():
    encoder, request = MessagesEncoder(MODEL), after_calls(40)
    encoder.body(request)
    said = (Message(Role.ASSISTANT, (Text("Done."),)), Message(Role.USER, (Text("And?"),)))
    again = encoder.body(replace(request, messages=request.messages + said))
    assert b'"cache_control"' not in again[again.index(b'"messages"') :]
