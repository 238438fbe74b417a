"""Project files are read only from a trusted folder, again only when they change, and only if they are its own."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ikigai.app.project.instruction_files import MAX_INSTRUCTIONS_BYTES
from ikigai.app.project.trusted_project import Project
from ikigai.app.run.factories import tighten
from ikigai.config import Config
from ikigai.config.project import project_files
from ikigai.config.project import trusted_folders as trust
from ikigai.config.project.project_files import OwnFile
from ikigai.core.errors import ConfigError, Rejected
from ikigai.core.request.system_prompt import instructions_file, instructions_setting
from ikigai.core.state.project_limits import ProjectLimits
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.repl.commands import permission_commands as permissions
from ikigai.tools import tool_files

strict = '[tools]\napproval = "read-only"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "work").mkdir()
    return Project(tmp_path / "work", tmp_path / "data" / trust.TRUSTED_FILE)


def write(project: Project, text: str | bytes, name: str = "AGENTS.md") -> Path:
    file = project.folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_nothing_is_read_before_it_is_trusted_nor_behind(project: Project):
    write(project, "Obey.")
    project.check_trust()
    assert project.contents == ("AGENTS.md",) and project.instructions() == ""
    project.trust(1.0)
    assert project.instructions() == instructions_setting("AGENTS.md", "Obey.")
    again = Project(project.folder, project.file)
    assert again.instructions() == ""
    again.check_trust()
    assert again.instructions() == instructions_setting("AGENTS.md", "Obey.")
    assert project.revoke() and project.instructions() == "" and not project.revoke()
    again.check_trust()
    assert not again.trusted


def test_it_is_read_again_when_it_is_another_one_that_is_trusted(project: Project):
    file = write(project, "One.")
    project.trust(1.0)
    assert project.instructions().endswith("\nOne.")
    found = file.stat()
    file.write_text("Two.")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert project.instructions().endswith("\nOne."), "the same in size and time is not read again"
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert project.instructions() == "" and len(project.problems) == 1
    assert "AGENTS.md is not used: it was added or changed" in project.problems.pop()
    write(project, "Mine.", "CLAUDE.md")
    project.trust(2.0)
    assert project.instructions().endswith("\nTwo."), "AGENTS.md goes before"
    file.unlink()
    assert (
        project.instructions() == instructions_setting("CLAUDE.md", "Mine.")
        and instructions_file(project.instructions()) == "CLAUDE.md"
    )
    write(project, " \n", "CLAUDE.md")
    project.trust(3.0)
    assert project.instructions() == ""
    (project.folder / "CLAUDE.md").unlink()
    assert project.instructions() == "" and project.problems == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
def test_byte_order_mark_names_the_encoding(project: Project, encoding: str):
    mark = "\ufeff" if encoding.endswith(("le", "be")) else ""
    write(project, f"{mark}Obeÿ 日本.\r\n".encode(encoding))
    project.trust(1.0)
    assert project.instructions() == instructions_setting("AGENTS.md", "Obeÿ 日本.")
    write(project, f"{mark}{'日' * MAX_INSTRUCTIONS_BYTES}".encode(encoding))
    project.trust(2.0)
    said = project.instructions()
    assert "日" * (MAX_INSTRUCTIONS_BYTES // 3) + "\n[cut: only the first 65,536 bytes" in said and "\ufffd" not in said


@pytest.fixture
def inner(project: Project) -> Project:
    """Return the project in a folder of a repository, which has instructions in three folders."""
    for above, text in (("", "Root."), ("a", "Middle."), ("a/b", "Inner.")):
        (project.folder / above).mkdir(exist_ok=True)
        (project.folder / above / "AGENTS.md").write_text(text)
    (project.folder / ".git").mkdir()
    (project.folder.parent / "AGENTS.md").write_text("Beyond the repository.")
    for folder in (project.folder.parent, project.folder, project.folder / "a" / "b"):
        Project(folder, project.file).trust(1.0)
    found = Project(project.folder / "a" / "b", project.file)
    found.check_trust()
    return found


def test_instructions_of_trusted_folders_above_come_before_one_s_own(inner: Project):
    whole = "../../AGENTS.md:\n\nRoot.\n\nAGENTS.md:\n\nInner."
    assert inner.instructions() == instructions_setting("../../AGENTS.md, AGENTS.md", whole)
    (said,) = inner.problems
    assert said.startswith("../AGENTS.md is not used: ") and said.endswith("Start ikigai there once to trust it.")
    Project(inner.folder.parent, inner.file).trust(2.0)
    inner.check_trust_above()
    inner.problems.clear()
    texts = [inner.instructions().index(text) for text in ("Root.", "Middle.", "Inner.")]
    assert texts == sorted(texts) and inner.problems == []
    (inner.folder.parents[1] / "AGENTS.md").write_text("Root, changed.")
    assert "Root" not in inner.instructions() and "../../AGENTS.md is not used" in inner.problems.pop()


def test_instructions_above_hold_in_a_folder_without_its_own(inner: Project):
    (inner.folder / "AGENTS.md").unlink()
    (sub := inner.folder / "sub").mkdir()
    project = Project(sub, inner.file)
    project.check_trust()
    assert not project.trusted and project.instructions() == instructions_setting("../../../AGENTS.md", "Root.")
    (sub / "AGENTS.md").write_text("Not trusted.")
    (sub / ".git").mkdir()  # a repository of its own, as a vendored one
    project.check_trust()
    assert project.instructions() == ""


def test_instructions_above_end_with_the_trust_in_their_folder(inner: Project):
    assert "Root." in inner.instructions()
    permissions.run_trust(f"no {inner.folder.parents[1]}", inner)
    assert "Root." not in inner.instructions() and "Inner." in inner.instructions()


def test_instructions_together_are_bounded_and_the_nearest_are_whole(inner: Project):
    root = Project(inner.folder.parents[1], inner.file)
    write(inner, "i" * (MAX_INSTRUCTIONS_BYTES - 10))
    write(root, "r" * 100)
    inner.trust(2.0)
    root.trust(2.0)
    inner.check_trust()
    said = inner.instructions()
    assert "i" * (MAX_INSTRUCTIONS_BYTES - 10) in said and "r" * 11 not in said and "r" * 10 in said
    assert "../../AGENTS.md is not used whole: instructions have at most 64 KiB together." in "".join(inner.problems)


def test_any_bytes_become_text_that_can_be_stored(project: Project):
    write(project, b"\xff caf\xc3\xa9 \0 end")
    project.trust(1.0)
    assert project.instructions() == instructions_setting("AGENTS.md", "\ufffd café \ufffd end")
    write(project, "é" * MAX_INSTRUCTIONS_BYTES)
    project.trust(2.0)
    said = project.instructions()
    assert "é" * (MAX_INSTRUCTIONS_BYTES // 2) + "\n[cut: only the first 65,536 bytes" in said and "\ufffd" not in said
    assert len(project.problems) == 1 and "longer than 64 KiB" in project.problems[0]
    project.instructions()
    assert len(project.problems) == 1, "said once"


def test_project_leaves_out_and_names_files_outside_the_folder(project: Project, tmp_path: Path):
    project.trust(1.0)
    (tmp_path / "secret").write_text("the secret")
    write(project, "KEY=sk-1", ".env")
    (project.folder / "notes").mkdir()
    write(project, "sk-1", "notes/.key.md")
    file = project.folder / "AGENTS.md"
    made = (
        (lambda: file.symlink_to(tmp_path / "secret"), "a place outside the folder"),
        (lambda: file.symlink_to("/dev/zero"), "a place outside the folder"),
        (lambda: file.symlink_to("nothing.md"), "No such file"),
        (lambda: os.mkfifo(file), "not a regular file"),
        (lambda: file.mkdir(), "not a regular file"),
        (lambda: file.symlink_to(file), "oo many"),
        (lambda: file.symlink_to(".env"), "another kind of file (.env)"),
        (lambda: file.symlink_to("notes/.key.md"), "another kind of file"),
        (lambda: file.hardlink_to(tmp_path / "secret"), "hard link"),
    )
    for number, (make, why) in enumerate(made):
        make()
        assert project.contents == ("AGENTS.md",)
        assert project.instructions() == "" == project.instructions()
        assert len(project.problems) == number + 1 and why in project.problems[-1], why
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
    write(project, "Within.", "real.md")
    file.symlink_to("real.md")
    project.trust(2.0)
    assert project.instructions() == instructions_setting("AGENTS.md", "Within.")


async def test_question_says_what_is_there_and_only_yes_is_kept(project: Project):
    write(project, "Obey.\x1b[31m")
    asked: list[Question] = []

    def answering(key: str):
        async def ask(question: Question) -> QuestionAnswer:
            asked.append(question)
            return QuestionAnswer(key)

        return ask

    await permissions.ask_trust(project, project.contents, answering("n"))
    assert not project.trusted and not project.file.exists() and asked[0].default == "n"
    assert "has AGENTS.md." in asked[0].lines[0] and "Obey" not in "".join(asked[0].lines)
    await permissions.ask_trust(project, project.contents, answering("y"))
    assert project.trusted and trust.trusted_digests(project.file, project.folder) is not None


async def test_yes_that_cannot_be_kept_holds_for_this_run(project: Project):
    project.file.parent.write_text("no folder")

    async def yes(question: Question) -> QuestionAnswer:
        return QuestionAnswer("y")

    await permissions.ask_trust(project, ("AGENTS.md",), yes)
    assert project.trusted and "for this run only" in project.problems[0]


def test_command_shows_trusts_and_revokes(project: Project, tmp_path: Path):
    write(project, "Obey.")
    (tmp_path / "other").mkdir()
    assert "is not trusted. It has AGENTS.md." in permissions.run_trust("", project)
    assert permissions.run_trust("yes", project).startswith(f"Trusted: {project.folder}\n") and project.trusted
    trust.trust(project.file, tmp_path / "other", 0.0)
    shown = permissions.run_trust("", project)
    assert "is trusted." in shown and f"1970-01-01  {tmp_path / 'other'}" in shown
    assert permissions.run_trust(f"no {tmp_path / 'other'}", project) == f"No longer trusted: {tmp_path / 'other'}"
    assert project.trusted
    assert (
        permissions.run_trust(f"no {project.folder}", project).startswith("No longer trusted") and not project.trusted
    )
    assert permissions.run_trust("no", project).endswith(" was not trusted; nothing changed.")
    assert trust.list_trusted(project.file) == {}
    for argument in ("maybe", "yes /", f"no {tmp_path / 'other'}"):
        with pytest.raises(Rejected):
            permissions.run_trust(argument, project)


def test_only_settings_that_are_a_file_of_the_folder_are_read(project: Project, tmp_path: Path):
    project.trust(1.0)
    assert tighten(Config(), project) == (Config(), ProjectLimits())
    write(project, "KEY = 1", ".env")
    (tmp_path / "outside.toml").write_text("")
    project.config.parent.mkdir()
    for target in ("/dev/zero", str(tmp_path / "outside.toml"), "config.toml", "../..", "../.env", "nothing.toml"):
        project.config.symlink_to(target)
        with pytest.raises(ConfigError) as caught:
            tighten(Config(), project)
        assert caught.value.what.startswith(f"{project.config} cannot be used: "), target
        assert caught.value.remedy.endswith(f"start ikigai in another folder and type: /trust no {project.folder}")
        with pytest.raises(ConfigError, match="cannot be used"):
            project.trust(2.0)
        project.config.unlink()
    made = (
        (lambda: os.mkfifo(project.config), "it is not a regular file"),
        (lambda: project.config.hardlink_to(tmp_path / "outside.toml"), "hard link"),
    )
    for make, why in made:
        make()
        with pytest.raises(ConfigError, match=why):
            tighten(Config(), project)
        project.config.unlink()


def test_settings_are_used_as_they_were_trusted(project: Project, monkeypatch: pytest.MonkeyPatch):
    """The bytes that are checked and the bytes that are used come from one read."""
    project.config.parent.mkdir()
    project.config.write_text(strict)
    project.trust(1.0)
    assert tighten(Config(), project)[1].approval == "read-only"
    read = project_files.read_own

    def changed(*arguments: Any, **more: Any) -> OwnFile:
        found = read(*arguments, **more)
        project.config.write_text("")
        return found

    monkeypatch.setattr(project_files, "read_own", changed)
    assert tighten(Config(), project)[1].approval == "read-only"
    assert tighten(Config(), project) == (Config(), ProjectLimits())
    assert "config.toml is not used: it was added or changed" in project.problems[0]


def unasked(project: Project) -> ProjectLimits:
    """Return what the project forbids where nobody is asked."""
    project = reopened(project)
    project.report_unasked()
    return tighten(Config(), project)[1]


@pytest.mark.parametrize("change", [lambda file: file.write_text(""), lambda file: file.unlink()])
async def test_settings_that_have_changed_or_gone_are_refused_where_nobody_is_asked(
    project: Project, change: Callable[[Path], None]
):
    project.config.parent.mkdir()
    project.config.write_text(strict)
    project.trust(1.0)
    assert unasked(project).approval == "read-only"
    change(project.config)
    with pytest.raises(ConfigError, match="restrictions") as caught:
        unasked(project)
    assert str(project.config) in caught.value.what and "-p" in caught.value.remedy
    assert len(await answered(project, "y")) == 1
    assert unasked(project) == ProjectLimits()
    project = reopened(project)
    assert await answered(project, "y") == [] and project.changes() == {}


def test_new_settings_and_those_of_a_folder_to_be_confirmed_are_refused_where_nobody_is_asked(project: Project):
    project.trust(1.0)
    project.config.parent.mkdir()
    project.config.write_text(strict)
    with pytest.raises(ConfigError, match="added or changed"):
        unasked(project)
    project.file.write_text(json.dumps({str(project.folder): 1.0}))
    with pytest.raises(ConfigError, match="must be confirmed"):
        unasked(project)
    project.file.write_text("[]")
    with pytest.raises(ConfigError, match="Delete it"):
        unasked(project)
    project.file.unlink()
    assert unasked(project) == ProjectLimits()  # an untrusted folder forbids nothing


async def test_folder_with_bad_settings_is_not_trusted(project: Project):
    project.config.parent.mkdir()
    project.config.write_text("tools.approval = 1\n")

    async def yes(question: Question) -> QuestionAnswer:
        return QuestionAnswer("y")

    await permissions.ask_trust(project, project.contents, yes)
    assert not project.trusted and not project.file.exists()
    (said,) = project.problems
    assert said.startswith("The folder is not trusted. ") and "config.toml:1: tools.approval cannot be 1" in said
    assert said.endswith("Then type /trust yes.")
    with pytest.raises(ConfigError, match="cannot be 1"):
        permissions.run_trust("yes", project)
    assert not project.trusted and not project.file.exists()
    project.config.write_text(strict)
    permissions.run_trust("yes", project)
    project.config.write_text("tools.approval = 1\n")
    with pytest.raises(ConfigError, match="answer n"):
        await answered(project, "y")
    assert project.changes() and reopened(project).changes()


async def answered(project: Project, key: str) -> list[Question]:
    """Answer the question about changes; return the questions."""
    questions: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        questions.append(question)
        return QuestionAnswer(key)

    await permissions.ask_about_changes(project, ask)
    return questions


def tool(project: Project, text: str, name: str = "owl") -> Path:
    project.tools.mkdir(parents=True, exist_ok=True)
    file = write(project, text, f".ikigai/tools/{name}")
    file.chmod(0o755)
    return file


def reopened(project: Project) -> Project:
    """Return the project as a later run sees it."""
    again = Project(project.folder, project.file)
    again.check_trust()
    return again


async def test_changed_and_new_files_are_shown_and_asked_about_before_use(project: Project):
    write(project, "Obey.")
    owl = tool(project, "#!/bin/sh\necho 1")
    project.trust(1.0)
    project = reopened(project)
    assert project.trusted and await answered(project, "y") == [] and project.refusal(owl) == ""
    owl.write_text("#!/bin/sh\necho 2")
    raven = tool(project, "#!/bin/sh\necho 3", "raven")
    write(project, "Obey me.\x1b[31m\n" + "more\n" * 20)
    write(project, "[tools]\n", ".ikigai/config.toml")
    project = reopened(project)
    (question,) = await answered(project, "n")
    said = "\n".join(question.lines)
    assert "changed: AGENTS.md" in said and "new: .ikigai/config.toml" in said and "new: .ikigai/tools/raven" in said
    assert "  Obey me." in said and "\x1b" not in said and "…" in said
    assert "Yes runs these programs" in said and ".ikigai/tools/owl, .ikigai/tools/raven" in said
    assert "was added or changed" in project.refusal(owl) and "was added or changed" in project.refusal(raven)
    assert project.instructions() == ""
    assert len(await answered(project, "y")) == 1
    project = reopened(project)
    assert project.changes() == {} and project.refusal(owl) == project.refusal(raven) == ""
    assert "Obey me." in project.instructions()


async def test_tool_with_a_name_that_is_no_text_is_left_out(project: Project):
    odd = tool(project, "#!/bin/sh\necho 1", os.fsdecode(b"\xff"))
    owl = tool(project, "#!/bin/sh\necho 1")
    project.trust(1.0)
    project = reopened(project)
    assert project.trusted and project.refusal(owl) == "" and project.refusal(odd)


def test_only_tools_that_are_offered_are_trusted(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_files, "MAX_TOOLS", 1)
    owl = tool(project, "#!/bin/sh")
    raven = tool(project, "#!/bin/sh", "raven")
    assert project.executables == (".ikigai/tools/owl",)
    project.trust(1.0)
    assert project.refusal(owl) == "" and project.refusal(raven)
    owl.unlink()
    assert list(project.changes()) == [".ikigai/tools/raven"]


async def test_file_that_changes_during_the_question_is_not_trusted(project: Project):
    write(project, "One.")
    project.trust(1.0)
    write(project, "Two!")

    async def ask(question: Question) -> QuestionAnswer:
        write(project, "Three.")
        return QuestionAnswer("y")

    await permissions.ask_about_changes(project, ask)
    assert project.instructions() == "" and "not used" in project.problems[0]


async def test_question_shows_what_a_yes_trusts(project: Project, monkeypatch: pytest.MonkeyPatch):
    write(project, "One.")
    project.trust(1.0)
    write(project, "Two!")
    read = project_files.read_own

    def changed(folder: Path, file: Path, *arguments: Any, **more: Any) -> OwnFile:
        found = read(folder, file, *arguments, **more)
        file.write_text("Three.")
        return found

    monkeypatch.setattr(project_files, "read_own", changed)
    (question,) = await answered(project, "y")
    assert "  Two!" in question.lines and project.instructions() == ""


async def test_question_says_that_trusting_runs_programs(project: Project):
    tool(project, "#!/bin/sh")
    questions: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        questions.append(question)
        return QuestionAnswer("n")

    await permissions.ask_trust(project, project.contents, ask)
    assert "runs these programs, now and at every start: .ikigai/tools/owl." in questions[0].lines[-1]


def test_tool_that_becomes_executable_or_a_link_is_refused(project: Project, tmp_path: Path):
    owl = tool(project, "#!/bin/sh")
    owl.chmod(0o644)
    project.trust(1.0)
    owl.chmod(0o755)
    assert "was added or changed" in project.refusal(owl)
    outside = tmp_path / "outside"
    outside.write_text("#!/bin/sh")
    owl.unlink()
    owl.symlink_to(outside)
    project.trust(2.0)
    assert "a place outside the folder" in project.refusal(owl)
    owl.unlink()
    owl.hardlink_to(outside)
    project.trust(3.0)
    assert "hard link" in project.refusal(owl)
    owl.unlink()
    (project.folder / "bin").mkdir()
    within = write(project, "#!/bin/sh", "bin/owl.sh")
    owl.symlink_to(within)
    project.trust(4.0)
    assert project.refusal(owl) == ""
    within.write_text("#!/bin/sh\n")
    assert "was added or changed" in project.refusal(owl)
