"""These tests check that requests are valid for any log: every call has one result right behind it."""

from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, Message, Role, Text, ToolCall, ToolResult
from ikigai.core.request.build import (
    NOT_RUN,
    OUTCOME_UNKNOWN,
    REPLY_PLACEHOLDERS,
    UNKNOWN_OUTCOME,
    append_event,
    close_turn,
    distinguish_calls,
    pair_calls,
    window_notice,
)
from ikigai.core.request.cross_model import portable_name


def call(id: str) -> ToolCall:
    return ToolCall(id, "look")


def result(id: str, content: str = "seen") -> ToolResult:
    return ToolResult(id, content, name="look")


def user(text: str = "?") -> Message:
    return Message(Role.USER, (Text(text),))


def assistant(*blocks: Text | ToolCall) -> Message:
    return Message(Role.ASSISTANT, blocks)


def tool(*results: ToolResult) -> Message:
    return Message(Role.TOOL, results)


ids = st.sampled_from("abc")
replies = st.lists(st.builds(Text, st.just("!")) | st.builds(call, ids), min_size=1, max_size=3)
results = st.lists(st.builds(result, ids, st.sampled_from("xy")), min_size=1, max_size=3)
damaged = st.lists(
    st.builds(user) | replies.map(lambda blocks: assistant(*blocks)) | results.map(lambda blocks: tool(*blocks)),
    max_size=8,
).map(tuple)


@given(damaged, st.frozensets(ids))
@example((assistant(call("a"), call("a")),), frozenset())
@example((assistant(call("a")), tool(result("a")), assistant(call("a")), tool(result("a", "y"))), frozenset())
@example((tool(result("a")), user(), assistant(call("a"))), frozenset())
@example((assistant(call("a")), user(), tool(result("a"))), frozenset())
@example((assistant(call("a")), tool(result("a"), ToolResult("b", "found", name="look", hosted="s"))), frozenset())
def test_any_sequence_comes_out_whole(messages: tuple[Message, ...], started: frozenset[str]) -> None:
    whole = pair_calls(messages, started)
    assert pair_calls(whole, started) == whole
    waiting: list[str] = []
    for message in whole:
        answered = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        assert answered == waiting and message.blocks
        waiting = [call.id for call in message.calls]
    assert not waiting
    wanted = {call.id for message in messages for call in message.calls}
    assert sorted(call.id for message in whole for call in message.calls) == sorted(wanted), "each call once"
    words = [block for message in messages for block in message.blocks if isinstance(block, Text)]
    assert [block for message in whole for block in message.blocks if isinstance(block, Text)] == words
    first = {
        block.call_id: block.content
        for message in reversed(messages)
        for block in reversed(message.blocks)
        if isinstance(block, ToolResult)
    }
    for message in whole:
        for block in message.blocks:
            if isinstance(block, ToolResult):
                missing = OUTCOME_UNKNOWN if block.call_id in started else NOT_RUN
                assert block.content == first.get(block.call_id, missing)
                assert block.is_error is (block.call_id not in first)


@given(st.lists(damaged, min_size=2, max_size=4))
@example([(assistant(call("functions.ls:0")), tool(result("functions.ls:0")))] * 3)
@example([(assistant(call("é")), tool(result("é")))] * 3)
def test_every_call_of_a_request_has_an_id_of_its_own(turns: list[tuple[Message, ...]]) -> None:
    messages = tuple(message for turn in turns for message in pair_calls(turn, frozenset()))
    distinct = distinguish_calls(messages)
    calls = [call.id for message in distinct for call in message.calls]
    assert len(calls) == len(set(calls))
    assert pair_calls(distinct, frozenset()) == distinct, "each result is its call's"
    assert distinguish_calls(messages) == distinct and distinguish_calls(distinct) == distinct
    contents = [[getattr(block, "content", "") for block in message.blocks] for message in messages]
    assert [[getattr(block, "content", "") for block in message.blocks] for message in distinct] == contents
    known: set[str] = set()
    for before, after in zip(messages, distinct, strict=True):
        for one, other in zip(before.calls, after.calls, strict=True):
            assert one == other or one.id in known, "only the later of two is renamed"
            known.add(one.id)


def test_new_id_of_a_call_is_as_long_as_its_own_for_every_vendor() -> None:
    for id in ("functions.list_files:0", "call_0", "toolu_01A09q90qw90lq917835lq9", "x" * 80):
        messages = (user(), assistant(call(id)), tool(result(id)), assistant(Text("!"))) * 3
        sizes = [len(portable_name(one.id)) for message in distinguish_calls(messages) for one in message.calls]
        assert sizes == [len(portable_name(id))] * 3


