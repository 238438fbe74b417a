"""These tests count what is measured, kept and read of many turns, and of a turn of many iterations."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Message, Text, ToolCall, ToolResult
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import Approved, Interrupted, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.loading import PAGE_ROWS, load_memory
from ikigai.core.state.memory import Memory, next_request
from ikigai.core.state.tool_results import ToolResultLimits
from ikigai.core.state.window import Turn, Window, fit_window
from tests.core.agent import Agent
from tests.core.agreement import is_sound
from tests.core.encoders import Chat, limits
from tests.core.memory_log import MemoryLog
from tests.core.worlds import TOOLS


class Counting(Chat):
    """Counts the messages that it measures."""

    def __init__(self) -> None:
        self.measured = 0

    def message(self, message: Message) -> int:
        self.measured += 1
        return super().message(message)


def run_of(rules: WindowRules, budget: int = 20_000) -> tuple[Counting, RunConfig]:
    counting = Counting()
    settings: ev.Choices = {"model": "chat/large", "budget": budget}
    return counting, RunConfig(settings, limits, lambda model: counting, tools=TOOLS, rules=rules)


def conversation(turns: int, first: int = 0) -> Iterator[ev.StoredEvent]:
    """Return turns of one question and one answer from the turn `first` on, as the agent would have stored them."""
    before, previous = totals(first), totals(max(first - 1, 0))
    for n in range(first, turns):
        id = 3 * n + 1
        events = (
            ev.UserMessage(f"{n}?"),
            ev.AssistantMessage((Text("y" * 40),)),
            ev.TurnEnded(ev.Ending.COMPLETED, "", id, 130, before, previous),
        )
        for place, event in enumerate(events):
            yield ev.StoredEvent(id + place, "a", id + place, 0.0, event)
        before, previous = before + ev.Totals(1, 2, 130), before


def totals(turns: int) -> ev.Totals:
    return ev.Totals(turns, 2 * turns, 130 * turns)


TURNS = 100_000
LENGTHS = [10_000, pytest.param(TURNS, marks=pytest.mark.long)]
"""Numbers of turns in a log. What is read and measured is bounded alike for all."""
RULES = [WindowRules(0), WindowRules(), WindowRules(0.5, True), WindowRules(0.1, True, 3_000)]


@pytest.fixture(scope="module", params=LENGTHS)
def log(request: pytest.FixtureRequest) -> MemoryLog:
    log = MemoryLog()
    log.create("a")
    log.append("a", [stored.event for stored in conversation(request.param)])
    return log


@pytest.mark.parametrize("rules", RULES, ids=["plain", "steps", "first", "capped"])
def test_loading_reads_only_the_window_of_many_turns(rules: WindowRules, log: MemoryLog) -> None:
    turns = len(log.rows) // 3
    counting, run = run_of(rules)
    log.asked = 0
    memory = log.load(load_memory(run, "a"))
    kept = len(memory.window.turns)
    assert log.asked <= 3 * (20_000 * 4 // memory.window.turns[0].size + 2) + PAGE_ROWS + 32
    assert counting.measured <= 10 * 20_000 * 4 // 130
    assert memory.window.total.turns == turns and memory.window.older.turns >= turns - kept - 1
    assert (memory.window.first is not None) is rules.keep_first_turn
    assert next_request(memory).messages[0].text == ("0?" if rules.keep_first_turn else f"[{notice_of(memory)}]")
    counting.measured = left = 0
    for stored in conversation(turns + 2_000, first=turns):
        before = len(memory.window.turns)
        memory = evolve(memory, stored)
        left += max(0, before - len(memory.window.turns))
        assert len(memory.window.turns._shared) <= 3 * 20_000 * 4 // 130, "what left is let go of"
    # Question, answer, the notice when each of them comes and at the end, and once more for each turn that leaves.
    assert counting.measured <= 2_000 * 6 + 2_000 + left
    assert memory.used <= memory.ceiling and memory.window.total.turns == turns + 2_000


def notice_of(memory: Memory) -> str:
    return f"conversation truncated — {memory.window.older.messages} older messages omitted"


def test_with_a_hundred_thousand_messages_in_the_window_a_turn_still_looks_at_itself_alone() -> None:
    looked = 0

    def notice_size(older: int) -> int:
        nonlocal looked
        looked += 1
        return 90 if older else 0

    window, before = Window(), ev.Totals()
    for n in range(TURNS // 2):
        after = before + ev.Totals(1, 2, 130)
        window = window.push(Turn(n, n, (), 130, before, window.before_newest if n else before, after))
        before = after
    copies = 0
    for n in range(2_000):
        after, shared = before + ev.Totals(1, 2, 130), window.turns._shared
        turn = Turn(n, n, (), 130, before, window.before_newest, after)
        window = fit_window(window.push(turn), TURNS // 2 * 130, notice_size, 1, 40 * 130)
        copies += window.turns._shared is not shared
        before = after
    assert looked <= 2 * 2_000 + 2 and copies <= 1
    assert 49_000 < len(window.turns) <= 50_000


def worked(agent: Agent, iterations: int, output: str) -> None:
    agent.happen(Submitted("Look everywhere."))
    for n in range(iterations):
        agent.reply(ToolCall(f"c{n}", "look"))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", output)))


@pytest.mark.parametrize(
    "caps", [ToolResultLimits(100), ToolResultLimits(100, keep_first=0, keep_last=0)], ids=["masked", "readable"]
)
@pytest.mark.parametrize("iterations", [120, pytest.param(500, marks=pytest.mark.long)])
def test_turn_with_many_iterations(caps: ToolResultLimits, iterations: int) -> None:
    """Each event measures a few messages, whatever the length of the turn; the request never outgrows the context."""
    counting, run = run_of(WindowRules(result_limits=caps))
    agent = Agent(replace(run, limits=lambda model: replace(limits(model), context=60_000)))
    at: dict[int, int] = {}
    agent.happen(Submitted("Before."))
    agent.happen(Interrupted())
    agent.happen(Submitted("Look everywhere."))
    for n in range(iterations):
        before = counting.measured
        agent.reply(ToolCall(f"c{n}", "look"))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", "z" * 100_000)))
        at[n] = counting.measured - before
        assert agent.memory.used <= agent.memory.room
    assert max(at.values()) <= 40 and sum(at.values()) <= iterations * 12
    opened = agent.memory.open
    assert opened and opened.requests == iterations
    assert opened.iterations == (0 if caps.keep_last else iterations - len(opened.messages) // 2)
    is_sound(next_request(agent.memory))
    counting.measured = 0
    assert agent.loaded() == agent.memory
    assert counting.measured <= iterations * 12 + 10
    agent.reply(Text("Done."))
    assert agent.memory.window.total.messages == 2 + 1 + 2 * iterations + 1, "as many as the log has"
    assert agent.loaded() == agent.memory


def test_result_of_fifty_megabytes_is_cut_to_what_a_result_may_be() -> None:
    _, run = run_of(WindowRules(0))
    agent = Agent(run)
    worked(agent, 1, "é" * 25_000_000)
    result = agent.memory.open.messages[-1].blocks[0] if agent.memory.open else None
    assert isinstance(result, ToolResult) and len(result.content.encode()) <= 8000 * 4 + 100
    assert agent.memory.used <= 9_000
