"""A witness for every test that starts children: none may be left when the test is over."""

from collections.abc import Iterator

import pytest

from tests.tools.children import Witness


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    assert made.alive() == {}
