"""Keep the connection to one MCP server: connect, list, call, and connect again after a pause.

The connection lives in the process of `host`. The SDK chooses the era of the protocol: it probes `server/discover` and
falls back to the handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ikigai import __version__
from ikigai.core.errors import ConfigError
from ikigai.system.proxies import client_options
from ikigai.tools.mcp.host_messages import (
    AnswerQuestion,
    CallProgress,
    CallResult,
    CallTool,
    GetPrompt,
    ReadResource,
    Report,
    ServerLaunch,
    ServerQuestion,
    ServerState,
)
from ikigai.tools.mcp.http_limits import LimitedTransport
from ikigai.tools.mcp.oauth import Login, LoginNeeded
from ikigai.tools.mcp.offers import list_prompts, list_resources, list_tools
from ikigai.tools.mcp.results import prompt_result, resource_result, tool_result
from ikigai.tools.mcp.stdio_transport import ServerEnded, StdioServer, connect
from ikigai.tools.mcp.valid_entries import ValidEntries

PAUSES_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
"""Pauses before a server is started again; the last one repeats."""
STABLE_SECONDS = 60.0
"""Seconds of a connection after which the pauses begin anew."""
CONNECT_SECONDS = 30.0
CLOSE_SECONDS = 10.0
"""Seconds that a lost connection has to say why it ended."""
MAX_ERROR_BYTES = 4096
"""Bytes at the end of a server's standard error that are kept."""
MAX_TEXT_CHARACTERS = 300


