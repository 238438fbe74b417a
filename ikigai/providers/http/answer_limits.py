"""Limit the memory that a server's answer can take: its body, whatever it was compressed from.

part of an answer                        at most             beyond that
headers                                  about 100 KiB       the HTTP client's own limit: refused
body of an error                         64 KiB              the rest is not read
body of an answer that is not a stream   16 MiB              refused
line of a stream (`event_stream`)        32 MiB              refused
text, thinking and calls of a reply      16 MiB              refused (`streaming`)

Compressed bytes are taken apart in pieces of 64 KiB, so that a small body cannot become a large one in memory.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import msgspec

MAX_ERROR_BODY_BYTES = 65_536
"""Bytes read at most of an answer that reports an error."""
MAX_ANSWER_BYTES = 16 << 20
"""Bytes read at most of an answer that is neither an error nor a stream: a list of models, a whole reply."""
MAX_LINE_BYTES = 32 << 20
"""Bytes of a line of a stream, or of all lines of one event."""
MAX_REPLY_CHARACTERS = 16 << 20
"""Characters of the text, thinking and calls of one reply."""

ACCEPTED_ENCODINGS = "gzip, deflate"
PIECE_BYTES = 65_536
"""Bytes that a compressed body is taken apart in at a time."""
WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class UnusableAnswer(Exception):
    """An answer that is not read on; the message says what the server did, in the past tense."""


async def limit_answer(response: Any) -> None:
    """Limit the body of an httpx2 response; a hook of the client, which runs before the body is read."""
    encoding = response.headers.pop("content-encoding", "").strip().lower()
    stops = response.status_code >= 300
    most: int | None = MAX_ERROR_BODY_BYTES if stops else MAX_ANSWER_BYTES
    if not stops and "text/event-stream" in (_media_type(response.headers), response.request.headers.get("accept")):
        most = None
    response.stream = _stream_class()(response.stream, encoding, most, stops)


def _media_type(headers: Any) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


@cache
def _stream_class() -> Any:
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        """The body of a response without its compression, `most` bytes of it; with `stops` it ends there."""

        def __init__(self, stream: Any, encoding: str, most: int | None, stops: bool) -> None:
            self._stream, self._encoding, self._most, self._stops = stream, encoding, most, stops

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in decompress(self._stream, self._encoding):
                size += len(piece)
                if self._most is None or size <= self._most:
                    yield piece
                elif self._stops:
                    yield piece[: self._most - size]
                    return
                else:
                    raise UnusableAnswer(f"sent an answer of more than {self._most >> 20} MiB")

        async def aclose(self) -> None:
            await self._stream.aclose()

    return LimitedStream


async def decompress(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield the body of a response, in small pieces if it is compressed. Raise UnusableAnswer if it cannot be read."""
    if encoding in ("", "identity"):
        async for piece in pieces:
            yield piece
        return
    if encoding not in WINDOW_BITS:
        raise UnusableAnswer(f"compressed its answer in a way that was not asked for ({encoding[:40]})")
    unpacker = zlib.decompressobj(WINDOW_BITS[encoding])
    try:
        async for piece in pieces:
            while piece and not unpacker.eof:
                yield unpacker.decompress(piece, PIECE_BYTES)
                piece = unpacker.unconsumed_tail
                await asyncio.sleep(0)  # keys and signals are heard in between
        if rest := unpacker.flush(PIECE_BYTES):
            yield rest
    except zlib.error:
        raise UnusableAnswer("sent a compressed answer that cannot be read") from None


async def read_page(pieces: AsyncIterator[bytes], most: int = MAX_ERROR_BODY_BYTES) -> object:
    """Return an answer, `most` bytes of it: decoded JSON if possible, else the beginning of the text.

    Raise UnusableAnswer for more than that where it is not only for an error message.
    """
    parts: list[bytes] = []
    size = 0
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > most > MAX_ERROR_BODY_BYTES:
            raise UnusableAnswer(f"sent an answer of more than {most >> 20} MiB")
        if size > most:
            break
    page = b"".join(parts)
    try:
        return msgspec.json.decode(page)
    except (msgspec.DecodeError, RecursionError):
        return page[:MAX_ERROR_BODY_BYTES].decode(errors="replace")
