"""grep, glob and list_files find and skip files of real trees, and no file holds a search up."""

import asyncio
import contextlib
import os
import random
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.tools.files.read_file import ReadFile
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.search.glob import GlobFiles
from ikigai.tools.files.search.glob_patterns import Glob
from ikigai.tools.files.search.grep import Grep
from ikigai.tools.files.search.list_files import ListFiles
from tests import ROOT
from tests.support.starting import children
from tests.tools.files.hands import call, preview, run


@pytest.fixture
def grep(work: Path) -> Grep:
    return Grep(work, ReadTracker())


@pytest.fixture
def glob(work: Path) -> GlobFiles:
    return GlobFiles(work, ReadTracker())


def tree(root: Path, **files: str | bytes) -> None:
    """Write files by path; __ stands for / and _ before a name for a dot."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def project(work: Path) -> Path:
    tree(
        work,
        DOTgitignore="build/\n*.log\n!keep.log\n/top.txt\nbad[\n",
        DOTgit__config="needle",
        DOThidden="needle\n",
        DOTgithub__ciDOTyml="needle\n",
        src__aDOTpy="import os\nneedle = 1\n\nx = needle\n",
        src__bDOTc="// Needle\r\nneedle();\r\n",
        src__topDOTtxt="needle\n",
        src__nested__DOTgitignore="!*.log\nlocal/\n",
        src__nested__deepDOTlog="needle\n",
        src__nested__local__x="needle\n",
        build__outDOTpy="needle\n",
        aDOTlog="needle\n",
        keepDOTlog="needle\n",
        topDOTtxt="needle\n",
        binary=b"needle\n\0needle\n",
        latin=b"n\xe9edle needle\n",
        utf16="needle é\n".encode("utf-16"),
        empty="",
    )
    (work / "loop").symlink_to(".")
    (work / "out").symlink_to("../outside")
    (work / "dangling").symlink_to("nowhere")
    os.mkfifo(work / "fifo")
    return work


FOUND = [
    ".github/ci.yml:1:needle",
    ".hidden:1:needle",
    "keep.log:1:needle",
    "latin:1:n�edle needle",
    "src/a.py:2:needle = 1",
    "src/a.py:4:x = needle",
    "src/b.c:2:needle();",
    "src/nested/deep.log:1:needle",
    "src/top.txt:1:needle",
    "utf16:1:needle é",
]


async def test_lines_are_found_where_gitignore_lets(grep: Grep, project: Path):
    found = (await call(grep, pattern="needle")).split("\n")
    assert [line.replace("é", "�") for line in found] == [line.replace("é", "�") for line in FOUND]
    everything = (await call(grep, pattern="needle", ignored=True)).split("\n")
    assert {line.partition(":")[0] for line in everything} - {line.partition(":")[0] for line in found} == {
        "a.log",
        "build/out.py",
        "src/nested/local/x",
        "top.txt",
    }


async def test_how_it_is_asked_for(grep: Grep, project: Path):
    assert await call(grep, pattern="^NEEDLE", path="src", glob="*.py", ignore_case=True) == "src/a.py:2:needle = 1"
    assert await call(grep, pattern="needle();", literal=True) == "src/b.c:2:needle();"
    assert await call(grep, pattern=r"\bos$|= 1$", path="src/a.py") == "src/a.py:1:import os\nsrc/a.py:2:needle = 1"
    assert await call(grep, pattern=r"\(\);$") == "src/b.c:2:needle();"  # before a carriage return
    assert await call(grep, pattern="needle", glob="src/**/*.{py,c}", files_only=True) == "src/a.py\nsrc/b.c"
    assert await call(grep, pattern="needle", glob="build/*") == "[no line matches]"
    assert await call(grep, pattern="needle", path="build") == "build/out.py:1:needle"  # asked for by name
    assert await call(grep, pattern="needle", path="a.log") == "a.log:1:needle"
    assert await call(grep, pattern="needle", path="binary") == "[no line matches]"
    assert await call(grep, pattern="needle", path="binary", files_only=True) == "[no line matches]"
    assert await call(grep, pattern="é", path="utf16") == "utf16:1:needle é"
    assert await call(grep, pattern="--no-such-flag") == "[no line matches]"
    outside = project.parent / "outside"
    assert await call(grep, pattern="secret", path="../outside") == f"{outside}/private.txt:1:the secret"
    effect = await preview(grep, pattern="secret", path="out")
    assert (effect.kind, effect.shown, effect.inside) == ("read", f"secret in {outside}", False)
    assert (effect.paths, effect.directory) == ((str(outside),), str(project))


async def test_lines_around(grep: Grep, work: Path):
    tree(work, a="\n".join("x" if n in (3, 5, 20) else str(n) for n in range(1, 31)) + "\n", b="x\n")
    told = await call(grep, pattern="x", context=2)
    assert told.split("\n") == [
        *("a-1-1", "a-2-2", "a:3:x", "a-4-4", "a:5:x", "a-6-6", "a-7-7", "--"),
        *("a-18-18", "a-19-19", "a:20:x", "a-21-21", "a-22-22", "--", "b:1:x"),
    ]


async def test_patterns_that_are_none(grep: Grep, project: Path):
    for pattern in ("(", "[z-a]", "a{2,1}", "*"):
        with pytest.raises(ValueError, match="is not a regular expression"):
            await call(grep, pattern=pattern)
    with pytest.raises(ValueError, match="line break"):
        await call(grep, pattern="a\nb")
    with pytest.raises(ValueError, match="more than 100 patterns"):
        await call(grep, pattern="a", glob="{a,b}" * 10)
    assert await call(grep, pattern="(?<=x = )needle") == "src/a.py:4:x = needle"
    assert await call(grep, pattern=r"(e)\1dle", files_only=True, path="src/a.py") == "src/a.py"


async def test_paths_that_are_none(grep: Grep, glob: GlobFiles, project: Path):
    for path, words in (
        ("fifo", "is a pipe, not a"),
        ("/dev/zero", "is a device, not a"),
        ("missing", "missing does not exist"),
        ("a\0b", "NUL"),
        ("dangling", "dangling does not exist"),
    ):
        for tool in (grep, glob, ListFiles(project, ReadTracker())):
            with pytest.raises((OSError, ValueError), match=words):
                await call(tool, path=path, **({} if tool.name == "list_files" else {"pattern": "x"}))
    with pytest.raises(OSError, match="is a file, not a directory"):
        await call(glob, path="keep.log", pattern="x")


async def test_results_are_bounded(grep: Grep, work: Path):
    tree(work, many="needle\n" * 5_000, wide=("needle" + "x" * 5_000_000 + "\n") * 3)
    lines = (await call(grep, pattern="needle")).split("\n")
    assert len(lines) == 2_001 and lines[-1].startswith("[the first 2,000 lines; there are more")
    lines = (await call(grep, pattern="needle", path="wide")).split("\n")
    assert len(lines) == 3 and all(550 > len(line) > 400 and line.endswith("]") for line in lines)
    tree(work, long=("needle " * 60 + "\n") * 1_999)
    assert len(await call(grep, pattern="needle", path="long")) < 401_000


@pytest.mark.long
async def test_links_that_change_all_the_time_lead_nowhere_else(grep: Grep, work: Path):
    """Directory and link take turns under one name, while what is below it is searched."""
    outside, turn = work.parent / "outside", work / "turn"
    (work / "real").mkdir()
    (work / "real" / "private.txt").write_text("harmless\n")
    (work / "link").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("real", "link"):
                os.rename(work / name, turn)
                time.sleep(0.0005)
                os.rename(turn, work / name)

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    answers = set[str]()
    try:
        for n in range(600):
            if n >= 60 and any("harmless" in told for told in answers):
                break
            path = ("turn", "turn/private.txt")[n % 2]
            try:
                inside = (await preview(grep, pattern="secret|harmless", path=path)).inside
                told = (await run(grep, pattern="secret|harmless", path=path)).text
                answers.add(told)
                assert not inside or "the secret" not in told
            except OSError:
                continue
    finally:
        done.set()
        await swapping
    assert any("harmless" in told for told in answers)


SLOW = "(?:a|b)*a(?:a|b){600}c"
"""A pattern that takes ripgrep half a minute and more for what `slow` writes."""


def slow(work: Path, lines: int = 5_000) -> None:
    choices = random.Random(1)
    hundred = "".join("".join(choices.choices("ab", k=2_000)) + "\n" for _ in range(100))
    (work / "slow").write_text(hundred * (lines // 100))


@pytest.mark.parametrize("path", [".", "slow"])
async def test_endless_search_is_stopped(work: Path, path: str):
    slow(work)
    began = time.monotonic()
    told = await call(Grep(work, ReadTracker(), seconds=0.5), pattern=SLOW, path=path)
    assert time.monotonic() - began < 25
    assert told == "[nothing found before that]\n[stopped after 0.5 s; there may be more]"
    assert not children()


async def test_gitignore_that_is_no_file_holds_no_search_up(work: Path):
    tree(work, a="needle\n", sub__b="needle\n")
    (work / "sub" / ".gitignore").mkdir()
    assert await call(Grep(work, ReadTracker()), pattern="needle") == "a:1:needle\nsub/b:1:needle"
    os.mkfifo(work / ".gitignore")
    began = time.monotonic()
    for tool in (Grep(work, ReadTracker(), seconds=0.5), GlobFiles(work, ReadTracker(), seconds=0.5)):
        assert "[stopped after 0.5 s; there may be more]" in await call(tool, pattern="needle")
    assert time.monotonic() - began < 25 and not children()
    assert await call(Grep(work, ReadTracker()), pattern="needle", ignored=True) == "a:1:needle\nsub/b:1:needle"


async def test_search_that_is_cancelled_leaves_nothing(work: Path):
    slow(work)
    searching = asyncio.create_task(call(Grep(work, ReadTracker(), seconds=60), pattern=SLOW))
    while not children():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert not children()


def test_search_whose_parent_was_killed_ends_by_itself(work: Path):
    slow(work, 30_000)
    program = (
        "import asyncio, sys; from pathlib import Path; from tests.tools.files.hands import call;"
        "from ikigai.tools.files.search.grep import Grep; from ikigai.tools.files.read_tracker import ReadTracker;"
        f"asyncio.run(call(Grep(Path({str(work)!r}), ReadTracker(), seconds=1), pattern={SLOW!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    while not (found := psutil.Process(parent.pid).children()):
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        found[0].wait(timeout=60)


async def test_unreadable_file_hides_no_other_match(work: Path):
    tree(work, a="needle\n", z="needle\n")
    at = os.open(work, os.O_DIRECTORY)
    for _ in range(20):  # too long for any program that opens it by its path
        os.mkdir("d" * 250, dir_fd=at)
        below = os.open("d" * 250, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert await call(Grep(work, ReadTracker()), pattern="needle") == "a:1:needle\nz:1:needle"
    assert await call(GlobFiles(work, ReadTracker()), pattern="*") == "a\nz"


@pytest.mark.long
async def test_loop_goes_on_while_a_search_runs(work: Path):
    slow(work)
    longest, last = 0.0, time.monotonic()
    searching = asyncio.create_task(call(Grep(work, ReadTracker(), seconds=0.5), pattern=SLOW))
    while not searching.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert longest < 0.5


# -- glob -----------------------------------------------------------------------------------------------------------


async def test_files_are_found_by_name(glob: GlobFiles, project: Path):
    for pattern, path, found in (
        ("*.py", ".", ["src/a.py"]),
        ("**/*.py", ".", ["src/a.py"]),
        ("src/*", ".", ["src/a.py", "src/b.c", "src/top.txt"]),
        ("src/", ".", ["src/a.py", "src/b.c", "src/nested/.gitignore", "src/nested/deep.log", "src/top.txt"]),
        ("*.{c,log}", ".", ["keep.log", "src/b.c", "src/nested/deep.log"]),
        ("./nested/**", "src", ["src/nested/.gitignore", "src/nested/deep.log"]),
        ("*", "build", ["build/out.py"]),
        ("?.[!p]*", "src", ["src/b.c"]),
        ("config", ".", ["[no file matches]"]),
        ("private.txt", ".", ["[no file matches]"]),
    ):
        assert (await call(glob, pattern=pattern, path=path)).split("\n") == found, pattern
    assert "build/out.py" in await call(glob, pattern="*.py", ignored=True)
    for pattern in ("", "/etc/*", "../*", "a/../../b", "~/x", "a\0", "x" * 2_000, "{a,b}" * 10):
        with pytest.raises(ValueError):
            await call(glob, pattern=pattern)


async def test_many_files(glob: GlobFiles, work: Path):
    for n in range(1_500):
        (work / f"{n:04}.txt").touch()
    lines = (await call(glob, pattern="*.txt")).split("\n")
    assert lines[:2] == ["0000.txt", "0001.txt"] and lines[-1].startswith("[the first 1,000; there are more")
    assert len(lines) == 1_001


async def test_names_that_nobody_expects(glob: GlobFiles, grep: Grep, work: Path):
    for name in (b"a\nb.txt", b"\xff\xfe.txt", b"-n.txt", "日本 語.txt".encode(), b"a:1:b.txt"):
        with open(os.fsencode(work) + b"/" + name, "w") as file:
            file.write("needle\n")
    names = ["-n.txt", "a:1:b.txt", r"a\nb.txt", "日本 語.txt", r"\xff\xfe.txt"]
    assert sorted((await call(glob, pattern="*.txt")).split("\n")) == sorted(names)
    rows = (await call(grep, pattern="needle")).split("\n")
    assert sorted(rows) == sorted(f"{name}:1:needle" for name in names)
    listed = (await call(ListFiles(work, ReadTracker()))).split("\n")
    assert sorted(row.removesuffix("  7") for row in listed) == sorted(names)
    for name in names:  # what was shown can be used
        assert await call(grep, pattern="needle", path=name) == f"{name}:1:needle"
        assert "needle" in await call(ReadFile(work, ReadTracker()), path=name)


@given(st.text("ab*?[]!-./{},", max_size=12), st.lists(st.text("ab.", min_size=1, max_size=4), min_size=1, max_size=4))
def test_glob_never_fails_on_a_path(pattern: str, names: list[str]):
    try:
        glob = Glob(pattern)
    except ValueError:
        return
    assert glob.matches("/".join(names)) in (True, False)


@pytest.mark.long
def test_glob_takes_no_time_to_speak_of():
    began = time.monotonic()
    assert not Glob("*a" * 100 + "b").matches("a" * 255)
    assert not Glob("**/a/" * 100 + "b").matches("a/" * 1_000 + "a")
    assert time.monotonic() - began < 2


# -- list_files -----------------------------------------------------------------------------------------------------


async def test_directory_is_listed(work: Path, monkeypatch: pytest.MonkeyPatch):
    tree(work, sub__x="", DOTdot="12345", file="x" * 1_234)
    (work / "link").symlink_to("file")
    (work / "gone").symlink_to("nowhere")
    (work / "loop").symlink_to("loop")
    (work / "outside").symlink_to("../outside/nothing")
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(work)  # a socket's path has at most 108 bytes
        listening.bind("socket")
    if has_device := os.geteuid() == 0:
        os.mknod(work / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    tool: Any = ListFiles(work, ReadTracker())
    assert (await call(tool)).split("\n") == [
        ".dot  5",
        *(["device  (device)"] if has_device else []),
        "fifo  (pipe)",
        "file  1,234",
        "gone -> nowhere  (broken link)",
        "link -> file",
        "loop -> loop  (broken link)",
        "outside -> ../outside/nothing",
        "socket  (socket)",
        "sub/",
    ]
    (work / "sub" / "x").unlink()
    assert await call(tool, path="sub") == "[sub is empty]"
    with pytest.raises(OSError, match="file is a file, not a directory"):
        await run(tool, path="file")
    for n in range(2_100):
        (work / "sub" / f"{n:04}").touch()
    lines = (await call(tool, path="sub")).split("\n")
    assert lines[0] == "0000  0" and lines[-1] == "[100 more entries]" and len(lines) == 2_001


SECRETS = (".env", "deploy/server.pem", "secrets.json", ".aws/config", "id_rsa")


@pytest.fixture
def keys(work: Path) -> Path:
    for name in (*SECRETS, "app.py", ".env.example", "deploy/notes.txt"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("KEY=needle\n")
    return work


@pytest.mark.parametrize("arguments", [{}, {"ignored": True}, {"context": 2}, {"files_only": True}])
async def test_grep_skips_files_that_look_like_keys_and_names_them(grep: Grep, keys: Path, arguments: dict[str, Any]):
    *found, note = (await call(grep, pattern="KEY", **arguments)).split("\n")
    assert {line.partition(":")[0].partition("-")[0] for line in found if line != "--"} == {
        ".env.example", "app.py", "deploy/notes.txt",
    }  # fmt: skip
    assert note == (
        "[skipped, as they look like files with keys or passwords: .aws/config, .env, deploy/server.pem, id_rsa, "
        "secrets.json; to read one, name it as the path]"
    )


async def test_grep_skips_what_the_glob_asks_for_whether_it_matches_or_not(grep: Grep, keys: Path):
    for pattern in ("needle", "no such line"):
        answer = await call(grep, pattern=pattern, glob=".env", ignored=True)
        assert answer.startswith("[no line matches]\n[skipped, ") and ": .env; to read one" in answer


async def test_grep_searches_a_file_that_looks_like_keys_when_it_is_the_path(grep: Grep, keys: Path):
    assert (await preview(grep, pattern="KEY", path=".env")).paths == (str(keys.resolve() / ".env"),)
    assert await call(grep, pattern="KEY", path=".env") == ".env:1:KEY=needle"


async def test_grep_skips_the_configuration_of_git_in_its_folder(grep: Grep, keys: Path):
    tree(keys, DOTgit__config="KEY\n", DOTgit__description="KEY\n")
    assert (await call(grep, pattern="KEY", path=".git")).startswith(".git/description:1:KEY\n[skipped, ")


async def test_grep_searches_a_folder_that_looks_like_keys_when_it_is_the_path(grep: Grep, keys: Path):
    tree(keys, DOTaws__credentials="KEY\n")
    found = await call(grep, pattern="KEY", path=".aws")
    assert found.startswith(".aws/config:1:KEY=needle\n[skipped, ") and ".aws/credentials; to read" in found


async def test_glob_skips_files_that_look_like_keys_and_names_them(glob: GlobFiles, keys: Path):
    *found, note = (await call(glob, pattern="*")).split("\n")
    assert found == [".env.example", "app.py", "deploy/notes.txt"]
    assert ": .aws/config, .env, deploy/server.pem, id_rsa, secrets.json; to read one" in note
    assert (await call(glob, pattern="*.pem")).startswith("[no file matches]\n[skipped, ")


async def test_names_of_skipped_files_are_capped(glob: GlobFiles, work: Path):
    for number in range(25):
        (work / f"{number:02}.pem").write_text("KEY\n")
    answer = await call(glob, pattern="*")
    assert "08.pem, 09.pem and 15 more; to read one" in answer and "10.pem" not in answer
