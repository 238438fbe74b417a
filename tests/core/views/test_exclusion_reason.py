"""Events that are not in the context have a reason, after all actions of users."""

import random
from contextlib import suppress
from typing import NamedTuple

import msgspec
import pytest

from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.errors import Rejected
from ikigai.core.events.events import Rewound, Summarized, TurnsRecalled, UserMessage
from ikigai.core.events.messages import Text
from ikigai.core.state.inputs import Clear, Condensed, Filter, Input, RewindTo, SetMark, Submitted, Undo
from ikigai.core.views.exclusion_reason import CONTROL_EVENTS, Exclusion, ExclusionReason, Exclusions, named_exclusion
from ikigai.core.views.transcript import TranscriptBlock, history_items
from tests.core.agent import RUN, Agent


def reasons(agent: Agent) -> dict[str, tuple[str, int]]:
    """Return the reason of each message of the user's that is not in the context, and the number of the control that
    excludes it.
    """
    stored = [row.event() for row in agent.log.rows]
    controls = [event for event in stored if isinstance(event.event, CONTROL_EVENTS)]
    numbers = {event.id: number for number, event in enumerate(controls, start=1)}
    found = Exclusions(controls).find(stored, agent.memory)
    said = {event.id: event.event.text for event in stored if isinstance(event.event, UserMessage)}
    return {text: _told(found[id], numbers) for id, text in said.items() if id in found}


def _told(outside: Exclusion, numbers: dict[int, int]) -> tuple[str, int]:
    return outside.reason.name.lower(), numbers.get(outside.by, 0)


class Last(NamedTuple):
    """The input that forgets so many turns, the newest."""

    turns: int


class Condense(NamedTuple):
    """The input that lets a summary stand for all but so many turns, the newest."""

    but: int


Step = str | Input | Last | Condense
"""A turn with these words, or another action."""


def take(agent: Agent, step: Step) -> None:
    match step:
        case str():
            agent.turn(step)
        case Last(turns):  # as the loop does it once the user has agreed
            found = agent.log.load(select_events(agent.run, agent.name, (EventRange(newest_turns=turns),)))
            agent.happen(Filter(found.ranges, found.ids, found.messages))
        case Condense(but):
            *_, last = agent.memory.full_window.turns[: len(agent.memory.full_window.turns) - but]
            agent.happen(Condensed(Summarized("sum", last.end, turns=1), agent.memory.start_up_to(last.end)))
        case _:
            agent.happen(step)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (["a", Clear(), "b"], {"a": ("cleared", 1)}),
        (["a", Clear(), "b", Clear(), "c"], {"a": ("cleared", 2), "b": ("cleared", 2)}),
        (["a", Clear(), "b", Undo()], {}),
        (["a", SetMark("m"), "b", RewindTo("m"), "c"], {"b": ("rewound", 1)}),
        (["a", SetMark("m"), "b", RewindTo("m"), Undo()], {}),
        (["a", SetMark("m"), "b", RewindTo("m"), "c", Clear(), "d"],
         {"a": ("cleared", 2), "b": ("rewound", 1), "c": ("cleared", 2)}),
        (["a", SetMark("m"), "b", "c", Last(1), RewindTo("m"), "d"], {"b": ("rewound", 2), "c": ("forgotten", 1)}),
        (["a", "b", Last(2), "c"], {"a": ("forgotten", 1), "b": ("forgotten", 1)}),
        (["a", "b", Last(1), Undo(), "c"], {}),
        (["a", "b", Condense(1), "c"], {"a": ("summarized", 0)}),
        (["a", "b", Condense(1), "c", Undo()], {}),
        (["a", Last(1), "b", Condense(0), "c", Condense(0), "d"],
         {"a": ("forgotten", 1), "b": ("summarized", 0), "c": ("summarized", 0)}),
        (["a", Condense(0), "b", Clear(), "c"], {"a": ("cleared", 1), "b": ("cleared", 1)}),
        (["a", SetMark("m"), "b", RewindTo("m"), Undo(), "c", Clear(), "d"],
         {"a": ("cleared", 3), "b": ("cleared", 3), "c": ("cleared", 3)}),
    ],
)  # fmt: skip
def test_reasons(steps: list[Step], wanted: dict[str, tuple[str, int]]) -> None:
    agent = Agent()
    for step in steps:
        take(agent, step)
    assert reasons(agent) == wanted


