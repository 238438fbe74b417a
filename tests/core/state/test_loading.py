"""These tests check that loading reads as much as the window needs, whatever the length of the log."""

from typing import cast

import pytest
from msgspec.structs import replace

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    Filter,
    Interrupted,
    Replied,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    Submitted,
    ToolDone,
)
from ikigai.core.state.loading import PAGE_ROWS, load_memory
from ikigai.core.state.memory import next_request
from tests.core.agent import RUN, Agent
from tests.core.agreement import is_sound
from tests.core.encoders import encoder, limits
from tests.core.memory_log import MemoryLog

SMALL = RunConfig({"model": "chat/large", "budget": 2_000}, limits, encoder, rules=WindowRules(prune_fraction=0))


def history(turns: int) -> MemoryLog:
    """Return turns as the agent itself would have stored them, of some fifty tokens each."""
    log = MemoryLog()
    log.create("a")
    before = previous = ev.Totals()
    events: list[ev.Event] = []
    for n in range(turns):
        end = ev.TurnEnded(ev.Ending.COMPLETED, "", 3 * n + 1, 200, before, previous)
        events += [ev.UserMessage("x" * 100), ev.AssistantMessage((Text("y" * 40),)), end]
        before, previous = before + ev.Totals(1, 2, 200), before
    log.append("a", events)
    return log


def rows_asked(log: MemoryLog, run: RunConfig = SMALL) -> int:
    log.asked = 0
    log.load(load_memory(run, "a"))
    return log.asked


def test_rows_read_depend_on_the_window_and_not_on_the_history() -> None:
    asked = {turns: rows_asked(history(turns)) for turns in (300, 1_000, 10_000)}
    assert len(set(asked.values())) == 1
    assert asked[10_000] <= PAGE_ROWS + 1
    ahundred = history(100)
    assert rows_asked(ahundred) <= asked[10_000]


def test_larger_window_reads_more_and_no_more_than_a_page_beyond_it() -> None:
    log = history(3_000)
    for budget in (1, 10_000, 50_000):
        run = RunConfig({"model": "chat/large", "budget": budget}, limits, encoder, rules=WindowRules(prune_fraction=0))
        kept = log.load(load_memory(run, "a")).window.turns
        assert rows_asked(log, run) <= 3 * (len(kept) + 2) + PAGE_ROWS


def test_with_the_sliding_off_loading_stops_one_turn_beyond_the_room() -> None:
    log = history(10_000)
    run = RunConfig({"model": "chat/small", "budget": 0}, limits, encoder)
    memory = log.load(load_memory(run, "a"))
    assert rows_asked(log, run) <= PAGE_ROWS + 1
    assert memory.used > memory.room and memory.window.size - memory.window.turns[0].size <= memory.room * 4


def counted_history(turns: int, tokens: int) -> MemoryLog:
    """Return turns that are counted by the provider of chat/large."""
    log = history(turns)
    for n, row in enumerate(log.rows):
        if row.kind == "turn_end":
            ended = cast(ev.TurnEnded, row.event().event)
            counted = replace(ended, tokens=tokens, counted="provider chat/large")
            log.rows[n] = row._replace(data=codec.encode(counted).data)
    return log


def test_loading_reads_counted_turns_by_their_counts() -> None:
    """The window and the reading use counts, here a tenth and ten times the size by bytes."""
    for tokens, kept in ((5, 392), (500, 3)):  # of 2,000, less envelope and notice
        run = replace(SMALL, counter="provider")
        log = counted_history(1_000, tokens)
        assert len(log.load(load_memory(run, "a")).window.turns) == kept
        assert rows_asked(log, run) <= 3 * (kept + 2) + PAGE_ROWS
        assert log.load(load_memory(SMALL, "a")) == replace(history(1_000).load(load_memory(SMALL, "a")), run=SMALL)


def test_huge_turn_whose_count_does_not_fit_is_not_read_at_all() -> None:
    agent = Agent(replace(SMALL, counter="provider"))
    agent.happen(Submitted("Look everywhere."))
    names = [f"c{n}" for n in range(2 * PAGE_ROWS)]
    agent.store((ev.AssistantMessage(), *(ToolCall(name, "look") for name in names)))
    agent.store(tuple(ToolResult(name, "z") for name in names))
    usage = ev.UsageReported("chat/large")
    agent.happen(Replied(agent.job(CallModel), (Text("Nothing."),), StopReason.END, usage, counted=9_000))
    agent.turn()
    assert len(agent.memory.window.turns) == 1
    assert rows_asked(agent.log, agent.run) <= 1 + PAGE_ROWS
    assert agent.loaded() == agent.memory


