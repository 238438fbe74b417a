"""Adapt the open answer of the vendors' SDKs, all of which bring an httpx2 response."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from ikigai.providers.http.event_stream import decode_events


class SdkAnswer:
    """`open_stream.OpenStream` over the SDK's httpx2 response."""

    def __init__(self, response: Any) -> None:
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def chunks(self) -> AsyncGenerator[object, None]:
        return decode_events(self._response.aiter_bytes())

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()
