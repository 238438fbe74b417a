"""The Responses format without a server: the body of a request, and what the events of a stream mean."""

import json
from typing import Any

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
    reply_events,
)
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.responses_api import ResponsesEncoder
from ikigai.providers.openai.responses_reader import REFUSAL_CODES, ResponsesReader
from ikigai.providers.openai.terms import image_tokens
from tests import GOLDEN
from tests.providers.conftest import ask, measured, reply
from tests.providers.requests import requests
from tests.support.examples import examples

VENDOR = "openai/gpt-x"
STREAMS = GOLDEN / "openai_responses"
THINKS = ModelTraits("effort", ("off", "min", "low", "med", "high"))
ENCRYPTED = "gAAAAABqX1a78BDqk_J4uGoxtDucvs8hN0+/Zr5yQ=="
SIGNATURE = json.dumps({"id": "rs_1", "summary": ["a", "b"], "encrypted_content": ENCRYPTED}, separators=(",", ":"))
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": ENCRYPTED,
}


def wire(request: Request, traits: ModelTraits = THINKS, **options: bool) -> dict[str, Any]:
    return json.loads(ResponsesEncoder(VENDOR, traits, **options).body(request))


def sent(*blocks: Any, role: Role = Role.ASSISTANT) -> list[dict[str, Any]]:
    """Return the entries of one message in the list."""
    return wire(Request("gpt-x", (Message(role, blocks),)))["input"]


# ── requests ──


@given(requests, st.sampled_from([THINKS, ModelTraits(), ModelTraits(images=False)]), st.booleans())
def test_sizes_are_exact(request_: Request, traits: ModelTraits, official: bool):
    encoder = ResponsesEncoder(VENDOR, traits, official)
    body = encoder.body(request_)
    if traits.images:
        assert measured(encoder, request_) == len(body)
    else:
        assert encoder.envelope(request_) + sum(map(encoder.message, request_.messages)) == len(body)
    assert body == encoder.body(request_)
    assert list(json.loads(body))[-1] == "input"


def test_request_in_its_wire_form():
    request = Request(
        model="gpt-x",
        system="Be brief.",
        messages=(
            Message(Role.USER, (Image("image/png", "aGk=", 64, 32, "a.png"), Text("List it."))),
            Message(
                Role.ASSISTANT,
                (
                    Thinking("foreign", "sig", "anthropic/claude"),
                    Thinking("a\n\nb", SIGNATURE, VENDOR),
                    Thinking("", "commentary", VENDOR + "#phase"),
                    Text("I look."),
                    ToolCall("c1", "ls", '{"path": "."}'),
                    ToolCall("odd id!", "pwd"),
                ),
            ),
            Message(Role.TOOL, (ToolResult("c1", "a\nb"), ToolResult("odd id!", "no", is_error=True))),
            Message(Role.ASSISTANT, (Text("Done."),)),
        ),
        tools=(ToolSpec("ls", "List files", '{"type":"object","properties":{"path":{"type":"string"}}}'),),
        level="med",
        max_output=100,
    )
    found = wire(request)
    odd = found["input"][4]["call_id"]
    assert odd.startswith("odd_id_")
    assert found == {
        "model": "gpt-x",
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "ls",
                "description": "List files",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                "strict": False,
            }
        ],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "max_output_tokens": 100,
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "high"},
                    {"type": "input_text", "text": "List it."},
                ],
            },
            REASONING,
            {"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"},
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path": "."}'},
            {"type": "function_call", "call_id": odd, "name": "pwd", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a\nb"},
            {"type": "function_call_output", "call_id": odd, "output": "[error] no"},
            {"type": "message", "role": "assistant", "content": "Done."},
        ],
    }


@pytest.mark.parametrize(
    ("level", "reasoning"),
    [
        ("", {"summary": "auto"}),
        ("off", {"effort": "none", "summary": "auto"}),
        ("min", {"effort": "minimal", "summary": "auto"}),
        ("low", {"effort": "low", "summary": "auto"}),
        ("med", {"effort": "medium", "summary": "auto"}),
        ("high", {"effort": "high", "summary": "auto"}),
    ],
)
def test_levels(level: str, reasoning: dict[str, str]):
    assert wire(ask(level=level))["reasoning"] == reasoning
    without = wire(ask(level=level), left_out=frozenset({"summary"}))
    assert without.get("reasoning") == ({"effort": reasoning["effort"]} if level else None)
    assert not {"reasoning", "include"} & wire(ask(level=level), ModelTraits()).keys()


