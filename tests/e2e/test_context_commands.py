"""Tests of the commands that change the context, in a terminal and in print mode: output, questions, log, requests."""

import json
from typing import Any

import pytest

from tests.e2e.account import WIRE, Account, Wire, refused
from tests.e2e.program import Program
from tests.support.wire_server import Answer, chunk, completion, sse

pytestmark = pytest.mark.usefixtures("quick_questions")


def contents(wire: Wire, number: int = -1) -> list[str]:
    """Return the texts of the messages of a request."""
    return [message["content"] for message in wire.messages(number)]


def exchange(*texts: str) -> list[str]:
    """Return messages and the server's answers to them."""
    return [each for text in texts for each in (text, f"You said: {text}")]


def say(program: Program, *texts: str) -> None:
    for text in texts:
        program.say(text)
        program.wait_for(f"● You said: {text}")
        program.settled()


def told(program: Program, line: str, *words: str) -> None:
    """Give a command and wait for its output; then the input is empty."""
    program.say(line)
    for each in words:
        program.wait_for(each)


def answer(program: Program, question: str, key: str) -> None:
    """Wait until the question can have been read, and press a key."""
    shows(program, question)
    program.type(key)
    program.wait(lambda: not any("Esc: no" in line for line in program.lines()), "the end of the question")


def shows(program: Program, question: str) -> None:
    program.wait(lambda: any(line.startswith(question) for line in program.lines()), repr(question))
    program.wait(lambda: any("[y] yes · [n] no · Esc: no" in line for line in program.lines()), "what can be pressed")
    program.let_read()


def filters(account: Account) -> list[dict[str, Any]]:
    return [data for _, _, data in account.rows("filter")]


# -- taking back ---------------------------------------------------------------------------------------------------


def test_undo_goes_back_through_everything_after_a_kill(account: Account, wire: Wire):
    with account.terminal(*WIRE) as program:
        program.ready()
        told(program, "/rewind start", 'There is no mark "start". Esc Esc chooses a message to go back to')
        told(program, "/undo", "There is nothing to undo.")
        say(program, "one", "two", "three")  # 1-4, 5-8, 9-12
        told(program, "/mark", "Mark 1 set. /rewind 1 returns here.")
        say(program, "four")
        program.type("/rewind ")
        program.wait(lambda: any(line == "  1" for line in program.lines()), "the mark's label")
        program.type("\t\r")
        program.wait_for("Rewound to mark 1")
        program.say("/forget 5-6")
        answer(program, "Forget 2 messages", "y")
        program.wait_for("Forgot 2 messages (5-6)")
        told(program, "/clear", "Context cleared", "To undo this: /undo")
        say(program, "five")
        assert contents(wire) == ["five"]
        program.kill()
    with account.terminal(*WIRE) as program:
        program.ready()
        for what in ("clear", "forget", "rewind"):
            told(program, "/undo", f"Undid the {what}. /redo does it again.")
        told(program, "/undo", "There is nothing to undo.")
        say(program, "six")
        assert contents(wire) == [*exchange("one", "two", "three", "four", "five"), "six"]
        program.type("/undo ")
        program.wait(lambda: sum(line.endswith("  undo") for line in program.lines()) == 3, "what can be undone")
        ids = sorted(line.split()[0] for line in program.lines() if line.endswith("  undo"))
        program.type("\x15")
        told(program, f"/undo {ids[0]}", "Redid the clear. /undo takes it back.")
        program.keeps()
        program.kill()
    with account.terminal(*WIRE) as program:
        say(program.ready(), "seven")
        assert contents(wire) == [*exchange("five", "six"), "seven"]
        program.leave()
    assert account.endings() == ["completed"] * 7


