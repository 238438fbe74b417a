"""Live memory equals memory after a restart, and both follow the rules, in random lives."""

import pytest

from tests.core.life import Life, condensed_life, family_life, overriding_life, recalling_life, run_lives


def test_live_replayed_and_the_rules_agree() -> None:
    run_lives(Life, examples=5, steps=36)


def test_family() -> None:
    family_life(Life)


def test_condensed_life() -> None:
    condensed_life(Life)


def test_setting_that_overrides_a_flag_is_replayed() -> None:
    overriding_life(Life)


def test_recalled_excerpts_are_undone_and_forgotten() -> None:
    recalling_life(Life)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_live_replayed_and_the_rules_agree_for_long() -> None:
    run_lives(Life, examples=1000, steps=60)
