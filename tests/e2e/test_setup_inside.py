"""Tests of /login, /doctor, /theme and /init in a running program."""

import json

from tests.e2e.account import Account, Wire
from tests.e2e.program import Program
from tests.e2e.test_login import LIST
from tests.e2e.test_tools import TOOLS
from tests.support.wire_server import failure
from tests.terminal.modes import ENTER

QUERY = b"\x1b[?2004$p"
"""The query of the doctor for a mode of the terminal."""
ASKS = "Key for openai (hidden):"


def login(program: Program, key: str) -> None:
    asked = program.text().count(ASKS)
    program.say("/login openai")
    program.wait(lambda: program.text().count(ASKS) > asked, "the question")
    program.type(f"{key}\r")
    program.wait(lambda: program.text().rstrip().endswith("· local"), "the prompt")


def test_key_is_stored_in_the_repl_and_used(account: Account, wire: Wire):
    """The key is nowhere but in its file: not on the screen, in the history of prompts, the log or a draft."""
    wire.answers(failure(401, "no such key"), LIST)
    env = {"OPENAI_BASE_URL": wire.server.base_url}
    with account.terminal("-m", "scripted/echo", env=env) as program:
        program.ready().say("/login sk-canary-typed")
        program.wait_for("There is no such provider. Type its name alone; the key is asked for after that.")
        program.wait_for("Usage: /login [PROVIDER]")
        login(program, "sk-canary-wrong")
        program.wait_for("No key was stored.")
        program.type(f"/login{ENTER}sk-canary-ahead-of-the-list{ENTER}")
        program.wait_for("Providers: which one is the key for?")
        program.type("sk-canary\r")
        program.wait_for("No provider has this name.")
        program.type("\x15openai")
        program.wait_for("▌ openai")
        program.type(f"{ENTER}sk-canary-ahead-of-the-question{ENTER}")
        program.wait(lambda: ASKS in program.text().rstrip()[-60:], "the question")
        program.type("\x03")
        program.wait(lambda: program.text().count("No key was stored.") == 2, "the end of the question")
        login(program, "sk-canary-right")
        program.wait_for("To use it: /model openai/")
        program.say("and on")
        program.settled()
        assert "canary" not in program.text().replace("/login sk-canary-typed", "")
        program.type("/log")
        program.settled()
        assert "canary" not in program.input(), "suggested"
        program.type("\x15\x12canary")
        program.wait_for("nothing found")
        program.type("\x07")
        program.wait_for_input("")
        program.type("\x1b[A")
        program.wait_for_input("and on")
        program.type("\x1b[A\x1b[A\x1b[A")
        program.settled()
        assert program.input() in ("and on", "/login"), "no line with a key is recalled"
        program.type("\x15")
        program.wait_for_input("")
        program.leave()
    keys = account.home / ".config/ikigai/keys.json"
    assert json.loads(keys.read_text()) == {"openai": "sk-canary-right"}
    for file in account.home.rglob("*"):
        if file.is_file() and file != keys:
            assert b"canary-right" not in file.read_bytes(), file


def test_paste_of_several_lines_is_refused_and_shown_nowhere(account: Account, wire: Wire):
    env = {"OPENAI_BASE_URL": wire.server.base_url}
    with account.terminal("-m", "scripted/echo", env=env) as program:
        program.ready()
        refused = "More than one line was pasted, and a key is one line."
        for n, paste in enumerate(
            (
                "OPENAI_API_KEY\rsk-canary-second\r",
                "sk-canary-first\rsk-canary-second",
                "sk-canary\r\r\rsk-canary-fourth\r",
                "sk-canary\r" * 300,
                "\rsk-canary-behind-an-empty-line",
            ),
            1,
        ):
            login(program, paste.removesuffix("\r"))
            program.wait(lambda n=n: program.text().count(refused) == n, f"refusal {n}")
        wire.answers(LIST)
        login(program, "sk-right\r\r  ")
        program.wait_for("To use it: /model openai/")
        program.settled()
        assert program.input() == ""
        program.say("and on")
        program.wait_for("● and on")
        assert b"canary" not in program.raw
        program.leave()
    assert account.said("user") == ["and on"] and len(wire.requests) == 1
    for file in account.home.rglob("*"):
        assert not file.is_file() or b"canary" not in file.read_bytes(), file


