"""The tool that lists one directory."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Output, Progress, Touch
from ikigai.tools.files.read_only_tool import Looking
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.files.safe_paths import in_words, within

MOST = 2_000
"""Entries that are told."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The directory, absolute or from the working directory on.")] = "."


class ListFiles:
    name = "list_files"
    set = "files"
    description = (
        "Lists what one directory holds, hidden files too: directories with a / behind them, files with their size in "
        "bytes, links with where they lead."
    )
    arguments = Arguments

    def __init__(self, directory: Path, seen: Seen) -> None:
        self._looking = Looking(self.name, directory, seen)

    async def look(self, arguments: Arguments) -> Touch:
        return self._looking.touch(arguments, arguments.path)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        return await asyncio.to_thread(self._list, arguments)

    def _list(self, arguments: Arguments) -> Output:
        path = self._looking.path(arguments, arguments.path)
        try:
            with within(path) as directory:
                names = sorted(os.listdir(directory))  # noqa: PTH208 - of a descriptor
                lines = [_entry(directory, name) for name in names[:MOST]]
        except OSError as error:
            raise in_words(error, arguments.path) from None
        if not names:
            return Output(f"[{arguments.path} is empty]")
        more = [f"[{len(names) - MOST:,} more entries]"] if len(names) > MOST else []
        return Output("\n".join((*lines, *more)))


def _entry(directory: int, name: str) -> str:
    told = os.fsencode(name).decode(errors="replace").replace("\n", "␊")
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        match stat.S_IFMT(found.st_mode):
            case stat.S_IFDIR:
                return f"{told}/"
            case stat.S_IFREG:
                return f"{told}  {found.st_size:,}"
            case stat.S_IFLNK:
                return f"{told} -> {os.fsencode(os.readlink(name, dir_fd=directory)).decode(errors='replace')}"
            case _:
                return f"{told}  (no file)"
    except OSError:  # gone meanwhile
        return told
