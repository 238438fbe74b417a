"""Recursive searches by commands are asked about when they could read a file that looks like one with keys."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from ikigai.tools.approval import recursive_search
from ikigai.tools.approval.allowlist import Allowlist, AllowVerdict
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.files.search import ripgrep
from tests.tools import project


@pytest.fixture
def place(tmp_path: Path) -> PathScope:
    """A project with .env and .git/config, and in sub a visible key, in odd a hidden one with a type."""
    root = project.made(tmp_path)
    for name in ("sub/deep/server.pem", "odd/.credentials.json", "clean/a.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("KEY\n")
    programs, _ = project.recorders(tmp_path, {"grep", "rg", "cat"})
    return project.place(root, programs)


def judged(command: str, place: PathScope) -> AllowVerdict:
    return Allowlist().judge(command, place, place.root)


@pytest.mark.parametrize(
    "command",
    [
        "grep -r KEY", "grep -rn KEY .", "grep --recursive KEY .", "grep -inr KEY ./", "grep -r KEY sub",
        "grep -r KEY s*", "grep -r KEY . --include=*", "grep -r KEY . --include='.e*'",
        "grep -r KEY . --include='\\.env'",
        "grep -r KEY . --include='[^a]*'", "grep -r --include=*.py --exclude=*.md KEY .",
        "grep -r --include=*.py --include=*.pem KEY .", "grep -r --exclude-dir=.git KEY .",
        "grep -r -- '--include=*.py' .", "grep -r -- --exclude-dir=deep sub", "cd sub && grep -r KEY",
        "rg -uu KEY", "rg -nuu KEY", "rg --hidden KEY", "rg --no-ignore --hidden KEY", "rg --unrestricted KEY",
        "rg KEY", "rg KEY sub", "rg -g '.env' KEY clean .", "rg --glob=.env KEY", "rg -g.env KEY", "rg -ng .env KEY",
        "rg --iglob .ENV KEY", "rg -t json KEY odd", "rg -g '*.py' -g '*.pem' KEY", "rg -g '!*.py' KEY sub",
        "rg -- --files",
    ],
)  # fmt: skip
def test_search_that_could_read_keys_is_asked_about(place: PathScope, command: str):
    judgement = judged(command, place)
    assert not judgement.approved and "looks like a file with keys or passwords" in judgement.why


@pytest.mark.parametrize(
    "command",
    [
        "grep -r KEY src", "grep -rn KEY . --include=*.py", "grep -rn KEY . --include '*.py' --include=*.md",
        "grep -r --exclude-dir=deep KEY sub", "grep -r --exclude-dir deep KEY sub", "grep KEY README.md",
        "cat README.md | grep KEY", "rg KEY src", "rg KEY odd", "rg -uu KEY clean", "rg -t py KEY clean",
        "rg -g '*.py' KEY", "rg --glob '*.py' -g '!clean' KEY", "rg --files", "rg --files --hidden", "rg KEY README.md",
    ],
)  # fmt: skip
def test_search_that_reads_no_keys_is_approved(place: PathScope, command: str):
    assert judged(command, place).approved, judged(command, place).why


def test_plain_ripgrep_is_approved_beside_hidden_keys(place: PathScope):
    (Path(place.root) / "sub/deep/server.pem").unlink()
    (Path(place.root) / "odd/.credentials.json").rename(Path(place.root) / ".env.local")
    for command in (
        "rg KEY",
        "rg -n KEY .",
        "rg -t py --type md KEY",
        "rg -T md --type-not=py KEY",
        "rg -g '!*.md' KEY",
    ):
        assert judged(command, place).approved, command
    for command in ("rg -t sh KEY", "rg -tsh KEY", "rg -nt sh KEY", "rg --type=all KEY", "rg -t py --type docker KEY"):
        assert not judged(command, place).approved, command


@pytest.mark.parametrize(
    "lines, approved", [("!.env\n", False), ("*\n!/.e*\n", False), ("!.env.example\n.env\n", True)]
)
@pytest.mark.parametrize("name", [".gitignore", ".ignore", "../.rgignore"])
def test_ignore_file_that_brings_keys_back_is_heeded(place: PathScope, name: str, lines: str, approved: bool):
    (Path(place.root) / "sub/deep/server.pem").unlink()
    (Path(place.root) / name).write_text(lines)
    assert judged("rg KEY", place).approved is approved


def test_search_of_too_many_files_is_asked_about(place: PathScope, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recursive_search, "MAX_WALKED_ENTRIES", 2)
    assert "has too many files" in judged("rg KEY src", place).why


IGNORED = ["", "!.env\n", "!.e*\n", "*.pem\n", "!/odd/.cred*\n"]


@pytest.mark.parametrize(
    ("ignore", "lines"),
    [
        (".gitignore", "!.env\n"),
        (".ignore", "!.e*\n"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in product((".gitignore", ".ignore"), IGNORED)),
    ],
)
def test_approved_search_prints_nothing_of_files_with_keys(place: PathScope, ignore: str, lines: str):
    """Run every approved combination of options with the programs themselves."""
    root = Path(place.root)
    for name in (".env", ".env.local", "sub/deep/server.pem", "odd/.credentials.json", ".git/config", "src/.aws/x.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("needle canary\n")
    (root / ignore).write_text(lines)
    path = f"{Path(ripgrep.program()).parent}:/usr/bin:/bin"
    place, approved = PathScope(place.root, place.own, path), 0
    for program, options in (
        ("rg", ("", "-u", "-uu", "--hidden", "-g '*.py'", "-g '.e*'", "-g '!*.pem'", "-t py", "-t json", "-t all")),
        ("grep -r", ("", "--include='*.py'", "--include=.env", "--exclude-dir=deep", "--exclude='*.pem'")),
    ):
        for option, folder in product(options, ("", ".", "src", "sub", "odd", "clean", "src clean")):
            command = f"{program} {option} needle {folder}".strip()
            if judged(command, place).approved:
                approved += 1
                given = {"cwd": root, "env": {"PATH": path}, "stdin": subprocess.DEVNULL, "capture_output": True}
                assert b"canary" not in subprocess.run(["/bin/bash", "-c", command], **given).stdout, command
    assert approved > 20


def test_approved_search_by_type_prints_nothing_of_files_with_keys(place: PathScope):
    """Every type of ripgrep, by ripgrep itself, beside hidden files of which some have a type."""
    root = Path(place.root)
    (root / "sub/deep/server.pem").unlink()
    (root / "odd/.credentials.json").unlink()
    listed = subprocess.run([ripgrep.program(), "--type-list"], capture_output=True, text=True, check=True).stdout
    types = [*(line.partition(":")[0] for line in listed.splitlines()), "all"]
    for name in (".env-Dockerfile", ".env", ".env.local", ".env.json", ".env.ts", ".secrets.1", ".env.rb"):
        (root / name).write_text("needle canary\n")
        approved = [each for each in types if judged(f"rg -t {each} needle", place).approved]
        for each in approved:
            command = [ripgrep.program(), "--no-config", "-t", each, "needle", "."]
            done = subprocess.run(command, cwd=root, capture_output=True, check=False)
            assert b"canary" not in done.stdout, (each, name)
        assert bool(approved) is (name in (".env-Dockerfile", ".env", ".env.local"))


UNCLEAR = (
    *("!\\.env", "!.en\\v", "!{.env,zz}", "!.en[^a]", "!.en[v\x0c]", "!.en[v\x1c]", "\ufeff!.env"),
    "# " + "x" * (1 << 20),
)
"""Lines that ripgrep may read otherwise than fnmatch does, and one behind which nothing is read."""


@pytest.mark.parametrize("line", UNCLEAR, ids=range(len(UNCLEAR)))
def test_line_of_an_ignore_file_that_may_be_read_otherwise_is_asked_about(place: PathScope, line: str):
    (Path(place.root) / "sub/deep/server.pem").unlink()
    assert judged("rg KEY", place).approved
    (Path(place.root) / ".ignore").write_text(f"{line}\n!.env.example\n")
    assert not judged("rg KEY", place).approved


def test_exclude_file_of_git_that_brings_keys_back_is_heeded(place: PathScope):
    (Path(place.root) / "sub/deep/server.pem").unlink()
    (Path(place.root) / ".git/info").mkdir(parents=True, exist_ok=True)
    (Path(place.root) / ".git/info/exclude").write_text("!.env\n")
    assert not judged("rg KEY", place).approved


def test_pipe_in_place_of_an_ignore_file_blocks_nothing(place: PathScope):
    os.mkfifo(Path(place.root) / "clean/.ignore")
    assert judged("rg KEY clean", place).approved


def test_each_folder_is_walked_once_for_a_command_line(place: PathScope, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recursive_search, "MAX_WALKED_ENTRIES", 8)
    assert judged("rg KEY clean clean/. ./clean; rg KEY clean", place).approved
    folders = [Path(place.root) / "clean" / str(number) for number in range(9)]
    for folder in folders:
        folder.mkdir()
        (folder / "a.py").touch()
    many = judged(f"rg KEY {' '.join(f'clean/{folder.name}' for folder in folders)}", place)
    assert not many.approved and "too many files" in many.why
