"""Tests of shell completion: the shells themselves source the scripts, which know what the parsers know."""

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import psycopg
import pyte
import pytest

from ikigai.cli import run_options
from ikigai.cli import subcommands as admin
from tests.e2e.account import ECHO, Account
from tests.e2e.program import environment
from tests.support import starting
from tests.terminal.alternate import row_text


@pytest.fixture
def on_path(account: Account) -> Path:
    """Return a folder with the program `ikigai` in it."""
    folder = account.home / "bin"
    folder.mkdir()
    (folder / "ikigai").write_text(f'#!/bin/sh\nexec {starting.shell_command()} "$@"\n')
    (folder / "ikigai").chmod(0o755)
    return folder


def in_shell(account: Account, on_path: Path, shell: list[str], script: str) -> str:
    env = environment(account.home, **account.environment(PATH=f"{on_path}:{os.environ['PATH']}"))
    done = subprocess.run([*shell, script], env=env, cwd=account.home, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.returncode == 0, done
    return done.stdout


ASKS = r"""
source ./ikigai.bash
ask() {
  COMP_WORDS=(ikigai "$@"); COMP_CWORD=$#; COMP_LINE="ikigai $*"; COMP_POINT=${#COMP_LINE}
  _ikigai; echo "$* = ${COMPREPLY[*]}"
}
"""


def asked(account: Account, on_path: Path, *lines: str) -> dict[str, set[str]]:
    """Return the completions of bash behind each of these lines."""
    script = ASKS + "\n".join(f"ask {line}" for line in lines)
    told = in_shell(account, on_path, ["bash", "-u", "-c"], script)
    return {line.partition(" = ")[0]: set(line.partition(" = ")[2].split()) for line in told.splitlines()}


def every(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from every(child, f"{path} {name}".strip())


def parsers() -> list[tuple[str, argparse.ArgumentParser]]:
    _, *beside = every(admin.build_parser(run_options.common_options(), run_options.common_options(argparse.SUPPRESS)))
    return [*beside, ("", run_options.run_parser())]


def test_bash(account: Account, on_path: Path):
    (account.home / "ikigai.bash").write_text(account.run("completion", "bash").stdout)
    (account.home / "a file.txt").write_text("x")
    told = asked(
        account, on_path,
        "''", "h", "history ''", "history ex", "history export --f", "history export --format ''", "db ''",
        "--config x.toml his", "usage --by m", "-m x/y --resume ''", "history import a", "history recover a",
        "history search --kind ''",
        "nonsense ''", "config ''", "history export --agent a -o x --form", "usage --plot --b",
        "usage --plot --by ''",
    )  # fmt: skip
    assert told["history "] == {"search", "recall", "list", "show", "export", "import", "recover"} and told[
        "history ex"
    ] == {"export"}
    assert {"history", "db", "login", "doctor", "setup"} <= told[""] and told["h"] == {"history"}
    assert told["history export --f"] == {"--format", "--from", "--force"}
    assert told["history export --format "] == {"md", "html", "json", "jsonl"}
    assert told["--config x.toml his"] == {"history"} and told["usage --by m"] == {"model", "month"}
    assert told["history import a"] == {"a", "file.txt"} and "assistant" in told["history search --kind "]
    assert told["-m x/y --resume "] == set() and told["config "] >= {
        "show",
        "get",
        "set",
        "edit",
        "validate",
        "path",
        "init",
    }
    assert told["history export --agent a -o x --form"] == {"--format"}
    assert told["usage --plot --b"] == {"--by"}
    assert told["usage --plot --by "] == {"day", "month", "model", "agent", "folder", "tree"}

    # Every command of the parsers with every option, and no other.
    told = asked(account, on_path, *(f"{path} -" for path, _ in parsers()))
    assert len(told) == len(parsers())
    for path, parser in parsers():
        shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        known = {flag for action in shown for flag in action.option_strings}
        assert told[f"{path} -".strip()] == known, path


def test_names_of_agents(account: Account, on_path: Path, dsn: str):
    (account.home / "ikigai.bash").write_text(account.run("completion", "bash").stdout)
    assert account.run("completion", "--names", "agents").stdout == ""
    for _ in range(2):
        assert account.run(*ECHO, "-p", "hello").returncode == 0
        assert account.run("agents", "revive", account.agents()[-1]).returncode == 0
    with psycopg.connect(dsn) as connection:
        hostile = "x$(touch${IFS}hacked)"
        connection.execute("insert into agents (id, name) values (gen_random_uuid(), %s)", (hostile,))
    names = account.agents()[:2]
    assert account.run("completion", "--names", "agents").stdout.split() == names[::-1]
    told = asked(account, on_path, "-r ''", f"history list --agent {names[0][:3]}")
    assert told["-r "] == {*names} and names[0] in told[f"history list --agent {names[0][:3]}"]
    assert not (account.home / "hacked").exists()
    for url in ("postgresql://127.0.0.1:1/x", "host='", "embedded"):
        done = account.run("completion", "--names", "agents", IKIGAI_DATABASE_URL=url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), url
    assert not (account.home / ".local/share/ikigai").exists(), "no server was started for it"
    nameless = account.run("completion")
    assert nameless.returncode == 2 and "name a shell" in nameless.stderr


CONFIGURED = """
favorite_models = ["ollama/qwen3:8b"]
[providers.ollama]
base_url = "http://127.0.0.1:1/v1"
[mcp_servers.tracker]
url = "http://127.0.0.1:1/mcp"
[models."ollama/gemma"]
context = 4096
[profiles.fast]
level = "low"
"""


def test_names_of_other_kinds(account: Account):
    account.configure(CONFIGURED)
    for words, names in (
        (["models"], {"ollama/qwen3:8b", "ollama/gemma"}),
        (["profiles"], {"fast", "default"}),
        (["providers"], {"anthropic", "openai", "google", "ollama"}),
        (["servers"], {"tracker"}),
        (["keys"], {"model", "terminal.theme", "providers.ollama.base_url"}),
        (["values", "terminal.editing"], {"emacs", "vi"}),
        (["values", "profiles.fast.tools_off"], {"agents", "external", "files", "memory", "shell", "web"}),
        (["values", "nonsense"], set[str]()),
        (["nonsense"], set[str]()),
    ):
        done = account.run("completion", "--names", *words)
        assert names <= {*done.stdout.split()} and (done.returncode, done.stderr) == (0, ""), words
        assert names or not done.stdout


TABS = (
    (b"ikigai hist\t", b"history "),
    (b"exp\t", b"export "),
    (b"--form\t", b"--format"),
    (b"h\t", b"html"),
    (b"\x15ikigai history export --format=htm\t", b"--format=html"),
    (b"\x15ikigai agents show NAM\t", b"show NAME"),
    (b"\x15ikigai --resume=NAM\t", b"--resume=NAME"),
    (b"\x15ikigai -r NAM\t", b"-r NAME"),
    (b"\x15ikigai -m ollama/q\t", b"ollama/qwen3:8b"),
    (b"\x15ikigai -m ollama/qwen3:\t", b"ollama/qwen3:8b"),
    (b"\x15ikigai --model=ollama/g\t", b"--model=ollama/gemma"),
    (b"\x15ikigai --profile=fa\t", b"--profile=fast"),
    (b"\x15ikigai login oll\t", b"login ollama"),
    (b"\x15ikigai models anth\t", b"models anthropic"),
    (b"\x15ikigai config set terminal.edit\t", b"terminal.editing"),
    (b"\x15ikigai config set terminal.editing em\t", b"terminal.editing emacs"),
    (b"\x15ikigai config set profiles.fast.tools_off sh\t", b"tools_off shell"),
    (b"\x15ikigai mcp te\t", b"mcp test "),
    (b"tra\t", b"mcp test tracker"),
    (b"\x15ikigai mcp rem\ttr\t", b"mcp remove tracker"),
    (b"\x15ikigai config validate not\t", b"validate notes.txt"),
    (b"\x15ikigai -p @not\t", b"@notes.txt"),
)
"""Keys, and the text that the line has then; NAME is the name of an agent."""


STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], b"source ./script; echo rea''dy\n"),
    "zsh": (["zsh", "-f", "-i"], b"bindkey -e; autoload -Uz compinit; compinit -u -D; source ./script; echo rea''dy\n"),
    "fish": (["fish", "--no-config", "-i"], b"source ./script; echo rea''dy\n"),
}


