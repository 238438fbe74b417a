"""This module lists the files of a folder: those that git tracks or would add, else those that a search would read.

git only lists names, and a foreign repository must not run any program by that. So monitors, hooks and transports are
off, nothing is fetched, and only the configuration of the repository is read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from ikigai.tools.files.search import SEARCH_SECONDS, FileSearch, Order
from ikigai.tools.shell.child import ChildProcess

_LS = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
}


async def list_paths(folder: Path) -> AsyncGenerator[list[str]]:
    """Yield the paths of files below `folder`, relative to it, in lists as they are found; a path may come twice."""
    has_output = False
    git = find_program("git", os.environ.get("PATH", ""), folder)
    if git and is_in_repository(folder):
        async with aclosing(_list_with_git(git, folder)) as pieces:
            async for piece in pieces:
                has_output = True
                yield piece
    if has_output:
        return
    search = FileSearch(Order(folder))
    piece: list[str] = []
    async with aclosing(search.files()) as paths:
        async for path in paths:
            piece.append(path)
            if len(piece) == 1_000:
                yield piece
                piece = []
    yield piece


def find_program(name: str, path: str, folder: Path) -> str:
    """Return the absolute path of a program, "" if there is none or it lies in the project in `folder`."""
    program = shutil.which(name, path=path) or ""
    is_inside = not Path(program).is_absolute() or Path(program).resolve().is_relative_to(folder)
    return "" if is_inside else program


def is_in_repository(folder: Path) -> bool:
    """Return True if the folder or one above it has a .git."""
    return any(os.path.lexists(above / ".git") for above in (folder, *folder.parents))


async def _list_with_git(git: str, folder: Path) -> AsyncGenerator[list[str]]:
    """Yield the names that git lists; none if it fails, and then the search lists them."""
    command = (git, *(word for each in _SAFE for word in ("-c", each)), *_LS)
    async with ChildProcess(command, SEARCH_SECONDS, directory=str(folder), environment=_ENVIRONMENT) as child:
        rest = b""
        while piece := await child.read():
            *names, rest = (rest + piece).split(b"\0")
            yield [os.fsdecode(name) for name in names]
