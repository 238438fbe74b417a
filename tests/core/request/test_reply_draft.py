"""A draft that is read now and then tells the reply as it came: every word once, in order, and its end agrees."""

import hypothesis.strategies as st
from hypothesis import given

from ikigai.core.messages import Text, Thinking, ToolCall
from ikigai.core.request.reply import Accumulator, Delta, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.request.reply_draft import Telling, parts

WORDS = st.text("ab \n", min_size=1, max_size=4)
DELTAS = st.lists(
    st.builds(TextDelta, WORDS)
    | st.builds(ThinkingDelta, WORDS, st.sampled_from(["", "", "signed"]))
    | st.sampled_from([ToolCallDelta(0), ToolCallDelta(1)]),
    max_size=25,
)
"""Of a call only whether it begins another one: 1, or goes on with arguments: 0."""


def shape(reply: Accumulator) -> list[tuple[str, str]]:
    """Kinds and words in order; thoughts that follow one another are read as one."""
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
def test_what_is_read_of_a_draft_is_the_reply(deltas: list[Delta], data: st.DataObject) -> None:
    calls = 0
    reply, telling, told = Accumulator(), Telling(1), Accumulator()
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            begins = delta.index == 1 or not calls
            calls += begins
            delta = ToolCallDelta(calls - 1, f"c{calls}" * begins, f"tool{calls}" * begins, "{")
        reply.add(delta)
        if data.draw(st.booleans()):
            more = telling.more(
                reply.text[len(telling.text) :], reply.thinking[len(telling.thinking) :], parts(reply.blocks())
            )
            for each in more:
                told.add(each)
            assert (telling.text, telling.thinking) == (reply.text, reply.thinking)
            assert shape(told) == shape(reply)
    for each in telling.rest(reply.blocks()):
        told.add(each)
    assert shape(told) == shape(reply)
    assert telling.rest(reply.blocks()) == []


def test_a_reply_that_is_another_adds_nothing() -> None:
    telling = Telling(1)
    assert telling.more("It is", "hm", (("thinking", 2), ("text", 5))) == [ThinkingDelta("hm"), TextDelta("It is")]
    assert telling.rest([Text("It was not.")]) == []
    # A program that took over stores what was saved as one thought and one text.
    assert telling.rest([Thinking("hm"), Text("It is")]) == []


def test_parts_that_do_not_fit_lose_no_word() -> None:
    for wrong in ((), (("text", 99),), (("text", -1),), (("call", 3),), (("odd", 5),), (("thinking", "x"),)):
        telling = Telling(1)
        assert telling.more("It is", "hm", wrong) == [ThinkingDelta("hm"), TextDelta("It is")]
        assert telling.more(" so", "", (("thinking", 2), ("text", 8))) == [TextDelta(" so")]
