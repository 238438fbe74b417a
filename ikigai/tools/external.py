"""External tools: executables that say with `--schema` what they are, take arguments as JSON, and print their answer.

`--schema` prints one JSON object {name, description, input_schema}; `parameters` is taken for `input_schema`. A call
gets its arguments as one JSON object on standard input; exit status 0 makes standard output the result, any other a
failure. They run as commands do: in a session of their own, without secrets in their environment, and never unasked.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ikigai.core.record import Record
from ikigai.core.sanitize import clean_line, storable
from ikigai.tools.base import Kind, Output, Progress, Touch
from ikigai.tools.shell.exit_report import Finished, ending, told
from ikigai.tools.shell.run import TIMEOUT, Limits, run
from ikigai.tools.shell.supervised_process import Wrap
from ikigai.tools.tool_files import tool_files

SET = "external"
WITHIN = 2.0
"""Seconds that asking all of them for their schemas may take."""
LARGEST = 64 * 1024
"""Bytes of a schema."""
AT_ONCE = 8
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What every vendor takes as the name of a tool."""


class Folder(Record, frozen=True):
    """Where executables are. `refusal` says why one may not be run, "" if it may; `wrap` puts a sandbox around them,
    `limits` are those of what they write.
    """

    path: Path
    refusal: Callable[[Path], str] = lambda path: ""
    wrap: Wrap | None = None
    limits: Limits = Limits()


