"""Tests of the check of skills: it decides as the reference validator, and warns besides."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikigai.app.skills.skill_check import check_skill
from tests.app.skills.reference import GoldenSkill, golden_skills, is_valid

GOLDEN_SKILLS = golden_skills()


@pytest.mark.parametrize("skill", GOLDEN_SKILLS, ids=lambda skill: skill.what)
def test_check_decides_as_the_reference_validator(skill: GoldenSkill, tmp_path: Path) -> None:
    folder = skill.write(tmp_path)
    assert is_valid(folder) == skill.valid
    verdict = check_skill(folder)
    assert (not verdict.errors) == skill.valid, verdict
    assert all(each.endswith(".") for each in (*verdict.errors, *verdict.warnings))


def test_golden_skills_have_many_of_both_kinds():
    valid = sum(skill.valid for skill in GOLDEN_SKILLS)
    assert valid >= 25 and len(GOLDEN_SKILLS) - valid >= 35


PIECES = (
    *("\n", "---", "- ", "  ", ": ", ":", "'", '"', "[", "]", "{", "}", "#", " #", "&a", "*a", "!", "!!str", "|", ">"),
    *("|-", "\t", "name: pdf\n", "x: y\n", "  x: y\n", "- a\n", "? ", "%", "@", "`", ",", "<<: ", "~", "é", "..."),
    *("\r\n", "a", "A", "-", "--", "description: d\n", "metadata:\n", " "),
)
"""Pieces that are put into the text of a skill, or take the place of something in it."""
_CHANGES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5), st.sampled_from(PIECES)), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(GOLDEN_SKILLS), _CHANGES)
def test_check_decides_as_the_reference_validator_on_changed_skills(
    tmp_path_factory: pytest.TempPathFactory, skill: GoldenSkill, changes: list[tuple[int, int, str]]
) -> None:
    text = skill.text
    for at, removed, put in changes:
        text = text[:at] + put + text[at + removed :]
    folder = skill._replace(text=text).write(tmp_path_factory.mktemp("skill"))
    assert (not check_skill(folder).errors) == is_valid(folder)


def write(folder: Path, text: str, name: str = "SKILL.md") -> Path:
    folder.mkdir()
    (folder / name).write_text(text)
    return folder


HEAD = "---\nname: pdf\ndescription: d\n"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"{HEAD}allowed-tools: Bash\n---\n", "allowed-tools approves nothing"),
        (f"{HEAD}---\n" + "line\n" * 600, "It has 600 lines"),
        (f"{HEAD}---\n" + "x" * 1_000_000, "ikigai loads no skill of more than 100,000"),
        ("---\nname: pdf\ndescription: a --- b", "ikigai does not load it"),
    ],
)
def test_warnings_do_not_make_a_skill_invalid(text: str, warning: str, tmp_path: Path) -> None:
    verdict = check_skill(write(tmp_path / "pdf", text))
    assert not verdict.errors and [each for each in verdict.warnings if warning in each]


def test_what_is_no_skill_is_named(tmp_path: Path):
    assert check_skill(tmp_path).errors == (f"There is no SKILL.md in {tmp_path}.",)
    (tmp_path / "SKILL.md").mkdir()
    assert check_skill(tmp_path).errors == ("SKILL.md is not a regular file.",)
    latin = tmp_path / "latin"
    latin.mkdir()
    (latin / "SKILL.md").write_bytes(b"---\nname: caf\xe9\n---\n")
    assert check_skill(latin).errors == ("SKILL.md cannot be read: it is not UTF-8 text.",)
    small = check_skill(write(tmp_path / "pdf", f"{HEAD}---\n", "skill.md"))
    assert not small.errors and "in capitals" in small.warnings[0]
