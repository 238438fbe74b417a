"""These tests check the events that clears, rewinds, filters and summaries exclude, in the table and in memory."""

import random
from contextlib import suppress

import pytest

from ikigai.core.errors import Rejected
from ikigai.core.events.events import Cleared, Event, Filtered, Marked, Rewound, Summarized, Undone
from ikigai.core.state.inputs import Clear, RewindTo, SetMark, Undo
from ikigai.core.state.intervals import excluded_by, within
from ikigai.core.state.lineage import undone_ids
from tests.core.agent import Agent
from tests.core.views.test_exclusion_reason import Condense, Last, take


@pytest.mark.parametrize(
    ("event", "ids"),
    [
        (Cleared({}), {*range(50)}),
        (Rewound(40), {*range(41, 50)}),
        (Filtered("forget", ranges=((3, 5), (9, 9)), ids=(12, 20)), {3, 4, 5, 9, 12, 20}),
        (Filtered("forget", ranges=((3, 4),), planning=47), {3, 4, 47, 48, 49}),
        (Filtered("forget"), set()),
        (Summarized("", upto=7), {*range(8)}),
        (Summarized("", upto=7, closed=5), set()),
        (Undone(48), set()),
        (Marked("m"), set()),
    ],
)
def test_excluded_by(event: Event, ids: set[int]) -> None:
    excluded = excluded_by(50, event)
    assert {id for id in range(60) if within(id, excluded.intervals)} | {*excluded.ids} == ids


@pytest.mark.parametrize("seed", range(20))
def test_memory_holds_exactly_what_no_event_in_force_excludes(seed: int) -> None:
    draw, agent = random.Random(seed), Agent()
    for n in range(40):
        acts = (SetMark("m"), RewindTo("m"), Clear(), Last(draw.randint(1, 2)), Condense(1), Undo())
        with suppress(Rejected, ValueError):  # nothing to rewind to, to forget, to condense or to undo
            take(agent, draw.choice((*[f"{n}"] * 4, *acts)))
    stored = [row.event() for row in agent.log.rows]
    out = undone_ids((row.id, row.event.of) for row in stored if isinstance(row.event, Undone))
    back = [(row.event.to, row.id) for row in stored if isinstance(row.event, Rewound) and row.id not in out]
    out |= {row.id for row in stored if isinstance(row.event, Summarized) and within(row.id, back)}
    excluded = [excluded_by(row.id, row.event) for row in stored if row.id not in out]
    gone = {row.id for row in stored for each in excluded if within(row.id, each.intervals) or row.id in each.ids}
    assert gone and gone == {row.id for row in stored if not agent.memory.has_in_context(row.id)}
