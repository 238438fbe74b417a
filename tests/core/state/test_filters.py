"""Filters together with marks, rewinds, clears, undos and forks, in sentences; the tools of a talk are tested apart."""

from itertools import pairwise

import pytest

from ikigai.core import events as ev
from ikigai.core.errors import Refused
from ikigai.core.forget.matching import SPEC
from ikigai.core.forget.selection import Selection, Wanted, selecting
from ikigai.core.messages import Role, Text, ToolCall, ToolResult
from ikigai.core.request.build import UNANSWERED
from ikigai.core.state.fold import REMOVED
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Clear,
    Edit,
    Filter,
    Forget,
    Opened,
    Plan,
    Retry,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    ToolDone,
    Undo,
)
from ikigai.core.state.loading import loading
from ikigai.core.state.machine import decide, work
from ikigai.core.state.memory import replace, request
from ikigai.core.state.run_config import Run
from ikigai.core.views.transcript import rule
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits

LARGE = Run({"model": "chat/large", "budget": 100_000}, limits, encoder, planning=lambda: (SPEC,))
UNSAID = UNANSWERED[ev.Ending.COMPLETED]
"""What stands where a reply was forgotten and its question was not."""


def said(agent: Agent) -> list[str]:
    """What the next request says, message by message."""
    return [message.text for message in request(agent.memory).messages]


def of(numbers: range) -> list[str]:
    return [f"message {number}" for number in numbers]


def talk(agent: Agent, numbers: range) -> None:
    """Turns of two messages each, with these numbers."""
    for number in numbers[::2]:
        agent.turn(f"message {number}", f"message {number + 1}")


def id_of(agent: Agent, text: str) -> int:
    return next(row.id for row in agent.log.history(agent.name) if getattr(row.event, "text", "") == text)


def selected(agent: Agent, *wanted: Wanted) -> Selection:
    return agent.log.load(selecting(agent.run, agent.name, wanted))


def forget(agent: Agent, *wanted: Wanted) -> None:
    """By ids, as the loop does it once the user has agreed."""
    found = selected(agent, *wanted)
    agent.happen(Filter(found.ranges, found.ids, found.messages))


def messages(agent: Agent, first: int, last: int) -> Wanted:
    return Wanted(id_of(agent, f"message {first}"), id_of(agent, f"message {last}"))


def planning(agent: Agent, found: Selection | None, mode: str = "forget") -> None:
    """The talk of /forget CRITERIA: six messages, preview and apply; without `found` the user has declined."""
    agent.happen(Plan(mode, "databases"))
    for number, action in enumerate(("preview", "apply")):
        agent.reply(ToolCall(f"c{number}", "filter_context", f'{{"action":"{action}"}}'))
        agent.happen(Approved(agent.job(StartTool)))
        plan = (ev.FilterPlanned(found.ranges, found.ids, found.messages, found.tokens),) if number and found else ()
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{number}", "done"), plan))
    agent.reply(Text("Done."))


def child_of(agent: Agent, name: str = "child") -> Agent:
    """A fork from where the agent is now."""
    at = agent.log.rows[-1].id
    agent.log.create(name, agent.name, at)
    agent.log.append(name, (ev.Forked(agent.name, at),))
    return Agent(agent.run, agent.log, name)


def agrees_with_replay(agent: Agent) -> None:
    assert agent.loaded() == agent.memory


# -- the timeline of forgetting between a mark and the way back to it ----------------------------------------------


