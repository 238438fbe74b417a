"""Tests of words that are nearly subcommands."""

import pytest

from ikigai.cli.main import SUBCOMMANDS
from ikigai.cli.mistyped import choose_meaning, edit_distance, nearest_subcommand
from ikigai.core.errors import ConfigError

NAMES = [name for (name,) in SUBCOMMANDS]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("", "ab", 2),
        ("agnets", "agents", 1),
        ("bd", "db", 1),
        ("usge", "usage", 1),
        ("kitten", "sitting", 3),
    ],
)
def test_edit_distance(one: str, other: str, distance: int):
    assert edit_distance(one, other) == edit_distance(other, one) == distance


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("agnets", "agents"), ("model", "models"), ("hisotry", "history"), ("doctro", "doctor"), ("logn", "login"),
        ("stup", "setup"), ("configure", ""), ("hello", ""), ("frobnicate", ""), ("why", ""), ("do", ""),
        ("agents" * 2000, ""), ("agnets!", ""),
    ],
)  # fmt: skip
def test_nearest_subcommand(word: str, name: str):
    assert nearest_subcommand(word, NAMES) == name


def test_without_a_terminal_it_is_an_error_that_names_both_ways():
    with pytest.raises(ConfigError) as refused:
        choose_meaning("agnets", "agents", interactive=False)
    assert refused.value.exit_code == 2
    assert "ikigai agents?" in refused.value.remedy and "ikigai -p agnets" in refused.value.remedy