def test_place_that_was_gone_back_to_is_not_rewound_itself() -> None:
    agent = Agent()
    for step in ("a", SetMark("m"), "b", RewindTo("m"), "c", Clear()):
        take(agent, step)
    events = [row.event() for row in agent.log.rows]
    found = Exclusions(events).find(events, agent.memory)
    back = next(event for event in events if isinstance(event.event, Rewound))
    assert isinstance(back.event, Rewound)
    assert found[back.event.to].reason is found[back.id].reason is ExclusionReason.CLEARED
    assert {found[id].reason for id in range(back.event.to + 1, back.id)} == {ExclusionReason.REWOUND}


def test_what_is_undone_and_what_slid_out() -> None:
    agent = Agent(msgspec.structs.replace(RUN, below={**RUN.below, "budget": 150}))
    for text in "abcdefgh":
        agent.turn(text * 40)
    agent.happen(SetMark("m"))
    agent.happen(RewindTo("m"))
    agent.happen(Undo())
    told = reasons(agent)
    assert told and set(told.values()) == {("out", 0)} and "h" * 40 not in told
    rewound, undone = (row.id for row in agent.log.rows if isinstance(row.event().event, CONTROL_EVENTS))
    stored = [row.event() for row in agent.log.rows]
    found = Exclusions(stored).find(stored, agent.memory)
    assert found[rewound] == Exclusion(ExclusionReason.UNDONE, undone)


@pytest.mark.parametrize("is_whole", [True, False])
def test_recalled_excerpts_of_what_is_forgotten_are_forgotten_by_the_same_filter(is_whole: bool) -> None:
    agent = Agent()
    agent.turn("a")
    agent.turn("b")
    turn = agent.memory.window.turns[0]
    agent.happen(Submitted("c", recalled=TurnsRecalled("a", (turn.id,))))
    agent.reply(Text("!"))
    recalled = agent.memory.window.turns[-1].recalled
    wanted = EventRange(turn.id, turn.end if is_whole else turn.id)
    found = agent.log.load(select_events(agent.run, agent.name, (wanted,)))
    agent.happen(Filter(found.ranges, found.ids, found.messages))
    stored = [row.event() for row in agent.log.rows]
    reasons = Exclusions(stored).find(stored, agent.memory)
    assert reasons[recalled] == reasons[turn.id] == Exclusion(ExclusionReason.FORGOTTEN, agent.memory.changes[-1].id)
    shown = [block for block in history_items(stored, agent.memory) if isinstance(block, TranscriptBlock)]
    assert {block.id: block.remembered for block in shown}[recalled] is False
    agent.happen(Undo())
    stored = [row.event() for row in agent.log.rows]
    assert recalled not in Exclusions(stored).find(stored, agent.memory)


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_memory(seed: int) -> None:
    """After all actions, an event outside of memory has a reason, one inside has none, and reasons are in force."""
    rng, agent = random.Random(seed), Agent()
    for n in range(30):
        acts = (SetMark("m"), RewindTo("m"), Clear(), Last(rng.randint(1, 2)), Condense(1), Undo())
        with suppress(Rejected, ValueError):  # nothing to rewind to, to forget, to condense or to undo
            take(agent, rng.choice((*[f"{n}"] * 4, *acts)))
    stored = [row.event() for row in agent.log.rows]
    found = Exclusions(stored).find(stored, agent.memory)
    for event in stored:
        why = found.get(event.id)
        if why is None or why.reason is not ExclusionReason.UNDONE:
            assert (why is None) == agent.memory.has_in_context(event.id)
        else:
            assert event.id not in {act.id for act in agent.memory.changes}
    by_user = {ExclusionReason.FORGOTTEN, ExclusionReason.REWOUND}
    for event in stored:
        why = found.get(event.id)
        if event.id > (agent.memory.cleared or 0) and (why is None or why.reason is not ExclusionReason.UNDONE):
            expected = why.reason if why and why.reason in by_user else None
            assert named_exclusion(event, agent.memory) == expected
