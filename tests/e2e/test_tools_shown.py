"""Tests of the display of tools: questions about several calls, edits, pictures; and of a project's limits."""

import re
import time
from pathlib import Path

import pytest

from ikigai.app.project.trusted_project import Project
from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program
from tests.e2e.test_browser import left, opened, selected
from tests.e2e.test_images import picture
from tests.e2e.test_tools import TOOLS, answer, asked, call, decisions, shell
from tests.support.wire_server import completion


def pager(account: Account) -> tuple[Path, dict[str, str]]:
    """Return the file to which a pager writes its input, and the variables that choose that pager."""
    program, kept = account.home / "pager", account.home / "paged"
    program.write_text(f"#!/bin/sh\ncat > {kept}.part && mv {kept}.part {kept}\n")
    program.chmod(0o755)
    return kept, {"PAGER": str(program)}


def test_all_that_wait_are_shown_and_answered_together(account: Account):
    two = call("write_file", path="two.txt", content="".join(f"line {number}\n" for number in range(60)))
    model = account.script(
        [shell("echo one >> log"), two, shell("echo 'three\u202e' >> log")],
        "All done.",
        [shell(f"touch never{number}") for number in range(4)],
        "None done.",
        [shell("cd sub"), shell("touch here")],
        "One done.",
    )
    (account.home / "sub").mkdir()
    with account.terminal(*model, rows=24, columns=80, env=TOOLS) as program:
        program.ready()
        program.say("go")
        asked(program, "1 of 3 · Run it?")
        keys = [line for line in program.lines() if line.startswith("  [") or "Esc: no" in line]
        assert len(keys) == 2 and "[t] together, all 3" in " ".join(keys) and "[x] no to all" in " ".join(keys)
        assert "+ line 0" not in program.text()
        program.type("ty")  # the second key comes before anything of the others can have been read
        program.wait_for("Allow all 3?")
        program.wait_for_input("y")
        text = program.text()
        assert "  2 of 3\n→ write two.txt (a new file)\n   1 + line 0\n" in text and "  60 + line 59\n" in text
        assert "  3 of 3\n→ shell in" in text and "echo 'three<U+202E>' >> log" in text
        assert not account.rows("approval") and not (account.home / "log").exists()
        program.type("\x7f")
        program.wait_for_input("")
        time.sleep(0.6)
        program.type("y")
        program.wait_for("● All done.")
        assert (account.home / "log").read_text() == "one\nthree\u202e\n"
        assert decisions(account) == [(True, "user, with 2 others", "")] * 3
        order = [kind for kind, _, _ in account.rows("approval", "tool_started", "tool_result")]
        assert order.index("approval") < order.index("tool_started") and order.count("approval") == 3
        program.settled()
        program.say("and these")
        answer(program, "x", "1 of 4 · Run it?")
        program.wait_for("● None done.")
        assert [allowed for allowed, _, _ in decisions(account)[3:]] == [False] * 4
        program.settled()
        program.say("and there")
        asked(program, "1 of 2 · Run it?")
        program.type("t")
        asked(program, "Run all 2?")
        program.type("y")
        asked(program, "2 of 2 · Run it?")  # it is another folder by now
        program.wait_for("This call has changed since it was shown")
        program.type("n")
        program.wait_for("● One done.")
        program.leave()
    assert not list(account.home.glob("never*")) and not (account.home / "sub" / "here").exists()
    assert account.endings() == ["completed"] * 3


