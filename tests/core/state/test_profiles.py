"""These tests check profiles in memory: their precedence, the recorded settings, and the rules of the window."""

import pytest
from msgspec.structs import replace

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import ToolSpec
from ikigai.core.state.effective_settings import RunConfig, RunProfile, WindowRules
from ikigai.core.state.inputs import Change, Clear
from ikigai.core.state.memory import next_request, offered_tools
from ikigai.core.state.tool_results import ToolResultLimits
from ikigai.core.tools.tool_selection import EVERY_SET
from ikigai.core.views.transcript import event_block
from tests.core.agent import RUN, Agent

TOOLS = (ToolSpec("look", "", "{}"),)
TIGHT = WindowRules(keep_first_turn=True, max_history=60, result_limits=ToolResultLimits(max_tokens=5))
PROFILED: RunConfig = replace(
    RUN,
    tools=TOOLS,
    profiles={
        "": RunProfile(),
        "brief": RunProfile({"system": "Be brief.", "budget": 300}, TIGHT, "provider"),
        "small": RunProfile({"model": "chat/small", "level": "low", "tools_off": EVERY_SET}),
    },
)


def values(agent: Agent) -> ev.Choices:
    return {key: value for key, value in agent.memory.settings.items() if value is not None}


def test_profile_brings_its_settings_and_its_rules_and_takes_them_away() -> None:
    agent = Agent(PROFILED)
    for text in "abcdef":
        agent.turn(text * 80)
    assert len(agent.memory.window.turns) == 6
    (chosen,) = agent.happen(Change({"profile": "brief"}))
    assert chosen == ev.SettingsChanged(
        {"profile": "brief", "system": "Be brief.", "budget": 300},
        {"profile": "agent", "system": "profile brief", "budget": "profile brief"},
    )
    memory = agent.memory
    assert (memory.budget, memory.run.rules, memory.run.counter) == (300, TIGHT, "provider")
    assert memory.window.first and len(memory.window.turns) == 1, "kept by the rules of the profile at once"
    assert next_request(memory).system == "Be brief." and agent.loaded() == memory
    (back,) = agent.happen(Change({"profile": None}))
    assert back == ev.SettingsChanged(
        {"profile": None, "budget": 100_000, "system": None},
        {"profile": "agent", "budget": "default", "system": "default"},
    )
    assert (len(agent.memory.window.turns), agent.memory.run.rules) == (6, WindowRules())
    assert values(agent) == RUN.below and agent.loaded() == agent.memory


def test_own_choices_precede_the_profile_and_a_flag_precedes_both() -> None:
    agent = Agent(PROFILED)
    agent.happen(Change({"profile": "brief"}))
    agent.happen(Change({"budget": 7}))
    assert (agent.memory.budget, agent.memory.settings["system"]) == (7, "Be brief.")
    flagged = Agent(replace(PROFILED, above={"system": "Loud."}, origins={"system": "flag --system-prompt"}), agent.log)
    assert (flagged.memory.budget, flagged.memory.settings["system"]) == (7, "Loud.")
    again = Agent(PROFILED, agent.log)
    again.happen(Change({"budget": None}))
    assert again.memory.budget == 300, "taken back, the profile holds"
    assert again.run.origin("budget", again.memory.own) == "profile brief"
    assert again.run.origin("profile", again.memory.own) == "agent"


