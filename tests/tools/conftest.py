"""Fixtures of the tests of tools: a working directory with one beside it, and a witness."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.children import Witness
from tests.tools.files.hands import Hands


@pytest.fixture
def witness() -> Iterator[Witness]:
    """Check that no child is left after the test."""
    made = Witness()
    yield made
    assert made.alive() == {}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "private.txt").write_text("the secret\n")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def hands(work: Path) -> Hands:
    return Hands(work)
