"""Tests of the completions of commands' arguments."""

from ikigai.core.state.memory import replace
from ikigai.core.state.window import NO_TURNS
from ikigai.repl.commands import completions as completing
from tests.core.agent import Agent


def test_fork_takes_the_turns_of_the_window_by_their_ends_the_newest_first():
    agent = Agent()
    for n in range(completing.MAX_FORK_TURNS + 2):
        agent.turn(f"  What is\n\n{n}? {'And so on. ' * 20}", "It is.")
    offered = completing.complete_turns(agent.memory)
    newest = agent.memory.window.turns[-1]
    assert (
        len(offered) == completing.MAX_FORK_TURNS
        and len(max(offered.values(), key=len)) <= completing.PREVIEW_CHARACTERS
    )
    first, *_ = offered.items()
    assert first[0] == f"at {newest.end}" and first[1].startswith(
        f"What is {completing.MAX_FORK_TURNS + 1}? And so on."
    )
    kept = completing.complete_turns(
        replace(agent.memory, window=replace(agent.memory.window, first=newest, turns=NO_TURNS))
    )
    assert kept == {f"at {newest.end}": offered[f"at {newest.end}"]}, "the first turn, which stays"
    assert not completing.complete_turns(None) and not completing.complete_turns(Agent().memory)
