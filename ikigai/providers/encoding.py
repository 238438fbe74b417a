"""Bodies of requests: one JSON object whose last key is the list of messages.

So two successive requests share the longest possible prefix, which is what providers' caches go by, sizes add up
message by message, and a message is serialised once however often it is sent.
"""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from ikigai.core.messages import ASSISTANT, Image, Message, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import Dialect, fitted
from ikigai.core.tokens import BYTES_PER_TOKEN

dumps = msgspec.json.Encoder().encode


class BodyEncoder(ABC):
    """How requests to one model are written (`core.ports.Encoder`, and `body`).

    A vendor brings `head`, `preface`, `entries` and `image_tokens`; `array` is the key of its list of messages.
    """

    array = "messages"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._written: dict[Message, bytes] = {}

    @abstractmethod
    def head(self, request: Request) -> dict[str, Any]:
        """Everything of the body but the list of messages, in a fixed order. Its size is no matter of the messages."""

    def preface(self, request: Request) -> list[Any]:
        """What stands in the list before the messages."""
        return []

    @abstractmethod
    def entries(self, message: Message) -> list[Any]:
        """What one message, fitted for this model, is in the list: one entry or several, never none."""

    @abstractmethod
    def image_tokens(self, image: Image) -> int:
        """What the vendor counts for an image."""

    def body(self, request: Request) -> bytes:
        """The whole body in UTF-8."""
        pieces = self._pieces(request)
        # Only what this request holds is kept: the next one shares most of it.
        self._written = dict(zip(request.messages, pieces, strict=True))
        return self._framed(self.head(request), self.preface(request), pieces)

    def countable(self, request: Request) -> bytes:
        """The body for an endpoint that counts; what the next request shares with the last one stays as it is."""
        return self._framed(self.head(request), self.preface(request), self._pieces(request))

    def _pieces(self, request: Request) -> list[bytes]:
        return [self._written.get(message) or self._write(message) for message in request.messages]

    def envelope(self, request: Request) -> int:
        preface = self.preface(request)
        return len(self._framed(self.head(request), preface, [])) - (not preface)

    def _framed(self, head: dict[str, Any], preface: list[Any], pieces: list[bytes]) -> bytes:
        entries = b",".join([dumps(preface)[1:-1], *pieces] if preface else pieces)
        return b"%b,%b:[%b]}" % (dumps(head)[:-1], dumps(self.array), entries)

    def message(self, message: Message) -> int:
        # Not kept: an open turn is measured after every event, and most of what is measured is never sent like that.
        size = len(dumps(self.entries(fitted(message, self._dialect)))) - 1
        if message.role is not ASSISTANT and self._dialect.images:
            for image in message.images:
                size -= len(image.data) - BYTES_PER_TOKEN * self.image_tokens(image)
        return size

    def _write(self, message: Message) -> bytes:
        return dumps(self.entries(fitted(message, self._dialect)))[1:-1]


def told(result: ToolResult) -> str:
    """What came of a tool, for formats that have no other place to say that it failed."""
    return f"[error] {result.content}" if result.is_error else result.content
