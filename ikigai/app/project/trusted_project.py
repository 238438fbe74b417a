"""Read the project files of a trusted working directory: AGENTS.md, its tools, skills, settings and MCP servers.

Until the folder is trusted, no file is read: only the names are looked up. After that each file is used as long as its
content is the one that the user trusted; the user is asked about a new or changed file. Instructions also come from the
folders above, each if that folder is trusted (see `instruction_files`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ikigai.app.project.instruction_files import (
    CHANGED_SINCE_TRUST,
    CONFIRM_REMEDY,
    INSTRUCTION_FILES,
    InstructionFolder,
    Stamp,
    compose,
    folders_above,
)
from ikigai.config import Config, toml_file
from ikigai.config.project import project_files, project_settings, trusted_folders
from ikigai.config.project.project_files import OwnFile
from ikigai.config.project.skill_files import SKILL_FILE, project_folders, skill_folders
from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.system import paths
from ikigai.system.paths import current_directory
from ikigai.tools.tool_files import tool_files

TOOLS, CONFIG, MCP = Path(".ikigai/tools"), Path(".ikigai/config.toml"), Path(".mcp.json")
COMMANDS = Path(".ikigai/commands")
START_REMEDY = "Start ikigai there without -p."
MISSING_FILE = OwnFile("", b"")
"""The value for a missing file."""


class Project:
    """One working directory. `trusted` is its trust in this run; lasting trust is stored in `file`.

    `approved` has the digests of its files that may be used, by relative path. `problems` has messages about files that
    cannot be used; the caller that shows them removes them.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder, self.file = Path(os.path.realpath(folder)), file
        self.trusted, self._can_ask = False, True
        self.approved: dict[str, str] = {}
        self.problems: list[str] = []
        self._above: list[InstructionFolder] = []
        self._stamps: list[Stamp | None] | None = None
        self._value = ""

    @property
    def contents(self) -> tuple[str, ...]:
        """The names of its files and folders that are not used before the folder is trusted."""
        names = (*INSTRUCTION_FILES, str(TOOLS), str(COMMANDS), *project_folders(self.folder), str(CONFIG), str(MCP))
        return tuple(name for name in names if os.path.lexists(self.folder / name))

    @property
    def executables(self) -> tuple[str, ...]:
        """The files in its tool folder that may be tools, by relative path; none is read."""
        return tuple(f"{TOOLS}/{path.name}" for path in tool_files(self.tools)[0])

    @property
    def files(self) -> tuple[str, ...]:
        """All its files that are used once they are trusted, by relative path."""
        names = (*INSTRUCTION_FILES, str(CONFIG), str(MCP))
        commands = sorted(f"{COMMANDS}/{file.name}" for file in self.commands.glob("*.md"))
        present = (name for name in names if os.path.lexists(self.folder / name))
        return (*present, *commands, *self.skills, *self.executables)

    @property
    def skills(self) -> tuple[str, ...]:
        """The SKILL.md of each skill that lies in the folder, by relative path."""
        found = (each for name in project_folders(self.folder) for each in skill_folders(self.folder / name))
        inside = dict.fromkeys(each for each in found if each.is_relative_to(self.folder))
        return tuple(str(each.relative_to(self.folder) / SKILL_FILE) for each in inside)

    @property
    def tools(self) -> Path:
        return self.folder / TOOLS

    @property
    def commands(self) -> Path:
        return self.folder / COMMANDS

    @property
    def config(self) -> Path:
        return self.folder / CONFIG

    def check_trust(self) -> None:
        """Read from `file` if the folder is trusted, and those above it; a damaged file trusts nothing."""
        self.check_trust_above()
        try:
            digests = trusted_folders.trusted_digests(self.file, self.folder)
            self.trusted, self.approved = digests is not None, digests or {}
        except IkigaiError as error:
            self.problems.append(str(error))

    def check_trust_above(self) -> None:
        """Read from `file` which of the folders above, with instructions, are trusted."""
        self._above, self._stamps = folders_above(self.file, self.folder), None

    def read(self, names: Iterable[str]) -> dict[str, OwnFile]:
        """Read these files once; return them by relative path, without unusable ones."""
        found = dict[str, OwnFile]()
        for name in names:
            with contextlib.suppress(OSError):
                found[name] = self._own(name)
        return found

    def changes(self) -> dict[str, OwnFile]:
        """Return the new and changed files of a trusted folder; empty if it is not trusted.

        Missing settings are among them as `MISSING_FILE`: else what they forbade would silently be allowed.
        """
        if not self.trusted:
            return {}
        found = {name: own for name, own in self.read(self.files).items() if self.approved.get(name) != own.digest}
        if self.approved.get(str(CONFIG)) and not os.path.lexists(self.config):
            found[str(CONFIG)] = MISSING_FILE
        return found

    def digests(self, read: Mapping[str, OwnFile]) -> dict[str, str]:
        """Return the digests that trust the files `read`.

        Raise ConfigError if its settings cannot be used, which would end the program at every start.
        """
        own = read.get(str(CONFIG)) or self._settings()
        project_settings.tighten_with(Config(), self.config, own.head)
        return {name: own.digest for name, own in read.items()}

    def settings(self) -> bytes:
        """Return the content of its settings file if that is trusted; b"" for none.

        Raise ConfigError if the file cannot be used. Raise it also for a changed file if the user cannot be asked: more
        would be allowed than the user has agreed to.
        """
        own, trusted = (self._settings(), self.approved.get(str(CONFIG), "")) if self.trusted else (MISSING_FILE, "")
        if own.digest == trusted:
            return own.head
        if not self._can_ask:
            if own is MISSING_FILE:
                raise ConfigError(f"{self.config}, which may have had restrictions, was deleted.", START_REMEDY)
            raise ConfigError(f"{self.config} may have restrictions, but {CHANGED_SINCE_TRUST}.", CONFIRM_REMEDY)
        if own is not MISSING_FILE:
            self.problems.append(f"{CONFIG} is not used: {CHANGED_SINCE_TRUST}. {CONFIRM_REMEDY}")
        return b""

    def _settings(self) -> OwnFile:
        if not os.path.lexists(self.config):
            return MISSING_FILE
        try:
            return self._own(str(CONFIG))
        except OSError as error:
            what = f"{self.config} cannot be used: {project_files.error_reason(error)}."
            raise ConfigError(what, "Replace it by a regular file of the project.") from None

    def report_unasked(self) -> None:
        """Add messages to `problems` about the files left out because the user cannot be asked.

        Raise ConfigError if settings of a folder that may be trusted are among them.
        """
        self._can_ask = False
        has_settings = os.path.lexists(self.config)
        try:
            is_stale = not self.trusted and trusted_folders.is_listed(self.file, self.folder)
        except IkigaiError:
            if has_settings:
                raise
            return  # `check_trust` has reported it
        if is_stale and has_settings:
            raise ConfigError(
                f"{self.config} may have restrictions, and its folder's trust must be confirmed.", START_REMEDY
            )
        if is_stale and self.contents:
            self.problems.append(
                f"Nothing of {self.folder} is used ({', '.join(self.contents)}): its trust must be confirmed. "
                f"{START_REMEDY}"
            )

    def refusal(self, path: Path) -> str:
        """Return the reason why this file may not be used now, as the second half of a sentence; "" if it may."""
        return self.judge(path)[1]

    def judge(self, path: Path) -> tuple[OwnFile, str]:
        """Return one of its files as it is now, and what `refusal` says about it."""
        if not self.trusted:
            return MISSING_FILE, "the user no longer trusts its folder"
        if not path.is_relative_to(self.folder):
            return MISSING_FILE, "it is outside the folder"
        name = str(path.relative_to(self.folder))
        try:
            own = self._own(name)
        except OSError as error:
            return MISSING_FILE, project_files.error_reason(error)
        return own, "" if self.approved.get(name) == own.digest else CHANGED_SINCE_TRUST

    def _own(self, name: str) -> OwnFile:
        is_tool, file = name.startswith(f"{TOOLS}/"), self.folder / name
        max_bytes = 0 if is_tool else toml_file.MAX_CONFIG_BYTES + 1
        folder = file.parent if file.name == SKILL_FILE else self.folder  # a skill reaches no file out of its own
        return project_files.read_own(folder, file, max_bytes, is_text=not is_tool)

    def read_trusted(self, path: Path) -> bytes:
        """Return the content of one of its text files. Raise Rejected unless it is the content that is trusted."""
        own, why = self.judge(path)
        if why:
            raise Rejected(f"{clean_line(str(path.relative_to(self.folder)))} is not used: {why}.", CONFIRM_REMEDY)
        return own.head

    def mcp_servers(self) -> bytes:
        """Return the content of its file of MCP servers if that is trusted; b"" for none."""
        if not (self.trusted and os.path.lexists(self.folder / MCP)):
            return b""
        try:
            own = self._own(str(MCP))
        except OSError as error:
            self.problems.append(f"{MCP} is not used: {project_files.error_reason(error)}.")
            return b""
        if self.approved.get(str(MCP)) != own.digest:
            self.problems.append(f"{MCP} is not used: {CHANGED_SINCE_TRUST}. {CONFIRM_REMEDY}")
            return b""
        return own.head

    def trust(self, now: float, files: dict[str, str] | None = None) -> str:
        """Trust the folder from `now` (seconds since 1970) on, also in later runs; return its real path.

        `files` has the trusted digests; None trusts the files as they are. Raise IkigaiError, Rejected, and ConfigError
        if its settings cannot be used.
        """
        files = self.digests(self.read(self.files)) if files is None else files
        with contextlib.suppress(OSError):  # then writing raises the error
            paths.make_private(self.file.parent)
        path = trusted_folders.trust(self.file, self.folder, now, files)
        self.trust_for_run(files)
        return path

    def trust_for_run(self, files: dict[str, str]) -> None:
        """Trust the folder with these files, by their digests, until the program ends."""
        self.trusted, self.approved, self._stamps = True, files, None

    def revoke(self) -> bool:
        """Revoke the trust; return False if the folder was not trusted. Raise IkigaiError."""
        was, self.trusted, self.approved = self.trusted, False, {}
        return trusted_folders.revoke(self.file, self.folder) or was

    def instructions(self) -> str:
        """Return the current setting `instructions`; "" for none. Read files only when one of them has changed."""
        own = [InstructionFolder(self.folder, self.approved)] if self.trusted else []
        folders = [*self._above, *own]
        stamps = [each.stamp for each in folders]
        if stamps != self._stamps:
            self._stamps, self._value = stamps, compose(folders, stamps, self.problems)
        return self._value


def make_project() -> Project:
    """Return the project of the working directory, with its trust not yet checked."""
    return Project(Path(current_directory() or "/"), paths.data_dir() / trusted_folders.TRUSTED_FILE)
