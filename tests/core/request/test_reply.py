"""These tests check that deltas, however cut, add up to the blocks of a reply, and blocks to events in order."""

import json
import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.events.events import AssistantMessage
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.reply import (
    Delta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    interrupted_events,
    reply_events,
)
from ikigai.core.request.reply_builder import ReplyBuilder

words = st.text(st.characters(), min_size=1, max_size=12)
names = st.text("abc_", min_size=1, max_size=8)
objects = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3).map(json.dumps)
signed = st.builds(Thinking, words, names, st.sampled_from(["", "anthropic"]))
calls = st.builds(ToolCall, names, names, objects)
replies = st.lists(st.one_of(st.builds(Text, words), signed, calls), max_size=6)


def pieces(data: st.DataObject, text: str) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def streamed(data: st.DataObject, reply: list[ReplyBlock]) -> list[Delta]:
    """Return the reply in small pieces; the arguments of its calls may be interleaved, after all of them have begun."""
    deltas: list[Delta] = []
    arguments: list[Delta] = []
    count = 0
    for block in reply:
        match block:
            case Text(text):
                deltas += [TextDelta(piece) for piece in pieces(data, text)]
            case Thinking(text, signature, vendor):
                deltas += [ThinkingDelta(piece) for piece in pieces(data, text)]
                deltas.append(ThinkingDelta("", signature, vendor))
            case ToolCall(id, name, text):
                deltas += [ToolCallDelta(count, id), ToolCallDelta(count, name=name)]
                arguments += [ToolCallDelta(count, arguments=piece) for piece in pieces(data, text)]
                count += 1
    order = data.draw(st.permutations(range(count)))
    return deltas + sorted(arguments, key=lambda delta: order[delta.index] if isinstance(delta, ToolCallDelta) else 0)


@given(st.data(), replies)
def test_pieces_add_up(data: st.DataObject, reply: list[ReplyBlock]) -> None:
    whole = ReplyBuilder()
    for delta in streamed(data, reply):
        whole.add(delta)
    joined: list[ReplyBlock] = []
    for block in reply:  # words next to words cannot be told apart
        if isinstance(block, Text) and joined and isinstance(joined[-1], Text):
            joined[-1] = Text(joined[-1].text + block.text)
        else:
            joined.append(block)
    assert whole.blocks() == tuple(joined)
    assert whole.text == "".join(block.text for block in reply if isinstance(block, Text))


def accumulated(*deltas: Delta) -> tuple[ReplyBlock, ...]:
    reply = ReplyBuilder()
    for delta in deltas:
        reply.add(delta)
    return reply.blocks()


def test_reply_without_deltas_has_no_blocks() -> None:
    assert accumulated() == () and ReplyBuilder().text == ""


def test_thinking_goes_on_until_its_signature_closes_it() -> None:
    assert accumulated(
        ThinkingDelta("Hm"),
        ThinkingDelta(", so"),
        ThinkingDelta("", "sig", "v"),
        ThinkingDelta("And"),
        TextDelta("Yes."),
    ) == (Thinking("Hm, so", "sig", "v"), Thinking("And"), Text("Yes."))


def test_signature_without_thoughts_is_a_block_of_its_own() -> None:
    assert accumulated(TextDelta("Yes."), ThinkingDelta("", "redacted", "v")) == (
        Text("Yes."),
        Thinking("", "redacted", "v"),
    )


