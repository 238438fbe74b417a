"""These tests check decisions that the table of the state machine is too narrow for."""

import pytest

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    Interrupted,
    Plan,
    Replied,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    Submitted,
    ToolDone,
    Undo,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import next_request, replace
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder, limits


def marked() -> Agent:
    agent = Agent()
    agent.turn()
    agent.happen(SetMark("m"))
    return agent


def asked() -> Agent:
    agent = marked()
    agent.happen(Submitted("Do it."))
    return agent


def x(id: str) -> ToolCall:
    return ToolCall(id, "look")


def test_malformed_call_is_answered_and_never_a_job() -> None:
    agent = asked()
    agent.reply(ToolCall("bad", "look", "{}", malformed="["))
    assert all(isinstance(job, CallModel) for job in work(agent.memory))
    result = agent.memory.open and agent.memory.open.messages[-1].blocks[0]
    assert isinstance(result, ToolResult) and result.is_error and "JSON" in result.content


def test_ids_of_calls_are_new_within_the_whole_turn() -> None:
    agent = asked()
    agent.reply(x("c"))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("c", "seen")))
    agent.reply(x("c"), x("c_2"))
    assert [agent.job(StartTool, n).call.id for n in (0, 1)] == ["c_2", "c_2_2"]


def test_calls_without_ids_get_different_ones() -> None:
    agent = asked()
    agent.reply(x(""), x("call_2"), x(""))
    assert [agent.job(StartTool, n).call.id for n in (0, 1, 2)] == ["call", "call_2", "call_3"]


def test_ids_of_calls_are_new_within_the_whole_context() -> None:
    """Anthropic refuses a request in which two calls have one id, and some servers restart ids with each reply."""
    agent = asked()
    agent.reply(x("c"))
    agent.happen(Interrupted())
    agent.happen(Submitted("Again."))
    agent.reply(x("c"))
    assert agent.job(StartTool).call.id == "c_2"


def looked(agent: Agent, id: str) -> None:
    agent.happen(Submitted("Look."))
    agent.reply(x(id))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult(agent.job(RunTool).call.id, "seen")))
    agent.reply(Text("!"))


def test_ids_of_calls_are_new_in_a_request_with_turns_that_came_back() -> None:
    """Models that count their calls from 0 in every context do so again after a clear."""
    agent = marked()
    looked(agent, "functions.look:0")
    agent.happen(Clear())
    looked(agent, "functions.look:0")
    agent.happen(Undo())
    for memory in (agent.memory, agent.loaded()):
        request = next_request(memory)
        ids = [call.id for message in request.messages for call in message.calls]
        assert len(set(ids)) == 2 and ids[0] == "functions.look:0"
        results = [b.call_id for m in request.messages for b in m.blocks if isinstance(b, ToolResult)]
        assert results == ids
        written = encoder(memory.model)
        assert written.envelope(request) + sum(map(written.message, request.messages)) == memory.size


def equipped() -> Agent:
    agent = Agent(replace(RUN, tools=(ToolSpec("look", "Look.", "{}"),)))
    agent.happen(Submitted("Do it."))
    return agent


def cut_call(agent: Agent, id: str, arguments: str = '{"text": "Once upon') -> tuple[ev.Event, ...]:
    call = ToolCall(id, "look", "{}", malformed=arguments)
    job = agent.job(CallModel)
    return agent.happen(Replied(job, (call,), StopReason.LENGTH, ev.UsageReported(agent.memory.model)))


def test_turn_fails_behind_the_third_reply_that_is_cut_within_a_call() -> None:
    agent = equipped()
    for id in ("a", "b"):
        assert not any(isinstance(event, ev.TurnEnded) for event in cut_call(agent, id))
    [end] = [event for event in cut_call(agent, "c") if isinstance(event, ev.TurnEnded)]
    assert end.ending is ev.Ending.FAILED and "max_output" in end.reason
    assert agent.loaded() == agent.memory