class ServerConnection:
    """The connection to one server, from its construction to `close`. `report` passes reports on."""

    def __init__(self, launch: ServerLaunch, report: Callable[[Report], None], login: bool = False) -> None:
        self.launch = launch
        self._report = report
        self._errors = bytearray()
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._is_unknown = False  # the server has answered the call that it does not know the session
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why the connection ended
        self._questions: dict[str, asyncio.Future[AnswerQuestion]] = {}
        self._numbers = itertools.count(1)
        self._login = Login(launch, report, login) if launch.url else None
        self._entries = ValidEntries(lambda: self._client.protocol_version if self._client else "")
        self._reload: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run(), name=launch.name)

    # ── the connection ──

    async def _run(self) -> None:
        tries = 0
        while True:
            self._state("starting")
            began = asyncio.get_running_loop().time()
            self._over = asyncio.get_running_loop().create_future()
            reason, is_login = await self._connect_once()
            self._over.set_result(reason)
            if asyncio.get_running_loop().time() - began > STABLE_SECONDS:
                tries = 0
            if is_login:
                self._state("login", reason)
                return
            pause = PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)]
            self._state("failed", reason, pause=pause)
            tries += 1
            await asyncio.sleep(pause)

    async def _connect_once(self) -> tuple[str, bool]:
        """Connect and stay connected; return why that ended, and whether a login is missing."""
        self._ready, self._lost, self._errors = asyncio.Event(), asyncio.Event(), bytearray()
        session = asyncio.create_task(self._hold(), name=f"{self.launch.name} session")
        ready = asyncio.create_task(self._ready.wait())
        try:
            limit = self.launch.startup_seconds
            await asyncio.wait({session, ready}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not session.done() and not self._ready.is_set():
                return self._with_errors(f"it did not answer within {limit:g} s"), False
            await asyncio.wait({session})
            error = None if session.cancelled() else session.exception()
            return self._describe(error), _find(error, LoginNeeded) is not None
        finally:
            self._client = None
            for task in (session, ready):
                task.cancel()
            await asyncio.gather(session, ready, return_exceptions=True)

    async def _hold(self) -> None:
        """Connect, report what the server offers, and wait until the connection is lost."""
        async with self._open() as client:
            self._client = client
            await self._load(client)
            self._ready.set()
            listening = asyncio.create_task(self._listen(client), name=f"{self.launch.name} changes")
            try:
                await self._lost.wait()
                if self._is_unknown:
                    raise ServerEnded("it has ended the session")
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncGenerator[Client]:
        if self.launch.url:
            timeout = httpx2.Timeout(CONNECT_SECONDS, read=self.launch.call_seconds)
            async with (
                httpx2.AsyncClient(
                    headers=self.launch.headers,
                    timeout=timeout,
                    transport=LimitedTransport(self._on_unknown_session, client_options(self.launch.url)["proxy"]),
                    auth=self._login.auth
                    if self._login and "authorization" not in _lower(self.launch.headers)
                    else None,
                ) as http,
                self._session(streamable_http_client(self.launch.url, http_client=http)) as client,
            ):
                yield client
            return
        server = StdioServer(self.launch.command, self.launch.directory, self.launch.environment, self._on_errors)
        watching = asyncio.create_task(self._watch(server))
        try:
            async with self._session(connect(server)) as client:
                yield client
        except Exception:
            if server.is_lost:
                raise _end_of(server) from None
            raise
        finally:
            watching.cancel()
        raise _end_of(server)

    def _session(self, transport: Any) -> Client:
        return Client(
            self._entries.around(transport),
            elicitation_callback=self._ask,
            message_handler=self._on_message,
            client_info=types.Implementation(name="ikigai", version=__version__),
            cache=None,
        )

    async def _watch(self, server: StdioServer) -> None:
        await server.ended.wait()
        self._lost.set()

    def _on_unknown_session(self) -> None:
        self._is_unknown = True

    def _on_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, *self._reload, return_exceptions=True)
        if self._login:
            self._login.close()

    # ── what it offers ──

    async def _load(self, client: Client, changed: bool = False) -> None:
        capabilities = client.server_capabilities
        tools = await list_tools(client) if capabilities.tools else ()
        resources = await list_resources(client) if capabilities.resources else ()
        prompts = await list_prompts(client) if capabilities.prompts else ()
        self._report(
            ServerState(
                server=self.launch.name,
                state="ready",
                protocol=client.protocol_version,
                title=_title(client),
                tools=tools,
                resources=resources,
                prompts=prompts,
                invalid=self._entries.left_out,
                changed=changed,
            )
        )

    async def _on_message(self, message: Any) -> None:
        """Load the lists anew when a server of the older protocol says that they have changed."""
        notification = getattr(message, "root", message)
        if isinstance(
            notification,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            self._load_again()

    async def _listen(self, client: Client) -> None:
        """Load the lists anew when a server of the newer protocol says that they have changed."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        while True:
            with contextlib.suppress(Exception):
                listening = client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                )
                async with listening as changes:
                    async for _ in changes:
                        self._load_again()
            await asyncio.sleep(PAUSES_SECONDS[-2])

    def _load_again(self) -> None:
        if (client := self._client) is None or not self._ready.is_set():
            return
        task = asyncio.create_task(self._load(client, changed=True), name=f"{self.launch.name} lists")
        self._reload.add(task)
        task.add_done_callback(self._on_loaded)

    def _on_loaded(self, task: asyncio.Task[None]) -> None:
        self._reload.discard(task)
        if not task.cancelled():
            task.exception()

    # ── calls ──

    async def carry_out(self, order: CallTool | ReadResource | GetPrompt) -> CallResult:
        """Return the result of an order; a failure is also a result. Cancellation tells the server."""
        if not await self._wait_until_ready():
            why = self._with_errors("it is not connected")
            return CallResult(order.id, f"The MCP server {self.launch.name} cannot be used: {why}.", failed=True)
        client, over, limit = self._client, self._over, self.launch.call_seconds
        assert client
        self._is_unknown = False
        try:
            async with asyncio.timeout(limit):
                return await self._send(client, order)
        except TimeoutError:
            text = f"The MCP server {self.launch.name} did not answer within {limit:g} s; the call was cancelled."
        except MCPError as error:
            text = f"The MCP server {self.launch.name} refused: {str(error)[:2000]}"
            if self._is_unknown and error.error.code != types.METHOD_NOT_FOUND:
                self._lost.set()  # it was started again: only a new connection has a session that it knows
            is_over = self._lost.is_set() or error.error.code == types.CONNECTION_CLOSED
            if is_over and (reason := await self._why_over(over)):
                text = f"The connection to the MCP server {self.launch.name} ended: {reason}."
        except Exception as error:
            if self.launch.url and _find(error, LoginNeeded):
                self._lost.set()
            text = f"The MCP server {self.launch.name} failed: {self._describe(error)}."
        return CallResult(order.id, text, failed=True)

    async def _why_over(self, over: asyncio.Future[str]) -> str:
        """Return why a connection ended; "" if it has not."""
        await asyncio.wait({over}, timeout=CLOSE_SECONDS)
        return over.result() if over.done() else ""

    async def _wait_until_ready(self) -> bool:
        """Wait until the server is connected, as long as it may take to start; return False if it is not."""
        deadline = asyncio.get_running_loop().time() + self.launch.startup_seconds
        while not (self._client and self._ready.is_set()):
            rest = deadline - asyncio.get_running_loop().time()
            if rest <= 0 or self._task.done():
                return False
            await asyncio.sleep(min(rest, 0.05))
        return True

    async def _send(self, client: Client, order: CallTool | ReadResource | GetPrompt) -> CallResult:
        match order:
            case CallTool(id, _, tool, arguments):

                async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                    far = f"{progress:g}/{total:g}" if total else f"{progress:g}"
                    self._report(CallProgress(id, f"{message or ''} {far}".strip()[:MAX_TEXT_CHARACTERS] + "\n"))

                result = await client.call_tool(tool, json.loads(arguments or "{}"), progress_callback=on_progress)
                return tool_result(id, result)
            case ReadResource(id, _, uri):
                return resource_result(id, await client.read_resource(uri))
            case GetPrompt(id, _, prompt, arguments):
                return prompt_result(id, await client.get_prompt(prompt, arguments))

    # ── questions to the user ──

    async def _ask(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        id = f"{self.launch.name}-{next(self._numbers)}"
        schema, url = getattr(params, "requested_schema", None), getattr(params, "url", None)
        answer = self._questions[id] = asyncio.get_running_loop().create_future()
        text = str(params.message)[:2000]
        form = json.dumps(schema, ensure_ascii=False) if schema else ""
        self._report(ServerQuestion(id, self.launch.name, text, form, str(url) if url else ""))
        try:
            given = await answer
        finally:
            self._questions.pop(id, None)
        action: Any = given.action
        return types.ElicitResult(action=action, content=given.content if action == "accept" and schema else None)

    def answer(self, answer: AnswerQuestion) -> None:
        """Take the answer to a question of this server, if it is one."""
        waiting = self._questions.get(answer.id)
        if waiting and not waiting.done():
            waiting.set_result(answer)

    def complete_login(self, address: str) -> None:
        if self._login:
            self._login.complete(address)

    # ── reports ──

    def _state(self, state: str, detail: str = "", pause: float = 0) -> None:
        self._report(ServerState(server=self.launch.name, state=state, detail=detail, pause=pause))

    def _describe(self, error: BaseException | None) -> str:
        """Return the reason of a failure, without a period."""
        if error is None:
            return self._with_errors("the connection ended")
        leaf = _find(error, LoginNeeded) or _find(error, ServerEnded) or _leaf(error)
        if isinstance(leaf, ConfigError):
            return f"{leaf.what} {leaf.remedy}".rstrip(".")
        if isinstance(leaf, httpx2.HTTPStatusError):
            return f"it answered {leaf.response.status_code} {leaf.response.reason_phrase}".rstrip()
        if isinstance(leaf, httpx2.HTTPError):
            return f"{self.launch.url} cannot be reached ({str(leaf) or type(leaf).__name__})"[:MAX_TEXT_CHARACTERS]
        text = " ".join(str(leaf).split()).rstrip(".")[:MAX_TEXT_CHARACTERS] or type(leaf).__name__
        return text if isinstance(leaf, ServerEnded) and leaf.was_killed else self._with_errors(text)

    def _with_errors(self, reason: str) -> str:
        """Return the reason with the last line that the server wrote to its standard error."""
        lines = [line for line in bytes(self._errors).decode(errors="replace").splitlines() if line.strip()]
        return f"{reason}: {lines[-1].strip()[:MAX_TEXT_CHARACTERS].rstrip('.')}" if lines else reason


def _end_of(server: StdioServer) -> ServerEnded:
    was_killed = server.status in (-signal.SIGKILL, -signal.SIGTERM)
    return ServerEnded(server.reason or _describe_exit(server.status), was_killed)


def _describe_exit(status: int | None) -> str:
    if status is None:
        return "it closed its output"
    return f"it was ended by {signal.Signals(-status).name}" if status < 0 else f"it exited with status {status}"


def _title(client: Client) -> str:
    info = client.server_info
    return f"{info.title or info.name} {info.version}".strip()[:100] if info else ""


def _lower(headers: dict[str, str]) -> set[str]:
    return {name.lower() for name in headers}


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _find(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    """Return the first error of this kind among an error, its group and its causes, or None."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, kind):
            return each
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        if each:
            waiting += [each.__cause__, each.__context__]
    return None
