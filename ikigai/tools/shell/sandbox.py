"""The sandbox: bubblewrap around a command, so that it changes nothing but the working directory.

In it, the working directory can be written to, except its `.git` and `.ikigai`: what is in those is run or read by
programs outside. Everything else is read-only, ikigai's own folders are hidden, /tmp and /run are empty and gone with
the command, there is no network unless it is allowed, and no process that the command starts survives it. What the user
may read, it may read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ikigai.core.errors import Refused
from ikigai.tools.shell.exit_report import ending
from ikigai.tools.shell.run import run

USUAL = "/usr/bin/bwrap"
"""Tried first: where AppArmor forbids user namespaces, it allows them to this path."""
READ_ONLY = (".git", ".ikigai")
PRIVATE = ("/tmp", "/var/tmp", "/run")
"""/run holds the sockets of programs that would do something for whoever asks: Docker, systemd, D-Bus."""
OF_THE_SYSTEM = ("/run/current-system", "/run/wrappers")
"""Parts of it without which NixOS has no programs."""
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
        self._program = USUAL if Path(USUAL).exists() else shutil.which("bwrap", path=environment.get("PATH")) or ""
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
            *(word for folder in self._hidden if folder.is_dir() for word in ("--tmpfs", str(folder))),
            *(word for folder in seen for word in ("--ro-bind", str(folder), str(folder))),
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
