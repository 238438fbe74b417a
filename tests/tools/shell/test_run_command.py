"""The runner runs real commands in real process trees and leaves no process behind."""

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ikigai.tools.shell import supervised_process as supervised
from ikigai.tools.shell.exit_report import FinishedCommand, describe_exit, text_with_exit
from ikigai.tools.shell.run_command import OutputLimits, run
from ikigai.tools.shell.supervised_process import MARKER_VARIABLE, SupervisedProcess
from tests.tools.children import Witness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")

STUBBORN = "trap '' TERM INT HUP; while :; do sleep 1; done"
"""Ignores what it can; its `sleep` does not inherit a handler, but the ignoring."""
DAEMON = (
    "import os, time, sys\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nTHEN\ntime.sleep(600)"
)
"""A double fork with a session of its own between."""


@pytest.fixture
def grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the grace: a process that handles SIGTERM may be slow."""
    monkeypatch.setattr(supervised, "TERM_GRACE", 20)
    monkeypatch.setattr(supervised, "SUPERVISOR_TIMEOUT", 30)


def daemon(then: str = "pass") -> str:
    return f"{sys.executable} -S -c '{DAEMON.replace('THEN', then)}'"


async def test_output_status_and_directory(witness: Witness, tmp_path: Path):
    (tmp_path / "in here").mkdir()
    done = await run("echo out; echo err >&2; echo more; cd 'in here'; exit 3", tmp_path, witness.environment)
    assert (done.text, done.status, done.signal, done.timed_out) == ("out\nerr\nmore\n", 3, 0, False)
    assert done.directory == str(tmp_path / "in here") and 0 < done.seconds < 25 and not done.cut
    done = await run(["printf", "%s|", "a b", "$HOME", "*"], tmp_path, witness.environment)
    assert (done.text, done.directory) == ("a b|$HOME|*|", "")


async def test_progress_bar_is_folded_before_the_output_is_cut(witness: Witness, tmp_path: Path) -> None:
    bar = "for n in $(seq 0 5000); do printf '\\r%4d of 5000 [%-40s]' $n '####'; done; printf '\\nBuilt.\\n'; exit 1"
    done = await run(bar, tmp_path, witness.environment, limits=OutputLimits(500, 500))
    assert done.text == f"5000 of 5000 [{'####':<40}]\nBuilt.\n" and not done.cut
    done = await run("printf 'a\\r\\nb\\r\\n'", tmp_path, witness.environment)
    assert done.text == "a\r\nb\r\n"
    done = await run("printf 'a\\rb'", tmp_path, witness.environment, separate_stderr=True)
    assert done.text == "a\rb"


async def test_it_is_alone_without_a_terminal_and_without_input(witness: Witness, tmp_path: Path):
    script = "cat; tty; (: </dev/tty) 2>&1; ps -o sid=,pgid= $$; echo $$; env; ls /proc/self/fd"
    done = await run(script, tmp_path, witness.environment)
    lines = done.text.splitlines()
    assert lines[0] == "not a tty" and "No such device or address" in lines[1]
    session, group = lines[2].split()
    assert session == group == lines[3] and int(session) != os.getsid(0)
    names = {line.partition("=")[0] for line in lines[4:] if "=" in line}
    assert names == {*witness.environment, MARKER_VARIABLE, "PWD", "SHLVL", "_"}
    assert len([line for line in lines if line.isdigit()]) <= 6  # 0, 1, 2, the note, the folder; and $$ above


async def test_standard_input_and_standard_error_apart(witness: Witness, tmp_path: Path):
    given = os.urandom(300_000)
    done = await run("sha256sum; echo no >&2", tmp_path, witness.environment, stdin=given, separate_stderr=True)
    assert (done.text, done.errors) == (f"{hashlib.sha256(given).hexdigest()}  -\n", "no\n")
    done = await run("head -c 10 >/dev/null; echo enough", tmp_path, witness.environment, stdin=given)
    assert (done.text, done.status) == ("enough\n", 0)


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("true", "", "[exit status 0]"),
        ("printf abc", "abc", "abc\n[exit status 0]"),
        ("exit 1", "", "[exit status 1]"),
        ("exit 255", "", "[exit status 255]"),
        ("kill -SEGV $$", "", "[killed by SIGSEGV (segmentation fault)]"),
        ("exit 137", "", "[exit status 137, which means SIGKILL (killed)]"),
        (r"printf 'a\x80\x00b\x1b[31m\xe2\x82'", "a\ufffd\0b\x1b[31m\ufffd", None),
        (r"head -c 100000 /dev/zero", "\0" * 100_000, None),
        (r"printf '\xff\xfeh\0i\0'", "\ufffd\ufffdh\0i\0", None),
    ],
)
async def test_any_output_and_any_ending_in_words(
    witness: Witness, tmp_path: Path, command: str, text: str, words: str | None
):
    done = await run(command, tmp_path, witness.environment)
    assert done.text == text and text_with_exit(done) == (words or f"{text}\n[exit status 0]")


async def test_unknown_commands_and_programs(witness: Witness, tmp_path: Path):
    done = await run("no-such-command", tmp_path, witness.environment)
    assert done.status == 127 and describe_exit(done) == "exit status 127 (command not found)"
    done = await run("/etc/passwd", tmp_path, witness.environment)
    assert done.status == 126 and "cannot be executed" in describe_exit(done)
    done = await run("if [", tmp_path, witness.environment)
    assert done.status == 2 and "syntax error" in done.text
    (tmp_path / "text").write_text("x")
    for program, why in ((["no-such-command"], "no such file"), ([f"{tmp_path}/text"], "permission denied")):
        with pytest.raises(OSError, match=f"cannot be run: {why}"):
            await run(program, tmp_path, witness.environment)


async def test_command_that_cannot_be_started_is_reported(witness: Witness, tmp_path: Path):
    open_before = len(os.listdir("/proc/self/fd"))
    for command, directory, words in (
        ("true", tmp_path / "gone", r"gone cannot be used as working directory: no such file or directory"),
        ("true", __file__, "cannot be used as working directory: not a directory"),
        ("echo \0", tmp_path, "cannot contain NUL"),
        ("echo \ud800", tmp_path, "lone surrogate"),
        ("x" * 5_000_000, tmp_path, r"too long \(5,000,0.. bytes\): write it to a file"),
        (["a\0"], tmp_path, "cannot contain NUL"),
    ):
        with pytest.raises((OSError, ValueError), match=words):
            await run(command, directory, witness.environment)
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_no_descriptor_is_left_open(witness: Witness, tmp_path: Path):
    await run("true", tmp_path, witness.environment)
    before = sorted(os.listdir("/proc/self/fd"))
    for command in ("true", "sleep 9 & exit 1", "cat"):
        await run(command, tmp_path, witness.environment, stdin=b"x", separate_stderr=True)
    with pytest.raises(OSError):
        await run(["no-such-command"], tmp_path, witness.environment)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_head_and_tail_are_kept(witness: Witness, tmp_path: Path):
    done = await run("seq 1 100000", tmp_path, witness.environment, limits=OutputLimits(20, 30))
    size = len("".join(f"{n}\n" for n in range(1, 100_001)))
    head, said, tail = done.text.partition(f"\n[… {size - 50:,} bytes omitted …]\n")
    assert said and "".join(f"{n}\n" for n in range(1, 100)).startswith(head) and len(head) == 20
    assert tail.endswith("99999\n100000\n") and len(tail) == 30 and done.cut == size - 50


async def test_live_output_comes_in_pieces(witness: Witness, tmp_path: Path):
    pieces = list[tuple[float, str]]()
    script = "for n in $(seq 100); do printf '%s ü\\n' $n; sleep 0.01; done"
    done = await run(
        script, tmp_path, witness.environment, progress=lambda text: pieces.append((time.monotonic(), text))
    )
    assert "".join(text for _, text in pieces) == done.text == "".join(f"{n} ü\n" for n in range(1, 101))
    times = [at for at, _ in pieces]
    assert 3 < len(times) < done.seconds * 20 + 3
    close = [later - earlier < 0.04 for earlier, later in pairwise(times[:-1])]
    assert sum(close) <= len(close) / 4, "a busy machine may hold some up"


FLOOD = """
import asyncio, json, os, sys, time
from ikigai.tools.shell.run_command import OutputLimits, run

