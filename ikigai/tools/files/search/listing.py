"""List the files of a folder: those that git tracks or would add, else those that a search would read.

git only lists names, and a foreign repository must not run any program by that. So monitors, hooks and transports are
off, nothing is fetched, and only the configuration of the repository is read.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from ikigai.tools.files.search.search import SEARCH_SECONDS, FileSearch, Order
from ikigai.tools.shell.child import ChildProcess

_LS = ("ls-files", "-z", "--stage", "--others", "--exclude-standard")
_STAGED = re.compile(rb"(\d{6}) [0-9a-f]{40,64} \d\t")
"""Beginning of the record of a tracked file."""
_SUBMODULE = b"160000"
MAX_NESTED, MAX_NESTED_DEPTH = 100, 5
"""Most repositories in a repository, such as submodules, that are listed, and most that lie in each other."""
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
}


async def list_paths(folder: Path, depth: int = 0) -> AsyncGenerator[list[str]]:
    """Yield the paths of files below `folder`, relative to it, in lists as they are found; a path may come twice.

    The files of submodules and other repositories in it are among them. `depth` counts the repositories around it.
    """
    has_output, nested = False, list[str]()
    git = find_program("git", os.environ.get("PATH", ""), folder)
    if git and is_in_repository(folder):
        async with aclosing(_list_with_git(git, folder)) as pieces:
            async for piece in pieces:
                has_output = True
                nested += [path for path in piece if path.endswith("/")]
                yield piece
    for path in nested[:MAX_NESTED] if depth < MAX_NESTED_DEPTH else ():
        inner = folder / path
        if os.path.lexists(inner / ".git") and not inner.is_symlink():  # a submodule may not be there yet
            async with aclosing(list_paths(inner, depth + 1)) as pieces:
                async for piece in pieces:
                    yield [path + each for each in piece]
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
    """Return the absolute path of a program, or "" if it is missing or lies in the project in `folder`."""
    program = shutil.which(name, path=path) or ""
    is_inside = not Path(program).is_absolute() or Path(program).resolve().is_relative_to(folder)
    return "" if is_inside else program


def is_in_repository(folder: Path) -> bool:
    """Return True if the folder or one above it has a .git."""
    return any(os.path.lexists(above / ".git") for above in (folder, *folder.parents))


async def _list_with_git(git: str, folder: Path) -> AsyncGenerator[list[str]]:
    """Yield the names that git lists; none if it fails, and then the search lists them.

    That of a repository in this one ends with /.
    """
    command = (git, *(word for each in _SAFE for word in ("-c", each)), *_LS)
    async with ChildProcess(command, SEARCH_SECONDS, directory=str(folder), environment=_ENVIRONMENT) as child:
        rest = b""
        while piece := await child.read():
            *names, rest = (rest + piece).split(b"\0")
            yield [os.fsdecode(_name(record)) for record in names]


def _name(record: bytes) -> bytes:
    """Return the name in a record of git's: of a tracked file, or a name alone."""
    staged = _STAGED.match(record)
    if not staged:
        return record
    return record[staged.end() :] + (b"/" if staged[1] == _SUBMODULE else b"")
