"""This module says how many examples and random lives tests try: few in the ordinary run, all of them in long ones."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

USUAL_EXAMPLES = 100
MIN_EXAMPLES = 10
PART = 4

is_thorough = False
"""True in a long run."""


def examples(number: int) -> int:
    """Return `number` in a long run, else a part of it."""
    return number if is_thorough else max(MIN_EXAMPLES, number // PART)


def choose(thorough: bool) -> None:
    """Set the number of examples of all tests that name none, before they are imported."""
    global is_thorough
    is_thorough = thorough
    # How long an example takes is the machine's business.
    settings.register_profile("ikigai", deadline=None, max_examples=examples(USUAL_EXAMPLES))
    settings.load_profile("ikigai")


def seeds(ordinary: int, every: int, first: int = 0) -> list[Any]:
    """Return `every` seeds from `first` on as parameters; those behind the `ordinary` ones are for long runs."""
    numbers = range(first, first + every)
    return [*numbers[:ordinary], *(pytest.param(number, marks=pytest.mark.long) for number in numbers[ordinary:])]


def chosen(every: Iterable[Any], *ordinary: Any) -> list[Any]:
    """Return the values as parameters; all but the `ordinary` ones are for long runs."""
    return [each if each in ordinary else pytest.param(each, marks=pytest.mark.long) for each in every]


walk = pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"])
"""Mark a walk over some rows of a table, and in a long run over all of them; `whole` is True there."""
