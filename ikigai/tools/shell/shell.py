"""Tool `shell`, which runs a bash command in the foreground or in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.called_scripts import find_scripts
from ikigai.tools.shell.exit_report import FinishedCommand, text_with_exit
from ikigai.tools.shell.process_tools import report_output
from ikigai.tools.shell.run_command import COMMAND_TIMEOUT, OutputLimits, run
from ikigai.tools.shell.sandbox import Sandbox

MAX_TIMEOUT = 600
"""Seconds that a model may give a command."""
FIRST_OUTPUT_SECONDS = 0.5
"""Seconds to wait for a background command that fails at once."""


class ShellArguments(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, description="The bash command.")]
    timeout: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT, description="Time limit in seconds.")] = int(COMMAND_TIMEOUT)
    background: Annotated[
        bool,
        Meta(description="Run it in the background, like a server; the result is an id for the process tools."),
    ] = False


class ShellTool:
    """Tool that runs commands. `directory` is the next command's; a `cd` changes it."""

    name, set, arguments = "shell", "shell", ShellArguments

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        processes: BackgroundProcesses,
        sandbox: Sandbox | None = None,
        limits: OutputLimits | None = None,
    ) -> None:
        self._base = self.directory = Path(os.path.realpath(directory))
        self._environment, self._processes, self._limits = environment, processes, limits
        self._wrap = sandbox.wrap if sandbox else None
        self.description = (
            "Runs a bash command and returns its output and exit status. The working directory is kept from one "
            "command to the next; variables are not. There is no terminal and no input, so it cannot ask anything. "
            "What a command leaves running is stopped with it; use background=true for what must keep running."
        )
        if sandbox:
            network = "" if sandbox.network else " There is no network."
            self.description += (
                f" It runs in a sandbox: only {sandbox.directory} is writable, except its .git and .ikigai; "
                f"/tmp is empty for every command.{network}"
            )

    async def preview(self, arguments: ShellArguments) -> Effect:
        directory = str(self.directory)
        scripts = await asyncio.to_thread(find_scripts, arguments.command, directory)
        return Effect(EffectKind.RUN, arguments.command, directory, background=arguments.background, scripts=scripts)

    async def run(self, arguments: ShellArguments, progress: OnOutput) -> ToolOutput:
        if not self.directory.is_dir():
            missing, self.directory = self.directory, self._base
            raise OSError(
                f"nothing was run: the working directory {missing} does not exist any more; "
                f"the next command runs in {self._base}."
            )
        if arguments.background:
            process = self._processes.start(arguments.command, self.directory)
            await process.wait_for_output(FIRST_OUTPUT_SECONDS)
            return report_output(process)
        finished = await run(
            arguments.command,
            self.directory,
            self._environment,
            arguments.timeout,
            progress,
            self._limits,
            wrap=self._wrap,
        )
        more = f"timeout can be up to {MAX_TIMEOUT}, or background=true" if finished.timed_out else ""
        return ToolOutput(
            text_with_exit(finished, more, self._follow_directory(finished)),
            failed=finished.timed_out or finished.status != 0,
        )

    def _follow_directory(self, finished: FinishedCommand) -> str:
        """Change to the directory where the command ended; return the note about it, "" if it is the same."""
        target = Path(finished.directory or self.directory)
        if target == self.directory:
            return ""
        if not target.is_dir():  # made and removed, or only in the sandbox
            return f"the working directory is still {self.directory}: {target} does not exist outside the command"
        self.directory = target
        return f"the working directory is {target} now"
