"""Export files leave existing files alone."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ikigai.core.errors import IkigaiError, Rejected
from ikigai.system.atomic_file import write_atomically


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


def test_replaced_file_is_the_target_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (real := tmp_path / "store" / "x.md").write_text("old, and longer")
    real.chmod(0o644)
    (link := tmp_path / "x.md").symlink_to(real)
    with write_atomically(link, replace=True) as file:
        file.write("new")
    assert link.is_symlink() and real.read_text() == "new" and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["store", "x.md"] and os.listdir(tmp_path / "store") == ["x.md"]


KILLED = """
import os, signal, sys
from pathlib import Path
from ikigai.system import file_replacement
from ikigai.system.atomic_file import write_atomically
if len(sys.argv) > 2: file_replacement._UNNAMED = 0
with write_atomically(Path(sys.argv[1]), replace=True) as file:
    file.write("half of all conversations")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["x.md", "ž" * 120])
@pytest.mark.parametrize("unnamed", [True, False])
def test_killed_program_leaves_no_copy_that_lasts(tmp_path: Path, name: str, unnamed: bool) -> None:
    target = tmp_path / name
    killed = [sys.executable, "-c", KILLED, str(target), *(["hidden"] if not unnamed else [])]
    for _ in range(3):
        assert subprocess.run(killed, timeout=60).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == (not unnamed)
    if not unnamed:
        (left,) = tmp_path.iterdir()
        assert left.name.endswith(".ikigai-new") and stat.S_IMODE(left.stat().st_mode) == 0o600
        killed[2] = killed[2].replace("os.kill(", "(")
        assert subprocess.run(killed, timeout=60).returncode == 0
        assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("unnamed", [True, False])
def test_two_programs_do_not_share_a_hidden_name(
    tmp_path: Path, unnamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.setattr("ikigai.system.file_replacement._UNNAMED", 0)
    with write_atomically(tmp_path / "x", replace=True) as first:
        first.write("first")
        with contextlib.suppress(IkigaiError), write_atomically(tmp_path / "x", replace=True) as second:
            second.write("second")
    assert (tmp_path / "x").read_text() == "first" and os.listdir(tmp_path) == ["x"]
