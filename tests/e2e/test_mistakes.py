"""Tests of what is said about mistyped commands, variables, and words of `ikigai config`."""

import re

import pytest

from tests.e2e.account import ECHO, Account


@pytest.mark.ordinary(
    "*statsu*",
    "*zzz*",
    "*'exit'*",
    "*--froce*",
    "*required: KEY*",
    "*options before it*",
    "*Write the command first*",
)
@pytest.mark.parametrize(
    "arguments, words",
    [
        (("db", "statsu"), "There is no 'statsu'. Did you mean status?"),
        (("config", "sett"), "There is no 'sett'. Did you mean set?"),
        (("agents", "shwo"), "There is no 'shwo'. Did you mean show?"),
        (("history", "zzz"), "There is no 'zzz'. Choose one of search, recall, list, show, export, import, recover."),
        (("history", "export", "--format", "htm"), "There is no 'htm'. Did you mean html?"),
        (("exit",), "There is no command 'exit'. /exit leaves ikigai once it runs."),
        (("quit",), "There is no command 'quit'. /quit leaves ikigai once it runs."),
        (("config", "validate", "/nowhere"), "/nowhere does not exist. Check the name of the file."),
        (("config", "edit", "x"), "ikigai config edit: error: unrecognized arguments: x\n"),
        (("config", "set", "model", "a", "b"), "ikigai config set: error: unrecognized arguments: b\n"),
        (("config", "get"), "ikigai config get: error: the following arguments are required: KEY\n"),
        (("agents", "list", "kid"), "ikigai agents list: error: unrecognized arguments: kid\n"),
        (("agents", "rename", "kid"), "ikigai agents rename: error: the following arguments are required: NEW\n"),
        (("history",), "ikigai history: error: name one of search, recall, list, show, export, import, recover\n"),
        (("agents", "--al"), "ikigai agents list: error: unrecognized arguments: --al. Did you mean --all?\n"),
        (("db", "dump", "x", "--froce"), "unrecognized arguments: --froce. Did you mean --force?\n"),
        (("-p", "--output", "json"), "unrecognized arguments: --output. Did you mean --output-format?\n"),
        (("-p", "hi", "--nonsense"), "unrecognized arguments: --nonsense\n"),
        (("--no-tools", "agents"), "The command agents does not take the options before it. Write the"),
        (("-m", "scripted/echo", "history"), "Write the command first: ikigai history --help."),
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


@pytest.mark.ordinary("words0-*", "words4-*", "words6-*")
@pytest.mark.parametrize(
    "words, message",
    [
        (("-p", "--", "-5 + 3"), "-5 + 3"),
        (("-p", "--", "--json"), "--json"),
        (("-p", "what is", "--", "-x", "--", "y"), "what is -x -- y"),
        (("--", "agents"), "agents"),
        (("--", "doctor"), "doctor"),
        (("--", "exit"), "exit"),
        (("-p", "agents"), "agents"),
    ],
)
def test_words_behind_two_dashes_are_a_message(account: Account, words: tuple[str, ...], message: str):
    done = account.run(*ECHO, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{message}\n", "")
    assert account.said("user") == [message]


def test_words_behind_two_dashes_are_arguments_of_a_command(account: Account):
    assert account.run(*ECHO, "-p", "--", "--json is a flag").returncode == 0
    found = account.run("history", "search", "--", "--json")
    assert found.returncode == 0 and "--json is a flag" in found.stdout


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


@pytest.mark.ordinary("words[0-6]")
@pytest.mark.parametrize(
    "words",
    [
        ("-p", "hi", "--db", ""),
        ("-p", "hi", "--config="),
        ("-p", "hi", "-m", ""),
        ("-p", "hi", "--schema", ""),
        ("-p", "hi", "--follow", ""),
        ("-p", "hi", "--profile="),
        ("history", "export", "--agent", ""),
        ("usage", "--agent="),
        ("db", "purge", "--match", "x", "--agent", ""),
        ("doctor", "--db", ""),
    ],
)
def test_empty_option_is_refused(account: Account, words: tuple[str, ...]):
    """A script has one where a variable is not set; it must not choose another agent, database or file."""
    done = account.run(*words, IKIGAI_MODEL="scripted/echo")
    assert done.returncode == 2 and re.search(r"error: argument --\w+: expected a value, not an empty one", done.stderr)
    assert not account.agents()


def test_empty_system_prompt_is_none(account: Account):
    assert account.run(*ECHO, "-p", "hi", "--system-prompt", "").returncode == 0
    assert account.run("config", "set", "model", "").returncode == 0
