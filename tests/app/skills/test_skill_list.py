"""Lists of skills say how much of them models are offered."""

import pytest

from ikigai.app.skills.library import SkillLibrary
from ikigai.app.skills.skill_list import format_skills, skills_record
from tests.app.skills.folders import use_home, write_skill


@pytest.mark.parametrize(
    ("max_tokens", "said"),
    [
        (2_000, "The list for models takes 62 of 2k tokens ([context] skills_tokens). /skills off NAME"),
        (55, "of 55 tokens ([context] skills_tokens). It cuts descriptions. /skills off"),
        (49, "of 49 tokens ([context] skills_tokens). It has no room for 1 of 2 skills. /skills off"),
        (10, "takes 0 of 10 tokens ([context] skills_tokens). It has no room for 2 of 2 skills. /skills off"),
    ],
)
def test_list_says_whether_models_get_all_of_it(tmp_path, monkeypatch, max_tokens: int, said: str):
    shared = use_home(tmp_path / "home", monkeypatch)
    for name in ("docx", "pdf"):
        write_skill(shared, name, description="A description of it.")
    assert said in format_skills(skills_record(SkillLibrary().skills().values(), (), max_tokens))
