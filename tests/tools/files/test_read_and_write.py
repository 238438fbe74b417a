"""read_file and write_file over real files: plain, odd, hostile, and changed behind the agent's back."""

import asyncio
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from PIL import Image as Pillow

from ikigai.core.errors import Rejected
from ikigai.core.events.messages import ToolCall
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.images.picture_files import PNG
from ikigai.tools.approval.allow_rules import parse_rules
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import Allow, decide_approval
from ikigai.tools.base import EffectKind
from ikigai.tools.files.contents import MAX_WHOLE_BYTES, read_present, replace
from ikigai.tools.files.safe_paths import is_inside, open_file, resolve_path
from tests import ROOT
from tests.tools.files.hands import Hands, call, preview, run


async def lines(hands: Hands, path: str, **more: object) -> tuple[str, list[str]]:
    head, *body = (await call(hands.read, path=path, **more)).split("\n")
    return head, body


# -- reading --------------------------------------------------------------------------------------------------------


async def test_lines_are_numbered_as_cat_does(hands: Hands, work: Path):
    (work / "a.txt").write_text("one\n\n\tthree\nfour\n")
    told = await call(hands.read, path="a.txt")
    cat = ["cat", "-n", "a.txt"]
    expected = subprocess.run(cat, cwd=work, capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
    assert told == "[lines 1 to 4 of 4]\n" + expected.removesuffix("\n")


async def test_pages_are_the_whole_file(hands: Hands, work: Path):
    text = "".join(f"line {n}\n" for n in range(1, 5_001))
    (work / "a.txt").write_text(text)
    offset, found = 1, list[str]()
    while True:
        head, body = await lines(hands, "a.txt", offset=offset, **({"limit": 700} if offset > 1 else {}))
        found += [line.partition("\t")[2] for line in body]
        on = re.search(r"continue with offset=(\d+)", head)
        if not on:
            break
        offset = int(on[1])
    assert head == "[lines 4,801 to 5,000 of 5,000]" and "\n".join(found) + "\n" == text
    with pytest.raises(LookupError, match="no line 5,001: the file has 5,000 lines"):
        await run(hands.read, path="a.txt", offset=5_001)


async def test_oddities_of_a_file_are_named(hands: Hands, work: Path):
    for data, head, first in (
        (b"", "[the file is empty]", None),
        (b"x", "[lines 1 to 1 of 1; no newline at the end]", "x"),
        (b"x\r\ny\r\n", "[lines 1 to 2 of 2; CRLF line endings]", "x"),
        (b"x\r\ny\n", "[lines 1 to 2 of 2; mixed line endings]", "x"),
        (b"caf\xe9\n", "[lines 1 to 1 of 1; Latin-1]", "café"),
        (b"5 \x80\n", "[lines 1 to 1 of 1; Windows-1252]", "5 €"),
        ("\ufeffé\n".encode(), "[lines 1 to 1 of 1; UTF-8 with a byte order mark]", "é"),
        ("é\n".encode("utf-16"), "[lines 1 to 1 of 1; utf-16-le with a byte order mark]", "é"),
        ("日本語 \n".encode() + b"\xff\n", "[lines 1 to 2 of 2; UTF-8 with invalid bytes, shown as \ufffd]", "日本語 "),
    ):
        (work / "a").write_bytes(data)
        told, *body = (await call(hands.read, path="a")).split("\n")
        assert (told, body[0].partition("\t")[2] if body else None) == (head, first), data


async def test_named_encoding(hands: Hands, work: Path):
    (work / "a").write_bytes("日本語".encode("shift_jis"))
    assert "日本語" in await call(hands.read, path="a", encoding="Shift_JIS")
    for name in ("rot13", "zip", "idna", "no such", "a\0b", "utf-8"):
        with pytest.raises(ValueError):
            await run(hands.read, path="a", encoding=name)


async def test_binary_files_are_named_and_not_shown(hands: Hands, work: Path):
    for name in (sys.executable, "zeros", "controls"):
        (work / "zeros").write_bytes(bytes(5000))
        (work / "controls").write_bytes(bytes(range(1, 32)) * 100 + b"\xff")
        with pytest.raises(ValueError, match=r"is a binary file of [\d,]+ bytes; it begins with"):
            await call(hands.read, path=name)


async def test_long_lines_and_long_answers_are_cut(hands: Hands, work: Path):
    (work / "long").write_text("x" * 5_000_000 + "\nshort\n")
    head, body = await lines(hands, "long")
    assert head == "[lines 1 to 2 of 2]" and len(body[0]) < 2_100 and body[0].endswith("… [the line is longer]")
    (work / "many").write_text(("y" * 1_000 + "\n") * 9_000)
    told = await call(hands.read, path="many", limit=9_000)
    assert len(told) < 410_000 and re.match(r"\[lines 1 to \d+ of 9,000; continue with offset=\d+\]", told)


async def test_huge_file_is_read_no_further_than_needed(hands: Hands, work: Path):
    with (work / "huge").open("wb") as file:
        for n in range(1, 300_001):
            file.write(b"line %07d of a long file with some words in it\r\n" % n)
        file.seek(3 << 30)
        file.write(b"end")
    began = time.monotonic()
    head, body = await lines(hands, "huge", limit=3)
    assert head == "[lines 1 to 3 of a file of 3,221,225,475 bytes; continue with offset=4]"
    assert body[2] == "     3\tline 0000003 of a long file with some words in it"
    head, body = await lines(hands, "huge", offset=299_999, limit=1)
    assert body == ["299999\tline 0299999 of a long file with some words in it"]
    with pytest.raises(ValueError, match="after the first 256,000,000 bytes"):
        await call(hands.read, path="huge", offset=400_000)
    assert time.monotonic() - began < 20


async def test_large_and_small_files_read_alike(hands: Hands, work: Path):
    text = "".join(f"{'é' * (n % 90)} {n}\n" for n in range(120_000))
    (work / "large").write_text(text)
    assert (work / "large").stat().st_size > MAX_WHOLE_BYTES
    wanted = text.split("\n")
    for offset in (1, 2, 59_999, 119_990):
        head, body = await lines(hands, "large", offset=offset, limit=20)
        assert [line.partition("\t")[2] for line in body] == wanted[offset - 1 : offset + 19][: len(body)]
    assert head == "[lines 119,990 to 120,000 of 120,000]" and len(body) == 11
    with pytest.raises(LookupError, match="the file has 120,000 lines"):
        await run(hands.read, path="large", offset=120_001)


async def test_image_is_shown(hands: Hands, work: Path):
    Pillow.new("RGB", (30, 20), (250, 10, 10)).save(work / "a.txt", "PNG")
    Pillow.new("RGB", (30, 20)).save(work / "b.gif")
    output = await run(hands.read, path="a.txt")
    assert output.text == "[image a.txt, image/png, 30 × 20 pixels as shown]"
    assert (output.images[0].width, output.images[0].media_type, output.images[0].name) == (30, PNG, "a.txt")
    assert (await run(hands.read, path="b.gif")).images[0].media_type == PNG
    (work / "broken.png").write_bytes((work / "a.txt").read_bytes()[:50])
    with pytest.raises(Rejected, match=r"broken\.png is damaged"):
        await run(hands.read, path="broken.png")


def test_pillow_is_imported_for_images_only():
    program = (
        "import asyncio, sys; from pathlib import Path; from tests.tools.files.hands import Hands, call;"
        "asyncio.run(call(Hands(Path('.')).read, path='pyproject.toml')); print([m for m in sys.modules if m == 'PIL'"
        " or m in ('httpx', 'markdownify', 'bs4')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- paths ----------------------------------------------------------------------------------------------------------


async def test_preview_shows_where_a_path_leads(hands: Hands, work: Path):
    (work / "sub").mkdir()
    (work / "link").symlink_to("../outside")
    (work / "good").symlink_to("sub")
    outside = work.parent / "outside"
    for name, path, within in (
        ("a", work / "a", True),
        ("sub/../a", work / "a", True),
        ("good/a", work / "sub" / "a", True),
        ("../outside/a", outside / "a", False),
        ("link/a", outside / "a", False),
        ("sub/../../outside/a", outside / "a", False),
        ("link/../a", work.parent / "a", False),
        (str(outside / "a"), outside / "a", False),
        ("~/a", Path.home() / "a", False),
        ("../work2/a", work.parent / "work2" / "a", False),
    ):
        for tool, more in ((hands.read, {}), (hands.write, {"content": "x"})):
            effect = await preview(tool, path=name, **more)
            assert (effect.paths, effect.inside) == ((str(path),), within), name
            assert effect.kind == (EffectKind.READ if tool is hands.read else EffectKind.EDIT)
            assert effect.directory == str(work)


async def test_working_directory_that_is_itself_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    assert (await preview(Hands(tmp_path / "alias").read, path="a")).inside
    assert is_inside(resolve_path("a/../b", tmp_path / "alias"), tmp_path / "alias")


async def test_special_file_is_refused_without_waiting(hands: Hands, work: Path):
    os.mkfifo(work / "fifo")
    (work / "loop").symlink_to("loop")
    (work / "sub").mkdir()
    (work / "file").write_text("x")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(work / "socket"))
    began = time.monotonic()
    for name, words in (
        ("fifo", "is a pipe, not a file"),
        ("/dev/zero", "is a device, not a file"),
        ("/dev/stdin", "not a file|does not exist|not a directory"),
        ("socket", "is a socket, not a file"),
        ("sub", "is a directory, not a file; list_files"),
        (".", "is a directory, not a file"),
        ("/", "is a directory, not a file|permission"),
        ("missing", "missing does not exist"),
        ("sub/missing/deep", "sub/missing/deep does not exist"),
        ("file/below", "not a directory"),
        ("loop", "is a symbolic link, not a file|loop"),
        ("x" * 300, "too long"),
        ("x" * 5_000_000, "too long"),
        ("a\0b", "contains a NUL"),
        ("", "is empty"),
    ):
        with pytest.raises((OSError, ValueError), match=words) as caught:
            await call(hands.read, path=name)
        assert caught.type is not UnicodeEncodeError
        if "does not exist" not in words:
            with pytest.raises((OSError, ValueError)):
                await call(hands.write, path=name, content="x")
    server.close()
    assert time.monotonic() - began < 25
    assert sorted(each.name for each in work.iterdir()) == ["fifo", "file", "loop", "socket", "sub"]


async def test_files_that_may_not_be_touched():
    nobody = 65534 if os.geteuid() == 0 else os.geteuid()  # root may everything, so root becomes somebody else
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        os.chown(work, nobody, -1)
        for file, mode in (("secret", 0), ("fixed", 0o444)):
            (work / file).write_text("x")
            (work / file).chmod(mode)
        was = os.geteuid()
        os.seteuid(nobody)
        try:
            hands = Hands(work)
            with pytest.raises(PermissionError, match="secret: permission denied"):
                await call(hands.read, path="secret")
            await call(hands.read, path="fixed")
            with pytest.raises(PermissionError, match="fixed: permission denied"):
                await call(hands.write, path="fixed", content="y")
            await call(hands.write, path="new", content="y")
        finally:
            os.seteuid(was)
        assert (work / "fixed").read_text() == "x" and sorted(os.listdir(work)) == ["fixed", "new", "secret"]


# -- writing --------------------------------------------------------------------------------------------------------


async def test_new_file(hands: Hands, work: Path):
    old = os.umask(0o027)
    try:
        effect = await preview(hands.write, path="new/deep/a.txt", content="one\ntwo")
        assert effect.shown == "new/deep/a.txt" and not (work / "new").exists()
        assert effect.diff.split("\n") == [
            "--- /dev/null",
            "+++ b/new/deep/a.txt",
            "@@ -0,0 +1,2 @@",
            "+one",
            "+two",
            "\\ No newline at end of file",
        ]
        told = await call(hands.write, path="new/deep/a.txt", content="one\ntwo")
    finally:
        os.umask(old)
    assert told == (
        "Created new/deep/a.txt: 2 lines, 7 bytes.\nCreated the directory new.\nCreated the directory new/deep."
    )
    assert (work / "new/deep/a.txt").read_bytes() == b"one\ntwo"
    assert stat.S_IMODE((work / "new/deep/a.txt").stat().st_mode) == 0o640
    assert os.listdir(work / "new/deep") == ["a.txt"]
    assert (await call(hands.write, path="new/deep/a.txt", content="")).startswith("Wrote new/deep/a.txt: 0 lines")


@pytest.mark.parametrize("lines", [170_000, pytest.param(1_700_000, marks=pytest.mark.long)])
async def test_five_megabytes(hands: Hands, work: Path, lines: int):
    content = f"{'é' * (2_550_000 // lines)}\n" * lines
    await call(hands.write, path="a", content=content)
    assert (work / "a").read_text() == content
    effect = await preview(hands.write, path="b", content=content)
    assert len(effect.diff) < 100_000 and "more lines of this diff are not shown]" in effect.diff


@pytest.mark.parametrize("content", ["one\n", "", "\ufeffone\r\ntwo\r\n", "no line end", "x" * 100_000])
@pytest.mark.parametrize("name", ["a.txt", ".git/config", ".envrc", "../outside.txt"])
async def test_file_with_this_content_already_is_not_written_and_not_asked_about(
    hands: Hands, work: Path, name: str, content: str
):
    (work / ".git").mkdir(exist_ok=True)
    file = work / name
    file.write_bytes(content.encode())
    await run(hands.read, path=name)
    os.utime(file, ns=(1, 1))
    await run(hands.read, path=name)
    scope, allowlist = PathScope(str(work), (), ""), Allowlist(parse_rules([], ""))
    written = content.removeprefix("\ufeff").replace("\r\n", "\n")
    effect = await preview(hands.write, path=name, content=written)
    for mode in ApprovalMode:
        verdict = decide_approval(mode, ToolCall("1", "write_file"), effect, scope, allowlist, {})
        assert isinstance(verdict, Allow), mode
    assert not effect.diff
    output = await run(hands.write, path=name, content=written)
    assert output.text == f"{name} has this content already: nothing was written." and not output.diff
    assert file.stat().st_mtime_ns == 1 and file.read_bytes() == content.encode()
    await preview(hands.write, path=name, content=written)
    file.write_bytes(b"another")
    with pytest.raises((ValueError, OSError), match="changed"):
        await run(hands.write, path=name, content=written)
    assert file.read_bytes() == b"another"


async def test_file_that_was_not_read_is_not_overwritten(hands: Hands, work: Path):
    (work / "a").write_text("mine\n")
    for do in (preview, run):
        with pytest.raises(ValueError, match="exists and has not been read"):
            await do(hands.write, path="a", content="theirs")
    await call(hands.read, path="a")
    assert (await call(hands.write, path="a", content="theirs\n")).startswith("Wrote a: 1 line, 7 bytes.")
    await call(hands.write, path="a", content="again\n")
    (work / "a").write_text("mine again\n")
    for do in (preview, run):
        with pytest.raises(ValueError, match="changed since it was read"):
            await do(hands.write, path="a", content="theirs")
    assert (work / "a").read_text() == "mine again\n"


async def test_touched_file_with_the_same_content_is_not_stale(hands: Hands, work: Path):
    (work / "a").write_text("x\n")
    await call(hands.read, path="a")
    os.utime(work / "a", (1, 1))
    await call(hands.write, path="a", content="y\n")
    assert (work / "a").read_text() == "y\n"


async def test_file_changed_after_the_preview_is_not_overwritten(hands: Hands, work: Path):
    (work / "a").write_text("one\n")
    await call(hands.read, path="a")
    await preview(hands.write, path="a", content="two\n")
    (work / "a").write_text("mine\n")
    await call(hands.read, path="a")  # the agent knows it, but nobody approved a change of it
    with pytest.raises(OSError, match="changed after this call was shown"):
        await run(hands.write, path="a", content="two\n")
    await preview(hands.write, path="b", content="new\n")
    (work / "b").write_text("mine\n")
    await call(hands.read, path="b")
    with pytest.raises(OSError, match="changed after this call was shown"):
        await run(hands.write, path="b", content="new\n")
    assert (work / "a").read_text() == (work / "b").read_text() == "mine\n"


async def test_encoding_line_ends_and_mode_are_kept(hands: Hands, work: Path):
    for n, (data, content, expected) in enumerate(
        (
            (b"a\r\nb\r\n", "b\nc\n", b"b\r\nc\r\n"),
            (b"a\r\nb\n", "b\nc\n", b"b\nc\n"),
            (b"caf\xe9\n", "th\xe9\n", b"th\xe9\n"),
            ("\ufeffa\n".encode(), "é\n", "\ufeffé\n".encode()),
            ("é\r\n".encode("utf-16"), "日\n", b"\xff\xfe" + "日\r\n".encode("utf-16-le")),
        )
    ):
        file = work / str(n)
        file.write_bytes(data)
        file.chmod(0o751)
        await call(hands.read, path=file.name)
        await call(hands.write, path=file.name, content=content)
        assert file.read_bytes() == expected and stat.S_IMODE(file.stat().st_mode) == 0o751
    (work / "binary").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ValueError, match="is a binary file"):
        await call(hands.read, path="binary")
    with pytest.raises(ValueError, match="has not been read"):
        await call(hands.write, path="binary", content="x")
    (work / "a").write_bytes(b"caf\xe9\n")
    await call(hands.read, path="a")
    with pytest.raises(ValueError, match=r"Latin-1, the encoding of the file, cannot represent U\+65E5 \(日\)"):
        await preview(hands.write, path="a", content="日本\n")
    assert (work / "a").read_bytes() == b"caf\xe9\n"


