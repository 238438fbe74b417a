"""Tests of two programs on one agent, each in its own terminal: one writes, the other follows and may take over."""

import os

import pytest

from tests.e2e.account import ECHO, WIRE, Account, Wire, refused
from tests.e2e.program import Program
from tests.support.invariants import check

pytestmark = pytest.mark.usefixtures("quick_questions")

PAUSE = {"do": "pause", "seconds": 4}
ASKED = "Waiting for an answer in the other ikigai"
ELSEWHERE = "/new starts a conversation, /fork continues this one."
HELD = f"you only watch it here. {ELSEWHERE}"


def writes(program: Program) -> str:
    return f"is open in another terminal ({os.uname().nodename}, pid {program.process.pid})"


def writes_to(program: Program) -> str:
    return f"is open in another ikigai ({os.uname().nodename}, pid {program.process.pid})."


def gone(program: Program) -> str:
    holder = f"{os.uname().nodename}, pid {program.process.pid}"
    return f"no longer open in another terminal ({holder}). /takeover lets you write to it here."


def chooses(program: Program, key: str) -> None:
    """Answer what to do beside an agent that is open elsewhere."""
    program.wait_for("[n] new conversation · [f] fork this one · [w] only watch · Esc: only watch")
    program.let_read()
    program.type(key)
    program.wait(lambda: not any("[w] only watch" in line for line in program.lines()), "the end of the question")


def once(program: Program, *texts: str) -> None:
    """Check that each text stands there once, in this order."""
    words = program.words()
    assert [words.count(text) for text in texts] == [1] * len(texts), program.text()
    assert sorted(texts, key=words.index) == list(texts), program.text()


@pytest.mark.parametrize(("key", "said"), [("n", ["yours"]), ("f", ["mine", "yours"])])
def test_one_key_starts_a_conversation_beside_an_agent_that_is_open_elsewhere(
    account: Account, wire: Wire, key: str, said: list[str]
):
    with account.terminal(*WIRE, columns=120) as writer:
        writer.ready().say("mine")
        writer.wait_for("● You said: mine")
        (name,) = account.agents()
        with account.terminal(*WIRE, columns=120) as second:
            second.ready().wait_for(f"{name} {writes(writer)}; {HELD}")
            chooses(second, key)
            second.wait(lambda: len(account.agents()) == 2, "the other agent")
            other = account.agents()[1]
            second.wait(lambda: second.status().startswith(f"  {other} · "), "it on screen")
            second.say("yours")
            second.wait_for("● You said: yours")
            second.leave()
        writer.leave()
    users = [message["content"] for message in wire.messages() if message["role"] == "user"]
    assert users == said


def test_question_ends_when_the_agent_can_be_had(account: Account):
    with account.terminal(*ECHO, columns=120) as writer:
        writer.ready()
        with account.terminal(*ECHO, columns=120) as follower:
            follower.ready().wait_for("[w] only watch")
            writer.leave()
            follower.wait_for(gone(writer))
            assert not any("[w] only watch" in line for line in follower.lines())
            follower.say("/takeover")
            follower.say("now")
            follower.wait_for("● now")
            follower.leave()


def test_followed_reply_goes_on_after_a_kill(account: Account):
    whole = ["It is **whole**.\n\n", PAUSE, "Here is its", {"do": "think", "text": "hm"}, " end."]
    cut = ["One paragraph.\n\nThe second", PAUSE, " goes on", {"do": "hang"}]
    with account.terminal(*account.script(whole, cut), columns=120) as writer:
        writer.ready()
        with account.terminal(*ECHO, columns=120) as follower:
            (name,) = account.agents()
            follower.ready().wait_for(f"{name} {writes(writer)}; {HELD}")
            chooses(follower, "w")
            assert follower.status().startswith(f"  {name} (following) · ")
            writer.say("how is it")
            follower.wait_for("❯ how is it")
            follower.wait_for("● It is whole.")
            assert "Here is its" not in writer.text() and not account.said("assistant"), "it still streams"
            follower.wait(lambda: "Answering" in follower.text(), "what is going on")
            assert "Esc stops" not in follower.text()
            follower.wait_for("end.")
            follower.settled()
            writer.settled()
            once(follower, "how is it", "It is whole.", "Here is its", "thought: hm", "end.")

            writer.say("and now")
            follower.wait_for("The second goes on")
            follower.say("mine")
            follower.wait(lambda: follower.words().count(HELD) == 2, "the refusal")
            follower.wait_for_input("mine")
            follower.type("\x15")
            follower.say("/takeover")
            follower.wait_for("Use it there, or use another agent")
            follower.say("/context")
            follower.wait_for("messages")
            assert account.drafts() == ["One paragraph.\n\nThe second goes on"]
            writer.kill()
            follower.wait_for(gone(writer))
            follower.wait(lambda: not any("Answering" in line for line in follower.lines()), "nobody answers")
            follower.say("/takeover")
            follower.type("mine\r")  # at once: what is typed behind it is meant for the agent that is taken over
            follower.wait_for("✗ cut off: ikigai was killed here")
            assert follower.status().startswith(f"  {name} · ")
            follower.wait_for("● mine")
            once(
                follower,
                "❯ and now",
                "One paragraph.",
                "The second goes on",
                "cut off: ikigai was killed here",
                "● mine",
            )
            follower.settled()
            follower.say("/takeover")
            follower.wait_for("Nothing to take over")
            follower.leave()
    assert account.endings() == ["completed", "interrupted", "completed"]
    assert account.said("assistant") == ["It is **whole**.\n\nHere is its end.", cut[0] + str(cut[2]), "mine"]


