"""Tests of what a message mentions: files, folders and pictures from a real disk, and the words that name nothing."""

import os
from pathlib import Path

import pytest
from PIL import Image as Pillow

from ikigai.app.attachments.attachments import (
    MAX_DOCUMENT_BYTES,
    LocalMentions,
    UnknownName,
    read_mentions,
    unknown_notice,
)
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Document, DocumentKind, Image
from ikigai.tools.files.search.list_files import MAX_LISTED_ENTRIES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("print(1)\nprint(2)\n")
    (tmp_path / "a b.txt").write_text("words")
    Pillow.new("RGB", (6, 4)).save(tmp_path / "cat.png")
    return tmp_path


def refusal(text: str) -> str:
    with pytest.raises(Rejected) as caught:
        read_mentions(text)
    assert caught.value.what.endswith(".") and caught.value.remedy.endswith(".")
    return caught.value.what


def test_files_folders_and_pictures_are_read_once_each_in_order(folder: Path):
    local = read_mentions('@cat.png ? and (@src/main.py), @"a b.txt", @src/ and @./src/main.py again')
    picture, code, words, listing = local.parts
    assert isinstance(picture, Image) and (picture.name, picture.width) == ("cat.png", 6)
    assert code == Document("src/main.py", "print(1)\nprint(2)\n")
    assert words == Document("a b.txt", "words")
    assert listing == Document("src/", "deep/\nmain.py  18\n", DocumentKind.FOLDER)
    assert local.unknown == local.doubtful == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("@gone.py", "gone.py"),
        ("see @gone.PY, please", "gone.PY"),
        ('@"gone too.webp"', "gone too.webp"),
        ("@./gone", "./gone"),
        ("@~/gone", "~/gone"),
        ("@gone/", "gone/"),
        ("@src/gone", "src/gone"),
        ("@/etc/gone-for-good", "/etc/gone-for-good"),
        ("@nowhere/gone.rs", "nowhere/gone.rs"),
    ],
)
def test_path_to_nothing_is_refused(folder: Path, text: str, name: str):
    assert refusal(text) == f"There is no file or folder {name}."


@pytest.mark.parametrize(
    "text",
    [
        "@anna said so",
        "@property",
        "@app.route",
        "update @types/node",
        'from "@/components/ui/button"',
        "@functools.cache",
        "@2x",
        '@"Hello"',
        "@\0",
    ],
)
def test_word_that_names_nothing_stays_a_word_without_a_notice(folder: Path, text: str):
    (folder / "types").mkdir()
    (folder / "package.json").write_text("{}")
    assert read_mentions(text) == LocalMentions()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@Makefle", "There is no file or folder @Makefle: sent as plain text. Did you mean @Makefile?"),
        ("@notes", "There is no file or folder @notes: sent as plain text. Did you mean @notes.md?"),
        ("see @scr.", "There is no file or folder @scr: sent as plain text. Did you mean @scrc?"),
        ("@ab_notes", 'There is no file or folder @ab_notes: sent as plain text. Did you mean @"ab notes"?'),
    ],
)
def test_word_that_is_nearly_a_name_is_told(folder: Path, text: str, told: str):
    for name in ("Makefile", "notes.md", "scrc", "ab notes"):
        (folder / name).touch()
    assert unknown_notice(read_mentions(text).unknown) == told


@pytest.mark.parametrize(
    "text",
    [
        "看@src/main.py",
        "看一下@src/main.py。",
        "@src/main.py的内容",
        "@src/main.py，还有其他",
        "「@src/main.py」を見て",
        "これは@src/main.pyです",
        "파일@src/main.py을",
        "`@src/main.py`",
        "**@src/main.py**",
        "*@src/main.py*:",
        "```@src/main.py```",
        "|@src/main.py|",
        "[@src/main.py]",
        "[@src/main.py](src/main.py)",
        "@src/main.py's functions",
        "@src/main.py—the first one",
        "@src/main.py:2",
        "@src/main.py:2-9",
        "@src/main.py:2:7",
        "(@src/main.py#L2)",
        "@src/main.py#L2-L9,",
        "@src/main.py#L2-9.",
        "`@src/main.py:2`。",
        "@anna,@src/main.py",
    ],
)
def test_file_is_attached_whatever_stands_around_it(folder: Path, text: str):
    local = read_mentions(text)
    assert local.parts == (Document("src/main.py", "print(1)\nprint(2)\n"),) and not local.unknown


def test_files_that_follow_on_one_another_are_attached(folder: Path):
    Path("说明.md").write_text("x")
    Path("b:3").write_text("y")
    local = read_mentions("比较@说明.md和@src/main.py、@b:3,@src/main.py:2")
    assert [each.name for each in local.parts if isinstance(each, Document)] == ["说明.md", "src/main.py", "b:3"]


@pytest.mark.parametrize("text", ["me@src", "a.b@src/main.py", "é@src/main.py", "https://x.org/@src/main.py", r"\@src"])
def test_at_sign_within_a_word_attaches_nothing(folder: Path, text: str):
    assert read_mentions(text) == LocalMentions()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Screenshot 3.00\u202fPM.txt", '@"Screenshot 3.00 PM.txt"'),
        ("caf\u00e9.txt", "@cafe\u0301.txt"),
        ("cafe\u0301/a.txt", "@caf\u00e9/a.txt"),
        ("it’s.txt", '@"it\'s.txt"'),
        ("a–b.txt", "@a-b.txt"),
        ("a\nb.txt", r'@"a\nb.txt"'),
        ("\udcff.txt", r'@"\xff.txt"'),
    ],
)
def test_file_is_found_by_a_name_that_looks_the_same(folder: Path, name: str, written: str):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("found")
    (document,) = read_mentions(written).parts
    assert isinstance(document, Document) and document.text == "found"