def test_count_of_a_turn_that_recalled_what_is_forgotten_does_not_end_the_reading() -> None:
    run = replace(SMALL, below={**SMALL.below, "budget": 50_000}, counter="provider")
    agent = Agent(run)
    agent.turn()
    quoted = agent.memory.window.turns[0]
    agent.happen(Submitted("Look everywhere.", recalled=ev.TurnsRecalled("it", (quoted.id,))))
    names = [f"c{n}" for n in range(2 * PAGE_ROWS)]
    agent.store((ev.AssistantMessage(), *(ToolCall(name, "look") for name in names)))
    agent.store(tuple(ToolResult(name, "z") for name in names))
    usage = ev.UsageReported("chat/large")
    agent.happen(Replied(agent.job(CallModel), (Text("Nothing."),), StopReason.END, usage, counted=90_000))
    agent.turn()
    assert len(agent.memory.window.turns) == 1
    agent.happen(Filter(((quoted.id, quoted.end),), (), 2))
    assert [turn.lacks_recalled for turn in agent.memory.window.turns] == [True, False], "its rows say that it fits"
    assert agent.loaded() == agent.memory


def test_rows_of_a_turn_that_counts_less_do_not_end_the_reading_behind_a_filter() -> None:
    agent = Agent(replace(SMALL, counter="provider"))
    agent.turn()
    forgotten = agent.memory.window.turns[0]
    agent.happen(Submitted("Look everywhere."))
    names = [f"c{n}" for n in range(2 * PAGE_ROWS)]
    agent.store((ev.AssistantMessage(), *(ToolCall(name, "look") for name in names)))
    agent.store(tuple(ToolResult(name, "z") for name in names))
    usage = ev.UsageReported("chat/large")
    agent.happen(Replied(agent.job(CallModel), (Text("n" * 20_000),), StopReason.END, usage, counted=100))
    agent.turn()
    kept = [turn.id for turn in agent.memory.window.turns][1:]
    assert len(kept) == 2
    agent.happen(Filter(((forgotten.id, forgotten.end),), (), 2))
    assert [turn.id for turn in agent.memory.window.turns] == kept
    assert agent.loaded() == agent.memory


def test_nothing_is_read_behind_a_clear() -> None:
    log = history(1_000)
    agent = Agent(SMALL, log)
    agent.happen(Clear())
    agent.turn()
    agent, clear, turn = 1, 1, 3
    assert rows_asked(log) == agent + clear + turn


def test_huge_turn_that_does_not_fit_is_not_read_to_its_beginning() -> None:
    agent = Agent(SMALL)
    agent.happen(Submitted("Look everywhere."))
    names = [f"c{n}" for n in range(4 * PAGE_ROWS)]
    agent.store((ev.AssistantMessage(), *(ToolCall(name, "look") for name in names)))
    agent.store(tuple(ToolResult(name, "z" * 100) for name in names))
    agent.happen(Interrupted())
    agent.turn()
    assert len(agent.memory.window.turns) == 1
    assert rows_asked(agent.log) <= 1 + 2 * PAGE_ROWS
    assert agent.loaded() == agent.memory


@pytest.mark.parametrize("of", ["user", "reply", "results"])
def test_neither_is_one_of_few_long_words(of: str) -> None:
    """Its text alone is too large, whatever else was cut, masked or dropped: older turns are not read."""
    log = history(2_000)
    last = cast("ev.TurnEnded", log.rows[-1].event().event)
    log.append("a", ())
    agent = Agent(SMALL, log)
    assert agent.memory.window.total.turns == last.before.turns + 1
    long = "z" * 9_000
    agent.happen(Submitted(long if of == "user" else "?"))
    if of == "results":
        agent.store((ev.AssistantMessage(), *(ToolCall(f"c{n}", "look") for n in range(5))))
        agent.store(tuple(ToolResult(f"c{n}", long) for n in range(5)))
    agent.reply(Text(long if of == "reply" else "!"))
    agent.turn()
    assert len(agent.memory.window.turns) == 1
    assert rows_asked(log) <= 2 + PAGE_ROWS
    assert agent.loaded() == agent.memory


def test_newest_turn_is_read_whole_whatever_its_size() -> None:
    for budget in (0, 1, 100):
        agent = Agent(RunConfig({"model": "chat/tiny", "budget": budget}, limits, encoder))
        agent.turn("a", "b")
        agent.turn("c", "y" * 9_000)
        assert agent.loaded() == agent.memory
        assert agent.memory.window.turns[-1].messages[-1].text == "y" * 9_000


