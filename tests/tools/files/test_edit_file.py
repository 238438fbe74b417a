"""edit_file over real files: exactly what was asked for changes, or nothing does and the words say what to do."""

import json
import os
import stat
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.tools.files.contents import MAX_WHOLE_BYTES
from ikigai.tools.files.diffs import unified_diff
from ikigai.tools.files.edit_file import EditFileArguments, replace_text
from ikigai.tools.files.edit_hint import nearest_place
from tests.tools.files.hands import Hands, call, preview, run


async def edited(hands: Hands, data: bytes, **arguments: object) -> bytes:
    (hands.directory / "a").write_bytes(data)
    await call(hands.read, path="a")
    await call(hands.edit, path="a", **arguments)
    return (hands.directory / "a").read_bytes()


async def refused(hands: Hands, data: bytes, **arguments: object) -> str:
    (hands.directory / "a").write_bytes(data)
    await call(hands.read, path="a")
    for do in (preview, run):
        with pytest.raises((LookupError, ValueError, OSError)) as caught:
            await do(hands.edit, path="a", **arguments)
    assert (hands.directory / "a").read_bytes() == data
    return str(caught.value)


async def test_one_text_for_another(hands: Hands):
    assert await edited(hands, b"one\ntwo\nthree\n", old="two", new="2") == b"one\n2\nthree\n"
    assert await edited(hands, b"one\ntwo\nthree\n", old="one\ntwo\n", new="") == b"three\n"
    assert await edited(hands, b"a.b.c.", old=".", new="..", all=True) == b"a..b..c.."
    assert await edited(hands, b"aaaa", old="aa", new="b", all=True) == b"bb"
    assert await edited(hands, b"a(b)*\\1$", old="(b)*\\1", new="\\1\\g<0>") == b"a\\1\\g<0>$"


async def test_result_of_an_edit_names_its_lines(hands: Hands, work: Path):
    (work / "a").write_text("x = 1\ny = 1\n" * 2)
    await call(hands.read, path="a")
    effect = await preview(hands.edit, path="a", old="= 1", new="= 2", all=True)
    assert (effect.kind, effect.shown, effect.paths) == ("edit", "a", (str(work / "a"),))
    assert effect.diff.startswith("--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n-x = 1\n")
    told = await call(hands.edit, path="a", old="= 1", new="= 2", all=True)
    assert told == "Edited a in 4 places, lines 1, 2, 3, 4."


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree", b"one\r\n2\r\n2\r\nthree"),  # CRLF, no end at the end
        (b"one\ntwo\nthree\r\n", b"one\n2\n2\nthree\r\n"),  # mixed
        (b"one\ntwo\r\nthree\n", b"one\n2\r\n2\r\nthree\n"),
        (b"\xef\xbb\xbfone\ntwo\nthree\n", b"\xef\xbb\xbfone\n2\n2\nthree\n"),
        (b"\xe9ne\ntwo\n", b"\xe9ne\n2\n2\n"),  # Latin-1
        (b"\x80ne\ntwo\n", b"\x80ne\n2\n2\n"),  # Windows-1252
        ("日本語é\n".encode() + b"\xff\ntwo\n", "日本語é\n".encode() + b"\xff\n2\n2\n"),  # nearly UTF-8
        ("ö\r\ntwo\r\n".encode("utf-16"), b"\xff\xfe" + "ö\r\n2\r\n2\r\n".encode("utf-16-le")),
        (b"a\0" * 5_000 + b"two", None),
        (b"one\rtwo\rthree", b"one\r2\n2\rthree"),  # of an old Mac
    ],
)
async def test_everything_around_stays_byte_for_byte(hands: Hands, before: bytes, after: bytes | None):
    if after is None:
        (hands.directory / "a").write_bytes(before)
        with pytest.raises(ValueError, match="binary"):
            await call(hands.read, path="a")
        return
    assert await edited(hands, before, old="two", new="2\n2") == after


