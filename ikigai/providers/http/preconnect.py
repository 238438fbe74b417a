"""Open a connection to a server while the user still types, so that the request finds it open.

To connect takes one round trip, and two more with TLS. A HEAD request for the server's root makes the HTTP client
connect, and the client keeps the connection for the request. It carries neither a key nor words of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from urllib.parse import urlsplit

from ikigai.providers.http.network import (
    CONNECT_TIMEOUT,
    KEEP_ALIVE_SECONDS,
    UNUSED_CONNECTION_SECONDS,
    bracket_ipv6,
    keeps_connections,
)

FRESH_SECONDS = KEEP_ALIVE_SECONDS / 2
"""Seconds after its last use for which a kept connection counts as open."""

log = logging.getLogger(__name__)


class ConnectionOpener:
    """Opens connections of an httpx2 client to the server of `base_url`."""

    def __init__(self, client: Any, base_url: str) -> None:
        url = urlsplit(base_url)
        port = f":{url.port}" if url.port else ""
        self._root = f"{url.scheme}://{bracket_ipv6(url.hostname or '')}{port}/"  # without user and password
        self._client, self._keeps = client, keeps_connections(base_url)
        self._used: float | None = None
        self._is_ahead = False  # no request has used a connection since the HEAD request
        self._is_off = False
        self._opening: asyncio.Task[None] | None = None

    def used(self) -> None:
        """Record that a request has used a connection until now."""
        self._used, self._is_ahead = time.monotonic() if self._keeps else None, False

    def give_up(self) -> bool:
        """Return True if the request that has just failed may have met the answer to a HEAD request: open none again.

        A server that sends a body behind such an answer, which HTTP forbids, has it taken for the next answer.
        """
        given_up, self._is_ahead = self._is_ahead, False
        self._is_off = self._is_off or given_up
        return given_up

    def open(self) -> None:
        """Open a connection unless there is a fresh one. It never raises: the request reports failures."""
        now = time.monotonic()
        if self._is_off:
            return
        if self._used is None or now - self._used > (FRESH_SECONDS if self._keeps else UNUSED_CONNECTION_SECONDS):
            self._used = now
            self._opening = asyncio.create_task(self._head(), name="preconnect")

    async def close(self) -> None:
        """Cancel the connection that is being opened."""
        if self._opening:
            self._opening.cancel()
            await asyncio.wait([self._opening])

    async def _head(self) -> None:
        try:
            kept = {"Connection": "keep-alive"}
            await self._client.head(self._root, headers=kept, timeout=CONNECT_TIMEOUT, follow_redirects=False)
            self._used, self._is_ahead = time.monotonic(), True
        except Exception as error:
            import httpx2

            self._is_ahead = not isinstance(error, httpx2.TransportError)  # a hook of the client refused the answer
            log.debug("No connection was opened in advance: %s", type(error).__name__)