def test_retry_repeats_the_newest_turn_and_edit_replaces_its_message(account: Account, wire: Wire):
    wire.answers("Well.", "Not so well.", "Better.", "Best.")
    with account.terminal(*WIRE) as program:
        program.ready()
        told(program, "/retry", "There is no turn yet.")
        told(program, "one", "● Well.")
        told(program, "two", "● Not so well.")
        program.settled()
        told(program, "/retry", "Rewound to event 4", "● Better.")
        program.settled()
        assert contents(wire) == ["one", "Well.", "two"]
        program.type("/edit\r")
        program.wait_for_input("two")
        program.type(" too\r")
        program.wait_for("● Best.")
        assert contents(wire) == ["one", "Well.", "two too"]
        program.say("/forget last 1")
        answer(program, "Forget", "y")
        program.wait_for("Forgot 2 messages")
        told(program, "/undo", "Undid")
        program.say("/forget 1")
        answer(program, "Forget", "y")
        program.wait_for("Forgot 1 message")
        program.leave()
    with account.terminal(*WIRE, env={"TERM": "dumb"}) as program:
        program.wait_for("● Best.")
        drawn = [line for line in program.scrollback() if line[:1] in ("❯", "●")][:8]
        assert drawn[:3] == ["❯ [forgotten] one", "● Well.", "❯ [rewound] two"]
        assert drawn[3:] == [
            "● [rewound] Not so well.",
            "❯ [rewound] two",
            "● [rewound] Better.",
            "❯ two too",
            "● Best.",
        ]
        told(program, "/undo", "Undid")
        program.leave()
    assert account.run(*WIRE, "-c", "-p", "three").returncode == 0
    assert contents(wire) == ["one", "Well.", "two too", "Best.", "three"]
    assert len(account.rows("rewind")) == 2


# -- forgetting by ids ---------------------------------------------------------------------------------------------


def test_events_named_by_ids_are_shown_and_forgotten_after_a_yes(account: Account, wire: Wire):
    assert account.run("--new", *WIRE, "-p", "elsewhere").returncode == 0  # 1-4
    with account.terminal("--new", *WIRE) as program:
        program.ready()
        say(program, "first of all", "and a second one", "the third, a long one that goes on and on and on")  # 5-16
        for line, why in {
            "/forget 2": "Event 2 belongs to another agent.",
            "/forget 7": "Event 7 is not a message (usage): it is never sent to the model.",
            "/forget 999": "There is no event 999.",
            "/forget 900-999": "Nothing in the context is between 900 and 999.",
            "/forget last 0": "'last 0' is not an id or a range.",
            "/forget": "Say what to forget. IDS are 45-67, 70, last 3. Usage: /forget CRITERIA|IDS",
            "/rewind 2": "Event 2 belongs to another agent.",
            "/rewind 14": "Nothing in the context comes after event 16.",
            "/undo 6": "#6 cannot be undone.",
        }.items():
            told(program, line, why)
        for count, key in enumerate(("\x1b", "n"), start=1):
            program.say("/forget 1-6, 10, last 1")
            answer(program, "Forget 5 messages", key)
            program.wait(
                lambda count=count: program.words().count("Nothing was forgotten.") == count, "that it was not"
            )
        assert not filters(account)
        program.say("/forget 1-6, 10, last 1")
        program.wait_for("  5-6  first of all  (2 messages, ~")
        program.wait_for("  10  and a second one  (1 message, ~")
        program.wait_for("  13-14  the third, a long one that goes on and on a…  (2 messages, ~")
        told(program, "/forget 6", "next: /forget 6")
        answer(program, "Forget 5 messages", "y")
        program.wait_for("Forgot 5 messages (1-6, 10, last 1):")
        program.wait_for("Event 6 is not in the context: it was cleared, rewound or forgotten before.")
        say(program, "now?")
        assert contents(wire) == ["and a second one", "[noted]", "now?"]
        program.say("/forget 9")
        shows(program, "Forget 1 message")
        told(program, "meanwhile", "next: meanwhile")
        told(program, "/copy", "next: /copy")
        answer(program, "Forget 1 message", "n")
        program.wait_for("● You said: meanwhile")
        program.wait_for("Copied the last answer")
        program.settled()
        program.say("/forget 9")
        shows(program, "Forget 1 message")
        program.keeps()
        program.kill()
    (stored,) = filters(account)
    assert (stored["ranges"], stored["ids"], stored["messages"]) == ([[5, 8], [13, 16]], [10], 5)
    assert account.run(*WIRE, "-c", "-p", "and then?").returncode == 0
    assert contents(wire) == ["and a second one", "[noted]", *exchange("now?", "meanwhile"), "and then?"]


