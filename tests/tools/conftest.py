"""What tests of tools share: a working directory with one beside it, and a witness for those that start children."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.children import Witness
from tests.tools.files.hands import Hands


@pytest.fixture
def witness() -> Iterator[Witness]:
    """No child may be left when the test is over."""
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
