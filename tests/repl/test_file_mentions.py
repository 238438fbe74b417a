"""Tests of the files behind an @: git's list, else the files that .gitignore leaves; no program of a repository
runs.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ikigai.app.attachments.attachments import read_mentions
from ikigai.core.commands.mentions import format_mention
from ikigai.core.events.messages import Document
from ikigai.core.text.lookalikes import visible_name
from ikigai.repl.input.file_mentions import MAX_OFFERED, FileMentions
from ikigai.tools.files.search import listing


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


async def listed(folder: Path) -> list[str]:
    return sorted([path async for piece in listing.list_paths(folder) for path in piece])


async def offered(folder: Path, typed: str, said: list[str] | None = None) -> list[str]:
    """Return the matches once everything is listed and searched."""
    done = asyncio.Event()
    told: list[str] = []

    def changed() -> None:
        told[:] = mentions.matches(typed)
        if mentions.is_idle:
            done.set()

    mentions = FileMentions(folder, lambda: said or [], changed)
    mentions.matches(typed)
    async with asyncio.timeout(60):
        await done.wait()
    return told


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/main.py", "src/deep/er/main_test.py", "build/out.o", "kept.log", "a b.txt", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "loop").symlink_to(".")
    return tmp_path


async def test_git_says_what_there_is(tree: Path):
    git(tree, "init", "-q")
    git(tree, "add", "-f", "kept.log")
    (tree / "later.py").write_text("")
    found = ["a b.txt", "kept.log", "later.py", "loop", "notes.md", "src/deep/er/main_test.py", "src/main.py"]
    assert await listed(tree) == [".gitignore", *found]
    assert await listed(tree / "src") == ["deep/er/main_test.py", "main.py"]


def add_nested(tree: Path) -> None:
    """Add a repository that git does not know of."""


def add_submodule(tree: Path) -> None:
    git(tree, "add", "nested")


def add_git_file(tree: Path) -> None:
    """Add a submodule as `git submodule` makes it: its .git is a file."""
    git(tree / "nested", "init", "-q", "--separate-git-dir", str(tree / ".git" / "modules-nested"))
    git(tree, "add", "nested")


@pytest.mark.parametrize("add", [add_nested, add_submodule, add_git_file])
async def test_files_of_repositories_in_the_repository_are_listed(tree: Path, add: Callable[[Path], None]):
    git(tree, "init", "-q")
    for inner in (tree / "nested" / "vendor" / "deep", tree / "nested"):
        inner.mkdir(parents=True, exist_ok=True)
        git(inner, "init", "-q")
        (inner / "a b.c").write_text("x")
        (inner / ".gitignore").write_text("*.o\n")
        (inner / "a.o").write_text("x")
        git(inner, "add", ".gitignore", "a b.c")
        git(inner, "commit", "-qm", "x")
    add(tree)
    found = await listed(tree)
    assert {"nested/", "nested/a b.c", "nested/vendor/deep/", "nested/vendor/deep/a b.c", "src/main.py"} <= {*found}
    assert not [path for path in found if path.endswith("a.o") or ".git/" in path]
    assert '@"nested/a b.c"' in await offered(tree, "nestedab")


async def test_submodule_that_is_not_there_yet_is_a_folder(tree: Path):
    git(tree, "init", "-q")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    (tree / "sub").mkdir()
    found = await listed(tree)
    assert "sub/" in found and not [path for path in found if path.startswith("sub/") and path != "sub/"]


async def test_matches_leave_out_ignored_files_links_and_locked_folders_without_git(tree: Path):
    (tree / "locked").mkdir(mode=0)
    wanted = [".gitignore", "a b.txt", "notes.md", "src/deep/er/main_test.py", "src/main.py"]
    assert await listed(tree) == wanted
    (tree / "locked").chmod(0o700)


async def test_damaged_repository_is_listed_without_git(tree: Path):
    (tree / ".git").write_text("gitdir: /nowhere\n")
    assert "src/main.py" in await listed(tree)


async def test_nothing_of_a_repository_is_run(tree: Path):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "x")
    trap, sprung = tree / ".git" / "trap", tree / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o700)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.gitProxy",
        "core.sshCommand",
        "credential.helper",
        "alias.ls-files",
    ):
        git(tree, "config", key, str(trap) if not key.startswith("alias") else f"!{trap}")
    for hook in ("post-index-change", "fsmonitor-watchman", "query-watchman"):
        (tree / ".git" / "hooks" / hook).write_text(trap.read_text())
        (tree / ".git" / "hooks" / hook).chmod(0o700)
    git(tree, "status")
    assert sprung.exists()  # the trap works
    sprung.unlink()
    assert "src/main.py" in await listed(tree)
    assert not sprung.exists()


async def test_program_of_the_project_is_not_run_as_git(tree: Path, monkeypatch: pytest.MonkeyPatch):
    (tree / "git").write_text(f"#!/bin/sh\ntouch {tree}/sprung\n")
    (tree / "git").chmod(0o700)
    (tree / ".git").mkdir()
    monkeypatch.setenv("PATH", f"{tree}:{os.defpath}")
    assert "src/main.py" in await listed(tree)
    assert not (tree / "sprung").exists()


async def test_best_and_earlier_mentioned_files_come_first(tree: Path):
    assert (await offered(tree, "main"))[:2] == ["@src/main.py", "@src/deep/er/main_test.py"]
    said = ["look at @src/deep/er/main_test.py again"]
    assert (await offered(tree, "main", said))[0] == "@src/deep/er/main_test.py"
    assert (await offered(tree, "nts"))[0] == "@notes.md"
    assert '@"./a b.txt"' in FileMentions(tree, list, lambda: None).matches("./")


async def test_file_list_is_refreshed_when_it_is_old(tree: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.repl.input.file_mentions.LIST_LIFETIME", 0.0)
    mentions = FileMentions(tree, list, lambda: None)
    for name in ("", "fresh.txt"):
        if name:
            (tree / name).write_text("")
        mentions.matches("fresh")
        async with asyncio.timeout(60):
            while not mentions.is_idle:
                await asyncio.sleep(0.005)
    assert mentions.matches("fresh") == ["@fresh.txt"]
    await mentions.close()


async def test_key_waits_for_no_list_and_no_search_in_a_large_folder(tree: Path):
    folder = tree / "large"
    folder.mkdir()
    for number in range(3 * MAX_OFFERED):
        (folder / f"file{number}.txt").write_text("")
    mentions = FileMentions(tree, list, lambda: None)
    assert mentions.matches("file") == []  # nothing is listed yet, and the key has its answer
    assert not mentions.is_idle
    async with asyncio.timeout(60):
        while not mentions.is_idle:
            await asyncio.sleep(0.005)
    assert len(mentions.matches("file")) == MAX_OFFERED


ODD = ["a b.txt", 'q"uote.txt', "it's.txt", "bo\"th'.txt", "esc\x1b[31m.txt", "日本.txt", "end..txt", "back\\slash.txt"]
ODD += ["bro\nken.txt", "byt\udcff.txt"]


@pytest.mark.parametrize("name", ODD)
async def test_matches_mention_the_file(tmp_path: Path, name: str):
    (tmp_path / name).write_text("words")
    (told,) = await offered(tmp_path, name[:3])
    assert told == format_mention(visible_name(name))
    (document,) = read_mentions(f"see {told} there", tmp_path).parts
    assert isinstance(document, Document) and (document.name, document.text) == (visible_name(name), "words")


async def test_folders_are_offered_with_their_files(tree: Path):
    assert (await offered(tree, "deep"))[:2] == ["@src/deep/", "@src/deep/er/"]
    assert (await offered(tree, "src/"))[0] == "@src/"


async def test_url_completes_to_nothing(tree: Path):
    mentions = FileMentions(tree, list, lambda: None)
    assert mentions.matches("https://example.org/main") == [] and mentions.is_idle
