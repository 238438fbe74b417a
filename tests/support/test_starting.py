"""Tests that a forked program finds what one with an interpreter of its own finds."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program, run
from tests.support import starting

TELLS = """
import json, os, signal, sys

def told():
    yield __name__, sys.argv[1:], sys.path[:2], os.getcwd(), dict(os.environ)
    yield os.getsid(0) == os.getpid(), os.isatty(0) and os.tcgetpgrp(0) == os.getpid()
    yield sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1]
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        yield stream.fileno(), stream.encoding, stream.errors, stream.line_buffering, stream.isatty()
    for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, *([signal.SIGINT] if os.isatty(0) else ())):
        yield str(signal.getsignal(number)), number in signal.pthread_sigmask(signal.SIG_BLOCK, ())

found = [*told()]
if not sys.stdin.isatty():
    found.append(sys.stdin.read())
with open("told", "w") as file:
    json.dump(found, file)
print("out é", file=sys.stdout)
print("err \\udc80", file=sys.stderr)
if "wait" in sys.argv:
    signal.pause()
sys.exit(7)
"""


@pytest.fixture(params=["forked", "own"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    if request.param == "forked" and starting.own_interpreter:
        pytest.skip("needs pidfd_open")
    monkeypatch.setattr(starting, "own_interpreter", request.param == "own")
    (tmp_path / "tells.py").write_text(TELLS)
    return request.param


def told(home: Path) -> list[Any]:
    return json.loads((home / "told").read_text())


def test_without_a_terminal(how: str, tmp_path: Path) -> None:
    done = run(tmp_path, "a", "ü", input="é\n", module="tells", MORE="x")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out é\n", "err \\udc80\n")
    module, arguments, path, folder, environment = told(tmp_path)[0]
    assert (module, arguments, folder) == ("__main__", ["a", "ü"], str(tmp_path))
    assert path[0] == str(tmp_path) and environment["MORE"] == "x" and environment["HOME"] == str(tmp_path)
    assert told(tmp_path)[1:] == [
        [False, False],
        [0, 1, 2],
        [0, "utf-8", "surrogateescape", False, False],
        [1, "utf-8", "surrogateescape", False, False],
        [2, "utf-8", "backslashreplace", True, False],
        ["1", False],
        *2 * [["0", False]],
        "é\n",
    ]


def test_in_a_terminal(how: str, tmp_path: Path) -> None:
    with Program(tmp_path, "wait", module="tells") as program:
        program.wait_for("out é")
        program.wait_for("err \\udc80")
        assert program.process.poll() is None and Path(f"/proc/{program.process.pid}").exists()
        assert told(tmp_path)[1:3] == [[True, True], [0, 1, 2]]
        assert [stream[3:] for stream in told(tmp_path)[3:6]] == 3 * [[True, True]]
        assert told(tmp_path)[6:] == [
            ["1", False],
            *2 * [["0", False]],
            ["<built-in function default_int_handler>", False],
        ]
        program.process.send_signal(signal.SIGTERM)
        assert program.ended() == -signal.SIGTERM
        assert not Path(f"/proc/{program.process.pid}").exists()


def test_variables_of_the_interpreter_need_an_own_one() -> None:
    usual = {"LANG": "C.UTF-8", **starting.USUAL, "HOME": "/", "TERM": "dumb"}
    assert starting.shareable(usual)
    assert not any(starting.shareable(usual | more) for more in ({"LANG": "C"}, {"PYTHONIOENCODING": "ascii"}))
