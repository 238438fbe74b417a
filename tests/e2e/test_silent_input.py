"""Tests of print mode with a standard input on which nothing comes, or only after a while."""

import os
import shlex
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.e2e.account import ECHO, Account
from tests.e2e.program import command, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the writers of a pipe are seen in /proc")

WITHOUT_IT = "ikigai: Nothing came on standard input in 0.6 s. The message is sent without it.\n"
PROGRAM = shlex.join(command(*ECHO, "-p", module="tests.e2e.impatient"))
SLOW = 1.6
"""Seconds longer than the program waits for input that nothing feeds, and than it looks again for what feeds it."""


def start(account: Account, stdin: Any, *arguments: str) -> "subprocess.Popen[str]":
    around = environment(account.home, **account.environment())
    words = command(*arguments, module="tests.e2e.impatient")
    return subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around, cwd=account.home
    )


def pipeline(account: Account, line: str) -> "subprocess.CompletedProcess[str]":
    around = environment(account.home, **account.environment())
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=around, cwd=account.home, timeout=60
    )


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_message_is_sent_without_the_silent_input_of_a_supervisor(account: Account, kind: str) -> None:
    ours, theirs = os.pipe()[::-1] if kind == "pipe" else (end.detach() for end in socket.socketpair())
    program = start(account, theirs, *ECHO, "-p", "hello")
    os.close(theirs)
    said, told = program.communicate(timeout=60)
    os.close(ours)
    assert (program.returncode, said) == (0, "hello\n")
    assert told.startswith("ikigai: Waiting for the end of standard input, which belongs to the message. To send")
    assert told.endswith(WITHOUT_IT)


@pytest.mark.parametrize("line", [f"exec 3<>f; {PROGRAM} hello <&3", f"bash -c '{PROGRAM} hello <>f'"])
def test_message_is_sent_without_a_fifo_that_a_shell_or_this_program_holds_open(account: Account, line: str) -> None:
    done = pipeline(account, f"mkfifo f; {line}")
    assert (done.returncode, done.stdout) == (0, "hello\n") and done.stderr.endswith(WITHOUT_IT)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"(sleep {SLOW}; echo data) | {PROGRAM} review", "review\n\ndata\n"),
        (f"(echo a; sleep {SLOW}; echo b) | {PROGRAM} review", "review\n\na\nb\n"),
        (f"sleep {SLOW} | {PROGRAM} review", "review\n"),
        (f"mkfifo f; (sleep {SLOW}; echo data) > f & {PROGRAM} review < f", "review\n\ndata\n"),
        (f"(sleep {SLOW}; echo data) | {PROGRAM}", "data\n"),
        (f"{PROGRAM} review < <(sleep {SLOW}; echo data)", "review\n\ndata\n"),
    ],
    ids=["late", "in two parts", "nothing", "fifo", "message", "substitution"],
)
def test_slow_pipeline_is_read_to_its_end(account: Account, line: str, said: str) -> None:
    done = pipeline(account, line)
    assert (done.returncode, done.stdout) == (0, said)
    assert done.stderr.startswith("ikigai: Waiting for the ") and done.stderr.count("\n") == 1


def test_message_of_a_supervisor_may_come_late(account: Account) -> None:
    program = start(account, subprocess.PIPE, *ECHO, "-p")
    time.sleep(SLOW)
    assert program.communicate("hello", 60)[0] == "hello\n" and program.returncode == 0


def test_text_that_comes_after_the_message_was_sent_is_told_and_fails_the_run(account: Account) -> None:
    program = start(
        account, subprocess.PIPE, *account.script(["Half, ", {"do": "pause", "seconds": 2}, "whole."]), "-p", "go"
    )
    assert program.stdout and program.stdout.read(6) == "Half, "  # what is read ahead would be lost
    said, told = program.communicate("data", 60)
    assert (program.returncode, said) == (1, "whole.\n")
    assert told.endswith("was not read. Write it at once, or redirect a file: < FILE\n")


@pytest.mark.parametrize("line", ["< /dev/null", "<&-", "< empty", "< <(:)"])
def test_empty_input_is_not_waited_for(account: Account, line: str) -> None:
    (account.home / "empty").touch()
    done = pipeline(account, f"{PROGRAM} hello {line}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
