"""This module writes export files: whole or not at all, for their owner alone, and over another file only on
request.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ikigai.core.errors import IkigaiError, Rejected


@contextlib.contextmanager
def write_atomically(target: Path, replace: bool = False) -> Iterator[TextIO]:
    """Open a file for writing; it is at `target` once the block has ended without an error.

    Raise Rejected when there is a file already, unless `replace`, and where the target is not a regular file. Raise
    IkigaiError when it cannot be written.
    """
    temporary: Path | None = None
    if "\0" in str(target) or not target.name:
        raise Rejected(f"{str(target)!r} is not a file name.", "Choose another name.")
    try:
        if target.is_dir():
            raise Rejected(f"{target} is a folder.", "Choose a file in it.")
        if target.exists() and not target.is_file():  # a device or a pipe would be replaced by a file
            raise Rejected(f"{target} is not a regular file.", "Choose a file, or - for the standard output.")
        if not replace:
            _free(target)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=target.parent)  # 0600
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(handle)
        if not replace:
            _free(target)
        temporary.replace(target)
        temporary = None
    except OSError as error:
        full = ", or free some space" * (error.errno in (errno.ENOSPC, errno.EDQUOT))
        raise IkigaiError(f"{target} cannot be written: {error.strerror}.", f"Choose another file{full}.") from None
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def _free(target: Path) -> None:
    if os.path.lexists(target):
        raise Rejected(f"{target} already exists.", "Choose another file, or add --force to replace it.")
