"""Read and change small JSON objects in private files: one program at a time, replaced whole.

    read              the object in a file
    open_for_change   the object, to be changed in a `with`

The file can be read by its owner alone, and so can its folder. No error in here shows the content of one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.system.file_replacement import write_file

MAX_JSON_BYTES = 16_000_000

_V = TypeVar("_V")


def read(file: Path, value: type[_V], holds: str, remedy: str) -> dict[str, _V]:
    """Return the object, each of whose values is a `value`; {} when there is no file.

    Raise ConfigError when it cannot be read: a damaged file "should hold" the text `holds`, and `remedy` is the advice.
    """
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                with contextlib.suppress(OSError):  # not ours to change: its content is still the user's
                    os.fchmod(opened.fileno(), 0o600)
            content = opened.read(MAX_JSON_BYTES)
        return msgspec.json.decode(content, type=dict[str, value])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.", "It must be a regular file that you own."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(f"{file} is damaged: it should contain {holds}.", remedy) from None


@contextlib.contextmanager
def open_for_change(file: Path, value: type[_V], holds: str, remedy: str) -> Iterator[dict[str, _V]]:
    """Open the object for a change: one program at a time. At the end a file with the new content takes its place.

    Raise the errors of `read`, and IkigaiError when the file cannot be written; then it is as it was.
    """
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            kept = read(file, value, holds, remedy)
            before = dict(kept)
            yield kept
            if kept == before:
                return
            write_file(file, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
        finally:
            os.close(folder)
    except OSError as error:
        raise IkigaiError(
            f"{file} cannot be written: {error.strerror}.", "Check its permissions, those of its folder, and the disk."
        ) from None
