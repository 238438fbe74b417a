"""List the files of a folder that may be external tools, without reading them."""

from __future__ import annotations

import os
from pathlib import Path

from ikigai.core.text.sanitize import clean_line, storable

MAX_TOOLS = 64
"""Maximum tools of one folder."""


def tool_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the first `MAX_TOOLS` files that may be tools, by name, and sentences about files that are left out."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and not name.endswith("~"))  # noqa: PTH208
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"The tools in {clean_line(str(folder))} cannot be used: {error.strerror}."]
    paths = [folder / name for name in names if not (folder / name).is_dir()]
    # Neither trust nor an approval can be stored for a name that is not text.
    named = [path for path in paths if storable(path.name) == path.name]
    problems = [
        f"{clean_line(str(path))} is not offered as a tool: its name is not valid UTF-8. Rename it."
        for path in paths
        if path not in named
    ]
    if len(named) > MAX_TOOLS:
        problems.append(f"Only the first {MAX_TOOLS} of {len(named)} tools in {clean_line(str(folder))} are offered.")
    return named[:MAX_TOOLS], problems
