"""These tests check filters together with marks, rewinds, clears, undos and forks; other tests cover the tools."""

from itertools import pairwise

import pytest

from ikigai.core.context.forget_matching import FILTER_CONTEXT_SPEC
from ikigai.core.context.forget_selection import EventRange, Selection, select_events
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Role, Text, ToolCall, ToolResult
from ikigai.core.request.build import REPLY_PLACEHOLDERS
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import REMOVED_TEXT
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Clear,
    Edit,
    Filter,
    Forget,
    Opened,
    Plan,
    Redo,
    Retry,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    ToolDone,
    Undo,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import next_request, replace
from ikigai.core.views.context_rule import context_rule
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits

LARGE = RunConfig({"model": "chat/large", "budget": 100_000}, limits, encoder, planning=lambda: (FILTER_CONTEXT_SPEC,))
UNSAID = REPLY_PLACEHOLDERS[ev.Ending.COMPLETED]
"""Text in the place of a forgotten reply whose question was kept."""


def said(agent: Agent) -> list[str]:
    """Return the texts of the next request, message by message."""
    return [message.text for message in next_request(agent.memory).messages]


def of(numbers: range) -> list[str]:
    return [f"message {number}" for number in numbers]


def talk(agent: Agent, numbers: range) -> None:
    """Play turns of two messages each, with these numbers."""
    for number in numbers[::2]:
        agent.turn(f"message {number}", f"message {number + 1}")


def id_of(agent: Agent, text: str) -> int:
    return next(row.id for row in agent.log.history(agent.name) if getattr(row.event, "text", "") == text)


def selected(agent: Agent, *wanted: EventRange) -> Selection:
    return agent.log.load(select_events(agent.run, agent.name, wanted))


def forget(agent: Agent, *wanted: EventRange) -> None:
    """Forget by ids, as the loop does once the user has agreed."""
    found = selected(agent, *wanted)
    agent.happen(Filter(found.ranges, found.ids, found.messages))


def messages(agent: Agent, first: int, last: int) -> EventRange:
    return EventRange(id_of(agent, f"message {first}"), id_of(agent, f"message {last}"))


def planning(agent: Agent, found: Selection | None, mode: str = "forget") -> None:
    """Play the talk of /forget CRITERIA: six messages, preview and apply; without `found` the user declined."""
    agent.happen(Plan(mode, "databases"))
    for number, action in enumerate(("preview", "apply")):
        agent.reply(ToolCall(f"c{number}", "filter_context", f'{{"action":"{action}"}}'))
        agent.happen(Approved(agent.job(StartTool)))
        plan = (ev.FilterPlanned(found.ranges, found.ids, found.messages, found.tokens),) if number and found else ()
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{number}", "done"), plan))
    agent.reply(Text("Done."))


def child_of(agent: Agent, name: str = "child") -> Agent:
    """Return a fork of the agent as it is now."""
    at = agent.log.rows[-1].id
    agent.log.create(name, agent.name, at)
    agent.log.append(name, (ev.Forked(agent.name, at),))
    return Agent(agent.run, agent.log, name)


def agrees_with_replay(agent: Agent) -> None:
    assert agent.loaded() == agent.memory


# -- the timeline of forgetting between a mark and the way back to it ----------------------------------------------


@pytest.mark.parametrize("budget", [100_000, 700, 300])
def test_rewind_to_a_mark_keeps_the_filter_of_events_before_it(budget: int) -> None:
    """1-100, a mark, 101-150 with a talk that forgets 50-75, 151-200, then a rewind to the mark: 1-49 and 76-100."""
    agent = Agent(
        RunConfig(
            {"model": "chat/large", "budget": budget},
            limits,
            encoder,
            planning=lambda: (FILTER_CONTEXT_SPEC,),
            rules=WindowRules(prune_fraction=0),
        )
    )
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
    kept = [*of(range(1, 50)), UNSAID, REMOVED_TEXT, *of(range(76, 101))]
    if budget == 100_000:
        assert said(agent) == kept and context_rule(agent.memory) is None
        return
    notice, *sent = said(agent)
    assert sent == kept[-len(sent) :] and notice.startswith("[conversation truncated — ")
    place = context_rule(agent.memory)
    assert place and place.words == sent[0]
    whole = next_request(agent.log.load(load_memory(LARGE, agent.name))).messages[-len(sent) - 2 :]
    now = next_request(agent.memory)
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
    undone = [event for _ in range(3) for event in agent.happen(Undo())]
    assert [event.what for event in undone if isinstance(event, ev.Undone)] == ["clear", "rewind", "filter"]
    assert said(agent) == of(range(1, 17))
    with pytest.raises(Rejected, match="There is nothing to undo"):
        decide(agent.memory, Undo())
    redo = [act.id for act in agent.memory.changes if act.kind == "undo"]
    agent.happen(Undo(redo[2]))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 17))]
    agent.happen(Undo(redo[1]))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 9)), *of(range(15, 17))]
    agent.happen(Undo(redo[0]))
    assert said(agent) == of(range(15, 17))
    agrees_with_replay(agent)


