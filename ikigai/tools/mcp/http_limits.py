"""Limit the answers of MCP servers over HTTP, and notice when a server no longer knows the session.

Each answer has at most `MAX_MESSAGE_BYTES`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2

from ikigai.tools.mcp.host_messages import MAX_MESSAGE_BYTES


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose answers end with an error where they grow too long. An event stream has no end: the SDK bounds
    each of its events. `on_unknown_session` is called where the server does not know the session of a message.
    """

    def __init__(self, on_unknown_session: Callable[[], None], proxy: str | None = None) -> None:
        super().__init__(proxy=proxy)
        self._on_unknown_session = on_unknown_session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"  # a few compressed bytes can stand for any number
        response = await super().handle_async_request(request)
        if response.status_code == 404 and request.method == "POST" and "mcp-session-id" in request.headers:
            self._on_unknown_session()
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _LimitedStream(response.stream)
        return response


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: object) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(f"its answer is longer than {MAX_MESSAGE_BYTES >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
