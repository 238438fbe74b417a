"""Run the user's own !command, and cut its output to what goes into the conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikigai.app.tools.tool_runtime import ToolRuntime

MAX_OUTPUT_BYTES = 100_000
"""Bytes of a command's output that go into the conversation."""


async def run_user_command(tool_runtime: ToolRuntime, line: str, progress: Callable[[str], None]) -> str:
    """Run the user's own command without a time limit, and return its output and exit as text."""
    from ikigai.tools.shell.exit_report import text_with_exit
    from ikigai.tools.shell.output_buffer import shorten_middle
    from ikigai.tools.shell.run_command import run

    folder = Path(tool_runtime.directory)
    finished = await run(line, folder, tool_runtime.environment, None, progress)
    return shorten_middle(text_with_exit(finished, "", ""), MAX_OUTPUT_BYTES)