def test_redo_takes_back_one_undo_after_the_other() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 5))
    forget(agent, messages(agent, 1, 1))
    talk(agent, range(5, 6))
    agent.happen(Clear())
    states = [said(agent)]
    with pytest.raises(Rejected, match="There is nothing to redo"):
        decide(agent.memory, Redo())
    for _ in range(2):
        agent.happen(Undo())
        states.append(said(agent))
    assert len({*map(str, states)}) == 3
    for state in states[1::-1]:
        agent.happen(Redo())
        assert said(agent) == state
        agrees_with_replay(agent)
    with pytest.raises(Rejected, match="There is nothing to redo"):
        decide(agent.memory, Redo())
    agent.happen(Undo())
    assert said(agent) == states[1]
    agent.happen(Redo())
    assert said(agent) == states[0]


# -- thinned turns -------------------------------------------------------------------------------------------------


def test_rest_of_a_turn_without_its_question_can_be_forgotten() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 7))
    forget(agent, messages(agent, 3, 3))
    assert said(agent) == [*of(range(1, 3)), REMOVED_TEXT, *of(range(4, 7))]
    (thinned, newest) = selected(agent, EventRange(newest_turns=2)).turns
    assert thinned.turn.title == REMOVED_TEXT and [row.id for row in thinned.turn.sent_rows] == [
        id_of(agent, "message 4")
    ]
    assert newest.turn.title == "message 5"
    with pytest.raises(Rejected, match="is not in the context"):
        selected(agent, messages(agent, 3, 3))
    forget(agent, messages(agent, 4, 4))
    assert said(agent) == [*of(range(1, 3)), *of(range(5, 7))]
    agrees_with_replay(agent)
    talk(agent, range(7, 9))
    agent.happen(Undo())
    assert said(agent) == [*of(range(1, 3)), REMOVED_TEXT, *of(range(4, 9))]
    agrees_with_replay(agent)


def test_reply_goes_with_its_calls_and_their_results() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 3))
    agent.store(
        (ev.UserMessage("look"), ev.AssistantMessage((Text("I look."),)), ToolCall("a", "x"), ToolCall("b", "x"))
    )
    for call in "ab":
        agent.store((ev.ToolStarted(call), ToolResult(call, f"result of {call}")))
    agent.reply(Text("Seen."))
    found = selected(agent, EventRange(*[next(row.id for row in agent.log.rows if row.content == "result of b")] * 2))
    assert (found.messages, found.ranges) == (5, ())
    agent.happen(Filter(found.ranges, found.ids, found.messages))
    assert said(agent) == [*of(range(1, 3)), "look", "Seen."]
    sent = next_request(agent.memory).messages
    assert all((one.role, two.role) != (Role.USER, Role.USER) for one, two in pairwise(sent))


# -- talks ---------------------------------------------------------------------------------------------------------


def test_declined_talk_leaves_memory_and_undo_passes_it_by() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 5))
    agent.happen(SetMark("m"))
    talk(agent, range(5, 7))
    agent.happen(RewindTo("m"))
    planning(agent, None)
    assert said(agent) == of(range(1, 5))
    rewind, declined = agent.memory.changes
    assert (rewind.empty, declined.empty) == (False, True)
    assert agent.happen(Undo()) == (ev.Undone(rewind.id, "rewind", "rewind"),)
    assert said(agent) == of(range(1, 7))


def test_retry_refuses_a_planning_talk_restored_by_undo() -> None:
    agent = Agent(LARGE)
    talk(agent, range(1, 7))
    planning(agent, selected(agent, messages(agent, 3, 4)))
    agent.happen(Undo())
    assert said(agent)[:6] == of(range(1, 7)) and len(said(agent)) > 6
    assert selected(agent, EventRange(newest_turns=1)).turns[0].turn.title == "/forget databases"
    for again in (Retry(), Edit()):
        with pytest.raises(Rejected, match="a /forget dialog"):
            decide(agent.memory, again)
    agrees_with_replay(agent)


@pytest.mark.parametrize("applied", [False, True])
def test_process_killed_in_a_planning_talk_leaves_only_the_applied_filter(applied: bool) -> None:
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
    with pytest.raises(Rejected, match="not been previewed"):
        decide(Agent(LARGE).memory, Forget((EventRange(1, 1),)))


# -- forks ---------------------------------------------------------------------------------------------------------


def test_filter_of_inherited_events_does_not_change_the_parent() -> None:
    parent = Agent(LARGE)
    talk(parent, range(1, 9))
    forget(parent, messages(parent, 1, 2))
    child = child_of(parent)
    before = parent.memory
    forget(child, messages(child, 5, 6))
    planning(child, selected(child, messages(child, 3, 3)))
    talk(child, range(9, 11))
    assert said(child) == [REMOVED_TEXT, *of(range(4, 5)), *of(range(7, 11))]
    agrees_with_replay(child)
    assert parent.loaded() == before == parent.memory and said(parent) == of(range(3, 9))
    with pytest.raises(Rejected, match="cannot be undone"):
        decide(child.memory, Undo(before.changes[0].id))
    child.happen(Undo())
    child.happen(Undo())
    assert said(child)[:6] == of(range(3, 9)) and parent.loaded() == before
    agrees_with_replay(child)


def test_changes_of_the_parent_after_the_fork_do_not_reach_the_child() -> None:
    parent = Agent(LARGE)
    talk(parent, range(1, 7))
    child = child_of(parent)
    forget(parent, messages(parent, 1, 4))
    parent.happen(Clear())
    assert said(child) == of(range(1, 7))
    agrees_with_replay(child)
    talk(parent, range(7, 9))
    newest = id_of(parent, "message 7")
    with pytest.raises(Rejected, match=r"is not in the context"):
        selected(child, EventRange(newest, newest))
