"""Stand in for servers on the internet: a proxy that answers requests to their hosts itself, over TLS."""

import asyncio
import os
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.providers.certificates import signed_itself
from tests.support.wire_server import Received, WireServer


class VendorProxy(WireServer):
    """A `WireServer` that clients reach as a proxy; `hosts` are those that its certificate in `folder` is for."""

    def __init__(self, folder: Path, hosts: Iterable[str]) -> None:
        super().__init__()
        names = ",".join(f"DNS:{host}" for host in sorted(set(hosts)))
        self._certificate, self._tls = signed_itself(folder, "-addext", f"subjectAltName={names}")

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the clients of this process go through it; call it once it has started."""
        for name in list(os.environ):
            if name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{self.port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(self._certificate))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")  # CONNECT
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.start_tls(self._tls)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            writer.close()
            return
        await super()._serve(reader, writer)


def host_of(received: Received) -> str:
    return received.headers["host"]
