"""One stream of a model: the open answer that brings its chunks, and the reader that understands them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from ikigai.core.request.reply import Delta, StreamFailed, StreamFinished, UsageUpdate


class StreamReader(Protocol):
    """The state of one stream so far: pure, fed with decoded chunks."""

    request_id: str

    @property
    def whole(self) -> bool:
        """True once the end marker came."""
        ...

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. A chunk of an unknown shape has none."""
        ...

    def end(self) -> StreamFinished | StreamFailed:
        """Return the last event of a stream that has ended: whole only if the end marker came."""
        ...


class OpenStream(Protocol):
    """The open answer to one request: `chunks` are the decoded events of its stream, `pieces` its raw bytes instead."""

    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[object]: ...

    def pieces(self) -> AsyncIterator[bytes]: ...


class NoStream(Exception):
    """The server answered with success, but not with a stream; `body` is the beginning of its content."""

    def __init__(self, body: object) -> None:
        super().__init__("not a stream")
        self.body = body


OpenedAnswer: TypeAlias = tuple[AbstractAsyncContextManager[OpenStream], OpenStream]
"""An open answer, and the manager that closes it."""
