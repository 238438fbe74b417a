"""This module reads whole text files, and replaces their content in one step.

A file is replaced by renaming a finished one over it, so that no process ever sees half of it. Mode, owner and extended
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

from ikigai.tools.files.encodings import Encoding, named_encoding, recognize_encoding
from ikigai.tools.files.read_tracker import FileState, digest, stat_stamp
from ikigai.tools.files.safe_paths import check_ordinary, open_file, open_parent

MAX_WHOLE_BYTES = 10_000_000
"""Maximum bytes of a file that is read whole; larger ones are read in part and edited by other means."""
_HAS_XATTRS = hasattr(os, "listxattr")


class Content(NamedTuple):
    """Content of a whole file. `text` keeps its line ends; "" if the file is binary (no encoding) or too large."""

    state: FileState
    size: int
    data: bytes
    text: str
    encoding: Encoding | None


def read_whole(file: BinaryIO, encoding: str = "", known: Encoding | None = None) -> Content:
    """Read a file from here to its end.

    Its encoding is the one named `encoding`, else `known` from an earlier read, else recognized. Raise ValueError if
    the file does not fit the named encoding.
    """
    status = os.fstat(file.fileno())
    data = read_prefix(file, MAX_WHOLE_BYTES + 1)
    if len(data) > MAX_WHOLE_BYTES:
        return Content(FileState(stat_stamp(status)), max(status.st_size, len(data)), data, "", None)
    state = FileState(stat_stamp(status), digest(data))
    chosen = named_encoding(encoding, data) if encoding else known or recognize_encoding(data)
    try:
        text = chosen.decode(data) if chosen else ""
    except UnicodeDecodeError:
        chosen = recognize_encoding(data)
        text = chosen.decode(data) if chosen else ""
    return Content(state._replace(encoding=chosen), len(data), data, text, chosen)


def read_present(path: Path, known: Encoding | None = None) -> Content | None:
    """Return the content of the file at this resolved path, None if there is none. Raise OSError as `open_file`."""
    try:
        with open_file(path) as file:
            return read_whole(file, known=known)
    except FileNotFoundError:
        return None


def read_prefix(file: BinaryIO, max_bytes: int) -> bytes:
    """Read at most `max_bytes` of a file: to its end, or to a point where reading would block."""
    pieces = list[bytes]()
    while max_bytes > 0 and (piece := file.read(min(max_bytes, 1 << 20))):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)


def replace(path: Path, data: bytes, before: FileState | None) -> tuple[FileState, tuple[str, ...]]:
    """Make `data` the content of the file at this resolved path; `before` is its state so far, None for a new file.

    Make missing directories. Return the new state and the directories that were made. Raise OSError if the file is no
    longer as in `before`. The check is right before the rename: only a writer within those microseconds is overwritten.
    """
    with open_parent(path, create=before is None) as (directory, made):
        temporary = f".{path.name[:100]}.{secrets.token_hex(6)}.tmp"
        old = _open_old(path.name, directory) if before else None
        mode = 0o600 if old else 0o666  # the system applies the umask
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if old is not None:
                    _copy_attributes(descriptor, old)
                os.fsync(descriptor)  # otherwise a crash soon after the rename can leave an empty file
                after = os.fstat(descriptor)
            if before is None:
                _link_new(temporary, path.name, directory)
            else:
                status = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
                if stat_stamp(status) != before.stamp:
                    raise OSError(errno.EBUSY, "it changed while it was being written; it was not replaced")
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        finally:
            if old is not None:
                os.close(old)
    return FileState(stat_stamp(after), digest(data)), made


def _open_old(name: str, directory: int) -> int:
    """Return a descriptor of the file to replace. It must be writable, which a rename would not check."""
    check_ordinary(os.stat(name, dir_fd=directory, follow_symlinks=False))
    return os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)


def _copy_attributes(new: int, old: int) -> None:
    """Copy owner, extended attributes (with access lists) and mode, as far as the system allows."""
    status = os.fstat(old)
    with contextlib.suppress(OSError):
        os.fchown(new, status.st_uid, status.st_gid)
    for name in os.listxattr(old) if _HAS_XATTRS else ():
        with contextlib.suppress(OSError):
            os.setxattr(new, name, os.getxattr(old, name))
    os.fchmod(new, stat.S_IMODE(status.st_mode))


def _link_new(temporary: str, name: str, directory: int) -> None:
    """Give a new file its name, which must be free: a link fails where a rename would replace."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        raise OSError(errno.EEXIST, "a file with this name has appeared meanwhile") from None
    except OSError:  # a file system without links
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            return
        raise OSError(errno.EEXIST, "a file with this name has appeared meanwhile") from None
    os.unlink(temporary, dir_fd=directory)
