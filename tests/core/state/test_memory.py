"""These tests check the fold: the effect of each event on memory, and that damaged rows have none."""

import pytest
from msgspec.structs import replace

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Role, Text, ToolCall, ToolResult
from ikigai.core.request.build import NOT_RUN, OUTCOME_UNKNOWN
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve, is_accepted
from ikigai.core.state.inputs import (
    Approved,
    Change,
    Clear,
    Interrupted,
    Opened,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    Submitted,
    ToolDone,
    Undo,
)
from ikigai.core.state.memory import AgentStatus, Memory, next_request
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder, limits


def asked(memory: Memory) -> list[str]:
    """Return the texts of the users' messages in the window."""
    return [message.text for turn in memory.window.turns for message in turn.messages if message.role is Role.USER]


def stored(memory: Memory, event: ev.Event) -> ev.StoredEvent:
    return ev.StoredEvent(999, memory.agent, 999, 0.0, event)


def test_rewind_takes_messages_and_marks_after_it_and_nothing_before() -> None:
    agent = Agent()
    for label in "abc":
        agent.happen(SetMark(label))
        agent.turn(label)
    agent.happen(RewindTo("b"))
    assert asked(agent.memory) == ["a"]
    assert [mark.label for mark in agent.memory.marks] == ["a", "b"]


def test_rewind_leaves_settings_in_force() -> None:
    agent = Agent()
    agent.happen(SetMark("m"))
    agent.happen(Change({"budget": 7}))
    agent.happen(RewindTo("m"))
    assert (agent.memory.budget, agent.memory.own) == (7, {"budget": 7})


def test_rewound_events_stay_excluded_after_another_rewind() -> None:
    agent = Agent()
    agent.happen(SetMark("m"))
    agent.turn("a")
    agent.happen(RewindTo("m"))
    agent.turn("b")
    agent.happen(SetMark("n"))
    agent.turn("c")
    agent.happen(RewindTo("n"))
    assert asked(agent.memory) == ["b"]
    agent.turn("d")
    assert asked(agent.memory) == ["b", "d"]
    assert (agent.memory.window.turns[-1].before.turns, agent.memory.window.turns[-1].before_previous.turns) == (1, 0)


def test_clear_takes_everything_but_the_agents_own_choices() -> None:
    agent = Agent()
    agent.happen(Change({"budget": 7}))
    agent.turn("a")
    agent.happen(SetMark("m"))
    agent.happen(Clear())
    memory = agent.memory
    assert (asked(memory), memory.marks, memory.window.older, memory.own) == ([], (), ev.Totals(), {"budget": 7})
    agent.turn("b")
    assert agent.memory.window.turns[0].before == ev.Totals() and agent.memory.cutoff is None


def test_clear_is_refused_until_there_is_something_to_clear() -> None:
    agent = Agent()
    agent.turn("a")
    agent.happen(Clear())
    with pytest.raises(Rejected, match="cleared already"):
        agent.happen(Clear())
    agent.happen(SetMark("m"))
    agent.happen(Clear())
    assert agent.memory.marks == ()
    agent.turn("b")
    agent.happen(Clear())
    agent.happen(Undo())
    assert asked(agent.memory) == ["b"]
    agent.happen(Clear())
    assert asked(agent.memory) == []


def test_totals_count_from_the_last_clear_of_the_lineage() -> None:
    agent = Agent()
    agent.turn("a")
    agent.happen(Clear())
    for asked_ in "bc":
        agent.turn(asked_)
    parent = agent.memory.window.turns[-1]
    assert parent.before == ev.Totals(1, 2, parent.before.bytes)
    agent.log.create("child", "a", parent.end)
    agent.log.append("child", (ev.Forked("a", parent.end),))
    child = Agent(RUN, agent.log, "child")
    child.turn("d")
    assert asked(child.memory) == ["b", "c", "d"]
    newest = child.memory.window.turns[-1]
    assert (newest.before.turns, newest.before.messages, newest.before_previous) == (2, 4, parent.before)


def test_child_inherits_turns_and_choices_but_no_marks() -> None:
    agent = Agent()
    agent.happen(Change({"budget": 700}))
    agent.turn("a")
    agent.happen(SetMark("m"))
    agent.log.create("child", "a", agent.log.rows[-1].id)
    agent.log.append("child", (ev.Forked("a", agent.log.rows[-1].id),))
    agent.turn("b")
    agent.happen(Clear())
    child = Agent(RUN, agent.log, "child")
    assert (asked(child.memory), child.memory.own, child.memory.marks) == (["a"], {"budget": 700}, ())


def test_rewind_of_the_parent_counts_for_a_child_forked_after_it_only() -> None:
    agent = Agent()
    agent.happen(SetMark("m"))
    agent.turn("a")
    for child in ("before", "after"):
        at = agent.log.rows[-1].id
        agent.log.create(child, "a", at)
        agent.log.append(child, (ev.Forked("a", at),))
        agent.happen(RewindTo("m"))
    assert asked(Agent(RUN, agent.log, "before").memory) == ["a"]
    assert asked(Agent(RUN, agent.log, "after").memory) == []


def test_turns_that_were_interrupted_or_failed_stay_with_their_pairs_closed() -> None:
    agent = Agent()
    agent.happen(Submitted("a"))
    agent.reply(Text("I look."), ToolCall("x", "look"), ToolCall("y", "look"), ToolCall("z", "look"))
    agent.happen(Approved(agent.job(StartTool, 1)))
    agent.happen(Approved(agent.job(StartTool, 1)))
    agent.happen(ToolDone(agent.job(RunTool, 1), ToolResult("z", "seen")))
    agent.happen(Interrupted())
    *_, answers, last = next_request(agent.memory).messages
    assert answers.blocks == (
        ToolResult("x", NOT_RUN, is_error=True, name="look"),
        ToolResult("y", OUTCOME_UNKNOWN, is_error=True, name="look"),
        ToolResult("z", "seen", name="look"),
    )
    assert last.role is Role.ASSISTANT
    assert agent.loaded() == agent.memory


