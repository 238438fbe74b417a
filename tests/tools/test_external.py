"""External tools are real executables, described and called through a registry; broken ones are named."""

import asyncio
import json
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ikigai.agent.jobs import SettingsInForce
from ikigai.core.events.messages import ToolCall
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.tools import external, tool_files
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import AskUser, call_fingerprint, decide_approval
from ikigai.tools.base import EffectKind
from ikigai.tools.external import ExternalTool, ToolFolder, discover_tools
from ikigai.tools.registry import ToolRegistry
from ikigai.tools.shell.sandbox import Sandbox
from tests.support.bubblewrap import needs_bubblewrap
from tests.tools.calls import run_call
from tests.tools.children import Witness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow any time for descriptions, which depends on the machine."""
    monkeypatch.setattr(external, "DESCRIBE_TIMEOUT", 30)


def described(name: str, key: str = "input_schema") -> str:
    return json.dumps({"name": name, "description": f"Says what {name} says.", key: SCHEMA})


def script(folder: Path, name: str, body: str, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(mode)
    return file


def tool(folder: Path, name: str, body: str = "cat", key: str = "input_schema") -> Path:
    return script(
        folder, f"{name}-tool", f"if [ \"$1\" = --schema ]; then echo '{described(name, key)}'; exit; fi\n{body}"
    )


async def found(
    work: Path, witness: Witness, *folders: ToolFolder, taken: tuple[str, ...] = ("shell",)
) -> tuple[dict[str, ExternalTool], list[str]]:
    tools, problems = await discover_tools(folders or (ToolFolder(work / "tools"),), work, witness.environment, taken)
    return {each.name: each for each in tools}, problems


async def result(registry: ToolRegistry, name: str, arguments: str) -> tuple[str, bool]:
    done = await run_call(registry, ToolCall("c", name, arguments))
    return done.content, done.is_error


async def test_tool_says_what_it_is_and_answers(work: Path, witness: Witness):
    tool(work / "tools", "echo")
    tool(work / "tools", "where", 'cat >/dev/null; pwd; echo "$WITNESS"', "parameters")
    tools, problems = await found(work, witness)
    assert (sorted(tools), problems) == (["echo", "where"], [])
    registry = ToolRegistry(tools.values())
    assert [(spec.name, spec.set, json.loads(spec.schema)) for spec in registry.specs] == [
        ("echo", "external", SCHEMA),
        ("where", "external", SCHEMA),
    ]
    assert registry.specs[0].description == "Says what echo says."
    assert await result(registry, "echo", '{ "text": "árvíz\\n", "more": [1] }') == (
        '{"text":"árvíz\\n","more":[1]}\n',
        False,
    )
    assert await result(registry, "where", '{"text": ""}') == (f"{work}\n{witness.token}\n", False)


async def test_arguments_that_are_no_object_or_lack_something_are_told(work: Path, witness: Witness):
    tool(work / "tools", "echo", "touch ran; cat")
    tools, _ = await found(work, witness)
    registry = ToolRegistry(tools.values())
    for arguments in ("[]", '"x"', "{", "[" * 50_000):
        text, failed = await result(registry, "echo", arguments)
        assert failed and text, arguments
    started = await registry.start(ToolCall("c", "echo", '{"txet": 1}'), 1, SettingsInForce({}), None)  # type: ignore[arg-type]
    assert "text missing" in started.refusal and '"required"' in started.refusal
    assert not (work / "ran").exists()


async def test_failure_says_how_it_ended_and_what_it_complained_of(work: Path, witness: Witness):
    tool(work / "tools", "bad", "echo half; echo 'no such key' >&2; exit 3")
    tool(work / "tools", "killed", "kill -9 $$")
    tools, _ = await found(work, witness)
    registry = ToolRegistry(tools.values())
    assert await result(registry, "bad", '{"text":""}') == ("half\nno such key\n[exit status 3]", True)
    text, failed = await result(registry, "killed", '{"text":""}')
    assert failed and "SIGKILL" in text


async def test_it_is_asked_about_in_every_mode_but_yolo(work: Path, witness: Witness):
    file = tool(work / "tools", "echo")
    tools, _ = await found(work, witness)
    effect = await tools["echo"].preview({"text": "git status"})
    assert (effect.kind, effect.directory, effect.paths) == (EffectKind.RUN, str(work), (str(file),))
    assert effect.shown == f'{file} {{"text":"git status"}}'
    place, call = PathScope(str(work), (), witness.environment["PATH"]), ToolCall("c", "echo", '{"text":"git status"}')
    for mode in (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO):
        assert isinstance(decide_approval(mode, call, effect, place, Allowlist(), {}), AskUser)
    moved = tool(work / "others", "echo")
    others, _ = await found(work, witness, ToolFolder(moved.parent))
    assert call_fingerprint(call, effect) != call_fingerprint(
        call, await others["echo"].preview({"text": "git status"})
    )


BROKEN = {
    "plain.txt": ("", 0o644, "it is not executable"),
    "silent": ("", 0o755, "its output for --schema is not valid"),
    "words": ("echo hello", 0o755, "its output for --schema is not valid"),
    "list": ("echo '[]'", 0o755, "its output for --schema is not valid"),
    "deep": ("head -c 60000 /dev/zero | tr '\\0' '['", 0o755, "its output for --schema is not valid"),
    "nameless": ("""echo '{"description": "x"}'""", 0o755, "name"),
    "odd": ("""echo '{"name": "rm -rf"}'""", 0o755, "'rm -rf' is not a valid tool name"),
    "escape": ("""printf '{"name": "\\\\u001b[31m"}'""", 0o755, "is not a valid tool name"),
    "taken": ("""echo '{"name": "shell"}'""", 0o755, "ikigai has a built-in tool shell"),
    "array": ("""echo '{"name": "array", "input_schema": {"type": "array"}}'""", 0o755, "not an object schema"),
    "number": ("""echo '{"name": "number", "input_schema": 5}'""", 0o755, "its output for --schema is not valid"),
    "crash": ("echo oh no >&2; exit 7", 0o755, "exit status 7: oh no"),
    "long": ("yes | head -c 70000", 0o755, "longer than 64 KiB"),
    "twin": ("""echo '{"name": "good"}'""", 0o755, "good-tool has the same name, good, and comes first; rename one"),
}


async def test_broken_ones_are_named_and_skipped(work: Path, witness: Witness):
    for name, (body, mode, _) in BROKEN.items():
        script(work / "tools", name, body, mode)
    (work / "tools" / "dangling").symlink_to("nothing")
    (work / "tools" / "no_interpreter").write_text("#!/no/such/thing\n")
    (work / "tools" / "no_interpreter").chmod(0o755)
    os.mkfifo(work / "tools" / "fifo", 0o755)
    (work / "tools" / "__pycache__").mkdir()
    (work / "tools" / ".hidden").touch()
    script(work / "tools", os.fsdecode(b"\xff"), f"echo '{described('bytes')}'")
    tool(work / "tools", "good")
    tools, problems = await found(work, witness)
    assert list(tools) == ["good"]
    expected = {**{name: why for name, (_, _, why) in BROKEN.items()}, "dangling": "not a file", "fifo": "not a file"}
    expected["<U+DCFF>"] = "its name is not valid UTF-8"
    told = {Path(each.partition(" is not offered")[0]).name: each for each in problems}
    assert set(told) == {*expected, "no_interpreter"} and len(problems) == len(told)
    for name, why in expected.items():
        assert why in told[name], told[name]
    assert all(each.isprintable() and each.endswith(".") for each in problems)


async def test_tools_beyond_the_limit_are_said_and_never_run(
    work: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tool_files, "MAX_TOOLS", 1)
    tool(work / "tools", "a")
    tool(work / "tools", "b", "touch ran")
    tools, problems = await found(work, witness)
    assert list(tools) == ["a"] and not (work / "ran").exists()
    assert problems == [f"Only the first 1 of 2 tools in {work / 'tools'} are offered."]


async def test_all_of_them_together_take_no_longer_than_the_limit(
    work: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(external, "DESCRIBE_TIMEOUT", 5)
    for number in range(6):
        script(work / "tools", f"slow{number}", "trap '' TERM; sleep 60")
    tool(work / "tools", "good")
    began = time.monotonic()
    tools, problems = await found(work, witness)
    assert time.monotonic() - began < 25
    assert list(tools) == ["good"] and len(problems) == 6 and all("within 5 s" in each for each in problems)
    await witness.see(0)


async def test_first_folder_keeps_a_name_and_trust_can_be_taken_back(work: Path, witness: Witness):
    tool(work / "own", "echo", "echo mine")
    tool(work / "project", "echo", "echo theirs")
    tool(work / "project", "more", "echo more")
    allowed = [True]

    def refusal(path: Path) -> str:
        return "" if allowed[0] else "the user no longer trusts its folder"

    folders = (ToolFolder(work / "own"), ToolFolder(work / "project", refusal), ToolFolder(work / "none"))
    tools, problems = await found(work, witness, *folders)
    registry = ToolRegistry(tools.values())
    assert (sorted(tools), len(problems)) == (["echo", "more"], 1)
    assert f"{work}/own/echo-tool has the same name, echo, and comes first" in problems[0]
    assert await result(registry, "echo", '{"text":""}') == ("mine\n", False)
    assert await result(registry, "more", '{"text":""}') == ("more\n", False)
    assert (await tools["more"].preview({"text": ""})).kind is EffectKind.RUN
    allowed[0] = False
    with pytest.raises(PermissionError, match="no longer trusts"):  # and nobody is asked
        await tools["more"].preview({"text": ""})
    text, failed = await result(registry, "more", '{"text":""}')
    assert failed and "no longer trusts" in text
    assert await result(registry, "echo", '{"text":""}') == ("mine\n", False)


async def test_call_that_is_cancelled_leaves_nothing(work: Path, witness: Witness):
    tool(work / "tools", "slow", "sleep 60 & sleep 60")
    tools, _ = await found(work, witness)
    calling = asyncio.create_task(result(ToolRegistry(tools.values()), "slow", '{"text":""}'))
    await witness.see(2)
    calling.cancel()
    await asyncio.wait({calling})
    assert calling.cancelled()
    await witness.see(0)


@needs_bubblewrap
async def test_users_own_tools_work_in_a_sandbox_that_hides_all_else_of_theirs(
    witness: Witness,
):
    home = Path.home() / f".ikigai-test-{witness.token}"  # /tmp is empty in a sandbox
    work, own = home / "work", home / "own"
    try:
        work.mkdir(parents=True)
        tool(own / "tools", "peek", f"cat {own}/key 2>&1; ls {own}; touch {own}/tools/x {work}/made; exit 0")
        (own / "key").write_text("the key")
        sandbox = Sandbox(work, [own], witness.environment)
        assert await sandbox.probe() == ""
        hidden = ToolFolder(own / "tools", wrap=sandbox.wrap)
        seen = ToolFolder(own / "tools", wrap=partial(sandbox.wrap, visible=(own / "tools",)))
        assert not (await discover_tools([hidden], work, witness.environment, ()))[0]
        tools, problems = await discover_tools([seen], work, witness.environment, ())
        assert ([each.name for each in tools], problems) == (["peek"], [])
        text, _ = await result(ToolRegistry(tools), "peek", '{"text":""}')
        assert "the key" not in text and text.splitlines()[-1] == "tools"
        assert (work / "made").exists() and not (own / "tools" / "x").exists()
    finally:
        shutil.rmtree(home, ignore_errors=True)
