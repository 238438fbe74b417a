"""Tests that run or compare each fenced block of the documentation, and look up each command in its sentences."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ikigai.core.commands.table import COMMANDS
from tests.cli.test_help_pages import parsers
from tests.docs.blocks import PAGES, Block, blocks, lines
from tests.e2e.account import Account
from tests.support.screens import FOLDER

RUNNABLE = re.compile(r"run|exit=\d+|skip: \S.*")
SHELL_ONLY = re.compile(r"[|<>$;&`]|^(?!ikigai )")
"""Signs in a line that only a shell understands; others are given to the program without one."""
CHATTED = (
    ("-r", "amber-fox", "-p", "How does the sliding window work?"),
    ("-c", "-p", "And what did we decide about the schema of number seven?"),
    ("-c", "-p", "/mark start"),
    ("-c", "-p", "/forget last 1", "--yes"),
)
"""The conversation that the examples find."""
KEY = {"ANTHROPIC_API_KEY": "sk-ant-of-no-account"}
"""A key, so that there are models to list; nothing is sent with it."""
LANGUAGES = {"sh", "sql", "toml", "json", "text", "{toctree}"}


@pytest.fixture
def reader(tmp_path: Path, dsn: str) -> Account:
    """Return a user with a conversation of the agent amber-fox and the files that the examples name."""
    account = Account(tmp_path, dsn)
    account.configure('model = "scripted/echo"\n')
    (tmp_path / "notes.txt").write_text("A window is what the model sees.\n")
    (tmp_path / "main.py").write_text("print('hello')\n")
    with psycopg.connect(dsn) as connection:
        made = "insert into agents (id, name, directory) values (gen_random_uuid(), 'amber-fox', %s) returning id"
        ((agent,),) = connection.execute(made, (str(tmp_path),)).fetchall()
        used = "insert into agent_uses (role, agent_id) values (session_user, %s)"
        connection.execute(used, (agent,))
    for command in ("git init -q", "git add notes.txt", "echo more >> notes.txt"):
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    for arguments in CHATTED:
        done = account.run(*arguments)
        assert done.returncode == 0, done.stderr
    return account


def run(reader: Account, line: str) -> subprocess.CompletedProcess[str]:
    """Run one line of an example; only what needs a shell gets one."""
    if SHELL_ONLY.search(line.replace("'\\d+ turns'", "").replace("'\"", "")):
        return reader.shell(f"set -o pipefail; {line}", **KEY)
    return reader.run(*shlex.split(line)[1:], **KEY)


def examples() -> Iterator[Block]:
    yield from (block for block in blocks("sh") if not block.tag.startswith("skip"))


@pytest.mark.timeout(600)
def test_examples_run(reader: Account) -> None:
    """All in one conversation, in the order of the pages; the lines of a block with variables are one script."""
    failed = list[str]()
    found = list(examples())
    for block in found:
        wanted = int(block.tag.removeprefix("exit=")) if block.tag.startswith("exit=") else 0
        commands = ["; ".join(lines(block))] if re.search(r"^\w+=", block.text, re.MULTILINE) else lines(block)
        for command in commands:
            done = run(reader, command)
            if done.returncode != wanted or "Traceback" in done.stderr:
                failed.append(f"{block.place}: {command}\n  exit code {done.returncode}: {done.stderr.strip()}")
    assert not failed, "\n".join(failed)
    assert len(found) > 15


def test_statements_run(reader: Account) -> None:
    found = list(blocks("sql"))
    with psycopg.connect(reader.dsn) as connection:
        connection.execute("set search_path = ikigai")
        rows = [connection.execute(block.text.encode()).fetchall() for block in found]
    assert len(rows) >= 5 and all(rows), "an example that finds nothing shows nothing"


def test_configurations_are_valid(reader: Account) -> None:
    """Each is a whole file."""
    found = list(blocks("toml"))
    for block in found:
        assert tomllib.loads(block.text), block.place
        file = reader.home / "example.toml"
        file.write_text(block.text)
        done = reader.run("config", "validate", str(file))
        assert done.returncode == 0, f"{block.place}: {done.stderr}"
    assert len(found) > 5


def test_history_made_by_hand_is_imported(reader: Account) -> None:
    (block,) = [block for block in blocks("json") if block.tag == "history"]
    (reader.home / "hand.jsonl").write_text(block.text)
    done = reader.run("history", "import", "hand.jsonl", "--name", "hand")
    assert done.returncode == 0, done.stderr


def test_shown_screens_are_stored_ones() -> None:
    found = [block for block in blocks("text") if block.tag.startswith("screen=")]
    for block in found:
        text = (FOLDER / f"{block.tag.removeprefix('screen=')}.txt").read_text()
        stored = re.sub("─+", "─", text)
        for line in block.text.splitlines():
            assert re.sub("─+", "─", line) in stored, f"{block.place}: {line}"
    assert found


def test_every_block_says_how_it_is_checked() -> None:
    for block in blocks():
        assert block.language in LANGUAGES, block.place
        if block.language == "sh":
            assert RUNNABLE.fullmatch(block.tag), f"{block.place}: run, exit=N or skip: REASON?"
        if block.language == "text":
            assert block.tag, f"{block.place}: screen=WALK/STATE, or a word for what it is?"


def test_slash_commands_of_the_documentation_exist() -> None:
    known = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    wrong = [
        f"{page.name}: /{name}"
        for page in PAGES
        for name in re.findall(r"`/([a-z]+)(?=[` ])", page.read_text(encoding="utf-8"))
        if name not in known
    ]
    assert not wrong


def test_commands_of_the_documentation_are_understood() -> None:
    """Commands in sentences name subcommands and options that the parsers know."""
    known = dict(parsers())
    main = {option for action in known[""]._actions for option in action.option_strings}
    for page in PAGES:
        for words in re.findall(r"`ikigai ([^`]+)`", page.read_text(encoding="utf-8")):
            path = ""
            for word in words.split():
                if f"{path} {word}".strip() not in known:
                    break
                path = f"{path} {word}".strip()
            options = main | {option for action in known[path]._actions for option in action.option_strings}
            used = {option.partition("=")[0] for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", words)}
            assert path == "db psql" or not used - options, f"{page.name}: ikigai {words}"
            first = words.split()[0]
            assert path or first.startswith(("-", "COMMAND")) or " " in words, f"{page.name}: ikigai {words}"
