"""Tool `list_files`, which lists one directory."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.core.text.lookalikes import visible_name
from ikigai.tools.base import Effect, OnOutput, ToolOutput
from ikigai.tools.files.read_only_tool import ReadOnlyTool
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.safe_paths import KINDS, open_directory, readable_error

MAX_LISTED_ENTRIES = 2_000
"""Maximum entries in a result."""


class ListFilesArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The directory, absolute or relative to the working directory.")] = "."


class ListFiles:
    name = "list_files"
    set = "files"
    description = (
        "Lists one directory, hidden files included: directories with a / at the end, files with their size in "
        "bytes, links with their target."
    )
    arguments = ListFilesArguments

    def __init__(self, directory: Path, tracker: ReadTracker) -> None:
        self._access = ReadOnlyTool(self.name, directory, tracker)

    async def preview(self, arguments: ListFilesArguments) -> Effect:
        return self._access.read_effect(arguments, arguments.path)

    async def run(self, arguments: ListFilesArguments, progress: OnOutput) -> ToolOutput:
        return await asyncio.to_thread(self._list, arguments)

    def _list(self, arguments: ListFilesArguments) -> ToolOutput:
        path = self._access.path(arguments, arguments.path)
        try:
            lines, count = list_entries(path)
        except OSError as error:
            raise readable_error(error, arguments.path) from None
        if not lines:
            return ToolOutput(f"[{arguments.path} is empty]")
        more = [f"[{count - len(lines):,} more entries]"] if count > len(lines) else []
        return ToolOutput("\n".join((*lines, *more)))


def list_entries(path: Path) -> tuple[list[str], int]:
    """Return a line for each entry of the directory at this resolved path, at most MAX_LISTED_ENTRIES in the order of
    their names, and the number of all entries. Raise OSErrors, without words.
    """
    with open_directory(path) as directory:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - of a descriptor
        return [_entry(directory, name, path) for name in names[:MAX_LISTED_ENTRIES]], len(names)


def _entry(directory: int, name: str, path: Path) -> str:
    shown = visible_name(name)
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        match stat.S_IFMT(status.st_mode):
            case stat.S_IFDIR:
                return f"{shown}/"
            case stat.S_IFREG:
                return f"{shown}  {status.st_size:,}"
            case stat.S_IFLNK:
                target = visible_name(os.readlink(name, dir_fd=directory))
                return f"{shown} -> {target}{'  (broken link)' * _is_broken(path / name, path)}"
            case _:
                return f"{shown}  ({KINDS.get(stat.S_IFMT(status.st_mode), 'no file').removeprefix('a ')})"
    except OSError:  # gone meanwhile
        return shown


def _is_broken(link: Path, directory: Path) -> bool:
    """Return True for a link to nothing in the directory; what there is elsewhere is not told."""
    target = os.path.realpath(link)
    return Path(target).is_relative_to(directory) and (target == str(link) or not os.path.lexists(target))