def test_complete_call_resets_the_count_of_cut_calls() -> None:
    agent = equipped()
    for id in ("a", "b"):
        cut_call(agent, id)
    agent.reply(x("c"))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("c", "seen")))
    for id in ("d", "e"):
        assert not any(isinstance(event, ev.TurnEnded) for event in cut_call(agent, id))
    assert any(isinstance(event, ev.TurnEnded) for event in cut_call(agent, "f"))


def test_replies_with_malformed_calls_are_not_cut() -> None:
    agent = equipped()
    for id in "abcd":
        agent.reply(ToolCall(id, "look", "{}", malformed="["))
    assert agent.memory.open


def test_error_of_a_malformed_call_quotes_it() -> None:
    agent = asked()
    agent.reply(ToolCall("", "look", "{}", malformed='{"a": \0'), ToolCall("", "look", "{}", malformed="5"))
    answers = agent.memory.open.messages[-1].blocks if agent.memory.open else ()
    quoted = {b.call_id: b.content.partition("They began: ")[2] for b in answers if isinstance(b, ToolResult)}
    assert quoted == {"call": '{"a": \ufffd', "call_2": "5"}


def test_ids_that_become_equal_in_the_database_stay_apart() -> None:
    agent = asked()
    agent.reply(x("\ud800"), x("\ud801"))
    assert [agent.job(StartTool, n).call.id for n in (0, 1)] == ["�", "�_2"]


def test_unstorable_text_is_replaced_before_it_is_measured() -> None:
    agent = Agent(RunConfig({"model": "chat/large", "budget": 0}, limits, encoder))
    assert agent.happen(Submitted("a\0b\ud800")) == (ev.UserMessage("a�b�"),)
    *_, ended = agent.reply(Text("\udfffc\0"))
    assert isinstance(ended, ev.TurnEnded) and ended.size == agent.memory.window.turns[-1].size
    agent.happen(Submitted("?"))
    agent.happen(Interrupted((Text("\ud800"),)))
    assert agent.memory.window.turns[-1].messages[-1].text == "�"


def test_marks_without_a_label_are_numbered_on() -> None:
    agent = marked()
    for label in ("", "41", "", "x", ""):
        agent.happen(SetMark(label))
    assert [mark.label for mark in agent.memory.marks] == ["m", "1", "41", "42", "x", "43"]


def test_rewind_takes_the_newest_of_equal_labels_and_keeps_it() -> None:
    agent = marked()
    agent.happen(SetMark("m"))
    newest = agent.memory.marks[-1].id
    agent.turn()
    assert agent.happen(RewindTo("m")) == (ev.Rewound(newest, "m"),)
    assert agent.happen(RewindTo()) == (ev.Rewound(newest, "m"),)
    assert len(agent.memory.window.turns) == 1


def test_rewind_without_marks_is_refused() -> None:
    choose = r"Esc Esc chooses a message to go back to, /rewind ID names one\."
    with pytest.raises(Rejected, match=rf'There is no mark "m"\. {choose}'):
        decide(Agent().memory, RewindTo("m"))
    with pytest.raises(Rejected, match=rf"There is no mark yet; /mark sets one\. {choose}"):
        decide(Agent().memory, RewindTo())


def test_known_marks_are_named_newest_first_and_once() -> None:
    agent = marked()
    for label in ("b", "m"):
        agent.happen(SetMark(label))
    with pytest.raises(Rejected, match=r"Marks, newest first: m, b\. Esc Esc chooses"):
        decide(agent.memory, RewindTo("z"))


def test_without_a_model_nothing_can_be_asked_but_everything_else_works() -> None:
    agent = Agent(RunConfig({}, limits, encoder))
    with pytest.raises(Rejected, match="No model yet") as refused:
        agent.happen(Submitted("Hello."))
    assert "/model" in refused.value.remedy and "ikigai login" in refused.value.remedy
    assert agent.happen(SetMark("m")) and agent.happen(Clear())
    agent.happen(Change({"model": "chat/small"}))
    agent.turn()
    assert len(agent.memory.window.turns) == 1