@pytest.mark.parametrize("name", STARTS)
def test_tab(account: Account, on_path: Path, name: str):
    """Tab in an interactive shell completes the word. Skips where that shell is not installed."""
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    account.configure(CONFIGURED)
    assert account.run(*ECHO, "-c", "-p", "hello").returncode == 0
    (agent,) = account.agents()
    (account.home / "notes.txt").write_text("x")
    start, source = STARTS[name]
    (account.home / "script").write_text(account.run("completion", name).stdout)
    env = environment(account.home, **account.environment(PATH=f"{on_path}:{os.environ['PATH']}", PS1="$ "))
    shell = pexpect.spawn(start[0], start[1:], env=env, cwd=str(account.home), dimensions=(24, 200), timeout=60)
    screen = pyte.Screen(200, 24)
    stream = pyte.ByteStream(screen)

    def until(text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in row_text(screen.buffer[screen.cursor.y], 200):
            assert time.monotonic() < deadline, (text, screen.display)
            try:
                stream.feed(shell.read_nonblocking(4096, 0.1))
            except pexpect.TIMEOUT:
                continue

    try:
        shell.send(source)
        shell.expect(b"ready")
        for typed, shown in TABS:
            shell.send(typed.replace(b"NAM", agent[:-2].encode()))
            until(shown.replace(b"NAME", agent.encode()).decode())
    finally:
        shell.close(force=True)


def test_fish(account: Account, on_path: Path):
    """fish reads the script, and completes commands, options and values. Skips where it is not installed."""
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    (account.home / "script").write_text(account.run("completion", "fish").stdout)
    ask = "source script; for line in 'ikigai hi' 'ikigai history ex' 'ikigai history export --fo' "
    ask += "'ikigai history export --format ' 'ikigai usage --by m'; complete -C $line; end"
    told = in_shell(account, on_path, ["fish", "--no-config", "-c"], ask)
    words = [line.partition("\t")[0] for line in told.splitlines()]
    assert words[:2] == ["history", "export"] and {"--format", "--force"} <= {*words}
    assert {"md", "html", "json", "jsonl", "model"} <= {*words}
