"""Tests of MCP servers over the real program: questions, a kill, print mode, prompts, resources, and the commands."""

import contextlib
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.account import Account, Wire, lines_of
from tests.e2e.program import Program
from tests.e2e.test_tools import TOOLS, asked, call, decisions
from tests.support import starting
from tests.support.wire_server import Received, completion, failure

pytestmark = pytest.mark.usefixtures("quick_questions")

HOST, FORKING = "ikigai.tools.mcp.host", "tests.e2e.forking_mcp"
SCRIPT = str(ROOT / "tests" / "tools" / "mcp" / "scripted_server.py")
READY = "ready"


class ForkingAccount(Account):
    """A user whose programs have the process for MCP servers forked: to load the SDK takes it a second of the CPU."""

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(IKIGAI_TEST_HOSTS=starting.address(HOST), **more)

    def run(
        self, *arguments: str, input: str = "", module: str = FORKING, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return super().run(*arguments, input=input, module=module, **env)

    def terminal(self, *arguments: str, **options: Any) -> Program:
        return super().terminal(*arguments, module=FORKING, **options)


def forking(account: Account) -> Account:
    """Return the user of such programs, if programs are forked."""
    return account if starting.own_interpreter else ForkingAccount(account.home, account.dsn)


@pytest.fixture
def account(account: Account) -> Account:
    return forking(account)


def configure(account: Account, *modes: str, more: str = "") -> None:
    tables = (
        f'[mcp_servers.{mode}]\ncommand = "{sys.executable}"\nargs = ["{SCRIPT}", "{mode}"]\n{more}' for mode in modes
    )
    account.configure("".join(tables))


def table(mode: str, file: Path | str = "") -> str:
    """Return the table of a scripted server with a file."""
    return f'[mcp_servers.{mode}]\ncommand = "{sys.executable}"\nargs = ["{SCRIPT}", "{mode}", "{file}"]\n'


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


def test_tool_is_asked_about_approved_for_always_and_runs_after_a_kill(account: Account):
    configure(account, "good")
    marked = f"{SCRIPT}\0good"
    model = account.script([call("good__add", n=41)], "It is 42.", [call("good__add", n=1)], "It is 2.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        wait_for_server(program, "good")
        program.say("add one")
        asked(program, "Run it?")
        assert (
            "[p] always this tool of the server good, while its definition stays the same" in program.words()
            and '"n": 41' in program.words()
        )
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
    configure(account, "good", more='approved_tools = ["*"]\n')
    (account.home / "notes.txt").write_text("hidden words")
    model = account.script("Tides are slow.", "Seven.", [call("good__ask")], "Blue it is.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        wait_for_server(program, "good")
        program.say("/context")
        program.wait_for("mcp good")
        program.say("/good:explain @notes.txt")
        program.wait_for("● Tides are slow.")
        program.say("what does @good:note://one say")
        program.wait_for("● Seven.")
        program.say("ask me")
        program.wait_for("The MCP server good asks")
        program.let_read()
        program.type("2")
        program.wait_for("● Blue it is.")
        program.say("/good:nothing")
        program.wait_for("Its prompts: /good:explain")
        program.leave()
    said = [content for kind, content, _ in account.rows("user") if kind == "user"]
    assert said[0] == "Explain @notes.txt plainly."
    assert "hidden words" not in json.dumps(account.rows("user")), "nothing is attached that a server's text mentions"
    assert json.dumps(account.rows("user")).count("The note says seven.") == 1
    assert account.said("tool_result") == ['{"color": "blue"}']


def test_tool_that_changes_is_asked_about_again_and_not_called_on_an_old_answer(account: Account, tmp_path: Path):
    text = tmp_path / "text"
    text.write_text("Reads.")
    account.configure(table("changing", text))
    model = account.script([call("changing__act")], "One.", [call("changing__act")], "Two.")
    with account.terminal(*model, rows=40, env=TOOLS) as program:
        program.ready()
        wait_for_server(program, "changing")
        program.say("first")
        asked(program, "Run it?")
        program.type("p")
        asked(program, "Always run this tool?")
        program.type("y")
        program.wait_for("● One.")
        for number in range(2):
            text.write_text(f"Deletes {number}.")
            program.wait(lambda: program.words().count("changed its tools") > number, "the notice")  # noqa: B023
            if not number:
                program.say("second")
                asked(program, "Run it?")
        program.type("y")
        program.wait_for("● Two.")
        program.leave()
    ran, refused = account.said("tool_result")
    assert ran == "act {}" and "changing__act was not called: its server has changed it" in refused


@pytest.mark.parametrize(
    ("turns", "late_turn", "change_turn"),
    [pytest.param(8, 3, 5, id="8"), pytest.param(50, 10, 25, id="50", marks=pytest.mark.long)],
)
def test_requests_keep_their_prefix_but_for_a_changed_list(
    account: Account, wire: Wire, tmp_path: Path, turns: int, late_turn: int, change_turn: int
):
    """Three servers: one is late, one changes its list in the middle of a turn. The definitions are known before."""
    late = tmp_path / "late"
    late.touch()
    config = account.home / ".config/ikigai/config.toml"
    configured = config.read_text() + table("good") + table("late", late) + table("children", tmp_path / "pids")
    account.configure(configured + "[context]\nsliding_context_tokens = 500000\n")
    assert account.run("-m", "wire/x", "-p", "hello", **TOOLS, WIRE_KEY="k").returncode == 0  # all have been met
    late.unlink()
    del wire.requests[:]
    with account.terminal("-m", "wire/x", "--yolo", rows=30, env={**TOOLS, "WIRE_KEY": "k"}) as program:
        program.ready()
        wait_for_server(program, "good")
        for turn in range(1, turns + 1):
            if turn == late_turn:
                late.touch()
                wait_for_server(program, "late")
            if turn == change_turn:
                wire.answers(completion(calls=[{"name": "good__change", "arguments": {}, "id": "c"}]), "Changed.")
            program.say(f"turn {turn} of many")
            program.wait_for("● Changed." if turn == change_turn else f"You said: turn {turn} of many")
        program.leave()
    assert len(wire.requests) == turns + 1
    tools = [sent(request, "tools") for request in wire.requests]
    assert all(f'"{mode}__add"' in tools[0] for mode in ("good", "late", "children")), "those of the late one, too"
    changes = [number for number in range(1, turns + 1) if tools[number] != tools[number - 1]]
    assert changes == [change_turn + 1], "with the turn behind the one in which the list changed"
    assert '"good__later"' in tools[change_turn + 1] and '"good__later"' not in tools[change_turn]
    messages = [sent(request, "messages") for request in wire.requests]
    for before, after in pairwise(messages):
        assert after.startswith(before.removesuffix("]"))


def test_server_that_is_no_longer_configured_offers_nothing(account: Account, wire: Wire):
    before = (account.home / ".config/ikigai/config.toml").read_text()
    account.configure(before + table("good"))
    for text in (before + table("good"), before):
        account.configure(text)
        assert account.run("-m", "wire/x", "-p", "hello", **TOOLS, WIRE_KEY="k").returncode == 0
    first, second = ("good__add" in request.body.decode() for request in wire.requests)
    assert first and not second


def sent(request: Received, field: str) -> str:
    """Return a field of a request as it was sent."""
    text = request.body.decode()
    begin = text.index(f'"{field}":') + len(field) + 3
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return text[begin:end]


def test_print_mode_waits_for_new_servers_and_tells_of_those_that_fail(account: Account):
    configure(account, "good", "dead")
    model = account.script([call("good__add", n=1)], "Done.")
    found = account.run(*model, "-p", "--yolo", "--json", "add", **TOOLS)
    assert json.loads(found.stdout)["text"] == "Done." and account.said("tool_result") == ["2"]
    assert "The MCP server dead failed: it exited with status 3: license expired." in found.stderr
    refused = account.run(*account.script([call("good__add", n=1)], "No."), "-p", "add", **TOOLS)
    assert refused.returncode == 0 and "cannot be asked here" in account.said("tool_result")[-1]


def test_refused_tool_is_left_out_told_and_listed(account: Account, wire: Wire):
    """OpenAI takes no anyOf at the top. What it refuses besides is told by the names of server and tool."""
    config = account.home / ".config/ikigai/config.toml"
    account.configure(config.read_text() + table("refused"))
    openai = {"OPENAI_BASE_URL": wire.server.base_url, "OPENAI_API_KEY": "k"}
    said = account.run("-m", "openai/gpt-5-mini", "-p", "hello", **TOOLS, **openai)
    told = (
        "The tool dates of the MCP server refused is not offered to models of OpenAI: its schema has anyOf at the top."
    )
    assert said.returncode == 0 and said.stderr.count(told) == 1
    names = {tool["function"]["name"] for tool in wire.requests[-1].json["tools"]}
    assert {name for name in names if name.startswith("refused__")} == {"refused__drive", "refused__fine"}
    with account.terminal("-m", "openai/gpt-5-mini", rows=40, columns=140, env={**TOOLS, **openai}) as program:
        program.ready()
        wait_for_server(program, "refused")
        for text in ("one", "two"):
            program.say(text)
            program.wait_for(f"● You said: {text}")
        assert "2 not offered to models of every vendor" in program.words()
        program.say("/mcp refused")
        program.wait_for("tool drive of the MCP server refused is not offered to models of Anthropic")
        program.wait(lambda: program.words().count(told) == 2, "the sentence once, and in the list")
        program.leave()
    wire.answers(failure(400, "Invalid schema for function 'refused__fine': 'any' is not valid."))
    failed = account.run("-m", "openai/gpt-5-mini", "-p", "again", **TOOLS, **openai)
    assert failed.returncode == 1 and "This is the tool fine of the MCP server refused." in failed.stderr
    assert "enabled = false under [mcp_servers.refused]" in failed.stderr
    tested = account.run("mcp", "test", "refused")
    assert told in tested.stdout and "tool drive of the MCP server refused is not offered to models of Anthropic" in (
        tested.stdout
    )
    assert told in account.run("doctor", **openai, IKIGAI_MODEL="openai/gpt-5-mini", **TOOLS).stdout


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
    key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # of no account
    for server in (("--", "x", "--token", key), (f"http://x/mcp?token={key}",), ("http://x:99999/mcp",)):
        refused = account.run("mcp", "add", "x", *server)
        assert refused.returncode == 2 and "Allowed: " in refused.stderr and key not in refused.stderr
    assert "mcp_servers" not in (account.home / ".config/ikigai/config.toml").read_text()
