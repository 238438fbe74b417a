"""Tool `glob`, which finds files by their names."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, OnOutput, ToolOutput
from ikigai.tools.files.read_only_tool import ReadOnlyTool
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.safe_paths import check_directory
from ikigai.tools.files.search.glob_patterns import Glob
from ikigai.tools.files.search.search import SEARCH_SECONDS, FileSearch, Order, skipped_note

MAX_GLOB_PATHS = 1_000
"""Maximum paths in a result."""


class GlobArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pattern: Annotated[
        str,
        Meta(description="Such as **/*.py or src/*.{c,h}; without a / it matches names in every directory, as *.md."),
    ]
    path: Annotated[str, Meta(description="The directory to search, with its subdirectories.")] = "."
    ignored: Annotated[bool, Meta(description="Include files that .gitignore excludes.")] = False


class GlobFiles:
    name = "glob"
    set = "files"
    description = "Finds files by a glob pattern, sorted by path; .gitignore is respected, links are not followed."
    arguments = GlobArguments

    def __init__(self, directory: Path, tracker: ReadTracker, seconds: float = SEARCH_SECONDS) -> None:
        self._access, self._seconds = ReadOnlyTool(self.name, directory, tracker), seconds

    async def preview(self, arguments: GlobArguments) -> Effect:
        return self._access.read_effect(arguments, arguments.path, f"{arguments.pattern} in ")

    async def run(self, arguments: GlobArguments, progress: OnOutput) -> ToolOutput:
        path = self._access.path(arguments, arguments.path)
        Glob(arguments.pattern)  # an invalid pattern raises before a process is started
        await asyncio.to_thread(check_directory, path, arguments.path)
        order = Order(
            path,
            everything=arguments.ignored,
            glob=arguments.pattern,
            seconds=self._seconds,
            secrets_from=self._access.secrets_from(path),
        )
        search, paths, has_more = FileSearch(order), list[str](), False
        async with aclosing(search.files()) as files:
            async for each in files:
                if len(paths) == MAX_GLOB_PATHS:
                    has_more = True
                    break
                paths.append(self._access.format_path(path / each))
        notes = [f"[the first {MAX_GLOB_PATHS:,}; there are more: narrow the pattern or the path]"] if has_more else []
        if search.is_late:
            notes.append(f"[stopped after {self._seconds:g} s; there may be more]")
        if not paths:
            notes.insert(0, "[no file matches]")
        notes += skipped_note(sorted(self._access.format_path(path / each) for each in search.skipped))
        return ToolOutput("\n".join((*sorted(paths), *notes)))
