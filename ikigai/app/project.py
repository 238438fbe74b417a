"""What the working directory brings with it, as far as the user trusts it: AGENTS.md, tools and settings of its own.

Until the folder is trusted nothing of it is read: only whether these names are there is looked at. Instructions are
AGENTS.md, or CLAUDE.md where there is none; they are read again when the file has become another one.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from ikigai.config import trusted_folders as trust
from ikigai.core.errors import IkigaiError
from ikigai.core.request.system_prompt import headed
from ikigai.system import paths
from ikigai.tools.shell.output_buffer import whole

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
TOOLS, CONFIG = Path(".ikigai/tools"), Path(".ikigai/config.toml")
MOST = 64 * 1024
"""Bytes of instructions that are read: they are sent with every request."""

Stamp = tuple[str, int, int, int, int]


class Project:
    """One working directory. `trusted` holds for this run; `file` is where what holds for longer is kept.

    `problems` are sentences about what cannot be used; whoever tells the user takes them out.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder, self.file = Path(os.path.realpath(folder)), file
        self.trusted = False
        self.problems: list[str] = []
        self._stamp: Stamp | None = None
        self._value = ""

    @property
    def brings(self) -> tuple[str, ...]:
        """What is here that nobody obeys before the folder is trusted, by name."""
        return tuple(name for name in (*INSTRUCTIONS, str(TOOLS), str(CONFIG)) if os.path.lexists(self.folder / name))

    @property
    def tools(self) -> Path:
        return self.folder / TOOLS

    @property
    def config(self) -> Path:
        return self.folder / CONFIG

    def look(self) -> None:
        """Find out whether the folder is trusted already; a damaged file trusts nothing."""
        try:
            self.trusted = trust.is_trusted(self.file, self.folder)
        except IkigaiError as error:
            self.problems.append(str(error))

    def trust(self, now: float) -> str:
        """From `now` on (seconds since 1970), in later runs, too; the real path. Raises IkigaiError, Refused."""
        with contextlib.suppress(OSError):  # then writing says why
            paths.private(self.file.parent)
        path = trust.trust(self.file, self.folder, now)
        self.trusted = True
        return path

    def revoke(self) -> bool:
        """No more, from now on; False when the folder was not trusted. Raises IkigaiError."""
        was, self.trusted = self.trusted, False
        return trust.revoke(self.file, self.folder) or was

    def instructions(self) -> str:
        """The setting `instructions` as it has to be now; "" for none. Reads a file only when it has changed."""
        if not self.trusted:
            self._stamp, self._value = None, ""
            return ""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp, self._value = stamp, self._read(stamp[0]) if stamp else ""
        return self._value

    def _stamped(self) -> Stamp | None:
        for name in INSTRUCTIONS:
            path = self.folder / name
            for look in (path.stat, path.lstat):  # of a link to nothing: reading says so
                with contextlib.suppress(OSError):
                    found = look()
                    return name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return None

    def _read(self, name: str) -> str:
        try:
            data = self._bytes(name)
        except OSError as error:
            why = error.strerror or str(error)
            self.problems.append(f"{name} cannot be used as instructions: {why}. Mend or remove it.")
            return ""
        text = whole(data[:MOST]).decode(errors="replace") if len(data) > MOST else data.decode(errors="replace")
        if len(data) > MOST:
            text += f"\n[cut: only the first {MOST:,} bytes of the file are here]"
            self.problems.append(f"{name} is longer than {MOST // 1024} KiB: the rest is left out. Make it shorter.")
        return headed(name, text)

    def _bytes(self, name: str) -> bytes:
        """What the file begins with, one byte more than is used. Raises OSError for all but a file of this folder."""
        real = Path(os.path.realpath(self.folder / name))
        if not real.is_relative_to(self.folder):
            raise OSError("it is a link that leads out of the folder")
        # A FIFO would be waited for, and what has just become a link be followed.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no regular file")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(MOST + 1)
        finally:
            os.close(descriptor)
