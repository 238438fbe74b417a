"""Open the files that a project brings only if they are its own, and identify them by a digest of their content.

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
_CHUNK_BYTES = 1 << 20


def open_own(folder: Path, file: Path, is_text: bool = True) -> int:
    """Open a file below `folder`, whose path is real; return the descriptor.

    A link is followed to a file of the folder. With `is_text` it is followed only to a visible file with the same
    suffix, as its words go to models and into messages. Raise OSError for any other link, a second hard link, a file
    that is too large, and a file that is not regular; `error_reason` returns the reason.
    """
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(folder):
        raise OSError("it is a link to a place outside the folder")
    if is_text and real != file:
        near = file.parent if real.is_relative_to(file.parent) else folder
        is_hidden = any(part.startswith(".") for part in real.relative_to(near).parts)
        if is_hidden or real.suffix != file.suffix:
            raise OSError(f"it is a link to another kind of file ({real.relative_to(folder)})")
    # A FIFO would block the open, and a file that has just become a link would be followed.
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        if status.st_nlink > 1:
            raise OSError("it has a second name (a hard link), which may be outside the folder")
        max_bytes = MAX_TEXT_BYTES if is_text else MAX_TOOL_BYTES
        if status.st_size > max_bytes:
            raise OSError(f"it is larger than {max_bytes >> 20:,} MiB")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class OwnFile(NamedTuple):
    """The result of one reading of a file: its digest, and its first bytes."""

    digest: str
    head: bytes


def read_own(folder: Path, file: Path, head_bytes: int = 0, is_text: bool = True) -> OwnFile:
    """Read a file below `folder` once; keep `head_bytes` bytes of it as its head.

    The digest also covers whether the file is executable. Raise OSError as `open_own` does.
    """
    descriptor = open_own(folder, file, is_text)
    with os.fdopen(descriptor, "rb") as opened:
        digest, head, size = hashlib.sha256(), b"", 0
        while (chunk := opened.read(_CHUNK_BYTES)) and size <= MAX_TOOL_BYTES:
            digest.update(chunk)
            size += len(chunk)
            if len(head) < head_bytes:
                head += chunk[: head_bytes - len(head)]
        kind = "x" if os.fstat(descriptor).st_mode & 0o111 else "-"
    return OwnFile(f"{kind}{digest.hexdigest()}", head)


def error_reason(error: OSError) -> str:
    """Return the reason as the second half of a sentence."""
    return error.strerror or str(error)
