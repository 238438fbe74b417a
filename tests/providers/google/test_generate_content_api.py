"""Google's format without a server: the body of a request, and what chunks of a stream mean."""

import base64
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikigai.core.events.events import AssistantMessage, Event, UserMessage
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
from ikigai.core.request.build import Request, append_event, pair_calls
from ikigai.core.request.reply import (
    FailureKind,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.providers.google.generate_content_api import UNSIGNED_CALL, ContentsEncoder, ContentsReader
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.models.models import ModelTraits
from tests.providers import search_wire
from tests.providers.conftest import ask, measured
from tests.providers.google.gemini import USAGE, call, chunk, text, thought
from tests.providers.requests import assistants, objects, requests, results, users, words
from tests.support.examples import examples

MODEL = "gemini-3.8-flash"
OWN = f"google/{MODEL}"
NEW, OLD = ModelTraits("level"), ModelTraits("budget")
SIGNATURE = base64.b64encode(b"\x00opaque\xff").decode()

base64s = st.binary(max_size=300).map(lambda data: base64.b64encode(data).decode())
pixels = st.integers(1, 8000)
images = st.builds(Image, st.sampled_from(["image/png", "image/jpeg", "image/webp"]), base64s, pixels, pixels, words)
shown = st.lists(images, min_size=1, max_size=2).map(lambda blocks: Message(Role.USER, tuple(blocks)))
vendors = st.sampled_from([OWN, "google/gemini-2.5-pro", "anthropic/claude-x", f"{OWN}#other", ""])
ids = st.sampled_from(["", "a", "b", "toolu_01:é", "x" * 80]) | words
events: st.SearchStrategy[Event] = (
    st.builds(UserMessage, words, st.lists(images, max_size=2).map(tuple))
    | st.builds(
        lambda blocks: AssistantMessage(tuple(blocks), StopReason.END, "x/y"),
        st.lists(st.builds(Text, words) | st.builds(Thinking, words, base64s, vendors), max_size=3),
    )
    | st.builds(ToolCall, ids, words, objects, st.sampled_from(["", '{"half": ']))
    | st.builds(ToolResult, ids, words, st.booleans())
)


def history(incoming: list[Event]) -> tuple[Message, ...]:
    """Return the messages that are sent for these events, in any order; but an id is one call's, and a result
    has one.
    """
    messages: tuple[Message, ...] = ()
    called: set[str] = set()
    for event in incoming:
        match event:
            case ToolCall(id) if id in called:
                continue
            case ToolCall(id):
                called.add(id)
            case ToolResult(id) if id not in called:
                continue
        messages = append_event(messages, event)
    return pair_calls(messages, frozenset({"a"}))


def wire(request: Request, traits: ModelTraits = NEW) -> dict[str, object]:
    return json.loads(ContentsEncoder(MODEL, traits).body(request))


def parts(*blocks: object, role: Role = Role.ASSISTANT, traits: ModelTraits = NEW) -> list[dict[str, object]]:
    """The parts that one message of these blocks is sent as."""
    message = Message(role, blocks)  # type: ignore[arg-type]
    [content] = wire(Request(MODEL, (message,)), traits)["contents"]  # type: ignore[misc]
    assert content["role"] == ("model" if role is Role.ASSISTANT else "user")
    return content["parts"]


def test_request_in_its_wire_form():
    request = Request(
        model=MODEL,
        system="Be brief.",
        messages=(
            Message(Role.USER, (Image("image/png", "AAAA", 10, 10, "cat.png"), Text("List it."))),
            Message(
                Role.ASSISTANT,
                (Thinking("secret", SIGNATURE, OWN), ToolCall("c1", "ls", '{"path":  "."}'), ToolCall("c2", "pwd")),
            ),
            Message(Role.TOOL, (ToolResult("c1", "a\nb", name="ls"), ToolResult("c2", "no", True, "pwd"))),
            Message(Role.ASSISTANT, (Text("Two files."), Thinking("", "c2ln", OWN))),
            Message(Role.USER, (Text("Thanks."),)),
        ),
        tools=(ToolSpec("ls", "List files", '{"type":"object","properties":{"path":{"type":"string"}}}'),),
        level="med",
        max_output=100,
    )
    assert list(wire(request).items()) == [
        ("systemInstruction", {"parts": [{"text": "Be brief."}]}),
        (
            "tools",
            [
                {
                    "functionDeclarations": [
                        {
                            "name": "ls",
                            "description": "List files",
                            "parametersJsonSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
                        }
                    ]
                }
            ],
        ),
        (
            "generationConfig",
            {"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "MEDIUM"}},
        ),
        (
            "contents",
            [
                {
                    "role": "user",
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"text": "List it."}],
                },
                {
                    "role": "model",
                    "parts": [
                        {
                            "functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}},
                            "thoughtSignature": SIGNATURE,
                        },
                        {"functionCall": {"id": "c2", "name": "pwd", "args": {}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a\nb"}}},
                        {"functionResponse": {"id": "c2", "name": "pwd", "response": {"error": "no"}}},
                    ],
                },
                {"role": "model", "parts": [{"text": "Two files."}, {"text": "", "thoughtSignature": "c2ln"}]},
                {"role": "user", "parts": [{"text": "Thanks."}]},
            ],
        ),
    ]
    assert b'"args":{"path":  "."}' in ContentsEncoder(MODEL, NEW).body(request)  # as the model wrote it


@pytest.mark.parametrize(
    ("thinking", "level", "config"),
    [
        ("level", "", {"includeThoughts": True}),
        ("level", "off", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("level", "min", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("level", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("level", "med", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("level", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("budget", "", {"includeThoughts": True}),
        ("budget", "off", {"thinkingBudget": 0}),
        ("budget", "min", {"includeThoughts": True, "thinkingBudget": 512}),
        ("budget", "low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("budget", "med", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("budget", "high", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("", "", None),
        ("", "high", None),
    ],
)
def test_levels(thinking: str, level: str, config: dict[str, object] | None):
    found = wire(ask(level=level), ModelTraits(thinking))["generationConfig"]
    assert found == ({} if config is None else {"thinkingConfig": config})


def test_signature_goes_back_on_the_part_it_came_with():
    assert parts(Text("a"), Thinking("", "sig1", OWN), Text("b"), Text("c")) == [
        {"text": "a"},
        {"text": "b", "thoughtSignature": "sig1"},
        {"text": "c"},
    ]
    assert parts(Thinking("x", "sig1", OWN), Thinking("", "sig2", OWN), Text("a"), Thinking("", "sig3", OWN)) == [
        {"text": "", "thoughtSignature": "sig1"},
        {"text": "a", "thoughtSignature": "sig2"},
        {"text": "", "thoughtSignature": "sig3"},
    ]


@pytest.mark.parametrize(
    "foreign",
    [Thinking("x", "sig", "google/gemini-2.5-pro"), Thinking("x", "sig", "anthropic/claude"), Thinking("x", "", OWN)],
)
def test_thinking_of_others_and_without_a_signature_is_not_sent(foreign: Thinking):
    assert parts(foreign, Text("a")) == [{"text": "a"}]
    assert parts(foreign) == [{"text": "[empty]"}]


def test_first_call_of_a_step_always_has_a_signature_where_one_is_demanded():
    calls = (ToolCall("a", "ls"), ToolCall("b", "ls"))
    signatures = [part.get("thoughtSignature") for part in parts(Thinking("x", "sig", "openai/gpt"), *calls)]
    assert signatures == [UNSIGNED_CALL, None]
    assert [part.get("thoughtSignature") for part in parts(*calls, traits=OLD)] == [None, None]
    assert [part.get("thoughtSignature") for part in parts(Thinking("", "own", OWN), *calls)] == ["own", None]


def test_calls_and_results_keep_their_pair_under_names_that_google_takes():
    [called] = parts(ToolCall("toolu:1/é", "my tool!"))
    [answered] = parts(ToolResult("toolu:1/é", "x", name="my tool!"), role=Role.TOOL)
    asked, response = called["functionCall"], answered["functionResponse"]
    assert (asked["id"], asked["name"]) == (response["id"], response["name"])  # type: ignore[index]
    assert asked["id"].isascii()  # type: ignore[index]


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, 258),
        (384, 384, 258),
        (385, 384, 4 * 258),  # two by two of 256 px
        (960, 540, 6 * 258),  # Google's example: a crop unit of 360 px
        (768, 768, 4 * 258),
        (3072, 3072, 16 * 258),  # tiles are scaled down from at most 768 px
        (4000, 10, 16 * 258),
    ],
)
def test_image_tokens(width: int, height: int, tokens: int):
    image = Image("image/png", "A" * 4000, width, height)
    assert ContentsEncoder(MODEL, OLD).image_tokens(image) == tokens
    assert ContentsEncoder(MODEL, NEW).image_tokens(image) == 1120


@given(
    requests,
    st.lists(users | assistants | results | shown, max_size=5).map(tuple),
    st.sampled_from([NEW, OLD, ModelTraits(), ModelTraits("level", images=False)]),
)
def test_sizes_add_up(request_: Request, more: tuple[Message, ...], traits: ModelTraits):
    request_ = msgspec.structs.replace(request_, messages=(*request_.messages, *more))
    encoder = ContentsEncoder(request_.model, traits)
    body = encoder.body(request_)
    json.loads(body)
    assert measured(encoder, request_) == len(body)


@given(st.lists(events, max_size=12), st.sampled_from([NEW, OLD]))
@settings(max_examples=examples(100), deadline=None)
def test_any_history_is_one_that_the_sdk_knows_and_has_no_orphan(incoming: list[Event], traits: ModelTraits):
    from google.genai import types

    messages = (Message(Role.USER, (Text("first"),)), *history(incoming))
    body = wire(Request(MODEL, messages, tools=(ToolSpec("ls", "", "{}"),), level="low", max_output=10), traits)
    types.GenerationConfig.model_validate(body["generationConfig"])
    for tool in body["tools"]:  # type: ignore[attr-defined]
        types.Tool.model_validate(tool)
    contents = [types.Content.model_validate_json(json.dumps(content)) for content in body["contents"]]  # type: ignore[attr-defined]
    asked: list[tuple[str | None, str | None]] = []
    for content in contents:
        assert content.role in ("user", "model")
        assert content.parts
        calls = [(part.function_call.id, part.function_call.name) for part in content.parts if part.function_call]
        answers = [
            (part.function_response.id, part.function_response.name) for part in content.parts if part.function_response
        ]
        assert answers == asked  # every call is answered in the next content, in its order, under its name
        asked = calls
        if calls and traits is NEW:
            assert next(part for part in content.parts if part.function_call).thought_signature
        assert not any(part.thought for part in content.parts)
    assert not asked


@given(images)
def test_sdk_reads_the_image_that_was_meant(image: Image):
    from google.genai import types

    [part] = parts(image, role=Role.USER)
    blob = types.Part.model_validate_json(json.dumps(part)).inline_data
    assert blob
    assert (blob.mime_type, blob.data) == (image.media_type, base64.b64decode(image.data))


def read(*chunks: object, taken: frozenset[str] = frozenset()):
    """Return the events of the pure reader for these chunks, and its end."""
    ids = iter(f"new_{number}" for number in range(1, 100))
    reader = ContentsReader(RequestTarget("google", MODEL, "http://x"), taken, lambda: next(ids))
    return [event for one in chunks for event in reader.events(one)], reader.end()


def blocks(*chunks: object, taken: frozenset[str] = frozenset()):
    accumulator = ReplyBuilder()
    for event in read(*chunks, taken=taken)[0]:
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            accumulator.add(event)
    return accumulator.blocks()


def test_what_came_goes_back_as_it_came():
    came = [
        [thought("I "), thought("look.")],
        [call("ls", {"path": "é", "deep": [1.0, None, "1e3"]}, "id1", thoughtSignature="c2ln")],
        [call("pwd", {}, "id2")],
        [text("", thoughtSignature="bGFzdA==")],
    ]
    found = blocks(*(chunk(*group) for group in came))
    assert found == (
        Thinking("I look.", "c2ln", OWN),
        ToolCall("id1", "ls", '{"path":"é","deep":[1.0,null,"1e3"]}'),
        ToolCall("id2", "pwd", "{}"),
        Thinking("", "bGFzdA==", OWN),
    )
    assert parts(*found) == [came[1][0], came[2][0], came[3][0]]


def test_signed_and_unsigned_words_do_not_mix():
    came = [text("a"), text("b", thoughtSignature="c2ln"), text("c"), text("d"), text("e", thoughtSignature="Zm9v")]
    assert parts(*blocks(*map(chunk, came))) == [came[0], came[1], text("cd"), came[4]]
    assert blocks(*map(chunk, came[:2])) == (Text("a"), Thinking("", "c2ln", OWN), Text("b"))


def test_calls_get_an_id_of_their_own():
    found = blocks(chunk(call("a"), call("b", {}, "old"), call("c", {}, "x"), call("d", {}, "x")), taken={"old"})  # type: ignore[arg-type]
    assert [block.id for block in found if isinstance(block, ToolCall)] == ["new_1", "new_2", "x", "new_3"]
    assert [block.arguments for block in found if isinstance(block, ToolCall)] == ["{}"] * 4


@pytest.mark.parametrize("args", [[1], "text", 7, True, {"x": float("nan")}])
def test_arguments_that_are_no_json_object_never_run(args: object):
    [found] = blocks(chunk(call("a", args)))  # type: ignore[arg-type]
    assert isinstance(found, ToolCall)
    assert found.arguments == "{}"
    assert found.malformed


@pytest.mark.parametrize(
    ("finish", "part", "stop"),
    [
        ("STOP", text("a"), StopReason.END),
        ("STOP", call("a"), StopReason.TOOLS),
        ("STOP", text(""), StopReason.END),
        ("MAX_TOKENS", text("a"), StopReason.LENGTH),
        ("MAX_TOKENS", call("a"), StopReason.LENGTH),
        ("CONTINUATION", text("a"), StopReason.LENGTH),
        ("SAFETY", text("a"), StopReason.REFUSED),
        ("RECITATION", text("a"), StopReason.REFUSED),
        ("PROHIBITED_CONTENT", text("a"), StopReason.REFUSED),
        ("OTHER", text("a"), StopReason.REFUSED),
        ("SOMETHING_NEW", text("a"), StopReason.REFUSED),
    ],
)
def test_ends(finish: str, part: dict[str, object], stop: StopReason):
    assert read(chunk(part), chunk(finish=finish))[1] == StreamFinished(stop, request_id="resp-1")
    assert read(chunk(part, finish=finish))[1] == StreamFinished(stop, request_id="resp-1")


@pytest.mark.parametrize(
    ("last", "kind", "words"),
    [
        (chunk(finish="SAFETY"), FailureKind.REFUSED, "google withheld its reply (SAFETY)."),
        (chunk(call("rm"), finish="SPII"), FailureKind.REFUSED, "google withheld its reply (SPII)."),
        (chunk(text("a"), call("rm"), finish="SPII"), FailureKind.REFUSED, "google withheld its reply (SPII)."),
        (chunk(thought("hm"), finish="BLOCKLIST"), FailureKind.REFUSED, "google withheld its reply (BLOCKLIST)."),
        (
            chunk(call("rm"), finish="NEW"),
            FailureKind.REFUSED,
            "google ended its reply in a way that ikigai does not know (NEW).",
        ),
        (chunk(finish="MALFORMED_FUNCTION_CALL"), FailureKind.CUT, "google sent a tool call that cannot be parsed."),
        (
            chunk(call("rm"), finish="UNEXPECTED_TOOL_CALL"),
            FailureKind.CUT,
            "google called a tool that was not offered.",
        ),
        (
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE, "responseId": "resp-1"},
            FailureKind.REFUSED,
            "google refused the request: it was blocked (PROHIBITED_CONTENT).",
        ),
    ],
)
def test_ends_that_are_none(last: dict[str, object], kind: FailureKind, words: str):
    found, end = read({**last, "usageMetadata": USAGE})
    assert found[0] == UsageUpdate(Usage(12, 5), "resp-1")  # paid for all the same
    broke = found[-1]
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.text, broke.request_id) == (kind, words, "resp-1")
    assert broke.remedy.endswith(".")
    assert isinstance(end, StreamFailed)


@pytest.mark.parametrize("last", [chunk(), chunk(text("a"), finish="FINISH_REASON_UNSPECIFIED"), {}, None])
def test_stream_without_its_end_marker_is_cut(last: object):
    end = read(chunk(call("rm", {})), last)[1]
    assert isinstance(end, StreamFailed)
    assert end.kind is FailureKind.CUT


def test_what_comes_after_the_end_marker_is_not_believed_but_for_counts():
    late = [
        chunk(text("late"), call("rm"), finish="SAFETY"),
        {"error": {"code": 500, "message": "late"}},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"usageMetadata": USAGE},
    ]
    found, end = read(chunk(text("a"), finish="STOP"), *late)
    assert found == [TextDelta("a"), UsageUpdate(Usage(12, 5), "resp-1")]
    assert end == StreamFinished(StopReason.END, Usage(12, 5), "resp-1")


def test_usage():
    usage = {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 900,
        "candidatesTokenCount": 30,
        "thoughtsTokenCount": 70,
        "toolUsePromptTokenCount": 5,
        "totalTokenCount": 1105,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
    }
    early = {"promptTokenCount": 1000, "totalTokenCount": 1000}
    found, end = read(
        chunk(text("a"), usageMetadata=early),
        chunk(text("b"), usageMetadata=early),
        chunk(finish="STOP", usageMetadata=usage),
    )
    whole = Usage(input=1005, output=100, cached=900, thinking=70)
    assert [event for event in found if isinstance(event, UsageUpdate)] == [
        UsageUpdate(Usage(1000), "resp-1"),
        UsageUpdate(whole, "resp-1"),
    ]
    assert end == StreamFinished(StopReason.END, whole, "resp-1")


KEYS = ["candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name", "args", "id"]
KEYS += ["finishReason", "usageMetadata", "promptTokenCount", "promptFeedback", "blockReason", "error", "responseId"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(json_values | st.builds(lambda part: {"candidates": [{"content": {"parts": part}}]}, json_values)))
@settings(max_examples=examples(200))
def test_no_chunk_of_any_shape_breaks_the_reader(chunks: list[object]):
    found, end = read(*chunks)
    assert all(
        isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta | UsageUpdate | StreamFailed) for event in found
    )
    assert isinstance(end, StreamFinished | StreamFailed)


def test_tools_picture_stands_where_the_model_takes_it():
    picture = Image("image/png", "AAAA", 10, 10)
    shown = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    message = Message(
        Role.TOOL, (ToolResult("c1", "a", name="cat", images=(picture,)), ToolResult("c2", "b", name="cat"))
    )
    new, old = (ContentsEncoder("gemini-x", traits).entries(message) for traits in (NEW, OLD))
    [within] = new
    first, second = (part["functionResponse"] for part in within["parts"])
    assert first["parts"] == [shown] and "parts" not in second
    responses, pictures = old
    assert [list(part) for part in responses["parts"]] == [["functionResponse"]] * 2
    assert not any("parts" in part["functionResponse"] for part in responses["parts"])
    assert pictures == {"role": "user", "parts": [shown]}


def test_search_goes_as_text_to_a_server_that_does_not_know_its_parts():
    blocks = search_wire.gemini_reply().blocks
    asked = Message(Role.USER, (Text("News?"),)), Message(Role.ASSISTANT, blocks), Message(Role.USER, (Text("More."),))
    alone = Message(Role.ASSISTANT, (Text("I look."), *blocks[:2]))
    request = Request(MODEL, (*asked, alone, asked[0]))
    encoder = ContentsEncoder(MODEL, NEW, shows_searches=False)
    body = encoder.body(request)
    assert len(body) == measured(encoder, request)
    _, searched, _, paused, _ = json.loads(body)["contents"]
    parts = [*searched["parts"], *paused["parts"]]
    assert all(set(part) == {"text"} for part in parts) and "news of Köln" in parts[0]["text"]
    assert b"toolResponse" in ContentsEncoder(MODEL, NEW).body(request)
