"""Tests that the examples of the help pages do what is said of them: a shell runs each, in the order of the pages."""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from PIL import Image

from tests.cli.test_help_pages import examples
from tests.e2e.account import ECHO, Account, Wire
from tests.e2e.program import environment
from tests.e2e.test_login import JSON, LIST, SECRET
from tests.support import starting
from tests.support.wire_server import Answer

CLAUDES = Answer(b'{"data": [{"type": "model", "id": "claude-x"}], "has_more": false}', 200, JSON)
ELSEWHERE = {
    "ikigai history recover ~/.local/state/ikigai/unsaved-….jsonl",
    "ikigai history recover FILE --name lost",
}
"""Examples that need a failure before them: test_recover has one. Those of `ikigai mcp` need servers: see test_mcp."""
AT_A_TERMINAL = {
    "ikigai": " ctx ",
    'ikigai -r docs "and in Hungarian?"': "● and in Hungarian?",
    "ikigai --new -m openai/NAME:high": "openai/NAME",
    "ikigai --ephemeral": "ephemeral",
    "ikigai login anthropic": "Key for anthropic (hidden):",
    "ikigai db psql": 'Type "help" for help.',
    "ikigai db purge --match -": "Text to purge (hidden):",
}
"""Examples that wait for keys, and words that appear before."""
BEFORE = {
    "ikigai agents rename calm-otter docs": "ikigai agents rename docs older$RANDOM",
    "ikigai agents show calm-otter": "ikigai agents rename docs calm-otter",
    "ikigai db users add anna": "ikigai db users remove anna --delete",
    "ikigai db users add-shared team anna bela": "ikigai db users add bela",
    "ikigai db users remove bela --from team": "ikigai db users add anna; ikigai db users add-shared team anna bela",
    "ikigai db users remove anna --give-to bela": "ikigai db users remove team --delete",
    "ikigai history export -o talk.html": "rm -f talk.html",
    "ikigai history export --agent docs -o docs.jsonl": "rm -f docs.jsonl",
    "ikigai db dump ikigai.dump": "rm -f ikigai.dump",
    "ikigai config init": 'rm -f "$(ikigai config path)"',
    "ikigai --config other.toml config init": "rm -f other.toml",
}
"""Commands that make an example possible after those before it."""
STAND_INS = {"jq": "cat", "less": "cat", "age": "cat", "code": "true"}
"""Programs that examples use beside ikigai, and what stands for one that is not installed."""


@pytest.fixture
def prepared(account: Account, wire: Wire) -> Account:
    """Return a user with the agents, events and files that the examples name."""
    with psycopg.connect(account.dsn, autocommit=True) as database:
        for first, words, name in ((20, "a blue whale", "calm-otter"), (4700, "more", "docs")):
            database.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (first,))
            turns = "".join(json.dumps({"type": "user", "text": f"{words} {n}"}) + "\n" for n in range(50))
            chosen = "--new" if name == "calm-otter" else "-c"
            assert account.run(*ECHO, chosen, "-p", "--input-format", "stream-json", input=turns).returncode == 0
            assert account.run("agents", "rename", account.agents()[-1], name).returncode == 0
    assert account.run("agents", "revive", "calm-otter").returncode == 0
    assert account.run("-r", "docs", "-p", "/fork --name kid").returncode == 0
    assert account.run("history", "export", "--agent", "docs", "-o", "talk.jsonl").returncode == 0
    assert account.run("history", "export", "--agent", "docs", "-o", "talk.json").returncode == 0
    (account.home / "talk.jsonl.gz").write_bytes(gzip.compress((account.home / "talk.jsonl").read_bytes()))
    (account.home / "key.txt").write_text(SECRET)
    (account.home / "other.toml").write_text('model = "scripted/echo"\n')
    (account.home / ".config/fish/completions").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(account.home / "picture.png")
    subprocess.run(["git", "init", "-q", account.home], check=True)
    (account.home / "bin").mkdir()
    for name, does in STAND_INS.items():
        if not shutil.which(name):
            (account.home / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
            (account.home / "bin" / name).chmod(0o755)
    return account


def with_names(line: str, people: tuple[str, str]) -> str:
    """Return the line with users that no other test has in the place of anna and bela."""
    for name, other in zip(("anna", "bela"), people, strict=True):
        line = re.sub(rf"\b{name}\b", other, line)
    return line


def run_example(account: Account, line: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run an example, with a shell if it has the syntax of one; it fails if any part of it does."""
    if line.startswith("ikigai ") and not set("|<>;$") & {*line}:
        return account.run(*shlex.split(line)[1:], **env)
    shell = "zsh" if "completion zsh" in line else "bash"
    before = "autoload -Uz compinit; compinit -u -D\n" if shell == "zsh" else ""
    return subprocess.run(
        [shell, "-c", f'set -e -o pipefail\n{before}ikigai() {{ {starting.shell_command()} "$@"; }}\n{line}'],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(account.home, **account.environment(**env)),
        cwd=account.home,
        timeout=120,
    )


@pytest.mark.long  # tests/cli/test_help_pages.py shows that the parsers accept each
@pytest.mark.timeout(900)
def test_examples_of_all_help_pages(prepared: Account, wire: Wire, empty_dsn: str, people: tuple[str, str]):
    root = wire.server.base_url.removesuffix("/v1")
    path = f"{prepared.home}/bin:{os.environ['PATH']}"
    env = {"IKIGAI_MODEL": "scripted/echo", "EDITOR": "true", "PATH": path}
    env |= {"OPENAI_BASE_URL": f"{root}/v1", "ANTHROPIC_BASE_URL": root}
    failed: list[object] = []
    for page, example in examples():
        if (
            example in ELSEWHERE
            or example.startswith("ikigai mcp ")
            or ("completion zsh" in example and not shutil.which("zsh"))
        ):
            continue
        wire.answers(*[CLAUDES if "anthropic" in example else LIST] * 2)
        keys = {"ANTHROPIC_API_KEY": SECRET} if "anthropic --refresh" in example else {}
        if shown := AT_A_TERMINAL.get(example):
            with prepared.terminal(
                *shlex.split(example)[1:], env={**env, "OPENAI_API_KEY": SECRET}, columns=120
            ) as program:
                program.wait_for(shown)
            continue
        if before := BEFORE.get(example):
            run_example(prepared, with_names(before, people), env)
        line = (
            with_names(example, people)
            .replace("--from 100 --to 200", "--from 4710 --to 4720")
            .replace("postgresql:///copy", shlex.quote(empty_dsn))
            .replace("DSN", shlex.quote(prepared.dsn))
        )
        result = run_example(prepared, line, env | keys)
        if result.returncode or "Traceback" in result.stderr:
            failed.append((page, example, result))
    assert not failed, "\n".join(map(str, failed))
    made = {"talk.html", "docs.jsonl", "part.md", "usage.svg", "ikigai.dump", "ikigai.age", "other.toml"}
    assert all((prepared.home / name).stat().st_size > 0 for name in made)
    assert Path(prepared.home / ".config/fish/completions/ikigai.fish").read_text().startswith("# fish completion")
