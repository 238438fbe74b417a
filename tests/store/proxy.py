"""A proxy on a socket of its own, in front of the real server, that cuts what passes or refuses who comes."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from psycopg import conninfo

from tests.conftest import address

TO_SERVER, TO_CLIENT = 0, 1


class Proxy:
    """Passes everything on until `cut_after` or `refuse` say otherwise.

    `passed` counts bytes in each direction, `refused` connections. While it is `down` nothing passes: connections end,
    and new ones, too.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._limit: tuple[int, int] | None = None
        self.passed = [0, 0]
        self.down = False
        self.refused = 0
        self._refusal = b""
        self.connected: set[asyncio.StreamWriter] = set()

    def cut_after(self, direction: int, count: int) -> None:
        """Cut the next connection that carries more than `count` further bytes in that direction, right there."""
        self._limit = (direction, self.passed[direction] + count)

    def refuse(self, state: str = "", message: str = "") -> None:
        """Cut all connections; answer new ones with this error until it is called without one."""
        fields = (b"SFATAL", b"VFATAL", b"C" + state.encode(), b"M" + message.encode())
        body = b"".join(field + b"\0" for field in fields) + b"\0"
        self._refusal = b"E" + (len(body) + 4).to_bytes(4) + body if state else b""
        for writer in self.connected:
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
        self.connected.add(writer)
        try:
            await self._pass(reader, writer)
        finally:
            self.connected.discard(writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._upstream)
        pumps = [
            asyncio.ensure_future(self._pump(TO_SERVER, reader, server_writer)),
            asyncio.ensure_future(self._pump(TO_CLIENT, server_reader, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        writer.close()
        server_writer.close()

    async def _pump(self, direction: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (data := await reader.read(65536)) and not self.down:
            if self._limit and self._limit[0] == direction and self.passed[direction] + len(data) > self._limit[1]:
                writer.write(data[: self._limit[1] - self.passed[direction]])
                self._limit = None
                return
            self.passed[direction] += len(data)
            writer.write(data)


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy in front of the server of `dsn`, and the DSN that goes through it."""
    server = conninfo.conninfo_to_dict(dsn)
    with tempfile.TemporaryDirectory(prefix="proxy-") as folder:
        name = f".s.PGSQL.{server['port']}"
        proxy = Proxy(str(Path(str(server["host"]), name)))
        async with await asyncio.start_unix_server(proxy.serve, str(Path(folder, name))) as listening:
            yield proxy, address(dsn, host=folder)
            listening.close()
