"""Small JSON objects in files of the user's own: read whole, changed by one program at a time, replaced whole.

    read       what a file holds
    changing   the same, to be changed in a `with`

The file can be read by its owner alone, and so can the folder it is in. No error in here shows what stands in one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ikigai.core.errors import ConfigError, IkigaiError

MOST_BYTES = 16_000_000

_V = TypeVar("_V")


def read(file: Path, value: type[_V], holds: str, remedy: str) -> dict[str, _V]:
    """The object, each of whose values is a `value`; empty when there is no file.

    Raises ConfigError when it cannot be read: a damaged file "should hold" what `holds` says, and `remedy` is what to
    do then.
    """
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                with contextlib.suppress(OSError):  # not ours to change: what it holds is still the user's
                    os.fchmod(opened.fileno(), 0o600)
            content = opened.read(MOST_BYTES)
        return msgspec.json.decode(content, type=dict[str, value])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", "Let it be a file of yours.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(f"{file} is damaged: it should hold {holds}.", remedy) from None


@contextlib.contextmanager
def changing(file: Path, value: type[_V], holds: str, remedy: str) -> Iterator[dict[str, _V]]:
    """The object, to be changed: one program at a time, and a file with what it is afterwards takes its place.

    Raises what `read` does, and IkigaiError when the file cannot be written; then it is as it was.
    """
    made: Path | None = None
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            kept = read(file, value, holds, remedy)
            before = dict(kept)
            yield kept
            if kept == before:
                return
            handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # readable by its owner alone
            made = Path(name)
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
                opened.flush()
                os.fsync(handle)
            made.replace(file)
            made = None
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise IkigaiError(
            f"{file} cannot be written: {error.strerror}.", "Check the folder's permissions, and the disk."
        ) from None
    finally:
        if made:
            made.unlink(missing_ok=True)
