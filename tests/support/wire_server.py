"""Serve scripted Chat Completions over HTTP and record the requests; in a test, or on its own:

    python -m tests.support.wire_server --port 0 --script FILE [--record FILE]

prints its port, answers each POST with one item of the script after another (behind the last it echoes), and appends
each request to the record as a line of JSON: {"path": …, "headers": {…}, "body": {…}}.
A script is a JSON list; an item is a text, or an object with the fields of `Answer` or the arguments of `completion`.
"""

import argparse
import asyncio
import json
import signal
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DONE = b"data: [DONE]\n\n"


@dataclass
class Answer:
    """One HTTP answer, byte for byte.

    `cut`: only so many bytes of the body are sent. `end`: "clean" ends the body as HTTP wants it, "reset" breaks the
    connection, "hang" sends nothing more until the client goes. `pause`: seconds before each event of the body.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    cut: int | None = None
    end: str = "clean"
    pause: float = 0.0


@dataclass
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


def sse(*chunks: object) -> bytes:
    """Return the events of a stream; bytes go out as they are."""
    return b"".join(c if isinstance(c, bytes) else b"data: " + _json(c) + b"\n\n" for c in chunks)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def call_delta(index: int | None = None, **function: Any) -> dict[str, Any]:
    call = {"function": {k: v for k, v in function.items() if k != "id"}}
    if "id" in function:
        call |= {"id": function["id"], "type": "function"}
    return call if index is None else {"index": index, **call}


def completion(
    text: str = "",
    thinking: str = "",
    calls: Iterable[dict[str, Any]] = (),
    finish: str = "",
    piece: int = 4,
    pause: float = 0.0,
    usage: dict[str, Any] | None = None,
) -> Answer:
    """Return a whole reply as a stream; each of `calls` is a name, arguments (an object or a text) and an id."""
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": thinking[at : at + piece]}) for at in range(0, len(thinking), piece)]
    chunks += [chunk({"content": text[at : at + piece]}) for at in range(0, len(text), piece)]
    calls = list(calls)
    for index, call in enumerate(calls):
        arguments = call.get("arguments", {})
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        begin = call_delta(index, id=call.get("id", f"call_{index}"), name=call["name"], arguments="")
        chunks.append(chunk({"tool_calls": [begin]}))
        for at in range(0, len(written), piece):
            chunks.append(chunk({"tool_calls": [call_delta(index, arguments=written[at : at + piece])]}))
    chunks.append(chunk(finish=finish or ("tool_calls" if calls else "stop")))
    usage = usage or {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return Answer(sse(*chunks, {"id": "chatcmpl-1", "choices": [], "usage": usage}, DONE), pause=pause)


def failure(status: int, message: str = "", code: str = "", **headers: str) -> Answer:
    """Return an error as OpenAI words it; underscores in header names are hyphens."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code or None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(body).encode(), status, {"Content-Type": "application/json", **named})


class WireServer:
    """`async with WireServer([answer, …]) as server`: see `server.base_url` and `server.requests`.

    `got_one` is set when a request has come, `hung_up` when a client went away before it had its answer. `answer` makes
    the answers behind the script. `busy` is the number under way, `busiest` the largest number so far.
    """

    def __init__(self, script: Iterable[Answer | str] = (), record: Path | None = None) -> None:
        self.script = list(script)
        self.answer: Callable[[Received], Answer | str] = _echo
        self.busiest = 0
        self.busy = 0
        self.requests: list[Received] = []
        self.got_one = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.port = 0
        self._record = record
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*filter(None, self._open))
        await self._server.wait_closed()

    async def __aenter__(self) -> "WireServer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[asyncio.current_task()] = writer
        try:
            while received := await self._receive(reader, writer):
                self.requests.append(received)
                self.got_one.set()
                if self._record:
                    with self._record.open("a") as record:
                        record.write(json.dumps({**vars(received), "body": received.json}) + "\n")
                item = self.script.pop(0) if self.script else self.answer(received)
                self.busy += 1
                self.busiest = max(self.busiest, self.busy)
                try:
                    kept = await self._answer(completion(item) if isinstance(item, str) else item, reader, writer)
                finally:
                    self.busy -= 1
                if not kept:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            del self._open[asyncio.current_task()]
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Received | None:
        """Return the next request but HEAD, which only opens the connection and is answered here."""
        try:
            while (head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n"))[0][:5] == "HEAD ":
                writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Received(head[0].split()[1], headers, body)

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send the answer; return True if the connection can be used again."""
        headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        writer.write(f"HTTP/1.1 {answer.status} X\r\n{headers}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1"))
        body = answer.body[: answer.cut]
        for event in body.split(b"\n\n") if answer.pause else [body]:
            await asyncio.sleep(answer.pause)
            event += b"\n\n" if answer.pause else b""
            if event:
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
        if answer.end == "hang":
            await reader.read()
            self.hung_up.set()
            return False
        if answer.end == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _echo(received: Received) -> Answer:
    last = received.json["messages"][-1] if received.body else {}
    return completion(f"You said: {last.get('content')}")


def _scripted(item: Any) -> Answer | str:
    if isinstance(item, str):
        return item
    if "status" in item and "message" in item:
        return failure(item["status"], item["message"], item.get("code", ""), **item.get("headers", {}))
    ending = {name: item.pop(name) for name in ("cut", "end") if name in item}
    answer = completion(**item)
    for name, value in ending.items():
        setattr(answer, name, value)
    return answer


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    script = [_scripted(item) for item in json.loads(options.script.read_text())] if options.script else []
    server = WireServer(script, options.record)
    await server.start(options.port)
    print(server.port, flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_main())