def test_level_of_the_profile_goes_with_its_model_alone() -> None:
    agent = Agent(replace(PROFILED, below={**RUN.below, "level": "high"}))
    agent.happen(Change({"profile": "small"}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("chat/small", "low")
    assert offered_tools(agent.memory) == ()
    agent.happen(Change({"model": "chat/tiny", "level": ""}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("chat/tiny", "")
    agent.happen(Change({"model": None, "level": None}))
    assert (agent.memory.model, agent.memory.settings["level"]) == ("chat/small", "low")


def test_choice_outlives_restarts_clears_and_forks() -> None:
    agent = Agent(PROFILED)
    agent.happen(Change({"profile": "brief"}))
    agent.happen(Clear())
    assert agent.memory.own == {"profile": "brief"} and agent.memory.run.rules == TIGHT
    agent.turn()
    at = agent.log.rows[-1].id
    agent.log.create("child", "a", at)
    agent.log.append("child", (ev.Forked("a", at),))
    child = Agent(PROFILED, agent.log, "child")
    assert (child.memory.budget, child.memory.run.rules) == (300, TIGHT)
    child.happen(Change({"profile": None}))
    assert (child.memory.budget, Agent(PROFILED, agent.log).memory.budget) == (100_000, 300), "both live apart"


def test_missing_profile_is_not_in_force_until_it_is_back() -> None:
    agent = Agent(PROFILED)
    agent.happen(Change({"profile": "brief"}))
    gone = Agent(RUN, agent.log)
    assert values(gone) == RUN.below and gone.memory.own == {"profile": "brief"}
    assert gone.memory.run.rules == WindowRules() and gone.loaded() == gone.memory
    recorded = agent.log.rows[-1].event()
    assert isinstance(recorded.event, ev.SettingsChanged)
    assert (recorded.event.values["profile"], recorded.event.origins["profile"]) == (None, "default")
    assert Agent(PROFILED, agent.log).memory.budget == 300


def test_configured_profile_yields_to_the_agents_and_both_to_that_of_a_flag() -> None:
    configured = replace(PROFILED, below={**RUN.below, "profile": "small"}, origins={"profile": "configuration x:1"})
    agent = Agent(configured)
    assert agent.memory.model == "chat/small" and configured.origin("profile", {}) == "configuration x:1"
    agent.happen(Change({"profile": "brief"}))
    assert (agent.memory.model, agent.memory.budget) == ("chat/large", 300)
    flagged = replace(configured, above={"profile": ""}, origins={"profile": "flag --profile"})
    without = Agent(flagged, agent.log)
    assert {**values(without), "profile": 0} == {**RUN.below, "profile": 0}, "none, for this run"
    without.happen(Change({"profile": "brief"}))
    assert without.memory.budget == 300 and without.loaded() == without.memory, "typed now, it wins"
    again = Agent(configured, agent.log)
    again.happen(Change({"profile": None}))
    assert again.memory.model == "chat/small", "the choice taken back, the configured one holds"


@pytest.mark.parametrize(
    ("run", "name", "remedy"),
    [
        (PROFILED, "breif", "Did you mean brief?"),
        (PROFILED, "x", "There are: brief, small"),
        (PROFILED, "", "There are: brief, small"),
        (RUN, "brief", "Write [profiles.NAME] in the configuration."),
    ],
)
def test_unknown_profile_is_refused_with_a_remedy(run: RunConfig, name: str, remedy: str) -> None:
    with pytest.raises(Rejected) as refused:
        Agent(run).happen(Change({"profile": name}))
    assert str(refused.value) == f"There is no profile {name!r}. {remedy}"


def test_equal_choice_is_refused_and_a_change_is_recorded() -> None:
    agent = Agent(PROFILED)
    agent.happen(Change({"profile": "small"}))
    shown = event_block(agent.log.rows[-1].event())
    assert shown and shown.text == (
        "Profile: small; Model: chat/small (from profile small); Level: low (from profile small);"
        " Tools off: all (from profile small)"
    )
    with pytest.raises(Rejected, match="Already set"):
        agent.happen(Change({"profile": "small"}))


def test_profile_typed_now_wins_over_earlier_choices_and_flags_of_what_it_sets() -> None:
    flagged = replace(PROFILED, above={"budget": 5, "system": "Loud."}, origins={"system": "flag --system-prompt"})
    agent = Agent(flagged)
    agent.happen(Change({"model": "blocks/tiny"}))
    agent.happen(Change({"profile": "small"}))
    assert (agent.memory.model, agent.memory.own, agent.memory.budget) == ("chat/small", {"profile": "small"}, 5)
    agent.happen(Change({"profile": "brief"}))
    assert (agent.memory.budget, agent.memory.settings["system"]) == (300, "Be brief.")
    assert agent.loaded() == agent.memory
    agent.happen(Change({"budget": 9}))
    agent.happen(Change({"profile": "brief"}))
    assert agent.memory.budget == 300, "named again, it takes the choice back"
    assert Agent(PROFILED, agent.log).memory.budget == 300
