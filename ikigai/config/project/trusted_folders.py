"""Store the folders that the user trusts: others have no project settings, tools and AGENTS.md.

    trusted_digests   the files that may be used, each by its digest
    trust             trust from now on
    revoke            end the trust
    list_trusted      all trusted folders

A folder is trusted by its real path and for itself alone. A folder in it (a vendored package, a clone in ~/src) may be
another owner's, and is asked about when ikigai is started there. No trust goes up or down, or through a link. Another
folder that takes its place is not trusted, and neither is a file that has come or changed since.
The file is a JSON object, real path → an entry, in the user's data folder. An entry that is only a time is of a
program that did not bind trust to anything: it does not count, and the user is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from ikigai.core.errors import Rejected
from ikigai.system import private_json

TRUSTED_FILE = "trusted.json"
"""Its name, in the data folder."""
MAX_TRUSTED_FOLDERS = 5_000
_DAMAGED = ("the folders you trust", "Delete it: ikigai then asks again for each folder.")


class TrustedFolder(msgspec.Struct):
    """A trusted folder: the time of the trust, its identity on disk, and the digests of its files by relative path."""

    since: float
    device: int
    inode: int
    files: dict[str, str] = {}


_VALUE = cast("type[float | TrustedFolder]", float | TrustedFolder)


def trusted_digests(file: Path, folder: Path) -> dict[str, str] | None:
    """Return the digests of the files that were trusted with `folder`, by relative path; None when it is not trusted.

    Raise ConfigError when the file cannot be read.
    """
    path = _real(folder)
    entry = private_json.read(file, _VALUE, *_DAMAGED).get(path) if path is not None else None
    if path is None or not isinstance(entry, TrustedFolder):
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return entry.files if (entry.device, entry.inode) == (found.st_dev, found.st_ino) else None


def is_listed(file: Path, folder: Path) -> bool:
    """Return True if this path has an entry, also one that does not count. Raise ConfigError when the file cannot be
    read.
    """
    return _real(folder) in private_json.read(file, _VALUE, *_DAMAGED)


def trust(file: Path, folder: Path, now: float, files: Mapping[str, str] | None = None) -> str:
    """Trust `folder` and these `files` from `now` on (seconds since 1970); return its real path.

    Raise IkigaiError when the file cannot be written, Rejected for a path that is not a folder.
    """
    path = _real(folder)
    if path is None or not Path(path).is_dir():
        raise Rejected(
            f"{folder} cannot be trusted: it is not a folder, or its name is not valid UTF-8.",
            "Start ikigai in another folder.",
        )
    found = Path(path).stat()
    with private_json.open_for_change(file, _VALUE, *_DAMAGED) as entries:
        if len(entries) >= MAX_TRUSTED_FOLDERS and path not in entries:
            raise Rejected(
                f"{MAX_TRUSTED_FOLDERS:,} folders are trusted, which is the limit.", "Revoke some of them first."
            )
        entries[path] = TrustedFolder(now, found.st_dev, found.st_ino, dict(files or {}))
    return path


def revoke(file: Path, folder: Path) -> bool:
    """Trust `folder` no more; return False when it was not trusted. It need not exist. Raise IkigaiError when the file
    cannot be written.
    """
    path = _real(folder)
    with private_json.open_for_change(file, _VALUE, *_DAMAGED) as entries:
        return path is not None and entries.pop(path, None) is not None


def list_trusted(file: Path) -> dict[str, float]:
    """Return every trusted folder by its real path, with the time of the trust. Raise ConfigError when the file cannot
    be read.
    """
    entries = private_json.read(file, _VALUE, *_DAMAGED)
    return {path: entry.since for path, entry in sorted(entries.items()) if isinstance(entry, TrustedFolder)}


def _real(folder: Path) -> str | None:
    """Return the resolved path, or None if it does not resolve or is not valid UTF-8."""
    try:
        path = str(folder.resolve())
        path.encode()
    except (OSError, RuntimeError, ValueError):  # a loop of links; a NUL; not UTF-8
        return None
    return path
