"""Tests of leaving: no key loses work, and a line says where the conversation goes on."""

import json
import re
import signal
import socket

import pytest

from tests.e2e.account import ECHO, Account, Wire
from tests.support.wire_server import completion
from tests.terminal.modes import ENTER

WIRE = ("-m", "wire/test-model")


@pytest.mark.ordinary("xterm-256color")
@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_leaving_names_the_command_that_continues_and_the_usage(account: Account, terminal: str):
    with account.terminal(*ECHO, env={"TERM": terminal}, columns=120) as program:
        program.wait_for("❯")
        program.say("spoken")
        program.wait_for("● spoken")
        program.settled()
        program.type("\x04")
        assert program.ended() == 0
        (name,) = account.agents()
        line = rf"To continue: ikigai -r {name} \(\d+ tokens in, \d+ out\)"
        assert re.search(line, program.words()), program.text()
    assert "To continue" not in (printed := account.run(*ECHO, "-c", "-p", "spoken")).stdout + printed.stderr


def test_ctrl_d_names_running_agents_and_wants_a_second_press(account: Account, wire: Wire):
    wire.answers(completion("slow and steady", pause=4), completion("slow again", pause=4))
    for key, ending in (("\x04", "\x04"), ("\x04", "/exit\r")):
        with account.terminal(*WIRE) as program:
            program.ready().say("go")
            program.wait_for("Esc stops")
            program.type(key)
            program.wait(lambda: "Ctrl+D again stops it and leaves." in program.status(), "what a second one does")
            assert re.match(r"  \S+ is still working\. Ctrl", program.status())
            program.type(ending)
            assert program.ended() == 0
            assert re.search(r"Interrupted: \S+ was working\. To continue: ikigai -r ", program.words())
    assert account.endings() == ["interrupted", "interrupted"]


def test_more_presses_of_ctrl_c_do_not_hide_the_command_that_continues(account: Account, wire: Wire):
    """They are a signal once the terminal is restored, while the program still closes."""
    with account.terminal(*ECHO, columns=120, keeps_output=True) as program:
        program.ready().say("spoken")
        program.wait_for("● spoken")
        program.settled()
        program.type("\x03")
        program.wait_for("Ctrl+C again leaves")
        told = b"To continue: ikigai -r "  # behind the echo of the keys, which may wrap it
        while program.process.poll() is None and told not in program.raw:
            program.type("\x03")
            program.pump(0.01)
        program.wait(lambda: told in program.raw, "the command that continues")


def test_stash_survives_a_kill_and_brings_drafts_back_newest_first(account: Account):
    second = "second\nline \u2028 \U0001f600"
    with account.terminal(*ECHO) as program:
        program.ready().type("\x1bq")
        program.wait_for("No draft is put aside.")
        program.type("first draft\x1bq")
        program.wait_for("Draft put aside (1 in the stash). Alt+Q on an empty line brings it back.")
        program.type(second)
        program.wait_for("line")
        program.type("\x18\x13")
        program.wait_for("(2 in the stash)")
        program.keeps("\n".join(json.dumps(each, ensure_ascii=False) for each in ("first draft", second)))
        program.kill()
    with account.terminal(*ECHO) as program:
        program.ready().wait_for("2 drafts are put aside. Alt+Q on an empty line brings the newest back.")
        program.type("\x1bq")
        program.wait_for("Draft brought back (1 in the stash).")
        program.wait(lambda: "second" in program.input() and "line" in program.input(), "the newest")
        program.type("\x03\x1bq")
        program.wait_for_input("first draft")
        program.type("\x03")
        program.leave()
    with account.terminal(*ECHO) as program:
        program.ready()
        program.keeps()
        assert "put aside" not in program.text()
        program.leave()


def test_budget_without_room_for_an_empty_request_is_refused_with_its_size(account: Account):
    with account.terminal(*ECHO, "--system-prompt", "word " * 200) as program:
        program.ready().say("/budget 100")
        program.wait_for("A budget of 100 tokens is too small: system prompt and tools alone take")
        program.wait_for("The smallest budget that works is")
        program.leave()
    assert not [data for _, _, data in account.rows("settings") if data["values"].get("budget") == 100]


@pytest.mark.parametrize("prompt", [(), ("of the command line",)], ids=["typed", "with a prompt"])
def test_message_entered_before_the_database_answers_is_put_aside(account: Account, prompt: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {"IKIGAI_DATABASE_URL": f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x"}
        with account.terminal(*ECHO, *prompt, env=env) as program:
            program.wait_for("opening the database")
            program.type("one\r")
            program.wait_for("next: one" if not prompt else "one")
            program.type("two\x1b")
            program.wait_for("two")
            program.process.send_signal(signal.SIGTERM)
            assert program.ended() == 128 + signal.SIGTERM
            program.assert_restored()
    with account.terminal(*ECHO, "-c") as program:
        program.ready().wait_for("A draft is put aside.")
        program.type("\x1bq")
        program.wait_for_input("onetwo")


SLOW_FILES = "tests.e2e.slow_files"


def test_message_whose_file_is_not_read_in_time_is_a_draft_of_the_next_start(account: Account):
    (account.home / "notes.txt").write_text("Notes.")
    with account.terminal(*ECHO, module=SLOW_FILES, env={"SECONDS": "3"}) as program:
        program.ready().type(f"see @notes.txt{ENTER}two{ENTER}/exit\r")
        assert program.ended() == 0
        program.assert_restored()
    assert account.said("user") == []
    with account.terminal(*ECHO, "-c") as program:
        program.wait_for_input("see @notes.txttwo")


def test_nobody_is_asked_about_a_file_that_is_read_while_the_user_leaves(account: Account):
    (account.home / ".env").write_text("KEY=1")
    with account.terminal(*ECHO, module=SLOW_FILES, env={"SECONDS": "1", "WAITS": "600"}) as program:
        program.ready().type(f"see @.env{ENTER}two{ENTER}/exit\r")
        assert program.ended() == 0
        program.assert_restored()
    assert account.said("user") == []
    with account.terminal(*ECHO, "-c") as program:
        program.wait_for_input("see @.envtwo")


def test_kill_while_files_of_a_message_are_read_keeps_it(account: Account):
    (account.home / "notes.txt").write_text("Notes.")
    with account.terminal(*ECHO, module=SLOW_FILES, env={"SECONDS": "600"}) as program:
        program.ready().type(f"see @notes.txt{ENTER}two\r")
        program.keeps("see @notes.txt\ntwo")
        program.kill()
    with account.terminal(*ECHO, "-c") as program:
        program.wait_for_input("see @notes.txttwo")


def test_kill_while_the_database_does_not_answer_keeps_the_message(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready().wait(account.quiet, "the end of the start")
        with account.stopped():
            program.type("one\r")
            program.keeps("one")
            program.kill()
    with account.terminal(*ECHO, "-c") as program:  # the server may have stored it by now, by itself
        program.ready().wait(lambda: program.input() == "one" or account.said("user") == ["one"], "the message")
