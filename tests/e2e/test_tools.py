"""Tools as a user meets them: what is asked and shown, what each answer does, and what is left when something dies."""

import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.request import OUTCOME_UNKNOWN
from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program
from tests.wire_server import completion

TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}
REST = 0.55
"""Seconds until a question takes a key as its answer, and a little more."""
QUESTION = "[y] yes"


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": name, "arguments": arguments}


def shell(command: str) -> dict[str, object]:
    return call("shell", command=command)


def asked(program: Program, title: str = "") -> None:
    """Wait until a question is on screen, and has been long enough to be answered."""
    program.wait(lambda: any(QUESTION in line for line in program.lines()), "a question")
    if title:
        program.wait_for(title)
    until = time.monotonic() + REST
    while time.monotonic() < until:
        program.pump(0.05)


def answer(program: Program, key: str, title: str = "") -> None:
    """Answer the question that is being asked, and wait until it is gone."""
    asked(program, title)
    program.type(key)
    program.wait(lambda: not any(QUESTION in line for line in program.lines()), f"the answer {key!r}")


def decisions(account: Account) -> list[tuple[bool, str, str]]:
    """Of the calls so far: whether it may run, who or what decided, and the reason."""
    return [(data["approved"], data["by"], data.get("reason", "")) for _, _, data in account.rows("approval")]


class Traces:
    """Children of a test, found by a word in their arguments, whoever their parents are."""

    def __init__(self) -> None:
        self.word = f"trace{uuid.uuid4().hex}"

    def alive(self) -> dict[int, str]:
        found = dict[int, str]()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if self.word in words and int(folder.name) != os.getpid():
                    found[int(folder.name)] = words.strip()
        return found

    def gone(self, seconds: float = 8) -> None:
        """Wait until none is left."""
        until = time.monotonic() + seconds
        while left := self.alive():
            assert time.monotonic() < until, f"still running: {left}"
            time.sleep(0.05)


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    for pid in made.alive():
        os.kill(pid, signal.SIGKILL)


CALC = "def add(a, b):\n    return a - b\n"
CHECK = "from calc import add\n\nassert add(2, 3) == 5, add(2, 3)\nprint('all is well')\n"


def test_a_small_project_is_read_edited_and_tested(account: Account):
    (account.home / "calc.py").write_text(CALC)
    (account.home / "check.py").write_text(CHECK)
    edit = call("edit_file", path="calc.py", old="a - b", new="a + b")
    model = account.script(
        [call("read_file", path="calc.py"), call("read_file", path="check.py")],
        ["It subtracts. I check that.", shell("python3 check.py")],
        [edit],
        [shell("python3 check.py")],
        "Repaired: add adds.",
    )
    with account.terminal(*model, rows=40, columns=100, env=TOOLS) as program:
        program.ready()
        program.say("repair calc.py")
        asked(program, "Run it?")
        assert f"shell in {account.home}" in program.words()
        assert any("Waiting for your answer" in line for line in program.lines())
        answer(program, "s")
        program.wait_for("exit status 1")
        asked(program, "Make this edit?")
        assert "-    return a - b" in program.text() and "+    return a + b" in program.text()
        assert (account.home / "calc.py").read_text() == CALC, "it was changed before the answer"
        answer(program, "y")
        program.wait_for("● Repaired: add adds.")  # the same command runs by what was said for this session
        program.leave()
    assert (account.home / "calc.py").read_text() == CALC.replace("a - b", "a + b")
    results = account.said("tool_result")
    assert "AssertionError: -1" in results[2] and "exit status 1" in results[2]
    assert results[4].startswith("all is well\n[exit status 0")
    assert [by for _, by, _ in decisions(account)[2:]] == [
        *("user, for this session", "user, once", "approved for this session")
    ]
    assert account.endings() == ["completed"]
