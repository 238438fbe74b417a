"""A proxy on a socket of its own, in front of the real server, that cuts what passes or refuses who comes."""

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from psycopg import conninfo

from tests.conftest import address

TO_SERVER, TO_CLIENT = 0, 1


class Proxy:
    """Passes everything on until `cut_after` or `refuse` say otherwise.

    `passed` counts bytes in each direction, `refused` connections. While it is `down` nothing passes: connections end,
    also new ones. While it is `held` nothing passes, and nobody is told. `upstream` is the socket that new connections
    go to.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self._limit: tuple[int, int] | None = None
        self.writers: set[asyncio.StreamWriter] = set()
        self.held = False
        self.passed = [0, 0]
        self.down = False
        self.refused = 0
        self._refusal = b""

    def cut_after(self, direction: int, count: int) -> None:
        """Cut the next connection that carries more than `count` further bytes in that direction, right there."""
        self._limit = (direction, self.passed[direction] + count)

    def spare(self) -> None:
        """Cut nothing any more."""
        self._limit = None

    def refuse(self, state: str = "", message: str = "") -> None:
        """Cut all connections; answer new ones with this error until it is called without one.

        A server whose text is not in English also has a word of its own for FATAL.
        """
        severity = "FATAL" if message.isascii() else "ВАЖНО"
        fields = (b"S" + severity.encode(), b"VFATAL", b"C" + state.encode(), b"M" + message.encode())
        body = b"".join(field + b"\0" for field in fields) + b"\0"
        self._refusal = b"E" + (len(body) + 4).to_bytes(4) + body if state else b""
        self.reset()

    def reset(self) -> None:
        """Cut all connections at once, without a farewell."""
        for writer in self.writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.close()
            return
        if self._refusal:
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)) - 4)
            self.refused += 1
            writer.write(self._refusal)
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self.upstream)
        except OSError:  # the server is down
            writer.close()
            return
        self.writers |= {writer, server_writer}
        pumps = [
            asyncio.ensure_future(self._pump(TO_SERVER, reader, server_writer)),
            asyncio.ensure_future(self._pump(TO_CLIENT, server_reader, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        self.writers -= {writer, server_writer}
        writer.close()
        server_writer.close()

    async def _pump(self, direction: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while (data := await reader.read(65536)) and not self.down:
                while self.held:
                    await asyncio.sleep(0.01)
                if self._limit and self._limit[0] == direction and self.passed[direction] + len(data) > self._limit[1]:
                    writer.write(data[: self._limit[1] - self.passed[direction]])
                    self._limit = None
                    return
                self.passed[direction] += len(data)
                writer.write(data)


def upstream(dsn: str) -> str:
    """The socket of the server."""
    server = conninfo.conninfo_to_dict(dsn)
    return str(Path(str(server["host"]), f".s.PGSQL.{server['port']}"))


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy in front of the server of `dsn`, and the DSN that goes through it."""
    with tempfile.TemporaryDirectory(prefix="proxy-") as folder:
        proxy = Proxy(upstream(dsn))
        own = Path(folder, Path(proxy.upstream).name)
        async with await asyncio.start_unix_server(proxy.serve, str(own)) as listening:
            yield proxy, address(dsn, host=folder)
            listening.close()


@contextmanager
def proxied_beside(dsn: str) -> Iterator[tuple[Proxy, str, asyncio.AbstractEventLoop]]:
    """Run the proxy in a thread, and yield it with its address and its loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = proxied(dsn)
    try:
        proxy, through = asyncio.run_coroutine_threadsafe(made.__aenter__(), loop).result(10)
        yield proxy, through, loop
        proxy.held = False
        loop.call_soon_threadsafe(proxy.reset)
        asyncio.run_coroutine_threadsafe(made.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
