"""Where a path from a model leads, and how what is there is opened: only files, through no link, never waiting.

A path is resolved once, before anybody is asked about it. What is opened later is exactly that path: each directory on
the way is opened from the one before and a symbolic link is followed nowhere, so whatever was swapped in between leads
to an error and not to another file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""O_PATH (Linux) needs no right to list a directory that is only passed through."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
"""What systems say where O_NOFOLLOW meets a link."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}


class NotOrdinary(OSError):
    """A directory, pipe, device, socket or link where a file is wanted."""


class NotDirectory(OSError):
    """Something else where a directory is wanted."""


def resolved(name: str, directory: Path) -> Path:
    """The absolute path without links that `name` means in `directory`; it need not exist. `~` is the user's home.

    ValueError for what is no path.
    """
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is no path: it is empty or holds a NUL.")
    try:
        return Path(os.path.realpath(directory / os.path.expanduser(name)))  # noqa: PTH111 - Path's raises for nobody
    except (UnicodeError, ValueError):
        raise ValueError(f"{name!r} is no path.") from None
    except OSError as error:
        raise in_words(error, name) from None


def inside(path: Path, directory: Path) -> bool:
    """Whether a resolved path is the directory or lies in it."""
    return path.is_relative_to(os.path.realpath(directory))


def shown(path: Path, directory: Path) -> str:
    """A resolved path as it is told: from the directory on where it lies in it."""
    real = Path(os.path.realpath(directory))
    return str(path.relative_to(real)) if path != real and path.is_relative_to(real) else str(path)


@contextmanager
def parent(path: Path, *, create: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
    """A descriptor of the directory that holds this resolved path, and the directories that were made (`create`)."""
    made = list[str]()
    at = os.open(path.anchor, _WALK)
    try:
        for depth, part in enumerate(path.parts[1:-1], 2):
            try:
                below = os.open(part, _WALK, dir_fd=at)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(part, dir_fd=at)
                made.append(str(Path(*path.parts[:depth])))
                below = os.open(part, _WALK, dir_fd=at)
            os.close(at)
            at = below
        yield at, tuple(made)
    finally:
        os.close(at)


def opened(path: Path) -> BinaryIO:
    """The ordinary file at this resolved path, to be read. Raises NotOrdinary and other OSErrors, without words."""
    with parent(path) as (directory, _):
        ordinary(os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False))  # opening a device can do things
        descriptor = os.open(path.name, _READ, dir_fd=directory)
    try:
        ordinary(os.fstat(descriptor))  # something else may have taken its name meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@contextmanager
def within(path: Path) -> Iterator[int]:
    """A descriptor of the directory at this resolved path, to be listed. Raises OSErrors, without words."""
    with parent(path) as (directory, _):
        name = path.name or "."
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            raise NotDirectory(_KINDS.get(stat.S_IFMT(mode), "a file"))
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def ordinary(found: os.stat_result) -> None:
    """Raises NotOrdinary for everything but a file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotOrdinary(_KINDS.get(stat.S_IFMT(found.st_mode), "something else"))


def in_words(error: OSError, name: str) -> OSError:
    """The same error as a sentence for a model, which calls the path `name`."""
    if isinstance(error, NotOrdinary):
        hint = "; list_files shows what it holds" if str(error) == "a directory" else ""
        return NotOrdinary(f"{name} is {error}, not a file{hint}.")
    if isinstance(error, NotDirectory):
        return NotDirectory(f"{name} is {error}, not a directory.")
    match error.errno:
        case errno.ENOENT:
            return FileNotFoundError(f"there is no {name}.")
        case errno.EACCES | errno.EPERM:
            return PermissionError(f"{name}: permission denied.")
        case number if number in _LINKS:
            return NotOrdinary(f"{name} leads through something that is no directory, or through a loop of links.")
        case _:
            return OSError(f"{name}: {error.strerror or error}.")


def a_directory(path: Path, name: str) -> None:
    """OSError, in words, when there is none at this resolved path that can be listed."""
    try:
        with within(path):
            pass
    except OSError as error:
        raise in_words(error, name) from None


def same(path: Path, was: str, name: str) -> None:
    """OSError when `name` led to `was` at the time the call was shown ("" for never shown), and elsewhere now."""
    if was and str(path) != was:
        raise OSError(f"{name} led to {was} when this call was shown, and leads to {path} now; nothing was done.")