def test_thinking_is_sent_back_only_in_front_of_what_it_led_to():
    thought = Thinking("a", SIGNATURE, VENDOR)
    assert sent(thought) == [{"type": "message", "role": "assistant", "content": "[empty]"}]
    assert sent(Text("x"), thought, thought) == [{"type": "message", "role": "assistant", "content": "x"}]
    assert sent(thought, thought, Text("x"))[:2] == [REASONING, REASONING]


@pytest.mark.parametrize(
    "signature", ["sig", "{}", "[" * 100_000, '{"id": 1, "summary": [], "encrypted_content": "x"}']
)
def test_what_is_no_signature_of_ours_is_left_out(signature: str):
    assert sent(Thinking("a", signature, VENDOR), Text("x")) == [
        {"type": "message", "role": "assistant", "content": "x"}
    ]


def test_server_is_asked_why_its_cache_missed():
    request = Request("gpt-5.6", ask("a").messages, previous_reply="resp_1")
    encoder = ResponsesEncoder(VENDOR, ModelTraits(), official=True, diagnoses=True)
    body = encoder.body(request)
    assert json.loads(body)["prompt_cache_options"] == {"comparison_response_id": "resp_1"}
    assert len(body) == measured(encoder, request)
    assert body.index(b"prompt_cache_options") > body.index(b'"input"'), "the beginning of bodies stays the same"
    assert "prompt_cache_options" not in wire(request, official=True)
    encoder.extra = {"prompt_cache_options": {"ttl": "12h"}}
    body = encoder.body(request)
    assert json.loads(body)["prompt_cache_options"] == {"ttl": "12h", "comparison_response_id": "resp_1"}
    assert body.count(b"prompt_cache_options") == 1 and len(body) == measured(encoder, request)
    done = {
        "id": "resp_2",
        "usage": {"input_tokens": 9},
        "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed"},
    }
    for diagnoses, id in ((True, "resp_2"), (False, "")):
        reader = ResponsesReader(RequestTarget("openai", "gpt-5.6", ""), VENDOR, diagnoses=diagnoses)
        reader.events({"type": "response.completed", "response": done})
        end = reader.end()
        assert isinstance(end, StreamFinished) and (end.usage.reply, end.usage.diagnosis) == (id, "tools_changed")


def test_key_of_the_cache_is_the_conversations():
    one, more, other = ask("a"), ask("a"), ask("b")
    more = Request(more.model, (*more.messages, Message(Role.ASSISTANT, (Text("x"),))), more.system)
    keys = [wire(request, official=True)["prompt_cache_key"] for request in (one, more, other)]
    assert keys[0] == keys[1] != keys[2]
    assert "prompt_cache_key" not in wire(one)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, 2),
        (32, 32, 2),
        (33, 32, 4),
        (1024, 1024, 1659),
        (1800, 2400, 2489),
        (2048, 768, 2489),
        (8000, 8000, 2489),
    ],
)
def test_tokens_of_images(width: int, height: int, tokens: int):
    assert image_tokens(Image("image/png", "", width, height)) == tokens


# ── streams ──


def golden(name: str) -> list[dict[str, Any]]:
    """The events of a stream as OpenAI sends them."""
    lines = (STREAMS / f"{name}.sse").read_text().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def read(*events: object, taken: frozenset[str] = frozenset()):
    """Return the deltas of the pure reader for these events, and its end."""
    ids = iter(f"new_{number}" for number in range(1, 100))
    reader = ResponsesReader(RequestTarget("openai", "gpt-x", "http://x"), VENDOR, taken, lambda: next(ids))
    return [found for event in events for found in reader.events(event)], reader.end()


def signature(id: str, *summary: str) -> str:
    return json.dumps({"id": id, "summary": summary, "encrypted_content": ENCRYPTED}, separators=(",", ":"))


