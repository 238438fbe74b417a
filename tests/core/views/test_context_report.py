"""The parts of /context add up to the request, by any counter, and its lines fit a narrow terminal."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, StopReason, Text, ToolCall, ToolResult, ToolSpec, Usage
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Approved, CallModel, Replied, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.memory import Memory, envelope
from ikigai.core.tools.mcp_tools import MCP_TOOLS_KEY, McpDefinition, McpOffer
from ikigai.core.views.context_report import CountComparison, build_report, cramped_notice, format_report
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits
from tests.support.examples import examples

TOOL = ToolSpec("t", "a tool with a description", '{"type":"object"}')


def run(budget: int = 100_000, counter: str = "bytes", **rules: object) -> RunConfig:
    below: ev.Choices = {"model": "blocks/large", "budget": budget, "system": "Be brief, please."}
    return RunConfig(below, limits, encoder, tools=(TOOL,), counter=counter, rules=WindowRules(**rules))  # type: ignore[arg-type]


def work(agent: Agent, result: str) -> None:
    """Run a turn in which a tool gives `result`."""
    agent.happen(Submitted("use it"))
    used = ev.UsageReported(agent.memory.model, Usage(900, 10), size=2_000)
    agent.happen(Replied(agent.job(CallModel), (ToolCall("c", "t"),), StopReason.TOOLS, used))
    agent.happen(Approved(agent.job(StartTool)))
    job = agent.job(RunTool)
    agent.happen(ToolDone(job, ToolResult(job.call.id, result)))
    agent.happen(Replied(agent.job(CallModel), (Text("used"),), StopReason.END, used))


def parts(memory: Memory) -> dict[str, int]:
    return {part.name: part.tokens for part in build_report(memory).parts}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 900), st.booleans()), max_size=12),
    st.sampled_from(["bytes", "provider", "calibrated"]),
    st.sampled_from([0, 300, 2_000, 100_000]),
    st.booleans(),
    st.booleans(),
)
def test_parts_are_the_whole_request(
    turns: list[tuple[int, bool]], counter: str, budget: int, keep_first: bool, opened: bool
):
    agent = Agent(run(budget, counter, keep_first_turn=keep_first))
    for size, tools in turns:
        work(agent, "r" * size) if tools else agent.turn("q" * size, "a" * size)
    if opened:
        agent.happen(Submitted("and now"))
    found = build_report(agent.memory)
    assert sum(part.tokens for part in found.parts) == found.used == agent.memory.used
    assert found.turns + found.turns_out == len(turns)
    assert (found.messages_out > 0) == (found.turns_out > 0) == ("notice" in parts(agent.memory))
    assert msgspec.json.encode(found)


def test_what_each_part_is():
    agent = Agent(run())
    bare = parts(agent.memory)
    assert set(bare) == {"overhead", "system prompt", "tools"} and all(bare.values())
    agent.turn("q" * 400, "a" * 400)
    work(agent, "r" * 4_000)
    found = parts(agent.memory)
    assert 200 < found["messages"] < 400 and 1_000 < found["tool results"] < 1_050
    assert {name: found[name] for name in bare} == bare
    agent.happen(Submitted("x" * 800))
    assert 200 < parts(agent.memory)["open turn"] < 230


def test_nothing_is_counted_for_tools_that_the_model_does_not_take():
    with_tools, without = run(), msgspec.structs.replace(run(), tools=())
    agents = [Agent(msgspec.structs.replace(each, below={"model": "chat/toolless"})) for each in (with_tools, without)]
    found, bare = (build_report(agent.memory) for agent in agents)
    assert (
        found == bare
        and not found.takes_tools
        and "tools        none: the model does not support them" in format_report(found)
    )
    assert "the model does not support them" not in format_report(build_report(Agent(run()).memory))


def test_pictures_are_told_and_are_part_of_the_messages():
    agent = Agent(run())
    picture = Image("image/png", "A" * 4_000, 750, 100)
    agent.happen(Submitted("look", (picture, picture)))
    agent.reply(Text("seen"))
    found = build_report(agent.memory)
    assert found.pictures == 2 and 200 <= found.images < 240  # 100 each by this vendor's formula, and what is around
    assert "images       2, 2" in format_report(found)


@pytest.mark.parametrize("budget", [0, 300, 100_000])
def test_table_is_narrow(budget: int):
    agent = Agent(run(budget, keep_first_turn=True, prune_fraction=0.5))
    for n in range(6):
        agent.turn(f"{n} " + "q" * 300, "a" * 300)
    rows = format_report(build_report(agent.memory)).split("\n")
    table = rows[2 : rows.index("", 2)]
    assert len(table) >= 4 and table[-1].startswith("free") and all(len(row) <= 36 for row in table)


def test_facts_below_the_table():
    agent = Agent(run(300, "calibrated", keep_first_turn=True, prune_fraction=0.25, max_history=200))
    for n in range(4):
        agent.turn(f"{n} " + "q" * 300, "a" * 300)
    last = ev.UsageReported("openai/x", Usage(1_100, 5), size=4_000)
    found = build_report(agent.memory, learned=True, last=last)
    assert found.compared == CountComparison("openai/x", 1_000, 1_100)
    text = format_report(found)
    for words in (
        "turns        2 in, 2 out (4 messages)",
        "budget       300 (from default)",
        "200k, including the reply (counted by its provider)",
        "when full, the oldest 25% leave at once; the first turn stays; ended turns up to 200 at most",
        "estimate     bytes, at the rate",
        "accuracy     estimated 1k, openai/x counted 1.1k (-9%)",
    ):
        assert words in text, text
    off = format_report(build_report(Agent(run(0)).memory))
    assert "budget       off (from default)" in off and "the window is off" in off
    assert "no provider has counted a request yet" in off and "none out" in off


@pytest.mark.parametrize(
    ("system", "tools", "said"),
    [
        ("s" * 400, (TOOL,), "System prompt and tools take 14"),
        ("s" * 400, (), "The system prompt takes 1"),
        ("", (TOOL,), "The tools take "),
        ("", (), "An empty request takes "),
    ],
)
def test_budget_that_leaves_no_room_for_turns(system: str, tools: tuple[ToolSpec, ...], said: str):
    def memory(budget: int, model: str = "blocks/large") -> Memory:
        return Agent(
            RunConfig({"model": model, "budget": budget, "system": system}, limits, encoder, tools=tools)
        ).memory

    told = cramped_notice(memory(10))
    assert told.startswith(said) and "tokens of 10: only the newest turn will be sent." in told
    works = int(told.rpartition(" ")[2].rstrip("."))
    assert "The smallest /budget that works is" in told and cramped_notice(memory(works)) == ""
    small = cramped_notice(memory(10, "blocks/tiny"))
    assert small.endswith(
        f"sent. {'/system makes it shorter, ' * bool(system)}/model chooses a model with a larger context."
    )


def test_each_mcp_server_has_a_part_and_deferred_ones_are_named():
    schema = '{"properties":{},"type":"object"}'
    found = tuple(
        McpDefinition(server, tool, f"{server}__{tool}", "Does it. " * length, schema)
        for server, tool, length in (("a-b", "x", 1), ("a", "x", 10), ("a", "y", 10), ("a-very-long-name", "z", 1))
    )
    offers = McpOffer(tuple(sorted(found, key=lambda each: each.name))), McpOffer(deferred=("a", "b"))
    direct, deferred = (run_with(MCP_TOOLS_KEY, offer.text) for offer in offers)
    report = build_report(direct)
    counts = {part.name: part.tokens for part in report.parts}
    assert sum(counts.values()) == report.used == direct.used
    assert [name for name in counts if name.startswith("mcp")] == ["mcp a-b", "mcp a-very-long-name", "mcp a"]
    assert counts["mcp a"] > 2 * counts["mcp a-b"] > 0
    assert counts["tools"] == {part.name: part.tokens for part in build_report(Agent(run()).memory).parts}["tools"]
    assert "mcp a-…g-name" in format_report(report)
    report = build_report(deferred)
    assert "mcp search" in {part.name for part in report.parts} and report.mcp_deferred == ("a", "b")
    assert "mcp          tools of a, b are found with mcp_search" in format_report(report)


def run_with(key: str, value: str) -> Memory:
    agent = Agent(run())
    memory = msgspec.structs.replace(agent.memory, settings={**agent.memory.settings, key: value})
    return msgspec.structs.replace(memory, envelope=envelope(memory))
