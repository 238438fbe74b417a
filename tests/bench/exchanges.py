"""Run a server that speaks every format, and record when a request came and its first byte went out."""

import json
import socket
import threading
import time
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import TypeAlias

from ikigai.core.events.messages import ReplyBlock, StopReason, Text
from tests.providers.formats import FORMATS

BEFORE = (0.10, 0.25)
"""Seconds from the end of a request to the first byte of its answer, at random: screens draw in cycles."""
Reply: TypeAlias = tuple[tuple[ReplyBlock, ...], StopReason]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Exchanges:
    """`with Exchanges() as server`: answers each request with its number as a word, by the format its path tells.

    `came` and `went` are times of `time.perf_counter`, one for each request: of its first byte, and of its answer's.
    `pause` is how many seconds the end of an answer comes after its word, `before` how many pass before the first byte
    of an answer, at least and at most. `reply` returns another answer to the request of a number, and why it ends.
    """

    def __init__(
        self, pause: float = 0.0, before: tuple[float, float] = BEFORE, reply: Callable[[int], Reply] | None = None
    ) -> None:
        self._pause, self._before, self._reply = pause, before, reply or _word_reply
        self.came: list[float] = []
        self.went: list[float] = []
        self._rng = Random(11)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> "Exchanges":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # closed
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while begun := connection.recv(65536):
                came = time.perf_counter()
                if begun.startswith(b"HEAD "):  # it opens the connection, and is not an exchange
                    connection.sendall(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
                    continue
                head, _, body = begun.partition(b"\r\n\r\n")
                while len(body) < _length(head):
                    body += connection.recv(65536)
                connection.sendall(HEAD)
                time.sleep(self._rng.uniform(*self._before))
                self.came.append(came)
                text = word(len(self.came))
                stream = _stream(head.split(b" ", 2)[1].decode(), self._reply(len(self.came)))
                self.went.append(time.perf_counter())
                if self._pause:
                    cut = stream.index(b"\n\n", stream.index(json.dumps(text)[1:-1].encode())) + 2
                    connection.sendall(b"%x\r\n%b\r\n" % (cut, stream[:cut]))
                    time.sleep(self._pause)
                    stream = stream[cut:]
                connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(stream), stream))


def word(number: int) -> str:
    """Return the answer to the request of this number, which is unique."""
    return f"¶{number}."


def _length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


def _word_reply(number: int) -> Reply:
    return (Text(word(number)),), StopReason.END


def _stream(path: str, reply: Reply) -> bytes:
    names = {"/messages": "messages", "/responses": "responses", "/completions": "chat", "alt=sse": "contents"}
    name = next(name for end, name in names.items() if path.removesuffix("?beta=true").endswith(end))
    return FORMATS[name].stream(*reply)
