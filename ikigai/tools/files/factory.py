"""The tools that look at files and change them, as one agent gets them."""

from __future__ import annotations

from pathlib import Path

from ikigai.tools.base import Tool
from ikigai.tools.files.edit_file import EditFile
from ikigai.tools.files.glob import GlobFiles
from ikigai.tools.files.grep import Grep
from ikigai.tools.files.list_files import ListFiles
from ikigai.tools.files.read_file import Picture, ReadFile
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.files.write_file import WriteFile


def file_tools(directory: Path, seen: Seen, *, picture: Picture | None = None, ripgrep: str = "") -> tuple[Tool, ...]:
    """`directory` is where relative paths begin; `seen` belongs to this agent alone; `picture` reads images
    (`ikigai.images.pictured`); `ripgrep` is the absolute path of that program, "" for none.
    """
    return (
        EditFile(directory, seen),
        GlobFiles(directory, seen, ripgrep),
        Grep(directory, seen, ripgrep),
        ListFiles(directory, seen),
        ReadFile(directory, seen, picture),
        WriteFile(directory, seen),
    )
