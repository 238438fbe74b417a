"""Make a small project with files that must not be read or run, and programs that record their calls."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ikigai.tools.approval.path_policy import PathScope

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
"""Files of the project; `made` adds one with the name of an option, and links that lead out."""


def made(folder: Path) -> Path:
    """Make the project in a new folder below `folder`; return its real path."""
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


SNARES_OF_NAMES = (
    *(
        "a b.txt",
        "a\nb.txt",
        "'q\".txt",
        "$(touch made).txt",
        "`touch made`.txt",
        ";touch made;.txt",
        ">made.txt",
        "~.txt",
    ),
    *(
        "*.txt",
        "a|sh.txt",
        "{a,b}.txt",
        "\\.txt",
        "é.txt",
        "!!.txt",
        "# x.txt",
        "&.txt",
        "=.txt",
        " .txt",
        "\t.txt",
        "%s.txt",
    ),
)
"""Names that would be code if a shell read them again."""


def snares(root: Path) -> None:
    """Add names that a wildcard could make an option or code, keys, a pipe, and links that lead out."""
    for name in (
        *("dash/a.md", "dash/-n", "dash/--files0-from=list", "dash/-x.md", "dash/-rf", "dash/--pre=run.sh"),
        *("dashes/--files0-from=/x", "dashes/a/x", "keys/server.pem", "keys/a.md", "links/a.md"),
        *(f"odd/{name}" for name in SNARES_OF_NAMES),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("main canary\n" if name == "keys/server.pem" else "main\n")
    (root / "links" / "etc").symlink_to("/etc")
    (root / "links" / "key").symlink_to("../keys/server.pem")
    (root / "-").symlink_to(root.parent / "outside" / "private.txt")
    os.mkfifo(root / "pipe")


def recorders(folder: Path, names: set[str]) -> tuple[Path, Path]:
    """Make two folders: programs called `names` that do nothing, and one in which each call of them leaves a file.

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
    """Return the recorded calls and delete their files."""
    found: list[list[str]] = []
    for file in folder.iterdir():
        found.append(os.fsdecode(file.read_bytes()).split("\0")[:-1])
        file.unlink()
    return found


def place(root: Path, programs: Path) -> PathScope:
    own = root.parent / "home" / ".config" / "ikigai"
    return PathScope(str(root), (str(own),), str(programs))


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time of change and content of every file in the folder."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found
