"""The tool `shell`: one bash command, waited for or in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch
from ikigai.tools.shell.background import Processes
from ikigai.tools.shell.exit_report import Finished, told
from ikigai.tools.shell.process_tools import report
from ikigai.tools.shell.run import TIMEOUT, Limits, run
from ikigai.tools.shell.sandbox import Sandbox
from ikigai.tools.shell.scripts import scripts

LONGEST = 600
"""Seconds that a model may give a command."""
FIRST_WORDS = 0.5
"""Seconds to see whether a background command fails at once."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, description="The command, for bash.")]
    timeout: Annotated[int, Meta(ge=1, le=LONGEST, description="Seconds that it may take.")] = int(TIMEOUT)
    background: Annotated[
        bool,
        Meta(description="Whether it goes on beside, like a server; the result then is an id for the process tools."),
    ] = False


class Shell:
    """`directory` is where the first command runs; with a `cd` the next ones run elsewhere."""

    name, set, arguments = "shell", "shell", Arguments

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        processes: Processes,
        sandbox: Sandbox | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._base = self.directory = Path(os.path.realpath(directory))
        self._environment, self._processes, self._limits = environment, processes, limits
        self._wrap = sandbox.wrap if sandbox else None
        self.description = (
            "Runs a bash command and returns what it wrote, and how it ended. The working directory is kept from one "
            "command to the next; variables are not. There is no terminal and no input, so nothing can be asked. What "
            "a command leaves running is ended with it; background=true is for what is to go on."
        )
        if sandbox:
            network = "" if sandbox.network else " There is no network."
            self.description += (
                f" It runs in a sandbox: only {sandbox.directory} can be written to, without its .git and .ikigai; "
                f"/tmp is empty for every command.{network}"
            )

    async def look(self, arguments: Arguments) -> Touch:
        directory = str(self.directory)
        found = await asyncio.to_thread(scripts, arguments.command, directory)
        return Touch(Kind.RUN, arguments.command, directory, background=arguments.background, scripts=found)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        if not self.directory.is_dir():
            gone, self.directory = self.directory, self._base
            raise OSError(f"nothing was run: the working directory {gone} is gone; the next one is {self._base}.")
        if arguments.background:
            made = self._processes.start(arguments.command, self.directory)
            await made.news(FIRST_WORDS)
            return report(made)
        finished = await run(
            arguments.command,
            self.directory,
            self._environment,
            arguments.timeout,
            progress,
            self._limits,
            wrap=self._wrap,
        )
        more = f"timeout can be up to {LONGEST}, or background=true" if finished.timed_out else ""
        return Output(told(finished, more, self._moved(finished)), failed=finished.timed_out or finished.status != 0)

    def _moved(self, finished: Finished) -> str:
        """Go where the command went; what to say of it."""
        there = Path(finished.directory or self.directory)
        if there == self.directory:
            return ""
        if not there.is_dir():  # made and removed, or only in the sandbox
            return f"the working directory is still {self.directory}: there is no {there} outside the command"
        self.directory = there
        return f"the working directory is {there} now"
