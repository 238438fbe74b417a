"""Find out if another program feeds the standard input: one of a pipeline, or only the one that started this.

A shell gives the end of a pipe that is written to the program before the bar alone. A supervisor that starts programs
with an open pipe, and writes nothing, has that end itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_WRITABLE = 0o200
"""The permission that /proc gives to a descriptor that is open for writing."""


def has_producer() -> bool:
    """Return True for a pipe that another program can write to than those that started this one.

    Return True, too, if its writers cannot be seen: without /proc, or when they are another user's or in another
    container.
    """
    status = os.fstat(0)
    if not stat.S_ISFIFO(status.st_mode):
        return False
    writers = set(_writers(status))
    return not writers or not writers <= {os.getpid(), *_ancestors()}


def _writers(pipe: os.stat_result) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it has ended, or is another user's
            if any(_is_writer(entry, pipe) for entry in os.scandir(folder)):
                yield int(folder.parent.name)


def _is_writer(descriptor: os.DirEntry[str], pipe: os.stat_result) -> bool:
    try:
        is_writable = descriptor.stat(follow_symlinks=False).st_mode & _WRITABLE
        return bool(is_writable) and os.path.samestat(descriptor.stat(), pipe)
    except OSError:  # closed meanwhile
        return False


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 0:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            return
