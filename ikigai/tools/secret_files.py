"""Recognize by its name a file that may hold keys or passwords: reading one needs approval."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ikigai.tools.name_patterns import compile_group, find_in_path, read_groups

SECRET_NAMES = Path(__file__).parent / "secret_names.toml"


def is_below(folder: str, path: str) -> bool:
    """Return True if `path` is `folder` or lies below it; both absolute and normalized, links unresolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def relative_path(root: str, path: str) -> str:
    """Return `path` as seen from `root`, or whole when it lies elsewhere.

    So the files of a project in ~/.config/x do not count as configuration.
    """
    return path[len(root.rstrip("/")) + 1 :] if is_below(root, path) else path


def is_secret(root: str, path: str) -> bool:
    """Return True if a file's name, or that of a folder above it, looks like one that holds keys or passwords."""
    return _secret_names().search(relative_path(root, path).casefold()) is not None


@cache
def _secret_names() -> re.Pattern[str]:
    return find_in_path(*(compile_group(group, copies=True) for group in read_groups(SECRET_NAMES)))
