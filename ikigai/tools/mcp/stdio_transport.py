"""Transport to an MCP server that is a command: JSON lines over its standard input and output.

The SDK's own transport ends the process group of the server. This one runs the server under the supervisor of
commands, which ends every process that it started, and bounds the messages.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from ikigai.core.text.sanitize import storable
from ikigai.tools.mcp.host_messages import MAX_MESSAGE_BYTES, LineSplitter
from ikigai.tools.shell.supervised_process import SupervisedProcess

MAX_WAITING_MESSAGES = 10_000
"""Messages of a server that wait to be handled; a server that sends more, faster, is ended."""


class ServerEnded(Exception):
    """The connection to a server ended, for this reason: a sentence without its period.

    `was_killed` means that something else ended it: what it wrote last does not say why.
    """

    def __init__(self, reason: str, was_killed: bool = False) -> None:
        super().__init__(reason)
        self.was_killed = was_killed


class StdioServer:
    """A server that runs as a command. `on_errors` gets its standard error; `ended` is set when it can answer no more.

    Raise OSError or ValueError, in words, where it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        on_errors: Callable[[bytes], None],
    ) -> None:
        self.ended = anyio.Event()
        self.reason = ""
        self.is_lost = False  # it ended by itself
        self._stopping = False
        self._lines = LineSplitter(MAX_MESSAGE_BYTES)
        self._to_session, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](
            MAX_WAITING_MESSAGES
        )
        self._process = SupervisedProcess(
            tuple(command), directory, environment, self._on_output, on_errors=on_errors, stdin=True
        )
        self._process.ended.add_done_callback(self._on_end)

    @property
    def status(self) -> int | None:
        """The exit status of its command; None while it runs."""
        ended = self._process.ended
        return ended.result().status if ended.done() and not ended.cancelled() and not ended.exception() else None

    def _on_output(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                if not line.lstrip().startswith(b"{"):
                    continue  # many servers also print words there
                with contextlib.suppress(ValueError):
                    self._to_session.send_nowait(SessionMessage(_read_message(line)))
        except ValueError as error:
            self._give_up(f"it sent what is no message: {error}")
        except anyio.WouldBlock:
            self._give_up("it sends more messages than can be handled")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session is gone

    def _give_up(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._close()

    def _on_end(self, _: object) -> None:
        if not self._process.ended.cancelled() and (error := self._process.ended.exception()):
            self.reason = self.reason or str(error).rstrip(".")
        self._close()

    def _close(self) -> None:
        self.is_lost = self.is_lost or not self._stopping
        self._to_session.close()
        self.ended.set()

    async def send(self, messages: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
        """Write the messages of the session to the server, until either ends."""
        async with messages:
            async for each in messages:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._process.write(line.encode() + b"\n", None)
                except BrokenPipeError:
                    self._close()
                    return

    async def stop(self) -> None:
        """End all processes of the server."""
        self._stopping = True
        self._process.close_stdin()
        if not self._process.ended.done():
            await self._process.end()
        self._close()


def _read_message(line: bytes) -> types.JSONRPCMessage:
    """Return the message of a line. Raise ValueError.

    A lone surrogate becomes U+FFFD: programs in JavaScript send one where they cut a text within a character.
    """
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if b"\\ud" not in line.lower():
            raise
    try:
        mended = storable(json.dumps(json.loads(line), ensure_ascii=False))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return types.jsonrpc_message_adapter.validate_json(mended, by_name=False)


@contextlib.asynccontextmanager
async def connect(
    server: StdioServer,
) -> AsyncGenerator[
    tuple[
        anyio.abc.ObjectReceiveStream[SessionMessage | Exception],
        anyio.abc.ObjectSendStream[SessionMessage],
    ]
]:
    """Connect a session to the server; end the server when the session ends."""
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.send, from_session)
            yield server.incoming, outgoing
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop()
        outgoing.close()
        server.incoming.close()
