"""The Chat Completions format without a server: the body of a request, and what chunks of a stream mean."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from ikigai.core.request.reply import (
    FailureKind,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.openai.chat_reader import ChatReader
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import ask, measured, reply
from tests.providers.requests import requests
from tests.support.examples import examples
from tests.support.wire_server import chunk


@given(requests)
def test_encoder_is_exact_for_the_official_form_too(request_: Request):
    encoder = ChatEncoder(official=True)
    body = encoder.body(request_)
    assert measured(encoder, request_) == len(body)
    assert body == json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode()


def wire(request: Request) -> dict[str, object]:
    return json.loads(ChatEncoder().body(request))


def test_request_in_its_wire_form():
    request = Request(
        model="gpt-x",
        system="Be brief.",
        messages=(
            Message(Role.USER, (Text("List it."),)),
            Message(
                Role.ASSISTANT,
                (Thinking("secret", "sig", "anthropic"), Text("I look."), ToolCall("c1", "ls", '{"path": "."}')),
            ),
            Message(Role.TOOL, (ToolResult("c1", "a\nb"), ToolResult("c2", "", is_error=True))),
            Message(Role.ASSISTANT, (ToolCall("c3", "ls"),)),
            Message(Role.TOOL, (ToolResult("c3", "x"),)),
            Message(Role.ASSISTANT, (Thinking("only thought"),)),
        ),
        tools=(ToolSpec("ls", "List files", '{"type":"object","properties":{"path":{"type":"string"}}}'),),
        level="med",
        max_output=100,
    )
    assert wire(request) == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "List it."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
            {"role": "tool", "tool_call_id": "c2", "content": "[error] [empty]"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c3", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c3", "content": "x"},
            {"role": "assistant", "content": "[empty]"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "ls",
                    "description": "List files",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                },
            }
        ],
        "reasoning_effort": "medium",
        "max_tokens": 100,
    }


def test_images_stand_where_they_were_shown():
    image = Image("image/png", "aGk=", 64, 32, "a.png")
    request = Request("m", (Message(Role.USER, (image, Text("What is it?"))), Message(Role.USER, (image,))))
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert wire(request)["messages"] == [
        {"role": "user", "content": [part, {"type": "text", "text": "What is it?"}]},
        {"role": "user", "content": [part]},
    ]
    blind = json.loads(ChatEncoder(images=False).body(request))["messages"]
    words = "[image a.png left out: this model sees no images]"
    assert blind == [{"role": "user", "content": f"{words}\n\nWhat is it?"}, {"role": "user", "content": words}]


def test_images_are_counted_by_openais_formula_at_openai_alone():
    image = Image("image/png", "x" * 10_000, 1024, 1024)
    assert ChatEncoder(official=True).image_tokens(image) == 1659
    assert ChatEncoder().image_tokens(image) == 150


@pytest.mark.parametrize(
    ("level", "effort"),
    [
        ("", None),
        ("off", "none"),
        ("min", "minimal"),
        ("low", "low"),
        ("med", "medium"),
        ("high", "high"),
        ("max", "max"),
    ],
)
def test_levels(level: str, effort: str | None):
    assert wire(ask(level=level)).get("reasoning_effort") == effort


@pytest.mark.parametrize(
    ("address", "official"),
    [
        ("", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("https://api.openai.com.evil.example/v1", False),
        ("http://localhost:8080/v1", False),
    ],
)
def test_only_openai_itself_gets_max_completion_tokens(address: str, official: bool):
    encoder = OpenAIProvider("openai", address, api="chat").encoder("test-model")
    limits = {"max_completion_tokens", "max_tokens"}
    sent = json.loads(encoder.body(ask(max_output=8192))).keys() & limits
    assert sent == {"max_completion_tokens" if official else "max_tokens"}
    assert not limits & json.loads(encoder.body(ask())).keys()


def call(**fields: object) -> dict[str, object]:
    return chunk({"tool_calls": [fields]})


FUNCTION = {"name": "g", "arguments": "{}"}
CALL_SHAPES = {
    "no index": (
        [
            call(id="a", function={"name": "f", "arguments": '{"x":'}),
            call(function={"arguments": "1}"}),
            call(id="b", function=FUNCTION),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")],
    ),
    "one index for all": (
        [call(index=0, id="a", function={"name": "f", "arguments": "{}"}), call(index=0, id="b", function=FUNCTION)],
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "index gaps": (
        [
            call(index=3, id="a", function={"name": "f", "arguments": ""}),
            call(index=7, id="b", function={"name": "g", "arguments": ""}),
            call(index=3, function={"arguments": "{}"}),
            call(index=7, function={"arguments": "{}"}),
        ],
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "id and name with every piece": (
        [call(index=0, id="a", function={"name": "f", "arguments": piece}) for piece in ('{"x"', ":1", "}")],
        [("a", "f", '{"x":1}')],
    ),
    "name in pieces": (
        [call(index=0, id="a", function={"name": "li"}), call(index=0, function={"name": "st", "arguments": "{}"})],
        [("a", "list", "{}")],
    ),
    "no id": (
        [call(index=0, function={"name": "f", "arguments": "{}"}), call(index=1, id="", function={"name": "g"})],
        [("new_1", "f", "{}"), ("new_2", "g", "{}")],
    ),
    "id twice, and of an earlier turn": (
        [
            call(index=0, id="old", function={"name": "f"}),
            call(index=1, id="a", function={"name": "g"}),
            call(index=2, id="a", function={"name": "h"}),
        ],
        [("new_1", "f", "{}"), ("a", "g", "{}"), ("new_2", "h", "{}")],
    ),
    "arguments as an object": (
        [call(index=0, id="a", function={"name": "f", "arguments": {"x": 1}})],
        [("a", "f", '{"x": 1}')],
    ),
    "one index for all, no ids, each whole": (
        [call(index=0, function={"name": name, "arguments": '{"p":"}\\"{"}'}) for name in ("f", "g", "g")],
        [("new_1", "f", '{"p":"}\\"{"}'), ("new_2", "g", '{"p":"}\\"{"}'), ("new_3", "g", '{"p":"}\\"{"}')],
    ),
    "no index, no ids, in pieces": (
        [
            call(function={"name": "f", "arguments": '{"x":'}),
            call(function={"arguments": "[1]}"}),
            call(function={"name": "g", "arguments": ""}),
            call(function={"arguments": "{"}),
            call(function={"arguments": "}"}),
        ],
        [("new_1", "f", '{"x":[1]}'), ("new_2", "g", "{}")],
    ),
    "no index, no ids, in one chunk": (
        [chunk({"tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "f"}}, {"function": FUNCTION}]})],
        [("new_1", "f", "{}"), ("new_2", "f", "{}"), ("new_3", "g", "{}")],
    ),
    "names of tools without arguments": (
        [call(index=0, function={"name": "f"}), call(index=0, function={"name": "g"}), call(function={"name": "g"})],
        [("new_1", "f", "{}"), ("new_2", "g", "{}")],
    ),
    "objects in one piece and in the next": (
        [
            call(index=0, id="a", function={"name": "f", "arguments": '{"x":1}\n{"x":2}'}),
            call(index=0, function={"arguments": '{"x":'}),
            call(index=0, function={"arguments": '3}, {"x":4}'}),
        ],
        [("a", "f", '{"x":1}'), ("new_1", "f", '{"x":2}'), ("new_2", "f", '{"x":3}'), ("new_3", "f", '{"x":4}')],
    ),
    "one id for all": (
        [call(index=0, id="a", function={"name": name, "arguments": '{"x":1}'}) for name in ("f", "g")],
        [("a", "f", '{"x":1}'), ("new_1", "g", '{"x":1}')],
    ),
    "one index, ids in turns": (
        [
            call(index=0, id="a", function={"name": "f", "arguments": '{"x"'}),
            call(index=0, id="b", function={"name": "g", "arguments": '{"y"'}),
            call(index=0, id="a", function={"arguments": ":1}"}),
            call(index=0, id="b", function={"arguments": ":2}"}),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "a name behind arguments that were cut": (
        [
            call(index=0, function={"name": "f", "arguments": '{"x":[1'}),
            call(index=0, function={"name": "g", "arguments": "{}"}),
        ],
        [("new_1", "f", "{}"), ("new_2", "g", "{}")],
    ),
    "the whole call again in the end": (
        [call(index=0, id="a", function={"name": "f", "arguments": piece}) for piece in ('{"x":', "1}", '{"x":1}')],
        [("a", "f", '{"x":1}')],
    ),
    "words behind the object": (
        [call(index=0, id="a", function={"name": "f", "arguments": piece}) for piece in ("{}", " ", "}")],
        [("a", "f", "{}")],
    ),
    "null fields": (
        [call(index=0, id="a", function={"name": "f", "arguments": None}), call(index=0, id=None, function=None)],
        [("a", "f", "{}")],
    ),
}


@pytest.mark.parametrize("shape", CALL_SHAPES)
def test_calls_in_the_shapes_that_servers_send(shape: str):
    chunks, expected = CALL_SHAPES[shape]
    found, end = read(*chunks, chunk(finish="stop"), taken=frozenset({"old"}))
    assert [(block.id, block.name, block.arguments) for block in reply(found).blocks()] == expected
    assert end.stop is StopReason.TOOLS


def read(*chunks: object, taken: frozenset[str] = frozenset()):
    """Return the events of the pure reader for these chunks, and its end."""
    ids = iter(f"new_{number}" for number in range(1, 100))
    tools = frozenset({"f", "g", "list"})
    reader = ChatReader(RequestTarget("openai", "m", "http://x"), taken, lambda: next(ids), tools=tools)
    return [event for one in chunks for event in reader.events(one)], reader.end()


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", StopReason.END),
        ("tool_calls", StopReason.END),  # without any call
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        ("eos", StopReason.END),
    ],
)
def test_finish_reasons(finish: str, stop: StopReason):
    assert read(chunk({"content": "x"}), chunk(finish=finish))[1] == StreamFinished(stop)


def test_refusal_in_words():
    found, end = read(chunk({"refusal": "I will not."}), chunk(finish="stop"))
    assert (found, end) == ([TextDelta("I will not.")], StreamFinished(StopReason.REFUSED))


def test_first_end_marker_counts():
    found, end = read(
        chunk({"content": "a"}),
        chunk({"content": "b"}, finish="length"),
        chunk({"content": "late"}),
        call(index=0, id="x", function={"name": "rm", "arguments": "{}"}),
        chunk(finish="tool_calls"),
    )
    assert found == [TextDelta("a"), TextDelta("b")]
    assert end == StreamFinished(StopReason.LENGTH)


def test_empty_finish_reason_is_none():
    assert isinstance(read(chunk({"content": "a"}, finish=""))[1], StreamFailed)


def test_reasoning_under_its_other_name():
    found, _ = read(chunk({"reasoning": "hm", "content": "x"}))
    vendor = "openai-chat/openai/m"
    signed = ThinkingDelta("", '{"field":"reasoning"}', vendor)
    assert found == [ThinkingDelta("hm", vendor=vendor), signed, TextDelta("x")]


def test_counts_that_come_before_the_end_are_told():
    counts = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cache_write_tokens": 4}}
    found, end = read(
        chunk({"content": "x"}, usage=counts), chunk(finish="stop", usage={**counts, "prompt_tokens": 10})
    )
    assert found == [TextDelta("x"), UsageUpdate(Usage(9, 1, written=4))]
    assert end == StreamFinished(StopReason.END, Usage(10, 1, written=4))


COUNTS = {"prompt_tokens": 9, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("last", "cached"),
    [
        ({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS | {"cached_tokens": 3}}]}, 3),
        (chunk(finish="stop", x_groq={"id": "req_1", "usage": COUNTS}), 0),
        (chunk(finish="stop", usage=COUNTS | {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5}), 4),
    ],
    ids=["moonshot", "groq", "deepseek"],
)
def test_usage_is_read_at_its_other_places(last: object, cached: int):
    assert read(chunk({"content": "x"}), last)[1] == StreamFinished(StopReason.END, Usage(9, 2, cached))


@pytest.mark.parametrize(("cost", "read"), [(0.25, 0.25), (0, 0.0), (-1, None), ("1", None), (True, None), ({}, None)])
def test_cost_is_read_where_the_server_bills_in_dollars(cost: object, read: float | None):
    for field in ("cost", ""):
        reader = ChatReader(RequestTarget("openrouter", "m", "http://x"), cost_field=field)
        reader.events(chunk(finish="stop", usage=COUNTS | {"cost": cost}))
        end = reader.end()
        assert isinstance(end, StreamFinished)
        assert end.usage.cost == (read if field else None)


def test_call_in_the_form_before_tools():
    found, end = read(
        chunk({"function_call": {"name": "ls", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
        chunk(finish="function_call"),
    )
    assert reply(found).blocks() == (ToolCall("new_1", "ls", '{"a":1}'),)
    assert end == StreamFinished(StopReason.TOOLS)


def test_whole_message_in_a_stream():
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}
    found, end = read({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert (reply(found).thinking, reply(found).text, end) == ("hm", "Hi", StreamFinished(StopReason.END))


def test_whole_message_behind_its_pieces_is_not_said_twice():
    last = {"index": 0, "delta": {}, "message": {"content": "Hi"}, "finish_reason": "stop"}
    found, _ = read(chunk({"content": "Hi"}), {"choices": [last]})
    assert reply(found).text == "Hi"


@pytest.mark.parametrize(
    ("said", "thinking", "text"),
    [
        ("<think>\nhm\n</think>\n\nFour.", "\nhm\n", "Four."),
        ("\n<think>hm</think>Four.", "hm", "Four."),
        ("<think></think>Four.", "", "Four."),
        ("<think>hm < 5 </thin", "hm < 5 </thin", ""),
        ("<thin", "", "<thin"),
        ("<b>Four</b> </think>", "", "<b>Four</b> </think>"),
        ("Say <think>no</think>.", "", "Say <think>no</think>."),
        (" \n", "", " \n"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_thinking_between_tags(said: str, thinking: str, text: str, size: int):
    pieces = [chunk({"content": said[at : at + size]}) for at in range(0, len(said), size)]
    found, _ = read(*pieces, chunk(finish="stop"))
    assert (reply(found).thinking, reply(found).text) == (thinking, text)


def test_text_that_may_be_a_tag_comes_before_a_call():
    found, _ = read(chunk({"content": "<th"}), call(index=0, id="x", function={"name": "ls", "arguments": "{}"}))
    assert reply(found).blocks() == (Text("<th"), ToolCall("x", "ls", "{}"))


@pytest.mark.parametrize(
    "usage", [None, {}, [], "many", {"prompt_tokens": -1}, {"prompt_tokens": 10**30, "prompt_tokens_details": 3}]
)
def test_strange_usage_counts_as_nothing(usage: object):
    assert read(chunk(finish="stop"), {"choices": [], "usage": usage})[1] == StreamFinished(StopReason.END)


FIELDS = ["choices", "delta", "content", "tool_calls", "index", "id", "function", "name", "arguments", "refusal"]
FIELDS += ["finish_reason", "usage", "prompt_tokens", "prompt_tokens_details", "reasoning", "object"]
FIELDS += ["error", "message", "code", "type"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values | json_values.map(lambda value: {"choices": [{"delta": value}]}), max_size=4))
@settings(max_examples=examples(200))
def test_no_chunk_of_any_shape_breaks_the_reader(chunks: list[object]):
    found, end = read(*chunks)
    assert all(
        isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta | UsageUpdate | StreamFailed) for event in found
    )
    assert isinstance(end, StreamFinished | StreamFailed)


def test_error_that_is_the_chunk_itself():
    [broke], _ = read({"object": "error", "message": "nope", "type": "BadRequestError", "code": 400})
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.text) == (FailureKind.REFUSED, "openai refused the request: nope.")