def most():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

async def main():
    await run("true", "/", dict(os.environ))
    before, waits, pieces = most(), [], []
    async def keys():
        while True:
            at = time.monotonic()
            await asyncio.sleep(0.01)
            waits.append(time.monotonic() - at - 0.01)
    task, cpu = asyncio.create_task(keys()), time.process_time()
    shown, limits = lambda text: pieces.append(len(text)), OutputLimits.of(1 << 24)
    done = await run(sys.argv[1], "/", dict(os.environ), float(sys.argv[2]), shown, limits)
    cpu = time.process_time() - cpu
    task.cancel()
    waits.sort()
    print(json.dumps({"grown": most() - before, "worst": waits[-1], "usual": waits[len(waits) * 99 // 100],
        "pieces": len(pieces), "piece": max(pieces), "cpu": cpu, "cut": done.cut, "text": len(done.text),
        "timed_out": done.timed_out}))

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(("command", "seconds"), [("yes", 10), ("cat /dev/zero", 2), ("cat /dev/urandom", 2)])
async def test_endless_output_is_bounded_and_the_loop_stays_free(witness: Witness, command: str, seconds: int):
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FLOOD, command, str(seconds),
        env={**witness.environment, "PYTHONPATH": os.getcwd()}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await child.communicate()
    found = json.loads(out)
    print(command, found)
    assert found["timed_out"] and found["cut"] > 10_000_000
    assert 0 < found["grown"] < 14 << 24, "16 MiB are kept; of odd bytes a character takes up to four"
    assert found["usual"] < 0.05 and found["worst"] < 0.5
    assert found["pieces"] <= seconds * 20 + 2 and found["piece"] <= 8192


@pytest.mark.usefixtures("grace")
async def test_timeout_is_told(witness: Witness, tmp_path: Path):
    began = time.monotonic()
    done = await run("echo begun; sleep 60; echo never", tmp_path, witness.environment, 4)
    assert time.monotonic() - began < 25 and done.timed_out and done.signal == signal.SIGTERM
    words = re.fullmatch(r"begun\n\[timed out after (\d+(\.\d)?) s and was stopped\]", text_with_exit(done))
    assert words and 4 <= float(words[1]) < 25


async def test_process_that_ignores_sigterm_is_killed_two_seconds_later(witness: Witness, tmp_path: Path):
    began = time.monotonic()
    done = await run(f"({STUBBORN}) & echo here; {STUBBORN}", tmp_path, witness.environment, 4)
    assert done.timed_out and done.text == "here\n" and 5.5 < time.monotonic() - began < 26
    assert done.signal == signal.SIGKILL


@pytest.mark.usefixtures("grace")
async def test_process_that_handles_sigterm_has_time_to_clean_up(witness: Witness, tmp_path: Path):
    script = "trap 'sleep 0.3; echo tidy; exit 7' TERM; exec 2>/dev/null; echo on; while :; do sleep 0.1; done"
    done = await run(script, tmp_path, witness.environment, 4)
    assert (done.text, done.status, done.timed_out) == ("on\ntidy\n", 7, True)


@pytest.mark.usefixtures("grace")
async def test_stopped_process_is_ended(witness: Witness, tmp_path: Path):
    done = await run("kill -STOP $$", tmp_path, witness.environment, 4)
    assert done.timed_out and done.signal == signal.SIGTERM


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 600 & echo x", id="holds-the-pipe"),
        pytest.param("sleep 600 >/dev/null 2>&1 & echo x", id="holds-nothing"),
        pytest.param("nohup setsid sleep 600 >/dev/null 2>&1 & sleep 0.1; echo x", id="setsid"),
        pytest.param(f"{daemon()}; echo x", id="daemon"),
        pytest.param(f"env -i {daemon()} TOKEN; echo x", id="daemon-without-environment"),
        pytest.param(f"({STUBBORN}) & echo x", id="ignores-sigterm"),
    ],
)
async def test_process_left_running_is_ended_and_named(witness: Witness, tmp_path: Path, command: str):
    began = time.monotonic()
    done = await run(command.replace("TOKEN", witness.token), tmp_path, witness.environment)
    assert (done.text, done.status, done.timed_out) == ("x\n", 0, False)
    assert done.left and "(pid " in describe_exit(done) and "background=true" in describe_exit(done) and not done.stuck
    assert time.monotonic() - began < 26


