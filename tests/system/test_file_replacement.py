"""A file is replaced whole, with its links, mode and owner kept, or written in place where nothing can replace it."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ikigai.system import file_replacement, paths
from ikigai.system.file_replacement import open_folder, stage, write_file


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(params=[True, False], ids=["unnamed", "hidden name"])
def unnamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With and without files that have no name."""
    if not request.param:
        monkeypatch.setattr(file_replacement, "_UNNAMED", 0)
    return request.param


def make_plain(folder: Path) -> Path:
    (folder / "a").write_text("old")
    return folder / "a"


def make_link(folder: Path) -> Path:
    (folder / "store").mkdir()
    (folder / "store" / "real").write_text("old")
    (folder / "a").symlink_to("store/real")
    return folder / "a"


def make_links(folder: Path) -> Path:
    """Make a link to a link."""
    (folder / "b").symlink_to(make_link(folder))
    return folder / "b"


def make_dangling(folder: Path) -> Path:
    (folder / "store").mkdir()
    (folder / "a").symlink_to("store/real")
    return folder / "a"


def make_hard_link(folder: Path) -> Path:
    (folder / "store").mkdir()
    (folder / "store" / "real").write_text("old")
    (folder / "a").hardlink_to(folder / "store" / "real")
    return folder / "a"


@pytest.mark.parametrize("make", [make_plain, make_link, make_links, make_dangling, make_hard_link])
def test_links_stay_and_lead_to_the_new_content(unnamed: bool, make: Callable[[Path], Path], tmp_path: Path):
    file = make(tmp_path)
    names, was_link = sorted(os.listdir(tmp_path)), file.is_symlink()
    write_file(file, b"new, and longer")
    write_file(file, b"new")
    assert file.read_bytes() == b"new" and file.is_symlink() == was_link
    if (store := tmp_path / "store").exists():
        assert os.listdir(store) == ["real"] and (store / "real").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == names
    assert not list(paths.state_dir().glob("before-*"))


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o664])
def test_mode_is_kept_on_request(unnamed: bool, mode: int, tmp_path: Path):
    file = make_link(tmp_path)
    file.chmod(mode)
    write_file(file, b"new", keeps_mode=True)
    assert stat.S_IMODE(file.stat().st_mode) == mode
    write_file(file, b"newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


MOUNTED = """
import sys
from pathlib import Path
from ikigai.system.file_replacement import write_file
write_file(Path(sys.argv[1]), sys.argv[2].encode(), keeps_mode=True)
"""


def run_mounted(prepare: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `prepare` as root of its own mounts, then write the first of the arguments."""
    script = f'set -e\n{prepare}\nexec "$PY" -c "$CODE" "$1" "$2"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", *map(str, arguments)]
    env = {**os.environ, "PY": sys.executable, "CODE": MOUNTED}
    try:
        probe = subprocess.run([*command[:3], "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if probe.returncode:
        pytest.skip("this system makes no mounts for an ordinary user")
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "prepare",
    [
        'mount --bind "$3" "$1"',
        'mount --bind "$4" "$4"; mount --bind "$3" "$1"; mount -o remount,ro,bind "$4"',
    ],
    ids=["file", "in a read-only folder"],
)
def test_mounted_file_is_written_in_place(prepare: str, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    file, source = make_plain(folder), tmp_path / "source"
    source.write_text("the old content, which is longer")
    done = run_mounted(prepare, file, "new", source, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert source.read_text() == "new" and file.read_text() == "old"
    assert os.listdir(folder) == ["a"] and not list(paths.state_dir().glob("before-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("folder_mode", [0o1777, 0o755], ids=["sticky", "not writable"])
def test_writable_file_in_a_folder_of_others_is_written_in_place(folder_mode: int, tmp_path: Path):
    for above in (tmp_path, *tmp_path.parents):  # one more of them where tests run side by side
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o055)
    folder = tmp_path / "folder"
    folder.mkdir()
    file = make_plain(folder)
    file.chmod(0o666)
    folder.chmod(folder_mode)
    child = os.fork()
    if not child:
        os.environ["XDG_STATE_HOME"] = "/nonexistent"
        os.setgid(65534)
        os.setuid(65534)
        try:
            write_file(file, b"new", keeps_mode=True)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (file.read_bytes(), file.stat().st_uid, os.listdir(folder)) == (b"new", 0, ["a"])


def test_full_disk_leaves_a_file_with_two_names_as_it_was(tmp_path: Path):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True).returncode:
        pytest.skip("only root mounts file systems")
    try:
        file = make_hard_link(folder)
        (folder / "filler").write_bytes(bytes(24_000))
        old = file.open("r+b")
        with open_folder(folder) as directory, stage(directory, "a", is_new=False) as staged, old:
            staged.write(bytes(16_000))
            (folder / "more").write_bytes(bytes(12_000))
            with pytest.raises(OSError, match="No space"):
                staged.replace(old.fileno(), file)
        assert file.read_bytes() == b"old" and file.stat().st_nlink == 2
    finally:
        subprocess.run(["umount", folder], check=True)
    assert not list(paths.state_dir().glob("before-*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from ikigai.system import file_replacement
if sys.argv[2] == "hidden": file_replacement._UNNAMED = 0
wanted, real = sys.argv[3], getattr(os, sys.argv[3])
def kill(*arguments, **named):
    real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, wanted, kill)
file_replacement.write_file(Path(sys.argv[1]), b"n" * 5000)
"""


@pytest.mark.parametrize(
    ("kind", "call", "hard", "left"),
    [
        ("unnamed", "fsync", False, 0),
        ("unnamed", "link", False, 1),  # the moment between its two names
        ("hidden", "fsync", False, 1),
        ("unnamed", "pwrite", True, 0),
        ("unnamed", "ftruncate", True, 0),
    ],
)
def test_write_after_a_kill_leaves_nothing_beside_the_file(kind: str, call: str, hard: bool, left: int, tmp_path: Path):
    file = (make_hard_link if hard else make_plain)(tmp_path)
    ended = subprocess.run([sys.executable, "-c", KILLED, file, kind, call], timeout=60).returncode
    assert ended == -signal.SIGKILL
    assert len([name for name in os.listdir(tmp_path) if name.startswith(".")]) == left
    copies = list(paths.state_dir().glob("before-*"))
    assert len(copies) == hard and (hard or file.read_bytes() == b"old")
    with open_folder(tmp_path) as directory, stage(directory, "a", is_new=False) as staged, file.open("r+b") as old:
        staged.write(b"new")
        assert staged.replace(old.fileno(), file).left == (copies[0] if copies else None)
    assert file.read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == sorted(["a", *["store"] * hard])


def test_long_name_has_a_hidden_one_too(unnamed: bool, tmp_path: Path):
    (file := tmp_path / ("ž" * 120)).write_text("old")
    write_file(file, b"new")
    assert file.read_bytes() == b"new" and list(tmp_path.iterdir()) == [file]
