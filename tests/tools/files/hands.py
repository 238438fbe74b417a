"""Call file tools over a real directory as a registry does."""

import json
from pathlib import Path
from typing import Any

import msgspec

from ikigai import images
from ikigai.tools.base import Effect, ToolOutput
from ikigai.tools.files.edit_file import EditFile
from ikigai.tools.files.read_file import ReadFile
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.write_file import WriteFile


def quiet(piece: str) -> None:
    """Ignore live output."""


async def preview(tool: Any, **arguments: Any) -> Effect:
    return await tool.preview(decoded(tool, arguments))


async def run(tool: Any, **arguments: Any) -> ToolOutput:
    return await tool.run(decoded(tool, arguments), quiet)


async def call(tool: Any, **arguments: Any) -> str:
    """Preview and run a call with arguments from JSON, as after an approval; return the text."""
    await preview(tool, **arguments)
    output = await run(tool, **arguments)
    assert not output.failed
    return output.text


def decoded(tool: Any, arguments: dict[str, Any]) -> Any:
    return msgspec.json.decode(json.dumps(arguments), type=tool.arguments)


class Hands:
    """Tools of one agent that read, write and edit."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.seen = directory, ReadTracker()
        self.read = ReadFile(directory, self.seen, images.read_picture)
        self.write = WriteFile(directory, self.seen)
        self.edit = EditFile(directory, self.seen)
