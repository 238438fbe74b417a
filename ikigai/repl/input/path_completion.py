"""Complete a path that is being typed, from the folder that it leads into."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

MAX_COMPLETED_NAMES = 2_000
"""Names of a folder that are read for a completion."""


def complete_paths(typed: str, folder: Path) -> Iterator[str]:
    """Yield the files and folders that `typed` can become, written as `typed` is."""
    above = typed[: typed.rfind("/") + 1]
    with (
        contextlib.suppress(OSError, RuntimeError, ValueError),
        os.scandir(folder / Path(above).expanduser()) as entries,
    ):
        for entry, _ in zip(entries, range(MAX_COMPLETED_NAMES), strict=False):
            name = entry.name
            if name.isprintable() and (not name.startswith(".") or typed[len(above) :].startswith(".")):
                if entry.is_dir():
                    yield f"{above}{name}/"
                elif entry.is_file(follow_symlinks=False):
                    yield above + name
