"""Connections over every adapter: that none comes about, how long one may be silent, and that none is left behind."""

import asyncio
import gc
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from ikigai.providers.retry import RetryingProvider
from tests.providers.certificates import signed_itself
from tests.providers.conftest import KEY, ask, collect, reply
from tests.providers.formats import Format
from tests.support.wire_server import Answer, WireServer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def fails(provider: Any, kind: FailureKind, words: str) -> None:
    [broke] = await collect(
        RetryingProvider(provider, sleep=_never) if kind is FailureKind.UNAVAILABLE else provider, ask()
    )
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, words in broke.text) == (kind, True), broke
    await provider.close()


async def _never(seconds: float) -> None:
    raise AssertionError(f"waited {seconds}")


async def fails_against(form: Format, serve: Serve, kind: FailureKind, words: str, tls: ssl.SSLContext | None = None):
    """Check the failure of a server that does not speak HTTP."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if kind is FailureKind.UNAVAILABLE else "http"
    address = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await fails(form.connect(address, KEY), kind, words.format(address=address + form.path))
    server.close()


# ── none comes about ──


async def test_nothing_listens(form: Format):
    with socket.socket() as unheard:  # nobody else gets the port
        unheard.bind(("127.0.0.1", 0))
        vendor: Any = form.connect(f"http://127.0.0.1:{unheard.getsockname()[1]}", KEY)
        [broke] = await collect(vendor)
        assert await vendor.count(ask()) is None
        with pytest.raises(IkigaiError) as caught:
            await vendor.models()
    await vendor.close()
    words = f"{vendor.name} cannot be reached at {vendor.address}: connection refused."
    assert broke == StreamFailed(FailureKind.UNREACHABLE, words, "Check the network and the address.")
    assert caught.value.what == words


async def test_name_that_nobody_knows(form: Format):
    provider: Any = form.connect("http://user:pass@nowhere.invalid", KEY)
    address = f"http://nowhere.invalid{form.path}"
    await fails(provider, FailureKind.UNREACHABLE, f"cannot be reached at {address}: unknown host name.")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Ty", b"nonsense\r\n\r\n"])
async def test_connection_that_breaks_before_the_answer(form: Format, said: bytes):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    await fails_against(form, serve, FailureKind.UNREACHABLE, "cannot be reached")


async def test_plain_text_where_tls_was_expected_is_not_tried_again(form: Format):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    await fails_against(form, serve, FailureKind.UNAVAILABLE, "The server at {address} does not use TLS.")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Of a server that nobody trusts: it has signed its certificate itself."""
    return signed_itself(tmp_path_factory.mktemp("certificate"))[1]


async def test_certificate_that_nobody_trusts_is_not_tried_again(form: Format, certificate: ssl.SSLContext):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    await fails_against(form, serve, FailureKind.UNAVAILABLE, "self", certificate)


@pytest.mark.parametrize(("scheme", "times"), [("http", 0), ("https", 1)])
def test_certificates_are_read_once_and_not_without_tls(
    form: Format, monkeypatch: pytest.MonkeyPatch, scheme: str, times: int
):
    calls: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *given, **named: calls.append(given))
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *given, **named: calls.append(given))
    provider: Any = form.connect(f"{scheme}://nowhere.invalid", KEY)
    provider.connect()
    assert len(calls) == times


async def test_certificates_that_are_not_there_are_named(form: Format, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    words = "The certificates in /nonexistent cannot be read: No such file or directory."
    await fails(form.connect("https://nowhere.invalid", KEY), FailureKind.UNAVAILABLE, words)


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "ftp://127.0.0.1:9", "http://h:no"])
async def test_proxy_from_the_environment_is_not_used_on_this_machine(
    form: Format, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, proxy: str
):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)
    for host in ("127.0.0.1", "localhost"):
        wire_server.script = [Answer(form.stream((Text("direct"),), StopReason.END))]
        provider: Any = form.connect(f"http://{host}:{wire_server.port}", KEY)
        assert reply(await collect(provider)).text == "direct"
        await provider.close()
    await fails(form.connect("http://[::1]:9", KEY), FailureKind.UNREACHABLE, f"http://[::1]:9{form.path}:")
    if not proxy.endswith("127.0.0.1:9") or proxy.startswith("ftp"):
        await fails(form.connect("http://nowhere.invalid", KEY), FailureKind.UNAVAILABLE, "http_proxy cannot be used")
        return
    if proxy.startswith("socks"):
        return
    elsewhere = form.connect("http://nowhere.invalid", KEY)
    await fails(elsewhere, FailureKind.UNREACHABLE, "connection refused")  # the proxy was asked


