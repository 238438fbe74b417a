"""Tests of several agents in one program at a terminal: forked, switched, killed, and there after a kill -9."""

import json
import re

import pytest

from tests.e2e.account import ECHO, Account, figures_of
from tests.e2e.program import Program
from tests.e2e.test_follow import chooses
from tests.e2e.test_tools import asked
from tests.support.invariants import check
from tests.terminal.modes import ENTER

pytestmark = pytest.mark.usefixtures("quick_questions")

ALT_UP, ALT_DOWN, ALT_RIGHT = "\x1b[1;3A", "\x1b[1;3B", "\x1b[1;3C"


def script(account: Account, name: str, *replies: object) -> str:
    """Return the name of a model that gives these replies."""
    (account.home / f"{name}.json").write_text(json.dumps(replies))
    return f"scripted/{name}.json"


def pause(seconds: float) -> dict[str, object]:
    return {"do": "pause", "seconds": seconds}


HANG = {"do": "hang"}


def at(program: Program, name: str) -> None:
    program.wait(lambda: program.status().startswith(f"  {name} · "), f"{name} on screen")


def lead(program: Program, key: str, name: str, end: str) -> None:
    """Press a key until the agent is there, or the hint that it leads no further: it does not lead away from an agent
    that is still being opened.
    """

    def led() -> bool:
        if program.status().startswith(f"  {name} · ") or end in program.status():
            return True
        program.type(key)
        return False

    program.wait(led, f"{name} on screen")


def agree(program: Program, title: str) -> None:
    asked(program, title)
    program.type("y")
    program.wait_for(f"{title} yes")


def sections(program: Program) -> list[tuple[str, str]]:
    """Return the drawn parts in order: the name of the agent, and all its words."""
    found = [("", "")]
    for line in program.scrollback():
        if begins := re.match(r"── Agent (\S+) ─|  This is (\S+), forked from ", line):
            found.append((begins[1] or begins[2], ""))
        else:
            found[-1] = found[-1][0], f"{found[-1][1]} {line}"
    return [(name, " ".join(words.split())) for name, words in found]


def test_both_streams_are_whole_and_unmixed_and_survive_a_kill(account: Account):
    replies = [
        [[f"{who} one. ", pause(1.5), f"{who} two. ", pause(5), f"{who} three."], [f"{who} hangs. ", HANG]]
        for who in ("Parent", "Child")
    ]
    parent, child = script(account, "parent", *replies[0]), script(account, "child", *replies[1])
    with account.terminal("--new", columns=110) as program:
        program.ready()
        (root,) = account.agents()
        program.say(f"/model {parent}")
        program.wait_for("Model: scripted/")
        program.say("to the parent")
        program.wait_for("● Parent one.")
        program.say(f'/fork --name kid --model {child} "to the child"')
        at(program, "kid")
        program.wait_for(f"This is kid, forked from {root} at event #")
        program.wait_for(f"To go back: /switch {root}")
        program.wait_for("● Child one.")
        assert "1 running" in program.status()
        program.say(f"/switch {root}")
        at(program, root)
        program.wait_for("● Parent one. Parent two.")
        program.type(ALT_DOWN)
        at(program, "kid")
        program.wait_for("● Child one. Child two. Child three.")
        program.settled()
        program.type(ALT_UP)
        at(program, root)
        program.wait_for("● Parent one. Parent two. Parent three.")
        program.settled()
        for name, words in sections(program):
            mine, other = ("Child", "Parent") if name == "kid" else ("Parent", "Child")
            assert f"{other} one" not in words and words.count(f"● {mine} one.") <= 1, (name, words)
        program.say("again")
        program.wait_for("● Parent hangs.")
        program.type(ALT_DOWN)
        at(program, "kid")
        program.say("again")
        program.wait_for("● Child hangs.")
        program.wait(lambda: {"Parent hangs. ", "Child hangs. "} <= set(account.drafts()), "both drafts")
        program.kill()
    with account.terminal(columns=110) as program:
        program.ready().wait_for("● Child hangs.")
        at(program, "kid")
        program.say(f"/switch {root}")
        at(program, root)
        program.wait_for("● Parent hangs.")
        program.wait_for("● Parent hangs. ✗ cut off: ikigai was killed here")
        program.leave()
    assert account.endings() == ["completed"] * 2 + ["interrupted"] * 2
    assert sorted(account.said("assistant")) == sorted(
        [*(f"{who} one. {who} two. {who} three." for who in ("Parent", "Child")), "Parent hangs. ", "Child hangs. "]
    )


