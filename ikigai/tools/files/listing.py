"""The files of a folder as people mean them: those that git knows or would add, else those a search would look at.

git is asked for names alone, and a repository that somebody else made must not run anything by that: monitors, hooks
and transports are off, nothing is fetched, and no configuration but the repository's own is read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from ikigai.tools.files.search import SECONDS, Search, ordered
from ikigai.tools.shell.child import Child

_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
}


async def files(folder: Path) -> AsyncGenerator[list[str]]:
    """The paths of files below `folder`, from there on, in pieces as they are found; some may come twice."""
    found = False
    git = program("git", os.environ.get("PATH", ""), folder)
    if git and in_repository(folder):
        async with aclosing(_known(git, folder)) as pieces:
            async for piece in pieces:
                found = True
                yield piece
    if found:
        return
    search = Search(ordered(folder), program("rg", os.environ.get("PATH", ""), folder))
    piece: list[str] = []
    async with aclosing(search.files()) as paths:
        async for path in paths:
            piece.append(path)
            if len(piece) == 1_000:
                yield piece
                piece = []
    yield piece


def program(name: str, path: str, folder: Path) -> str:
    """The absolute path of a program; "" for none: a project must not bring its own."""
    found = shutil.which(name, path=path) or ""
    inside = not Path(found).is_absolute() or Path(found).resolve().is_relative_to(folder)
    return "" if inside else found


def in_repository(folder: Path) -> bool:
    """Whether the folder or one above it has a .git."""
    return any(os.path.lexists(above / ".git") for above in (folder, *folder.parents))


async def _known(git: str, folder: Path) -> AsyncGenerator[list[str]]:
    """What git lists; nothing where it does not want to: the walk does it then."""
    command = (git, *(word for each in _SAFE for word in ("-c", each)), *_LIST)
    async with Child(command, SECONDS, directory=str(folder), environment=_ENVIRONMENT) as child:
        rest = b""
        while piece := await child.read():
            *names, rest = (rest + piece).split(b"\0")
            yield [os.fsdecode(name) for name in names]
