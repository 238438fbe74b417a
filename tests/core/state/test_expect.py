"""These tests check that a request which is expected before its events are stored is the one that memory wants then."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from ikigai.core import events as ev
from ikigai.core.messages import Text, ToolCall, ToolResult
from ikigai.core.state.decisions import work
from ikigai.core.state.fold import expect
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Interrupted,
    RunTool,
    SetMark,
    StartTool,
    Steered,
    Submitted,
    ToolDone,
)
from ikigai.core.state.memory import Memory, next_request
from tests.core.agent import RUN, Agent
from tests.core.worlds import TOOLS


class ExpectingAgent(Agent):
    """An agent whose requests are expected before each of its events is stored, and compared with those behind it."""

    compared = 0

    def store(self, events: tuple[ev.Event, ...]) -> tuple[ev.Event, ...]:
        if not any(isinstance(event, ev.CHANGES_THE_PAST) for event in events):
            expected = expect(self.memory, events)
            super().store(events)
            assert _asks(expected) == _asks(self.memory) and expected.size == self.memory.size
            if _asks(expected):
                assert next_request(expected) == next_request(self.memory)
                self.compared += 1
            return events
        return super().store(events)


def _asks(memory: Memory) -> bool:
    return any(isinstance(job, CallModel) for job in work(memory))


def call(agent: Agent, id: str, size: int) -> None:
    """Have the model call a tool whose result has so many characters."""
    agent.reply(Text("I look."), ToolCall(id, "look", "{}"))
    agent.happen(Approved(agent.job(StartTool)))
    job = agent.job(RunTool)
    agent.happen(ToolDone(job, ToolResult(job.call.id, "x" * size)))


@pytest.mark.parametrize("seed", range(10))
def test_expected_request_is_the_one_that_memory_wants_once_the_events_are_stored(seed: int):
    draw = random.Random(seed)
    run: Any = replace(RUN, tools=TOOLS, below={**RUN.below, "budget": draw.choice((0, 150, 2_000))})
    agent = ExpectingAgent(run)
    for turn in range(15):
        agent.happen(Submitted("w" * draw.randint(1, 300)))
        for n in range(draw.randint(0, 4)):
            call(agent, f"{draw.choice((turn, 0))}-{n}", draw.randint(1, 300))
            if draw.random() < 0.2:
                agent.happen(Steered("look there"))
        if draw.random() < 0.2:
            agent.happen(Interrupted())
        else:
            agent.reply(Text("v" * draw.randint(1, 300)))
        if draw.random() < 0.2:
            agent.happen(SetMark("m"))
        if draw.random() < 0.1:
            agent.happen(Change({"budget": draw.choice((150, 2_000)) + turn}))
    assert agent.compared >= 15
