"""The argument of /export is parsed."""

import pytest

from ikigai.app.history.export import parse_typed


@pytest.mark.parametrize("argument", ["talk.md 1-5 --force", "--force talk.md 1-5"])
def test_force_stands_before_or_behind_the_file(argument: str) -> None:
    asked = parse_typed(argument)
    assert asked.force and asked.target and (asked.target.name, asked.first, asked.last) == ("talk.md", 1, 5)