def test_with_the_sliding_off_input_is_refused_when_the_context_is_full() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 0}, limits, encoder))
    with pytest.raises(
        Rejected, match=r"This message takes about 1\.3k tokens, and chat/tiny takes 250 in all"
    ) as refused:
        agent.happen(Submitted("x" * 5000))
    assert "/model" in refused.value.remedy
    agent.happen(Submitted("x" * 2000))  # the first message is let through: there is nothing to clear
    agent.reply(Text("Long."))
    with pytest.raises(Rejected, match="Context full") as refused:
        agent.happen(Submitted("?"))
    assert "/clear" in refused.value.remedy and "/budget" in refused.value.remedy
    agent.happen(Change({"budget": 100}))
    agent.turn()


def test_with_the_sliding_off_a_message_that_fits_is_taken_and_one_byte_more_is_not() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 0}, limits, encoder))
    agent.turn("x" * 300, "y")
    left = agent.memory.room * 4 - agent.memory.size - len(',{"role":"user","content":""}')
    assert decide(agent.memory, Submitted("z" * left))
    with pytest.raises(Rejected, match="Context full"):
        decide(agent.memory, Submitted("z" * (left + 1)))


def test_choice_typed_in_a_run_wins_over_its_flags_and_the_next_start_begins_with_them_again() -> None:
    flagged = RunConfig(RUN.below, limits, encoder, {"budget": 5, "system": "Loud."}, {"budget": "--budget"})
    agent = Agent(flagged)
    agent.happen(Change({"budget": 7}))
    assert (agent.memory.budget, agent.memory.settings["system"]) == (7, "Loud.")
    assert agent.memory.run.origin("budget", agent.memory.own) == "agent"
    assert agent.loaded() == agent.memory
    agent.happen(Clear())
    assert agent.memory.budget == 7 and agent.loaded() == agent.memory
    agent.log.create("child", "a", at := agent.log.rows[-1].id)
    agent.log.append("child", (ev.Forked("a", at),))
    assert agent.log.load(load_memory(agent.run, "child")).budget == 7
    assert (Agent(RUN, agent.log).memory.budget, Agent(flagged, agent.log).memory.budget) == (7, 5)
    again = Agent(flagged, agent.log)
    again.happen(Change({"budget": 7}))
    assert again.memory.budget == 7, "the agent's own earlier choice, typed anew"
    with pytest.raises(Rejected, match="Already set"):
        again.happen(Change({"budget": 7}))


