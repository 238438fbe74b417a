"""Tests of MCP servers over the real program: questions, a kill, print mode, prompts, resources, and the commands."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT
from tests.e2e.account import Account, lines_of
from tests.e2e.program import Program
from tests.e2e.test_tools import TOOLS, asked, call, decisions

SCRIPT = str(ROOT / "tests" / "tools" / "mcp" / "scripted_server.py")
READY = "ready"


def configure(account: Account, *modes: str, more: str = "") -> None:
    tables = (
        f'[mcp_servers.{mode}]\ncommand = "{sys.executable}"\nargs = ["{SCRIPT}", "{mode}"]\n{more}' for mode in modes
    )
    account.configure("".join(tables))


def wait_for_server(program: Program, name: str) -> None:
    """Type /mcp until the server is ready."""
    until = time.monotonic() + 90
    while not any(line.split()[:2] == [name, READY] for line in program.text().splitlines()):
        assert time.monotonic() < until, program.text()
        program.say("/mcp")
        program.wait_for("/mcp NAME shows")
        program.pump(0.5)


def alive(word: str) -> list[int]:
    found = list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word in (folder / "cmdline").read_bytes().decode(errors="replace") and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


@pytest.mark.own_interpreter
def test_tool_is_asked_about_approved_for_always_and_runs_after_a_kill(account: Account):
    configure(account, "good")
    marked = f"{SCRIPT}\0good"
    model = account.script([call("good__add", n=41)], "It is 42.", [call("good__add", n=1)], "It is 2.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        wait_for_server(program, "good")
        program.say("add one")
        asked(program, "Run it?")
        assert "always good__add" in program.words() and '"n": 41' in program.words()
        program.type("p")
        asked(program, "Always run this tool?")
        program.type("y")
        program.wait_for("● It is 42.")
        assert alive(marked)
        program.kill()
    until = time.monotonic() + 20
    while alive(marked) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(marked), "the server ends with a killed program"
    again = account.script([call("good__add", n=1)], "It is 2.")
    with account.terminal(*again, rows=40, env=TOOLS) as program:
        program.ready()
        program.say("once more")
        program.wait_for("● It is 2.")
        program.leave()
    first, second = (by for _, by, _ in decisions(account))
    assert first.startswith("user, for always: good__add (")
    assert second.startswith("approved for always: good__add (")
    assert account.said("tool_result") == ["42", "2"]


def test_prompt_resource_and_question_of_a_server_in_a_conversation(account: Account):
    configure(account, "good", more='approval = "always"\n')
    model = account.script("Tides are slow.", "Seven.", [call("good__ask")], "Blue it is.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        wait_for_server(program, "good")
        program.say("/context")
        program.wait_for("mcp good")
        program.say("/good:explain tides")
        program.wait_for("● Tides are slow.")
        program.say("what does @good:note://one say")
        program.wait_for("● Seven.")
        program.say("ask me")
        program.wait_for("The MCP server good asks")
        program.pump(0.6)
        program.type("2")
        program.wait_for("● Blue it is.")
        program.say("/good:nothing")
        program.wait_for("Its prompts: /good:explain")
        program.leave()
    said = [content for kind, content, _ in account.rows("user") if kind == "user"]
    assert said[0] == "Explain tides plainly."
    assert json.dumps(account.rows("user")).count("The note says seven.") == 1
    assert account.said("tool_result") == ['{"color": "blue"}']


def test_print_mode_waits_for_new_servers_and_tells_of_those_that_fail(account: Account):
    configure(account, "good", "dead")
    model = account.script([call("good__add", n=1)], "Done.")
    found = account.run(*model, "-p", "--yolo", "--json", "add", **TOOLS)
    assert json.loads(found.stdout)["text"] == "Done." and account.said("tool_result") == ["2"]
    assert "The MCP server dead failed: it exited with status 3: license expired." in found.stderr
    refused = account.run(*account.script([call("good__add", n=1)], "No."), "-p", "add", **TOOLS)
    assert refused.returncode == 0 and "cannot be asked here" in account.said("tool_result")[-1]


def test_commands_add_list_test_and_remove(account: Account):
    added = account.run("mcp", "add", "--env", "MODE=x", "mine", "--", sys.executable, SCRIPT, "good")
    assert added.returncode == 0 and "Try it: ikigai mcp test mine" in added.stdout
    assert account.run("mcp", "add", "mine", "--", "x").returncode == 1
    (listed,) = lines_of(account.run("mcp", "list", "--json").stdout)
    assert (listed["type"], listed["name"], listed["state"]) == ("mcp_server", "mine", None)
    (tested,) = lines_of(account.run("mcp", "test", "mine", "--json").stdout)
    assert tested["state"] == "ready" and tested["protocol"] == "2025-06-18" and "mine__add" in tested["tools"]
    assert account.run("mcp", "add", "broken", "--", sys.executable, SCRIPT, "dead").returncode == 0
    failed = account.run("mcp", "test", "broken")
    assert failed.returncode == 1 and "license expired" in failed.stdout
    assert (
        account.run("mcp", "remove", "mine").returncode == 0 and account.run("mcp", "remove", "broken").returncode == 0
    )
    assert "mcp_servers" not in (account.home / ".config/ikigai/config.toml").read_text()
    wrong = account.run("mcp", "add", "a_b", "--", "x")
    assert wrong.returncode == 2 and "Begin with a letter" in wrong.stderr
    secret = account.run("mcp", "add", "--env", "API_TOKEN=abc", "x", "--", "x")
    assert secret.returncode == 2 and "abc" not in secret.stderr.replace('"env', "")