ME, REDACTED = "anthropic/claude-x", "anthropic/claude-x#redacted"
STREAMS: dict[str, tuple[Sequence[Delta], Sequence[ReplyBlock]]] = {
    "Anthropic: thinking, its signature, words": (
        [
            ThinkingDelta("", vendor=ME),
            ThinkingDelta("Hm", vendor=ME),
            ThinkingDelta(".", vendor=ME),
            ThinkingDelta("", "s1", ME),
            TextDelta("Yes."),
        ],
        [Thinking("Hm.", "s1", ME), Text("Yes.")],
    ),
    "Anthropic: thinking that is not shown": (
        [ThinkingDelta("", vendor=ME), ThinkingDelta("", "s1", ME), TextDelta("Yes.")],
        [Thinking("", "s1", ME), Text("Yes.")],
    ),
    "Anthropic: redacted between thinking": (
        [
            ThinkingDelta("a", vendor=ME),
            ThinkingDelta("", "s1", ME),
            ThinkingDelta("", "xx", REDACTED),
            ThinkingDelta("", "yy", REDACTED),
            ThinkingDelta("b", vendor=ME),
            ThinkingDelta("", "s2", ME),
        ],
        [Thinking("a", "s1", ME), Thinking("", "xx", REDACTED), Thinking("", "yy", REDACTED), Thinking("b", "s2", ME)],
    ),
    "Anthropic: redacted behind thinking whose signature never came": (
        [ThinkingDelta("a", vendor=ME), ThinkingDelta("", "xx", REDACTED), ThinkingDelta("b", vendor=ME)],
        [Thinking("a", "", ME), Thinking("", "xx", REDACTED), Thinking("b", "", ME)],
    ),
    "Anthropic: thinking between calls": (
        [
            ToolCallDelta(0, "c", "look", "{}"),
            ThinkingDelta("a", vendor=ME),
            ThinkingDelta("", "s1", ME),
            ToolCallDelta(1, "d", "look", "{}"),
        ],
        [ToolCall("c", "look"), Thinking("a", "s1", ME), ToolCall("d", "look")],
    ),
    "Google: a signature right before a call": (
        [
            ThinkingDelta("Hm", vendor="g"),
            ThinkingDelta("", "s1", "g"),
            ToolCallDelta(0, "c", "look", "{}"),
            ToolCallDelta(1, "d", "look", "{}"),
        ],
        [Thinking("Hm", "s1", "g"), ToolCall("c", "look"), ToolCall("d", "look")],
    ),
    "Google: words before the signature of a call": (
        [
            ThinkingDelta("Hm", vendor="g"),
            TextDelta("I look."),
            ThinkingDelta("", "s1", "g"),
            ToolCallDelta(0, "c", "look", "{}"),
        ],
        [Thinking("Hm", "", "g"), Text("I look."), Thinking("", "s1", "g"), ToolCall("c", "look")],
    ),
    "Google: a signature at the end": (
        [TextDelta("Yes"), TextDelta("."), ThinkingDelta("", "s1", "g")],
        [Text("Yes."), Thinking("", "s1", "g")],
    ),
    "Google: words that are not signed behind words that are": (
        [ThinkingDelta("", "s1", "g"), TextDelta("a"), ThinkingDelta("", "", "g"), TextDelta("b"), TextDelta("c")],
        [Thinking("", "s1", "g"), Text("a"), Text("bc")],
    ),
    "OpenAI: two items in a row, signed with their words": (
        [ThinkingDelta("a", vendor="o"), ThinkingDelta("b", "s1", "o"), ThinkingDelta("c", "s2", "o")],
        [Thinking("ab", "s1", "o"), Thinking("c", "s2", "o")],
    ),
    "OpenAI: two items in a row without words": (
        [ThinkingDelta("", "s1", "o"), ThinkingDelta("", "s2", "o"), ToolCallDelta(0, "c", "look", "{}")],
        [Thinking("", "s1", "o"), Thinking("", "s2", "o"), ToolCall("c", "look")],
    ),
    "OpenAI: a phase behind an item that was never signed": (
        [ThinkingDelta("a", vendor="o"), ThinkingDelta("", "final_answer", "o#phase"), TextDelta("b")],
        [Thinking("a", "", "o"), Thinking("", "final_answer", "o#phase"), Text("b")],
    ),
    "Chat Completions: empty words with every thought": (
        [ThinkingDelta("a"), TextDelta(""), ThinkingDelta("b"), TextDelta(""), TextDelta("c"), TextDelta("")],
        [Thinking("ab"), Text("c")],
    ),
    "nothing but emptiness": ([TextDelta(""), ThinkingDelta("", "", "o"), TextDelta("")], []),
}


