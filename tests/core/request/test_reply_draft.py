"""These tests check that a draft read now and then gives the whole reply: each character once and in order."""

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from ikigai.core.events.messages import Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.reply import Delta, HostedDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.request.reply_draft import Draft, DraftFollower, draft_blocks, draft_parts

WORDS = st.text("ab \n", min_size=1, max_size=4)
DELTAS = st.lists(
    st.builds(TextDelta, WORDS)
    | st.builds(ThinkingDelta, WORDS, st.sampled_from(["", "", "signed"]))
    | st.sampled_from([ToolCallDelta(0), ToolCallDelta(1)]),
    max_size=25,
)
"""For a call 1 if it begins another one, 0 if it goes on with arguments."""


def shape(reply: ReplyBuilder) -> list[tuple[str, str]]:
    """Return kinds and texts in order; successive thinking is joined."""
    found: list[tuple[str, str]] = []
    for block in reply.blocks():
        match block:
            case Text(text):
                found.append(("text", text))
            case Thinking(text) if found and found[-1][0] == "thinking":
                found[-1] = "thinking", f"{found[-1][1]}\n\n{text}"
            case Thinking(text):
                found.append(("thinking", text))
            case ToolCall(_, name):
                found.append(("call", name))
    return [each for each in found if each[1]]


@given(DELTAS, st.data())
def test_draft_follower_returns_the_whole_reply(deltas: list[Delta], data: st.DataObject) -> None:
    calls = 0
    reply, telling, told = ReplyBuilder(), DraftFollower(1), ReplyBuilder()
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            begins = delta.index == 1 or not calls
            calls += begins
            delta = ToolCallDelta(calls - 1, f"c{calls}" * begins, f"tool{calls}" * begins, "{")
        reply.add(delta)
        if data.draw(st.booleans()):
            more = telling.add_state(
                reply.text[len(telling.text) :], reply.thinking[len(telling.thinking) :], draft_parts(reply.blocks())
            )
            for each in more:
                told.add(each)
            assert (telling.text, telling.thinking) == (reply.text, reply.thinking)
            assert shape(told) == shape(reply)
    for each in telling.finish(reply.blocks()):
        told.add(each)
    assert shape(told) == shape(reply)
    assert telling.finish(reply.blocks()) == []


def test_other_reply_adds_no_deltas() -> None:
    telling = DraftFollower(1)
    assert telling.add_state("It is", "hm", (("thinking", 2), ("text", 5))) == [ThinkingDelta("hm"), TextDelta("It is")]
    assert telling.finish([Text("It was not.")]) == []
    # A program that took over stores what was saved as one thought and one text.
    assert telling.finish([Thinking("hm"), Text("It is")]) == []


def test_parts_that_do_not_fit_lose_no_word() -> None:
    for wrong in ((), (("text", 99),), (("text", -1),), (("call", 3),), (("odd", 5),), (("thinking", "x"),)):
        telling = DraftFollower(1)
        assert telling.add_state("It is", "hm", wrong) == [ThinkingDelta("hm"), TextDelta("It is")]
        assert telling.add_state(" so", "", (("thinking", 2), ("text", 8))) == [TextDelta(" so")]


CALL = ToolCall("s", "search", '{"query":"x"}', hosted="v")
RESULT = ToolResult("s", "a page", name="search", hosted="v", opaque="[1]")
SEARCHED = (Thinking("Hm.", "", "v"), Text("I look."), CALL, RESULT, Text("It is new."))


def test_hosted_calls_are_in_the_draft_in_their_place_without_what_their_vendor_wants_back():
    draft = Draft(7, "I look.It is new.", "Hm.", draft_parts(SEARCHED))
    assert draft_blocks(draft) == (
        Thinking("Hm."),
        Text("I look."),
        CALL,
        msgspec.structs.replace(RESULT, opaque=""),
        Text("It is new."),
    )
    assert draft_blocks(Draft(7, "I look.", "Hm.", draft_parts(SEARCHED[:3]))) == (
        Thinking("Hm."),
        Text("I look."),
        CALL,
    )


def test_damaged_draft_of_a_search_is_its_words_alone():
    for part in (("hosted", "{"), ("hosted", '{"type":"tool_call","id":"s","name":"ls"}'), ("hosted", 7)):
        assert draft_blocks(Draft(7, "I", "", (part, ("text", 1)))) == (Thinking(""), Text("I"))


def test_follower_returns_each_hosted_call_once():
    follower = DraftFollower(7)
    first = follower.add_state("I look.", "Hm.", draft_parts(SEARCHED[:3]))
    rest = follower.finish(SEARCHED)
    deltas = [*first, *rest]
    hosted = [delta.block for delta in deltas if isinstance(delta, HostedDelta)]
    assert hosted == [CALL, msgspec.structs.replace(RESULT, opaque="")]
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "I look.It is new."
