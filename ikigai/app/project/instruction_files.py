"""Instructions for models, AGENTS.md or CLAUDE.md, in the working directory and above it up to the repository's root.

A file is used only if its own folder is trusted, with this content. Those above come first, the nearest last. Together
they have at most MAX_INSTRUCTIONS_BYTES, of which the nearest take theirs first. A file is read again when it changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ikigai.config.project import project_files, trusted_folders
from ikigai.core.errors import IkigaiError
from ikigai.core.request.system_prompt import instructions_setting
from ikigai.core.text.sanitize import clean_line
from ikigai.tools.files.encodings import encoding_of_mark
from ikigai.tools.shell.output_buffer import whole_characters

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
MAX_INSTRUCTIONS_BYTES = 64 * 1024
"""Bytes of instructions that are used: every request has them."""
MAX_FOLDERS_ABOVE = 10
CHANGED_SINCE_TRUST = "it was added or changed since the folder was trusted"
CONFIRM_REMEDY = "Check it, then type /trust yes, or start ikigai there without -p and answer."

Stamp = tuple[str, int, int, int, int]


class InstructionFolder(NamedTuple):
    """A folder whose file of instructions may be used.

    `approved` has the digests of its trusted files; None if it is not trusted. `above` leads there from the working
    directory, "" for that itself.
    """

    folder: Path
    approved: Mapping[str, str] | None
    above: str = ""

    @property
    def stamp(self) -> Stamp | None:
        """The file's name and state; None if there is no file."""
        for name in INSTRUCTION_FILES:
            path = self.folder / name
            for look in (path.stat, path.lstat):  # of a broken link: reading reports it
                with contextlib.suppress(OSError):
                    stat = look()
                    return name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
        return None

    def read(self, name: str, room: int, problems: list[str]) -> str:
        """Return the text of the file, at most `room` bytes; "" and a problem if it is not used."""
        shown = self.above + name
        if self.approved is None:
            folder = clean_line(str(self.folder))
            problems.append(f"{shown} is not used: {folder} is not trusted. Start ikigai there once to trust it.")
            return ""
        try:
            digest, data = project_files.read_own(self.folder, self.folder / name, 2 * MAX_INSTRUCTIONS_BYTES + 4)
        except OSError as error:
            why = project_files.error_reason(error)
            problems.append(f"{shown} cannot be used as instructions: {why}. Fix or remove it.")
            return ""
        if self.approved.get(name) != digest:
            remedy = CONFIRM_REMEDY if not self.above else "Check it, then start ikigai there without -p and answer."
            problems.append(f"{shown} is not used: {CHANGED_SINCE_TRUST}. {remedy}")
            return ""
        text = decode(data)
        data = text.encode(errors="replace")
        if len(data) <= room:
            return text
        if room < MAX_INSTRUCTIONS_BYTES:
            limit = f"instructions have at most {MAX_INSTRUCTIONS_BYTES // 1024} KiB together"
            problems.append(f"{shown} is not used whole: {limit}. Make it shorter.")
        else:
            limit = f"{MAX_INSTRUCTIONS_BYTES // 1024} KiB; the rest is not used"
            problems.append(f"{shown} is longer than {limit}. Make it shorter.")
        return f"{whole_characters(data[:room]).decode()}\n[cut: only the first {room:,} bytes of the file are shown]"


def decode(data: bytes) -> str:
    """Return the text of a file in UTF-8, or in the encoding that its byte order mark names."""
    marked = encoding_of_mark(data)
    return data[len(marked.mark) :].decode(marked.name, "replace") if marked else data.decode(errors="replace")


def folders_above(trust_file: Path, folder: Path) -> list[InstructionFolder]:
    """Return the folders above this one that have a file of instructions, up to the root of its repository, which
    comes first; none outside a repository, or if `trust_file` cannot be read.
    """
    found, above = list[InstructionFolder](), ""
    for each in (folder, *folder.parents[:MAX_FOLDERS_ABOVE]):
        if above and InstructionFolder(each, None).stamp:
            with contextlib.suppress(IkigaiError):
                found.append(InstructionFolder(each, trusted_folders.trusted_digests(trust_file, each), above))
        if os.path.lexists(each / ".git"):
            return found[::-1]
        above += "../"
    return []


def compose(folders: Sequence[InstructionFolder], stamps: Sequence[Stamp | None], problems: list[str]) -> str:
    """Return the setting `instructions` that these folders make, the nearest last; "" for none."""
    texts, room = list[tuple[str, str]](), MAX_INSTRUCTIONS_BYTES
    for folder, stamp in zip(reversed(folders), reversed(stamps), strict=True):
        if stamp and (text := folder.read(stamp[0], room, problems).strip()):
            texts.insert(0, (folder.above + stamp[0], text))
            room = max(0, room - len(text.encode()))
    if len(texts) < 2:
        return instructions_setting(*texts[0]) if texts else ""
    whole = "\n\n".join(f"{name}:\n\n{text}" for name, text in texts)
    return instructions_setting(", ".join(name for name, _ in texts), whole)