def test_question_of_the_writer_is_no_running_work_to_a_follower(account: Account):
    calls = [{"do": "call", "name": "shell", "arguments": {"command": command}} for command in ("sleep 2; echo a", "b")]
    tools = {"IKIGAI_TOOLS_ENABLED": "true"}
    with account.terminal(*account.script(calls, ["Done."]), columns=120, env=tools) as writer:
        writer.ready()
        with account.terminal(*ECHO, columns=120, env=tools) as follower:
            follower.ready().wait_for(HELD)
            chooses(follower, "\x1b")
            writer.say("go")
            follower.wait_for(ASKED)
            writer.wait_for("1 of 2 · Run it?")
            writer.type("y")
            follower.wait_for("Running shell")
            writer.wait_for("2 of 2 · Run it?")
            follower.wait(lambda: any(ASKED in line for line in follower.lines()), "the second question")
            assert not any(ASKED in line for line in writer.lines())
            writer.type("n")
            follower.wait_for("● Done.")
            follower.settled()
            follower.leave()
        writer.leave()


def test_follower_goes_on_under_the_name_that_the_writer_gave(account: Account):
    with account.terminal(*ECHO, columns=120) as writer:
        writer.ready()
        (name,) = account.agents()
        with account.terminal(*ECHO, columns=120) as follower:
            follower.ready().wait_for(HELD)
            chooses(follower, "w")
            for command in ("/rename mine", f"/rename {name} mine"):
                follower.say(command)
                follower.wait_for(f"{writes_to(writer)} Rename it there, or after that program has ended.")
            refused(account.run("agents", "rename", name, "mine"), 75, "Rename it there")
            writer.say("/rename dusk")
            follower.wait_for(f"{name} is now called dusk.")
            follower.wait(lambda: follower.status().startswith("  dusk (following) · "), "the new name")
            follower.say("/switch dusk")
            follower.wait_for(f"dusk {writes(writer)}")
            writer.kill()
            follower.wait_for(gone(writer))
            account.run("agents", "rename", "dusk", "dawn")
            follower.say("/takeover")  # at once: before the follower has looked
            follower.wait_for("You write to dawn here now.")
            follower.say("hello")
            follower.wait_for("● hello")
            assert follower.status().startswith("  dawn · ")
            follower.say("/rename noon")
            follower.wait_for("Renamed dawn to noon. To undo: /rename noon dawn")
            follower.leave()
    assert account.agents() == ["noon"]
    check(account.dsn)


def test_following_what_nobody_writes_yet(account: Account):
    account.run(*ECHO, "-c", "-p", "before")
    (name,) = account.agents()
    with account.terminal("--follow", name, columns=120) as follower:
        follower.ready().wait_for(f"You only watch {name} here. /takeover lets you write to it. {ELSEWHERE}")
        follower.wait_for("● before")
        with account.terminal(*ECHO, columns=120) as writer:
            writer.ready()
            follower.wait_for(f"{name} {writes(writer)}.")
            for text in ("one", "two"):
                writer.say(text)
                follower.wait_for(f"● {text}")
            writer.say("/mark here")
            follower.wait_for("Mark here set.")
            writer.say("three")
            follower.wait_for("● three")
            writer.say("/rewind here")
            follower.wait_for("Rewound to mark here")
            writer.say("/clear")
            follower.wait_for("Context cleared")
            writer.leave()
        follower.wait_for(gone(writer))
        once(follower, "● before", "❯ one", "● one", "❯ two", "● two", "❯ three", "● three", "Rewound", "cleared")
        follower.say("!echo no")
        follower.wait(lambda: follower.words().count("/takeover lets you write to it.") == 2, "the refusal")
        follower.say("/new beside")
        follower.wait(lambda: follower.status().startswith("  beside · "), "the new agent")
        follower.say(f"/switch {name}")
        follower.wait(lambda: follower.status().startswith(f"  {name} · "), "the agent")
        follower.leave()
    assert account.said("user") == ["before", "one", "two", "three"]
    check(account.dsn)


def test_draft_of_a_killed_writer_is_in_the_input_after_takeover(account: Account):
    with account.terminal(*ECHO, columns=120) as writer:
        writer.ready().type("not sent yet")
        writer.keeps("not sent yet")
        with account.terminal(*ECHO, columns=120) as follower:
            follower.ready().wait_for(HELD)
            writer.kill()
            follower.wait_for(gone(writer))
            follower.say("/takeover")
            follower.wait_for_input("not sent yet")
            follower.type("\x15")
            follower.leave()


def test_following_needs_a_terminal_and_an_agent(account: Account):
    refused(
        account.run("--follow", "x", "-c", "-p", "hello"),
        2,
        "--follow needs a terminal and follows one agent.",
        "Leave out -p",
    )
    with account.terminal("--follow", "nobody", columns=120) as program:
        assert program.ended() == 2
        assert "There is no agent nobody." in program.words()