def test_names_that_look_the_same_are_told_apart(folder: Path):
    for space in ("\u202f", "\xa0"):
        Path(f"3{space}PM.txt").touch()
    assert refusal('@"3 PM.txt"') == (
        "3 PM.txt does not exist, and 2 names there look like it. "
        "One has U+00A0 NO-BREAK SPACE, yours has U+0020 SPACE. "
        "One has U+202F NARROW NO-BREAK SPACE, yours has U+0020 SPACE."
    )


def test_link_of_the_folder_to_a_place_outside_is_asked_about(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "notes.md").write_text("private")
    Path("docs.md").symlink_to(outside / "notes.md")
    Path("docs").symlink_to(outside)
    Path("near.md").symlink_to("src/main.py")
    for name in ("docs.md", "docs/notes.md", "docs", "./src/../docs.md"):
        assert read_mentions(f"@{name}").doubtful == (f"{name} is outside the working directory.",)
    assert read_mentions(f"@near.md @{outside}/notes.md").doubtful == ()


def test_decorator_with_arguments_is_code(folder: Path):
    assert read_mentions('@app.get("/items/x.json")\n@lru_cache(maxsize=3)') == LocalMentions()


def test_notice_names_the_first_words_alone():
    notice = unknown_notice([UnknownName(word, "ab") for word in "abcd"])
    assert notice == "There is no file or folder @a, @b, @c, …: sent as plain text. Did you mean @ab?"
    assert unknown_notice([]) == ""


def test_special_files_are_refused_without_being_opened(folder: Path):
    os.mkfifo("pipe.txt")
    Path("loop.txt").symlink_to("loop.txt")
    assert refusal("@pipe.txt") == "pipe.txt is a pipe, not a file."
    assert refusal("@/dev/zero") == "/dev/zero is a device, not a file."
    assert refusal("@loop.txt") == "loop.txt is a loop of links."


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_without_permission_is_refused(folder: Path):
    (folder / "a b.txt").chmod(0)
    assert refusal('@"a b.txt"') == "a b.txt cannot be read: Permission denied."
    (folder / "src").chmod(0)
    try:
        assert refusal("@src/main.py") == "src/main.py cannot be read: Permission denied."
        assert refusal("@src") == "src cannot be read: Permission denied."
    finally:
        (folder / "src").chmod(0o700)


def test_binary_file_is_refused(folder: Path):
    Path("a.out").write_bytes(b"\x7fELF\0\0")
    assert refusal("@a.out") == "a.out is a binary file: byte 0x00 at offset 4 of 6 bytes."
    Path("fake.png").write_text("words")
    assert refusal("@fake.png") == "fake.png is not a PNG, JPEG, WebP or GIF."


def test_huge_file_is_cut_at_a_line_end(folder: Path):
    with Path("big.log").open("w") as file:
        file.write("0123456789\n" * 10_000)
        file.truncate(2 << 30)
    (document,) = read_mentions("@big.log").parts
    assert isinstance(document, Document) and document.whole == 2 << 30
    assert MAX_DOCUMENT_BYTES - 11 < len(document.text) <= MAX_DOCUMENT_BYTES and document.text.endswith("9\n")
    Path("long.txt").write_text("é" * MAX_DOCUMENT_BYTES)
    (document,) = read_mentions("@long.txt").parts
    assert isinstance(document, Document) and document.text == "é" * (MAX_DOCUMENT_BYTES // 2)


def test_text_is_stored_as_the_database_holds_it(folder: Path):
    Path("old.txt").write_bytes("naïve".encode("cp1252"))
    Path("wide.txt").write_bytes("wörds\n".encode("utf-16"))
    Path("empty.txt").write_bytes(b"")
    texts = [each.text for each in read_mentions("@old.txt @wide.txt @empty.txt").parts if isinstance(each, Document)]
    assert texts == ["naïve", "wörds\n", ""]


def test_large_folder_is_listed_in_part(folder: Path):
    for number in range(MAX_LISTED_ENTRIES + 3):
        (folder / "src" / "deep" / f"{number:05}").touch()
    (document,) = read_mentions("@src/deep").parts
    assert isinstance(document, Document) and document.lines == MAX_LISTED_ENTRIES
    assert document.whole == MAX_LISTED_ENTRIES + 3


def test_files_with_keys_and_of_ikigai_are_doubtful(folder: Path):
    for name in (".env", "home/.ssh/id_rsa", "home/.config/ikigai/config.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    Path("innocent.txt").symlink_to(".env")
    assert read_mentions("@.env").doubtful == (".env looks like a file with keys or passwords.",)
    assert read_mentions("@innocent.txt").doubtful == ("innocent.txt looks like a file with keys or passwords.",)
    assert "keys or passwords" in read_mentions("@~/.ssh/").doubtful[0]
    assert "a file of ikigai itself" in read_mentions("@~/.config/ikigai/config.toml").doubtful[0]


def test_too_many_files_are_refused(folder: Path):
    for number in range(21):
        Path(f"{number}.txt").touch()
    assert len(read_mentions(" ".join(f"@{number}.txt" for number in range(20))).parts) == 20
    assert refusal(" ".join(f"@{number}.txt" for number in range(21))) == "A message can have at most 20 attachments."


def test_page_is_not_fetched_while_files_are_read(folder: Path):
    assert read_mentions("@https://example.invalid/x, @src/main.py").parts[0] == "https://example.invalid/x"