class Described(msgspec.Struct):
    """What `--schema` says; other keys are passed over."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None


class Broken(Exception):
    """Why an executable is no tool: the second half of a sentence."""


class External:
    """One executable: `listed` in its folder, and its real `path`. `directory` is where it runs, `schema` the JSON
    text of its arguments' schema.
    """

    set, arguments = SET, dict[str, Any]

    def __init__(
        self,
        listed: Path,
        path: Path,
        described: Described,
        directory: Path,
        environment: Mapping[str, str],
        folder: Folder,
    ) -> None:
        asked = described.input_schema or described.parameters or {}
        self.path, self.name, self._listed = path, described.name, listed
        self.description = storable(described.description).strip() or f"The user's own tool {described.name}."
        self.schema = msgspec.json.encode({"type": "object", "properties": {}, **asked}).decode()
        self._required = [name for name in asked.get("required", ()) if isinstance(name, str)]
        self._directory, self._environment, self._folder = directory, environment, folder

    async def look(self, arguments: dict[str, Any]) -> Touch:
        if missing := [name for name in self._required if name not in arguments]:
            raise ValueError(f"{', '.join(missing)} missing. Its schema: {self.schema}")
        await self._check()  # what is refused anyway is not asked about
        # Its path makes a standing approval one for this executable.
        shown = f"{self.path} {_encoded(arguments).decode()}"
        return Touch(Kind.RUN, shown, str(self._directory), (str(self.path),))

    async def _check(self) -> None:
        """Raise PermissionError where the file may not be run any more."""
        if why := await asyncio.to_thread(self._refusal):
            raise PermissionError(f"nothing was run: {why}.")

    def _refusal(self) -> str:
        if os.path.realpath(self._listed) != str(self.path):
            return "its file is another one now"
        return self._folder.refusal(self._listed)

    async def run(self, arguments: dict[str, Any], progress: Progress) -> Output:
        await self._check()
        done = await run(
            (str(self.path),),
            self._directory,
            self._environment,
            TIMEOUT,
            progress,
            self._folder.limits,
            given=_encoded(arguments) + b"\n",
            apart=True,
            wrap=self._folder.wrap,
        )
        if done.status == 0 and not done.timed_out:
            return Output(done.text)
        said = "\n".join(part.rstrip("\n") for part in (done.text, done.errors) if part)
        return Output(told(msgspec.structs.replace(done, text=said)), failed=True)


async def discovered(
    folders: Iterable[Folder], directory: Path, environment: Mapping[str, str], taken: Collection[str]
) -> tuple[list[External], list[str]]:
    """The tools of these folders, the first of a name, and sentences about what is none. Takes at most `WITHIN`.

    `taken` are names that ikigai uses itself. Raises nothing; cancelled, it ends what it started.
    """
    tools, problems = dict[str, External](), list[str]()
    asked = list[tuple[Path, asyncio.Task[External]]]()
    turn = asyncio.Semaphore(AT_ONCE)
    for folder in folders:
        paths, more = tool_files(folder.path)
        problems += more
        for path in paths:
            asking = _asked(path, folder, directory, environment, turn)
            asked.append((path, asyncio.create_task(asking, name=f"schema of {path.name}")))
    tasks = [task for _, task in asked]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=WITHIN)
    finally:
        for task in tasks:  # ending a stubborn one takes longer than anybody has to wait
            _LEAVING.add(task)
            task.add_done_callback(_left)
            task.cancel()
    for path, task in asked:
        try:
            tool = _result(task)
            if tool.name in taken:
                raise Broken(f"ikigai has a tool {tool.name} itself")
            if tool.name in tools:
                raise Broken(f"{tools[tool.name].path} has its name, {tool.name}, and comes first; rename one")
            tools[tool.name] = tool
        except Broken as broken:
            problems.append(f"{clean_line(str(path))} is not offered as a tool: {clean_line(str(broken))}.")
    return list(tools.values()), problems


_LEAVING: set[asyncio.Task[External]] = set()
"""Those that are being ended: the event loop itself keeps tasks only weakly."""


def _left(task: asyncio.Task[External]) -> None:
    _LEAVING.discard(task)
    if not task.cancelled():
        task.exception()


def _result(task: asyncio.Task[External]) -> External:
    """Raises Broken."""
    if not task.done() or task.cancelled():
        raise Broken(f"it did not say within {WITHIN:g} s what it is")
    return task.result()


async def _asked(
    path: Path, folder: Folder, directory: Path, environment: Mapping[str, str], turn: asyncio.Semaphore
) -> External:
    """Raises Broken."""
    if not path.is_file():
        raise Broken("it is no file")
    if not os.access(path, os.X_OK):
        raise Broken("it is not executable")
    real = Path(os.path.realpath(path))
    async with turn:
        if why := await asyncio.to_thread(folder.refusal, path):
            raise Broken(why)
        try:
            done = await run(
                (str(real), "--schema"),
                directory,
                environment,
                WITHIN,
                limits=Limits(LARGEST, 0),
                apart=True,
                wrap=folder.wrap,
            )
        except (OSError, ValueError) as error:
            raise Broken(f"it cannot be started ({str(error).rstrip('.')})") from None
    return External(path, real, _described(done), directory, environment, folder)


def _described(done: Finished) -> Described:
    """What it said of itself. Raises Broken."""
    if done.timed_out:
        raise Broken(f"it did not say within {WITHIN:g} s what it is")
    if done.status:
        said = done.errors.strip().rpartition("\n")[2][:200]
        raise Broken(f"with --schema it ended badly, {ending(done)}" + (f": {said}" if said else ""))
    if len(done.text.encode()) > LARGEST or done.cut:
        raise Broken(f"its schema is longer than {LARGEST // 1024} KiB")
    try:
        described = msgspec.json.decode(done.text, type=Described)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Broken(f"what it prints with --schema is not as it should be ({error})") from None
    if not NAME.fullmatch(described.name):
        raise Broken(f"{described.name[:80]!r} is no name for a tool (letters, digits, _ and -, at most 64)")
    asked = described.input_schema or described.parameters or {}
    fields, required = asked.get("properties", {}), asked.get("required", [])
    if asked.get("type", "object") != "object" or not isinstance(fields, dict) or not isinstance(required, list):
        raise Broken("the schema of its arguments is not that of an object")
    return described


def _encoded(arguments: dict[str, Any]) -> bytes:
    return msgspec.json.encode(arguments)