def test_killed_process_leaves_the_text_of_its_draft() -> None:
    agent = Agent()
    agent.happen(Submitted("a"))
    agent.log.save_draft("a", Draft(agent.log.rows[-1].id, "I was say"))
    again = Agent(RUN, agent.log)
    assert [message.text for message in next_request(again.memory).messages] == ["a", "I was say"]
    assert again.log.draft("a") is None and again.memory.status is AgentStatus.IDLE
    rows = len(again.log.rows)
    Agent(RUN, agent.log)
    assert len(again.log.rows) == rows, "recovery writes nothing the second time"


def test_open_turn_may_exceed_the_budget_but_not_the_room() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 60}, limits, encoder))
    agent.turn("a", "b")
    agent.happen(Submitted("c" * 200))
    assert agent.memory.ceiling < agent.memory.used <= agent.memory.room and agent.memory.window.turns
    agent.reply(Text("d" * 300), ToolCall("x", "look"))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("x", "seen")))
    assert not agent.memory.window.turns and agent.memory.open
    assert agent.memory.cutoff == agent.memory.open.first
    assert next_request(agent.memory).messages[0].text == "[conversation truncated — 2 older messages omitted]"
    assert agent.loaded() == agent.memory


def test_request_fits_up_to_the_last_byte_of_the_ceiling() -> None:
    run = RunConfig({"model": "chat/large", "budget": 100}, limits, encoder)
    probe = Agent(run)
    probe.turn("a", "b")
    probe.turn("c", "d")
    left = 4 * probe.memory.ceiling - probe.memory.size
    for more, kept in ((0, ["a", "c"]), (1, ["c"])):
        agent = Agent(run)
        agent.turn("a", "b")
        agent.turn("c", "d" + "x" * (left + more))
        assert asked(agent.memory) == kept and agent.loaded() == agent.memory


def test_after_a_change_of_model_turns_are_measured_anew() -> None:
    agent = Agent()
    agent.turn("a", 'quote " and newline\n')
    agent.happen(Submitted("b"))
    agent.reply(Text("I look."), ToolCall("x", "look", '{ "wide" :  1 }'))
    agent.happen(Interrupted())
    for model in ("blocks/large", "chat/large"):
        agent.happen(Change({"model": model}))
        assert agent.memory.size == len(encoder(model).body(next_request(agent.memory)))


def test_cutoff_is_none_in_an_empty_memory() -> None:
    memory = Agent().memory
    assert (memory.status, memory.cutoff, memory.window.older) == (AgentStatus.IDLE, None, ev.Totals())
    assert memory.size == memory.envelope


def running() -> Memory:
    agent = Agent()
    agent.happen(Submitted("a"))
    agent.reply(ToolCall("x", "look"), ToolCall("y", "look"))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("x", "seen")))
    return agent.memory


@pytest.mark.parametrize(
    "event",
    [
        ev.UserMessage("between calls and results"),
        ev.Cleared(),
        ev.Marked("m"),
        ev.Rewound(0),
        ToolCall("y", "look"),
        ToolResult("x", "again"),
        ToolResult("z", "of no call"),
        ev.ToolStarted("x"),
        ev.ToolStarted("z"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_row_that_its_state_does_not_accept_changes_nothing(event: ev.Event) -> None:
    memory = running()
    assert not is_accepted(memory, event)
    assert evolve(memory, stored(memory, event)) is memory


@pytest.mark.parametrize(
    "event",
    [
        ev.AssistantMessage((Text("!"),)),
        ToolCall("x", "look"),
        ToolResult("x", "seen"),
        ev.ToolStarted("x"),
        ev.TurnEnded(ev.Ending.COMPLETED),
    ],
    ids=lambda event: type(event).__name__,
)
def test_turn_events_change_nothing_without_a_turn(event: ev.Event) -> None:
    memory = Agent().memory
    assert evolve(memory, stored(memory, event)) is memory


@pytest.mark.parametrize("event", [ev.UsageReported("m"), ev.CommandRan("/status"), ev.Unknown("hologram")])
def test_display_events_change_nothing(event: ev.Event) -> None:
    for memory in (Agent().memory, running()):
        assert is_accepted(memory, event) and evolve(memory, stored(memory, event)) is memory


def test_memory_is_stale_after_events_that_change_the_past() -> None:
    memory = Agent().memory
    for event in (ev.Rewound(0), ev.SettingsChanged({}, {}), ev.Cleared(), ev.Marked("m"), ev.Forked("b", None)):
        assert evolve(memory, stored(memory, event)).stale is isinstance(event, ev.CHANGES_THE_PAST)


def test_recovery_and_new_settings_are_one_transaction() -> None:
    agent = Agent()
    agent.happen(Change({"level": "low"}))
    agent.happen(Submitted("a"))
    flagged = RunConfig({**RUN.below, "level": "low"}, limits, encoder, {"level": "high"}, {"level": "--model"})
    agent.run = replace(flagged, since=agent.log.rows[-1].id)
    agent.memory = agent.loaded()
    ended, changed = agent.happen(Opened())
    assert isinstance(ended, ev.TurnEnded) and isinstance(changed, ev.SettingsChanged)
    assert agent.memory == agent.loaded() and agent.memory.settings["level"] == "high"
