"""A small project on disk with everything that must not be read or run, and programs that only record their calls."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ikigai.tools.approval.path_policy import Place

FILES = {
    "README.md": "# App\nmain\n",
    "config.toml": "# c\na = 1\n",
    "data.csv": "name,n,city\nb,2,x\na,1,y\n",
    "src/app.py": "import util\n\n\ndef main():\n    pass\n",
    "src/util.py": "# TODO\n",
    "tests/app/test_services.py": "",
    "docs/a file.md": "text\n",
    "run.sh": "#!/bin/sh\ntouch ran\n",
    ".env": "KEY=canary\n",
    ".git/config": "[core]\n",
    "Makefile": "all:\n\ttouch made\n",
}
"""Also a file that is called like an option, and links that lead out; see `made`."""


def made(folder: Path) -> Path:
    """The project in a new folder below `folder`; its real path."""
    root = Path(os.path.realpath(folder)) / "project"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "run.sh").chmod(0o755)
    (root / "src" / "--pre=run.sh").write_text("")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "private.txt").write_text("canary\n")
    (outside / "back").symlink_to(root)
    (root / "link.txt").symlink_to(outside / "private.txt")
    (root / "linked").symlink_to(outside)
    (root / "inner").symlink_to("src")
    return root


def recorders(folder: Path, names: set[str]) -> tuple[Path, Path]:
    """Two new folders: programs called `names` that do nothing, and where each call of one leaves a file.

    A file holds the name and the arguments, each ended by a NUL.
    """
    programs, calls = folder / "programs", folder / "calls"
    programs.mkdir()
    calls.mkdir()
    recorder = programs / ".recorder"
    recorder.write_text(
        f'#!/bin/bash\nprintf "%s\\0" "${{0##*/}}" "$@" > "{calls}/$$"\n'  # no two of one command share a process
    )
    recorder.chmod(0o755)
    for name in names:
        (programs / name).symlink_to(recorder)
    return programs, calls


def calls_in(folder: Path) -> list[list[str]]:
    """The calls that were recorded there, which are forgotten then."""
    found: list[list[str]] = []
    for file in folder.iterdir():
        found.append(os.fsdecode(file.read_bytes()).split("\0")[:-1])
        file.unlink()
    return found


def place(root: Path, programs: Path) -> Place:
    own = root.parent / "home" / ".config" / "ikigai"
    return Place(str(root), (str(own),), str(programs))


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """What is in the folder: mode, time of change and content of everything in it."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found