def test_edits_are_shown_without_a_question_too(account: Account):
    (account.home / "a.txt").write_text("".join(f"line {number}\n" for number in range(40)))
    edits = [call("edit_file", path="a.txt", old=f"line {n}\n", new=f"LINE {n}\x1b[2J\u202e\n") for n in (3, 20, 35)]
    model = account.script([call("read_file", path="a.txt")], edits[:1], edits[1:], [shell("wc -l a.txt")], "Done.")
    kept, env = pager(account)
    with account.terminal(*model, "--yolo", rows=40, env={**TOOLS, **env}) as program:
        program.ready()
        program.say("go")
        program.wait_for("● Done.")
        text = program.text()
        assert "→ read a.txt (40 lines)\n→ edit a.txt\n← Edited in 1 place, line 4.\n  1   line 0\n" in text
        assert (
            "\n  4 - line 3\n  4 + LINE 3<U+001B>[2J<U+202E>\n" in text
            and "21 + LINE 20" in text
            and "36 + LINE 35" in text
        )
        assert "\u202e".encode() not in program.raw and b"\x1b[31mline 3" in program.raw
        assert b"\x1b[32mLINE 3" in program.raw
        program.leave()
    assert {by for _, by, _ in decisions(account)} == {"approval mode yolo"}
    long = "".join(f"new {number}\n" for number in range(200))
    model = account.script([call("write_file", path="new.txt", content=long)], "Written.")
    with account.terminal(*model, "--yolo", "--new", rows=40, env={**TOOLS, **env}) as program:
        program.ready()
        program.say("go")
        program.wait_for("● Written.")
        text = program.text()
        assert "   9 + new 8\n" in text and "+ new 30" not in text
        assert "… 190 more lines of changes (Ctrl+O)" in text
        opened(program, "\x0f")
        assert selected(program).startswith("▌  ← Created new.txt: 200 lines")
        assert any(line.endswith("  1 + new 0") for line in program.lines()) and b"\x1b[32mnew 30" in program.raw
        program.type("o")
        program.wait(kept.exists, "the pager")
        paged = kept.read_text()
        assert "Created new.txt: 200 lines" in paged and "+++ b/new.txt" in paged and "+new 199" in paged
        program.wait(lambda: selected(program) != "", "the browser again")
        left(program)
        program.leave()
    results = [data for _, _, data in account.rows("tool_result") if "diff" in data]
    assert len(results) == 4
    with account.terminal(*model, rows=40, env=TOOLS) as program:  # drawn anew
        program.ready()
        program.wait_for("… 190 more lines of changes")
        program.leave()