async def test_named_encoding_is_kept(hands: Hands, work: Path):
    (work / "a").write_bytes("日本\r\n語\r\n".encode("shift_jis"))
    await call(hands.read, path="a", encoding="shift_jis")
    await call(hands.edit, path="a", old="本", new="間")
    assert (work / "a").read_bytes() == "日間\r\n語\r\n".encode("shift_jis")
    with pytest.raises(ValueError, match=r"shift_jis, the encoding of the file, cannot represent U\+20AC \(€\)"):
        await preview(hands.edit, path="a", old="間", new="€")


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "é", "ab"]), max_size=40),
    st.lists(st.sampled_from(["a", "b", "\n", "é"]), min_size=1, max_size=3),
    st.sampled_from(["", "x", "x\ny", "\n"]),
)
def test_replacing_is_what_replace_does(pieces: list[str], wanted: list[str], new: str):
    text, old = "".join(pieces), "".join(wanted)
    plain = text.replace("\r\n", "\n")
    if old == new:
        with pytest.raises(ValueError, match="the same text"):
            replace_text(text, old, new, every=True)
    elif old not in plain:
        with pytest.raises(LookupError, match="not in the file"):
            replace_text(text, old, new, every=True)
    else:
        made, lines = replace_text(text, old, new, every=True)
        assert made.replace("\r\n", "\n") == plain.replace(old, new) and len(lines) == plain.count(old)
        if "\r\n" not in text or text.count("\r\n") == text.count("\n"):  # of one kind: they stay so
            assert ("\r\n" in text) or "\r\n" not in made
            assert "\r\n" not in text or made.count("\r\n") == made.count("\n")


async def test_text_that_is_there_twice(hands: Hands):
    words = await refused(hands, b"x\nsame\ny\nsame\n", old="same", new="other")
    assert "is in the file 2 times, lines 2, 4: include more of the surrounding text" in words
    assert "2 times, lines 1, 1" in await refused(hands, b"aaa", old="aa", new="b")
    assert "100 times or more, lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more" in await refused(
        hands, b"a\n" * 100_000, old="a", new="b"
    )


async def test_text_that_is_not_there(hands: Hands):
    data = b"def one():\n    return 1\n\n\ndef two():\n\treturn 2\n"
    words = await refused(hands, data, old="def two():\n    return 2", new="x")
    assert words == (
        "the old text is not in the file. The text in lines 5 to 6 differs only in whitespace:\n"
        "     5\tdef two():\n     6\t\treturn 2\n"
        "Line 6: the file has U+0009 tab, old has U+0020 SPACE (4 times)."
    )
    words = await refused(hands, data, old="def one(x):\n    return 1", new="x")
    assert "The text in lines 1 to 2 is nearest:\n     1\tdef one():" in words
    words = await refused(hands, data, old="    retrun 1", new="x")
    assert "The text in line 2 is nearest:\n     2\t    return 1" in words
    assert "No line of the file is similar." in await refused(hands, data, old="qqqqqqqq", new="x")
    assert "the same text" in await refused(hands, data, old="one", new="one")
    assert "not in the file" in await refused(hands, data, old="ONE", new="x")
    assert "line 6" in await refused(hands, data, old="\treturn 2\n\n", new="x")


@pytest.mark.parametrize(
    ("line", "old", "told"),
    [
        ("say(“hi)", 'say("hi)', "the file has U+201C LEFT DOUBLE QUOTATION MARK, old has U+0022 QUOTATION MARK"),
        ("it’s", "it's", "the file has U+2019 RIGHT SINGLE QUOTATION MARK, old has U+0027 APOSTROPHE"),
        ("x = 1", "x\xa0= 1", "the file has U+0020 SPACE, old has U+00A0 NO-BREAK SPACE"),
        ("3\u202fPM", "3 PM", "the file has U+202F NARROW NO-BREAK SPACE, old has U+0020 SPACE"),
        (
            "caf\u00e9",
            "cafe\u0301",
            "the file has U+00E9 LATIN SMALL LETTER E WITH ACUTE, "
            "old has U+0065 LATIN SMALL LETTER E U+0301 COMBINING ACUTE ACCENT",
        ),
        ("a – b", "a - b", "the file has U+2013 EN DASH, old has U+002D HYPHEN-MINUS"),
        ("end", "end  ", "the file has nothing, old has U+0020 SPACE (2 times)"),
    ],
)
def test_difference_that_does_not_show_is_named_by_code_points(line: str, old: str, told: str):
    words = nearest_place(f"first\n{line}\nlast\n", f"{old}\nlast")
    assert words.endswith(f"\nLine 2: {told}.") and "differs only in" in words


@pytest.mark.long
def test_nearest_takes_no_time_to_speak_of():
    text = "".join(f"    value_{n % 977} = compute({n})  # and some words\n" for n in range(200_000))
    began = time.monotonic()
    nearest_place(text, "\n".join(f"    value_{n} = compute[{n}]" for n in range(3_000)))
    nearest_place(text, "x" * 5_000_000)
    nearest_place("}\n" * 1_000_000, "}\n" * 50_000 + "{")
    assert time.monotonic() - began < 15


