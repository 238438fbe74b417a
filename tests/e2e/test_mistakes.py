"""Tests of what is said about mistyped commands, variables, and words of `ikigai config`."""

import pytest

from tests.e2e.account import ECHO, Account


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("db", "statsu"), "There is no 'statsu'. Did you mean status?"),
        (("config", "sett"), "There is no 'sett'. Did you mean set?"),
        (("agents", "shwo"), "There is no 'shwo'. Did you mean show?"),
        (("history", "zzz"), "There is no 'zzz'. Choose one of search, list, show, export, import, recover."),
        (("history", "export", "--format", "htm"), "There is no 'htm'. Did you mean html?"),
        (("exit",), "There is no command 'exit'. /exit leaves ikigai once it runs."),
        (("quit",), "There is no command 'quit'. /quit leaves ikigai once it runs."),
        (("config", "validate", "/nowhere"), "/nowhere does not exist. Check the name of the file."),
        (("config", "edit", "x"), "`ikigai config edit` takes no words. Usage: ikigai config edit\n"),
        (("config", "set", "model", "a", "b"), 'takes KEY VALUE. Usage: ikigai config set KEY "VALUE"\n'),
        (("config", "get"), "`ikigai config get` takes KEY. Usage: ikigai config get KEY\n"),
    ],
)
def test_mistakes_are_answered_with_what_was_meant(account: Account, arguments: tuple[str, ...], words: str):
    done = account.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr, done


def test_help_is_a_command(account: Account):
    done = account.run("help")
    assert done.returncode == 0 and done.stdout == account.run("--help").stdout
    assert account.run("help", "db", "dump").stdout == account.run("db", "dump", "--help").stdout
    assert account.run(*ECHO, "-p", "help").stdout == "help\n"
    assert account.run(*ECHO, "help me").stdout == "help me\n"


def test_misspelt_variable_is_told_at_every_start(account: Account):
    told = "ikigai: IKIGAI_MODELL is set, but is not a variable of ikigai. Did you mean IKIGAI_MODEL?\n"
    done = account.run(*ECHO, "-p", "hello", IKIGAI_MODELL="x")
    assert (done.stdout, done.stderr) == ("hello\n", told)
    done = account.run("config", "get", "start_with", IKIGAI_MODELL="x")
    assert (done.stdout, done.stderr) == ("last\n", told)
    with account.terminal(*ECHO, env={"IKIGAI_MODELL": "x"}) as program:
        program.wait(lambda: "Did you mean IKIGAI_MODEL?" in program.words(), "the notice")


def test_settings_that_no_run_takes_are_not_written(account: Account):
    account.configure('model = "scripted/echo"\n')
    for key, value, words in (
        ("context.sliding_context_tokens", "30", "A budget of 30 tokens is too small"),
        ("tools.allow", '["rm -rf $(x)"]', "is not a plain command"),
        ("context.condense_prompt_file", "/nowhere", "/nowhere cannot be read"),
        ("context.condense_to_percent", "75", "is not below condense_at_percent"),
    ):
        done = account.run("config", "set", key, value)
        assert done.returncode == 2 and words in done.stderr, (key, done)
    file = account.home / ".config/ikigai/config.toml"
    assert file.read_text() == 'model = "scripted/echo"\n'
    assert account.run(*ECHO, "-p", "hello").returncode == 0
    (name,) = account.agents()
    assert account.run(*ECHO, "-r", name, "-p", "/budget 10").returncode == 1, "as /budget does"
    assert account.run("config", "set", "context.sliding_context_tokens", "1.5M").returncode == 0
    assert "sliding_context_tokens = 1500000" in file.read_text()
    account.configure('[tools]\nallow = ["a | b"]\n')
    done = account.run("config", "validate")
    assert done.returncode == 2 and "is not a plain command" in done.stdout
    assert account.run("config", "set", "terminal.theme", "dark").returncode == 0, "what was wrong before is no bar"
