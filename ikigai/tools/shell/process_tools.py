"""The tools for what runs in the background: `process_list`, `process_read`, `process_write` and `process_stop`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch
from ikigai.tools.shell.background import Background, Processes
from ikigai.tools.shell.exit_report import ending

WAITING = 60
"""Seconds that a read may wait for output."""
WRITING = 5.0
"""Seconds in which a process has to take what is written to it."""
SHOWN = 200
"""Characters of a command in the list."""

Id = Annotated[str, Meta(min_length=1, description="The id of the process, such as p1.")]


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass


class ReadArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    tail: Annotated[
        int, Meta(ge=0, le=100_000, description="Instead of what is new, the last so many lines; 0 for what is new.")
    ] = 0
    wait: Annotated[
        int, Meta(ge=0, le=WAITING, description="Seconds to wait until there is new output, or the process ends.")
    ] = 0


class WriteArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    text: Annotated[str, Meta(description="What it reads; a line needs its line break.")] = ""
    end: Annotated[bool, Meta(description="Whether this is the end of its input.")] = False


class StopArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id


class _Tool:
    set = "shell"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes


class ProcessList(_Tool):
    name, arguments = "process_list", ListArguments
    description = "Lists the commands that run in the background, and those that have ended not long ago."

    async def look(self, arguments: ListArguments) -> Touch:
        return Touch(Kind.NOTHING, self.name)

    async def run(self, arguments: ListArguments, progress: Progress) -> Output:
        return Output("\n".join(map(_line, self._processes)) or "[no processes]")


class ProcessRead(_Tool):
    name, arguments = "process_read", ReadArguments
    description = "Reads what a background command wrote since it was read last, and says whether it is running."

    async def look(self, arguments: ReadArguments) -> Touch:
        return Touch(Kind.NOTHING, f"{self.name} {arguments.id}")

    async def run(self, arguments: ReadArguments, progress: Progress) -> Output:
        found = self._processes.find(arguments.id)
        await found.news(arguments.wait)
        return report(found, arguments.tail)


class ProcessWrite(_Tool):
    name, arguments = "process_write", WriteArguments
    description = "Writes to the standard input of a background command."

    async def look(self, arguments: WriteArguments) -> Touch:
        found = self._processes.find(arguments.id)
        end = "\n(and the end of its input)" if arguments.end else ""
        return Touch(Kind.RUN, f"{found.id} ({found.command}) reads:\n{arguments.text}{end}", found.directory)

    async def run(self, arguments: WriteArguments, progress: Progress) -> Output:
        found, data = self._processes.find(arguments.id), arguments.text.encode(errors="replace")
        if not found.running:
            raise BrokenPipeError(f"{found.id} has ended: {_status(found)}.")
        taken = await found.process.write(data, WRITING)
        if taken < len(data):
            said = f"{found.id} took {taken:,} of {len(data):,} bytes in {WRITING:.0f} s; it does not read the rest."
            return Output(f"[{said}]", failed=True)
        if arguments.end:
            found.process.close_stdin()
        return Output(f"[{taken:,} bytes written{', and its input ended' * arguments.end}]")


class ProcessStop(_Tool):
    name, arguments = "process_stop", StopArguments
    description = "Ends a background command, and returns what it wrote since it was read last."

    async def look(self, arguments: StopArguments) -> Touch:
        return Touch(Kind.NOTHING, f"{self.name} {arguments.id}")

    async def run(self, arguments: StopArguments, progress: Progress) -> Output:
        found = self._processes.find(arguments.id)
        if found.running:
            await found.process.end()
        return report(found)


def process_tools(processes: Processes) -> tuple[ProcessList, ProcessRead, ProcessStop, ProcessWrite]:
    return ProcessList(processes), ProcessRead(processes), ProcessStop(processes), ProcessWrite(processes)


def report(process: Background, tail: int = 0) -> Output:
    """What it wrote and nobody has read, or its last lines, and behind that how it is."""
    lost, output = 0, process.output
    if tail:
        text = output.last(tail)
    else:
        text, lost = output.news(final=not process.running)
    if lost:
        text = f"[… {lost:,} bytes before this are lost …]\n{text}"
    if text and not text.endswith("\n"):
        text += "\n"
    return Output(f"{text}[{process.id}: {_status(process)}]")


def _status(process: Background) -> str:
    if process.running:
        return f"running for {process.seconds:.0f} s"
    finished = process.finished()
    return finished if isinstance(finished, str) else ending(finished)


def _line(process: Background) -> str:
    command = " ".join(process.command.split())
    command = command if len(command) <= SHOWN else f"{command[:SHOWN]}…"
    fresh = process.output.total - process.output.seen
    return f"{process.id}: {_status(process)}; {fresh:,} bytes of output not read; in {process.directory}: {command}"
