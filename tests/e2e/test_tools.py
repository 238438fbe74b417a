"""Tests of tools over the real program: questions, display, the effect of each answer, and the state after a kill."""

import contextlib
import json
import os
import re
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ikigai.core.request.build import NOT_RUN, OUTCOME_UNKNOWN
from tests.e2e.account import WIRE, Account, Wire, figures_of
from tests.e2e.patient import PAUSE
from tests.e2e.program import Program
from tests.support.bubblewrap import needs_bubblewrap
from tests.support.local_weights import smol_weights
from tests.support.wire_server import completion

pytestmark = pytest.mark.usefixtures("quick_questions")

TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}
QUESTION = "[y] yes"
ANSWERED = re.compile(r"^  (?:\d+ of \d+ · )?[A-Z][a-z ]+\? [a-z]", re.MULTILINE)
"""The line of an answered question in the scrollback."""


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": name, "arguments": arguments}


def shell(command: str) -> dict[str, object]:
    return call("shell", command=command)


def asked(program: Program, title: str = "") -> None:
    """Wait until a question is on screen, and has been long enough to be answered."""
    program.wait(lambda: any(QUESTION in line for line in program.lines()), "a question")
    if title:
        program.wait_for(title)
    program.let_read()


def answer(program: Program, key: str, title: str = "") -> None:
    """Answer the question that is being asked, and wait until the answer stands in the scrollback."""
    asked(program, title)
    before = len(ANSWERED.findall(program.text()))
    program.type(key)
    program.wait(lambda: len(ANSWERED.findall(program.text())) > before, f"the answer {key!r}")


def decisions(account: Account) -> list[tuple[bool, str, str]]:
    """Return each call's decision so far: if it may run, who or what decided, and the reason."""
    return [(data["allowed"], data["by"], reason) for _, reason, data in account.rows("approval")]


class Traces:
    """The children of a test, found by a word in their arguments, whoever their parents are."""

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

    def gone(self, seconds: float = 60) -> None:
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


def test_small_project_is_read_edited_and_tested(account: Account):
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
        assert program.status().strip().startswith("waiting for you · ")
        answer(program, "s")
        program.wait_for("exit status 1")
        asked(program, "Make this edit?")
        assert "2 -     return a - b" in program.text() and "2 +     return a + b" in program.text()
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