async def test_process_that_ends_within_two_seconds_is_waited_for(
    witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervised, "DRAIN_SECONDS", 20)  # a stalled one may need more than the two
    done = await run("(sleep 0.5; echo late; echo x >made) & echo soon", tmp_path, witness.environment)
    assert (done.text, done.left) == ("soon\nlate\n", ()) and (tmp_path / "made").exists()


async def test_daemon_is_ended_with_a_timeout(witness: Witness, tmp_path: Path):
    forks = f"env -i {daemon('import signal; signal.signal(15, signal.SIG_IGN)')} {witness.token}; sleep 600"
    task = asyncio.create_task(run(forks, tmp_path, witness.environment, 5))
    await witness.see(4)  # the supervisor, bash, the daemon, sleep
    assert (await task).timed_out


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
async def test_cancelled_in_the_middle_it_ends_everything_first(
    witness: Witness, tmp_path: Path, again: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervised, "TERM_GRACE", 5)  # the second cancelling has to come within it
    monkeypatch.setattr(supervised, "SUPERVISOR_TIMEOUT", 30)
    said = list[str]()
    stubborn = STUBBORN.replace("; while", "; echo begun; while")  # it says so when nothing can end it any more
    command = f"{daemon()}; ({stubborn}) & sleep 600"
    task = asyncio.create_task(run(command, tmp_path, witness.environment, progress=said.append))
    while not said:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    task.cancel()
    if again:
        await asyncio.sleep(0.3)
        assert not task.done() and witness.alive()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert witness.alive() == {} and time.monotonic() - began < 30