def test_commands_wait_for_the_end_of_the_turn_and_it_is_told(account: Account, wire: Wire):
    wire.answers("One.", completion("slow and steady", pause=0.5), completion("never whole", pause=2))
    with account.terminal(*WIRE, columns=40, rows=16) as program:
        program.ready()
        told(program, "one", "● One.")
        program.say("two")
        program.wait_for("Esc stops")
        program.type("/forget 1\r")
        program.wait_for("next: /forget 1")
        answer(program, "Forget 1 message", "y")
        program.wait_for("slow and steady")
        program.wait_for("Forgot 1 message (1):")
        assert [kind for kind, _, _ in account.rows("turn_end", "filter")] == ["turn_end", "turn_end", "filter"]
        program.say("three")
        program.wait_for("Esc stops")
        program.type("/clear\r")
        program.wait_for("next: /clear")
        program.type("\x1b")
        program.wait_for("Not run: /clear.")
        program.leave()
    assert account.endings() == ["completed", "completed", "interrupted"] and not account.rows("clear")


# -- forgetting by criteria ----------------------------------------------------------------------------------------


def call(action: str, mode: str = "forget", **more: Any) -> Answer:
    arguments = {"action": action, "mode": mode, **more}
    return completion(calls=[{"id": action, "name": "filter_context", "arguments": arguments}])


def test_forget_and_remember_preview_and_ask_before_they_apply(account: Account, wire: Wire):
    with account.terminal(*WIRE) as program:
        say(program.ready(), "indexes", "Paris", "B-trees")  # 1-4, 5-8, 9-12
        wire.answers(
            call("preview", criteria="databases"),
            '{"ids": [1, 2, 9, 10]}',
            call("apply", message_ids=[1, 2, 9, 10]),
            "Done.",
        )
        program.say("/forget databases")
        program.wait_for("  9-10  B-trees  (2 messages, ~")
        assert "Esc stops" not in program.text()
        answer(program, "Forget 4 messages", "y")
        program.wait_for("Forgot 4 messages (databases):")
        say(program, "so?")
        assert contents(wire) == [*exchange("Paris"), "so?"]
        wire.answers(call("preview", "remember", criteria="questions"), '{"ids": [30, 31]}', "As you like.")
        program.say("/remember questions")
        answer(program, "Keep only what matches, and forget 2 messages", "\x1b")
        program.wait_for("The user declined. Nothing was changed.")
        program.wait_for("Nothing was forgotten.")
        program.leave()
    done, declined = filters(account)
    assert (done["mode"], done["ranges"]) == ("forget", [[1, 4], [9, 12]])
    assert (declined["mode"], declined.get("ranges", []), declined.get("ids", [])) == ("remember", [], [])
    assert account.said("filter") == ["databases", "questions"]
    assert account.run(*WIRE, "-c", "-p", "after all").returncode == 0
    assert contents(wire) == [*exchange("Paris", "so?"), "after all"]


def test_forget_waits_for_the_turn_and_what_is_entered_behind_it_for_the_answer(account: Account, wire: Wire):
    with account.terminal(*WIRE) as program:
        say(program.ready(), "indexes")
        wire.answers(Answer(sse(chunk({"role": "assistant", "content": "Paris."})), end="hang"))
        program.say("which city?")
        program.wait_for("Paris.")
        program.say("/forget last 1")
        program.say("and then?")
        program.wait(lambda: "next:" in program.text(), "what waits")
        assert not filters(account)
        wire.answers()
        program.type("\x1b")
        answer(program, "Forget 2 messages (1 turn)", "y")
        program.wait_for("● You said: and then?")
        program.leave()
    assert len(filters(account)) == 1 and contents(wire) == [*exchange("indexes"), "and then?"]


