"""Which folders the user trusts: only from these are project settings, tools and AGENTS.md read.

    is_trusted   may anything of this folder be obeyed
    files        which of its files may be, each as it was
    trust        from now on
    revoke       no more
    trusted      all of them

A folder is trusted by its real path and for itself alone: what lies in it (a vendored package, a clone in ~/src) may be
somebody else's, and is asked about when ikigai is started there. No trust goes up or down, or through a link. Another
folder that takes its place is not trusted, and neither is a file that has come or changed since.
The file is a JSON object, real path → an entry, in the user's data folder. An entry that is only a time is of a
program that did not bind trust to anything: it does not count, and the user is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from ikigai.core.errors import Refused
from ikigai.system import private_json

FILE = "trusted.json"
"""Its name, in the data folder."""
MOST = 5_000
_DAMAGED = ("the folders you trust", "Delete it: ikigai then asks again for each.")


class Entry(msgspec.Struct):
    """A trusted folder: since when, which one it is on disk, and the digests of its files by relative path."""

    since: float
    device: int
    inode: int
    files: dict[str, str] = {}


_VALUE = cast("type[float | Entry]", float | Entry)


def is_trusted(file: Path, folder: Path) -> bool:
    """Whether `folder` itself was trusted. Raises ConfigError when the file cannot be read: then nothing is trusted."""
    return files(file, folder) is not None


def files(file: Path, folder: Path) -> dict[str, str] | None:
    """The digests of the files that were trusted with `folder`, by relative path; None when it is not trusted.

    Raises ConfigError when the file cannot be read.
    """
    path = _real(folder)
    entry = private_json.read(file, _VALUE, *_DAMAGED).get(path) if path is not None else None
    if path is None or not isinstance(entry, Entry):
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return entry.files if (entry.device, entry.inode) == (found.st_dev, found.st_ino) else None


def is_listed(file: Path, folder: Path) -> bool:
    """Whether there is an entry for this path, also one that does not count. Raises ConfigError."""
    return _real(folder) in private_json.read(file, _VALUE, *_DAMAGED)


def trust(file: Path, folder: Path, now: float, files: Mapping[str, str] | None = None) -> str:
    """Trust `folder` and these `files` from `now` on (seconds since 1970); its real path.

    Raises IkigaiError, Refused for no folder.
    """
    path = _real(folder)
    if path is None or not Path(path).is_dir():
        raise Refused(f"{folder} is no folder that can be trusted.", "Start ikigai in a folder with a plain name.")
    found = Path(path).stat()
    with private_json.changing(file, _VALUE, *_DAMAGED) as kept:
        if len(kept) >= MOST and path not in kept:
            raise Refused(f"{MOST:,} folders are trusted, and no more can be.", "Revoke some of them first.")
        kept[path] = Entry(now, found.st_dev, found.st_ino, dict(files or {}))
    return path


def revoke(file: Path, folder: Path) -> bool:
    """Trust `folder` no more; False when it was not trusted. It need not exist. Raises IkigaiError."""
    path = _real(folder)
    with private_json.changing(file, _VALUE, *_DAMAGED) as kept:
        return path is not None and kept.pop(path, None) is not None


def trusted(file: Path) -> dict[str, float]:
    """Every trusted folder by its real path, and since when. Raises ConfigError when the file cannot be read."""
    kept = private_json.read(file, _VALUE, *_DAMAGED)
    return {path: entry.since for path, entry in sorted(kept.items()) if isinstance(entry, Entry)}


def _real(folder: Path) -> str | None:
    """The real path; None where there is none, or none that a JSON file can hold."""
    try:
        path = str(folder.resolve())
        path.encode()
    except (OSError, RuntimeError, ValueError):  # a loop of links; a NUL; not UTF-8
        return None
    return path