def test_agents_in_the_background_are_answered_killed_and_revived(account: Account):
    touch = {"do": "call", "name": "shell", "arguments": {"command": "touch made"}}
    asks = script(account, "asks", [touch], "It is made.")
    with account.terminal(*ECHO, columns=110, env={"IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready()
        (root,) = account.agents()
        program.say("/fork at 99999")
        program.wait_for("There is no event #99999.")
        program.say("/kill")
        program.wait_for("only forks can be killed")
        program.say("/fork --name one --model no/such")
        program.wait_for("There is no provider 'no'")
        program.type(f"/fork --name one{ENTER}typed for one")
        at(program, "one")
        program.wait_for_input("typed for one")
        lead(program, ALT_UP, root, "it has no parent")
        program.wait_for_input("")
        lead(program, ALT_DOWN, "one", "has no forks")
        program.wait_for_input("typed for one")
        program.type("\x15")
        lead(program, ALT_RIGHT, "another", "no next sibling")
        program.type(f"/fork --name one-more{ENTER}/rename busy\r")  # what is typed ahead means the new agent
        at(program, "busy")
        program.leave()
    with account.terminal("-r", "busy", columns=110, env={"IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready().say(f"/model {asks}")
        program.wait_for("Model: scripted/")
        program.type(f"make it{ENTER}/switch one\r")
        at(program, "one")
        program.wait(lambda: "busy asks: /answer" in program.status(), "the question in the status line")
        program.say("/answer")
        agree(program, "busy: Run it?")
        program.wait(lambda: "busy done" in program.status(), "its end in the status line")
        program.say("/rename one first")
        at(program, "first")
        program.say("/agents")
        program.wait_for("It is made.")
        program.say("/switch busy")
        at(program, "busy")
        program.say("/kill first")
        agree(program, "Kill first and the 1 below it?")
        program.wait_for("Killed first, and 1 below it. /revive first brings it back.")
        at(program, root)
        program.say("/switch busy")
        program.wait_for("Agent busy was killed. /revive busy brings it back.")
        program.say("/revive first")
        program.wait_for("first was revived. 1 below it is still killed.")
        program.say("/switch first")
        at(program, "first")
        program.leave()
    check(account.dsn)
    done = account.run("-c", "-p", "/agents --all", "--json", *ECHO)
    states = {agent["agent"]: agent["state"] for agent in figures_of(done)["agents"]}
    assert states == {root: "idle", "first": "idle", "busy": "killed"}


def test_archived_agent_is_in_no_list_and_is_resumed_by_its_name(account: Account):
    assert account.run(*ECHO, "-c", "-p", "the past").returncode == 0
    (root,) = account.agents()
    hangs = script(account, "hangs", [HANG])
    with account.terminal("-r", root, *ECHO, columns=110) as program:
        program.ready().say("/fork --name kid")
        at(program, "kid")
        program.say(f"/fork --name busy --model {hangs}")
        at(program, "busy")
        program.say("go")
        program.wait(lambda: "Esc stops" in program.text(), "the turn")
        program.say("/switch kid")
        at(program, "kid")
        program.say("/archive")
        program.wait_for("busy is running. Nothing was archived; wait for its end, or stop it.")
        program.say("/kill " + root)
        program.wait_for(f"only forks can be killed. To take it out of the lists: /archive {root}")
        program.say("/switch busy")
        at(program, "busy")
        program.type("\x1b")
        program.wait_for("interrupted")
        program.say("/switch kid")
        at(program, "kid")
        program.say("/archive")
        at(program, root)
        program.wait_for("Archived kid, and 1 below it. To list it again: /revive kid")
        program.say("/switch kid")
        at(program, "kid")
        program.say("still here")
        program.wait_for("● still here")
        with account.terminal(*ECHO, columns=110) as other:
            other.ready()
            chooses(other, "w")
            at(other, f"{root} (following)")
            other.say("/archive " + root)
            other.wait_for(f"{root} is still open in another ikigai")
            other.wait(lambda: root not in other.status(), "another agent, as this one is in no list")
            other.leave()
        program.leave()
    listed = account.run("agents").stdout
    assert "kid" not in listed and "busy" not in listed
    assert account.run("agents", "revive", "kid").stdout.startswith("kid is in the lists again, with 1 below it.")
    check(account.dsn)


def test_print_mode_forks_and_says_where(account: Account):
    assert account.run(*ECHO, "-c", "-p", "the past").stdout == "the past\n"
    (root,) = account.agents()
    asked = account.run(*ECHO, "-c", "-p", '/fork --name kid "the child"', "--json")
    told = json.loads(asked.stdout)
    assert (told["agent"], told["text"]) == ("kid", "the child"), asked.stderr
    assert told["command"]["name"] == "fork" and told["command"]["did"].startswith("This is kid, forked from ")
    made = account.run("-r", root, "-c", "-p", "/fork --name quiet", *ECHO)
    assert made.stdout.startswith(f"This is quiet, forked from {root} at event #")
    for agent, line, old, name in (
        ("quiet", "/rename calm", "quiet", "calm"),
        (root, "/rename calm quiet", "calm", "quiet"),
    ):
        renamed = account.run("-r", agent, "-c", "-p", line, *ECHO)
        assert renamed.stdout == f"Renamed {old} to {name}. To undo: ikigai agents rename {name} {old}\n"
    same = account.run("-r", "quiet", "-p", "/rename quiet", *ECHO)
    assert same.returncode == 1 and "The agent is called quiet already. Nothing was changed." in same.stderr
    wrong = account.run("-c", "-p", "/fork --level low", *ECHO)
    assert wrong.returncode == 2 and "/fork has no option --level." in wrong.stderr
    refused = account.run("-r", "quiet", "-c", "-p", "/kill", *ECHO)
    assert refused.returncode == 1 and "Add --yes to confirm." in refused.stderr
    assert account.run("-r", "quiet", "-c", "-p", "/kill", "--yes", *ECHO).returncode == 0
    dead = account.run("-r", "quiet", "-c", "-p", "anybody?", *ECHO)
    assert dead.returncode == 2 and "Run: ikigai agents revive quiet" in dead.stderr
    for line in ("/switch kid", "/answer"):
        nowhere = account.run("-c", "-p", line, *ECHO)
        assert nowhere.returncode == 2 and "is not available in print mode" in nowhere.stderr
    listed = json.loads(account.run("agents", "--all", "--json").stdout)["agents"]
    assert {agent["agent"]: agent["killed"] for agent in listed} == {root: False, "kid": False, "quiet": True}
    assert account.endings() == ["completed"] * 2
