"""Read whole text files, and replace their content in one step.

A file is replaced by renaming a finished one over it, so that no process ever sees half of it, unless it has hard links
or the system does not let it be replaced. Mode, owner, extended attributes and hard links are kept.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ikigai.system.file_replacement import stage
from ikigai.tools.files.encodings import Encoding, named_encoding, recognize_encoding
from ikigai.tools.files.read_tracker import FileState, digest, stat_stamp
from ikigai.tools.files.safe_paths import check_ordinary, open_file, open_parent

MAX_WHOLE_BYTES = 10_000_000
"""Maximum bytes of a file that is read whole; larger ones are read in part and edited by other means."""


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
    """Return the content of the file at this resolved path, or None. Raise OSError as `open_file`."""
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


class Replacement(NamedTuple):
    """Result of a write: the new state, the directories that were made, and sentences on how the file was written."""

    state: FileState
    made: tuple[str, ...]
    notes: tuple[str, ...]


def replace(path: Path, data: bytes, before: FileState | None) -> Replacement:
    """Make `data` the content of the file at this resolved path; `before` is its state so far, None for a new file.

    Make missing directories. Raise OSError if the file is no longer as in `before`. The check is right before the
    rename: only a writer within those microseconds is overwritten.
    """
    with open_parent(path, create=before is None) as (directory, made):
        if before is None:
            with stage(directory, path.name, 0o666) as staged:  # the system applies the umask
                staged.write(data)
                try:
                    return Replacement(FileState(stat_stamp(staged.link()), digest(data)), made, ())
                except FileExistsError:
                    raise OSError(errno.EEXIST, "a file with this name has appeared meanwhile") from None
        old = _open_old(path.name, directory)
        try:
            with stage(directory, path.name, is_new=False) as staged:
                staged.write(data)
                status = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
                if stat_stamp(status) != before.stamp:
                    raise OSError(errno.EBUSY, "it changed while it was being written; it was not replaced")
                after, why, left = staged.replace(old, path)
        finally:
            os.close(old)
    notes = [f"Written in place, as {why}."] if why else []
    notes += [f"An earlier write of it was cut short: what it held before that is in {left}."] if left else []
    return Replacement(FileState(stat_stamp(after), digest(data)), made, tuple(notes))


def _open_old(name: str, directory: int) -> int:
    """Return a descriptor of the file to replace. It must be writable, which a rename would not check."""
    check_ordinary(os.stat(name, dir_fd=directory, follow_symlinks=False))
    return os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
