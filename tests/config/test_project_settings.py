"""Settings of a trusted project tighten and never loosen, and anything else is an error with its place."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.app.tools.tool_runtime import ToolRuntime
from ikigai.config import Config, describe, load
from ikigai.config.key_table import KEY_SPECS, dotted_path
from ikigai.config.project.project_settings import ALLOWED_KEYS, TOOL_SETS, tighten_with
from ikigai.core.errors import ConfigError, Rejected
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import empty_memory
from ikigai.core.state.inputs import Change
from ikigai.core.state.project_limits import ProjectLimits, apply_limits
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import EVERY_SET, NO_TOOLS, ToolSelection
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.repl.commands import permission_commands as permissions
from tests.core.encoders import encoder, limits


def configured(text: str, folder: Path, flags: dict[str, Any] | None = None, **environ: str) -> Config:
    file = folder / "own.toml"
    file.write_text(text)
    return load(file, environ, flags or {})


def project(folder: Path, text: str) -> Path:
    file = folder / ".ikigai" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def tried(folder: Path, own: str, text: str, **more: Any) -> tuple[Config, ProjectLimits]:
    file = project(folder, text)
    return tighten_with(configured(own, folder, **more), file, file.read_bytes())


def test_what_is_stricter_holds_and_says_where_it_comes_from(tmp_path: Path):
    own = '[tools]\napproval = "auto"\nsandbox_network = true\n'
    text = (
        '[tools]\napproval = "read-only"\noff = ["web", "shell"]\nsandbox = "bwrap"\nsandbox_network = false\n'
        "[context]\nsliding_context_tokens = 5000\n"
    )
    config, bounds = tried(tmp_path, own, text)
    tools = config.tools
    assert (tools.approval, tools.sandbox, tools.sandbox_network) == ("read-only", "bwrap", False)
    assert config.context.sliding_context_tokens == 5000
    file = tmp_path / ".ikigai" / "config.toml"
    assert bounds == ProjectLimits(
        *(ApprovalMode.READ_ONLY, ToolSelection(("web", "shell")), 5000),
        {"approval": f"project {file}:2", "tools_off": f"project {file}:3", "budget": f"project {file}:7"},
    )
    rows = {key: (value, origin) for key, value, origin in describe(config)}
    assert rows["tools.approval"] == ('"read-only"', f"project {file}:2")
    assert rows["tools.off"] == ('["web", "shell"]', f"project {file}:3")
    assert rows["context.sliding_context_tokens"] == ("5000", f"project {file}:7")
    assert rows["tools.allow"][1] == "default"
    off, bounds = tried(tmp_path, "", "[tools]\nenabled = false\n")
    assert not off.tools.enabled and bounds.tools_off == NO_TOOLS


def test_what_is_looser_than_the_users_own_changes_nothing(tmp_path: Path):
    own = '[tools]\napproval = "read-only"\nenabled = false\n[context]\nsliding_context_tokens = 10\n'
    text = '[tools]\napproval = "edits"\n[context]\nsliding_context_tokens = 11\n'
    config, bounds = tried(tmp_path, own, text)
    before = configured(own, tmp_path)
    assert config == before and describe(config) == describe(before)
    assert apply_limits({"approval": "read-only", "budget": 10}, bounds) == {"approval": "read-only", "budget": 10}
    unbudgeted, _ = tried(tmp_path, "[context]\nsliding_context_tokens = 0\n", text)
    assert unbudgeted.context.sliding_context_tokens == 11, "0 is no budget at all, which is more than any"


@pytest.mark.parametrize(
    ("own", "project", "holds"),
    [
        ("off", "own", "own"),
        ("own", "patterns", "patterns"),
        ("patterns", "own", "patterns"),
        ("off", "patterns", "patterns"),
    ],
)
def test_redaction_is_only_made_stricter(tmp_path: Path, own: str, project: str, holds: str):
    config, _ = tried(tmp_path, f'[tools]\nredact = "{own}"\n', f'[tools]\nredact = "{project}"\n')
    assert config.tools.redact == holds


def test_what_this_run_says_goes_before_it(tmp_path: Path):
    text = '[tools]\napproval = "read-only"\nsandbox = "bwrap"\nenabled = false\n'
    config, bounds = tried(tmp_path, "", text, flags={"tools.approval": "yolo"}, IKIGAI_TOOLS_SANDBOX="off")
    assert (config.tools.approval, config.tools.sandbox, config.tools.enabled) == ("yolo", "off", False)
    assert bounds.approval is ApprovalMode.YOLO and bounds.tools_off == NO_TOOLS


def test_no_other_key_is_taken(tmp_path: Path):
    for key in sorted(map(dotted_path, KEY_SPECS.keys() - ALLOWED_KEYS.keys())):
        key = key.replace('"*"', "openai" if key.startswith("providers") else '"openai/x"')
        with pytest.raises(ConfigError) as caught:
            tried(tmp_path, "", f"\n{key} = 1\n")
        assert caught.value.what == f"{tmp_path}/.ikigai/config.toml:2: {key} cannot be set by a project."
        assert caught.value.remedy.startswith("Remove it; a project can only tighten: tools.enabled, tools.approval")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('tools.approval = "auto"', "tools.approval cannot be 'auto' in a project. It can only tighten."),
        ('tools.approval = "yolo"', "tools.approval cannot be 'yolo' in a project."),
        ("tools.enabled = true", "tools.enabled cannot be true in a project."),
        ("tools.enabled = 0", "tools.enabled cannot be 0 in a project."),
        ('tools.sandbox = "off"', "tools.sandbox cannot be 'off' in a project."),
        ("tools.sandbox_network = true", "tools.sandbox_network cannot be true in a project."),
        ('tools.off = "shell"', "tools.off cannot be 'shell' in a project."),
        (
            'tools.off = ["shel"]',
            "a list of sets of tools (agents, ask, external, files, mcp, memory, shell, skills, vendor_search, web).",
        ),
        ("tools.off = [[]]", "tools.off cannot be a list in a project."),
        ("context.sliding_context_tokens = 0", "context.sliding_context_tokens cannot be 0 in a project."),
        ("context.sliding_context_tokens = true", "context.sliding_context_tokens cannot be true in a project."),
        ('OPENAI_API_KEY = "sk-1"', "OPENAI_API_KEY does not belong in a file."),
        ('tools_off = ["vendor_search"]', "there is no key tools_off. Did you mean tools.off?"),
        ('tools.tools_off = ["web"]', "there is no key tools.tools_off. Did you mean tools.off?"),
        ("limits_day_usd = 5", "there is no key limits_day_usd. Did you mean limits.day_usd?"),
        ("tools.aproval = 1", "there is no key tools.aproval. Did you mean tools.approval?"),
        ("tools = 1", "there is no key tools."),
        ("[tools", "is not valid TOML"),
    ],
)
def test_bad_values_are_said_with_their_place(tmp_path: Path, line: str, words: str):
    with pytest.raises(ConfigError) as caught:
        tried(tmp_path, "", f"\n{line}\n")
    assert f"{tmp_path}/.ikigai/config.toml:2" in str(caught.value) and words in str(caught.value)


modes, sets = st.sampled_from(ApprovalMode), st.lists(st.sampled_from(["shell", "web", "files"]), unique=True)
choices = st.fixed_dictionaries(
    {},
    optional={
        "approval": modes.map(str) | st.none(),
        "budget": st.integers(0, 9),
        "tools_off": sets.map(",".join) | st.none(),
    },
)


@given(
    choices,
    choices,
    st.builds(ProjectLimits, modes, sets.map(tuple).map(ToolSelection) | st.just(NO_TOOLS), st.integers(0, 9)),
)
def test_no_choice_is_looser_than_the_bounds(below: Any, own: Any, bounds: ProjectLimits):
    plain: Any = None  # limits and encoder are not looked at
    free, bound = (
        RunConfig(below, plain, plain, project_limits=each).resolve(own) for each in (ProjectLimits(), bounds)
    )

    order = ["read-only", "ask", "edits", "auto", "yolo"]

    def rank(settings: Any) -> int:
        return order.index(settings.get("approval") or "ask")

    assert rank(bound) <= min(rank(free), order.index(bounds.approval))
    assert type(bound.get("approval")) in (str, type(None)), "it is stored"
    left: Any = bound.get("budget") or 0
    most, wanted = bounds.budget, RunConfig(below, plain, plain).resolve(own).get("budget")
    assert not most or 0 < left <= most
    assert left <= int(wanted or 10)
    off = set(str(bound.get("tools_off") or "").split(","))
    assert EVERY_SET in off or {*bounds.tools_off.off, *str(free.get("tools_off") or "").split(",")} - {""} <= off
    assert apply_limits(bound, bounds) == bound
    this_run = RunConfig(below, plain, plain, {"approval": "yolo"}, project_limits=bounds).resolve(own)
    assert this_run["approval"] == "yolo", "what the user says for this run goes before it"


def test_sets_that_can_be_off_are_those_there_are(tmp_path: Path):
    config = configured("", tmp_path)
    there = {spec.set for spec in ToolRuntime(config, tmp_path).specs}
    assert there | {"agents", "external", "mcp"} == set(TOOL_SETS)


@pytest.mark.parametrize(
    ("most", "ring"),
    [
        ("yolo", ["edits", "auto", "read-only", "ask"]),
        ("edits", ["edits", "read-only", "ask"]),
        ("ask", ["read-only", "ask"]),
        ("read-only", ["read-only"]),
    ],
)
def test_shift_tab_goes_through_what_a_project_lets(most: str, ring: list[str], tmp_path: Path):
    bounds = ProjectLimits(ApprovalMode(most), origins={} if most == "yolo" else {"approval": "project x:1"})
    run, seen, own = RunConfig({"model": "chat/small"}, limits, encoder, project_limits=bounds), list[object](), "ask"
    for _ in ring:
        memory = empty_memory(msgspec.structs.replace(run, below={"model": "chat/small", "approval": own}), "a")
        own = permissions.next_approval_mode(memory, {}).values["approval"]
        seen.append(own)
    assert seen == ring


async def test_what_a_project_forbids_is_not_asked_about():
    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("y")

    asked = list[Question]()
    run = RunConfig(
        {"model": "chat/small"},
        limits,
        encoder,
        project_limits=ProjectLimits(ApprovalMode.EDITS, origins={"approval": "project x:1"}),
    )
    with pytest.raises(Rejected, match="limited here by the project x:1"):
        await permissions.run_approve("yolo", empty_memory(run, "a"), ask)
    assert not asked
    free = empty_memory(RunConfig({"model": "chat/small"}, limits, encoder), "a")
    assert await permissions.run_approve("yolo", free, ask) == Change({"approval": "yolo"}) and len(asked) == 1
