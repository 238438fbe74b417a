"""Make the file tools of an agent."""

from __future__ import annotations

from pathlib import Path

from ikigai.tools.base import Tool
from ikigai.tools.files.edit_file import EditFile
from ikigai.tools.files.read_file import Picture, ReadFile
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.search.glob import GlobFiles
from ikigai.tools.files.search.grep import Grep
from ikigai.tools.files.search.list_files import ListFiles
from ikigai.tools.files.write_file import WriteFile


def file_tools(directory: Path, tracker: ReadTracker, *, picture: Picture | None = None) -> tuple[Tool, ...]:
    """Return the file tools.

    Relative paths begin in `directory`. `tracker` belongs to this agent alone. `picture` reads images
    (`ikigai.images.read_picture`).
    """
    return (
        EditFile(directory, tracker),
        GlobFiles(directory, tracker),
        Grep(directory, tracker),
        ListFiles(directory, tracker),
        ReadFile(directory, tracker, picture),
        WriteFile(directory, tracker),
    )
