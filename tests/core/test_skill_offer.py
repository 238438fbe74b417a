"""Tests of the list of skills that models are offered."""

from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.text import tokens
from ikigai.core.tools.skill_offer import describe_skills, listed_skills, skills_setting

NAMES = st.text("abcdefghij-é1", min_size=1, max_size=20).filter(lambda name: name.strip("-") == name)


def test_list_has_a_line_for_each_skill():
    text, count = skills_setting({"pdf": "Extracts\n  text.", "docx": "Writes: letters"}, 2_000)
    assert count == 2 and listed_skills(text) == ["pdf", "docx"]
    assert text.endswith("\n- pdf: Extracts text.\n- docx: Writes: letters")
    assert describe_skills(text) == "Skills offered: pdf, docx, 59 tokens"


def test_without_skills_there_is_no_list():
    assert skills_setting({}, 2_000) == ("", 0)
    assert skills_setting({"pdf": "d"}, 0) == ("", 0)
    assert describe_skills("") == "Skills offered: none"


def test_descriptions_are_cut_alike_before_a_skill_is_left_out():
    described = {f"skill-{number}": "d" * 900 for number in range(20)}
    text, count = skills_setting(described, 2_000)
    lengths = {len(line) for line in text.splitlines()[1:]}
    assert count == 20 and max(lengths) - min(lengths) <= 1 and 200 < max(lengths) < 250
    text, count = skills_setting({f"skill-{number:04}": "d" * 900 for number in range(1_000)}, 2_000)
    assert 400 < count < 1_000 and listed_skills(text) == [f"skill-{number:04}" for number in range(count)]
    assert describe_skills(text).startswith("Skills offered: skill-0000, skill-0001")


@given(st.dictionaries(NAMES, st.text(max_size=1_200), max_size=30), st.integers(0, 3_000))
def test_list_keeps_to_its_tokens_and_is_always_the_same(described: dict[str, str], max_tokens: int) -> None:
    text, count = skills_setting(described, max_tokens)
    assert tokens.count_tokens("", "", len(text.encode())) <= max_tokens
    assert listed_skills(text) == [*described][:count]
    assert skills_setting(dict(described), max_tokens) == (text, count)
