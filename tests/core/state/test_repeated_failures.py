"""Tests of equal tool calls that fail in a row, and of replies without text."""

from typing import Any

import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult, ToolSpec
from ikigai.core.state.decisions.repeated_failures import MAX_EQUAL_FAILURES, _are_equal, failure_notices
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Denied,
    Plan,
    Replied,
    RunTool,
    StartTool,
    Steered,
    Submitted,
    ToolDone,
)
from ikigai.core.state.memory import AgentStatus
from ikigai.core.views.transcript import Speaker, event_blocks
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder, limits

TOOLS = tuple(ToolSpec(name, "", "{}") for name in ("edit", "look"))


def agent() -> Agent:
    made = Agent(RunConfig(RUN.below, limits, encoder, tools=TOOLS))
    made.happen(Submitted("Do it."))
    return made


def run(made: Agent, *calls: ToolCall, failing: bool | str = True) -> tuple[list[ev.Event], list[str]]:
    """Have the model make these calls in one reply; return what is stored but usage and starts, and the notices."""
    results, notices = list[ev.Event](), list[str]()

    def happen(incoming: Any) -> None:
        before = made.memory
        stored = made.happen(incoming)
        results.extend(each for each in stored if isinstance(each, ToolResult | ev.TurnEnded))
        notices.extend(failure_notices(before, stored))

    happen(Replied(made.job(CallModel), calls, StopReason.TOOLS, ev.UsageReported(made.memory.model)))
    while made.memory.status is AgentStatus.RUNNING_TOOLS:
        job = made.job(StartTool)
        failed = failing if isinstance(failing, bool) else job.call.name == failing
        if failed and job.call.name == "look":
            happen(Denied(job, ToolResult(job.call.id, "No.", is_error=True)))
            continue
        happen(Approved(job))
        ran = made.job(RunTool)
        happen(ToolDone(ran, ToolResult(ran.call.id, "Out.", is_error=failed)))
    return results, notices


def rounds(made: Agent, calls: list[list[ToolCall]], failing: bool | str = True) -> tuple[int, ev.Event | None]:
    """Make these calls again and again; return after how many replies the turn has ended, and its end."""
    for count in range(1, 40):
        stored, _ = run(made, *calls[(count - 1) % len(calls)], failing=failing)
        if made.memory.open is None:
            return count, stored[-1]
    return 0, None


EDIT = ToolCall("", "edit", '{"a": 1, "b": [2]}')


@pytest.mark.parametrize(
    ("calls", "replies"),
    [
        ([[EDIT]], 9),
        ([[EDIT], [ToolCall("", "edit", '{"b":[2],"a":1}')]], 9),
        ([[EDIT, EDIT]], 5),
        ([[EDIT], [ToolCall("", "look", "{}")]], 17),
        ([[ToolCall("", "look", "{}")]], 9),
        ([[ToolCall("", "edit", "{}", malformed="{a")]], 9),
        ([[ToolCall("", "edit", "")]], 9),
    ],
    ids=["equal", "other order of keys", "two in a reply", "two in turns", "refused", "malformed", "no arguments"],
)
def test_turn_ends_when_a_call_is_made_again_that_has_failed_too_often(calls: list[list[ToolCall]], replies: int):
    made = agent()
    count, end = rounds(made, calls)
    assert (
        count == replies
        and isinstance(end, ev.TurnEnded)
        and end.ending is ev.Ending.FAILED
        and f"has failed {MAX_EQUAL_FAILURES} times in a row" in end.reason
    )
    assert made.loaded() == made.memory


@pytest.mark.parametrize("failing", [False, "look"], ids=["polling", "between others that succeed"])
def test_turn_goes_on_where_a_call_succeeds(failing: bool | str):
    calls = [[EDIT], [ToolCall("", "look", "{}")]] if failing else [[EDIT]]
    assert rounds(agent(), calls, failing) == (0, None)


def test_turn_goes_on_with_other_arguments():
    made = agent()
    for n in range(30):
        run(made, ToolCall("", "edit", f'{{"a": {n}}}'))
    assert made.memory.open


def test_arguments_that_are_nested_deeply_are_compared_on_any_stack():
    lists = "[" * 940 + "]" * 940
    one, other = (ToolCall("c", "edit", f'{{"a":{space}{lists}}}') for space in ("", " "))

    def deeper(frames: int) -> bool:
        return deeper(frames - 1) if frames else _are_equal(one, other)

    assert deeper(100) is False


def test_message_of_the_user_begins_anew():
    made = agent()
    for _ in range(4):
        for _ in range(MAX_EQUAL_FAILURES - 1):
            run(made, EDIT)
        made.happen(Steered("Once more."))
    assert made.memory.open


def test_model_is_told_from_the_third_failure_on_and_the_user_once():
    made = agent()
    told = [run(made, EDIT) for _ in range(5)]
    assert ["failed" in result.content for (result,), _ in told] == [False, False, True, True, True]
    assert told[2][0][0].content == (
        "[This call has failed 3 times in a row with the same arguments. Change them, or do something else: after 8 "
        "failures the turn ends.]\nOut."
    )
    assert [notices for _, notices in told] == [
        [],
        [],
        [
            "edit has failed 3 times in a row with the same arguments. The model was told; "
            "after 8 failures the turn ends."
        ],
        [],
        [],
    ]


@pytest.mark.parametrize(
    "blocks", [(), (Text(" \n"),), (Thinking("Hm."),), (ToolCall("h", "web_search", "{}", hosted="openai/x"),)]
)
@pytest.mark.parametrize("stop", [StopReason.END, StopReason.TOOLS, StopReason.PAUSED])
def test_end_of_a_reply_without_text_says_so(blocks: tuple[ReplyBlock, ...], stop: StopReason):
    made = agent()
    *_, end = made.happen(Replied(made.job(CallModel), blocks, stop, ev.UsageReported("m")))
    if made.memory.open:  # a paused reply with a search goes on
        return
    assert isinstance(end, ev.TurnEnded) and (end.ending, end.reason) == (
        ev.Ending.COMPLETED,
        "The model sent no text.",
    )
    (shown,) = event_blocks(ev.StoredEvent(9, "a", 9, 0.0, end))
    assert (shown.speaker, shown.text) == (Speaker.SHORT, "The model sent no text.")


@pytest.mark.parametrize("stop", [StopReason.LENGTH, StopReason.REFUSED])
def test_end_of_a_reply_that_says_why_it_is_short_adds_nothing(stop: StopReason):
    made = agent()
    *_, end = made.happen(Replied(made.job(CallModel), (), stop, ev.UsageReported("m")))
    assert isinstance(end, ev.TurnEnded) and not end.reason


def test_planning_talk_needs_no_text():
    made = Agent(RunConfig(RUN.below, limits, encoder, tools=TOOLS, planning=lambda: TOOLS))
    made.happen(Plan("old ones", "forget"))
    events = made.reply(Thinking("Hm."))
    assert [each.reason for each in events if isinstance(each, ev.TurnEnded)] == [""]
