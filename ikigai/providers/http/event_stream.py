"""Decode the events of a stream (text/event-stream with JSON in it), as all vendors' servers send them.

The decoders of the SDKs differ in what they take: one reads comments and named events as errors, one skips events
without a name, and one takes quadratic time. This one takes all of that, in linear time and with a cap on a line.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import cast

from ikigai.providers.http.answer_limits import MAX_LINE_BYTES, UnusableAnswer

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FIELDS = ("data", "event", "id", "retry", "")
"""Names before the colon of a line; without a name it is a comment."""
PINGS = ("ping", "keepalive", "keep-alive", "heartbeat")
"""Names of events that say nothing."""
DRAIN_SECONDS = 0.25
"""Time for the rest of the answer behind [DONE]: a connection whose answer was read whole can be used again."""


async def decode_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[object, None]:
    """Yield the decoded JSON of each event.

    Raise ValueError or RecursionError for an event that is not JSON, UnusableAnswer for a line above the cap.
    """
    decoder = EventDecoder()
    async with aclosing(cast("AsyncGenerator[bytes, None]", pieces)):
        async for piece in pieces:
            for event in decoder.feed(piece):
                yield event
            if decoder.done:
                try:
                    async with asyncio.timeout(DRAIN_SECONDS):
                        async for _ in pieces:
                            pass
                except Exception:  # the reply is here
                    return
        for event in decoder.finish():
            yield event


class EventDecoder:
    """The bytes so far; `done` says that the marker behind the last event came."""

    def __init__(self) -> None:
        self.done = False
        self._line: list[bytes] = []  # the pieces of one that has not ended
        self._size = 0  # of that line, and of the data of the event under way
        self._is_first = True
        self._after_return = False
        self._event = ""
        self._data: list[str] = []
        self._json: list[str] = []  # lines of an error that Google sends outside events

    def feed(self, piece: bytes) -> Iterator[object]:
        """Yield the events that end in the next piece."""
        for line in piece.splitlines(keepends=True):
            if self._after_return and line == b"\n":  # the second half of a \r\n between two pieces
                self._after_return = False
                continue
            self._size += len(line)
            if self._size > MAX_LINE_BYTES:
                raise UnusableAnswer(f"sent a line of more than {MAX_LINE_BYTES >> 20} MiB")
            self._line.append(line)
            self._after_return = line.endswith(b"\r")
            if line.endswith((b"\n", b"\r")):
                yield from self._end_line()
                if self.done:
                    return

    def finish(self) -> Iterator[object]:
        """Yield the event at the end of a stream that lacks the empty line behind it."""
        try:
            yield from self._end_line()
            yield from self._end_event()
            if self._json:
                yield json.loads("\n".join(self._json))
        except (ValueError, RecursionError):  # it was cut within
            return

    def _end_line(self) -> Iterator[object]:
        whole, self._line = b"".join(self._line), []
        if self._is_first and whole:
            whole, self._is_first = whole.removeprefix(BYTE_ORDER_MARK), False
        line = whole.decode().rstrip("\r\n")
        if not line:
            yield from self._end_event()
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._event = value.strip()
        elif name not in FIELDS:
            yield from self._bare(line)

    def _bare(self, line: str) -> Iterator[object]:
        """Yield JSON that stands outside events, once it is whole."""
        if self._json or line[0] in "{[":
            self._json.append(line)
            if line[0] in "{}" and line.endswith("}"):
                text, self._json = "\n".join(self._json), []
                yield json.loads(text)

    def _end_event(self) -> Iterator[object]:
        data, event = "\n".join(self._data), self._event
        self._data, self._event, self._size = [], "", sum(map(len, self._json))
        if event == "error":
            yield _error(data)
        elif data.startswith("[DONE]"):
            self.done = True
        elif data and event not in PINGS:
            value = json.loads(data)
            yield {"type": event} | value if event and isinstance(value, dict) else value


def _error(data: str) -> dict[str, object]:
    """Return an event named "error" as an object that says so, whatever its data is."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return {**value, "type": "error"}
    return {"type": "error", "error": {"message": data}}