def test_file_changed_during_the_write_is_not_overwritten(work: Path):
    file = work / "a"
    file.write_text("one\n")
    before = read_present(file)
    assert before
    file.write_text("mine\n")
    with pytest.raises(OSError, match="it changed while it was being written"):
        replace(file, b"two\n", before.state)
    with pytest.raises(OSError, match="a file with this name has appeared"):
        replace(file, b"two\n", None)
    file.unlink()
    file.symlink_to(work.parent / "outside" / "private.txt")
    for state in (None, before.state):
        with pytest.raises(OSError):
            replace(file, b"two\n", state)
    assert (work.parent / "outside" / "private.txt").read_text() == "the secret\n" and os.listdir(work) == ["a"]
    file.unlink()
    with pytest.raises(FileNotFoundError):
        replace(file, b"two\n", before.state)
    assert os.listdir(work) == []


FULL = """
import asyncio, resource, sys
from pathlib import Path
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.read_file import ReadFile, ReadFileArguments
from ikigai.tools.files.write_file import WriteFile, WriteFileArguments

async def main():
    work, tracker = Path(sys.argv[1]), ReadTracker()
    await ReadFile(work, tracker).run(ReadFileArguments("a.txt"), print)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        print(await WriteFile(work, tracker).run(WriteFileArguments("a.txt", "x" * 5000), print))
    except OSError as error:
        print(error)

asyncio.run(main())
"""


