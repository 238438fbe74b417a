"""Tests of the user's own commands: which files are some, and the message that each stands for."""

import os
from pathlib import Path

import pytest

from ikigai.app.commands import own_commands
from ikigai.app.project.trusted_project import Project
from ikigai.core.errors import Rejected


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = own_commands.user_folder()
    folder.mkdir(parents=True)
    return folder


def fill(text: str, argument: str) -> str:
    return own_commands.fill(own_commands.parse_command(text), argument)


HINT = "---\nargument-hint: FILE [LEVEL]\n---\n"


@pytest.mark.parametrize(
    ("text", "argument", "message"),
    [
        ("a $ARGUMENTS b", "$1 x", "a $1 x b"),
        ("$2-$1-$3", "one two", "two-one-$3"),
        (f"{HINT}$2-$1-$3", "one two", "two-one-"),
        ("Review.", "the parser", "Review.\n\nthe parser"),
        ("Review.", "", "Review."),
        ("Run: awk '{print $1, $2}' log", "", "Run: awk '{print $1, $2}' log"),
        ("Run: awk '{print \\$1}' $1", "log", "Run: awk '{print $1}' log"),
        ("Run: awk '{print \\$1}' log", "now", "Run: awk '{print $1}' log\n\nnow"),
        ("costs $5, $10 or $199", "one two", "costs $5, $10 or $199\n\none two"),
        (r"\$ARGUMENTS is $ARGUMENTS", "x", "$ARGUMENTS is x"),
        ("$0 $NF ${1} $$", "x", "$0 $NF ${1} $$\n\nx"),
        (f"{HINT}Fix $1 at $2.", "", "Fix  at ."),
    ],
)
def test_argument_takes_the_place_of_placeholders_once(text: str, argument: str, message: str) -> None:
    assert fill(text, argument) == message


def test_head_of_a_file_describes_the_command():
    text = "---\ndescription: 'Review a file'\nargument-hint: FILE\nmodel: x\n---\n\n# Review\n$1\n---\nend\n"
    assert own_commands.parse_command(text) == ("FILE", "Review a file", "# Review\n$1\n---\nend", True)
    assert own_commands.parse_command("# Fix it\n$ARGUMENTS") == (
        "[ARGUMENTS]",
        "Fix it",
        "# Fix it\n$ARGUMENTS",
        False,
    )
    assert own_commands.parse_command("# Fix it\n\\$1").argument == ""
    assert own_commands.parse_command("") == ("", "", "", False)
    assert own_commands.parse_command("---\nno end") == ("", "---", "---\nno end", False)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_byte_order_mark_and_dos_line_ends_are_no_part_of_the_message(folder: Path, encoding: str, end: str) -> None:
    (folder / "review.md").write_bytes(f"---{end}description: d{end}---{end}Review.{end}Well.{end}".encode(encoding))
    (folder / "plain.md").write_bytes(f"Prüfe.{end}".encode(encoding))
    assert own_commands.message_of("/review", None) == "Review.\nWell."
    assert own_commands.message_of("/plain", None) == "Prüfe."
    assert own_commands.describe_commands(None)["review"].help == "d"


def test_names_of_the_program_and_odd_files_are_no_commands(folder: Path):
    for name in ("review.md", "clear.md", "quit.md", "a b.md", "x.txt", "1.md", "../up.md"):
        (folder / name).write_text("text")
    (folder / "sub.md").mkdir()
    os.mkfifo(folder / "pipe.md")
    assert list(own_commands.command_files(None)) == ["review"]


def test_unusable_file_is_refused_with_its_reason(folder: Path):
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "long.md").write_bytes(b"x" * (own_commands.MAX_COMMAND_BYTES + 1))
    (folder / "wide.md").write_text("Review.", "utf-16")
    (folder / "empty.md").write_bytes(b"---\ndescription: d\n---\n")
    for name, why in (
        ("latin", "not UTF-8 text .offset 3"),
        ("wide", "is UTF-16"),
        ("long", "longer than 64 KiB"),
        ("empty", "is empty"),
    ):
        with pytest.raises(Rejected, match=why):
            own_commands.message_of(f"/{name}", None)
    assert "not UTF-8" in own_commands.describe_commands(None)["latin"].help
    with pytest.raises(Rejected, match="There is no file for /gone"):
        own_commands.message_of("/gone x", None)


def test_file_of_a_project_counts_as_long_as_it_is_trusted_and_unchanged(folder: Path, tmp_path: Path):
    (folder / "review.md").write_text("mine")
    project = Project(tmp_path / "work", tmp_path / "trust.json")
    project.commands.mkdir(parents=True)
    file = project.commands / "review.md"
    file.write_text("theirs $1")
    assert own_commands.message_of("/review", project) == "mine"
    assert ".ikigai/commands" in project.contents and ".ikigai/commands/review.md" in project.files
    project.trust(now=1.0)
    assert own_commands.message_of("/review a", project) == "theirs a"
    file.write_text("changed")
    assert ".ikigai/commands/review.md" in project.changes()
    with pytest.raises(Rejected, match="changed since the folder was trusted"):
        own_commands.message_of("/review a", project)
    file.unlink()
    file.symlink_to(tmp_path / "trust.json")
    with pytest.raises(Rejected, match="outside the folder"):
        own_commands.message_of("/review a", project)
