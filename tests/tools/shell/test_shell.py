"""The tool `shell`, called as models call it: through its arguments, by a registry's rules."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from ikigai.core.errors import Rejected
from ikigai.core.tools.json_schema import build_schema
from ikigai.tools.base import Effect, EffectKind, OnOutput, Tool, ToolOutput
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.run_command import OutputLimits
from ikigai.tools.shell.sandbox import Sandbox
from ikigai.tools.shell.shell import ShellArguments, ShellTool
from tests.tools.children import Witness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")


@pytest.fixture
async def processes(witness: Witness) -> AsyncIterator[BackgroundProcesses]:
    made = BackgroundProcesses(witness.environment)
    yield made
    await made.close()


@pytest.fixture
def shell(witness: Witness, processes: BackgroundProcesses, tmp_path: Path) -> ShellTool:
    return ShellTool(tmp_path, witness.environment, processes)


async def call(tool: Tool, progress: OnOutput = lambda text: None, /, **arguments: object) -> ToolOutput:
    return await tool.run(msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments), progress)


async def test_directory_is_kept_and_variables_are_not(shell: ShellTool, tmp_path: Path):
    (tmp_path / "a" / "b\n'c").mkdir(parents=True)
    assert await call(shell, command="cd a; X=1") == ToolOutput(
        f"[exit status 0; the working directory is {tmp_path / 'a'} now]"
    )
    assert await call(shell, command="echo -$X-; pwd") == ToolOutput(f"--\n{tmp_path / 'a'}\n[exit status 0]")
    await call(shell, command="cd b*")
    assert shell.directory == tmp_path / "a" / "b\n'c"
    assert (await shell.preview(ShellArguments("make"))) == Effect(EffectKind.RUN, "make", str(shell.directory))
    for command in ("(cd /)", "bash -c 'cd /'", "cd /nowhere", "cd / && kill -9 $$", "exec env -C / true", "cd / |cat"):
        await call(shell, command=command)
        assert shell.directory == tmp_path / "a" / "b\n'c", command
    for command in ("cd /usr; exit 3", "cd /usr; set -eu; false", "cd /usr; kill $$", "cd /usr; echo $((1/0))"):
        shell.directory = tmp_path
        await call(shell, command=command)
        assert shell.directory == Path("/usr"), command


async def test_symlink_is_followed(shell: ShellTool, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    await call(shell, command="cd link")
    assert shell.directory == tmp_path / "real"


async def test_directory_that_is_gone_is_told_and_left(shell: ShellTool, tmp_path: Path):
    (tmp_path / "a").mkdir()
    await call(shell, command="cd a")
    (tmp_path / "a").rmdir()
    with pytest.raises(OSError, match=f"nothing was run: the working directory {tmp_path}/a does not exist"):
        await call(shell, command="touch made")
    assert "made" not in os.listdir(tmp_path)
    assert (await call(shell, command="pwd")).text == f"{tmp_path}\n[exit status 0]"
    told = await call(shell, command="mkdir b; cd b; rmdir ../b")
    assert shell.directory == tmp_path and told.text.startswith("[exit status 0")


async def test_failures_are_marked(shell: ShellTool):
    assert (await call(shell, command="exit 4")) == ToolOutput("[exit status 4]", failed=True)
    assert (await call(shell, command="kill -ABRT $$")) == ToolOutput("[killed by SIGABRT (aborted)]", failed=True)
    told = await call(shell, command="echo a; sleep 60", timeout=4)
    assert told.failed and told.text.startswith("a\n[timed out after ") and "up to 600" in told.text


async def test_long_script_and_odd_ones(shell: ShellTool, tmp_path: Path):
    script = "cat <<'END'\n" + "line $x `y`\n" * 8000 + "END\n"
    assert (await call(shell, command=script)).text == "line $x `y`\n" * 8000 + "[exit status 0]"
    assert (await call(shell, command="# nothing")).text == "[exit status 0]"
    assert (await call(shell, command="echo a \\\n b; f() { echo $LINENO; }\nf")).text == "a b\n2\n[exit status 0]"
    assert "line 1: nope: command not found" in (await call(shell, command="nope")).text
    for command in (")", "; ls", "&& ls", "| ls", "if", "'"):
        told = await call(shell, command=command)
        assert told.failed and ("syntax error" in told.text or "unexpected EOF" in told.text), command
    assert shell.directory == tmp_path


async def test_arguments_are_checked():
    for bad in ({}, {"command": ""}, {"command": "a", "timeout": 0}, {"command": "a", "timeout": 601}, {"command": 1},
                {"command": "a", "more": 1}, {"command": "a", "background": "yes"}):  # fmt: skip
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(msgspec.json.encode(bad), type=ShellArguments)


def test_it_is_offered_with_a_schema(shell: ShellTool):
    tool: Tool = shell
    assert '"command"' in build_schema(tool.arguments) and '"maximum":600' in build_schema(tool.arguments)  # pyright: ignore[reportArgumentType]
    assert (tool.name, tool.set) == ("shell", "shell") and "sandbox" not in tool.description


async def test_full_disk_is_told(shell: ShellTool, tmp_path: Path):
    done = await call(shell, command="head -c 100000 /dev/zero > /dev/full; echo after")
    assert "No space left on device" in done.text and "after" in done.text
    done = await call(shell, command="ulimit -f 1; yes > big")
    assert done.failed and (tmp_path / "big").stat().st_size <= 1024


async def test_output_goes_to_the_screen_and_is_bounded(
    witness: Witness, processes: BackgroundProcesses, tmp_path: Path
):
    shell, said = ShellTool(tmp_path, witness.environment, processes, limits=OutputLimits(100, 100)), list[str]()
    told = await call(shell, said.append, command="seq 1000")
    assert "bytes omitted" in told.text and len(told.text) < 300
    assert "".join(said) == "".join(f"{n}\n" for n in range(1, 1001))


async def test_in_the_background(shell: ShellTool, processes: BackgroundProcesses, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.shell.shell.FIRST_OUTPUT_SECONDS", 30)  # it ends with the first words
    began = time.monotonic()
    told = await call(shell, command="cd /; echo up; sleep 600", background=True)
    assert told.text.startswith("up\n[p1: running for ") and time.monotonic() - began < 25
    assert shell.directory != Path("/")
    failed = await call(shell, command="nope", background=True)
    assert "command not found" in failed.text
    assert [each.id for each in processes] == ["p1", "p2"]


async def test_cancelled_it_leaves_nothing(shell: ShellTool, witness: Witness):
    task = asyncio.create_task(call(shell, command="setsid sleep 600 & sleep 600"))
    await witness.see(4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert witness.alive() == {}


async def test_sandbox_that_is_missing_is_not_left_out(
    witness: Witness, processes: BackgroundProcesses, tmp_path: Path
):
    sandbox = Sandbox(tmp_path, [], {"PATH": "/nowhere"})
    shell = ShellTool(tmp_path, witness.environment, BackgroundProcesses(witness.environment, sandbox.wrap), sandbox)
    for background in (False, True):
        with pytest.raises(Rejected, match=r"configured sandbox cannot be used"):
            await call(shell, command="touch made", background=background)
    assert os.listdir(tmp_path) == []
