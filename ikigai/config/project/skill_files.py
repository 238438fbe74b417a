"""Find the folders of skills, and read a SKILL.md only if it is the skill's own file."""

from __future__ import annotations

import os
from pathlib import Path

from ikigai.config.project import project_files
from ikigai.config.project.project_files import OwnFile

SKILL_FILE = "SKILL.md"
SHARED_FOLDER = ".agents/skills"
"""The folder of skills in the home that several programs share."""
SKILL_FOLDERS = (".ikigai/skills", SHARED_FOLDER, ".claude/skills")
"""The folders of skills in a project, the first to count first."""
MAX_SKILL_BYTES = 100_000
"""A longer SKILL.md is not used: about 25,000 tokens."""
MAX_SKILLS = 1_000
"""Skills of one place that are used, in the order of their folders' names."""
MAX_LISTED_FILES, MAX_LISTED_FOLDERS = 30, 100
"""Files of a skill that a model is told of, and folders that are looked through for them."""


def project_folders(folder: Path) -> tuple[str, ...]:
    """Return the SKILL_FOLDERS of a project with this real path. Those in the home are the user's, for every folder."""
    return SKILL_FOLDERS[:1] if folder == Path(os.path.realpath(Path.home())) else SKILL_FOLDERS


def skill_folders(place: Path) -> list[Path]:
    """Return the real folders in a place that have a SKILL.md, by the names that they have there; none is read."""
    try:
        names = sorted(os.listdir(place))  # noqa: PTH208 - at every turn: Path takes three times as long
    except OSError:
        return []
    found = (os.path.join(place, name) for name in names if not name.startswith("."))  # noqa: PTH118
    real = dict.fromkeys(os.path.realpath(each) for each in found if os.path.lexists(f"{each}/{SKILL_FILE}"))
    return [Path(each) for each in real]


def read_skill_file(file: Path) -> OwnFile:
    """Read a SKILL.md once, with one byte more of it than is used. Raise OSError as `project_files.open_own` does, also
    where its folder is a link by now.
    """
    return project_files.read_own(file.parent, file, MAX_SKILL_BYTES + 1)


def list_files(folder: Path) -> list[str]:
    """Return the files beside a SKILL.md by relative path, links left out."""
    found = list[str]()
    for number, (path, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        files = (Path(path, name) for name in sorted(names) if not name.startswith(".") and name != SKILL_FILE)
        found += [str(file.relative_to(folder)) for file in files if not file.is_symlink()]
        if len(found) > MAX_LISTED_FILES or number > MAX_LISTED_FOLDERS:
            return [*found[:MAX_LISTED_FILES], "…"]
    return found
