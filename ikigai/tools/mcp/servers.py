"""Manage the MCP servers of one run: their process, their states, and calls to them.

Nothing here waits for a server but a call to it. The process (`host`) is started once, under the supervisor of
commands, which ends it and all servers with ikigai, however ikigai ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from ikigai.core.events.record import Record
from ikigai.core.ports import Ask
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.mcp_tools import McpDefinition, McpOffer, choose_offer, clean_definition
from ikigai.tools.mcp import known_definitions
from ikigai.tools.mcp.host_messages import (
    AnswerQuestion,
    CallProgress,
    CallResult,
    CallTool,
    CancelCall,
    CompleteLogin,
    GetPrompt,
    LineSplitter,
    ListedPrompt,
    ListedResource,
    LoginPage,
    Order,
    ReadResource,
    Report,
    ServerLaunch,
    ServerQuestion,
    ServerState,
    StartServer,
    StopServer,
    encode,
    report_decoder,
)
from ikigai.tools.shell.supervised_process import SupervisedProcess

HOST_MODULE = "ikigai.tools.mcp.host"
HOST_PAUSES_SECONDS = (1.0, 5.0, 30.0)
"""Pauses before the process is started again; it is not started a further time."""
MAX_ERROR_BYTES = 4096
MAX_PROBLEMS_TOLD = 3

ServerOrder: TypeAlias = CallTool | ReadResource | GetPrompt


class McpServer(Record, frozen=True):
    """A configured server: its launch, and where the configuration names it.

    `approved` returns True for a tool that the user's configuration lets run without a question. `project` is True
    where a project or a plugin names it.
    """

    launch: ServerLaunch
    place: str = ""
    approved: Callable[[str], bool] = lambda tool: False
    project: bool = False


class McpStatus(Record, frozen=True):
    """The state of a server: "starting", "ready", "failed" or "login", the reason, and what it offers.

    `problems` are sentences about what it has and cannot be offered.
    """

    name: str
    state: str = "starting"
    detail: str = ""
    protocol: str = ""
    title: str = ""
    definitions: tuple[McpDefinition, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()
    problems: tuple[str, ...] = ()


class _RunningCall:
    """A call that runs: its future, the sink of its progress, and the function that asks the user."""

    def __init__(self, order: ServerOrder, progress: Callable[[str], None], ask: Ask | None) -> None:
        self.order, self.progress, self.ask = order, progress, ask
        self.result: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()


class McpServers:
    """The servers of one run. `cache` is the file of the definitions known from earlier runs.

    `on_notice` gets sentences for the user, `on_login` the page of a login. `environment` is the environment of the
    process.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        environment: Mapping[str, str],
        cache: Path,
        on_notice: Callable[[str], None] = lambda text: None,
        on_login: Callable[[LoginPage], None] = lambda page: None,
    ) -> None:
        self.servers = dict(servers)
        self.on_notice, self.on_login = on_notice, on_login
        self._environment, self._cache = environment, cache
        self.statuses = {name: McpStatus(name) for name in self.servers}
        known = known_definitions.read(cache)
        self._known = {name: known_definitions.of_launch(known, server.launch) for name, server in self.servers.items()}
        self._process: SupervisedProcess | None = None
        self._lines, self._errors = LineSplitter(), bytearray()
        self._calls: dict[str, _RunningCall] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._failures = dict[str, str]()  # the states told since the servers were ready
        self._told = dict[str, tuple[str, ...]]()  # the problems of each server
        self.changes = 0
        """Number of changes of the states so far."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._outgoing = asyncio.Queue[bytes]()
        self._starts, self._closed = 0, False

    # ── what turns are offered ──

    def definitions(self, name: str) -> tuple[McpDefinition, ...] | None:
        """Return the definitions of a server, from an earlier run until it is ready; None for unknown ones."""
        status = self.statuses[name]
        return status.definitions if status.state == "ready" else self._known[name]

    def offer(self, before: McpOffer, max_tokens: int) -> McpOffer:
        """Return the tools of a turn that begins, where the turn before was offered `before`."""
        found = list[McpDefinition]()
        for name in self.servers:
            definitions = self.definitions(name)
            if definitions is None:
                definitions = tuple(each for each in before.definitions if each.server == name)
            found += definitions
        return choose_offer(self.servers, found, before, max_tokens)

    def find(self, name: str) -> McpDefinition | None:
        """Return the definition that models call by this name."""
        return next((each for each in self.all_definitions() if each.name == name), None)

    def all_definitions(self) -> Iterable[McpDefinition]:
        return itertools.chain.from_iterable(self.definitions(name) or () for name in self.servers)

    async def wait_known(self) -> None:
        """Wait until each server is ready or has failed, unless its definitions are known; no longer than its start may
        take.
        """
        self.start()
        waiting = [name for name in self.servers if self._known[name] is None]
        limit = max((self.servers[name].launch.startup_seconds for name in waiting), default=0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit + known_definitions.HOST_START_SECONDS if limit else 0):
                while any(self.statuses[name].state == "starting" for name in waiting):
                    await self._wait_for_change()

    async def wait_settled(self, name: str) -> McpStatus:
        """Wait until a server is ready or has failed, and return its state."""
        self.start()
        while self.statuses[name].state == "starting" and not self._closed:
            await self._wait_for_change()
        return self.statuses[name]

    async def wait_ready(self, name: str) -> McpStatus:
        """Wait until a server is ready or wants a login, no longer than its start may take; return its state."""
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.servers[name].launch.startup_seconds):
                while self._process and self.statuses[name].state not in ("ready", "login"):
                    await self._wait_for_change()
        return self.statuses[name]

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # ── the process ──

    def start(self, login: str = "") -> None:
        """Start the process and connect to all servers, once. `login` names the server that the user logs in to."""
        if self._process is not None or self._closed or not self.servers:
            return
        self._lines, self._errors = LineSplitter(), bytearray()
        package = str(Path(__file__).parents[3])
        environment = {**self._environment, "PYTHONPATH": package, "PYTHONSAFEPATH": "1"}
        try:
            self._process = SupervisedProcess(
                (sys.executable, "-m", HOST_MODULE),
                str(Path.home()) if Path.home().is_dir() else "/",
                environment,
                self._on_output,
                on_errors=self._on_errors,
                stdin=True,
            )
        except (OSError, ValueError) as error:
            self._fail_all(f"the process for MCP servers cannot be started: {error}".rstrip("."))
            return
        self._outgoing = asyncio.Queue()
        self._track(asyncio.create_task(self._write(self._process, self._outgoing), name="mcp orders"))
        self._process.ended.add_done_callback(self._on_end)
        for server in self.servers.values():
            self._send(StartServer(server.launch, login=server.launch.name == login))

    def keep_only(self, name: str) -> None:
        """Leave all servers but one out, before the process is started."""
        self.servers = {name: self.servers[name]}
        self.statuses = {name: self.statuses[name]}

    def complete_login(self, name: str, address: str) -> None:
        """Pass on the address to which the browser of the user was sent."""
        self._send(CompleteLogin(name, address))

    def restart(self, name: str) -> None:
        """Connect to a server anew."""
        self.start()
        self._failures.pop(name, None)
        self._set(McpStatus(name))
        self._send(StopServer(name))
        self._send(StartServer(self.servers[name].launch))

    async def close(self) -> None:
        """End the process and all servers."""
        self._closed = True
        self._changed.set()
        for task in tuple(self._tasks):
            task.cancel()
        if self._process and not self._process.ended.done():
            await self._process.end()

    async def _write(self, process: SupervisedProcess, outgoing: asyncio.Queue[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            while True:
                await process.write(await outgoing.get(), None)

    def _send(self, order: Order) -> None:
        self._outgoing.put_nowait(encode(order))

    def _on_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]

    def _on_end(self, _: object) -> None:
        self._process = None
        if self._closed:
            return
        lines = bytes(self._errors).decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self._fail_all(f"the process for MCP servers ended{f': {clean_line(last)[:300]}' if last else ''}")
        if self._starts < len(HOST_PAUSES_SECONDS):
            pause = HOST_PAUSES_SECONDS[self._starts]
            self._starts += 1
            self._track(asyncio.create_task(self._start_again(pause), name="mcp start"))

    async def _start_again(self, pause: float) -> None:
        await asyncio.sleep(pause)
        self.start()

    def _fail_all(self, reason: str) -> None:
        for name in self.servers:
            self._set(McpStatus(name, "failed", reason))
        for call in tuple(self._calls.values()):
            if not call.result.done():
                call.result.set_result(CallResult(call.order.id, f"The call failed: {reason}.", failed=True))

    def _track(self, task: asyncio.Task[object]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── reports ──

    def _on_output(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._on_report(report_decoder.decode(line))
        except (msgspec.DecodeError, ValueError):
            if self._process:  # it is of no use any more
                self._track(asyncio.create_task(self._process.end(at_once=True), name="mcp end"))

    def _on_report(self, report: Report) -> None:
        match report:
            case ServerState(server=name) if name in self.servers:
                self._on_state(report)
            case CallProgress(id, text):
                if call := self._calls.get(id):
                    call.progress(text)
            case CallResult(id):
                if (call := self._calls.get(id)) and not call.result.done():
                    call.result.set_result(report)
            case ServerQuestion():
                self._track(asyncio.create_task(self._answer(report), name="mcp question"))
            case LoginPage():
                self.on_login(report)
            case _:
                pass

    def _on_state(self, report: ServerState) -> None:
        name, before = report.server, self.statuses[report.server]
        definitions, problems = _clean(report)
        status = McpStatus(
            name,
            report.state,
            clean_line(report.detail),
            report.protocol,
            clean_line(report.title),
            definitions,
            report.resources,
            report.prompts,
            problems,
        )
        self._set(status)
        if report.state == "ready":
            self._tell_problems(status)
            if report.changed and definitions != before.definitions:
                self.on_notice(f"The MCP server {name} changed its tools. They are used from the next turn on.")
            if definitions != self._known[name]:
                self._known[name] = definitions
                known_definitions.store(self._cache, self.servers[name].launch, definitions)
            self._failures.pop(name, None)
        elif report.state in ("failed", "login") and self._failures.get(name) != report.state:
            self._failures[name] = report.state
            self.on_notice(describe_failure(status))

    def _tell_problems(self, status: McpStatus) -> None:
        """Tell what a server has and cannot be offered; again only once that has changed."""
        if self._told.get(status.name, ()) == status.problems:
            return
        self._told[status.name] = status.problems
        for problem in status.problems[:MAX_PROBLEMS_TOLD]:
            self.on_notice(problem)
        if (more := len(status.problems) - MAX_PROBLEMS_TOLD) > 0:
            self.on_notice(f"{more} more definitions of {status.name} are not offered: /mcp {status.name} lists them.")

    def _set(self, status: McpStatus) -> None:
        self.statuses[status.name] = status
        self.changes += 1
        self._changed.set()

    # ── calls ──

    async def carry_out(
        self, order: ServerOrder, progress: Callable[[str], None] = lambda text: None, ask: Ask | None = None
    ) -> CallResult:
        """Return the result of an order; a failure is also a result. Cancellation cancels it at the server."""
        self.start()
        call = self._calls[order.id] = _RunningCall(order, progress, ask)
        try:
            if self._process is None:
                return CallResult(order.id, describe_failure(self.statuses[order.server]), failed=True)
            self._send(order)
            return await call.result
        except asyncio.CancelledError:
            self._send(CancelCall(order.id))
            raise
        finally:
            self._calls.pop(order.id, None)

    def next_id(self) -> str:
        return f"{os.getpid()}-{next(self._numbers)}"

    async def _answer(self, question: ServerQuestion) -> None:
        """Ask the user what a server wants to know, at the call that is under way there."""
        asking = [call for call in self._calls.values() if call.order.server == question.server and call.ask]
        answer = AnswerQuestion(question.id, "cancel")
        if asking and (ask := asking[-1].ask):
            from ikigai.tools.mcp.elicitation import ask_user

            answer = await ask_user(ask, question)
        self._send(answer)


def _clean(report: ServerState) -> tuple[tuple[McpDefinition, ...], tuple[str, ...]]:
    """Return the definitions of a server's tools, and sentences about what cannot be offered."""
    found, problems = dict[str, McpDefinition](), list[str]()
    for each in report.invalid:
        name, why = clean_line(each.name)[:80], clean_line(each.why)
        problems.append(f"The {each.kind} {name!r} of {report.server} is not offered: {why}.")
    for tool in report.tools:
        try:
            definition = clean_definition(report.server, tool.name, tool.description, tool.schema, found)
            found[definition.name] = definition
        except ValueError as error:
            problems.append(f"The tool {clean_line(tool.name)[:80]!r} of {report.server} is not offered: {error}.")
    return tuple(sorted(found.values(), key=lambda each: each.name)), tuple(problems)


def describe_failure(status: McpStatus) -> str:
    """Return the sentence about a server that is not ready."""
    if status.state == "login":
        return f"The MCP server {status.name} wants a login. Run: ikigai mcp login {status.name}"
    return f"The MCP server {status.name} failed: {status.detail or 'it has not started'}."