@pytest.mark.parametrize("budget", [100_000, 700, 300])
def test_a_rewind_behind_a_filter_leaves_what_the_mark_saw_without_what_the_filter_took(budget: int) -> None:
    """1-100, a mark, 101-150 with a talk that forgets 50-75, 151-200, back to the mark: 1-49 and 76-100."""
    agent = Agent(Run({"model": "chat/large", "budget": budget}, limits, encoder, planning=lambda: (SPEC,)))
    talk(agent, range(1, 101))
    agent.happen(SetMark())
    talk(agent, range(101, 139))
    found = selected(agent, messages(agent, 50, 75))
    assert (found.messages, len(found.ranges), len(found.ids)) == (26, 1, 2), "12 turns, half of one on either side"
    planning(agent, found)  # 139-144
    talk(agent, range(145, 151))
    before = said(agent)
    assert "databases" not in " ".join(before) and not {*of(range(50, 76))}.intersection(before)
    talk(agent, range(151, 201))
    agrees_with_replay(agent)
    agent.happen(RewindTo())
    agrees_with_replay(agent)
    kept = [*of(range(1, 50)), UNSAID, REMOVED, *of(range(76, 101))]
    if budget == 100_000:
        assert said(agent) == kept and rule(agent.memory) is None
        return
    notice, *sent = said(agent)
    assert sent == kept[-len(sent) :] and notice.startswith("[conversation truncated — ")
    place = rule(agent.memory)
    assert place and place.words == sent[0]
    whole = request(agent.log.load(loading(LARGE, agent.name))).messages[-len(sent) - 2 :]
    now = request(agent.memory)
    longer = replace(now, messages=(now.messages[0], *whole))
    sizes = [encoder("chat/large").weight(each) for each in (now, longer)]
    assert sizes[0] <= 4 * budget < sizes[1], "the longest run of whole turns that fits"


def test_taken_back_in_any_order_each_act_holds_without_the_others() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 9))
    agent.happen(SetMark("m"))
    talk(agent, range(9, 13))
    forget(agent, messages(agent, 3, 4))
    talk(agent, range(13, 15))
    agent.happen(RewindTo("m"))
    agent.happen(Clear())
    talk(agent, range(15, 17))
    states = [of(range(15, 17))]
    assert said(agent) == states[0]
    undone = [fact for _ in range(3) for fact in agent.happen(Undo())]
    assert [fact.what for fact in undone if isinstance(fact, ev.Undone)] == ["clear", "rewind", "filter"]
    assert said(agent) == of(range(1, 17))
    with pytest.raises(Refused, match="There is nothing to undo"):
        decide(agent.memory, Undo())
    redo = [act.id for act in agent.memory.acts if act.kind == "undo"]
    agent.happen(Undo(redo[2]))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 17))]
    agent.happen(Undo(redo[1]))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 9)), *of(range(15, 17))]
    agent.happen(Undo(redo[0]))
    assert said(agent) == of(range(15, 17))
    agrees_with_replay(agent)


# -- thinned turns -------------------------------------------------------------------------------------------------


def test_what_is_left_of_a_turn_without_its_question_can_be_named_and_is_forgotten_with_it() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 7))
    forget(agent, messages(agent, 3, 3))
    assert said(agent) == [*of(range(1, 3)), REMOVED, *of(range(4, 7))]
    (thinned, newest) = selected(agent, Wanted(back=2)).chosen
    assert thinned.turn.words == REMOVED and [row.id for row in thinned.turn.said] == [id_of(agent, "message 4")]
    assert newest.turn.words == "message 5"
    with pytest.raises(Refused, match="is not in the context"):
        selected(agent, messages(agent, 3, 3))
    forget(agent, messages(agent, 4, 4))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 7))]
    agrees_with_replay(agent)
    talk(agent, range(7, 9))
    agent.happen(Undo())
    assert said(agent) == [*of(range(1, 3)), REMOVED, *of(range(4, 9))]
    agrees_with_replay(agent)


def test_a_reply_goes_with_its_calls_and_their_results() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 3))
    agent.store(
        (ev.UserMessage("look"), ev.AssistantMessage((Text("I look."),)), ToolCall("a", "x"), ToolCall("b", "x"))
    )
    for call in "ab":
        agent.store((ev.ToolStarted(call), ToolResult(call, f"result of {call}")))
    agent.reply(Text("Seen."))
    found = selected(agent, Wanted(*[next(row.id for row in agent.log.rows if row.content == "result of b")] * 2))
    assert (found.messages, found.ranges) == (5, ())
    agent.happen(Filter(found.ranges, found.ids, found.messages))
    assert said(agent) == [*of(range(1, 3)), "look", "Seen."]
    sent = request(agent.memory).messages
    assert all((one.role, two.role) != (Role.USER, Role.USER) for one, two in pairwise(sent))