@pytest.mark.parametrize(("deltas", "blocks"), STREAMS.values(), ids=STREAMS)
def test_thinking_of_every_vendor(deltas: Sequence[Delta], blocks: Sequence[ReplyBlock]) -> None:
    assert accumulated(*deltas) == tuple(blocks)


def test_many_deltas_take_time_by_their_number() -> None:
    """Eight times as many pieces take about eight times as long, and not sixty-four times."""

    def seconds(count: int) -> float:
        pieces = [ThinkingDelta("th", vendor="v")] * count + [ThinkingDelta("", "s", "v")] + [TextDelta("te")] * count
        pieces += [ToolCallDelta(0, "c", "look")] + [ToolCallDelta(0, arguments=" ")] * count
        began = time.process_time()
        blocks = accumulated(*pieces)
        taken = time.process_time() - began
        assert [len(block.text) for block in blocks if not isinstance(block, ToolCall)] == [2 * count, 2 * count]
        return taken

    assert min(seconds(40_000) for _ in range(3)) < 24 * min(seconds(5_000) for _ in range(3))


def test_call_without_an_id_gets_one_and_without_arguments_an_empty_object() -> None:
    assert accumulated(ToolCallDelta(0, name="look"), ToolCallDelta(3, name="see")) == (
        ToolCall("call_0", "look", "{}"),
        ToolCall("call_3", "see", "{}"),
    )


NO_OBJECTS = ["[]", "5", "null", '"{}"', "{", '{"a":}', '{"a":1}}', "{} {}", "{'a':1}", '{"a":NaN}', "\0", " "]


@pytest.mark.parametrize("arguments", [*NO_OBJECTS, '{"a":"\ud800"}'])
def test_arguments_that_are_no_object_are_kept_apart(arguments: str) -> None:
    assert accumulated(ToolCallDelta(0, "c", "look", arguments)) == (ToolCall("c", "look", "{}", malformed=arguments),)


