"""The tool that finds lines in files by a regular expression."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Output, Progress, Touch
from ikigai.tools.files.read_only_tool import Looking
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.files.safe_paths import a_directory, in_words, opened, shown
from ikigai.tools.files.search import SECONDS, Line, Search, ordered, skipped_note

MOST, ROOM, LINE = 2_000, 400_000, 500
"""Lines that are told, characters in all, characters of one line."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pattern: Annotated[str, Meta(min_length=1, max_length=10_000, description="A regular expression, for one line.")]
    path: Annotated[str, Meta(description="A file, or a directory with all that is below it.")] = "."
    glob: Annotated[str, Meta(description="Only in files whose paths match, as *.py or src/**/*.{c,h}.")] = ""
    ignore_case: bool = False
    literal: Annotated[bool, Meta(description="The pattern is plain text.")] = False
    context: Annotated[int, Meta(ge=0, le=50, description="Lines to show before and after each.")] = 0
    files_only: Annotated[bool, Meta(description="Only the paths of the files that have such a line.")] = False
    ignored: Annotated[bool, Meta(description="Also files that .gitignore leaves out.")] = False


class Grep:
    """`ripgrep` is the path of that program, "" for none."""

    name = "grep"
    set = "files"
    description = (
        "Finds lines in text files by a regular expression; each as path:number:line, those around it as "
        "path-number-line. .gitignore is honoured, links are not followed, binary files are passed over. Of "
        "those below a directory, files that look like keys are skipped and named; each can be searched by its path."
    )
    arguments = Arguments

    def __init__(self, directory: Path, seen: Seen, ripgrep: str = "", seconds: float = SECONDS) -> None:
        self._looking, self._ripgrep, self._seconds = Looking(self.name, directory, seen), ripgrep, seconds

    async def look(self, arguments: Arguments) -> Touch:
        return self._looking.touch(arguments, arguments.path, f"{arguments.pattern} in ")

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        path = self._looking.path(arguments, arguments.path)
        if "\n" in arguments.pattern:
            raise ValueError("the pattern holds a line break, and lines are searched one by one.")
        only = await asyncio.to_thread(_only, path, arguments.path)
        root = path.parent if only else path
        order = ordered(
            root,
            only,
            everything=arguments.ignored,
            glob="" if only else arguments.glob,
            pattern=arguments.pattern,
            literal=arguments.literal,
            ignore_case=arguments.ignore_case,
            context=arguments.context,
            names=arguments.files_only,
            line=LINE,
            seconds=self._seconds,
            secrets_from=self._looking.secrets_from(path),
        )
        search = Search(order, self._ripgrep)
        told = await (
            self._files(search, root) if arguments.files_only else self._lines(search, root, arguments.context)
        )
        if search.late:
            told.append(f"[stopped after {self._seconds:g} s; there may be more]")
        else:
            told += skipped_note([self._printable(root, each) for each in await search.list_skipped()])
        return Output("\n".join(told))

    async def _files(self, search: Search, root: Path) -> list[str]:
        found = list[str]()
        async with aclosing(search.files()) as files:
            async for each in files:
                if len(found) == MOST:
                    return [*found, _more(MOST, "files")]
                found.append(self._printable(root, each))
        return found or [_nothing(search)]

    async def _lines(self, search: Search, root: Path, context: int) -> list[str]:
        told, room, last, count = list[str](), ROOM, None, 0
        async with aclosing(search.lines()) as lines:
            async for line in lines:
                if last and context and (line.path, line.number) != (last.path, last.number + 1):
                    told.append("--")
                text = self._told(root, line)
                room -= len(text) + 1
                if count == MOST or room < 0:
                    return [*told, _more(count, "lines")]
                told.append(text)
                last, count = line, count + 1
        return told or [_nothing(search)]

    def _told(self, root: Path, line: Line) -> str:
        mark = "-" if line.context else ":"
        text = line.text if len(line.text) <= LINE + 40 else f"{line.text[:LINE]} [...]"
        return f"{self._printable(root, line.path)}{mark}{line.number}{mark}{text}"

    def _printable(self, root: Path, path: str) -> str:
        name = shown(root / path, self._looking.directory)
        return name.encode(errors="surrogateescape").decode(errors="replace").replace("\n", "␊")


def _only(path: Path, name: str) -> str:
    """The name of the one file that is to be searched, "" for a directory. OSError in words for anything else."""
    if path.is_dir():
        a_directory(path, name)
        return ""
    try:
        opened(path).close()
    except OSError as error:
        raise in_words(error, name) from None
    return path.name


def _more(count: int, of: str) -> str:
    return f"[the first {count:,} {of}; there are more: narrow the pattern, the glob or the path]"


def _nothing(search: Search) -> str:
    return "[nothing found until then]" if search.late else "[no line matches]"