# -- talks ---------------------------------------------------------------------------------------------------------


def test_a_declined_talk_leaves_memory_and_undo_passes_it_by() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 5))
    agent.happen(SetMark("m"))
    talk(agent, range(5, 7))
    agent.happen(RewindTo("m"))
    planning(agent, None)
    assert said(agent) == of(range(1, 5))
    rewind, declined = agent.memory.acts
    assert (rewind.empty, declined.empty) == (False, True)
    assert agent.happen(Undo()) == (ev.Undone(rewind.id, "rewind"),)
    assert said(agent) == of(range(1, 7))


def test_a_talk_that_undo_brought_back_is_no_message_to_send_again() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 7))
    planning(agent, selected(agent, messages(agent, 3, 4)))
    agent.happen(Undo())
    assert said(agent)[:6] == of(range(1, 7)) and len(said(agent)) > 6
    assert selected(agent, Wanted(back=1)).chosen[0].turn.words == "/forget databases"
    for again in (Retry(), Edit()):
        with pytest.raises(Refused, match="a talk about what to forget"):
            decide(agent.memory, again)
    agrees_with_replay(agent)


@pytest.mark.parametrize("applied", [False, True])
def test_a_program_that_dies_in_a_talk_leaves_no_more_than_what_was_applied(applied: bool) -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 7))
    found = selected(agent, messages(agent, 3, 4))
    agent.happen(Plan("forget", "databases"))
    agent.reply(ToolCall("c", "filter_context", '{"action":"preview"}'))
    agent.happen(Approved(agent.job(StartTool)))
    if applied:
        plan = ev.FilterPlanned(found.ranges, found.ids, found.messages, found.tokens)
        agent.happen(ToolDone(agent.job(RunTool), ToolResult("c", "done"), (plan,)))
        assert agent.job(CallModel)
    again = Agent(LARGE, agent.log)
    assert said(again) == [*of(range(1, 3)), *of(range(3, 5)) * (not applied), *of(range(5, 7))]
    assert not work(again.memory) and again.happen(Opened()) == ()
    agrees_with_replay(again)


def test_ids_that_nobody_looked_up_are_refused() -> None:
    with pytest.raises(Refused, match="Nobody has looked"):
        decide(Agent(LARGE).memory, Forget((Wanted(1, 1),)))


# -- forks ---------------------------------------------------------------------------------------------------------


def test_a_child_that_forgets_what_it_inherited_leaves_its_parent_as_it_was() -> None:
    parent = Agent(LARGE)
    talk(parent, range(1, 9))
    forget(parent, messages(parent, 1, 2))
    child = child_of(parent)
    before = parent.memory
    forget(child, messages(child, 5, 6))
    planning(child, selected(child, messages(child, 3, 3)))
    talk(child, range(9, 11))
    assert said(child) == [REMOVED, *of(range(4, 5)), *of(range(7, 11))]
    agrees_with_replay(child)
    assert parent.loaded() == before == parent.memory and said(parent) == of(range(3, 9))
    with pytest.raises(Refused, match="cannot be undone"):
        decide(child.memory, Undo(before.acts[0].id))
    child.happen(Undo())
    child.happen(Undo())
    assert said(child)[:6] == of(range(3, 9)) and parent.loaded() == before
    agrees_with_replay(child)


def test_what_the_parent_does_after_the_fork_is_not_the_childs() -> None:
    parent = Agent(LARGE)
    talk(parent, range(1, 7))
    child = child_of(parent)
    forget(parent, messages(parent, 1, 4))
    parent.happen(Clear())
    assert said(child) == of(range(1, 7))
    agrees_with_replay(child)
    talk(parent, range(7, 9))
    newest = id_of(parent, "message 7")
    with pytest.raises(Refused, match=r"is not in the context"):
        selected(child, Wanted(newest, newest))