@pytest.mark.parametrize("arguments", ['{"a":' + "[" * 200_000, '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"])
def test_arguments_nested_beyond_reason_are_malformed(arguments: str) -> None:
    (call,) = accumulated(ToolCallDelta(0, "c", "look", arguments))
    assert isinstance(call, ToolCall) and call.malformed == arguments


MISTAKES = {
    "[1,2]": "[1,2]",
    '{"path": "a.txt", }': '{"path": "a.txt", }',
    '{"a":\n\t 1,\r\n\u2028': '{"a": 1,',
    '{"a": "' + "x" * 5_000: '{"a": "' + "x" * 193,
    "{" + " \n" * 200 + '"a"': '{ "a"',
}


@pytest.mark.parametrize(("arguments", "quoted"), MISTAKES.items(), ids=lambda text: text[:9])
def test_model_sees_what_it_wrote_on_one_line_and_no_more_than_that(arguments: str, quoted: str) -> None:
    *_, error = reply_events(accumulated(ToolCallDelta(0, "c", "look", arguments)), StopReason.TOOLS, "m/n")
    said = f"The arguments were not a JSON object; nothing was run. They began: {quoted}"
    assert error == ToolResult("c", said, is_error=True)
    assert len(quoted) <= 200 and len(said.splitlines()) == 1


def test_error_of_blank_arguments_quotes_nothing() -> None:
    *_, error = reply_events(accumulated(ToolCallDelta(0, "c", "look", " \n ")), StopReason.TOOLS, "m/n")
    assert error == ToolResult("c", "The arguments were not a JSON object; nothing was run.", is_error=True)


@pytest.mark.parametrize("arguments", ["{}", ' { "a" : 1 } ', '{"a":{"b":[1,2.5e3,null,"\\u0000\\ud83d\\ude00"]}}'])
def test_arguments_come_back_as_they_were_written(arguments: str) -> None:
    assert accumulated(ToolCallDelta(0, "c", "look", arguments)) == (ToolCall("c", "look", arguments),)


@given(replies, st.sampled_from(StopReason))
@example([], StopReason.LENGTH)
@example([ToolCall("c", "look")], StopReason.TOOLS)
@example([ToolCall("c", "look"), ToolCall("d", "look")], StopReason.LENGTH)
@example([ToolCall("c", "look"), Thinking("", "signed", "v")], StopReason.LENGTH)
@example([Text("a"), ToolCall("c", "look"), Thinking("b"), ToolCall("d", "look", "{}", "["), Text("e")], StopReason.END)
def test_facts_hold_the_blocks_in_their_order(reply: list[ReplyBlock], stop: StopReason) -> None:
    made = reply_events(tuple(reply), stop, "m/n")
    again: list[ReplyBlock] = []
    errors = [event for event in made if isinstance(event, ToolResult)]
    for event in made[: len(made) - len(errors)]:
        if isinstance(event, AssistantMessage):
            again.extend(event.blocks)
        elif isinstance(event, ToolCall):
            again.append(event)
    assert again == reply
    assert isinstance(made[0], AssistantMessage)
    assert all(said.model == "m/n" and not said.interrupted for said in made if isinstance(said, AssistantMessage))
    assert all(said.blocks for said in made[1:] if isinstance(said, AssistantMessage)), "only the first may be empty"
    refused = stop is StopReason.REFUSED
    unfit = [block.id for block in reply if isinstance(block, ToolCall) and (block.malformed or refused)]
    worded = [block for block in reply if not isinstance(block, Thinking) or block.text]
    if stop is StopReason.LENGTH and worded and isinstance(worded[-1], ToolCall) and not worded[-1].malformed:
        unfit.append(worded[-1].id)
    assert [(error.call_id, error.is_error) for error in errors] == [(id, True) for id in unfit]


@pytest.mark.parametrize(
    ("reply", "stop", "stops"),
    [
        ([Text("a")], StopReason.LENGTH, [StopReason.LENGTH]),
        ([], StopReason.REFUSED, [StopReason.REFUSED]),
        ([Text("a"), ToolCall("c", "look")], StopReason.LENGTH, [StopReason.TOOLS]),
        ([ToolCall("c", "look"), Text("a")], StopReason.LENGTH, [StopReason.TOOLS, StopReason.LENGTH]),
        (
            [Text("a"), ToolCall("c", "look"), Text("b"), ToolCall("d", "look")],
            StopReason.LENGTH,
            [StopReason.TOOLS] * 2,
        ),
        ([Text("a"), ToolCall("c", "look"), Text("b")], StopReason.REFUSED, [StopReason.TOOLS, StopReason.REFUSED]),
        ([Text("a"), ToolCall("c", "look"), Text("b")], StopReason.END, [StopReason.END] * 2),
    ],
)
def test_why_a_reply_is_short_is_said_once(reply: list[ReplyBlock], stop: StopReason, stops: list[StopReason]) -> None:
    made = reply_events(tuple(reply), stop, "m/n")
    assert [event.stop for event in made if isinstance(event, AssistantMessage)] == stops


def test_calls_of_a_refused_reply_do_not_run() -> None:
    *_, one, two = reply_events((ToolCall("c", "look"), ToolCall("d", "look", "{}", "[")), StopReason.REFUSED, "m/n")
    why = "The reply ended as refused; nothing was run."
    assert (one, two) == (ToolResult("c", why, is_error=True), ToolResult("d", why, is_error=True))


def test_interrupted_reply_keeps_text_and_thinking() -> None:
    blocks = (Thinking("Hm", "signed", "v/m"), Text("I was"), ToolCall("c", "look"), Text(""), Text(" say"))
    (said,) = interrupted_events(blocks, "m/n")
    kept = (Thinking("Hm", "", "v/m"), Text("I was"), Text(" say"))
    assert said == AssistantMessage(kept, StopReason.END, "m/n", interrupted=True)
    assert interrupted_events((Thinking("", "opaque"), Text("")), "m/n") == ()
