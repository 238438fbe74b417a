"""A connection opened before there is a request for it: while the user still types.

    request ──► the client's pool ── connect_tcp ──► Ahead ── the connection that waits here, else a new one

To connect takes two or three round trips; a request that finds a connection waiting takes none of them. Nothing but
what TLS begins with is sent before the request. Neither the SDKs nor httpx2 can be asked for this, so it is put below
their pool of connections, where httpcore2 asks for a network to be given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

HELD, HELD_SECURED = 4.0, 10.0
"""Seconds that a connection may wait, without and with TLS: many servers (llama.cpp's, say) give a client five to speak
before they hang up, those behind TLS more."""

log = logging.getLogger(__name__)


def of_client(client: Any, base_url: str, within: float) -> Ahead | None:
    """For an httpx2 client that talks to this server, which may take `within` seconds to connect to.

    None where a proxy is in between (how the way through it is made is the pool's business), and where the client turns
    out to be made otherwise by now: then every request connects for itself.
    """
    import httpcore2
    import httpx2

    try:
        pool = client._transport_for_url(httpx2.URL(base_url))._pool
        return Ahead(pool, base_url, within) if type(pool) is httpcore2.AsyncConnectionPool else None
    except (AttributeError, httpx2.InvalidURL):
        log.debug("Connections cannot be opened ahead", exc_info=True)
        return None


class Ahead:
    """httpcore2's AsyncNetworkBackend for one pool, with at most one connection that waits to be used."""

    def __init__(self, pool: Any, url: str, within: float) -> None:
        import httpcore2

        self._pool, self._backend = pool, pool._network_backend
        self._request = httpcore2.Request("POST", url, extensions={"timeout": {"connect": within}})
        self._origin = self._request.url.origin
        self._waiting: _Waiting | None = None
        pool._network_backend = self

    def open(self) -> None:
        """A request is about to come: have a connection for it, unless there is one. What fails, the request tells."""
        if self._waiting and not self._waiting.task.done():
            return
        if any(each.is_idle() and not each.has_expired() for each in self._pool.connections):
            return
        connecting = self._pool.create_connection(self._origin)._connect
        self._waiting = _Waiting(lambda: connecting(self._request), secured=self._origin.scheme == b"https")

    async def close(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting and (stream := await waiting.taken()):
            await stream.aclose()

    # ── what the pool asks for ──

    async def connect_tcp(self, host: str, port: int, *arguments: Any, **options: Any) -> Any:
        waiting = self._waiting
        ours = (host, port) == (self._origin.host.decode("ascii"), self._origin.port)
        if waiting and ours and asyncio.current_task() is not waiting.task:
            await waiting.opened()
            if self._waiting is waiting:  # else another request has it
                self._waiting = None
                if stream := await waiting.taken():
                    return _Opened(stream)
        return await self._backend.connect_tcp(host, port, *arguments, **options)

    async def connect_unix_socket(self, *arguments: Any, **options: Any) -> Any:
        return await self._backend.connect_unix_socket(*arguments, **options)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _Waiting:
    """A connection that `connect` makes, closed when nobody takes it for a while."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], secured: bool) -> None:
        self._secured = secured
        self._closing = False
        self._stream: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stream.add_done_callback(lambda done: done.exception())  # nobody may ever ask
        self.task = asyncio.create_task(self._wait(connect), name="connection ahead")

    async def opened(self) -> None:
        """Raises what the attempt to connect does, if it is still under way."""
        if not self._stream.done():
            await asyncio.shield(self._stream)

    async def taken(self) -> Any:
        """The stream, for the caller alone; None when there is none (any more)."""
        self.task.cancel()
        if self._secured or not self._stream.done():  # else it only sleeps, and nobody should have to wait for it
            await asyncio.wait([self.task])
        if not self._stream.done():
            self._stream.set_exception(ConnectionAbortedError("closed"))  # for whoever waits for it
        if self._closing or self._stream.exception():
            return None
        stream = self._stream.result()
        if not self._secured and stream.get_extra_info("is_readable"):  # servers do not speak first: it has hung up
            await stream.aclose()
            return None
        return stream

    async def _wait(self, connect: Callable[[], Awaitable[Any]]) -> None:
        try:
            stream = await connect()
        except Exception as error:
            self._stream.set_exception(error)
            return
        self._stream.set_result(stream)
        with suppress(Exception):
            if self._secured:  # a server does speak first then, and only who reads can tell its tickets from a farewell
                async with asyncio.timeout(HELD_SECURED):
                    await stream.read(1)
            else:
                await asyncio.sleep(HELD)
        self._closing = True
        with suppress(Exception):
            await stream.aclose()


class _Opened:
    """A stream for which all has been done that a pool does to a new one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.read, self.write, self.aclose = stream.read, stream.write, stream.aclose
        self.get_extra_info = stream.get_extra_info

    async def start_tls(self, *arguments: Any, **options: Any) -> Any:
        return self._stream
