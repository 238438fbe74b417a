"""Tool `grep`, which finds lines in files by a regular expression."""

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
from ikigai.tools.files.safe_paths import check_directory, open_file, readable_error
from ikigai.tools.files.search.search import SEARCH_SECONDS, FileSearch, FoundLine, Order, skipped_note

MAX_RESULTS, MAX_CHARACTERS, LINE_CHARACTERS = 2_000, 400_000, 500
"""Limits of a result: lines, characters in all, characters of one line."""


class GrepArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pattern: Annotated[
        str, Meta(min_length=1, max_length=10_000, description="A regular expression, matched line by line.")
    ]
    path: Annotated[str, Meta(description="A file, or a directory with its subdirectories.")] = "."
    glob: Annotated[str, Meta(description="Only files whose paths match, such as *.py or src/**/*.{c,h}.")] = ""
    ignore_case: bool = False
    literal: Annotated[bool, Meta(description="The pattern is plain text.")] = False
    context: Annotated[int, Meta(ge=0, le=50, description="Lines to show before and after each.")] = 0
    files_only: Annotated[bool, Meta(description="Only the paths of files with a match.")] = False
    ignored: Annotated[bool, Meta(description="Include files that .gitignore excludes.")] = False


class Grep:
    name = "grep"
    set = "files"
    description = (
        "Finds lines in text files by a regular expression: matches as path:number:line, lines around them as "
        "path-number-line. .gitignore is respected; links and binary files are skipped. "
        "In a directory, files that look like keys are skipped and named; each can be searched by its path."
    )
    arguments = GrepArguments

    def __init__(self, directory: Path, tracker: ReadTracker, seconds: float = SEARCH_SECONDS) -> None:
        self._access, self._seconds = ReadOnlyTool(self.name, directory, tracker), seconds

    async def preview(self, arguments: GrepArguments) -> Effect:
        return self._access.read_effect(arguments, arguments.path, f"{arguments.pattern} in ")

    async def run(self, arguments: GrepArguments, progress: OnOutput) -> ToolOutput:
        path = self._access.path(arguments, arguments.path)
        if "\n" in arguments.pattern:
            raise ValueError("the pattern contains a line break, but files are searched line by line.")
        single = await asyncio.to_thread(_single_file, path, arguments.path)
        root = path.parent if single else path
        order = Order(
            root,
            single,
            everything=arguments.ignored,
            glob="" if single else arguments.glob,
            pattern=arguments.pattern,
            literal=arguments.literal,
            ignore_case=arguments.ignore_case,
            context=arguments.context,
            names=arguments.files_only,
            line=LINE_CHARACTERS,
            seconds=self._seconds,
            secrets_from=self._access.secrets_from(path),
        )
        search = FileSearch(order)
        lines = await (
            self._files(search, root) if arguments.files_only else self._lines(search, root, arguments.context)
        )
        if search.is_late:
            lines.append(f"[stopped after {self._seconds:g} s; there may be more]")
        else:
            lines += skipped_note([self._access.format_path(root / each) for each in await search.list_skipped()])
        return ToolOutput("\n".join(lines))

    async def _files(self, search: FileSearch, root: Path) -> list[str]:
        paths = list[str]()
        async with aclosing(search.files()) as files:
            async for each in files:
                if len(paths) == MAX_RESULTS:
                    return [*paths, _truncation_note(MAX_RESULTS, "files")]
                paths.append(self._access.format_path(root / each))
        return paths or [_no_match_note(search)]

    async def _lines(self, search: FileSearch, root: Path, context: int) -> list[str]:
        output, room, last, count = list[str](), MAX_CHARACTERS, None, 0
        async with aclosing(search.lines()) as lines:
            async for line in lines:
                if last and context and (line.path, line.number) != (last.path, last.number + 1):
                    output.append("--")
                text = self._format_line(root, line)
                room -= len(text) + 1
                if count == MAX_RESULTS or room < 0:
                    return [*output, _truncation_note(count, "lines")]
                output.append(text)
                last, count = line, count + 1
        return output or [_no_match_note(search)]

    def _format_line(self, root: Path, line: FoundLine) -> str:
        mark = "-" if line.context else ":"
        text = line.text if len(line.text) <= LINE_CHARACTERS + 40 else f"{line.text[:LINE_CHARACTERS]} [...]"
        return f"{self._access.format_path(root / line.path)}{mark}{line.number}{mark}{text}"


def _single_file(path: Path, name: str) -> str:
    """Return the name of the single file to search, "" for a directory. Raise OSError, in words, for anything else."""
    if path.is_dir():
        check_directory(path, name)
        return ""
    try:
        open_file(path).close()
    except OSError as error:
        raise readable_error(error, name) from None
    return path.name


def _truncation_note(count: int, of: str) -> str:
    return f"[the first {count:,} {of}; there are more: narrow the pattern, the glob or the path]"


def _no_match_note(search: FileSearch) -> str:
    return "[nothing found before that]" if search.is_late else "[no line matches]"