def test_write_without_room_leaves_the_file_unchanged(work: Path):
    """A limit on the size of files stands for a full disk: the kernel refuses in the middle of the writing."""
    (work / "a.txt").write_text("as it was\n")
    done = subprocess.run([sys.executable, "-c", FULL, str(work)], capture_output=True, text=True, check=True)
    assert done.stdout == "a.txt: File too large.\n", done
    assert [(file.name, file.read_text()) for file in work.iterdir()] == [("a.txt", "as it was\n")]


async def test_readers_never_see_half_a_file(hands: Hands, work: Path):
    texts = ("a" * 3_000_000, "b" * 3_000_000)
    await call(hands.write, path="a", content=texts[0])
    seen, done = set[str](), threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.add((work / "a").read_text())

    watching = asyncio.create_task(asyncio.to_thread(watch))
    try:
        for n in range(1, 6):
            await call(hands.write, path="a", content=texts[n % 2])
    finally:
        done.set()
        await watching
    assert seen == set(texts) and os.listdir(work) == ["a"]


async def test_link_swapped_after_the_approval_leads_nowhere(hands: Hands, work: Path):
    outside = work.parent / "outside"
    (work / "sub").mkdir()
    for tool, arguments in ((hands.write, {"content": "x"}), (hands.read, {})):
        (work / "sub" / "private.txt").write_text("harmless")
        await call(hands.read, path="sub/private.txt")
        await preview(tool, path="sub/private.txt", **arguments)
        shutil.rmtree(work / "sub")
        (work / "sub").symlink_to(outside)
        with pytest.raises(
            OSError, match=r"pointed to .*/work/sub/private\.txt when this call was shown, and points to"
        ):
            await run(tool, path="sub/private.txt", **arguments)
        (work / "sub").unlink()
        (work / "sub").mkdir()
    assert (outside / "private.txt").read_text() == "the secret\n"


