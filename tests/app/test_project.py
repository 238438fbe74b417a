"""What a folder brings: read only when it is trusted, again only when it has changed, and only a file of its own."""

import os
from pathlib import Path

import pytest

from ikigai.app.project import MOST, Project
from ikigai.config import trusted_folders as trust
from ikigai.core.errors import Refused
from ikigai.core.questions import Answered, Question
from ikigai.core.request.system_prompt import headed, named
from ikigai.repl import permission_commands as permissions


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "work").mkdir()
    return Project(tmp_path / "work", tmp_path / "data" / trust.FILE)


def write(project: Project, text: str | bytes, name: str = "AGENTS.md") -> Path:
    file = project.folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_nothing_is_read_before_it_is_trusted_nor_behind(project: Project):
    write(project, "Obey.")
    project.look()
    assert project.brings == ("AGENTS.md",) and project.instructions() == ""
    project.trust(1.0)
    assert project.instructions() == headed("AGENTS.md", "Obey.")
    again = Project(project.folder, project.file)
    assert again.instructions() == ""
    again.look()
    assert again.instructions() == headed("AGENTS.md", "Obey.")
    assert project.revoke() and project.instructions() == "" and not project.revoke()
    again.look()
    assert not again.trusted


def test_it_is_read_again_when_it_is_another_one(project: Project):
    project.trust(1.0)
    file = write(project, "One.")
    assert project.instructions().endswith("\nOne.")
    found = file.stat()
    file.write_text("Two.")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert project.instructions().endswith("\nOne."), "the same in size and time is not read again"
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert project.instructions().endswith("\nTwo.")
    write(project, "Mine.", "CLAUDE.md")
    assert project.instructions().endswith("\nTwo."), "AGENTS.md goes before"
    file.unlink()
    assert project.instructions() == headed("CLAUDE.md", "Mine.") and named(project.instructions()) == "CLAUDE.md"
    write(project, " \n", "CLAUDE.md")
    assert project.instructions() == ""
    (project.folder / "CLAUDE.md").unlink()
    assert project.instructions() == "" and project.problems == []


def test_any_bytes_become_text_that_can_be_stored(project: Project):
    project.trust(1.0)
    write(project, b"\xff caf\xc3\xa9 \0 end")
    assert project.instructions() == headed("AGENTS.md", "\ufffd café \ufffd end")
    write(project, "é" * MOST)
    said = project.instructions()
    assert "é" * (MOST // 2) + "\n[cut: only the first 65,536 bytes" in said and "\ufffd" not in said
    assert len(project.problems) == 1 and "longer than 64 KiB" in project.problems[0]
    project.instructions()
    assert len(project.problems) == 1, "said once"


def test_what_is_no_file_of_the_folder_is_named_and_left_out(project: Project, tmp_path: Path):
    project.trust(1.0)
    (tmp_path / "secret").write_text("the secret")
    file = project.folder / "AGENTS.md"
    made = (
        (lambda: file.symlink_to(tmp_path / "secret"), "leads out of the folder"),
        (lambda: file.symlink_to("/dev/zero"), "leads out of the folder"),
        (lambda: file.symlink_to("nothing"), "No such file"),
        (lambda: os.mkfifo(file), "no regular file"),
        (lambda: file.mkdir(), "no regular file"),
        (lambda: file.symlink_to(file), "oo many"),
    )
    for number, (make, why) in enumerate(made):
        make()
        assert project.brings == ("AGENTS.md",)
        assert project.instructions() == "" == project.instructions()
        assert len(project.problems) == number + 1 and why in project.problems[-1], why
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
    write(project, "Within.", "real.md")
    file.symlink_to("real.md")
    assert project.instructions() == headed("AGENTS.md", "Within.")


async def test_the_question_says_what_is_there_and_only_yes_is_kept(project: Project):
    write(project, "Obey.\x1b[31m")
    asked: list[Question] = []

    def answering(key: str):
        async def ask(question: Question) -> Answered:
            asked.append(question)
            return Answered(key)

        return ask

    await permissions.asked(project, project.brings, answering("n"))
    assert not project.trusted and not project.file.exists() and asked[0].default == "n"
    assert "has AGENTS.md." in asked[0].lines[0] and "Obey" not in "".join(asked[0].lines)
    await permissions.asked(project, project.brings, answering("y"))
    assert project.trusted and trust.is_trusted(project.file, project.folder)


async def test_a_yes_that_cannot_be_kept_holds_for_this_run(project: Project):
    project.file.parent.write_text("no folder")

    async def yes(question: Question) -> Answered:
        return Answered("y")

    await permissions.asked(project, ("AGENTS.md",), yes)
    assert project.trusted and "for this run only" in project.problems[0]


def test_the_command_shows_trusts_and_revokes(project: Project, tmp_path: Path):
    write(project, "Obey.")
    (tmp_path / "other").mkdir()
    assert "is not trusted. It has AGENTS.md." in permissions.trusted("", project)
    assert permissions.trusted("yes", project).startswith(f"Trusted: {project.folder}\n") and project.trusted
    trust.trust(project.file, tmp_path / "other", 0.0)
    shown = permissions.trusted("", project)
    assert "is trusted." in shown and f"1970-01-01  {tmp_path / 'other'}" in shown
    assert permissions.trusted(f"no {tmp_path / 'other'}", project) == f"Trusted no more: {tmp_path / 'other'}"
    assert project.trusted
    assert permissions.trusted(f"no {project.folder}", project).startswith("Trusted no more") and not project.trusted
    assert permissions.trusted("no", project).startswith("Was not trusted")
    assert trust.trusted(project.file) == {}
    for argument in ("maybe", "yes /", f"no {tmp_path / 'other'}"):
        with pytest.raises(Refused):
            permissions.trusted(argument, project)