async def test_file_must_be_read_first_and_not_have_changed(hands: Hands, work: Path):
    (work / "a").write_text("one\n")
    for do in (preview, run):
        with pytest.raises(ValueError, match="has not been read"):
            await do(hands.edit, path="a", old="one", new="two")
    await call(hands.read, path="a")
    (work / "a").write_text("one \n")
    for do in (preview, run):
        with pytest.raises(ValueError, match="changed since it was read"):
            await do(hands.edit, path="a", old="one", new="two")
    (work / "a").unlink()
    with pytest.raises(FileNotFoundError, match="a does not exist any more"):
        await preview(hands.edit, path="a", old="one", new="two")
    other = Hands(work)  # what one agent read, another did not
    (work / "a").write_text("one\n")
    await call(hands.read, path="a")
    with pytest.raises(ValueError, match="has not been read"):
        await preview(other.edit, path="a", old="one", new="two")


async def test_preview_of_an_edit_reveals_nothing_of_an_unread_file(hands: Hands, work: Path):
    told = set[str]()
    for path in ("../outside/private.txt", "../outside/none"):
        for old in ("the secret", "something else"):
            with pytest.raises(ValueError) as caught:
                await preview(hands.edit, path=path, old=old, new="x")
            told.add(str(caught.value).replace(path, ""))
    assert told == {" has not been read: read it first, with read_file."}


async def test_file_changed_after_the_preview_is_not_edited(hands: Hands, work: Path):
    (work / "a").write_text("one\ntwo\n")
    await call(hands.read, path="a")
    await preview(hands.edit, path="a", old="one", new="1")
    (work / "a").write_text("one\nthree\n")
    await call(hands.read, path="a")
    with pytest.raises(OSError, match="changed after this edit was shown"):
        await run(hands.edit, path="a", old="one", new="1")
    assert (work / "a").read_text() == "one\nthree\n"


async def test_several_edits_of_one_file_approved_together(hands: Hands, work: Path):
    (work / "a").write_text("one\ntwo\nthree\n")
    await call(hands.read, path="a")
    edits = [{"old": old, "new": new} for old, new in (("one", "1"), ("two", "2"), ("three", "3"))]
    for edit in edits:
        await preview(hands.edit, path="a", **edit)
    for edit in edits:
        await run(hands.edit, path="a", **edit)
    assert (work / "a").read_text() == "1\n2\n3\n"
    for edit in ({"old": "1", "new": "one"}, {"old": "2", "new": "two"}):
        await preview(hands.edit, path="a", **edit)
    await run(hands.edit, path="a", old="1", new="one")
    (work / "a").write_text("one\n2\n3\nmine\n")  # somebody else, in between
    with pytest.raises(ValueError, match="changed since it was read"):
        await run(hands.edit, path="a", old="2", new="two")


async def test_mode_owner_and_attributes_are_kept(hands: Hands, work: Path):
    (work / "a").write_text("one\n")
    (work / "a").chmod(0o4751)
    if os.geteuid() == 0:
        os.chown(work / "a", 1234, 2345)
        (work / "a").chmod(0o4751)
    try:
        os.setxattr(work / "a", "user.ikigai", b"kept")
        attributes = True
    except (OSError, AttributeError):  # a file system without them
        attributes = False
    before = (work / "a").stat()
    await call(hands.read, path="a")
    await call(hands.edit, path="a", old="one", new="two")
    after = (work / "a").stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o4751, before.st_uid, before.st_gid)
    assert not attributes or os.getxattr(work / "a", "user.ikigai") == b"kept"


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_file_with_a_second_name_keeps_it(hands: Hands, work: Path, tool: str):
    (work / "a").write_text("one\n")
    (work / "b").hardlink_to(work / "a")
    await call(hands.read, path="a")
    arguments = {"old": "one", "new": "two"} if tool == "edit" else {"content": "two\n"}
    told = await call(getattr(hands, tool), path="a", **arguments)
    assert "Written in place, as it has 2 names (hard links)." in told
    assert (work / "b").read_text() == "two\n" and (work / "a").samefile(work / "b")
    await call(hands.edit, path="a", old="two", new="three")  # it knows the file as it is now


@pytest.fixture
def mounted(work: Path):
    """Return a file on which another one is mounted."""
    (work / "a").touch()
    (source := work.parent / "source").write_text("one\n")
    if subprocess.run(["mount", "--bind", source, work / "a"], capture_output=True).returncode:
        pytest.skip("only root mounts files")
    yield source
    subprocess.run(["umount", work / "a"], check=True)


async def test_file_that_is_mounted_alone_is_edited(hands: Hands, work: Path, mounted: Path):
    await call(hands.read, path="a")
    told = await call(hands.edit, path="a", old="one", new="two")
    assert "Written in place, as the system does not let it be replaced (Device or resource busy)." in told
    assert mounted.read_text() == "two\n" and [each.name for each in work.iterdir()] == ["a"]


