"""Tests of thinking over the real program: live and after a restart, stored and not printed, apart from words."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.account import WIRE, Account, Wire, lines_of
from tests.e2e.program import Program
from tests.e2e.test_browser import left, opened, selected
from tests.support.invariants import check
from tests.support.wire_server import completion

THINK = {"do": "think", "text": "First I weigh it.\n\nThen I know."}
PAUSE = {"do": "pause", "seconds": 1.2}
WHOLE = "[thought]\nFirst I weigh it.\n\nThen I know.\n\nIt is so.\n"


def thoughts(program: Program) -> list[str]:
    return [line for line in program.scrollback() if line.startswith("∴")]


def paging(folder: Path) -> dict[str, str]:
    """Return variables of a pager that writes its input to the file `paged`."""
    file = folder / "pager"
    file.write_text(f"#!/bin/sh\ncat > {folder}/paged\n")
    file.chmod(0o755)
    return {"PAGER": str(file)}


def paged(account: Account) -> str:
    """Return the pager's input, once it is there."""
    file = account.home / "paged"
    return file.read_text() if file.exists() else ""


def test_live_and_again_after_a_restart(account: Account):
    model = account.script([THINK, {**PAUSE, "seconds": 5}, "It is so."], "Yes.")
    with account.terminal(*model, env=paging(account.home)) as program:
        program.ready().say("well?")
        program.wait(lambda: re.search(r"Thinking… [1-9] s · Esc stops", program.text()), "its seconds")
        assert "Then I know." in program.text(), "while it thinks"
        program.wait_for("● It is so.")
        program.settled()
        (thought,) = thoughts(program)
        assert re.fullmatch(r"∴ thought for \d+ s: First I weigh it\. Then I know\. \(Ctrl\+O\)", thought)
        assert program.text().index("❯ well?") < program.text().index("∴") < program.text().index("● It is so.")
        program.say("sure?")
        program.wait_for("● Yes.")
        opened(program, "\x0f")
        assert selected(program) == "▌  ∴ First I weigh it."
        assert "in the context" in program.lines()[0] and "│    Then I know." in program.lines()
        program.type("o")
        program.wait(lambda: paged(account), "the pager")
        assert paged(account) == WHOLE
        program.wait(lambda: selected(program) != "", "the browser again")
        left(program)
        program.wait_for_input("")
        program.leave()
    (account.home / "paged").unlink()
    with account.terminal(*model, env=paging(account.home)) as program:
        program.ready().wait_for("● Yes.")
        assert thoughts(program) == ["∴ thought: First I weigh it. Then I know. (Ctrl+O)"]
        opened(program, "\x0f")
        program.type("o")
        program.wait(lambda: paged(account), "the pager")
        program.wait(lambda: selected(program) != "", "the browser again")
        left(program)
        program.leave()
    assert paged(account) == WHOLE
    assert account.said("assistant") == ["It is so.", "Yes."], "thinking is no word of the reply"


def test_only_the_newest_can_be_opened_and_another_agent_has_its_own(account: Account):
    model = account.script([THINK, "One."], [{"do": "think", "text": "Anew."}, "Two."])
    with account.terminal(*model, env=paging(account.home)) as program:
        program.ready().say("a")
        program.wait_for("● One.")
        program.settled()
        program.say("b")
        program.wait_for("● Two.")
        program.settled()
        program.say("/new other")
        program.wait(lambda: program.status().strip().startswith("other"), "the new agent")
        program.type("\x0f")
        program.wait_for("There is nothing to open")
        program.leave()
    with account.terminal(*model, "-r", account.agents()[0], env=paging(account.home)) as program:
        program.ready().wait_for("● Two.")
        assert thoughts(program) == ["∴ thought: First I weigh it. Then I know.", "∴ thought: Anew. (Ctrl+O)"]
        program.leave()


