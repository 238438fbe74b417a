"""Choose how many examples and random lives tests try: few in the ordinary run, all of them in long ones."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import settings

USUAL_EXAMPLES = 100
MIN_EXAMPLES = 10
PART = 8

is_thorough = False
"""True in a long run."""


def examples(number: int) -> int:
    """Return `number` in a long run, else a part of it."""
    return number if is_thorough else max(MIN_EXAMPLES, number // PART)


def choose(thorough: bool) -> None:
    """Set the number of examples of all tests that name none, before they are imported."""
    global is_thorough
    is_thorough = thorough
    # How long an example takes is the machine's business. Ordinary runs try the same examples each time.
    settings.register_profile("ikigai", deadline=None, max_examples=examples(USUAL_EXAMPLES), derandomize=not thorough)
    settings.load_profile("ikigai")


def seeds(ordinary: int, every: int, first: int = 0) -> list[Any]:
    """Return `every` seeds from `first` on as parameters; those behind the `ordinary` ones are for long runs."""
    numbers = range(first, first + every)
    return [*numbers[:ordinary], *(pytest.param(number, marks=pytest.mark.long) for number in numbers[ordinary:])]


def ordinary_names(item: pytest.Item) -> tuple[str, ...]:
    """Return the arguments of the test's mark `ordinary`, patterns for the ids of its parameters."""
    mark = item.get_closest_marker("ordinary")
    return mark.args if mark else ()


def has_name(item: pytest.Item, name: str) -> bool:
    return isinstance(item, pytest.Function) and fnmatchcase(item.callspec.id, name)


def is_ordinary(item: pytest.Item) -> bool:
    """Return False for parameters of a test whose mark `ordinary` names others."""
    names = ordinary_names(item)
    return not names or any(has_name(item, name) for name in names)


def unused_names(items: Iterable[pytest.Item]) -> list[tuple[str, str]]:
    """Return the names in marks `ordinary` that no parameter of the test has, behind the test."""
    found = dict[tuple[str, str], bool]()
    for item in items:
        for name in ordinary_names(item):
            key = item.nodeid.partition("[")[0], name
            found[key] = found.get(key, False) or has_name(item, name)
    return [key for key, is_used in found.items() if not is_used]


walk = pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"])
"""Mark a walk over some rows of a table, and in a long run over all of them; `whole` is True there."""
