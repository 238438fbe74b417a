"""External tools: executables that describe themselves with `--schema` and take JSON arguments.

`--schema` prints one JSON object {name, description, input_schema}; `parameters` is an alias of `input_schema`. A call
gets its arguments as one JSON object on standard input. With exit status 0 standard output is the result; any other
status is a failure. External tools run as commands do: in a session of their own, without secrets in their environment,
and only with approval.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import clean_line, storable
from ikigai.core.tools.tool_selection import EXTERNAL_SET
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.shell.exit_report import FinishedCommand, describe_exit, text_with_exit
from ikigai.tools.shell.run_command import COMMAND_TIMEOUT, OutputLimits, run
from ikigai.tools.shell.supervised_process import Wrap
from ikigai.tools.tool_files import tool_files

DESCRIBE_TIMEOUT = 2.0
"""Seconds in which all of them have to print their schemas."""
MAX_SCHEMA_BYTES = 64 * 1024
"""Maximum bytes of a schema."""
MAX_PARALLEL_TOOLS = 8
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Names of tools that every vendor accepts."""


class ToolFolder(Record, frozen=True):
    """Folder of executables.

    `refusal` returns why a file may not be run, "" if it may. `wrap` puts a sandbox around them. `limits` are the
    limits of their output.
    """

    path: Path
    refusal: Callable[[Path], str] = lambda path: ""
    wrap: Wrap | None = None
    limits: OutputLimits = OutputLimits()


