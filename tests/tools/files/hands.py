"""An agent's hands in a test: file tools over one real directory, called as a registry calls them."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from ikigai import images
from ikigai.tools.base import Output, Touch
from ikigai.tools.files.edit_file import EditFile
from ikigai.tools.files.read_file import ReadFile
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.files.write_file import WriteFile


def quiet(piece: str) -> None:
    """Live output that nobody watches."""


async def look(tool: Any, **arguments: Any) -> Touch:
    return await tool.look(decoded(tool, arguments))


async def run(tool: Any, **arguments: Any) -> Output:
    return await tool.run(decoded(tool, arguments), quiet)


async def call(tool: Any, **arguments: Any) -> str:
    """Looks and runs, from JSON, as when somebody said yes; the text of it."""
    await look(tool, **arguments)
    output = await run(tool, **arguments)
    assert not output.failed
    return output.text


def decoded(tool: Any, arguments: dict[str, Any]) -> Any:
    return msgspec.json.decode(json.dumps(arguments), type=tool.arguments)


class Hands:
    """The tools that read, write and edit, of one agent."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.seen = directory, Seen()
        self.read = ReadFile(directory, self.seen, images.pictured)
        self.write = WriteFile(directory, self.seen)
        self.edit = EditFile(directory, self.seen)


def ripgrep() -> str:
    """The path of ripgrep, from where the tests' dependencies are or from the system."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.exists() else shutil.which("rg") or ""