async def test_through_a_link_the_file_is_edited_and_the_link_stays(hands: Hands, work: Path):
    (work / "real").write_text("one\n")
    (work / "link").symlink_to("real")
    await call(hands.read, path="real")
    effect = await preview(hands.edit, path="link", old="one", new="two")
    assert effect.paths == (str(work / "real"),) and effect.shown == "real"
    await run(hands.edit, path="link", old="one", new="two")
    assert (work / "link").is_symlink() and (work / "real").read_text() == "two\n"


async def test_file_that_is_too_large(hands: Hands, work: Path):
    (work / "a").write_text("line\n" * (MAX_WHOLE_BYTES // 5 + 1))
    await call(hands.read, path="a", limit=1)
    with pytest.raises(ValueError, match="at most 10,000,000 can be edited"):
        await preview(hands.edit, path="a", old="line", new="x")


@pytest.mark.long
async def test_ten_megabytes_take_no_time_to_speak_of(hands: Hands, work: Path):
    (work / "a").write_text("a line\n" * (MAX_WHOLE_BYTES // 7))
    await call(hands.read, path="a", limit=1)
    began = time.monotonic()
    assert "1,428,571 places" in await call(hands.edit, path="a", old="line", new="word", all=True)
    with pytest.raises(LookupError, match="100 times or more"):
        await preview(hands.edit, path="a", old="a word\n" * 700_000, new="x" * 5_000_000)
    assert time.monotonic() - began < 30


def test_arguments_of_the_wrong_kind():
    for arguments in (
        {"path": "a", "old": "", "new": "x"},
        {"path": "a", "old": "x"},
        {"path": "a", "old": "x", "new": 1},
        {"path": "a", "old": "x", "new": "y", "more": 1},
        {"path": ["a"], "old": "x", "new": "y"},
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(arguments), type=EditFileArguments)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(rb'{"path": "a", "old": "x", "new": "\udc80"}', type=EditFileArguments)


async def test_lone_surrogate_is_not_written(hands: Hands, work: Path):
    (work / "a").write_text("x")
    await call(hands.read, path="a")
    with pytest.raises(ValueError, match=r"cannot represent U\+DC80"):
        await hands.edit.preview(EditFileArguments("a", "x", "\udc80"))


# -- diffs ----------------------------------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=30).map("".join)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_diff_makes_the_new_file_of_the_old(before: str, after: str, one: bool, other: bool):
    before, after = before + "end" * one, after + "end" * other
    diff = unified_diff(before, after, "a")
    assert (diff == "") == (before == after)
    if diff:
        assert applied(before, diff) == after


def applied(before: str, diff: str) -> str:
    """Apply a diff as `patch` does; written from the description of the format, independently of the product."""
    old, made, at = before.split("\n"), list[str](), 0
    end, last = "\n", ""
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].partition(",")[0][1:])
            count = int(line.split()[1].partition(",")[2] or 1)
            begin = start if count == 0 else start - 1
            made += old[at:begin]
            at = begin
        elif line.startswith("\\"):
            end = "" if last in "+ " else end
        else:
            last = line[0]
            if last in "- ":
                assert old[at] == line[1:]
                at += 1
            if last in "+ ":
                made.append(line[1:])
    rest = old[at:]
    if rest not in ([], [""]):
        made += rest[:-1] if rest[-1] == "" else rest
        end = "\n" if rest[-1] == "" else ""
    return "\n".join(made) + end if made else ""


def test_patch_program_takes_the_diff(work: Path):
    before = "".join(f"line {n}\n" for n in range(1_000))
    after = before.replace("line 500\n", "five hundred\n").replace("line 10\n", "").replace("line 999\n", "last")
    diff = unified_diff(before, after, "a.txt") + "\n"
    (work / "a.txt").write_text(before)
    subprocess.run(["git", "apply", "--unsafe-paths", "-p1"], cwd=work, input=diff, text=True, check=True)
    assert (work / "a.txt").read_text() == after


def test_diff_is_bounded_in_size_and_time():
    began = time.monotonic()
    many = unified_diff("".join(f"{n}\n" for n in range(100_000)), "".join(f"{-n}\n" for n in range(1, 100_000)), "a")
    assert many.count("\n") < 2_010 and "more lines of this diff are not shown]" in many
    long = unified_diff("x" * 3_000_000, "y" * 3_000_000, "a")
    assert len(long) < 5_000 and "[2,999,0" in long
    unified_diff("a\nb\n" * 900, "b\na\n" * 900, "a")
    assert time.monotonic() - began < 20