ENDS = {
    "text": (
        (Thinking("", "final_answer", VENDOR + "#phase"), Text("Hello 👩‍👩‍👧, é!")),
        StreamFinished(StopReason.END, Usage(100, 20, 64, 0, 12)),
    ),
    "reasoning_and_calls": (
        (
            Thinking(
                "**Looking** I want to list.\n\n**Then** both at once.",
                signature("rs_0a1b2c0", "**Looking** I want to list.", "**Then** both at once."),
                VENDOR,
            ),
            Thinking("", "commentary", VENDOR + "#phase"),
            Text("I look."),
            ToolCall("call_Ab1", "ls", '{"path":"é/\\"x\\""}'),
            ToolCall("call_Cd2", "pwd", "{}"),
        ),
        StreamFinished(StopReason.TOOLS, Usage(210, 90, 128, 57)),
    ),
    "hidden_reasoning": (
        (
            Thinking("", signature("rs_0a1b2c0"), VENDOR),
            Thinking("", "final_answer", VENDOR + "#phase"),
            Text("Seven."),
        ),
        StreamFinished(StopReason.END, Usage(50, 40, 0, 33)),
    ),
    "refusal": ((Text("I can't help with that."),), StreamFinished(StopReason.REFUSED, Usage(30, 8))),
    "incomplete": ((Text("Once upon"),), StreamFinished(StopReason.LENGTH, Usage(30, 16))),
    "filtered": ((Text("Once upon"),), StreamFinished(StopReason.REFUSED, Usage(30, 16))),
}


@pytest.mark.parametrize("name", ENDS)
def test_stream_as_openai_sends_it(name: str):
    found, end = read(*golden(name))
    assert (reply(found).blocks(), end) == ENDS[name]


@pytest.mark.parametrize("name", ENDS)
def test_what_was_read_goes_back_as_it_came(name: str):
    events = golden(name)
    found, _ = read(*events)
    items = sent(*reply(found).blocks())
    came = events[-1]["response"]["output"]
    assert [item["type"] for item in items] == [item["type"] for item in came]
    for item, original in zip(items, came, strict=True):
        for key in ("phase", "call_id", "name", "arguments", "encrypted_content", "summary"):
            assert item.get(key) == original.get(key), key
        if item["type"] == "message":
            [part] = original["content"]
            assert item["content"] == part.get("text", part.get("refusal"))


def test_streams_that_fail():
    found, end = read(*golden("failed"))
    assert isinstance(found[-1], StreamFailed) and isinstance(end, StreamFailed)
    assert (found[-1].kind, "while processing" in found[-1].text) == (FailureKind.OVERLOADED, True)
    found, _ = read(*golden("error"))
    assert reply(found).text == "Half"
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.RATE


@pytest.mark.parametrize("kind", ["failed", "error"])
@pytest.mark.parametrize(
    ("code", "failure"),
    [
        *((code, FailureKind.REFUSED) for code in sorted(REFUSAL_CODES)),
        ("server_error", FailureKind.OVERLOADED),
        ("vector_store_timeout", FailureKind.OVERLOADED),
        ("rate_limit_exceeded", FailureKind.RATE),
        ("insufficient_quota", FailureKind.QUOTA),
        ("context_length_exceeded", FailureKind.CONTEXT),
        ([1], FailureKind.OVERLOADED),
        (None, FailureKind.OVERLOADED),
    ],
)
def test_codes_of_failures(kind: str, code: object, failure: FailureKind):
    error = {"code": code, "message": "No."}
    event = {"type": "error", **error} if kind == "error" else {"type": "response.failed", "response": {"error": error}}
    [broke], _ = read(event)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is failure


def test_what_a_failed_response_cost_is_counted():
    response = {"error": None, "usage": {"input_tokens": 7}}
    counted, broke = read({"type": "response.failed", "response": response})[0]
    assert counted == UsageUpdate(Usage(7))
    assert isinstance(broke, StreamFailed)


def test_first_end_marker_counts():
    found, end = read(
        *golden("incomplete"),
        *golden("text"),
        {"type": "response.failed", "response": {"error": {"message": "late"}}},
        {"type": "error", "message": "late"},
    )
    assert reply(found).text == "Once upon"
    assert end == ENDS["incomplete"][1]


