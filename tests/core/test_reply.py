"""The deltas of a reply add up to its blocks however they were cut, and its blocks to facts in their order."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.events import AssistantMessage
from ikigai.core.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.reply import Accumulator, Delta, TextDelta, ThinkingDelta, ToolCallDelta, facts, interrupted

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
    """The reply in small pieces; the arguments of its calls may come interleaved, after all of them have begun."""
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
    whole = Accumulator()
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
    reply = Accumulator()
    for delta in deltas:
        reply.add(delta)
    return reply.blocks()


def test_nothing_came() -> None:
    assert accumulated() == () and Accumulator().text == ""


def test_thinking_goes_on_until_its_signature_closes_it() -> None:
    assert accumulated(
        ThinkingDelta("Hm"),
        ThinkingDelta(", so"),
        ThinkingDelta("", "sig", "v"),
        ThinkingDelta("And"),
        TextDelta("Yes."),
    ) == (Thinking("Hm, so", "sig", "v"), Thinking("And"), Text("Yes."))


def test_a_signature_without_thoughts_is_a_block_of_its_own() -> None:
    assert accumulated(TextDelta("Yes."), ThinkingDelta("", "redacted", "v")) == (
        Text("Yes."),
        Thinking("", "redacted", "v"),
    )


def test_a_call_without_an_id_gets_one_and_without_arguments_an_empty_object() -> None:
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


@pytest.mark.parametrize("arguments", ["{}", ' { "a" : 1 } ', '{"a":{"b":[1,2.5e3,null,"\\u0000\\ud83d\\ude00"]}}'])
def test_arguments_come_back_as_they_were_written(arguments: str) -> None:
    assert accumulated(ToolCallDelta(0, "c", "look", arguments)) == (ToolCall("c", "look", arguments),)


@given(replies, st.sampled_from(StopReason))
@example([], StopReason.LENGTH)
@example([ToolCall("c", "look")], StopReason.TOOLS)
@example([ToolCall("c", "look"), ToolCall("d", "look")], StopReason.LENGTH)
@example([Text("a"), ToolCall("c", "look"), Thinking("b"), ToolCall("d", "look", "{}", "["), Text("e")], StopReason.END)
def test_facts_hold_the_blocks_in_their_order(reply: list[ReplyBlock], stop: StopReason) -> None:
    made = facts(tuple(reply), stop, "m/n")
    again: list[ReplyBlock] = []
    errors = [fact for fact in made if isinstance(fact, ToolResult)]
    for fact in made[: len(made) - len(errors)]:
        if isinstance(fact, AssistantMessage):
            again.extend(fact.blocks)
        elif isinstance(fact, ToolCall):
            again.append(fact)
    assert again == reply
    assert isinstance(made[0], AssistantMessage)
    assert all(said.model == "m/n" and not said.interrupted for said in made if isinstance(said, AssistantMessage))
    assert all(said.blocks for said in made[1:] if isinstance(said, AssistantMessage)), "only the first may be empty"
    unfit = [block.id for block in reply if isinstance(block, ToolCall) and block.malformed]
    if stop is StopReason.LENGTH and reply and isinstance(reply[-1], ToolCall) and not reply[-1].malformed:
        unfit.append(reply[-1].id)
    assert [(error.call_id, error.is_error) for error in errors] == [(id, True) for id in unfit]


def test_of_a_reply_cut_off_the_words_are_kept() -> None:
    blocks = (Thinking("Hm"), Text("I was"), ToolCall("c", "look"), Text(""), Text(" say"))
    (said,) = interrupted(blocks, "m/n")
    assert said == AssistantMessage((Text("I was"), Text(" say")), StopReason.END, "m/n", interrupted=True)
    assert interrupted((Thinking("Hm"), Text("")), "m/n") == ()
