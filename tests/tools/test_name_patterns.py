"""Names of secret and of protected files are data: each has its source and is matched, and ordinary names are not."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from ikigai.tools.approval.path_policy import PROTECTED_NAMES, PathScope, protection_reason
from ikigai.tools.secret_files import SECRET_NAMES, NameGroup, is_secret, read_groups
from tests import GOLDEN

ROOT = "/srv/project"
SCOPE = PathScope(ROOT, (), "/usr/bin:/bin")
EXAMPLES: dict[str, list[str]] = tomllib.loads((GOLDEN / "file_names.toml").read_text("utf-8"))


def is_protected(path: str) -> bool:
    return protection_reason(SCOPE, f"{ROOT}/{path}") != ""


def spell_out(pattern: str) -> list[str]:
    """Return names that the pattern stands for, one for each word in braces; a folder's has a file below it."""
    name = pattern.replace("*", "x").replace("?", "0") + "file" * pattern.endswith("/")
    pieces = [piece.split(",") for piece in re.split(r"[{}]", name)]
    names = [""]
    for words in pieces:
        names = [f"{name}{word}" for name in names for word in words]
    return names


@pytest.mark.parametrize("file", [SECRET_NAMES, PROTECTED_NAMES], ids=lambda file: file.stem)
def test_every_name_has_a_source_stands_once_and_is_matched(file: Path):
    groups = read_groups(file)
    assert all(len(group.program) > 2 and len(group.source) > 3 for group in groups)
    names = list(chain.from_iterable(group.names for group in groups))
    assert len(names) == len(set(names)) and all(name == name.lower() for name in names)
    for name in chain.from_iterable(spell_out(name) for name in names):
        for path in (name, f"src/deep/{name}", name.upper()):
            assert is_protected(path), path
            assert is_secret(ROOT, f"{ROOT}/{path}") or file != SECRET_NAMES, path


def test_unknown_key_of_a_group_is_an_error(tmp_path: Path):
    (tmp_path / "names.toml").write_text('[[group]]\nprogram = "a"\nsource = "b"\nnames = []\nbut = []\n')
    with pytest.raises(ValueError, match="unknown field"):
        read_groups(tmp_path / "names.toml")
    assert NameGroup("a", "b", ()).but_not == ()


@pytest.mark.parametrize("path", EXAMPLES["secret"])
def test_file_with_keys_is_secret_and_protected(path: str):
    assert is_secret(ROOT, f"{ROOT}/{path}") and is_protected(path)


@pytest.mark.parametrize("path", EXAMPLES["protected"])
def test_file_that_other_programs_obey_is_protected(path: str):
    assert is_protected(path) and is_protected(f"packages/a/{path}") and is_protected(path.upper())


@pytest.mark.parametrize("path", EXAMPLES["ordinary"])
def test_ordinary_file_is_neither_secret_nor_protected(path: str):
    assert not is_secret(ROOT, f"{ROOT}/{path}") and protection_reason(SCOPE, f"{ROOT}/{path}") == ""


def test_reason_names_the_program_and_the_name():
    reason = protection_reason(SCOPE, f"{ROOT}/sub/.VSCode/tasks.json")
    assert reason == "Visual Studio Code and its relatives may run or obey .VSCode"
    assert "for an option" in protection_reason(SCOPE, f"{ROOT}/-rf")


def test_folders_above_the_working_directory_do_not_count():
    root = "/home/u/.config/project"
    assert not is_secret("/home/u/.ssh/project", "/home/u/.ssh/project/a.py")
    assert protection_reason(PathScope(root), f"{root}/a.py") == ""
