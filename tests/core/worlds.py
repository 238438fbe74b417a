"""Generate conditions for agents: configurations, texts and images, replies, and counts of providers."""

from hypothesis import strategies as st
from msgspec.structs import replace

from ikigai.core.events.events import Choices
from ikigai.core.events.messages import Image, Text, Thinking, ToolCall, ToolSpec
from ikigai.core.state.effective_settings import RunConfig, RunProfile, WindowRules
from ikigai.core.state.project_limits import ProjectLimits
from ikigai.core.state.tool_results import ToolResultLimits
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import EVERY_SET, ToolSelection
from tests.core.encoders import cramped, encoder, limits
from tests.core.memory_log import seal

TOOLS = (ToolSpec("look", "Looks at a thing.", '{"type":"object","properties":{"at":{"type":"string"}}}'),)
PLANNING = (ToolSpec("filter_context", "Plans a filter.", '{"type":"object"}'),)
plain: Choices = {"model": "chat/tiny", "budget": 100_000, "system": "Be kind."}
BOUNDS = ProjectLimits(
    ApprovalMode.EDITS, ToolSelection(("web",)), 150, dict.fromkeys(("approval", "tools_off", "budget"), "project a:1")
)
RUNS = (
    RunConfig(
        plain, limits, encoder, tools=TOOLS, fallback=(("chat/small", "low"), ("chat/tiny", ""), ("blocks/tiny", ""))
    ),
    RunConfig({**plain, "budget": 120}, limits, encoder),
    RunConfig({**plain, "model": "blocks/small", "budget": 0}, limits, encoder, origins={"model": "config.toml"}),
    RunConfig({"model": "chat/small", "budget": 200}, limits, encoder, {"level": "high"}, {"level": "--model"}, TOOLS),
    RunConfig(plain, limits, encoder, {"budget": 90}, {"budget": "IKIGAI_SLIDING_CONTEXT_TOKENS"}),
    RunConfig(
        plain, limits, encoder, {"model": "blocks/tiny", "budget": 0}, {"model": "--model", "budget": "--budget"}
    ),
    RunConfig({**plain, "level": "low"}, limits, encoder, {"model": "chat/small"}, {"model": "--model"}, TOOLS),
    RunConfig({**plain, "level": "med", "budget": 300}, limits, encoder),
    RunConfig({**plain, "instructions": "Obey."}, limits, encoder),
    RunConfig(plain, cramped, encoder, tools=TOOLS),
    RunConfig(
        {**plain, "model": "chat/large", "budget": 400}, limits, encoder, tools=TOOLS, fallback=(("chat/tiny", ""),)
    ),
    RunConfig({**plain, "model": "chat/toolless"}, limits, encoder, tools=TOOLS),
    RunConfig({**plain, "model": "blocks/small"}, limits, encoder, tools=TOOLS),
    RunConfig(plain, limits, encoder, tools=TOOLS, project_limits=BOUNDS),
)
READABLE = (*TOOLS, ToolSpec("read_result", "Reads one.", '{"type":"object"}'))
few = st.integers(0, 3)
caps = st.builds(
    ToolResultLimits, st.integers(1, 20) | st.just(8000), st.sampled_from(["head", "tail", "both"]), few, few
)
rules = st.builds(
    WindowRules, st.sampled_from([0.0, 0.1, 0.25, 0.5]), st.booleans(), st.sampled_from([0, 0, 30, 80, 150]), caps
)
some = st.sampled_from(RUNS) | st.sampled_from(RUNS[-2:])
counters = st.sampled_from(["bytes", "provider", "calibrated"])
PROFILES: tuple[Choices, ...] = (
    {"model": "chat/small", "level": ""},
    {"model": "blocks/tiny", "level": "low", "budget": 120, "system": "Be brief."},
    {"budget": 0, "system": ""},
    {"budget": 250, "tools_off": EVERY_SET},
    {"level": "high"},
)
NAMES = ("p", "q")
profiles = st.dictionaries(st.sampled_from(NAMES), st.builds(RunProfile, st.sampled_from(PROFILES), rules, counters))


def profiled(run: RunConfig, found: dict[str, RunProfile], chosen: str) -> RunConfig:
    """Return the run with these profiles; one of them may be configured, or named by a flag."""
    run = replace(run, profiles={"": RunProfile({}, run.rules, run.counter), **found} if found else {})
    match chosen:
        case "below" if "p" in found:
            return replace(run, below={**run.below, "profile": "p"})
        case "above" if "q" in found:
            return replace(run, above={**run.above, "profile": "q"})
        case _:
            return run


plainly = st.builds(
    replace,
    some | st.builds(replace, some, tools=st.just(READABLE)),
    planning=st.just(lambda: PLANNING),
    counter=counters,
    rules=rules | rules | st.just(WindowRules(prune_fraction=0)),
    seal=st.sampled_from([None, seal]),
)
runs = plainly | st.builds(profiled, plainly, profiles, st.sampled_from(["", "", "below", "above"]))
COUNTS = (0, 1, 9, 40, 150, 1_000_000)
counts = st.sampled_from(COUNTS)
"""Counts of a provider for a turn or a request, in tokens: right, far off, or none."""
LABELS = ("", "a", "b", "7")
places = st.sampled_from(["now", "newest turn_end", "old turn_end", "nowhere"])

sides = st.sampled_from([1, 32, 300])
odd = st.sampled_from(["", "\0nul", "\ud800lone", 'quote" back\\slash\n', "árvíztűrő 🦉 漢字", "x" * 200, "ö" * 700])
pictures = st.builds(Image, st.just("image/png"), st.sampled_from(["", "iVBO" * 9, "/9j/" * 400]), sides, sides, odd)
images = st.lists(pictures, max_size=2).map(tuple)
words = st.text(st.characters(codec="utf-8"), max_size=30) | odd
outputs = st.sampled_from(["", "ok", "seen " * 20, "漢字🦉" * 20, "x" * 150, "y" * 300, "y" * 600]) | odd
rounds = st.lists(st.lists(outputs, min_size=1, max_size=3), min_size=2, max_size=7)
"""The results of the tools of one turn, iteration by iteration."""
arguments = st.sampled_from(["{}", '{"at":"x"}', '{ "at" :   "wide" }', '{"at":"\\u0000\\n"}'])
calls = st.builds(ToolCall, st.sampled_from(["c1", "c2", "c3", ""]), st.sampled_from(["look", "see"]), arguments)
malformed = st.builds(ToolCall, st.just("c1"), st.just("look"), st.just("{}"), st.sampled_from(["[", "5"]))
thoughts = st.builds(Thinking, words, st.sampled_from(["", "sig="]), st.sampled_from(["", "anthropic"]))
blocks = st.lists(st.one_of(st.builds(Text, words), thoughts, calls, calls, malformed), max_size=5).map(tuple)
