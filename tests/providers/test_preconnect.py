"""Connections opened before their request: used by it, closed when unused, and never in the way."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.messages import StopReason, Text
from ikigai.core.request.reply import Broke, Failure, Finished
from ikigai.providers import preconnect as ahead
from tests.providers.certificates import signed_itself
from tests.providers.conftest import KEY, collect
from tests.providers.formats import FORMATS, Format


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this machine that has signed itself, and a server's context with it."""
    return signed_itself(tmp_path_factory.mktemp("certificate"), "-addext", "subjectAltName=IP:127.0.0.1")


class Server:
    """A server of one format, at `address`; `came` counts connections, `left` those that their client closed."""

    def __init__(self, body: bytes) -> None:
        self.came = self.left = self.asked = 0
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )
        self._inside: list[asyncio.StreamWriter] = []

    async def open(self, tls: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http{'s' if tls else ''}://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self._inside.append(writer)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                self.asked += 1
                writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            self.left += 1
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
    await server.open(tls)
    yield server
    await server.close()


@pytest.fixture
async def provider(form: Format, server: Server) -> AsyncIterator[Any]:
    provider: Any = form.connect(server.address, KEY)
    await provider.warm()
    yield provider
    await provider.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_request_goes_over_the_connection_that_waits(provider: Any, server: Server):
    provider.expect()
    await until(lambda: server.came == 1)
    provider.expect()  # there is one
    assert server.asked == 0
    assert isinstance((await collect(provider))[-1], Finished)
    assert (server.came, server.asked) == (1, 1)


async def test_a_request_waits_for_the_connection_that_is_being_opened(provider: Any, server: Server):
    provider.expect()
    assert isinstance((await collect(provider))[-1], Finished)
    assert (server.came, server.asked) == (1, 1)


async def test_a_connection_that_the_server_has_closed_is_not_used(provider: Any, server: Server):
    provider.expect()
    await until(lambda: server.came == 1)
    await asyncio.sleep(0.1)  # what TLS says first is there
    server.hang_up()
    await until(lambda: server.left == 1)
    assert isinstance((await collect(provider))[-1], Finished)
    assert (server.came, server.asked) == (2, 1)


async def test_a_connection_waits_for_a_while_only(provider: Any, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ahead, "HELD", 0.05)
    monkeypatch.setattr(ahead, "HELD_SECURED", 0.05)
    provider.expect()
    await until(lambda: server.left == 1)
    assert isinstance((await collect(provider))[-1], Finished)
    assert (server.came, server.asked) == (2, 1)


async def test_what_waits_is_closed_with_the_provider(provider: Any, server: Server):
    provider.expect()
    await until(lambda: server.came == 1)
    await provider.close()
    await until(lambda: server.left == 1)
    provider.expect()
    await asyncio.sleep(0.1)
    assert server.came == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_opened_is_given_up_with_the_provider(form: Format, turns: int):
    """At whatever point of its opening that is."""
    server = Server(b"")
    await server.open(None)
    provider: Any = form.connect(server.address, KEY)
    await provider.warm()
    provider.expect()
    for _ in range(turns):
        await asyncio.sleep(0)
    await provider.close()
    await until(lambda: server.left == server.came)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "connection ahead"]
    await server.close()


async def test_a_connection_that_was_kept_needs_no_other(
    provider: Any, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ahead, "HELD", 60)  # another one would be seen for as long as is waited here
    monkeypatch.setattr(ahead, "HELD_SECURED", 60)
    await collect(provider)
    await asyncio.sleep(0.1)
    provider.expect()
    await asyncio.sleep(0.2)
    # Without TLS, or to this machine, some are not kept.
    await until(lambda: server.came == (1 if server.left == 0 else 2))


async def test_what_fails_ahead_is_told_by_the_request(form: Format):
    with socket.socket() as unheard:  # nothing listens there, and nobody else gets the port
        unheard.bind(("127.0.0.1", 0))
        provider: Any = form.connect(f"http://127.0.0.1:{unheard.getsockname()[1]}", KEY)
        await provider.warm()
        provider.expect()
        await asyncio.sleep(0.1)
        [broke] = await collect(provider)
    assert isinstance(broke, Broke) and broke.kind is Failure.UNREACHABLE and "nothing listens there" in broke.text
    await provider.close()


async def test_nothing_is_opened_past_a_proxy(form: Format, monkeypatch: pytest.MonkeyPatch):
    proxy = Server(b"")
    await proxy.open(None)
    monkeypatch.setenv("ALL_PROXY", proxy.address)
    provider: Any = form.connect("http://192.0.2.1", KEY)
    await provider.warm()
    provider.expect()
    assert provider._ahead is None
    await provider.close()
    await proxy.close()