@pytest.mark.ordinary("asked", "applied")
@pytest.mark.parametrize("point", ["asked", "confirmed", "applied"])
def test_kill_during_forget_leaves_what_was_applied_and_no_dialog(account: Account, wire: Wire, point: str):
    hang = Answer(sse(chunk({"role": "assistant", "content": ""})), end="hang")
    with account.terminal(*WIRE) as program:
        say(program.ready(), "indexes", "Paris")  # 1-4, 5-8
        wire.answers(
            call("preview", criteria="databases"),
            '{"ids": [1, 2]}',
            call("apply", message_ids=[1, 2]) if point == "applied" else hang,
            hang,
        )
        program.say("/forget databases")
        if point == "asked":
            shows(program, "Forget 2 messages")
        else:
            answer(program, "Forget 2 messages", "y")
            results = 2 if point == "applied" else 1
            program.wait(lambda: len(account.rows("tool_result")) == results, "the result of the call")
        program.keeps()
        program.kill()
    wire.answers()
    result = account.run(*WIRE, "-c", "-p", "and now?")
    assert (result.stdout, result.stderr) == ("You said: and now?\n", "")
    assert contents(wire) == [*exchange("indexes") * (point != "applied"), *exchange("Paris"), "and now?"]
    assert account.endings() == ["completed", "completed", "interrupted", "completed"]
    (stored,) = filters(account)
    assert stored.get("ranges", []) == ([[1, 4]] if point == "applied" else [])


# -- print mode ----------------------------------------------------------------------------------------------------


def test_print_mode_forgets_what_was_agreed_to_beforehand(account: Account, wire: Wire):
    account.run(*WIRE, "-c", "-p", "one")
    result = account.run("-c", "-p", "/forget last 1")
    assert (result.stdout, result.returncode) == ("", 1) and not filters(account)
    assert "Forget 2 messages (1 turn), ~" in result.stderr and "1-2  one  (2 messages, ~" in result.stderr
    assert "Cannot prompt in print mode: answered no. Add --yes to confirm." in result.stderr
    result = account.run("-c", "-p", "/forget last 1", "--yes", "--output-format", "json")
    made = json.loads(result.stdout)
    assert result.returncode == 0 and "Yes, by --yes." in result.stderr and made["command"]["name"] == "forget"
    assert made["text"].startswith("Forgot 2 messages (the newest turn): ") and made["command"]["events"] == [5]
    result = account.run("-c", "-p", "/undo")
    said = "Undid the forget. /redo does it again.\n"
    assert (result.stdout, result.stderr, result.returncode) == (said, "", 0)
    assert account.run(*WIRE, "-c", "-p", "two").stdout == "You said: two\n"
    assert contents(wire) == [*exchange("one"), "two"]


def test_print_mode_says_what_a_talk_came_to_whatever_the_model_says(account: Account, wire: Wire):
    account.run(*WIRE, "-c", "-p", "one")
    script = (call("preview", criteria="numbers"), '{"ids": [1, 2]}', call("apply", message_ids=[1, 2]), "All gone.")
    wire.answers(*script)
    result = account.run(*WIRE, "-c", "-p", "/forget numbers")
    assert (result.stdout, result.returncode) == ("All gone.\n", 1)
    assert result.stderr.endswith("Nothing was forgotten.\n")
    wire.answers(*script)
    result = account.run(*WIRE, "-c", "-p", "/forget numbers", "--yes", "--output-format", "json")
    made = json.loads(result.stdout)
    assert (made["text"], result.returncode) == ("All gone.", 0)
    assert made["command"]["did"].startswith("Forgot 2 messages (numbers): ")
    refused(account.run(*WIRE, "-c", "-p", "/retry"), 1, "There is no turn yet.")