def test_newest_turn_stays_even_when_nothing_fits() -> None:
    """A budget below system prompt and tools: the room for turns is less than none."""
    run = RunConfig({"model": "chat/tiny", "budget": 1, "system": "s" * 500}, limits, encoder)
    agent = Agent(run)
    for asked in "abc":
        agent.turn(asked)
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["c"]
    assert agent.loaded() == agent.memory


def test_without_a_budget_the_turn_that_overflows_is_kept_however_large() -> None:
    agent = Agent(RunConfig({"model": "chat/large", "budget": 0}, limits, encoder))
    for said in ("b", "y" * 3_000, "d"):
        agent.turn("?", said)
    again = Agent(RunConfig({"model": "chat/tiny", "budget": 0}, limits, encoder), agent.log)
    assert [turn.messages[-1].text for turn in again.memory.window.turns] == ["y" * 3_000, "d"]
    assert again.loaded() == again.memory


def test_turns_come_back_into_reach_after_a_rewind_and_a_larger_budget() -> None:
    agent = Agent(RunConfig({"model": "chat/large", "budget": 60}, limits, encoder))
    for asked in "abc":
        agent.turn(asked)
    agent.happen(SetMark())
    agent.turn("x" * 400)
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["x" * 400]
    agent.happen(RewindTo())
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["c"]
    agent.happen(Change({"budget": 1_000}))
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["a", "b", "c"]
    assert agent.loaded() == agent.memory


def test_unknown_agent_has_empty_memory() -> None:
    memory = MemoryLog().load(load_memory(RUN, "nobody"))
    assert (memory.agent, len(memory.window.turns), memory.open, memory.marks) == ("nobody", 0, None, ())


@pytest.mark.parametrize("rules", [WindowRules(0), WindowRules(0.25, True)], ids=["plain", "first kept"])
@pytest.mark.parametrize("damage", ["user", "turn_end", "assistant", "tool_call", "tool_result"])
def test_damaged_row_neither_stops_loading_nor_makes_a_request_unsound(damage: str, rules: WindowRules) -> None:
    agent = Agent()
    for n in range(3):
        agent.happen(Submitted(f"{n}?"))
        agent.reply(ToolCall(f"c{n}", "look"))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", "seen")))
        agent.reply(Text("Done."))
    place = max(n for n, row in enumerate(agent.log.rows) if row.kind == damage and row.id < 14)
    agent.log.rows[place] = agent.log.rows[place]._replace(data='{"broken": ')
    again = Agent(replace(RUN, below={**RUN.below, "budget": 120}, rules=rules), agent.log)
    again.turn("And now?")
    assert again.loaded() == again.memory
    assert again.memory.window.turns[-1].messages[0].text == "And now?"
    is_sound(next_request(again.memory))


def test_with_the_first_turn_kept_a_damaged_first_one_is_passed_over() -> None:
    log = history(60)
    log.rows[0] = log.rows[0]._replace(data='{"broken": ')
    run = replace(SMALL, below={**SMALL.below, "budget": 300}, rules=WindowRules(keep_first_turn=True))
    memory = log.load(load_memory(run, "a"))
    first = memory.window.first
    assert first and (first.id, first.before.turns) == (4, 1)
    assert 1 < len(memory.window.turns) < 58
    is_sound(next_request(memory))


def test_with_the_first_turn_kept_and_one_between_that_one_is_out() -> None:
    run = RunConfig({"model": "chat/large", "budget": 200}, limits, encoder, rules=WindowRules(keep_first_turn=True))
    agent = Agent(run)
    for asked in ("first", "x" * 900, "last"):
        agent.turn(asked)
    older = agent.memory.window.older
    assert (older.turns, older.messages) == (1, 2)
    assert [message.text[:5] for message in next_request(agent.memory).messages] == ["first", "!", "[conv", "last", "!"]
    assert agent.loaded() == agent.memory


def test_dropped_iterations_of_an_older_turn_do_not_count() -> None:
    agent = Agent(RunConfig({"model": "chat/small", "budget": 100_000}, limits, encoder))
    agent.happen(Submitted("Look."))
    for n, length in enumerate((1_500, 900)):
        agent.reply(ToolCall(f"c{n}", "look"))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", "z" * length)))
    assert agent.memory.open and agent.memory.open.iterations == 1
    agent.reply(Text("Seen."))
    agent.turn()
    assert len(agent.memory.window.turns) == 2
    assert agent.loaded() == agent.memory
