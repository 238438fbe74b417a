"""Connections opened before their request: used by it, without a key, and never in the way."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.events.messages import StopReason, Text
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from ikigai.providers.http import preconnect
from tests.providers.certificates import signed_itself
from tests.providers.conftest import KEY, collect
from tests.providers.formats import FORMATS, Format


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this machine that has signed itself, and a server's context with it."""
    return signed_itself(tmp_path_factory.mktemp("certificate"), "-addext", "subjectAltName=IP:127.0.0.1")


class Server:
    """A server of one format, at `address`; `came` counts connections, `heads` are what HEAD requests sent."""

    def __init__(self, body: bytes) -> None:
        self.came = self.asked = 0
        self.heads: list[bytes] = []
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )
        self.says_nothing = False
        self.answers_head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n"
        self._inside: list[asyncio.StreamWriter] = []

    async def open(self, tls: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http{'s' if tls else ''}://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self._inside.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"HEAD"):
                    self.heads.append(head)
                    if not self.says_nothing:
                        writer.write(self.answers_head)
                    continue
                lines = head.lower().split(b"\r\n")
                length = next(line for line in lines if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                self.asked += 1
                writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            writer.close()

    def hang_up(self) -> None:
        for writer in self._inside:
            writer.close()

    async def close(self) -> None:
        self._server.close()
        self.hang_up()


@pytest.fixture(params=FORMATS.values(), ids=[*FORMATS])
def form(request: pytest.FixtureRequest) -> Format:
    return request.param


@pytest.fixture(params=["http", "https"])
async def server(
    form: Format, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Server]:
    server, tls = Server(form.stream((Text("Hello"),), StopReason.END)), None
    if request.param == "https":
        certificate, tls = request.getfixturevalue("trusted")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        for module in ("network", "preconnect"):  # as elsewhere
            monkeypatch.setattr(f"ikigai.providers.http.{module}.keeps_connections", lambda url: True)
    await server.open(tls)
    yield server
    await server.close()


@pytest.fixture
async def provider(form: Format, server: Server) -> AsyncIterator[Any]:
    provider: Any = form.connect(server.address, KEY)
    await provider.preload()
    yield provider
    await provider.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def preconnected(provider: Any) -> None:
    """Expect a request, and wait until nothing more is done for it."""
    provider.preconnect()
    await until(lambda: not any(task.get_name() == "preconnect" for task in asyncio.all_tasks()))


async def opened(provider: Any, server: Server) -> None:
    """Expect a request, and wait until the connection for it is open and idle."""
    await preconnected(provider)
    assert server.came == 1


async def test_request_uses_the_connection_opened_ahead(provider: Any, server: Server):
    await opened(provider, server)
    provider.preconnect()  # there is one
    assert server.asked == 0
    assert isinstance((await collect(provider))[-1], StreamFinished)
    assert (server.came, server.asked, len(server.heads)) == (1, 1, 1)


async def test_opening_a_connection_sends_neither_key_nor_path(provider: Any, server: Server):
    await opened(provider, server)
    [head] = server.heads
    assert head.startswith(b"HEAD / HTTP/1.1\r\n")
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:] if line}
    assert names <= {b"host", b"accept", b"accept-encoding", b"connection", b"user-agent"}
    assert KEY.encode() not in head


async def test_request_that_comes_while_a_connection_is_opened_does_not_wait(provider: Any, server: Server):
    server.says_nothing = True
    provider.preconnect()
    await until(lambda: bool(server.heads))
    assert isinstance((await collect(provider))[-1], StreamFinished)
    assert (server.came, server.asked) == (2, 1)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 9\r\n\r\nNot there", id="with a body"),
        pytest.param(b"HTTP/1.1 501 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", id="chunked"),
        pytest.param(b"HTTP/1.0 400 Bad\r\n\r\n<html>", id="of HTTP/1.0"),
        pytest.param(b"Error: unknown method HEAD\r\n\r\n", id="no HTTP"),
        pytest.param(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", id="redirect"),
    ],
)
async def test_request_works_behind_any_answer_to_head(provider: Any, server: Server, answer: bytes):
    server.answers_head = answer
    await opened(provider, server)
    assert isinstance((await collect(provider))[-1], StreamFinished)
    asked = server.asked  # twice where the answer to HEAD was taken for that to the request
    assert asked <= 2
    await preconnected(provider)
    assert asked == 1 or len(server.heads) == 1, "no HEAD request is sent to such a server again"
    assert isinstance((await collect(provider))[-1], StreamFinished) and server.asked == asked + 1


async def test_connection_that_the_server_has_closed_is_not_used(provider: Any, server: Server):
    await opened(provider, server)
    server.hang_up()
    await asyncio.sleep(0.1)
    assert isinstance((await collect(provider))[-1], StreamFinished)
    assert (server.came, server.asked) == (2, 1)


async def test_connection_is_opened_anew_when_the_last_is_not_fresh(
    provider: Any, server: Server, monkeypatch: pytest.MonkeyPatch
):
    await collect(provider)
    await preconnected(provider)
    kept = server.address.startswith("https")
    assert (server.came, len(server.heads)) == ((1, 0) if kept else (2, 1))
    await preconnected(provider)
    assert server.came == (1 if kept else 2)
    monkeypatch.setattr(preconnect, "FRESH_SECONDS", 0)
    monkeypatch.setattr(preconnect, "UNUSED_CONNECTION_SECONDS", 0)
    provider.preconnect()  # over the one that is kept
    await until(lambda: len(server.heads) == (1 if kept else 2))


async def test_closing_the_provider_gives_up_the_connection_being_opened(provider: Any, server: Server):
    server.says_nothing = True
    provider.preconnect()
    await until(lambda: bool(server.heads))
    await provider.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "preconnect"]
    await preconnected(provider)
    assert server.came == 1


async def test_request_tells_what_fails_ahead(form: Format):
    with socket.socket() as unheard:  # connection refused, and nobody else gets the port
        unheard.bind(("127.0.0.1", 0))
        provider: Any = form.connect(f"http://127.0.0.1:{unheard.getsockname()[1]}", KEY)
        await provider.preload()
        await preconnected(provider)
        [broke] = await collect(provider)
    assert (
        isinstance(broke, StreamFailed) and broke.kind is FailureKind.UNREACHABLE and "connection refused" in broke.text
    )
    await provider.close()
