"""Speak to MCP servers with the official SDK; ikigai runs this as a child process (`python -m`).

Loading the SDK takes more than a second, and a server may send anything: neither must touch the program at the prompt.
Standard input brings orders, standard output gives reports (`host_messages`). The end of standard input ends the
program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable

from ikigai.tools.mcp.host_messages import (
    AnswerQuestion,
    CallResult,
    CallTool,
    CancelCall,
    CompleteLogin,
    GetPrompt,
    LineSplitter,
    Order,
    ReadResource,
    Report,
    StartServer,
    StopServer,
    encode,
    order_decoder,
)
from ikigai.tools.mcp.server_connection import ServerConnection


class Host:
    """The servers of one ikigai. `report` passes a report on and never waits."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._servers: dict[str, ServerConnection] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    def handle(self, order: Order) -> None:
        match order:
            case StartServer(launch, login):
                if launch.name not in self._servers:
                    self._servers[launch.name] = ServerConnection(launch, self._report, login)
            case StopServer(name):
                if connection := self._servers.pop(name, None):
                    task = asyncio.create_task(connection.close(), name=f"stop {name}")
                    self._stopping.add(task)
                    task.add_done_callback(self._stopping.discard)
            case CallTool() | ReadResource() | GetPrompt():
                task = asyncio.create_task(self._call(order), name=f"call {order.id}")
                self._calls[order.id] = task
                task.add_done_callback(lambda _: self._calls.pop(order.id, None))
            case CancelCall(id):
                if task := self._calls.get(id):
                    task.cancel()
            case AnswerQuestion():
                for connection in self._servers.values():
                    connection.answer(order)
            case CompleteLogin(name, address):
                if connection := self._servers.get(name):
                    connection.complete_login(address)

    async def _call(self, order: CallTool | ReadResource | GetPrompt) -> None:
        connection = self._servers.get(order.server)
        if connection is None:
            self._report(CallResult(order.id, f"There is no MCP server {order.server}.", failed=True))
            return
        self._report(await connection.carry_out(order))

    async def close(self) -> None:
        for task in tuple(self._calls.values()):
            task.cancel()
        closing = (each.close() for each in self._servers.values())
        await asyncio.gather(*closing, *self._stopping, return_exceptions=True)


async def run() -> None:
    """Carry out the orders of standard input until it ends."""
    loop = asyncio.get_running_loop()
    out = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # a library that prints must not spoil the reports
    host = Host(lambda report: _write(out, encode(report)))
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    lines = LineSplitter()
    try:
        while data := await reader.read(1 << 16):
            for line in lines.feed(data):
                host.handle(order_decoder.decode(line))
    finally:
        await host.close()


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def main() -> None:
    logging.basicConfig(level=logging.CRITICAL)  # its words would belong to no server
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(run())


if __name__ == "__main__":
    main()