async def test_proxy_that_cannot_be_used(form: Format, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    await fails(form.connect("http://nowhere.invalid", KEY), FailureKind.UNAVAILABLE, "gopher")
    monkeypatch.setenv("NO_PROXY", "nowhere.invalid")
    await fails(form.connect("http://nowhere.invalid", KEY), FailureKind.UNREACHABLE, "unknown host name")


# ── silence ──


@pytest.mark.parametrize(("body", "seconds"), [("nothing", "0.3"), ("half", "0.2"), ("page", "0."), ("whole", "")])
async def test_server_that_falls_silent(form: Format, wire_server: WireServer, body: str, seconds: str):
    whole = form.stream((Text("Hello."),), StopReason.END)
    sent = {"nothing": b"", "half": form.late("Half"), "page": whole[:20], "whole": whole}[body]
    headers = {"Content-Type": "text/html" if body == "page" else "text/event-stream"}
    wire_server.script = [Answer(sent, headers=headers, end="hang")]
    first = 30 if body in ("half", "whole") else 0.3  # what is to be seen before the silence may come late
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY, first=first, idle=0.2)
    await provider.preload()
    ended = (await collect(provider))[-1]
    if body == "whole":
        assert isinstance(ended, StreamFinished)
    else:
        assert isinstance(ended, StreamFailed)
        assert ended.kind is FailureKind.CUT and ended.text.startswith(f"{form.provider} sent nothing for {seconds}")
    if wire_server.requests:  # none, if the time was over before it was sent
        await asyncio.wait_for(wire_server.hung_up.wait(), 60)
    await provider.close()


# ── given up, used again, and left ──


@pytest.mark.parametrize("answered", ["nothing", "headers", "words"])
async def test_cancelling_closes_the_connection(form: Format, vendor: Any, wire_server: WireServer, answered: str):
    wire_server.script = [Answer(form.late("Half") if answered == "words" else b"", end="hang")]
    seen = asyncio.Event()

    async def consume() -> None:
        async for _ in vendor.stream(ask()):
            seen.set()

    task = asyncio.create_task(consume())
    await wire_server.got_one.wait()
    if answered == "words":
        await seen.wait()
    elif answered == "headers":
        await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


async def test_leaving_a_stream_closes_the_connection(form: Format, vendor: Any, wire_server: WireServer):
    wire_server.script = [Answer(form.late("Half"), end="hang")]
    events = vendor.stream(ask())
    await anext(events)
    await events.aclose()
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


async def test_one_client_for_all_requests_at_once(form: Format, vendor: Any, wire_server: WireServer):
    wire_server.script = [Answer(form.stream((Text(f"{n}"),), StopReason.END)) for n in range(21)]
    found = await asyncio.gather(*(collect(vendor, ask(f"say {n}")) for n in range(20)))
    assert {reply(events).text for events in found} == {f"{n}" for n in range(20)}
    await vendor.close()
    assert reply(await collect(vendor)).text == "20"  # it connects anew


async def test_nothing_is_left_behind(form: Format, recwarn: pytest.WarningsRecorder):
    gc.collect()
    recwarn.clear()  # what others have left behind
    whole = Answer(form.stream((Text("Hi"),), StopReason.END))
    refused = [form.refusal(status, "No.", "") for status in (400, 500)]
    async with WireServer([whole, Answer(b"", end="reset"), Answer(form.late("Half")), *refused]) as server:
        provider: Any = form.connect(f"http://127.0.0.1:{server.port}", KEY)
        for _ in range(5):
            await collect(provider)
        server.script += refused
        await provider.count(ask())
        with pytest.raises(IkigaiError):
            await provider.models()
        await provider.close()

        def left() -> list[object]:
            """Tasks that are not the server's, and connections."""
            others = asyncio.all_tasks() - {asyncio.current_task()}
            return [*(task for task in others if "WireServer" not in repr(task)), *server._open]

        end = time.monotonic() + 30  # the SDK leaves a generator to the collector
        while left() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert not left()
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]


@pytest.mark.ordinary("responses", "contents")
async def test_sdk_is_loaded_by_warm_and_not_before_and_a_request_loads_nothing(form: Format):
    api = f", api={form.api!r}" if form.path else ""
    sdk = {"anthropic": "anthropic", "google": "google.genai"}.get(form.api, "openai")
    code = f"""
import asyncio, sys
from ikigai.core.events.messages import Message, Role, Text
from ikigai.core.request.build import Request
from {form.make.__module__} import {form.make.__name__} as Provider
provider = Provider("{form.provider}", sys.argv[1], "key"{api})
provider.encoder("{form.name}").body(Request("{form.name}"))
heavy = {{"anthropic", "google", "openai", "httpx2", "httpx", "pydantic"}}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()

async def main():
    await provider.preload()
    assert "{sdk}" in sys.modules
    before = set(sys.modules)
    async for event in provider.stream(Request("{form.name}", (Message(Role.USER, (Text("hi"),)),))):
        pass
    print(type(event).__name__, *sorted(set(sys.modules) - before))
    await provider.close()

asyncio.run(main())
"""
    async with WireServer([Answer()]) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, f"http://127.0.0.1:{server.port}{form.path}", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
    assert out.decode().split() == ["StreamFailed"]


async def test_collector_holds_no_key_while_an_sdk_loads(vendor: Any, monkeypatch: pytest.MonkeyPatch):
    collects, connect = list[bool](), vendor.connect

    def watched() -> Any:
        collects.append(gc.isenabled())
        return connect()

    monkeypatch.setattr(vendor, "connect", watched)
    assert gc.isenabled()
    await vendor.preload()
    assert collects == [False] and gc.isenabled()
