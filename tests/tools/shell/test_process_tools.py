"""The background processes and their tools, with real ones: read, written to, stopped, and none left at the end."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ikigai.tools.base import EffectKind, ToolOutput
from ikigai.tools.shell import background
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.process_tools import WriteArguments, process_tools
from tests.tools.children import Witness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")


class Desk:
    """Tools by name, with a function that starts a process."""

    def __init__(self, witness: Witness, directory: Path) -> None:
        self.processes, self.directory = BackgroundProcesses(witness.environment), directory
        self.tools = {tool.name: tool for tool in process_tools(self.processes)}

    def start(self, command: str) -> str:
        return self.processes.start(command, self.directory).id

    async def call(self, name: str, **arguments: object) -> ToolOutput:
        tool: Any = self.tools[name]
        return await tool.run(msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments), print)

    async def text(self, name: str, **arguments: object) -> str:
        return (await self.call(name, **arguments)).text


@pytest.fixture
async def desk(witness: Witness, tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(witness, tmp_path)
    yield made
    await made.processes.close()


async def test_new_output_is_read_once_and_the_tail_at_any_time(desk: Desk):
    id = desk.start("printf 'one\\ntwo\\n'; read x; echo got $x; sleep 600")
    assert (await desk.text("process_read", id=id, wait=30)).startswith("one\ntwo\n[p1: running for ")
    assert "two" not in await desk.text("process_read", id=id)
    assert await desk.text("process_write", id=id, text="hällo\n") == "[7 bytes written]"
    assert (await desk.text("process_read", id=id, wait=30)).startswith("got hällo\n[p1: running for ")
    assert (await desk.text("process_read", id=id)).startswith("[p1: running for ")
    assert (await desk.text("process_read", id=id, tail=2)).startswith("two\ngot hällo\n[")


async def test_progress_bar_is_read_as_a_terminal_shows_it_now(desk: Desk) -> None:
    id = desk.start("read x; for n in 1 2 3; do printf '\\r%s%%' $n; done; read x; printf '\\r4%%\\nend\\n'; read x")
    await desk.call("process_write", id=id, text="x\n")
    assert (await desk.text("process_read", id=id, wait=20)).startswith("[p1: running")  # the word may go on
    assert (await desk.text("process_read", id=id)).startswith("3%\n[p1: running")
    assert (await desk.text("process_read", id=id)).startswith("[p1: running")
    await desk.call("process_write", id=id, text="x\n")
    assert (await desk.text("process_read", id=id, wait=20)).startswith("\n4%\nend\n[p1: running")
    assert (await desk.text("process_read", id=id, tail=3)).startswith("3%\n4%\nend\n[p1: running")


async def test_end_of_input(desk: Desk):
    id = desk.start("cat; echo over; exit 3")
    told = await desk.text("process_write", id=id, text="a\nb", end=True)
    assert told == "[3 bytes written, and its input was closed]"
    await desk.processes.find(id).process.ended
    assert await desk.text("process_read", id=id) == "a\nbover\n[p1: exit status 3]"
    with pytest.raises(BrokenPipeError, match=r"p1 has ended: exit status 3\."):
        await desk.call("process_write", id=id, text="x")


async def test_waiting_ends_with_output_with_the_process_and_with_the_time(desk: Desk):
    for command, wait, least, most in (("sleep 0.5; echo x; sleep 600", 60, 0.4, 25), ("sleep 0.5", 60, 0.4, 25),
                                       ("sleep 600", 1, 1, 23)):  # fmt: skip
        id, began = desk.start(command), time.monotonic()
        await desk.call("process_read", id=id, wait=wait)
        assert least < time.monotonic() - began < most
    task = asyncio.create_task(desk.call("process_read", id=id, wait=60))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.processes.find(id).is_running


async def test_process_that_does_not_read_is_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.shell.process_tools.WRITE_TIMEOUT", 0.3)
    id = desk.start("sleep 600")
    told = await desk.call("process_write", id=id, text="x" * 200_000)
    assert told.failed and "accepted 65,536 of 200,000 bytes" in told.text
    id = desk.start("exec <&-; echo closed; sleep 600")
    await desk.call("process_read", id=id, wait=30)
    with pytest.raises(BrokenPipeError, match="no longer reads"):
        while True:  # its supervisor may be about to close what it was born with
            await desk.call("process_write", id=id, text="x")
            await asyncio.sleep(0.05)
    await desk.call("process_write", id=desk.start("sleep 600"), end=True)
    with pytest.raises(BrokenPipeError, match="input is closed"):
        await desk.call("process_write", id="p3", text="x")


async def test_list(desk: Desk, tmp_path: Path):
    assert await desk.text("process_list") == "[no processes]"
    desk.start("echo abc; sleep 600")
    await desk.processes.find("p1").wait_for_output(30)
    desk.start("exit 2\n# " + "x" * 300)
    await desk.processes.find("p2").process.ended
    first, second = (await desk.text("process_list")).splitlines()
    first = re.sub(r"for \d+ s;", "for 0 s;", first)
    assert first == f"p1: running for 0 s; 4 bytes of unread output; in {tmp_path}: echo abc; sleep 600"
    assert second.startswith("p2: exit status 2; 0 bytes") and second.endswith("x…") and len(second) < 400


async def test_stopping(desk: Desk, witness: Witness):
    id = desk.start(
        "trap 'echo bye; exit 5' TERM; setsid sleep 600 & echo up; while :; do sleep 0.05; done 2>/dev/null"
    )
    assert (await desk.text("process_read", id=id, wait=30)).startswith("up")
    told = await desk.text("process_stop", id=id)
    assert "bye\n[p1: exit status 5" in told and witness.alive() == {}
    assert (await desk.text("process_stop", id=id)).startswith("[p1: exit status 5")
    began = time.monotonic()
    stubborn = desk.start("trap '' TERM; echo up; while :; do sleep 1; done")
    await desk.call("process_read", id=stubborn, wait=30)
    assert await desk.text("process_stop", id=stubborn) == "[p2: killed by SIGKILL (killed)]"
    assert 2 < time.monotonic() - began < 26


async def test_endless_output_is_bounded(desk: Desk):
    id = desk.start("yes")
    output = desk.processes.find(id).output
    while output.total <= 2 * background.KEPT_OUTPUT_BYTES:
        await asyncio.sleep(0.05)
    told = await desk.text("process_read", id=id)
    assert told.startswith("[… ") and " bytes before this were discarded …]\n" in told
    assert len(told) < background.KEPT_OUTPUT_BYTES + 200
    await desk.call("process_stop", id=id)


async def test_twenty_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(background, "MAX_PROCESSES", 3)
    for _ in range(3):
        desk.start("sleep 600")
    with pytest.raises(OSError, match="3 processes are running already"):
        desk.start("sleep 600")
    await desk.call("process_stop", id="p2")
    assert desk.start("true") == "p4"
    await desk.processes.find("p4").process.ended
    for number in range(5, 10):
        assert desk.start("true") == f"p{number}"
        await desk.processes.find(f"p{number}").process.ended
    assert [each.id for each in desk.processes] == ["p1", "p3", "p6", "p7", "p8", "p9"]
    with pytest.raises(LookupError, match=r"there is no process 'p2'\. Known: p1, p3"):
        await desk.call("process_read", id="p2")


async def test_all_end_with_the_program(desk: Desk, witness: Witness):
    desk.start("sleep 600")
    desk.start("setsid sleep 600 >/dev/null 2>&1 & setsid sleep 600")
    desk.start("trap '' TERM; while :; do sleep 1; done")
    await witness.see(9)
    began = time.monotonic()
    await desk.processes.close()
    assert witness.alive() == {} and time.monotonic() - began < 24
    with pytest.raises(OSError, match="ikigai is exiting"):
        desk.start("true")


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from ikigai.tools.shell.background import BackgroundProcesses

async def main():
    processes = BackgroundProcesses(dict(os.environ))
    processes.start(sys.argv[1], Path("/"))
    print("up", flush=True)
    await asyncio.sleep(float(sys.argv[2]))

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
asyncio.run(main())
"""


