"""The files that a project brings: opened only when they are its own, and known by a digest of what they hold.

A link or a hard link could bring in a file from elsewhere, such as a key, and have it sent to a model.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import NamedTuple

MAX_TEXT_BYTES, MAX_TOOL_BYTES = 16 << 20, 1 << 30
"""Larger files are refused: each is read whole at every start."""
_CHUNK = 1 << 20


def open_own(folder: Path, file: Path, is_text: bool = True) -> int:
    """Open a file below `folder`, whose path is real; return the descriptor.

    A link is followed to a file of the folder; with `is_text`, as its words go to models and into messages, to a
    visible one with the same suffix alone. Raises OSError, for any other link, a second hard link, a file that is too
    large, and what is no regular file; `reason` says why.
    """
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(folder):
        raise OSError("it is a link that leads out of the folder")
    if is_text and real != file:
        near = file.parent if real.is_relative_to(file.parent) else folder
        is_hidden = any(part.startswith(".") for part in real.relative_to(near).parts)
        if is_hidden or real.suffix != file.suffix:
            raise OSError(f"it is a link to another kind of file ({real.relative_to(folder)})")
    # A FIFO would be waited for, and what has just become a link be followed.
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is no regular file")
        if found.st_nlink > 1:
            raise OSError("it has another name as well (a hard link), which may be outside the folder")
        most = MAX_TEXT_BYTES if is_text else MAX_TOOL_BYTES
        if found.st_size > most:
            raise OSError(f"it is larger than {most >> 20:,} MiB")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class OwnFile(NamedTuple):
    """What one reading of a file gave: its digest, and the first bytes of it."""

    digest: str
    head: bytes


def read_own(folder: Path, file: Path, most: int = 0, is_text: bool = True) -> OwnFile:
    """Read a file below `folder` once; `most` bytes of it are kept as its head.

    The digest also tells whether the file is executable. Raises OSError as `open_own` does.
    """
    descriptor = open_own(folder, file, is_text)
    with os.fdopen(descriptor, "rb") as opened:
        digest, head, size = hashlib.sha256(), b"", 0
        while (chunk := opened.read(_CHUNK)) and size <= MAX_TOOL_BYTES:
            digest.update(chunk)
            size += len(chunk)
            if len(head) < most:
                head += chunk[: most - len(head)]
        kind = "x" if os.fstat(descriptor).st_mode & 0o111 else "-"
    return OwnFile(f"{kind}{digest.hexdigest()}", head)


def reason(error: OSError) -> str:
    """Return the reason as the second half of a sentence."""
    return error.strerror or str(error)