def test_without_an_end_marker_it_is_cut():
    for name in ENDS:
        found, end = read(*golden(name)[:-1])
        assert isinstance(end, StreamFailed)
        assert end.kind is FailureKind.CUT
        assert reply(found).blocks() == ENDS[name][0]


def test_outputs_at_once_keep_their_order():
    """Two calls and a text whose pieces come mixed: passed on one after the other, nothing before its turn."""
    events = golden("reasoning_and_calls")
    head = [event for event in events if event.get("output_index") in (None, 0)]
    rows = [[event for event in events if event.get("output_index") == index] for index in (1, 2, 3)]
    mixed = [row[at] for at in range(max(map(len, rows))) for row in rows if at < len(row)]
    found, end = read(*head[:-1], *mixed, head[-1])
    assert (reply(found).blocks(), end) == ENDS["reasoning_and_calls"]


def added(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item, **more}


def done(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item, **more}


def piece(text: str, kind: str = "output_text", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, **more}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}], **more}


def called(call_id: str | None, name: str, arguments: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


END = {"type": "response.completed", "response": {"status": "completed"}}
ARGUMENTS = "function_call_arguments"
SHAPES: dict[str, tuple[list[dict[str, Any]], tuple[Any, ...]]] = {
    "llama.cpp: no index, calls named by their call id": (
        [
            added({"type": "message", "id": "m", "content": []}),
            piece("Hi", item_id="m"),
            done(message("Hi", id="m")),
            added(called("fc_a", "f")),
            piece('{"x":', ARGUMENTS, item_id="fc_a"),
            added(called("fc_b", "g")),
            piece("1}", ARGUMENTS, item_id="fc_a"),
            piece("{}", ARGUMENTS, item_id="fc_b"),
            done(called("fc_a", "f", '{"x":1}')),
            done(called("fc_b", "g", "{}")),
        ],
        (Text("Hi"), ToolCall("fc_a", "f", '{"x":1}'), ToolCall("fc_b", "g", "{}")),
    ),
    "no pieces": (
        [done(message("Hi"), output_index=0), done(called("a", "f", '{"x":1}'), output_index=1)],
        (Text("Hi"), ToolCall("a", "f", '{"x":1}')),
    ),
    "pieces alone": ([piece("Hi"), piece(" you")], (Text("Hi you"),)),
    "the last pieces are missing": (
        [
            added({"type": "message", "id": "m"}, output_index=0),
            piece("Hi", item_id="m", output_index=0),
            done(message("Hi you", id="m"), output_index=0),
            added(called("a", ""), output_index=1),
            piece('{"x"', ARGUMENTS, output_index=1),
            done(called("a", "f", '{"x":1}'), output_index=1),
        ],
        (Text("Hi you"), ToolCall("a", "f", '{"x":1}')),
    ),
    "ids that change from event to event": (
        [
            added(called("a", "f", id="x1"), output_index=0),
            piece('{"x":1}', ARGUMENTS, item_id="x2", output_index=0),
            done(called("a", "f", '{"x":1}', id="x3"), output_index=0),
        ],
        (ToolCall("a", "f", '{"x":1}'),),
    ),
    "one index for all": (
        [
            added(called("a", "f", id="x"), output_index=0),
            added(called("b", "g", id="y"), output_index=0),
            piece("{}", ARGUMENTS, item_id="y", output_index=0),
            piece('{"x":1}', ARGUMENTS, item_id="x", output_index=0),
        ],
        (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}")),
    ),
    "no id, one that is taken, and one twice": (
        [
            done(called(None, "f", "{}"), output_index=0),
            done(called("old", "g", "{}"), output_index=1),
            done(called("a", "h", "{}"), output_index=2),
            done(called("a", "i", "{}"), output_index=3),
        ],
        (ToolCall("new_1", "f"), ToolCall("new_2", "g"), ToolCall("a", "h"), ToolCall("new_3", "i")),
    ),
    "arguments written in another way at the end": (
        [added(called("a", "f")), piece('{"x": 1}', ARGUMENTS), done(called("a", "f", '{"x":1}'))],
        (ToolCall("a", "f", '{"x": 1}'),),
    ),
    "arguments that are not JSON": ([done(called("a", "f", '{"x": '))], (ToolCall("a", "f", "{}", '{"x": '),)),
    "two messages": (
        [done(message("One.", id="m1")), done(message("Two.", id="m2"))],
        (Text("One.\n\nTwo."),),
    ),
    "thinking in the clear, with nothing to send back": (
        [
            added({"type": "reasoning", "id": "r", "summary": []}),
            piece("hm", "reasoning_text", item_id="r"),
            done({"type": "reasoning", "id": "r", "content": [{"text": "hm, well"}], "encrypted_content": ""}),
            done(message("x")),
        ],
        (Thinking("hm, well", "", VENDOR), Text("x")),
    ),
    "outputs nobody knows": (
        [
            added({"type": "web_search_call", "id": "w"}, output_index=0),
            {"type": "response.web_search_call.searching", "output_index": 0},
            piece("x", item_id="m", output_index=1),
        ],
        (Text("x"),),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_in_the_shapes_that_servers_send(shape: str):
    events, expected = SHAPES[shape]
    found, end = read(*events, END, taken=frozenset({"old"}))
    assert reply(found).blocks() == expected
    tools = any(isinstance(block, ToolCall) for block in expected)
    assert end == StreamFinished(StopReason.TOOLS if tools else StopReason.END)


def test_server_that_only_sends_the_end():
    response = {"output": [message("Hi"), called("a", "f", "{}")], "usage": {"input_tokens": 3, "output_tokens": 2}}
    found, end = read({"type": "response.completed", "response": response})
    assert reply(found).blocks() == (Text("Hi"), ToolCall("a", "f"))
    assert end == StreamFinished(StopReason.TOOLS, Usage(3, 2))


def test_call_in_two_versions_is_no_reply():
    found, end = read(added(called("a", "rm")), piece('{"x":1}', ARGUMENTS), done(called("a", "rm", '{"x":2}')))
    assert isinstance(found[-1], StreamFailed) and isinstance(end, StreamFailed)
    assert found[-1].kind is FailureKind.CUT


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter", "steered"])
def test_call_that_was_cut_off_never_runs(reason: str):
    found, end = read(
        added(called("a", "rm")),
        done(called("a", "rm", "", status="incomplete")),
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}},
    )
    assert isinstance(end, StreamFinished)
    made = reply_events(reply(found).blocks(), end.stop, "m")
    assert isinstance(made[-1], ToolResult)
    assert made[-1].is_error


def test_silence_after_words_is_thinking_once_it_began():
    found, _ = read(piece("x"), done(message("x")), added({"type": "reasoning", "id": "r", "summary": []}))
    assert found == [TextDelta("x"), ThinkingDelta("", vendor=VENDOR)]
    # At the beginning it would only look as if something had been shown.
    assert read(added({"type": "reasoning", "id": "r", "summary": []}))[0] == []


FIELDS = [
    "type",
    "item",
    "item_id",
    "output_index",
    "delta",
    "response",
    "id",
    "call_id",
    "name",
    "arguments",
    "status",
]
FIELDS += ["summary", "content", "text", "refusal", "encrypted_content", "phase", "usage", "input_tokens", "error"]
FIELDS += ["incomplete_details", "reason", "output", "message", "code", "summary_index"]
TYPES = ["response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.failed"]
TYPES += ["response.completed", "response.incomplete", "error", "reasoning", "message", "function_call"]
TYPES += ["response.function_call_arguments.delta", "response.reasoning_summary_text.delta"]
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats()
    | st.sampled_from(TYPES)
    | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=14,
)
typed = st.builds(
    lambda kind, item, rest: {**rest, "type": kind, "item": item},
    st.sampled_from(TYPES),
    json_values
    | st.builds(
        lambda kind, rest: {**rest, "type": kind},
        st.sampled_from(TYPES),
        st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
    ),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
)


@given(st.lists(json_values | typed, max_size=6))
@settings(max_examples=examples(150))
def test_no_event_of_any_shape_breaks_the_reader(events: list[object]):
    found, end = read(*events)
    assert all(isinstance(e, TextDelta | ThinkingDelta | ToolCallDelta | UsageUpdate | StreamFailed) for e in found)
    assert isinstance(end, StreamFinished | StreamFailed)
