"""Resolve paths from a model and open them safely: only files, through no link, without blocking.

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

from ikigai.core.text.lookalikes import describe_difference, is_alike, may_have_alike, visible_name

_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""O_PATH (Linux) needs no right to list a directory that is only passed through."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
"""Errors of systems when O_NOFOLLOW meets a link."""
KINDS = {
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


class AmbiguousName(FileNotFoundError):
    """Nothing has this name, and more than one entry of its directory looks like it."""


def resolve_path(name: str, directory: Path, *, alike: bool = True) -> Path:
    """Return the absolute path without links that `name` means in `directory`; it need not exist.

    `~` is the home of the user. With `alike` a name that is not there stands for the only one that looks like it.
    Raise ValueError for an invalid path, AmbiguousName if several look like it.
    """
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not a path: it is empty or contains a NUL.")
    try:
        path = Path(os.path.realpath(directory / os.path.expanduser(name)))  # noqa: PTH111 - Path raises for unknown users
        return _find_alike(path, directory) if alike and may_have_alike(name) else path
    except AmbiguousName:
        raise
    except (UnicodeError, ValueError):
        raise ValueError(f"{name!r} is not a path.") from None
    except OSError as error:
        raise readable_error(error, name) from None


def _find_alike(path: Path, directory: Path) -> Path:
    """Return the path with each name that is not there replaced by the only one that looks like it."""
    found = Path(path.anchor)
    for at, part in enumerate(path.parts[1:], 1):
        if os.path.lexists(found / part):
            found /= part
            continue
        try:
            entries = [each for each in os.listdir(found) if is_alike(each, part)] if may_have_alike(part) else []  # noqa: PTH208
        except OSError:
            entries = []
        if len(entries) > 1:
            raise AmbiguousName(_describe_alike(part, sorted(entries), is_inside(found, directory)))
        if not entries:
            return found.joinpath(*path.parts[at:])
        found = Path(os.path.realpath(found / entries[0]))
    return found


def _describe_alike(name: str, entries: list[str], is_told: bool) -> str:
    """Return the sentences about several names that look like this one; what lies elsewhere is not told."""
    what = f"{visible_name(name)} does not exist, and {len(entries)} names there look like it."
    differences = (describe_difference(visible_name(each), name, "One", "yours") for each in entries[:3])
    return " ".join((what, *(f"{each}." for each in differences if each))) if is_told else what


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
            raise NotDirectory(KINDS.get(stat.S_IFMT(mode), "a file"))
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_ordinary(status: os.stat_result) -> None:
    """Raise NotRegularFile for everything but a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFile(KINDS.get(stat.S_IFMT(status.st_mode), "something else"))


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