def test_result_has_the_name_of_the_call_it_answers() -> None:
    nameless, wrong = ToolResult("a", "x"), ToolResult("a", "x", True, name="other")
    for result in (nameless, wrong):
        for messages in (
            (tool(result), user(), assistant(call("a"))),
            (assistant(call("a"), ToolCall("a", "other")), tool(result)),
        ):
            *_, answers = pair_calls(messages, frozenset())
            assert answers == tool(ToolResult("a", "x", result.is_error, "look"))


def test_paired_calls_stay_unchanged() -> None:
    whole = (
        user(),
        assistant(Text("I look."), call("a"), call("b")),
        tool(result("a"), result("b")),
        assistant(Text("!")),
    )
    assert pair_calls(whole, frozenset()) == whole


def test_results_follow_in_the_order_of_the_calls() -> None:
    messages = (assistant(call("a"), call("b")), tool(result("b"), result("a")))
    assert pair_calls(messages, frozenset())[1] == tool(result("a"), result("b"))


def test_missing_result_says_whether_the_call_may_have_run() -> None:
    _, answers = pair_calls((assistant(call("a"), call("b")),), frozenset("a"))
    assert answers == tool(ToolResult("a", OUTCOME_UNKNOWN, True, "look"), ToolResult("b", NOT_RUN, True, "look"))


def test_turn_that_ended_ends_with_the_models_word() -> None:
    for ending in ev.Ending:
        assert close_turn((user(),), frozenset(), ending) == (user(), assistant(Text(REPLY_PLACEHOLDERS[ending])))
        assert close_turn((user(), assistant(Text("!"))), frozenset(), ending)[-1] == assistant(Text("!"))
        *_, answers, last = close_turn((user(), assistant(call("a"))), frozenset(), ending)
        assert answers.role is Role.TOOL and last == assistant(Text(REPLY_PLACEHOLDERS[ending]))
    assert close_turn((), frozenset(), ev.Ending.FAILED) == ()


def test_events_make_messages_join_them_or_are_not_sent() -> None:
    messages: tuple[Message, ...] = ()
    for event in (
        ev.UserMessage("?"),
        ev.UsageReported("m"),
        ev.AssistantMessage((Text("This"), Text(""))),
        call("a"),
        ev.AssistantMessage((Text("and that"),)),
        call("b"),
        ev.ToolStarted("a"),
        result("a"),
        result("b"),
        ev.AssistantMessage(()),
        ev.AssistantMessage((Text(""),)),
        ev.AssistantMessage((Text("Done."),)),
    ):
        messages = append_event(messages, event)
    assert messages == (
        user(),
        assistant(Text("This"), call("a"), Text("and that"), call("b")),
        tool(ToolResult("a", "seen", name="look"), ToolResult("b", "seen", name="look")),
        assistant(Text("Done.")),
    )


def test_images_stand_before_the_words_and_alone_without_them() -> None:
    images = tuple(Image("image/png", "iVBO", n, n) for n in (1, 2))
    assert append_event((), ev.UserMessage("What?", images)) == (Message(Role.USER, (*images, Text("What?"))),)
    assert append_event((), ev.UserMessage("", images)) == (Message(Role.USER, images),)
    assert append_event((), ev.UserMessage("")) == (user(""),)


def test_result_has_the_name_of_its_call_whatever_the_log_says() -> None:
    messages = (assistant(ToolCall("a", "look"), ToolCall("b", "see")), assistant(ToolCall("a", "hear")))
    for name in ("", "wrong"):
        *_, answered = append_event(messages, ToolResult("b", "seen", name=name))
        assert answered == tool(ToolResult("b", "seen", name="see"))
    assert append_event(messages, result("a"))[-1] == tool(ToolResult("a", "seen", name="hear")), "the newest call's"
    assert append_event(messages, ToolResult("c", "seen", name="x"))[-1] == tool(ToolResult("c", "seen"))


def test_two_messages_of_the_user_stay_two() -> None:
    assert append_event((user("a"),), ev.UserMessage("b")) == (user("a"), user("b"))


def test_notice_counts_messages_and_is_silent_about_none() -> None:
    assert window_notice(0) is None
    assert window_notice(1) == user("[conversation truncated — 1 older message omitted]")
    assert window_notice(12) == user("[conversation truncated — 12 older messages omitted]")


def test_hosted_call_without_its_result_gets_one() -> None:
    asked = ToolCall("a", "look", hosted="s")
    (closed,) = pair_calls((assistant(asked),), frozenset())
    assert closed.blocks == (asked, ToolResult("a", UNKNOWN_OUTCOME, True, "look", hosted="s"))
    assert pair_calls((assistant(asked),), frozenset(), is_open=True) == (assistant(asked),)