@pytest.mark.long
async def test_links_that_change_all_the_time_lead_nowhere_else(work: Path):
    """Directory and link take turns under one name, while files are read and written through it."""
    outside, turn = work.parent / "outside", work / "turn"
    (work / "real").mkdir()
    (work / "real" / "private.txt").write_text("harmless")
    (work / "link").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("real", "link"):
                try:
                    os.rename(work / name, turn)
                except OSError:  # a write of a new file made it a directory
                    shutil.rmtree(turn)
                    os.rename(work / name, turn)
                os.rename(turn, work / name)

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    refused, through = 0, 0
    try:
        for _ in range(1_500):
            hands = Hands(work)
            try:
                await preview(hands.read, path="turn/private.txt")
                shown = (await preview(hands.read, path="turn/private.txt")).inside
                told = await run(hands.read, path="turn/private.txt")
                through += 1
                assert not shown or "the secret" not in told.text
                if shown:
                    await preview(hands.write, path="turn/private.txt", content="changed")
                    await run(hands.write, path="turn/private.txt", content="changed")
            except (OSError, ValueError):
                refused += 1
            assert (outside / "private.txt").read_text() == "the secret\n"
    finally:
        done.set()
        await swapping
    assert refused and through
    for each in (outside, work):
        assert not [name for name in os.listdir(each) if name.endswith(".tmp")]


