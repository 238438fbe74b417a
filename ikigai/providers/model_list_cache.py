"""What the list endpoints of providers said last, kept in a file, so that nobody has to be asked at start.

The file is a cache: one that is missing, broken or of another version is as good as empty, and one that cannot be
written is let be. Two programs that save at once may lose what one of them learned; it is asked for again.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ikigai.core.record import Record
from ikigai.providers.models import Listed

VERSION = 1


class Listing(Record, frozen=True):
    """The models of one provider; `at` is when it was asked, in seconds since 1970."""

    at: float
    models: tuple[Listed, ...]


class _File(Record, frozen=True):
    version: int
    providers: dict[str, Listing]


def load(path: Path) -> dict[str, Listing]:
    """The listings by provider."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return file.providers if file.version == VERSION else {}


def save(path: Path, provider: str, listed: Iterable[Listed], at: float) -> bool:
    """Keep what `provider` has listed `at` seconds since 1970; whether that succeeded. Only its owner can read it."""
    listings = {**load(path), provider: Listing(at, tuple(listed))}
    try:
        data = msgspec.json.encode(_File(VERSION, listings))
    except UnicodeEncodeError:  # a name with half a character
        return False
    return _write(path, data)


def _write(path: Path, data: bytes) -> bool:
    """All or nothing: a reader sees the old file or the new one."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with 0600
        with open(handle, "wb") as file:  # noqa: PTH123
            file.write(data)
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            if temporary:
                Path(temporary).unlink()
        return False
    return True