def test_choice_taken_back_ends_the_flag_too() -> None:
    agent = Agent(RunConfig({**RUN.below, "level": "med"}, limits, encoder, {"model": "chat/small", "level": "high"}))
    agent.happen(Change({"level": None}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("chat/small", "")
    agent.happen(Change({"model": "blocks/tiny", "level": ""}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("blocks/tiny", "")
    assert agent.loaded() == agent.memory


def test_choice_outlives_the_flag_that_overruled_it() -> None:
    agent = Agent()
    agent.happen(Change({"budget": 7}))
    flagged = Agent(RunConfig(RUN.below, limits, encoder, {"budget": 5}, {"budget": "--budget"}), agent.log)
    assert (flagged.memory.budget, flagged.memory.own) == (5, {"budget": 7})
    flagged.happen(Clear())
    assert (flagged.memory.budget, flagged.memory.own) == (5, {"budget": 7})
    again = Agent(RUN, agent.log)
    assert (again.memory.budget, again.memory.own) == (7, {"budget": 7})
    again.happen(Change({"budget": None}))
    assert (again.memory.budget, again.memory.own) == (100_000, {})
    assert Agent(RUN, agent.log).memory.budget == 100_000


def under_flag(agent: Agent, **above: str) -> Agent:
    """Return the agent as it is opened next, with a flag that names the model."""
    below: ev.Choices = {**RUN.below, "level": "med"}
    return Agent(RunConfig(below, limits, encoder, above, dict.fromkeys(above, "flag --model")), agent.log)


def test_level_can_be_chosen_for_the_model_of_a_flag() -> None:
    agent = under_flag(Agent(), model="chat/small")
    assert agent.memory.settings["level"] == "", "that of the configuration was for the model there"
    agent.happen(Change({"level": "low"}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("chat/small", "low")
    assert under_flag(agent, model="chat/small").memory.settings["level"] == "low"
    agent.happen(Change({"level": None}))
    assert agent.memory.settings["level"] == ""
    under_flag(agent, model="chat/small", level="high").happen(Change({"level": "low"}))
    assert under_flag(agent, model="chat/small").memory.settings["level"] == "low"


def test_level_stays_with_the_model_that_the_agent_chose_it_for() -> None:
    agent = Agent()
    agent.happen(Change({"model": "blocks/tiny", "level": "high"}))
    other = under_flag(agent, model="chat/small")
    assert (other.memory.model, other.memory.settings["level"]) == ("chat/small", "")
    other.happen(Clear())
    same = under_flag(other, model="blocks/tiny")
    assert same.memory.settings["level"] == "high"
    same.happen(Change({"level": "low"}))
    again = Agent(RUN, same.log)
    assert (again.memory.model, again.memory.settings["level"]) == ("blocks/tiny", "low")


def test_level_typed_under_the_model_of_a_flag_is_chosen_with_that_model() -> None:
    agent = Agent()
    agent.happen(Change({"model": "blocks/tiny", "level": "high"}))
    other = under_flag(agent, model="chat/small")
    other.happen(Change({"level": "low"}))
    assert (other.memory.model, other.memory.settings["level"]) == ("chat/small", "low")
    again = Agent(RUN, other.log)
    assert (again.memory.model, again.memory.settings["level"]) == ("chat/small", "low")


def test_recorded_setting_ends_when_no_place_names_it_any_more() -> None:
    agent = Agent()
    agent.happen(Change({"level": "low"}))
    Agent(RunConfig(RUN.below, limits, encoder, {"level": "high"}, {"level": "--model"}), agent.log)
    agent.log.append("a", (ev.SettingsChanged({"theme": "dark"}, {"theme": "config.toml"}),))
    again = Agent(RUN, agent.log)
    assert {key: value for key, value in again.memory.settings.items() if value is not None} == {
        **RUN.below,
        "level": "low",
    }


def test_origins_are_recorded_with_the_values() -> None:
    agent = Agent()
    agent.happen(Change({"level": "low", "budget": 7}))
    run = RunConfig({**RUN.below, "model": "chat/small"}, limits, encoder, {"budget": 5}, {"budget": "--budget"})
    agent.log.append("a", (ev.SettingsChanged({"model": "blocks/tiny"}, {"model": "--model"}),))
    Agent(run, agent.log)
    (recorded,) = (row.event() for row in agent.log.rows[-1:])
    assert recorded.event == ev.SettingsChanged(
        {"model": "chat/small", "budget": 5}, {"model": "default", "budget": "--budget"}
    )


def test_jobs_are_the_same_while_others_finish() -> None:
    agent = asked()
    agent.reply(x("x"), x("y"), x("z"))
    before = work(agent.memory)
    agent.happen(Approved(agent.job(StartTool, 1)))
    started = work(agent.memory)
    assert len(before & started) == 2
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("y", "seen")))
    assert work(agent.memory) == before & started


def test_model_without_tools_plans_no_filter() -> None:
    agent = Agent(
        replace(RUN, below={"model": "chat/toolless"}, planning=lambda: (ToolSpec("filter_context", "", "{}"),))
    )
    agent.turn("What do foxes eat?", "Mice.")
    with pytest.raises(Rejected, match=r"chat/toolless does not support tools, .* Use /forget with ids"):
        decide(agent.memory, Plan("forget", "foxes"))


def test_planning_talk_does_not_count_in_the_sizes_of_its_filter() -> None:
    agent = Agent(replace(RUN, planning=lambda: (ToolSpec("filter_context", "Plans a filter. " * 20, "{}"),)))
    agent.turn("What do foxes eat?", "Mice.")
    used = agent.memory.used
    agent.happen(Plan("forget", "foxes " * 30))
    assert agent.memory.used > used
    filtered = agent.reply(Text("Nothing of that was said." * 9))[-1]
    assert isinstance(filtered, ev.Filtered)
    assert filtered.before == filtered.after == agent.memory.used == used