def test_thoughts_between_tool_calls_stand_where_they_were_thought(account: Account):
    steps = [
        [THINK, {"do": "call", "name": "none"}],
        ["Some words. ", {"do": "think", "text": "Once more."}, "And others."],
    ]
    with account.terminal(*account.script(*steps)) as program:
        program.ready().say("go")
        program.wait_for("● And others.")
        program.settled()
        live = shown(program)
        program.leave()
    with account.terminal("-m", "scripted/echo") as program:
        program.ready().wait_for("● And others.")
        again = shown(program)
        program.leave()
    assert [re.sub(r"thought for \d+ s", "thought", line)[:12] for line in live] == [
        "❯ go",
        "∴ thought: F",
        "→ none()",
        "← There is n",
        "● Some words",
        "∴ thought: O",
        "● And others",
    ]
    assert [line.replace(" (Ctrl+O)", "") for line in live] == [line.replace(" (Ctrl+O)", "") for line in again]


def shown(program: Program) -> list[str]:
    program.wait(lambda: any(line.startswith("●") for line in program.scrollback()), "a reply")
    lines = [line for line in program.scrollback() if line[:1] in "❯∴→←●✗" and line[:1]]
    return lines[: max(n for n, line in enumerate(lines) if line.startswith("●")) + 1]


def test_kill_after_thinking_keeps_the_words(account: Account):
    model = account.script([THINK, "Some words. " * 20, {"do": "hang"}])
    with account.terminal(*model) as program:
        program.ready().say("go")
        program.wait(lambda: account.drafts() == ["Some words. " * 20], "the draft, which holds words only")
        program.kill()
    with account.terminal("-m", "scripted/echo") as program:
        program.ready().wait_for("cut off: ikigai was killed here")
        assert program.words().count("Some words.") == 20
        program.leave()
    assert account.said("assistant") == ["Some words. " * 20]
    assert check(account.dsn)


def test_stopped_while_it_thinks(account: Account):
    with account.terminal(*account.script([THINK, {"do": "hang"}], "Next.")) as program:
        program.ready().say("go")
        program.wait_for("Thinking…")
        program.wait_for("Then I know.")
        program.type("\x1b")
        program.wait_for("✗ interrupted")
        assert len(thoughts(program)) == 1
        program.say("on")
        program.wait_for("● Next.")
        program.leave()
    assert account.endings() == ["interrupted", "completed"] and account.said("assistant") == ["", "Next."]
    with account.terminal("-m", "scripted/echo") as program:
        program.ready().wait_for("● Next.")
        assert len(thoughts(program)) == 1, "what was thought until then is in the log"
        program.leave()


@pytest.mark.parametrize("thinking", ["full", "hide"])
def test_thinking_is_shown_as_configured(account: Account, thinking: str):
    account.configure(f'[terminal]\nthinking = "{thinking}"\n')
    model = account.script([THINK, PAUSE, "So."])
    for _ in range(2):
        with account.terminal(*model) as program:
            program.ready()
            if "● So." not in program.text():
                program.say("go")
            program.wait_for("● So.")
            program.settled()
            text = program.text()
            program.leave()
        if thinking == "full":
            assert "First I weigh it.\n\n  Then I know.\n\n● So." in text
        else:
            assert "weigh" not in text and "∴" not in text


def test_it_is_not_printed(account: Account, wire: Wire):
    for format in ("text", "json", "stream-json"):
        wire.answers(completion("Words.", thinking="Hidden thoughts. "))
        result = account.run(*WIRE, "-p", "go", "--output-format", format)
        assert result.returncode == 0
        if format == "text":
            assert result.stdout == "Words.\n"
        elif format == "json":
            assert json.loads(result.stdout)["text"] == "Words."
        else:
            lines = lines_of(result.stdout)
            deltas = {kind: "".join(line["text"] for line in lines if line["type"] == kind) for kind in KINDS}
            assert deltas == {"thinking": "Hidden thoughts. ", "delta": "Words."}
            first = [line["type"] for line in lines if line["type"] in KINDS]
            assert first == sorted(first, key=["thinking", "delta"].index)


KINDS = ("thinking", "delta")
