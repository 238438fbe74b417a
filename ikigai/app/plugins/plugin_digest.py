"""Tell whether the content of a plugin's folder is still the same."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ikigai.core.errors import Rejected

MAX_FILES, MAX_BYTES = 5_000, 256 << 20
"""Files of a plugin, and bytes of all of them."""
SKIPPED_FOLDERS = (".git", "__pycache__")
"""Folders of a plugin that change while it is used."""


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files and links of a plugin by relative path, in a fixed order. Raise Rejected if it has too many."""
    count = size = 0
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]  # noqa: PTH114, PTH118
        for name in sorted((*names, *links)):
            file = os.path.join(path, name)  # noqa: PTH118
            status = os.lstat(file)
            count, size = count + 1, size + status.st_size
            if count > MAX_FILES or size > MAX_BYTES:
                limit = f"{MAX_FILES:,} files or {MAX_BYTES >> 20} MiB"
                raise Rejected(f"{folder} has more than {limit}.", "A plugin holds what it needs, and no more.")
            yield os.path.relpath(file, folder), status


def stamp_of(folder: Path) -> str:
    """Return a digest of names, sizes, times and inodes: it changes with each change of a file. "" if it is gone."""
    try:
        return _digest(folder, _stamp)
    except Rejected:
        return ""


def digest_of(folder: Path) -> str:
    """Return a digest of all files with their content. Raise Rejected if it cannot be made."""
    return _digest(folder, _content)


def _digest(folder: Path, describe: Callable[[Path, os.stat_result], str]) -> str:
    made = hashlib.sha256()
    try:
        for name, found in _walk(folder):
            made.update(f"{name}\0{found.st_mode} {describe(folder / name, found)}\n".encode())
    except (OSError, UnicodeEncodeError) as error:
        why = getattr(error, "strerror", None) or "a name is not UTF-8"
        raise Rejected(f"{folder} cannot be read: {why}.", "A plugin is a folder that you may read.") from None
    return made.hexdigest()


def _stamp(file: Path, found: os.stat_result) -> str:
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _content(file: Path, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return f"link {file.readlink()}"
    if not stat.S_ISREG(found.st_mode):
        raise Rejected(f"{file} is not a file.", "Remove it from the plugin.")
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