def test_agreed_diff_is_shown_once_and_a_replay_shows_turns_alone(account: Account):
    """In the question while it is agreed; with the result when it is drawn anew, without the changes of settings."""
    model = account.script([call("write_file", path="a.py", content="print(1)\n")], "Written.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready().say("go")
        answer(program, "y", "Make this edit?")
        program.wait_for("● Written.")
        program.settled()
        assert program.text().count("print(1)") == 1
        for command, told in (("/mark here", "Mark here set."), ("/budget 50k", "Budget: 50k"), ("/think off", "off")):
            program.say(command)
            program.wait_for(told)
        program.leave()
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready().wait_for("● Written.")
        text = program.text()
        assert text.count("1 + print(1)") == 1 and not re.search("Mark here|Budget|Level", text)
        program.leave()


def test_call_of_an_open_question_stands_once_when_the_agent_is_shown_again(account: Account):
    model = account.script([call("write_file", path="made.txt", content="x\n"), shell("touch ran")], "Done.")
    with account.terminal(*model, rows=40, columns=100, env=TOOLS) as program:
        program.ready()
        program.say("go")
        asked(program, "1 of 2 · Make this edit?")
        (name,) = account.agents()
        program.say("/new")
        program.wait_for("── Agent ")
        program.say(f"/switch {name}")
        program.wait_for(f"── Agent {name} ")
        asked(program, "1 of 2 · Make this edit?")
        again = program.text().rpartition(f"── Agent {name} ")[2]
        assert again.count("write made.txt") == 1 and "touch ran" not in again
        answer(program, "y")
        answer(program, "y", "2 of 2 · Run it?")
        program.wait_for("● Done.")
        again = program.text().rpartition(f"── Agent {name} ")[2]
        assert again.count("write made.txt") == again.count("touch ran") == 1
        program.leave()


def test_tool_result_shows_a_picture_to_a_model_with_vision(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    (account.home / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nrubbish")
    reads = [
        {"name": "read_file", "arguments": {"path": "cat.png"}},
        {"name": "read_file", "arguments": {"path": "broken.png"}},
    ]
    wire.answers(completion(calls=reads), "A green thing.", "Still green.", "I cannot see it.")
    with account.terminal(*WIRE, env=TOOLS) as program:
        program.ready()
        program.say("what is it?")
        program.wait_for("● A green thing.")
        assert "→ read cat.png (image/png, 60 × 40 pixels)\n" in program.text()
        program.settled()
        program.say("sure?")
        program.wait_for("● Still green.")
        program.leave()
    for sent in (wire.messages(1), wire.messages(2)):
        roles = [message["role"] for message in sent]
        assert roles[:5] == ["user", "assistant", "tool", "tool", "user"]
        assert sent[2]["content"] == "[image cat.png, image/png, 60 × 40 pixels as shown]"
        assert "is damaged or incomplete" in sent[3]["content"]
        assert [part["image_url"]["url"].partition(",")[2] for part in sent[4]["content"]] == [cat]
    account.configure((account.home / ".config/ikigai/config.toml").read_text() + '[models."wire/x"]\nimages = "no"\n')
    account.run(*WIRE, "-c", "-p", "and now?", **TOOLS)
    blind = [message["content"] for message in wire.messages() if message["role"] == "tool"]
    assert blind[0].endswith("[image cat.png left out: this model sees no images]")
    assert not any(isinstance(message["content"], list) for message in wire.messages())
    assert account.endings() == ["completed"] * 3


def trusting(program: Program) -> None:
    program.wait_for("has .ikigai/config.toml.")
    program.let_read()
    program.type("y")


@pytest.fixture
def settings(account: Account) -> Path:
    file = account.home / ".ikigai" / "config.toml"
    file.parent.mkdir()
    return file


def test_settings_of_a_project_hold_once_it_is_trusted_and_only_tighten(account: Account, wire: Wire, settings: Path):
    settings.write_text('[tools]\napproval = "ask"\noff = ["web"]\n[context]\nsliding_context_tokens = 9000\n')
    account.configure((account.home / ".config/ikigai/config.toml").read_text() + '[tools]\napproval = "edits"\n')
    write = {"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}}
    fetch = {"name": "web_fetch", "arguments": {"url": "http://example.com/"}}
    wire.answers(completion(calls=[write, fetch]), "I see.")
    untrusted = account.run("config", **TOOLS).stdout
    assert "tools.approval" in untrusted and "project /" not in untrusted
    with account.terminal(*WIRE, rows=40, columns=120, env=TOOLS) as program:
        trusting(program)
        program.ready()
        program.say("/approve auto")
        program.wait_for(f"Approval is limited here by the project {settings}:2.")
        program.say("/tools on web")
        program.wait_for(f"Which tools are off is limited here by the project {settings}:3.")
        program.say("/config")
        program.wait_for(f'tools.off = ["web"] (project {settings}:3)')
        program.say("go")
        answer(program, "n", "Make this edit?")
        program.wait_for("● I see.")
        assert "/9k" in program.status()
        program.leave()
    assert not (account.home / "made.txt").exists()
    names = {tool["function"]["name"] for tool in wire.requests[0].json["tools"]}
    assert "write_file" in names and "web_fetch" not in names
    assert "The tool web_fetch is switched off here; it was not run." in account.said("tool_result")
    shown = account.run("config", **TOOLS).stdout
    assert re.search(rf"tools.approval +\"ask\" +project {re.escape(str(settings))}:2", shown)
    settings.write_text('model = "openai/gpt-5"\n')
    changed = account.run(*WIRE, "-c", "-p", "go", **TOOLS)
    assert changed.returncode == 2 and str(settings) in changed.stderr and changed.stdout == "", changed.stderr
    project = Project(account.home, account.home / ".local/share/ikigai/trusted.json")
    project.trust(1.0, {name: own.digest for name, own in project.read(project.files).items()})  # by an earlier ikigai
    broken = account.run(*WIRE, "-c", "-p", "go", **TOOLS)
    assert broken.returncode == 2 and f"{settings}:1: model cannot be set by a project." in broken.stderr
    with account.terminal(*WIRE, columns=220) as program:
        program.wait_for("model cannot be set by a project.")
        assert program.ended() == 2
        program.assert_restored()


FLOOD = 10
"""Seconds that a command writes without end."""


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


@pytest.mark.long
def test_endless_output_leaves_the_prompt_as_it_is(account: Account):
    model = account.script([shell("echo warm")], "Warm.", [shell(f"timeout {FLOOD} yes")], "It is over.")
    with account.terminal(*model, "--yolo", env=TOOLS) as program:
        program.ready()
        program.say("warm up")
        program.wait_for("● Warm.")
        program.settled()
        before = resident(program.process.pid)
        program.say("go")
        program.wait(lambda: any(line.strip() == "y" for line in program.lines()), "its output")
        until, slowest, most, typed = time.monotonic() + FLOOD - 2, 0.0, 0, ""
        while time.monotonic() < until:
            typed += "abcdefghij"[len(typed) % 10]
            began = time.monotonic()
            program.type(typed[-1])
            program.wait_for_input(typed)
            slowest = max(slowest, time.monotonic() - began)
            most = max(most, resident(program.process.pid))
            program.pump(0.3)
        assert any("Running shell" in line for line in program.lines()), "it is still writing"
        program.wait_for("● It is over.")
        print(f"grown by {(most - before) / 1e6:.1f} MB, slowest key {slowest * 1000:.0f} ms")
        assert most - before < 32_000_000 and slowest < FLOOD / 5, (
            "keys are seen while it floods, on a busy machine too"
        )
        program.type("\x03")
        program.wait_for_input("")
        program.leave()
    assert account.endings() == ["completed"] * 2 and len(account.said("tool_result")[1]) < 2_000_000
