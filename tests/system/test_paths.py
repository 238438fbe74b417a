"""Tests of the places of files."""

from pathlib import Path

import pytest

from ikigai.system import paths


def test_home_of_an_unknown_user_is_a_name_like_any_other() -> None:
    assert paths.expand_home("~/x") == Path.home() / "x"
    assert paths.expand_home("~nobody-at-all/x") == Path("~nobody-at-all/x")


def test_file_in_the_place_of_a_folder_is_named_as_that(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        paths.make_folder(tmp_path / "file" / "below")
