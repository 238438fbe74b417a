"""A turn whose model is down goes on with the next one, in its room; the next turn tries the first one again."""

import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.request.reply import FailureKind
from ikigai.core.state.decisions.fallback import is_down, next_fallback
from ikigai.core.state.effective_settings import RunProfile
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    Failed,
    Interrupted,
    RunTool,
    StartTool,
    Submitted,
    ToolDone,
)
from ikigai.core.state.memory import replace
from ikigai.core.views.transcript import event_blocks
from tests.core.agent import RUN, Agent
from tests.core.worlds import TOOLS

LIST = replace(
    RUN,
    below={**RUN.below, "level": ""},
    fallback=(("chat/large", ""), ("chat/small", "low"), ("blocks/large", "")),
    tools=TOOLS,
)
USAGE = ev.UsageReported("chat/large", failure="overloaded")


def down(agent: Agent, outage: str = "chat could not answer (529).") -> tuple[ev.Event, ...]:
    return agent.happen(Failed(agent.job(CallModel), f"{outage} Try later.", (), USAGE, outage))


def events(agent: Agent) -> list[ev.StoredEvent]:
    return [row.event() for row in agent.log.rows]


def settings(agent: Agent) -> tuple[object, ...]:
    return tuple(agent.memory.settings.get(key) for key in ("model", "level", "fallback"))


def test_turn_goes_on_with_the_next_model_and_the_next_turn_begins_with_the_first() -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    job = agent.job(CallModel)
    usage, change = down(agent)
    assert usage is USAGE and isinstance(change, ev.SettingsChanged) and "agent" not in change.origins.values()
    assert settings(agent) == ("chat/small", "low", 2), "the first of the list is the model itself"
    assert agent.job(CallModel) == job and agent.memory == agent.loaded()
    down(agent)
    assert settings(agent) == ("blocks/large", "", 3)
    agent.reply(Text("!"))
    assert settings(agent) == ("chat/large", "", None) and agent.memory == agent.loaded() and not agent.memory.own
    replies = [row.event for row in events(agent) if isinstance(row.event, ev.AssistantMessage)]
    assert [reply.model for reply in replies] == ["blocks/large"]
    agent.happen(Submitted("?"))
    assert agent.memory.model == "chat/large"


def test_turn_fails_when_no_model_is_left_or_it_is_no_outage() -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    down(agent)
    down(agent)
    *_, ended, change = down(agent)
    assert isinstance(ended, ev.TurnEnded) and ended.reason == "chat could not answer (529). Try later."
    assert isinstance(change, ev.SettingsChanged) and settings(agent) == ("chat/large", "", None)
    agent.happen(Submitted("?"))
    agent.happen(Failed(agent.job(CallModel), "The key is wrong.", (), USAGE))
    assert agent.memory.open is None and settings(agent)[2] is None


def test_run_without_a_list_fails_as_before() -> None:
    agent = Agent()
    agent.happen(Submitted("?"))
    assert isinstance(down(agent)[-1], ev.TurnEnded)


def test_interrupted_turn_returns_to_the_first_model() -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    down(agent)
    agent.happen(Interrupted((Text("I was"),)))
    assert settings(agent) == ("chat/large", "", None) and agent.memory == agent.loaded()


@pytest.mark.parametrize("run", [LIST, RUN], ids=["same list", "no list"])
def test_program_that_was_killed_meanwhile_begins_with_the_first_model(run: object) -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    down(agent)
    count = len(agent.log.rows)
    again = Agent(LIST if run is LIST else replace(LIST, fallback=()), agent.log)
    assert settings(again) == ("chat/large", "", None) and again.memory == again.loaded()
    kinds = [type(row.event) for row in events(again)[count:]]
    assert kinds == [ev.TurnEnded, ev.SettingsChanged]


def test_results_of_tools_stay_in_the_turn() -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    agent.reply(ToolCall("x", TOOLS[0].name))
    start = agent.job(StartTool)
    agent.happen(Approved(start))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("x", "found")))
    down(agent)
    assert agent.memory.open and len(agent.memory.open.messages) == 3 and agent.memory == agent.loaded()
    agent.reply(Text("!"))
    assert settings(agent)[0] == "chat/large"


def test_room_of_the_other_model_decides_the_window() -> None:
    agent = Agent(replace(RUN, fallback=(("chat/tiny", ""),)))
    for _ in range(6):
        agent.turn("a" * 1000, "b" * 1000)
    agent.happen(Submitted("?"))
    before = agent.memory
    down(agent)
    after = agent.memory
    assert before.window.older.turns < after.window.older.turns and after.used <= after.room < before.used
    agent.reply(Text("!"))
    assert agent.memory.window.older.turns == before.window.older.turns and agent.memory == agent.loaded()


def test_choices_of_the_agent_stay() -> None:
    agent = Agent(LIST)
    agent.happen(Change({"model": "blocks/large", "level": "low"}))
    agent.happen(Submitted("?"))
    down(agent)
    assert settings(agent)[0] == "chat/large" and agent.memory.own == {"model": "blocks/large", "level": "low"}
    agent.reply(Text("!"))
    assert settings(agent) == ("blocks/large", "low", None)
    agent.happen(Clear())
    assert settings(agent)[:2] == ("blocks/large", "low") and agent.memory == agent.loaded()


def test_profile_has_a_list_of_its_own() -> None:
    profiles = {
        "": RunProfile(fallback=(("chat/small", ""),)),
        "p": RunProfile(fallback=(("blocks/small", ""),)),
        "n": RunProfile(),
    }
    agent = Agent(replace(RUN, fallback=(("chat/small", ""),), profiles=profiles))
    assert next_fallback(agent.memory)["model"] == "chat/small"
    agent.happen(Change({"profile": "p"}))
    assert next_fallback(agent.memory)["model"] == "blocks/small"
    agent.happen(Change({"profile": "n"}))
    assert not next_fallback(agent.memory)


def test_failures_behind_which_another_model_answers() -> None:
    agent = Agent(LIST)
    kinds = {kind for kind in FailureKind if is_down(agent.memory, kind)}
    assert kinds == {"rate", "overloaded", "unreachable", "cut", "quota"}
    agent.happen(Submitted("?"))
    down(agent)
    assert is_down(agent.memory, FailureKind.UNAVAILABLE), "a fallback without a key is passed over"


def test_one_line_says_it() -> None:
    agent = Agent(LIST)
    agent.happen(Submitted("?"))
    down(agent)
    agent.reply(Text("!"))
    shown = [block.text for row in events(agent) for block in event_blocks(row) if "chat/small" in block.text]
    assert shown == ["chat could not answer (529). This turn goes on with chat/small."]
    notes = [row for row in events(agent) if isinstance(row.event, ev.SettingsChanged)]
    assert not event_blocks(notes[-1])
