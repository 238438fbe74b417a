"""What the working directory brings with it, as far as the user trusts it: AGENTS.md, tools and settings of its own.

Until the folder is trusted nothing of it is read: only whether these names are there is looked at. Then each file is
used as long as it is what the user has trusted; one that has come or changed since is asked about. Instructions are
AGENTS.md, or CLAUDE.md where there is none; they are read again when the file has become another one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ikigai.config import Config, project_files, toml_file
from ikigai.config import project as project_settings
from ikigai.config import trusted_folders as trust
from ikigai.config.project_files import OwnFile
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.request.system_prompt import headed
from ikigai.system import paths
from ikigai.tools.shell.output_buffer import whole
from ikigai.tools.tool_files import tool_files

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
TOOLS, CONFIG = Path(".ikigai/tools"), Path(".ikigai/config.toml")
MOST = 64 * 1024
"""Bytes of instructions that are read: they are sent with every request."""
CHANGED = "it has come or changed since the folder was trusted"
CONFIRM = "Read it, then type /trust yes, or start ikigai there without -p and answer."
START = "Start ikigai there without -p."
GONE = OwnFile("", b"")
"""Stands for a file that is not there."""

Stamp = tuple[str, int, int, int, int]


class Project:
    """One working directory. `trusted` holds for this run; `file` is where what holds for longer is kept.

    `approved` are the digests of its files that may be used, by relative path. `problems` are sentences about what
    cannot be used; whoever tells the user takes them out.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder, self.file = Path(os.path.realpath(folder)), file
        self.trusted, self._can_ask = False, True
        self.approved: dict[str, str] = {}
        self.problems: list[str] = []
        self._stamp: Stamp | None = None
        self._value = ""

    @property
    def brings(self) -> tuple[str, ...]:
        """What is here that nobody obeys before the folder is trusted, by name."""
        return tuple(name for name in (*INSTRUCTIONS, str(TOOLS), str(CONFIG)) if os.path.lexists(self.folder / name))

    @property
    def executables(self) -> tuple[str, ...]:
        """The files in its folder of tools that may be tools, by relative path; nothing of them is read."""
        return tuple(f"{TOOLS}/{path.name}" for path in tool_files(self.tools)[0])

    @property
    def files(self) -> tuple[str, ...]:
        """Every file here that is used once it is trusted, by relative path."""
        names = (*INSTRUCTIONS, str(CONFIG))
        return (*(name for name in names if os.path.lexists(self.folder / name)), *self.executables)

    @property
    def tools(self) -> Path:
        return self.folder / TOOLS

    @property
    def config(self) -> Path:
        return self.folder / CONFIG

    def look(self) -> None:
        """Find out whether the folder is trusted already; a damaged file trusts nothing."""
        try:
            kept = trust.files(self.file, self.folder)
            self.trusted, self.approved = kept is not None, kept or {}
        except IkigaiError as error:
            self.problems.append(str(error))

    def read(self, names: Iterable[str]) -> dict[str, OwnFile]:
        """Read these files once, by relative path; without those that cannot be used."""
        found = dict[str, OwnFile]()
        for name in names:
            with contextlib.suppress(OSError):
                found[name] = self._own(name)
        return found

    def changes(self) -> dict[str, OwnFile]:
        """Read the files of a trusted folder that have come or changed since; empty when it is not trusted.

        Settings that are `GONE` are among them: what they forbade would be allowed without a word.
        """
        if not self.trusted:
            return {}
        found = {name: own for name, own in self.read(self.files).items() if self.approved.get(name) != own.digest}
        if self.approved.get(str(CONFIG)) and not os.path.lexists(self.config):
            found[str(CONFIG)] = GONE
        return found

    def digests(self, read: Mapping[str, OwnFile]) -> dict[str, str]:
        """Return the digests by which files that were `read` are trusted.

        Raises ConfigError when its settings cannot be used, which would end the program at every start.
        """
        own = read.get(str(CONFIG)) or self._settings()
        project_settings.tightened(Config(), self.config, own.head)
        return {name: own.digest for name, own in read.items()}

    def settings(self) -> bytes:
        """Return what its settings file holds if that is what was trusted; b"" for none.

        Raises ConfigError when the file cannot be used, and where the user cannot be asked also when it has changed:
        more would be allowed than the user has agreed to.
        """
        own, trusted = (self._settings(), self.approved.get(str(CONFIG), "")) if self.trusted else (GONE, "")
        if own.digest == trusted:
            return own.head
        if not self._can_ask:
            if own is GONE:
                raise ConfigError(f"{self.config}, which may have forbidden things, is gone.", START)
            raise ConfigError(f"{self.config} may forbid things, and {CHANGED}.", CONFIRM)
        if own is not GONE:
            self.problems.append(f"{CONFIG} is left out: {CHANGED}. {CONFIRM}")
        return b""

    def _settings(self) -> OwnFile:
        if not os.path.lexists(self.config):
            return GONE
        try:
            return self._own(str(CONFIG))
        except OSError as error:
            what = f"{self.config} cannot be used: {project_files.reason(error)}."
            raise ConfigError(what, "Put a file of the project's own there.") from None

    def report_unasked(self) -> None:
        """Add to `problems` what is left out because the user cannot be asked about it.

        Raises ConfigError when that are settings of a folder that may be trusted.
        """
        self._can_ask = False
        has_settings = os.path.lexists(self.config)
        try:
            is_stale = not self.trusted and trust.is_listed(self.file, self.folder)
        except IkigaiError:
            if has_settings:
                raise
            return  # `look` has said so
        if is_stale and has_settings:
            raise ConfigError(f"{self.config} may forbid things, and trust in its folder has to be confirmed.", START)
        if is_stale and self.brings:
            self.problems.append(
                f"Nothing of {self.folder} is used ({', '.join(self.brings)}): trust in it has to be confirmed. {START}"
            )

    def refusal(self, path: Path) -> str:
        """Why this file of the folder may not be used now, as the second half of a sentence; "" when it may."""
        if not self.trusted:
            return "the user no longer trusts its folder"
        name = str(path.relative_to(self.folder))
        try:
            return "" if self.approved.get(name) == self._own(name).digest else CHANGED
        except OSError as error:
            return project_files.reason(error)

    def _own(self, name: str) -> OwnFile:
        is_tool = name.startswith(f"{TOOLS}/")
        most = 0 if is_tool else toml_file.MOST_BYTES + 1
        return project_files.read_own(self.folder, self.folder / name, most, is_text=not is_tool)

    def trust(self, now: float, files: dict[str, str] | None = None) -> str:
        """Trust the folder from `now` on (seconds since 1970), in later runs, too; return its real path.

        `files` are the digests to go by; None takes the files as they are. Raises IkigaiError, Refused, and ConfigError
        when its settings cannot be used.
        """
        files = self.digests(self.read(self.files)) if files is None else files
        with contextlib.suppress(OSError):  # then writing says why
            paths.private(self.file.parent)
        path = trust.trust(self.file, self.folder, now, files)
        self.trust_for_run(files)
        return path

    def trust_for_run(self, files: dict[str, str]) -> None:
        """Trust the folder with these files, by their digests, until the program ends."""
        self.trusted, self.approved, self._stamp = True, files, None

    def revoke(self) -> bool:
        """No more, from now on; False when the folder was not trusted. Raises IkigaiError."""
        was, self.trusted, self.approved = self.trusted, False, {}
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
            digest, data = project_files.read_own(self.folder, self.folder / name, MOST + 1)
        except OSError as error:
            why = project_files.reason(error)
            self.problems.append(f"{name} cannot be used as instructions: {why}. Mend or remove it.")
            return ""
        if self.approved.get(name) != digest:
            self.problems.append(f"{name} is left out: {CHANGED}. {CONFIRM}")
            return ""
        text = whole(data[:MOST]).decode(errors="replace") if len(data) > MOST else data.decode(errors="replace")
        if len(data) > MOST:
            text += f"\n[cut: only the first {MOST:,} bytes of the file are here]"
            self.problems.append(f"{name} is longer than {MOST // 1024} KiB: the rest is left out. Make it shorter.")
        return headed(name, text)
