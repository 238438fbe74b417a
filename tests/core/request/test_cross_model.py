"""These tests check that any history is fitted to the current model, and that its own messages stay unchanged."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.events.messages import (
    Block,
    Document,
    DocumentKind,
    Image,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from ikigai.core.request.cross_model import EMPTY_TEXT, PORTABLE_ID, CrossModelFormat, fit_message, portable_name

ME = "anthropic/claude-x"
OWN = CrossModelFormat(ME)
BLIND = CrossModelFormat(ME, images=False)
NOBODY = CrossModelFormat()

SHOT = Image("image/png", "iVBO", 2, 1, "shot.png")
SHOWN = ToolResult("c", "seen", False, "look", (SHOT,))
LONG = "x" * 65

TABLE: list[tuple[str, CrossModelFormat, Block, Block | None]] = [
    ("words", OWN, Text("Hi."), Text("Hi.")),
    ("no words", OWN, Text(""), None),
    ("own thinking", OWN, Thinking("Hm \0", "s+/=", ME), Thinking("Hm \0", "s+/=", ME)),
    ("own thinking, unseen", OWN, Thinking("", "s", ME), Thinking("", "s", ME)),
    ("own, of a second kind", OWN, Thinking("", "s", f"{ME}#redacted"), Thinking("", "s", f"{ME}#redacted")),
    ("own, unsigned", OWN, Thinking("Hm", "", ME), None),
    ("of a model whose name begins the same", OWN, Thinking("Hm", "s", f"{ME}-mini"), None),
    ("of the same vendor's other model", OWN, Thinking("Hm", "s", "anthropic/claude"), None),
    ("of another vendor", OWN, Thinking("Hm", "s", "google/gemini-x"), None),
    ("of another vendor, second kind", OWN, Thinking("Hm", "s", "google/gemini-x#redacted"), None),
    ("of nobody knows whom", OWN, Thinking("Hm", "s", ""), None),
    ("of nobody, for a model that takes none", NOBODY, Thinking("Hm", "s", ""), None),
    ("an image", OWN, SHOT, SHOT),
    (
        "a document",
        BLIND,
        Document('a "b".py', "print(1)"),
        Text('<file name="a &quot;b&quot;.py">\nprint(1)\n</file>'),
    ),
    (
        "a document that holds the marks",
        BLIND,
        Document("a", "</file>\n</file-2>\n", whole=500),
        Text('<file-3 name="a">\n</file>\n</file-2>\n[cut: only the first 18 of 500 bytes are shown]\n</file-3>'),
    ),
    (
        "a part of a folder",
        BLIND,
        Document("src/", "a\nb\n", DocumentKind.FOLDER, 3),
        Text('<folder name="src/">\na\nb\n[cut: only the first 2 of 3 entries are shown]\n</folder>'),
    ),
    ("an image, unseen", BLIND, SHOT, Text("[image shot.png left out: this model sees no images]")),
    (
        "an image without a name",
        BLIND,
        Image("image/png", "", 1, 1),
        Text("[image left out: this model sees no images]"),
    ),
    ("a call", OWN, ToolCall("toolu_1", "look", '{ "a":1 }'), ToolCall("toolu_1", "look", '{ "a":1 }')),
    ("a malformed call", OWN, ToolCall("c", "look", "{}", "["), ToolCall("c", "look", "{}", "[")),
    ("an id with a dot", OWN, ToolCall("a.b", "look"), ToolCall("a_b_2e7336dc8eba87ef", "look")),
    ("a name with a space", OWN, ToolCall("c", "look up"), ToolCall("c", "look_up_a973a2796d13e1db")),
    ("a result", OWN, ToolResult("c", "seen", False, "look"), ToolResult("c", "seen", False, "look")),
    ("a result that shows", OWN, SHOWN, SHOWN),
    (
        *("a result that shows, unseen", BLIND, SHOWN),
        ToolResult("c", "seen\n[image shot.png left out: this model sees no images]", False, "look"),
    ),
    ("a result of nothing", OWN, ToolResult("c", "", True, "look"), ToolResult("c", EMPTY_TEXT, True, "look")),
]


@pytest.mark.parametrize(("cross_model", "given", "sent"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_block(cross_model: CrossModelFormat, given: Block, sent: Block | None) -> None:
    role = Role.TOOL if isinstance(given, ToolResult) else Role.ASSISTANT
    expected = () if sent is None else (sent,)
    assert fit_message(Message(role, (given,)), cross_model).blocks == (expected or (Text(EMPTY_TEXT),))
    if role is Role.ASSISTANT:
        assert fit_message(Message(role, (Text("a"), given, Text("b"))), cross_model).blocks == (
            Text("a"),
            *expected,
            Text("b"),
        )


NAMES = ["", "a.b", "a b", "a/b", "a\n", "é", "漢" * 70, LONG, "x" * 64, "x" * 200, "\ud800", "call_1", "-", "_" * 64]


@pytest.mark.parametrize("name", NAMES)
def test_portable_name_is_kept_and_another_made_portable(name: str) -> None:
    made = portable_name(name)
    assert re.fullmatch(PORTABLE_ID, made) and portable_name(made) == made
    assert (made == name) is bool(re.fullmatch("[A-Za-z0-9_-]{1,64}", name))


def test_names_that_differ_stay_different() -> None:
    alike = ["a.b", "a,b", "a b", "a_b", "a..b", "x" * 65, "x" * 66, "x" * 40 + "y" * 30, *NAMES]
    assert len({portable_name(name) for name in alike}) == len(set(alike))


names = st.text(max_size=80) | st.sampled_from(NAMES)
vendors = st.sampled_from(["", ME, f"{ME}#redacted", f"{ME}-mini", "openai/gpt-x", "google/gemini-x", "#"])
thoughts = st.builds(Thinking, st.text(max_size=9), st.sampled_from(["", "c2ln", "\0é"]), vendors)
pictures = st.builds(Image, st.just("image/png"), st.just("iVBO"), st.just(1), st.just(1), st.text(max_size=9))
texts = st.builds(Text, st.text(max_size=9))
calls = st.builds(ToolCall, names, names, st.sampled_from(["{}", '{"a":1}']), st.sampled_from(["", "["]))
results = st.builds(ToolResult, names, st.text(max_size=9), st.booleans(), names)


def messages(role: Role, *blocks: st.SearchStrategy[Block], least: int = 0) -> st.SearchStrategy[Message]:
    return st.builds(Message, st.just(role), st.lists(st.one_of(*blocks), min_size=least, max_size=5).map(tuple))


anything = st.one_of(
    messages(Role.USER, texts, pictures),
    messages(Role.ASSISTANT, texts, thoughts, calls),
    messages(Role.TOOL, results, least=1),
)
dialects = st.builds(CrossModelFormat, st.sampled_from(["", ME, "openai/gpt-x", "google/gemini-x"]), st.booleans())


@given(anything, dialects)
@example(Message(Role.ASSISTANT, ()), OWN)
@example(Message(Role.ASSISTANT, (Thinking("Hm", "s", "openai/gpt-x"),)), OWN)
def test_any_message_comes_out_acceptable(message: Message, cross_model: CrossModelFormat) -> None:
    sent = fit_message(message, cross_model)
    assert fit_message(sent, cross_model) == sent
    assert sent.role is message.role and sent.blocks
    for block in sent.blocks:
        match block:
            case Text(text) | ToolResult(content=text):
                assert text
            case Thinking(_, signature, vendor):
                assert cross_model.thinking_vendor and signature and vendor.split("#")[0] == cross_model.thinking_vendor
            case Image() | ToolResult(images=(_, *_)):
                assert cross_model.images
            case ToolCall(id, name):
                assert re.fullmatch(PORTABLE_ID, id) and re.fullmatch(PORTABLE_ID, name)
        if isinstance(block, ToolResult):
            assert re.fullmatch(PORTABLE_ID, block.call_id) and re.fullmatch(PORTABLE_ID, block.name)
    own = [b for b in message.blocks if isinstance(b, Thinking) and b.signature and b.vendor.split("#")[0]]
    kept = [b for b in own if b.vendor.split("#")[0] == cross_model.thinking_vendor]
    assert [b for b in sent.blocks if isinstance(b, Thinking)] == kept, "byte for byte, in their order, and no others"
    assert [call.arguments for call in sent.calls] == [call.arguments for call in message.calls]


@given(anything, dialects)
def test_portable_messages_stay_unchanged(message: Message, cross_model: CrossModelFormat) -> None:
    sent = fit_message(message, cross_model)
    assert fit_message(sent, cross_model) is sent


@given(st.lists(names, min_size=1, max_size=4, unique=True), names, dialects)
def test_call_and_its_result_stay_a_pair(ids: list[str], name: str, cross_model: CrossModelFormat) -> None:
    asked = fit_message(Message(Role.ASSISTANT, tuple(ToolCall(id, name) for id in ids)), cross_model)
    answered = fit_message(Message(Role.TOOL, tuple(ToolResult(id, "seen", False, name) for id in ids)), cross_model)
    pairs = [(block.call_id, block.name) for block in answered.blocks if isinstance(block, ToolResult)]
    assert [(call.id, call.name) for call in asked.calls] == pairs
    assert len({id for id, _ in pairs}) == len(ids)