def test_key_that_comes_before_the_question_is_dropped(account: Account, wire: Wire):
    """Neither what came with the Enter of /login nor what comes until the question is a message or a draft."""
    env = {"OPENAI_BASE_URL": wire.server.base_url}
    with account.terminal("-m", "scripted/echo", env=env) as program:
        program.ready().type(f"/login openai{ENTER}sk-canary-with-it\r\x1b[200~sk-canary-pasted\x1b[201~")
        program.type("sk-canary-behind\r")
        program.wait_for(ASKS)
        wire.answers(LIST)
        program.type("sk-right\r")
        program.wait_for("To use it: /model openai/")
        program.type(f"/login nobody{ENTER}sk-canary-unknown\r")
        program.wait_for("There is no such provider")
        program.say("and on")
        program.wait_for("● and on")
        program.settled()
        assert "canary" not in program.text()
        program.leave()
    assert account.said("user") == ["and on"]
    for file in account.home.rglob("*"):
        assert not file.is_file() or b"canary" not in file.read_bytes(), file


def test_doctor_runs_in_the_repl_and_lines_typed_meanwhile_are_sent_after_it(account: Account):
    """Each Enter stays an Enter: as a line break it would join the commands into a message."""
    with account.terminal("-m", "scripted/echo") as program:
        program.ready().say("/doctor now")
        program.wait_for("Usage: /doctor [--online]")
        program.say("/doctor")
        program.wait_for("encoding")  # before it, the doctor asks the terminal for its colors
        program.type("/theme\r/mark\rhello\r")
        program.wait(lambda: "problem" in program.text() or "No problems" in program.text(), "the findings")
        program.wait_for("● hello")
        program.settled()
        assert "(configured)" in program.text() and "Mark" in program.text()
        assert program.text().count("❯ hello") == 1
        program.leave()


def test_keys_typed_while_the_doctor_asks_the_terminal_are_kept(account: Account):
    """They come between the answers, which nobody types."""
    with account.terminal("-m", "scripted/echo") as program:
        program.ready()
        program.attributes = b""  # the answer is typed below, behind the others
        program.say("/doctor")
        program.wait(lambda: QUERY in program.raw, "the query of the terminal's modes")
        program.type("/mark in the query\r\x1b[?2004;1$yfirst\x1b]11;rgb:0000/0000/0000\x1b\\ and\x1b[?62;22c")
        program.wait(lambda: "problem" in program.text() or "No problems" in program.text(), "the findings")
        assert "dark" in program.text()
        program.type(" last\r")
        program.wait_for("● first and last")
        program.settled()
        assert "Mark in the query set." in program.text()
        program.leave()


def test_theme_holds_for_the_run(account: Account):
    with account.terminal("-m", "scripted/echo") as program:
        program.ready().say("/theme light")
        program.wait_for("Theme for this run: light. /config terminal.theme light keeps it for later ones.")
        program.say("/theme pink")
        program.wait_for("There is no theme 'pink'.")
        program.leave()


def test_init_sends_a_message_where_there_are_tools(account: Account):
    with account.terminal("-m", "scripted/echo", env=TOOLS) as program:
        program.ready().say("/init")
        program.wait_for("Write AGENTS.md for this folder")
        program.settled()
        program.leave()


def test_slash_with_a_blank_is_not_sent(account: Account):
    with account.terminal("-m", "scripted/echo") as program:
        program.ready()
        for line in ("/", "/ help", "/" + "x" * 10_000, "/undo " + "9" * 10_000, "/help nosuch"):
            before = program.text().count("⚠")
            program.type(f"\x1b[200~{line}\x1b[201~\r")
            program.wait(lambda before=before: program.text().count("⚠") > before, "the refusal")
        program.leave()
    assert not account.turns()


def test_mistyped_subcommand_is_run_or_sent_as_the_user_answers(account: Account):
    refused = account.run("agnets")
    assert refused.returncode == 2 and "ikigai -p agnets" in refused.stderr
    assert account.run("-c", "-p", "-m", "scripted/echo", "agnets").stdout == "agnets\n"
    with account.terminal("agnets") as program:
        program.wait_for("There is no command 'agnets'. Run `ikigai agents`?")
        program.type("n\r")
        assert program.ended() == 2
    with account.terminal("agnets") as program:
        program.wait_for("[n] neither:")
        program.type("y\r")
        assert program.ended() == 0
    with account.terminal("agnets", env={"IKIGAI_MODEL": "scripted/echo"}) as program:
        program.wait_for("[n] neither:")
        program.type("m\r")
        program.wait_for("● agnets")
        program.settled()
        program.leave()
