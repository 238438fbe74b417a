"""Find the skills of a run: of the user, of plugins, and of a trusted project.

A skill is a folder with a SKILL.md. Of several with one name the first counts: a project's before the user's, these
before a plugin's. A file is read again when it changes, and a project's and a plugin's only with the content that the
user has agreed to.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ikigai.app.project.instruction_files import CONFIRM_REMEDY
from ikigai.config.project.project_files import error_reason
from ikigai.config.project.skill_files import (
    MAX_SKILL_BYTES,
    MAX_SKILLS,
    SHARED_FOLDER,
    SKILL_FILE,
    list_files,
    project_folders,
    read_skill_file,
    skill_folders,
)
from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean_line, storable
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.app.project.trusted_project import Project

NAME = re.compile(r"[^\W_][\w.-]{0,63}")
"""Names that can be called and typed; `skill_check` is stricter."""
OWN_FIELDS = ("disable-model-invocation", "user-invocable", "argument-hint")
"""Fields that are used beside the ones of the specification."""
MAX_HINT = 80
TRUE_WORDS = ("true", "yes", "on", "1")
LOOK_SECONDS = 0.5
"""Seconds for which what was found counts: keys are pressed faster than skills change."""
MAX_LINE = 100
"""Characters of a description in lists."""
MAX_PROBLEMS = 3
"""Problems with skills that are told one by one."""

Stamp = tuple[int, int, int, int]


class Skill(NamedTuple):
    """A skill that can be used: `folder` is real, `place` is where it was found.

    `size` has the bytes of its instructions. `by_model` and `by_user` say who may start it. `warnings` are clauses.
    """

    name: str
    description: str
    folder: Path
    place: str
    size: int
    by_model: bool = True
    by_user: bool = True
    hint: str = ""
    warnings: tuple[str, ...] = ()


class SkillPlace(NamedTuple):
    """A folder with folders of skills, its name for people, and the function that reads a SKILL.md in it.

    A file is read again under other `terms`. Under `is_strict` a skill that is not valid is left out.
    """

    folder: Path
    shown: str
    read: Callable[[Path], bytes]
    terms: object = None
    is_strict: bool = False


def user_folder() -> Path:
    """Return the folder of the skills that the user has for ikigai alone."""
    return paths.config_dir() / "skills"


def read_own_skill(file: Path) -> bytes:
    """Return a SKILL.md of the user's. Raise Rejected, with a clause, if it is not the skill's own file."""
    try:
        return read_skill_file(file).head
    except OSError as error:
        raise Rejected(error_reason(error), "") from None


def read_project_skill(project: Project, file: Path) -> bytes:
    """Return a SKILL.md of a project. Raise Rejected, with a clause, unless it is the content that is trusted."""
    own, why = project.judge(file)
    if why:
        raise Rejected(why, CONFIRM_REMEDY)
    return own.head


class SkillLibrary:
    """The skills of a run; `is_read` is True once they have been found. `problems` has messages about those that cannot
    be used; the caller that shows them removes them.
    """

    def __init__(self, project: Project | None = None, plugins: Sequence[SkillPlace] = ()) -> None:
        self._project, self._plugins = project, plugins
        self._read = dict[Path, tuple[Stamp, object, Skill | str]]()
        self._found: tuple[float, object, dict[str, Skill]] = 0.0, self, {}  # when, under which terms, what
        self._told, self.is_read = set[str](), False
        self.problems: list[str] = []

    def places(self) -> Iterator[SkillPlace]:
        """Yield the places of skills, the first to count first."""
        if (project := self._project) and project.trusted:
            for name in project_folders(project.folder):
                yield SkillPlace(project.folder / name, name, partial(read_project_skill, project), project.approved)
        yield SkillPlace(user_folder(), str(user_folder()), read_own_skill)
        yield SkillPlace(Path.home() / SHARED_FOLDER, f"~/{SHARED_FOLDER}", read_own_skill)
        yield from self._plugins

    def skills(self) -> dict[str, Skill]:
        """Return all skills by name, in the order in which models get them. They are looked up anew after a moment."""
        terms = self._project.approved if self._project and self._project.trusted else None
        began = time.monotonic()
        if began < self._found[0] + LOOK_SECONDS and self._found[1] is terms:
            return self._found[2]
        found, unusable, seen = dict[str, Skill](), dict[str, None](), set[Path]()
        for place in self.places():
            folders = [each for each in skill_folders(place.folder) if each not in seen]  # one may be a link to another
            seen.update(folders)
            for folder in folders[:MAX_SKILLS]:
                skill = self._skill(folder, place)
                if isinstance(skill, str):
                    unusable[f"The skill {clean_line(folder.name)} ({place.shown}) is not used: {skill}."] = None
                elif skill.name not in found:
                    found[skill.name] = skill
            if len(folders) > MAX_SKILLS:
                unusable[f"Only the first {MAX_SKILLS:,} of {len(folders):,} skills in {place.shown} are used."] = None
        self._tell(list(unusable))
        if began >= self._found[0]:  # else another thread has begun later, and may have seen more
            self._found, self.is_read = (began, terms, found), True
        return found

    def tell_left_out(self, count: int, max_tokens: int) -> None:
        """Tell the user, once, how many skills the list for models has no room for."""
        what = f"{count:,} skills are not offered to models: their list has room for {max_tokens:,} tokens"
        self._tell([f"{what} ([context] skills_tokens). Switch some off: /skills off NAME."])

    def _tell(self, problems: list[str]) -> None:
        new = [each for each in problems if each not in self._told]
        self._told.update(new)
        more = [f"{len(new) - MAX_PROBLEMS:,} more skills cannot be used; /skills lists all that can."]
        self.problems += [*new[:MAX_PROBLEMS], *(more if len(new) > MAX_PROBLEMS else [])]

    def _skill(self, folder: Path, place: SkillPlace) -> Skill | str:
        """Return the skill in a folder, or a clause that says why it cannot be used."""
        file = folder / SKILL_FILE
        try:
            stat = file.stat()
            stamp = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
        except OSError as error:
            return error_reason(error)
        known = self._read.get(file)
        if known is None or known[0] != stamp or known[1] is not place.terms:
            try:
                made: Skill | str = read_skill(folder, place)[0]
            except Rejected as refusal:
                made = refusal.what.rstrip(".")
            known = self._read[file] = stamp, place.terms, made
        return known[2]

    def instructions(self, skill: Skill) -> str:
        """Return the instructions of a skill as they are now, below a line about its folder. Raise Rejected."""
        place = next((each for each in self.places() if each.shown == skill.place), None)
        try:
            if place is None:
                raise Rejected("its place is no longer used", "")
            body = read_skill(skill.folder, place)[1]
        except Rejected as refusal:
            what = f"The skill {skill.name} cannot be used: {refusal.what.rstrip('.')}."
            raise Rejected(what, refusal.remedy or f"ikigai skills check {skill.folder}") from None
        files = ", ".join(map(clean_line, list_files(skill.folder)))
        more = f" Files in it: {files}." if files else ""
        return f"[skill {skill.name}, whose relative paths begin in {clean_line(str(skill.folder))}.{more}]\n\n{body}"


def read_skill(folder: Path, place: SkillPlace) -> tuple[Skill, str]:
    """Read the skill in a folder and its instructions. Raise Rejected, with a clause, if it cannot be used."""
    content = place.read(folder / SKILL_FILE)
    if len(content) > MAX_SKILL_BYTES:
        raise Rejected(f"its {SKILL_FILE} is longer than {MAX_SKILL_BYTES:,} bytes", "Move parts of it into files.")
    from ikigai.app.skills.front_matter import read_leniently
    from ikigai.app.skills.skill_check import find_errors, unknown_fields

    try:
        fields, body = read_leniently(content.decode())
    except UnicodeDecodeError as error:
        raise Rejected(f"its {SKILL_FILE} is not UTF-8 text (offset {error.start})", "") from None
    except ValueError as error:
        raise Rejected(str(error), "") from None
    known = {name: value for name, value in fields.items() if name not in unknown_fields(fields)}
    errors = [each.rstrip(".") for each in find_errors(known, folder.name)]
    if errors and place.is_strict:
        raise Rejected(clean_line("; ".join(errors)), "")
    named = (unicodedata.normalize("NFKC", str(each).strip()) for each in (fields.get("name") or "", folder.name))
    name, description = next(filter(NAME.fullmatch, named), ""), str(fields.get("description") or "").strip()
    if not (name and description):
        raise Rejected("it has no description" if name else "neither its name nor that of its folder can be typed", "")
    unknown = [each for each in unknown_fields(fields) if each not in OWN_FIELDS]
    skill = Skill(
        name,
        storable(description),
        folder,
        place.shown,
        len(body.encode()),
        not _is_true(fields, "disable-model-invocation", False),
        _is_true(fields, "user-invocable", True),
        clean_line(str(fields.get("argument-hint", "")))[:MAX_HINT],
        tuple(clean_line(each) for each in (*errors, *([f"unknown fields: {', '.join(unknown)}"] if unknown else []))),
    )
    return skill, storable(body)


def _is_true(fields: dict[str, Any], name: str, default: bool) -> bool:
    word = str(fields.get(name) or "").strip().lower()
    return word in TRUE_WORDS if word else default


def short_line(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = clean_line(" ".join(text.split()))
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
