"""Recognize the files that pictures are in, and read them: only ordinary files, with a size limit, never waiting."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from ikigai.core.errors import Rejected

PNG, JPEG, WEBP, GIF = "image/png", "image/jpeg", "image/webp", "image/gif"

MAX_PICTURE_FILE_BYTES = 50 << 20
"""Most bytes of an image file; the longest photos of phones have half of that."""
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
"""Endings of names that mean an image, also of kinds that no vendor takes: the error names the possible kinds."""


def media_type_of(head: bytes) -> str:
    """Return the media type for the first bytes of a file; "" for all but a PNG, JPEG, WebP or GIF."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    return GIF if head.startswith((b"GIF87a", b"GIF89a")) else ""


class SpecialFile(OSError):
    """A pipe, a device or a socket."""


def open_picture(path: Path) -> BinaryIO:
    """Open an ordinary file for reading; do not even open others, for that can wait or have effects.

    Raise SpecialFile, another OSError, and ValueError for a text that is not a path.
    """
    _ordinary(path.stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _ordinary(os.fstat(descriptor).st_mode)  # something else may have taken its name meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _ordinary(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise SpecialFile(errno.EINVAL, "not a regular file")


def read_bounded(file: BinaryIO, name: str) -> bytes:
    """Return all of an open file. Raise Rejected for one that is too large, and the errors of reading."""
    data = file.read(MAX_PICTURE_FILE_BYTES + 1)
    if len(data) > MAX_PICTURE_FILE_BYTES:
        raise Rejected(f"{name} is larger than {MAX_PICTURE_FILE_BYTES >> 20} MB.", "Make the image smaller first.")
    return data