def test_opening_follows_no_link_on_the_way(work: Path):
    (work / "link").symlink_to(work.parent / "outside")
    (work / "file").symlink_to(work.parent / "outside" / "private.txt")
    assert open_file(work.parent / "outside" / "private.txt").read() == b"the secret\n"
    for path in (work / "link" / "private.txt", work / "file"):
        with pytest.raises(OSError):
            open_file(path)


@pytest.mark.long
async def test_loop_goes_on_while_files_are_read(hands: Hands, work: Path):
    (work / "a").write_text("a line of a large file\n" * 400_000)
    longest, last = 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(call(hands.read, path="a", offset=n) for n in range(1, 9)))
    ticking.cancel()
    assert longest < 1


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GitHub token", "anthropic key", "database password"])
async def test_marker_of_a_secret_is_not_written_over_it(hands: Hands, work: Path, name: str):
    (work / "env").write_text("A=secret\n")
    await call(hands.read, path="env")
    for tool, arguments in (
        (hands.write, {"path": "env", "content": f"A=[redacted: {name}]\n"}),
        (hands.write, {"path": "new", "content": f"A=[redacted: {name}]\n"}),
        (hands.edit, {"path": "env", "old": "secret", "new": f"[redacted: {name}]"}),
        (hands.edit, {"path": "env", "old": f"[redacted: {name}]", "new": "public"}),
    ):
        with pytest.raises(ValueError, match="replaces a secret that you were not shown"):
            await call(tool, **arguments)
    assert (work / "env").read_text() == "A=secret\n" and not (work / "new").exists()


