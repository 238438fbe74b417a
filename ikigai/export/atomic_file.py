"""Files for exports: there whole or not at all, for their owner alone, and never in the place of another unasked."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ikigai.core.errors import IkigaiError, Refused


@contextlib.contextmanager
def made(target: Path, replace: bool = False) -> Iterator[TextIO]:
    """The file while it is being written; it is at `target` once the block has ended without an error.

    Raises Refused when there is one already, unless `replace`, and where what is there is no ordinary file; IkigaiError
    when it cannot be written.
    """
    temporary: Path | None = None
    if "\0" in str(target) or not target.name:
        raise Refused(f"{str(target)!r} is no name of a file.", "Name another.")
    try:
        if target.is_dir():
            raise Refused(f"{target} is a folder.", "Name a file in it.")
        if target.exists() and not target.is_file():  # a device or a pipe would be gone, and a file there
            raise Refused(f"{target} is no ordinary file.", "Name a file, or - for the standard output.")
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
        full = ", or make room for it" * (error.errno in (errno.ENOSPC, errno.EDQUOT))
        raise IkigaiError(f"{target} cannot be written: {error.strerror}.", f"Name another file{full}.") from None
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def _free(target: Path) -> None:
    if os.path.lexists(target):
        raise Refused(f"{target} is there already.", "Name another file, or add --force to replace it.")
