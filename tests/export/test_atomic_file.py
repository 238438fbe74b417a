"""Export files leave existing files alone."""

import os
import stat
from pathlib import Path

import pytest

from ikigai.core.errors import IkigaiError, Rejected
from ikigai.export.atomic_file import write_atomically


def test_it_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "x.md"
    with pytest.raises(IkigaiError, match="No space left"), write_atomically(target):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
    with write_atomically(target) as file:
        file.write("ž\n")
    assert target.read_bytes() == "ž\n".encode() and stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(Rejected, match="already exists"), write_atomically(target):
        raise AssertionError
    with write_atomically(target, replace=True) as file:
        file.write("y")
    assert target.read_text() == "y" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_but_a_file_is_replaced(tmp_path: Path, replace: bool) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "pipe.md")
    for name, why in {"pipe.md": "not a regular file", "link.md": "not a regular file", ".": "is a folder"}.items():
        with pytest.raises(Rejected, match=why), write_atomically(tmp_path / name, replace):
            raise AssertionError
    assert stat.S_ISFIFO((tmp_path / "pipe.md").stat().st_mode) and len(list(tmp_path.iterdir())) == 2
