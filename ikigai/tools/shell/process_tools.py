"""Background tools `process_list`, `process_read`, `process_write` and `process_stop`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.shell.background import BackgroundProcess, BackgroundProcesses
from ikigai.tools.shell.exit_report import describe_exit

MAX_READ_WAIT = 60
"""Seconds that a read may wait for output."""
WRITE_TIMEOUT = 5.0
"""Seconds in which a process has to read the input that is written to it."""
SHOWN_COMMAND_CHARACTERS = 200
"""Characters of a command in the list."""

Id = Annotated[str, Meta(min_length=1, description="The id of the process, such as p1.")]


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass


class ReadArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    tail: Annotated[
        int, Meta(ge=0, le=100_000, description="The number of last lines to return; 0 for only the new output.")
    ] = 0
    wait: Annotated[
        int, Meta(ge=0, le=MAX_READ_WAIT, description="Seconds to wait until there is new output, or the process ends.")
    ] = 0


class WriteArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    text: Annotated[str, Meta(description="The text to write; end a line with a line break.")] = ""
    end: Annotated[bool, Meta(description="Close its input afterwards.")] = False


class StopArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id


class _ProcessTool:
    set = "shell"

    def __init__(self, processes: BackgroundProcesses) -> None:
        self._processes = processes


class ProcessList(_ProcessTool):
    name, arguments = "process_list", ListArguments
    description = "Lists the commands that run in the background, and those that ended recently."

    async def preview(self, arguments: ListArguments) -> Effect:
        return Effect(EffectKind.NOTHING, self.name)

    async def run(self, arguments: ListArguments, progress: OnOutput) -> ToolOutput:
        return ToolOutput("\n".join(map(_line, self._processes)) or "[no processes]")


class ProcessRead(_ProcessTool):
    name, arguments = "process_read", ReadArguments
    description = "Reads the output of a background command since the last read, and tells if it is running."

    async def preview(self, arguments: ReadArguments) -> Effect:
        return Effect(EffectKind.NOTHING, f"{self.name} {arguments.id}")

    async def run(self, arguments: ReadArguments, progress: OnOutput) -> ToolOutput:
        process = self._processes.find(arguments.id)
        await process.wait_for_output(arguments.wait)
        return report_output(process, arguments.tail)


class ProcessWrite(_ProcessTool):
    name, arguments = "process_write", WriteArguments
    description = "Writes to the standard input of a background command."

    async def preview(self, arguments: WriteArguments) -> Effect:
        target = self._processes.find(arguments.id)
        end = "\n(and the end of its input)" if arguments.end else ""
        shown = f"{target.id} ({target.command}) reads:\n{arguments.text}{end}"
        return Effect(EffectKind.RUN, shown, target.directory)

    async def run(self, arguments: WriteArguments, progress: OnOutput) -> ToolOutput:
        process, data = self._processes.find(arguments.id), arguments.text.encode(errors="replace")
        if not process.is_running:
            raise BrokenPipeError(f"{process.id} has ended: {_status(process)}.")
        written = await process.process.write(data, WRITE_TIMEOUT)
        if written < len(data):
            count = f"{written:,} of {len(data):,} bytes in {WRITE_TIMEOUT:.0f} s"
            return ToolOutput(f"[{process.id} accepted {count}; it does not read the rest.]", failed=True)
        if arguments.end:
            process.process.close_stdin()
        return ToolOutput(f"[{written:,} bytes written{', and its input was closed' * arguments.end}]")


class ProcessStop(_ProcessTool):
    name, arguments = "process_stop", StopArguments
    description = "Stops a background command, and returns its output since the last read."

    async def preview(self, arguments: StopArguments) -> Effect:
        return Effect(EffectKind.NOTHING, f"{self.name} {arguments.id}")

    async def run(self, arguments: StopArguments, progress: OnOutput) -> ToolOutput:
        process = self._processes.find(arguments.id)
        if process.is_running:
            await process.process.end()
        return report_output(process)


def process_tools(processes: BackgroundProcesses) -> tuple[ProcessList, ProcessRead, ProcessStop, ProcessWrite]:
    return ProcessList(processes), ProcessRead(processes), ProcessStop(processes), ProcessWrite(processes)


def report_output(process: BackgroundProcess, tail: int = 0) -> ToolOutput:
    """Return its unread output, or its last `tail` lines, followed by its status."""
    lost, output = 0, process.output
    if tail:
        text = output.last_lines(tail)
    else:
        text, lost = output.read_new(final=not process.is_running)
    if lost:
        text = f"[… {lost:,} bytes before this were discarded …]\n{text}"
    if text and not text.endswith("\n"):
        text += "\n"
    return ToolOutput(f"{text}[{process.id}: {_status(process)}]")


def _status(process: BackgroundProcess) -> str:
    if process.is_running:
        return f"running for {process.seconds:.0f} s"
    finished = process.finished()
    return finished if isinstance(finished, str) else describe_exit(finished)


def _line(process: BackgroundProcess) -> str:
    command = " ".join(process.command.split())
    command = command if len(command) <= SHOWN_COMMAND_CHARACTERS else f"{command[:SHOWN_COMMAND_CHARACTERS]}…"
    fresh = process.output.total - process.output.seen
    return f"{process.id}: {_status(process)}; {fresh:,} bytes of unread output; in {process.directory}: {command}"
