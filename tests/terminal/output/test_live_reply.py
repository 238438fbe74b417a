"""These tests cover a streaming reply: every word goes up exactly once, and never before it is saved."""

from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.request.reply import HostedDelta, RetryScheduled, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.terminal.output.live_reply import FinishedBlock, FinishedPiece, LiveReply

TEXT = "First paragraph.\n\nSecond *one*.\n\n```python\nx = 1\n\ny = 2\n```\n\n- a\n- b\n\nLast words."


def said(pieces: list[FinishedBlock]) -> str:
    return "".join(piece.source for piece in pieces)


def streamed(*texts: str) -> LiveReply:
    reply = LiveReply(7)
    for text in texts:
        reply.add(TextDelta(text))
    return reply


@given(st.lists(st.integers(0, len(TEXT)), max_size=12), st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_each_word_goes_up_once_in_order_and_when_it_is_saved(cuts: list[int], saves: list[int]):
    reply, up, reached = LiveReply(1), "", 0
    for cut in sorted({*cuts, len(TEXT)}):
        reply.add(TextDelta(TEXT[reached:cut]))
        reached = cut
        for save in saves:
            if save <= reached:
                up += said(reply.saved(save))
                assert TEXT.startswith(up.rstrip("\n")) and len(up.rstrip("\n")) <= max(saves)
    up += said(reply.stored(TEXT))
    assert up.rstrip("\n") == TEXT
    assert reply.stored(TEXT) == [] or said(reply.stored("")) == ""


def test_words_go_up_only_when_saved():
    reply = streamed(TEXT)
    assert reply.saved(10) == []
    assert said(reply.saved(len(TEXT))).startswith("First paragraph.")
    assert reply.saved(len(TEXT)) == []


def test_tail_is_the_text_that_has_not_gone_up():
    reply = streamed("One.\n\nTwo.\n\nThree")
    tail, first = reply.tail(40, 10)
    assert (tail[0], tail[-1], first) == ("One.", "Three", True)
    reply.saved(100)[0].context.begun = True
    assert reply.tail(40, 10) == (["Three"], False)


def test_words_between_two_calls_are_messages_of_their_own():
    reply = streamed("Let me look.")
    reply.add(ToolCallDelta(0, "a", "read", "{"))
    reply.add(ToolCallDelta(0, arguments="}"))
    reply.add(TextDelta("Then this."))
    assert said(reply.saved(12)) == "Let me look.\n"
    assert reply.stored("Let me look.") == []
    pieces = reply.stored("Then this.")
    assert said(pieces).strip() == "Then this."


def test_interrupted_reply_has_all_its_words_in_one_message():
    reply = streamed("Let me look.")
    reply.add(ToolCallDelta(0, "a", "read"))
    reply.add(TextDelta("Then"))
    pieces = reply.stored("Let me look.Then")
    assert [piece.source.strip() for piece in pieces] == ["Let me look.", "Then"]
    assert pieces[0].context is not pieces[1].context


def test_text_that_the_database_cannot_hold_is_recognized():
    reply = streamed("nul \0 and \ud800\n\nrest")
    reply.saved(100)
    assert said(reply.stored("nul \ufffd and \ufffd\n\nrest")).strip() == "rest"


def test_another_text_than_was_streamed_is_shown_whole():
    assert said(streamed("abc").stored("something else")).strip() == "something else"
    assert said(LiveReply(1).stored("never streamed")).strip() == "never streamed"


def test_thoughts_and_waits_come_and_go():
    reply = LiveReply(1)
    reply.add(RetryScheduled(5.0, 2, "busy"))
    assert reply.waiting
    reply.add(ThinkingDelta("hm \x1b[2J"))
    assert reply.waiting is None and reply.thinking and reply.thinking.last == "hm"
    reply.add(TextDelta("So:"))
    assert reply.thinking is None


CALL, RESULT = ToolCall("s", "search", hosted="v"), ToolResult("s", "a page", hosted="v")


def searched() -> LiveReply:
    reply = streamed("I look.")
    reply.add(HostedDelta(CALL))
    assert reply.hosted == CALL
    reply.add(HostedDelta(RESULT))
    assert reply.hosted is None
    reply.add(TextDelta("It is new.\n\nGood."))
    return reply


def told(pieces: list[FinishedPiece]) -> list[object]:
    return [piece if isinstance(piece, ToolCall | ToolResult) else said([piece]).strip() for piece in pieces]  # type: ignore


def test_hosted_call_goes_up_before_the_words_behind_it_and_once():
    reply = searched()
    assert told(reply.saved(3)) == []
    finished = told(reply.saved(len("I look.It is new.\n\nGo")))
    assert finished[:3] == ["I look.", CALL, RESULT]
    assert reply.stored("I look.") == []
    assert reply.awaits_step and reply.stored_step() == [] and reply.stored_step() == []
    assert not reply.awaits_step
    rest = told(reply.stored("It is new.\n\nGood."))
    assert [*finished[3:], *rest] == ["It is new.", "Good."]
    assert not reply.waits


def test_hosted_call_that_was_not_saved_goes_up_with_its_event():
    reply = searched()
    assert told(reply.stored("I look.")) == ["I look."]
    assert told(reply.stored_step()) == [CALL]
    assert told(reply.stored_step()) == [RESULT]
    assert told(reply.stored("It is new.\n\nGood.")) == ["It is new.", "Good."]
    assert not reply.waits and not reply.awaits_step


def test_words_before_a_hosted_call_are_not_taken_for_those_behind_it():
    reply = LiveReply(7)
    reply.add(HostedDelta(CALL))
    reply.add(HostedDelta(RESULT))
    reply.add(TextDelta("Good."))
    assert reply.stored("") == [], "the message without words before the call"
    assert told([*reply.stored_step(), *reply.stored_step()]) == [CALL, RESULT]
    assert told(reply.stored("Good.")) == ["Good."]