async def test_brackets_that_name_no_secret_or_were_there_before_are_written(hands: Hands, work: Path):
    assert await call(hands.write, path="law.txt", content="[redacted: privileged communication]\n")
    (work / "doc").write_text("It says [redacted: OPENAI_API_KEY] there.\n")
    await call(hands.read, path="doc")
    await call(hands.edit, path="doc", old="It says", new="Once it says")
    await call(hands.edit, path="doc", old="[redacted: OPENAI_API_KEY] there", new="[redacted: OPENAI_API_KEY] here")
    assert (work / "doc").read_text() == "Once it says [redacted: OPENAI_API_KEY] here.\n"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Screenshot 3.00\u202fPM.txt", "Screenshot 3.00 PM.txt"),
        ("caf\u00e9.txt", "cafe\u0301.txt"),
        ("cafe\u0301/a.txt", "caf\u00e9/a.txt"),
        ("it’s “so”.txt", 'it\'s "so".txt'),
        ("a\u2011b.txt", "a-b.txt"),
        ("a\tb.txt", r"a\tb.txt"),
    ],
)
async def test_file_is_found_by_a_name_that_looks_the_same(hands: Hands, work: Path, name: str, asked: str):
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text("one\n")
    effect = await preview(hands.read, path=asked)
    assert effect.paths == (str(work / name),)  # what is approved is what is read
    assert "one" in await call(hands.read, path=asked)
    await call(hands.edit, path=asked, old="one", new="two")
    await call(hands.write, path=asked, content="three\n")
    assert (work / name).read_text() == "three\n" and len(list((work / name).parent.iterdir())) == 1


async def test_names_that_look_the_same_are_told_apart(hands: Hands, work: Path):
    for space in ("\u202f", "\xa0"):
        (work / f"3{space}PM").touch()
        (work.parent / "outside" / f"3{space}PM").touch()
    with pytest.raises(FileNotFoundError, match="One has U\\+202F NARROW NO-BREAK SPACE, yours has U\\+0020 SPACE"):
        await preview(hands.read, path="3 PM")
    with pytest.raises(FileNotFoundError) as caught:
        await preview(hands.read, path="../outside/3 PM")
    assert "U+" not in str(caught.value)  # nothing of what lies elsewhere is told before a yes
    with pytest.raises(FileNotFoundError):
        await preview(hands.write, path="3 PM", content="x")
    await call(hands.read, path="3\xa0PM")


async def test_new_file_goes_into_the_folder_that_looks_the_same(hands: Hands, work: Path):
    (work / "caf\u00e9").mkdir()
    await call(hands.write, path="cafe\u0301/new/a.txt", content="x")
    assert [each.name for each in work.iterdir()] == ["caf\u00e9"] and (work / "caf\u00e9" / "new" / "a.txt").exists()