def test_six_calls_at_once_of_which_three_are_denied(account: Account):
    model = account.script([shell(f"touch ran{number}") for number in range(6)], "I see.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        program.say("go")
        for number in range(6):
            answer(program, "n" if number in (0, 2, 5) else "y", f"touch ran{number}")
        program.wait_for("● I see.")
        program.leave()
    assert sorted(file.name for file in account.home.glob("ran*")) == [f"ran{n}" for n in (1, 3, 4)]
    assert [allowed for allowed, _, _ in decisions(account)] == [n not in (0, 2, 5) for n in range(6)]
    assert [("user said no" in text) for text in account.said("tool_result")] == [n in (0, 2, 5) for n in range(6)]
    assert account.endings() == ["completed"]


def test_esc_in_the_middle_of_a_command_leaves_nothing_running(account: Account, traces: Traces):
    stubborn = f"trap '' TERM; (setsid sleep 1000 {traces.word} &) ; echo begun; exec -a {traces.word} sleep 1000"
    model = account.script(
        [shell(stubborn.replace(f"1000 {traces.word}", "1000")), shell("touch never")], "Never said."
    )
    with account.terminal(*model, "--yolo", env=TOOLS) as program:
        program.ready()
        program.say("go")
        program.wait(lambda: any(line.strip() == "begun" for line in program.lines()), "its output")
        assert any("Running shell" in line and "Esc stops" in line for line in program.lines())
        assert traces.alive()
        program.type("\x1b")
        program.wait_for("✗ interrupted")
        traces.gone()
        program.leave()
    assert not (account.home / "never").exists()
    assert account.endings() == ["interrupted"]


@needs_bubblewrap
def test_in_the_sandbox_commands_reach_nothing_else_and_a_kill_leaves_nothing(account: Account, traces: Traces):
    work = account.home / "work"
    work.mkdir()
    daemon = f"(setsid sh -c 'exec -a {traces.word} sleep 1000' &) ; exec -a {traces.word} sleep 1000"
    model = account.script(
        [shell(f"echo in > here; echo out > {account.home}/out; echo out > /usr/out")],
        "Tried.",
        [shell(daemon)],
    )
    with account.terminal(*model, "--yolo", env={**TOOLS, "IKIGAI_TOOLS_SANDBOX": "bwrap"}, cwd=work) as program:
        program.ready()
        program.wait(lambda: "bwrap · " in program.status(), "the sandbox in the status line")
        program.say("go")
        program.wait_for("● Tried.")
        program.settled()
        program.say("and stay")
        program.wait(lambda: len(traces.alive()) >= 2, "its children")
        program.kill()
    traces.gone()
    assert (work / "here").read_text() == "in\n" and not (account.home / "out").exists()
    assert "Read-only file system" in account.said("tool_result")[0]


KILLS = {
    "question": (NOT_RUN, False),
    "after:approval": (OUTCOME_UNKNOWN, False),
    "child": (OUTCOME_UNKNOWN, True),
    "before:tool_result": (OUTCOME_UNKNOWN, True),
}
"""Places of the kill: the result that the model reads afterwards, and if the command had run."""


@pytest.mark.ordinary("question", "child", "before:tool_result")
@pytest.mark.parametrize("point", KILLS)
def test_killed_with_a_call_under_way(account: Account, wire: Wire, traces: Traces, point: str):
    rest = f"exec -a {traces.word} sleep 1000" if point == "child" else "true"
    wire.answers(completion(calls=[{"name": "shell", "arguments": {"command": f"echo once >> ran; {rest}"}}]))
    ran = account.home / "ran"
    with account.terminal(*WIRE, module="tests.e2e.dying", env={**TOOLS, "KILL_AT": point}) as program:
        program.ready()
        program.say("go")
        asked(program, "Run it?")
        if point == "question":
            program.kill()
        else:
            program.type("y")
        if point == "child":
            program.wait(lambda: bool(traces.alive()) and ran.exists(), "the child")
            program.kill()
        assert program.ended() == -signal.SIGKILL
    traces.gone()
    told, had_run = KILLS[point]
    assert ran.exists() == had_run
    assert [allowed for allowed, _, _ in decisions(account)] == [True] * (point != "question")
    wire.answers("I see.")
    with account.terminal(*WIRE, env=TOOLS) as program:
        program.ready()
        program.say("what came of it?")
        program.wait_for("● I see.")
        program.leave()
    results = [message["content"] for message in wire.messages() if message["role"] == "tool"]
    assert results == [f"[error] {told}"]
    assert (ran.read_text() if had_run else "once\n") == "once\n", "it ran twice"
    assert account.endings() == ["interrupted", "completed"]


def test_killed_behind_an_answer_for_several_calls(account: Account, wire: Wire):
    """The answer holds for the stored events, and for nothing else."""
    calls = [{"name": "shell", "arguments": {"command": f"echo {number} >> ran"}} for number in range(3)]
    wire.answers(completion(calls=calls))
    with account.terminal(*WIRE, module="tests.e2e.dying", env={**TOOLS, "KILL_AT": "before:tool_result"}) as program:
        program.ready()
        program.say("go")
        asked(program, "1 of 3 · Run it?")
        program.type("t")
        asked(program, "Run all 3?")
        program.type("y")
        assert program.ended() == -signal.SIGKILL
    assert decisions(account) == [(True, "user, with 2 others", "")]
    wire.answers("I see.")
    with account.terminal(*WIRE, env=TOOLS) as program:
        program.ready()
        program.say("what came of it?")
        program.wait_for("● I see.")
        program.leave()
    results = [message["content"] for message in wire.messages() if message["role"] == "tool"]
    assert results == [f"[error] {told}" for told in (OUTCOME_UNKNOWN, NOT_RUN, NOT_RUN)]
    assert (account.home / "ran").read_text() == "0\n" and len(decisions(account)) == 1
    assert account.endings() == ["interrupted", "completed"]


def test_type_ahead_is_no_answer(account: Account):
    model = account.script([{"do": "pause", "seconds": 0.5}, shell("touch ran")], "I see.")
    with account.terminal(*model, module="tests.e2e.patient", env=TOOLS) as program:
        program.ready()
        program.say("go")
        seen, typed = 0.0, 0
        while not seen or time.monotonic() - seen < 0.8:  # without a pause, until a question has stood there for long
            program.type("y")
            typed += 1
            until = time.monotonic() + 0.04
            while time.monotonic() < until:
                program.pump(0.01)
            seen = seen or (time.monotonic() if any(QUESTION in line for line in program.lines()) else 0.0)
        assert any(QUESTION in line for line in program.lines()) and not account.rows("approval")
        program.wait_for_input("y" * typed)
        asked(program)
        program.type("\r")  # sends what was typed, and answers nothing
        program.wait_for("next: yyyyyyyy")
        assert not account.rows("approval")
        program.type("\x1b[200~y\x1b[201~")  # nor does a paste
        program.wait_for_input("y")
        assert not account.rows("approval")
        program.pass_time(PAUSE + 0.2)
        program.type("r")
        program.wait_for("Why not? The model sees your answer.")
        program.wait_for_input("")
        program.type("that is mine\r")
        program.wait_for("● I see.")
        program.wait_for_input("y")
        program.wait_for("● yyyyyyyy")  # what was queued, echoed
        program.type("\x7f")
        program.leave()
    assert not (account.home / "ran").exists()
    assert [(allowed, reason) for allowed, _, reason in decisions(account)] == [(False, "that is mine")]
    assert "The user's reason: that is mine" in account.said("tool_result")[0]


def test_invisible_characters_are_shown(account: Account):
    model = account.script([shell("echo 'safe\u202e # yliad'\u200b; rm\tx")], "I see.")
    with account.terminal(*model, columns=100, env=TOOLS) as program:
        program.ready()
        program.say("go")
        asked(program, "Run it?")
        assert "echo 'safe<U+202E> # yliad'<U+200B>; rm⇥x" in program.text()
        assert "Hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE, U+200B ZERO WIDTH SPACE." in program.words()
        assert "\u202e".encode() not in program.raw and "\u200b".encode() not in program.raw
        program.type("\x1b")
        program.wait_for("● I see.")
        program.leave()
    assert [allowed for allowed, _, _ in decisions(account)] == [False]


def test_modes(account: Account):
    """/approve, Shift+Tab, and standing approvals until they are revoked."""
    write = call("write_file", path="made.txt", content="made\n")
    model = account.script(
        [write, shell("touch ran")],
        "First.",
        [shell("touch again")],
        "Second.",
        [shell("touch again")],
        "Third.",
        [shell("touch all")],
        "Fourth.",
        [shell("touch refused")],
        "Fifth.",
    )
    with account.terminal(*model, rows=50, columns=100, env=TOOLS) as program:
        program.ready()

        def change(line: str, told: str = "") -> None:
            program.say(line)
            program.wait_for(told)

        change("/approve edits", f"Edits in {account.home} run without a question now.")
        program.say("one")
        answer(program, "n", "touch ran")
        program.wait_for("● First.")
        assert (account.home / "made.txt").read_text() == "made\n" and not (account.home / "ran").exists()
        program.say("two")
        answer(program, "a", "touch again")
        program.wait_for("● Second.")
        program.say("three")
        program.wait_for("● Third.")  # nobody was asked
        change("/approve", "1 shell touch again in ")
        change("/approve revoke 1", "Approval revoked: shell touch again")
        for presses, mode in (1, "auto"), (1, "read-only"), (1, "ask"), (4, "ask"), (2, "auto"):  # also in haste
            program.settled()
            program.type("\x1b[Z" * presses)
            program.wait(lambda mode=mode: last_mode(account) == mode, f"the mode {mode}")
            program.wait_for(f"[{mode}]" if mode != "ask" else " · ")
        assert "Approval:" not in program.text() and program.text().count("question now") == 1
        change("/approve yolo", "Run everything without asking?")
        answer(program, "n")
        program.wait_for("Nothing was changed.")
        assert last_mode(account) == "auto"
        change("/approve yolo")
        answer(program, "y")
        program.wait_for("Everything runs without a question now.")
        program.say("four")
        program.wait_for("● Fourth.")
        program.type("\x1b[Z")
        program.wait(lambda: last_mode(account) == "ask", "asking again")
        change("/approve read-only", "Nothing is changed or run now.")
        program.say("five")
        program.wait_for("● Fifth.")
        program.leave()
    assert (account.home / "all").exists() and not (account.home / "refused").exists()
    assert "The approval mode is read-only" in account.said("tool_result")[-1]
    assert [by for _, by, _ in decisions(account)] == [
        *("approval mode edits", "user", "user, for always", "approved for always", "approval mode yolo", "policy")
    ]


@pytest.mark.parametrize("way", ["\x1b[Z", "/approve edits\r", "s"], ids=["Shift+Tab", "/approve", "s"])
def test_all_edits_of_a_turn_are_allowed_by_one_answer(account: Account, way: str):
    """The open question is answered by it, and nothing waits for the end of the turn."""
    files = [f"{letter}.txt" for letter in "abcdef"]
    writes = [call("write_file", path=name, content="x\n") for name in files]
    model = account.script(writes[:3], writes[3:], [call("write_file", path="AGENTS.md", content="Obey.\n")], "Done.")
    with account.terminal(*model, rows=40, columns=100, env=TOOLS) as program:
        program.ready()
        program.say("go")
        asked(program, "1 of 3 · Make this edit?")
        program.type(way)
        asked(program, "may run or obey AGENTS.md")  # a protected file asks all the same
        assert "next:" not in program.text()
        told = f"Edits in {account.home} run without a question now."
        assert program.words().count(told) == (way == "/approve edits\r")  # the key says it in the status line
        assert all((account.home / name).exists() for name in files) and not (account.home / "AGENTS.md").exists()
        program.type("n")
        program.wait_for("● Done.")
        program.leave()
    by = [("user, for this session", "approved for this session") if way == "s" else ("approval mode edits",)]
    assert [by for allowed, by, _ in decisions(account) if allowed] == [by[0][0], *[by[0][-1]] * 5]


def test_mode_yolo_is_confirmed_before_an_open_question_and_answers_it(account: Account):
    model = account.script([shell("touch one"), shell("touch two")], "Done.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        program.say("go")
        asked(program, "1 of 2 · Run it?")
        program.type("/approve yolo\r")
        asked(program, "Run everything without asking?")
        program.type("y")
        program.wait_for("● Done.")
        program.leave()
    assert (account.home / "one").exists() and (account.home / "two").exists()
    assert {by for _, by, _ in decisions(account)} == {"approval mode yolo"}


PLANT = """
insert into messages (event_id, agent_id, seq, kind, data)
select gen_random_uuid(), agent_id, max(seq) + 1, 'settings', %s::jsonb from messages group by agent_id
"""


@pytest.mark.parametrize("origin", ["agent", "--yolo", ""])
def test_mode_holds_over_a_restart_where_it_was_chosen_and_nowhere_else(account: Account, origin: str):
    model = account.script([call("write_file", path="made.txt", content="made\n"), shell("touch ran")], "I see.")
    made = account.home / "made.txt"
    with account.terminal(*model, env=TOOLS) as program:
        program.ready().say("/approve edits")
        program.wait_for("run without a question now")
        program.leave()
    elsewhere = {**TOOLS, "XDG_DATA_HOME": str(account.home / "another machine")}
    result = account.run(*model, "-c", "-p", "go", **elsewhere)
    assert "Not in force, because it was not chosen in this program: approval mode edits." in result.stderr
    assert not made.exists()
    assert account.run(*model, "-c", "-p", "go", **TOOLS).returncode == 0
    assert made.read_text() == "made\n" and not (account.home / "ran").exists()
    with psycopg.connect(account.dsn) as other:
        other.execute(PLANT, (json.dumps({"values": {"approval": "yolo"}, "origins": {"approval": origin}}),))
    made.unlink()
    assert account.run(*model, "-c", "-p", "go", **TOOLS).returncode == 0
    assert not (account.home / "ran").exists() and made.exists(), "the planted row changes nothing"


def last_mode(account: Account) -> str:
    chosen = [data["values"]["approval"] for _, _, data in account.rows("settings") if "approval" in data["values"]]
    return chosen[-1]


def test_print_mode_runs_nothing_unasked(account: Account):
    write = call("write_file", path="made.txt", content="made\n")
    model = account.script([shell("touch ran"), write, call("read_file", path="note.txt")], "I see.")
    (account.home / "note.txt").write_text("a note\n")
    result = account.run(*model, "-c", "-p", "go", "--yes", **TOOLS)
    assert (result.stdout, result.returncode) == ("I see.\n", 0)
    refused = [  # no rule holds in the folder above ikigai's own files
        "ikigai: Refused in print mode: touch ran. --yolo allows everything.",
        "ikigai: Refused in print mode: write made.txt. "
        'Allow it: [tools] approval = "edits"; --yolo allows everything.',
    ]
    assert sorted(result.stderr.splitlines()) == refused
    assert not (account.home / "ran").exists() and not (account.home / "made.txt").exists()
    results = account.said("tool_result")
    assert sum("the user cannot be asked here" in each for each in results) == 2
    assert any("a note" in each for each in results)
    assert sorted((allowed, by) for allowed, by, _ in decisions(account)) == [
        *((False, "policy"), (False, "policy"), (True, "reads inside the working directory"))
    ]
    account.run(*model, "-c", "-p", "go", IKIGAI_TOOLS_APPROVAL="edits", **TOOLS)
    assert (account.home / "made.txt").exists() and not (account.home / "ran").exists()
    (account.home / "made.txt").unlink()
    result = account.run(*model, "-c", "-p", "go", "--yolo", **TOOLS)
    assert (result.stdout, result.stderr, result.returncode) == ("I see.\n", "", 0)
    assert (account.home / "ran").exists()
    assert account.endings() == ["completed"] * 3


def test_log_keeps_whole_results_up_to_a_limit(account: Account):
    """Of the shell and of a tool of the user's own; a start draws the beginning, and says how much there is."""
    own = account.home / ".config" / "ikigai" / "tools" / "count"
    own.parent.mkdir(parents=True)
    told = json.dumps({"name": "count", "description": "Counts.", "input_schema": {"type": "object"}})
    own.write_text(f"#!/bin/sh\nif [ \"$1\" = --schema ]; then echo '{told}'; else seq 400000; fi\n")
    own.chmod(0o755)
    model = account.script([shell("seq 400000"), call("count")], "I see.")
    whole = "".join(f"{n}\n" for n in range(1, 400_001))
    assert len(whole) > 2_000_000
    assert account.run(*model, "-c", "-p", "go", "--yolo", **TOOLS).returncode == 0
    assert account.said("tool_result") == [f"{whole}[exit status 0]", whole]
    with account.terminal(*model, "-r", account.agents()[0], env=TOOLS) as program:
        program.ready().wait_for("… 2,688,895 bytes in all")
        program.type("\x0f")
        program.wait(lambda: "│    12" in program.text(), "the result in the history")
        program.type("q")
        program.settled()
        program.leave()


def test_allowlist_runs_commands_in_print_mode(account: Account):
    account.configure('[tools]\napproval = "auto"\nallow = ["python3 check.py"]\n')
    project = account.home / "project"  # for ikigai's own files lie in the home
    project.mkdir()
    (project / "check.py").write_text("print('checked')\n")
    model = account.script(
        [shell("python3 check.py"), shell("python3 check.py; touch ran"), shell("echo $HOME")], "End."
    )
    assert account.shell(f"cd project; ikigai {' '.join(model)} -p go", **TOOLS).returncode == 0
    assert [allowed for allowed, _, _ in decisions(account)] == [True, False, False]
    assert account.said("tool_result")[0].startswith("checked\n") and not (project / "ran").exists()


def test_tool_set_that_is_switched_off_stays_off(account: Account, wire: Wire):
    wire.answers("One.", "Two.", "Three.")

    def offered() -> set[str]:
        return {tool["function"]["name"] for tool in wire.requests[-1].json["tools"]}

    with account.terminal(*WIRE, env=TOOLS) as program:
        program.ready()
        program.say("first")
        program.wait_for("● One.")
        assert {"shell", "read_file"} <= offered()
        program.settled()
        program.say("/tools off shell")
        program.wait_for("Tools off: shell")
        program.say("/tools")
        program.wait_for("off shell:")
        program.say("second")
        program.wait_for("● Two.")
        assert "shell" not in offered() and "read_file" in offered()
        program.leave()
    account.run(*WIRE, "-c", "-p", "third", **TOOLS)
    assert "shell" not in offered() and "read_file" in offered()


def test_configured_commands_are_tools(account: Account, wire: Wire, traces: Traces):
    wire.answers("I see.", "I still see.")
    (account.home / "visible.txt").write_text("")
    with account.terminal(*WIRE, rows=40, columns=120, env=TOOLS) as program:
        program.ready()
        program.say("!ls *.txt")
        program.wait_for("visible.txt [exit status 0]")
        program.settled()
        program.say("!!echo between us")
        program.wait_for("$ echo between us between us [exit status 0]")
        program.say(f"!!echo begun; touch begun; exec -a {traces.word} sleep 1000")
        program.wait((account.home / "begun").exists, "the command")
        program.type("\x1b")
        program.wait_for("The command was stopped.")
        traces.gone()
        program.wait_for("begun [stopped]")
        program.say("what did I do?")
        program.wait_for("● I see.")
        program.settled()
        program.say(f"!!exec -a {traces.word} sleep 1000")
        program.wait(lambda: bool(traces.alive()), "the command")
        program.say("/exit")
        assert program.ended() == 0
        traces.gone()
    sent = json.dumps(wire.messages())
    assert "!ls *.txt" in sent and "visible.txt" in sent and "between us" not in sent
    assert not account.rows("approval") and "between us" not in " ".join(account.said("user"))


def test_output_that_waits_for_its_turn_survives_a_kill(account: Account):
    script = account.script(["One.", {"do": "hang"}])
    with account.terminal(*script, rows=40, env=TOOLS) as program:
        program.ready().say("first")
        program.wait_for("● One.")
        for n in range(2):
            program.say(f"!echo out-{n}")
            program.wait_for(f"!echo out-{n} has run. Its output is added to the conversation when the turn ends.")
        program.kill()
        program.ended()
    assert account.said("user") == ["first"]
    with account.terminal(*script, rows=40, env=TOOLS) as program:
        program.ready()
        program.wait_for("out-1 [exit status 0]")
        program.settled()
        program.say("/exit")
        assert program.ended() == 0
    outputs = [f"!echo out-{n}\nout-{n}\n[exit status 0]" for n in range(2)]
    assert account.said("user") == ["first", *outputs]
    assert account.endings() == ["interrupted", "completed", "completed"]


def test_output_of_the_users_own_command_is_in_the_log(account: Account, traces: Traces):
    """However the turn beside it ends; and nothing false is said of it."""
    proof, hang = account.home / "proof", {"do": "hang"}
    script = account.script(["One.", hang], ["Two.", hang], ["Three.", hang], ["Four.", hang])
    with account.terminal(*script, rows=40, env=TOOLS) as program:
        program.ready().say("first")
        program.wait_for("● One.")
        program.say("!echo ran >> proof; echo hello-out")
        program.wait_for("!echo ran >> proof; echo hello-out has run.")
        program.wait_for("Its output is added to the conversation when the turn ends.")
        program.type("\x1b")
        program.wait_for("hello-out [exit status 0]")
        program.settled()
        assert "Not run" not in program.text() and program.input() == ""
        program.say("second")
        program.wait_for("● Two.")
        program.say(f"!echo half; exec -a {traces.word} sleep 1000")
        program.wait(lambda: any(line.strip() == "half" for line in program.lines()), "what it wrote")
        program.type("\x1b")
        program.wait_for("The command was stopped.")
        traces.gone()
        program.type("\x1b")
        program.wait_for("half [stopped]")
        program.settled()
        program.say("third")
        program.wait_for("● Three.")
        program.say("!echo at the end")
        program.wait_for("!echo at the end has run.")
        program.say(f"!echo under way; exec -a {traces.word} sleep 1000")
        program.wait(lambda: any(line.strip() == "under way" for line in program.lines()), "what it wrote")
        program.say("/exit")
        assert program.ended() == 0
        program.assert_restored()
    traces.gone()
    assert proof.read_text() == "ran\n"
    assert account.said("user") == [
        "first",
        "!echo ran >> proof; echo hello-out\nhello-out\n[exit status 0]",
        "second",
        f"!echo half; exec -a {traces.word} sleep 1000\nhalf\n\n[stopped]",
        "third",
        "!echo at the end\nat the end\n[exit status 0]",
        f"!echo under way; exec -a {traces.word} sleep 1000\nunder way\n\n[stopped]",
    ]
    assert account.endings() == [
        "interrupted",
        "completed",
        "interrupted",
        "completed",
        "interrupted",
        *["completed"] * 2,
    ]
    with account.terminal(*script, rows=40, env=TOOLS) as program:
        program.ready().say("fourth")
        program.wait_for("● One.")
        program.say("!echo before the kill")
        program.wait_for("!echo before the kill has run.")
        program.keeps()
        program.kill()
    with account.terminal(*script, rows=40, env=TOOLS) as program:
        program.ready()
        program.wait_for("cut off: ikigai was killed here")
        assert program.input() == "", "typed again it would run again"
        program.leave()


def test_local_model_is_offered_no_tools_that_its_template_would_drop(account: Account):
    """Nothing is counted for them, no call runs without permission, and the user is told where they look."""
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    model = f'[models."local/{smol_weights().stem}"]\nmax_output = 12\n'
    account.configure(f'[providers.local]\nmodel_file = "{smol_weights()}"\n{model}')
    result = account.run("-c", "-p", "Use the tool read_file on note.txt.", "--max-turns", "1", **TOOLS)
    assert result.returncode == 0, result.stderr
    assert account.endings() == ["completed"] and not account.rows("approval", "tool_call")
    found = figures_of(account.run("-c", "-p", "/context", "--json", **TOOLS))
    assert found["takes_tools"] is False and "tools" not in [part["name"] for part in found["parts"]]
    assert found["compared"]["counted"] < 3 * found["compared"]["reported"], "what llama.cpp was told, too"
    assert figures_of(account.run("-c", "-p", "/model", "--json", **TOOLS))["takes_tools"] is False
    with account.terminal(env=TOOLS) as program:
        program.ready().say("/tools")
        program.wait_for(" does not support tools: it is offered none of these.")
        program.say("/context")
        program.wait_for("tools        none: the model does not support them")
        program.say("/forget what foxes eat")
        program.wait_for("does not support tools, so it cannot find messages by criteria. Use /forget with ids;")
        program.leave()
