"""Tests that the long campaigns find every violation that can be made by hand."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import psycopg
import pytest

from tests.e2e.account import Account
from tests.e2e.conftest import account
from tests.support import evidence as module
from tests.support.evidence import Evidence

__all__ = ["account"]

TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}


def tamper(evidence: Evidence, statement: str) -> None:
    with psycopg.connect(evidence.account.dsn) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(statement.encode())


def shell(name: str) -> dict[str, object]:
    return {"do": "call", "name": "shell", "arguments": {"command": f"echo {name} >> ran"}}


@pytest.fixture
def evidence(account: Account) -> Evidence:
    """Return the evidence of two turns with a command each."""
    made = Evidence(account)
    for n in range(2):
        model = account.script(["Some words.", shell(f"{n}")], "The end.")
        asked = ("-p", f"question {n}", "--yolo", "--output-format", "stream-json")
        done = account.run(*model, *asked, **TOOLS)
        assert done.returncode == 0, done.stderr
        made.read(done.stdout)
    made.shown |= {"question 1", "Some words."}
    made.verify(idle=True)
    return made


@contextmanager
def left_running(evidence: Evidence) -> Iterator[None]:
    with subprocess.Popen(("bash", "-c", f"exec -a {evidence.token} sleep 20")) as process:
        until = time.monotonic() + 10
        while not evidence._left() and time.monotonic() < until:
            time.sleep(0.01)
        yield
        process.kill()


CHANGED = "update messages set content = 'other' where kind = 'tool_result' and seq < 10"
TWICE = "update messages set content = 'question 0' where content = 'question 1'"
REFUSED = "update messages set data = data || '{\"allowed\": false}' where kind = 'approval'"
GAP = "update messages set seq = seq + 100 where id = (select max(id) from messages)"
VIOLATIONS: dict[str, Callable[[Evidence], object]] = {
    "is there, and as it was": lambda seen: tamper(seen, CHANGED),
    "was told otherwise": lambda seen: seen.streamed[3].update(content="other"),
    "on the screen and is nowhere": lambda seen: seen.shown.add("Other words."),
    "a message is there twice": lambda seen: tamper(seen, TWICE),
    "ran twice": lambda seen: seen.ran.write_text("0\n1\n1\n"),
    "ran before that was stored": lambda seen: seen.ran.write_text("0\n1\n2\n"),
    "ran without approval": lambda seen: tamper(seen, REFUSED),
    "a gap or a repeat": lambda seen: tamper(seen, GAP),
    "still running": left_running,
}


@pytest.mark.ordinary("is there, *", "ran twice", "a gap or a repeat")
@pytest.mark.parametrize("what", VIOLATIONS)
def test_violation_is_found(evidence: Evidence, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GONE_WITHIN", 0.5)
    if what in ("a message is there twice", "ran without approval"):  # else it is known that the row was another
        evidence._known, evidence.streamed, evidence.shown = {}, {}, set()
    made = VIOLATIONS[what](evidence)
    beside = made if isinstance(made, AbstractContextManager) else nullcontext()
    with beside, pytest.raises(AssertionError, match=what):
        evidence.verify()
