"""The tool that finds files by their names."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Output, Progress, Touch
from ikigai.tools.files.glob_patterns import Glob
from ikigai.tools.files.read_only_tool import Looking
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.files.safe_paths import a_directory, shown
from ikigai.tools.files.search import SECONDS, Search, ordered, skipped_note

MOST = 1_000
"""Paths that are told."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pattern: Annotated[
        str,
        Meta(description="As **/*.py or src/*.{c,h}; without a / it is for names in every directory, as *.md."),
    ]
    path: Annotated[str, Meta(description="The directory to look in, with all that is below it.")] = "."
    ignored: Annotated[bool, Meta(description="Also files that .gitignore leaves out.")] = False


class GlobFiles:
    """`ripgrep` is the path of that program, "" for none."""

    name = "glob"
    set = "files"
    description = (
        "Finds files by a glob pattern, in the order of their paths; .gitignore is honoured, links are not followed."
    )
    arguments = Arguments

    def __init__(self, directory: Path, seen: Seen, ripgrep: str = "", seconds: float = SECONDS) -> None:
        self._looking, self._ripgrep, self._seconds = Looking(self.name, directory, seen), ripgrep, seconds

    async def look(self, arguments: Arguments) -> Touch:
        return self._looking.touch(arguments, arguments.path, f"{arguments.pattern} in ")

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        path = self._looking.path(arguments, arguments.path)
        Glob(arguments.pattern)  # what is none is said before anything is started
        await asyncio.to_thread(a_directory, path, arguments.path)
        order = ordered(
            path,
            everything=arguments.ignored,
            glob=arguments.pattern,
            seconds=self._seconds,
            secrets_from=self._looking.secrets_from(path),
        )
        search, found, more = Search(order, self._ripgrep), list[str](), False
        async with aclosing(search.files()) as files:
            async for each in files:
                if len(found) == MOST:
                    more = True
                    break
                found.append(shown(path / each, self._looking.directory))
        notes = [f"[the first {MOST:,}; there are more: narrow the pattern or the path]"] if more else []
        if search.late:
            notes.append(f"[stopped after {self._seconds:g} s; there may be more]")
        if not found:
            notes.insert(0, "[no file matches]")
        notes += skipped_note(_printable([shown(path / each, self._looking.directory) for each in search.skipped]))
        return Output("\n".join((*_printable(found), *notes)))


def _printable(paths: list[str]) -> list[str]:
    return [path.encode(errors="surrogateescape").decode(errors="replace").replace("\n", "␊") for path in sorted(paths)]