@pytest.mark.parametrize("ends", [None, signal.SIGKILL, signal.SIGINT], ids=["without-closing", "kill", "interrupt"])
async def test_none_outlives_the_program_however_that_ends(witness: Witness, ends: int | None):
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "setsid sleep 600 & sleep 600", "600" if ends else "0.5",
        env={**witness.environment, "PYTHONPATH": os.getcwd()},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert program.stdout and await program.stdout.readline() == b"up\n"
    if ends:
        await witness.see(5)
        program.send_signal(ends)
    await program.wait()
    await witness.see(0)


async def test_effects_of_the_process_tools(desk: Desk, tmp_path: Path):
    desk.start("python3 -i")
    for name, kind, shown in (
        ("process_list", EffectKind.NOTHING, "process_list"),
        ("process_read", EffectKind.NOTHING, "process_read p1"),
        ("process_stop", EffectKind.NOTHING, "process_stop p1"),
        ("process_write", EffectKind.RUN, "p1 (python3 -i) reads:\nimport os\n"),
    ):
        tool: Any = desk.tools[name]
        arguments = {"id": "p1"} if name != "process_list" else {}
        arguments |= {"text": "import os\n"} if name == "process_write" else {}
        effect = await tool.preview(msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments))
        assert (effect.kind, effect.shown) == (kind, shown)
    write: Any = desk.tools["process_write"]
    with pytest.raises(LookupError, match=r"there is no process 'p9'\. Known: p1\."):
        await write.preview(WriteArguments("p9"))
