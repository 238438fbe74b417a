"""Tests of settings from inside: /config and `ikigai config`, [keys], and questions that commands wait for."""

from pathlib import Path

from tests.e2e.account import ECHO, Account
from tests.e2e.program import Program
from tests.terminal.input.test_key_bindings import ESC

F2 = ESC + "OQ"


def told(program: Program, line: str, *words: str) -> None:
    program.say(line)
    for each in words:
        program.wait_for(each)


def test_settings_are_shown_written_and_applied(account: Account):
    file = account.home / ".config" / "ikigai" / "config.toml"
    with account.terminal(*ECHO, rows=50, columns=110, env={"IKIGAI_TERMINAL_NOTIFY": "off"}) as program:
        program.ready()
        told(
            program,
            "/config terminal.color",
            'terminal.color = "auto" (default)',
            'Allowed: "auto", "never" or "always".',
        )
        told(program, "/config terminal.color pink", "terminal.color cannot be 'pink'.")
        told(program, "/config terminal.colour never", "Did you mean terminal.color?")
        told(program, "/config terminal.color never", "It takes effect at the next start.")
        told(program, "/config terminal.color", "In " + str(file) + ': "never"')
        told(program, "/config context.sliding_context_tokens 50000", "/budget changes it now.")
        told(program, "/config terminal.notify bell", "In this run environment IKIGAI_TERMINAL_NOTIFY overrides it.")
        told(program, '/config terminal.status ["agent"]', "It is in effect now.")
        program.wait(lambda: "ctx" not in program.status(), "the agent alone in the status line")
        told(program, "/config keys.stash f2", 'keys.stash = ["f2"] is in')
        program.wait(lambda: program.words().count("It is in effect now.") == 2, "the answer")
        program.type("a draft" + F2)
        program.wait_for("Draft put aside (1 in the stash). F2 on an empty line brings it back.")
        told(program, "/config keys.stash ctrl-s", "ctrl-s is a key of steer")
        told(program, "/config keys.stash f3", 'keys.stash = ["f3"] is in')
        program.wait(lambda: program.words().count("It is in effect now.") == 3, "the answer")
        program.type("another" + ESC + "OR")
        program.wait_for("Draft put aside (2 in the stash). F3 on an empty line brings it back.")
        program.type(ESC + "OR")
        program.wait_for_input("another")
        program.type("\x15")
        program.wait_for_input("")
        told(program, "/config keys.stash", "/config keys.stash default removes it from the file.")
        told(program, "/config keys.stash default", "keys.stash is not set in", 'Default: ["alt-q", "ctrl-x ctrl-s"].')
        program.wait(lambda: program.words().count("It is in effect now.") == 4, "the answer")
        program.type("a third" + ESC + "q")
        program.wait_for("Draft put aside (2 in the stash). Alt+Q on an empty line brings it back.")
        told(program, "/config", f"File: {file}", "Set:", 'terminal.status = ["agent"]', "[tools] approval, allow, ")
        told(program, "/config tools", "[tools] enabled = false (environment IKIGAI_TOOLS_ENABLED) approval = ")
        program.type(ESC + "q")
        program.wait_for_input("a third")
        program.type("\x15")
        program.leave()
    assert "[keys]\n" in file.read_text() and "stash" not in file.read_text()
    assert 'color = "never"' in file.read_text() and file.stat().st_mode & 0o777 == 0o600


def test_wrong_keys_are_named_at_start_and_the_others_hold(account: Account):
    account.configure('[keys]\nstash = "ctrl-s"\noutput = ["f2"]\nnothing = "f3"\n')
    with account.terminal(*ECHO, columns=120) as program:
        program.ready()
        program.wait_for("config.toml:2: keys.stash: ctrl-s is a key of steer, so stash keeps its default keys.")
        program.wait_for("config.toml:4: there is no key keys.nothing.")
        program.type("a draft\x1bq")
        program.wait_for("Draft put aside")
        program.leave()
    refused_file = account.run("config", "validate")
    assert refused_file.returncode == 2 and "config.toml:2: keys.stash" in refused_file.stdout


def test_file_is_edited_in_a_copy_until_it_is_valid(account: Account):
    file = account.home / ".config" / "ikigai" / "config.toml"
    for script, code, words in (
        ("sed -i 's/^#start_with.*/start_with = \"new\"/'", 0, "written. It takes effect at the next start."),
        ("sed -i s/new/old/", 2, "start_with cannot be 'old'."),
        ("true", 0, "Nothing was changed."),
        ("false", 1, "failed (exit code 1)."),
    ):
        done = account.run("config", "edit", EDITOR=script)
        assert done.returncode == code and words in done.stdout + done.stderr, done
        assert 'start_with = "new"' in file.read_text()
    assert account.run("config", "get", "start_with").stdout == "new\n"


def test_commands_wait_in_their_order_for_the_answer_to_a_question(account: Account, tmp_path: Path):
    with account.terminal(*ECHO, rows=40) as program:
        program.ready()
        told(program, "said", "● said")
        program.settled()
        program.say("/approve yolo")
        program.wait_for("Run everything without asking?")
        for line in ("/tools", "/copy", "/status", "and more"):
            program.say(line)
            program.wait_for(f"next: {line}" if line == "/tools" else line)
        assert "Copied the last answer" not in program.text() and "● and more" not in program.text()
        program.type("\x1b")
        program.wait_for("● and more")
        words = program.words()
        order = [
            words.index(each)
            for each in ("asking? no", "Tools", "Copied the last answer", "approval", "● and more")
            if each in words
        ]
        assert order == sorted(order) and "Copied the last answer" in words
        program.say("/approve yolo")
        program.wait(lambda: program.text().count("Run everything without asking?") > 1, "the question")
        program.say("/exit")
        assert program.ended() == 0