class ToolDescription(msgspec.Struct):
    """Output of `--schema`; other keys are ignored."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None


class NotATool(Exception):
    """The executable is not a tool, for this reason: the second half of a sentence."""


class ExternalTool:
    """Tool that runs an executable.

    `listed` is its path in its folder, `path` the real one. `directory` is where it runs. `schema` is the JSON text of
    the schema of its arguments.
    """

    set, arguments = EXTERNAL_SET, dict[str, Any]

    def __init__(
        self,
        listed: Path,
        path: Path,
        described: ToolDescription,
        directory: Path,
        environment: Mapping[str, str],
        folder: ToolFolder,
    ) -> None:
        schema = described.input_schema or described.parameters or {}
        self.path, self.name, self.listed = path, described.name, listed
        self.description = storable(described.description).strip() or f"The user's own tool {described.name}."
        self.schema = msgspec.json.encode({"type": "object", "properties": {}, **schema}).decode()
        self._required = [name for name in schema.get("required", ()) if isinstance(name, str)]
        self._directory, self._environment, self._folder = directory, environment, folder

    async def preview(self, arguments: dict[str, Any]) -> Effect:
        if missing := [name for name in self._required if name not in arguments]:
            raise ValueError(f"{', '.join(missing)} missing. Its schema: {self.schema}")
        await self._check()  # a refused file needs no question
        # With the path a standing approval holds for this executable alone.
        shown = f"{self.path} {_encode(arguments).decode()}"
        return Effect(EffectKind.RUN, shown, str(self._directory), (str(self.path),))

    async def _check(self) -> None:
        """Raise PermissionError if the file may no longer be run."""
        if why := await asyncio.to_thread(self._refusal):
            raise PermissionError(f"nothing was run: {why}.")

    def _refusal(self) -> str:
        if os.path.realpath(self.listed) != str(self.path):
            return "its file has been replaced"
        return self._folder.refusal(self.listed)

    async def run(self, arguments: dict[str, Any], progress: OnOutput) -> ToolOutput:
        await self._check()
        finished = await run(
            (str(self.path),),
            self._directory,
            self._environment,
            COMMAND_TIMEOUT,
            progress,
            self._folder.limits,
            stdin=_encode(arguments) + b"\n",
            separate_stderr=True,
            wrap=self._folder.wrap,
        )
        if finished.status == 0 and not finished.timed_out:
            return ToolOutput(finished.text)
        text = "\n".join(part.rstrip("\n") for part in (finished.text, finished.errors) if part)
        return ToolOutput(text_with_exit(msgspec.structs.replace(finished, text=text)), failed=True)


async def discover_tools(
    folders: Iterable[ToolFolder], directory: Path, environment: Mapping[str, str], reserved_names: Collection[str]
) -> tuple[list[ExternalTool], list[str]]:
    """Return the tools of these folders, the first of each name, and sentences about files that are not tools.

    It takes at most `DESCRIBE_TIMEOUT` seconds. `reserved_names` are names that ikigai uses itself. Raise nothing. When
    cancelled, end every started process.
    """
    tools, problems = dict[str, ExternalTool](), list[str]()
    described = list[tuple[Path, asyncio.Task[ExternalTool]]]()
    slots = asyncio.Semaphore(MAX_PARALLEL_TOOLS)
    for folder in folders:
        paths, more = tool_files(folder.path)
        problems += more
        for path in paths:
            task = _describe(path, folder, directory, environment, slots)
            described.append((path, asyncio.create_task(task, name=f"schema of {path.name}")))
    tasks = [task for _, task in described]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=DESCRIBE_TIMEOUT)
    finally:
        for task in tasks:  # ending a stubborn one takes longer than the caller should wait
            _ENDING.add(task)
            task.add_done_callback(_on_task_ended)
            task.cancel()
    for path, task in described:
        try:
            tool = _result(task)
            if tool.name in reserved_names:
                raise NotATool(f"ikigai has a built-in tool {tool.name}")
            if tool.name in tools:
                raise NotATool(f"{tools[tool.name].path} has the same name, {tool.name}, and comes first; rename one")
            tools[tool.name] = tool
        except NotATool as problem:
            problems.append(f"{clean_line(str(path))} is not offered as a tool: {clean_line(str(problem))}.")
    return list(tools.values()), problems


_ENDING: set[asyncio.Task[ExternalTool]] = set()
"""Tasks that are being ended: the event loop itself has only weak references to tasks."""


def _on_task_ended(task: asyncio.Task[ExternalTool]) -> None:
    _ENDING.discard(task)
    if not task.cancelled():
        task.exception()


def _result(task: asyncio.Task[ExternalTool]) -> ExternalTool:
    """Return the tool that the task has described. Raise NotATool if none exists."""
    if not task.done() or task.cancelled():
        raise NotATool(f"it did not describe itself within {DESCRIBE_TIMEOUT:g} s")
    return task.result()


async def _describe(
    path: Path, folder: ToolFolder, directory: Path, environment: Mapping[str, str], slots: asyncio.Semaphore
) -> ExternalTool:
    """Run the executable with `--schema` and return the tool. Raise NotATool if it is none."""
    if not path.is_file():
        raise NotATool("it is not a file")
    if not os.access(path, os.X_OK):
        raise NotATool("it is not executable")
    real = Path(os.path.realpath(path))
    async with slots:
        if why := await asyncio.to_thread(folder.refusal, path):
            raise NotATool(why)
        try:
            finished = await run(
                (str(real), "--schema"),
                directory,
                environment,
                DESCRIBE_TIMEOUT,
                limits=OutputLimits(MAX_SCHEMA_BYTES, 0),
                separate_stderr=True,
                wrap=folder.wrap,
            )
        except (OSError, ValueError) as error:
            raise NotATool(f"it cannot be started ({str(error).rstrip('.')})") from None
    return ExternalTool(path, real, _parse_description(finished), directory, environment, folder)


def _parse_description(finished: FinishedCommand) -> ToolDescription:
    """Return the description that the executable has printed. Raise NotATool if it is invalid."""
    if finished.timed_out:
        raise NotATool(f"it did not describe itself within {DESCRIBE_TIMEOUT:g} s")
    if finished.status:
        why = finished.errors.strip().rpartition("\n")[2][:200]
        raise NotATool(f"with --schema it failed: {describe_exit(finished)}" + (f": {why}" if why else ""))
    if len(finished.text.encode()) > MAX_SCHEMA_BYTES or finished.cut:
        raise NotATool(f"its schema is longer than {MAX_SCHEMA_BYTES // 1024} KiB")
    try:
        described = msgspec.json.decode(finished.text, type=ToolDescription)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotATool(f"its output for --schema is not valid ({error})") from None
    if not TOOL_NAME.fullmatch(described.name):
        raise NotATool(f"{described.name[:80]!r} is not a valid tool name (letters, digits, _ and -, at most 64)")
    schema = described.input_schema or described.parameters or {}
    fields, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(fields, dict) or not isinstance(required, list):
        raise NotATool("the schema of its arguments is not an object schema")
    return described


def _encode(arguments: dict[str, Any]) -> bytes:
    return msgspec.json.encode(arguments)
