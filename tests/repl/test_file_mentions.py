"""The files behind an @: what git knows, else what .gitignore leaves; nothing of a repository is run by it."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from ikigai.images import mention, mentioned
from ikigai.images.mentioned_files import mentions
from ikigai.repl.file_mentions import OFFERED, Mentions
from ikigai.tools.files import listing

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


async def listed(folder: Path) -> list[str]:
    return sorted([path async for piece in listing.files(folder) for path in piece])


async def offered(folder: Path, typed: str, said: list[str] | None = None) -> list[str]:
    """What is offered once everything was listed and looked through."""
    done = asyncio.Event()
    told: list[str] = []

    def changed() -> None:
        told[:] = mentions.offered(typed)
        if mentions.at_rest:
            done.set()

    mentions = Mentions(folder, lambda: said or [], changed)
    mentions.offered(typed)
    async with asyncio.timeout(20):
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


async def test_without_git_the_ignored_are_left_out_and_links_and_locked_folders_passed_over(tree: Path):
    (tree / "locked").mkdir(mode=0)
    wanted = [".gitignore", "a b.txt", "notes.md", "src/deep/er/main_test.py", "src/main.py"]
    assert await listed(tree) == wanted
    (tree / "locked").chmod(0o700)


async def test_a_damaged_repository_is_walked_through(tree: Path):
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


async def test_a_program_of_the_project_is_not_taken_for_git(tree: Path, monkeypatch: pytest.MonkeyPatch):
    (tree / "git").write_text(f"#!/bin/sh\ntouch {tree}/sprung\n")
    (tree / "git").chmod(0o700)
    (tree / ".git").mkdir()
    monkeypatch.setenv("PATH", f"{tree}:{os.defpath}")
    assert "src/main.py" in await listed(tree)
    assert not (tree / "sprung").exists()


async def test_the_best_come_first_and_those_mentioned_before_too(tree: Path):
    assert (await offered(tree, "main"))[:2] == ["@src/main.py", "@src/deep/er/main_test.py"]
    said = ["look at @src/deep/er/main_test.py again"]
    assert (await offered(tree, "main", said))[0] == "@src/deep/er/main_test.py"
    assert (await offered(tree, "nts"))[0] == "@notes.md"
    assert '@"./a b.txt"' in Mentions(tree, list, lambda: None).offered("./")


async def test_a_list_is_made_anew_when_it_is_old(tree: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.repl.file_mentions.FRESH", 0.0)
    mentions = Mentions(tree, list, lambda: None)
    for name in ("", "fresh.txt"):
        if name:
            (tree / name).write_text("")
        mentions.offered("fresh")
        async with asyncio.timeout(20):
            while not mentions.at_rest:
                await asyncio.sleep(0.005)
    assert mentions.offered("fresh") == ["@fresh.txt"]
    await mentions.close()


async def test_in_a_large_folder_a_key_waits_for_no_list_and_no_search(tree: Path):
    folder = tree / "large"
    folder.mkdir()
    for number in range(3 * OFFERED):
        (folder / f"file{number}.txt").write_text("")
    mentions = Mentions(tree, list, lambda: None)
    assert mentions.offered("file") == []  # nothing is listed yet, and the key has its answer
    assert not mentions.at_rest
    async with asyncio.timeout(20):
        while not mentions.at_rest:
            await asyncio.sleep(0.005)
    assert len(mentions.offered("file")) == OFFERED


ODD = ["a b.png", 'q"uote.png', "it's.png", "bo\"th'.png", "esc\x1b[31m.png", "日本.png", "end..png", "back\\slash.png"]


@pytest.mark.parametrize("name", ODD)
async def test_what_is_offered_means_that_file(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(PNG)
    (told,) = await offered(tmp_path, name[:3])
    assert told == mention(name)
    text = f"see {told} there"
    assert mentioned(text)
    assert [each.path for each in mentions(text, tmp_path)] == [tmp_path / name]
