"""Tests of kill -9 at any moment and a restart: nothing shown is missing, the turn is closed, no tool runs twice."""

import json
import signal
from pathlib import Path

import psycopg
import pytest

from tests.e2e.program import Program
from tests.support.invariants import check

SCRIPT = [
    [
        "The first paragraph is whole.\n\nThe second one ",
        {"do": "pause", "seconds": 0.7},
        "ends here.",
        {"do": "call", "name": "touch", "arguments": {"n": 1}},
        {"do": "call", "name": "touch", "arguments": {"n": 2}},
    ],
    "All is done.",
]
POINTS = [
    "before:user",
    "after:user",
    "draft",
    "before:tool_call",
    "after:tool_call",
    "after:tool_started",
    "tool",
    "before:tool_result",
    "after:tool_result",
    "before:turn_end",
    "after:turn_end",
]


@pytest.mark.ordinary("draft", "after:tool_started", "before:turn_end")
@pytest.mark.parametrize("point", POINTS)
def test_nothing_shown_is_lost(tmp_path: Path, dsn: str, point: str):
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    tool_log = tmp_path / "touched"
    env = {"IKIGAI_DATABASE_URL": dsn, "KILL_AT": point, "TOOL_LOG": str(tool_log)}
    with Program(tmp_path, "-m", f"scripted/{script}", module="tests.e2e.toy", env=env) as program:
        program.wait_for(" · ctx")
        program.say("go on then")
        assert program.ended() == -signal.SIGKILL
        shown = _said(program.scrollback())
    ran = tool_log.read_text().split() if tool_log.exists() else []
    with Program(tmp_path, "-m", "scripted/echo", columns=100, env={"IKIGAI_DATABASE_URL": dsn}) as program:
        program.wait_for("echo · ctx")
        program.say("hello again")
        program.wait(lambda: "● hello again" in program.text(), "an answer")
        program.leave()
        again = program.text()
    check(dsn)
    for line in shown:
        assert line in again, f"{line!r} was on screen before the kill"
    assert (tool_log.read_text().split() if tool_log.exists() else []) == ran, "a tool ran again"
    with psycopg.connect(dsn) as connection:
        endings = [
            ending
            for (ending,) in connection.execute(
                "select data->>'ending' from messages where kind = 'turn_end' order by id"
            )
        ]
    expected = {"before:user": [], "after:turn_end": ["completed"]}.get(point, ["interrupted"])
    assert endings == [*expected, "completed"]


def _said(scrollback: list[str]) -> list[str]:
    """Return the lines of the conversation, without the live area and the input."""
    first = next((n for n, line in enumerate(scrollback) if line.startswith("❯ go on then")), None)
    if first is None or not any(line.startswith(("●", "→", "←")) for line in scrollback[first:]):
        return []
    spoken = [n for n, line in enumerate(scrollback) if line.startswith(("●", "→", "←"))]
    if any("Esc stops" in line for line in scrollback):  # the newest one is still in the live area
        spoken.pop()
    last = max(spoken, default=first)
    return [line for line in scrollback[first : last + 1] if line.strip()]


def test_kill_mid_stream_keeps_what_was_saved(tmp_path: Path, dsn: str):
    script = tmp_path / "script.json"
    text = "\n\n".join(f"Paragraph {n} of many." for n in range(40))
    script.write_text(json.dumps([[text, {"do": "hang"}]]))
    with Program(tmp_path, "-m", f"scripted/{script}", env={"IKIGAI_DATABASE_URL": dsn}) as program:
        program.wait_for(" · ctx")
        program.say("tell me")
        with psycopg.connect(dsn, autocommit=True) as log:  # what is below the scrollback may be a moment ahead of it
            program.wait(
                lambda: "Paragraph 39 of many." in str(log.execute("select text from drafts").fetchall()),
                "the draft in the log",
            )
        program.wait_for("Paragraph 30 of many.")
        program.kill()
        shown = [line for line in program.scrollback() if "Paragraph" in line]
    with Program(tmp_path, "-m", "scripted/echo", rows=200, env={"IKIGAI_DATABASE_URL": dsn}) as program:
        program.wait_for(" · ctx")
        program.wait_for("cut off: ikigai was killed here")
        again = program.text()
    assert shown and all(line.strip("● ") in again for line in shown)
    check(dsn)


def test_messages_that_a_stalled_database_has_not_stored_are_the_draft_of_the_next_run(tmp_path: Path, dsn: str):
    """Also those that were entered behind the one that is being stored, in their order."""
    env = {"IKIGAI_DATABASE_URL": dsn}
    with psycopg.connect(dsn) as other:
        with Program(tmp_path, "-m", "scripted/echo", env=env) as program:
            program.wait_for("echo · ctx")
            program.keeps()
            other.execute("lock table ikigai.messages")
            for text in ("first", "second", "third"):
                program.say(text)
            program.keeps("first\nsecond\nthird")
            program.kill()
        waits = "datname = current_database() and application_name like 'ikigai/%'"
        other.execute(f"select pg_terminate_backend(pid, 60000) from pg_stat_activity where {waits}".encode())
    with Program(tmp_path, "-m", "scripted/echo", env=env) as program:
        program.wait_for("The unsent input of the last run is restored.")
        program.wait(lambda: "❯ first second third" in program.words(), "the messages")
