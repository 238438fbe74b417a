"""Tests of what a message mentions: files, folders and pictures from a real disk, and the words that name nothing."""

import os
from pathlib import Path

import pytest
from PIL import Image as Pillow

from ikigai.app.attachments import MAX_DOCUMENT_BYTES, LocalMentions, read_mentions, unknown_notice
from ikigai.core.errors import Rejected
from ikigai.core.messages import Document, DocumentKind, Image
from ikigai.tools.files.list_files import MAX_LISTED_ENTRIES


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
def test_word_that_names_nothing_stays_a_word(folder: Path, text: str):
    local = read_mentions(text)
    assert local.parts == () and len(local.unknown) == 1
    assert "sent as plain text" in unknown_notice(local.unknown)


def test_decorator_with_arguments_is_code(folder: Path):
    assert read_mentions('@app.get("/items/x.json")\n@lru_cache(maxsize=3)') == LocalMentions()


def test_notice_names_the_first_words_alone():
    assert unknown_notice(["@a", "@b", "@c", "@d"]) == "There is no file or folder @a, @b, @c, …: sent as plain text."
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
