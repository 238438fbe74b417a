"""Whole text files: what a file holds, and how a new text takes the place of the old one in one step.

A file is replaced by renaming a finished one over it, so that nobody ever sees half of it; mode, owner and extended
attributes are kept. Hard links to the old file keep the old content.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ikigai.tools.files.encodings import Encoding, named, recognised
from ikigai.tools.files.read_tracker import State, digest, stamp
from ikigai.tools.files.safe_paths import opened, ordinary, parent

WHOLE = 10_000_000
"""Bytes of a file that is read whole; larger ones are looked at in part and edited with other means."""
_EXTENDED = hasattr(os, "listxattr")


class Content(NamedTuple):
    """A whole file. `text` has its line ends as they are; "" when the file is binary (no encoding) or too large."""

    state: State
    size: int
    data: bytes
    text: str
    encoding: Encoding | None


def whole(file: BinaryIO, encoding: str = "", known: Encoding | None = None) -> Content:
    """The file from here on, its encoding named by somebody, or `known` from before, or recognised.

    ValueError when it is not in the encoding that was named.
    """
    found = os.fstat(file.fileno())
    data = readable(file, WHOLE + 1)
    if len(data) > WHOLE:
        return Content(State(stamp(found)), max(found.st_size, len(data)), data, "", None)
    state = State(stamp(found), digest(data))
    how = named(encoding, data) if encoding else known or recognised(data)
    try:
        text = how.decode(data) if how else ""
    except UnicodeDecodeError:
        how = recognised(data)
        text = how.decode(data) if how else ""
    return Content(state._replace(encoding=how), len(data), data, text, how)


def present(path: Path, known: Encoding | None = None) -> Content | None:
    """What the file at this resolved path holds now; None when there is none. OSError as `opened` raises it."""
    try:
        with opened(path) as file:
            return whole(file, known=known)
    except FileNotFoundError:
        return None


def readable(file: BinaryIO, most: int) -> bytes:
    """At most so many bytes of a file: to its end, or to where reading on would have to wait."""
    pieces = list[bytes]()
    while most > 0 and (piece := file.read(min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def replace(path: Path, data: bytes, before: State | None) -> tuple[State, tuple[str, ...]]:
    """Make `data` the content of the file at this resolved path; `before` is what stood there, None for nothing.

    Directories that do not exist are made; they are returned with the new state. OSError when anything but `before`
    stands there by now, in one breath with the rename: only a writer within those microseconds is overwritten.
    """
    with parent(path, create=before is None) as (directory, made):
        temporary = f".{path.name[:100]}.{secrets.token_hex(6)}.tmp"
        old = _old(path.name, directory) if before else None
        mode = 0o600 if old else 0o666  # the system takes away what the umask says
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if old is not None:
                    _like(descriptor, old)
                os.fsync(descriptor)  # else a crash soon after the rename can leave an empty file
                after = os.fstat(descriptor)
            if before is None:
                _appear(temporary, path.name, directory)
            else:
                found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
                if stamp(found) != before.stamp:
                    raise OSError(errno.EBUSY, "it changed while it was being written, and was left as it is")
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        finally:
            if old is not None:
                os.close(old)
    return State(stamp(after), digest(data)), made


def _old(name: str, directory: int) -> int:
    """A descriptor of the file that is to be replaced: it must be one that may be written, for a rename asks nobody."""
    ordinary(os.stat(name, dir_fd=directory, follow_symlinks=False))
    return os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)


def _like(new: int, old: int) -> None:
    """Owner, extended attributes (access lists among them) and mode, as far as the system lets us."""
    found = os.fstat(old)
    with contextlib.suppress(OSError):
        os.fchown(new, found.st_uid, found.st_gid)
    for name in os.listxattr(old) if _EXTENDED else ():
        with contextlib.suppress(OSError):
            os.setxattr(new, name, os.getxattr(old, name))
    os.fchmod(new, stat.S_IMODE(found.st_mode))


def _appear(temporary: str, name: str, directory: int) -> None:
    """Give the file its name, which nothing must have yet: a link refuses where a rename would replace."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        raise OSError(errno.EEXIST, "something has taken this name meanwhile") from None
    except OSError:  # a file system without links
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            return
        raise OSError(errno.EEXIST, "something has taken this name meanwhile") from None
    os.unlink(temporary, dir_fd=directory)