async def test_cancelled_at_once(witness: Witness, tmp_path: Path):
    """While the supervisor, bash or what it runs is only being born."""
    for wait in (0, 0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08):
        task = asyncio.create_task(run("sleep 600", tmp_path, witness.environment))
        await asyncio.sleep(wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert witness.alive() == {}


async def test_at_once_spares_the_two_seconds(witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervised, "TERM_GRACE", 60)  # so long that no stall is taken for it
    monkeypatch.setattr(supervised, "SUPERVISOR_TIMEOUT", 65)
    process = SupervisedProcess(STUBBORN, tmp_path, witness.environment, lambda data: None)
    await asyncio.sleep(0.2)
    began = time.monotonic()
    assert (await process.end(at_once=True)).status == -signal.SIGKILL
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("how", ["KILL", "STOP", "TERM"])
async def test_command_that_attacks_its_supervisor(witness: Witness, tmp_path: Path, how: str):
    """Processes with the marker in their environment are found, whatever happened to the supervisor."""
    began = time.monotonic()
    done = await run(f"setsid sleep 600 & sleep 0.1; kill -{how} $PPID; sleep 600", tmp_path, witness.environment, 4)
    assert time.monotonic() - began < 31 and witness.alive() == {} and done.status


KILLED = """
import asyncio, os, sys
from ikigai.tools.shell.run_command import run
asyncio.run(run(sys.argv[1], "/", dict(os.environ)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_is_left_when_ikigai_is_killed(witness: Witness, number: int):
    command = f"env -i {daemon()} {witness.token}; ({STUBBORN}) & sleep 600"
    ikigai = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, command, env={**witness.environment, "PYTHONPATH": os.getcwd()}
    )
    await witness.see(7)  # itself, the supervisor, bash, the daemon, a subshell with a sleep, sleep
    ikigai.send_signal(number)
    await ikigai.wait()
    await witness.see(0)


async def test_many_at_once(witness: Witness, tmp_path: Path):
    done = await asyncio.gather(
        *(run(f"echo {n}; sleep 600 & exit {n}", tmp_path, witness.environment) for n in range(8))
    )
    assert [(each.text, each.status, len(each.left)) for each in done] == [(f"{n}\n", n, 1) for n in range(8)]


def test_endings_in_words():
    many = tuple(f"sleep (pid {n})" for n in range(7))
    assert describe_exit(FinishedCommand("", left=many)).startswith(
        "exit status 0; still running, now stopped: sleep (pid 0), "
    )
    assert "sleep (pid 4) and 2 more" in describe_exit(FinishedCommand("", left=many))
    assert (
        describe_exit(FinishedCommand("", stuck=("su (pid 3)",))) == "exit status 0; could not be stopped: su (pid 3)"
    )
    assert describe_exit(FinishedCommand("", 143, 15, True, 120.04)) == "timed out after 120 s and was stopped"
    assert describe_exit(FinishedCommand("", 200)) == "exit status 200"
    assert text_with_exit(FinishedCommand("a"), "", "more") == "a\n[exit status 0; more]"
