"""This module resolves paths from a model and opens them safely: only files, through no link, without blocking.

A path is resolved once, before the approval. Exactly that path is opened later: each directory on the way is opened
from the one before, and no symbolic link is followed. So a link that was swapped in meanwhile leads to an error instead
of another file.
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
"""Errors of systems when O_NOFOLLOW meets a link."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}


class NotRegularFile(OSError):
    """There is a directory, pipe, device, socket or link instead of a file."""


class NotDirectory(OSError):
    """There is something else instead of a directory."""


def resolve_path(name: str, directory: Path) -> Path:
    """Return the absolute path without links that `name` means in `directory`; it need not exist.

    `~` is the home of the user. Raise ValueError for an invalid path.
    """
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not a path: it is empty or contains a NUL.")
    try:
        return Path(os.path.realpath(directory / os.path.expanduser(name)))  # noqa: PTH111 - that of Path raises for an unknown user
    except (UnicodeError, ValueError):
        raise ValueError(f"{name!r} is not a path.") from None
    except OSError as error:
        raise readable_error(error, name) from None


def is_inside(path: Path, directory: Path) -> bool:
    """Return True if a resolved path is the directory or lies in it."""
    return path.is_relative_to(os.path.realpath(directory))


def relative_name(path: Path, directory: Path) -> str:
    """Return a resolved path for display: relative to the directory if it lies in it."""
    real = Path(os.path.realpath(directory))
    return str(path.relative_to(real)) if path != real and path.is_relative_to(real) else str(path)


@contextmanager
def open_parent(path: Path, *, create: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Open the directory that holds this resolved path; yield its descriptor and the directories made by `create`."""
    made = list[str]()
    descriptor = os.open(path.anchor, _WALK)
    try:
        for depth, part in enumerate(path.parts[1:-1], 2):
            try:
                child = os.open(part, _WALK, dir_fd=descriptor)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(part, dir_fd=descriptor)
                made.append(str(Path(*path.parts[:depth])))
                child = os.open(part, _WALK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
        yield descriptor, tuple(made)
    finally:
        os.close(descriptor)


def open_file(path: Path) -> BinaryIO:
    """Open the regular file at this resolved path to read. Raise NotRegularFile and other OSErrors, without words."""
    with open_parent(path) as (directory, _):
        check_ordinary(
            os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False)
        )  # opening a device can do things
        descriptor = os.open(path.name, _READ, dir_fd=directory)
    try:
        check_ordinary(os.fstat(descriptor))  # something else may have taken its name meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open the directory at this resolved path for listing; yield its descriptor. Raise OSErrors, without words."""
    with open_parent(path) as (directory, _):
        name = path.name or "."
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            raise NotDirectory(_KINDS.get(stat.S_IFMT(mode), "a file"))
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_ordinary(status: os.stat_result) -> None:
    """Raise NotRegularFile for everything but a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFile(_KINDS.get(stat.S_IFMT(status.st_mode), "something else"))


def readable_error(error: OSError, name: str) -> OSError:
    """Return the error as a sentence for a model, which calls the path `name`."""
    if isinstance(error, NotRegularFile):
        hint = "; list_files shows its contents" if str(error) == "a directory" else ""
        return NotRegularFile(f"{name} is {error}, not a file{hint}.")
    if isinstance(error, NotDirectory):
        return NotDirectory(f"{name} is {error}, not a directory.")
    match error.errno:
        case errno.ENOENT:
            return FileNotFoundError(f"{name} does not exist.")
        case errno.EACCES | errno.EPERM:
            return PermissionError(f"{name}: permission denied.")
        case number if number in _LINKS:
            return NotRegularFile(f"{name} goes through something that is not a directory, or through a loop of links.")
        case _:
            return OSError(f"{name}: {error.strerror or error}.")


def check_directory(path: Path, name: str) -> None:
    """Raise OSError, in words, if there is no directory at this resolved path that can be listed."""
    try:
        with open_directory(path):
            pass
    except OSError as error:
        raise readable_error(error, name) from None


def check_same(path: Path, was: str, name: str) -> None:
    """Raise OSError if `name` led to `was` when the call was shown ("" for never shown), and leads elsewhere now."""
    if was and str(path) != was:
        raise OSError(f"{name} pointed to {was} when this call was shown, and points to {path} now; nothing was done.")
