"""This module adapts the open answer of the SDKs of Anthropic and OpenAI: both come of one generator."""

from collections.abc import AsyncIterator, Mapping
from typing import Any


class SdkAnswer:
    """`streaming.OpenStream` over the SDK's `AsyncStream`."""

    def __init__(self, stream: Any) -> None:
        self.headers: Mapping[str, str] = stream.response.headers
        self._stream = stream

    def chunks(self) -> AsyncIterator[object]:
        return self._stream

    def pieces(self) -> AsyncIterator[bytes]:
        return self._stream.response.aiter_bytes()
