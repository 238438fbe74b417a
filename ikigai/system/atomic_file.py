"""Files that the user names for output, such as exports and dumps: written whole or not at all, for their owner alone,
and over another file only on request.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ikigai.core.errors import IkigaiError, Rejected
from ikigai.system.file_replacement import open_folder, stage


@contextlib.contextmanager
def write_atomically(target: Path, replace: bool = False) -> Iterator[TextIO]:
    """Open a file for writing; it is at `target` once the block has ended without an error.

    Raise the errors of `check_target`, and IkigaiError when it cannot be written.
    """
    check_target(target, replace)
    with _in_words(target):
        real = Path(os.path.realpath(target))
        with open_folder(real.parent) as directory, stage(directory, real.name) as staged:
            with os.fdopen(os.dup(staged.descriptor), "w", encoding="utf-8", newline="\n") as file:
                yield file
            check_target(target, replace)
            try:
                old = os.open(real.name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
            except FileNotFoundError:
                staged.link()
            except PermissionError:  # it may be replaced, but not read or written
                staged.rename()
            else:
                try:
                    os.fchmod(old, 0o600)  # the new file gets its mode
                    staged.replace(old, real)
                finally:
                    os.close(old)


def check_target(target: Path, replace: bool) -> None:
    """Raise Rejected when there is a file already, unless `replace`, and where the target is not a regular file; raise
    IkigaiError where that cannot be told.
    """
    with _in_words(target):
        if "\0" in str(target) or not target.name:
            raise Rejected(f"{str(target)!r} is not a file name.", "Choose another name.")
        if target.is_dir():
            raise Rejected(f"{target} is a folder.", "Choose a file in it.")
        if target.exists() and not target.is_file():  # a device or a pipe would be replaced by a file
            raise Rejected(f"{target} is not a regular file.", "Choose a file, or - for the standard output.")
        if os.path.lexists(target) and not replace:
            raise FileExistsError


@contextlib.contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise Rejected(f"{target} already exists.", "Choose another file, or add --force to replace it.") from None
    except OSError as error:
        full = ", or free some space" * (error.errno in (errno.ENOSPC, errno.EDQUOT))
        raise IkigaiError(f"{target} cannot be written: {error.strerror}.", f"Choose another file{full}.") from None
