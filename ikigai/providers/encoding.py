"""Write the bodies of requests: one JSON object whose last key is the list of messages.

So two successive requests share the longest possible prefix, which is what providers' caches go by, and sizes add up
message by message. A message is serialized once however often it is sent.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import msgspec

from ikigai.core.events.messages import ASSISTANT, Document, Image, Message, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import CrossModelFormat, fit_message
from ikigai.core.text.tokens import BYTES_PER_TOKEN

PDF_PAGE_TOKENS = {
    # An image of each page and its text. The image: at most 1,600 tokens of the older limit (build-with-claude/vision).
    "anthropic": (1_600, True),
    # An image of each page and its text (guides/pdf-files). Its size is not published: the largest image is counted.
    "openai": (2_489, True),
    # 258 tokens of each page (gemini-api/docs/document-processing), and its text (the table in media-resolution).
    "gemini": (258, True),
    # 560 tokens of each page at the default resolution (gemini-api/docs/media-resolution); its text is not charged
    # (document-processing).
    "gemini level": (560, False),
}
"""By the vendor's rule: the tokens of each page of a PDF, and True if its text counts besides."""

LARGE_BODY_BYTES = 4 << 20
"""Size from which on a body takes a thread: what copies more than a megabyte lets other threads run."""

dumps = msgspec.json.Encoder().encode
OUTPUT_LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"})
"""The names of the output limit in bodies, or in an object of theirs."""


class BodyEncoder(ABC):
    """Writes requests to one model (`core.request.model.Encoder`, and `body`).

    A vendor's subclass defines `head`, `preface`, `entries` and `image_tokens`; `array` is the key of its list of
    messages.
    """

    array = "messages"
    pdf_rule = ""
    """The vendor's rule for PDFs, a name of PDF_PAGE_TOKENS; "" where no model takes any."""
    tool_rule = ""
    """The vendor's rule for schemas of tools, a name of `core.request.tool_rules.TOOL_RULES`; "" for none."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Fields that every body has besides its own; the fields of an object are merged into it."""

    def __init__(self, cross_model: CrossModelFormat) -> None:
        self._cross_model = cross_model
        self._written: dict[Message, bytes] = {}

    @abstractmethod
    def head(self, request: Request) -> dict[str, Any]:
        """Return the body without the list of messages, in a fixed order. Its size does not depend on the messages."""

    def preface(self, request: Request) -> list[Any]:
        """Return the entries of the list before the messages."""
        return []

    def tail(self, request: Request) -> dict[str, Any]:
        """Return the fields behind the messages: those that differ from request to request, and are no part of the
        prompt.
        """
        return {}

    def marked(self, request: Request, pieces: list[bytes]) -> list[bytes]:
        """Return the written messages with what this one request needs besides: marks for a cache, say."""
        return pieces

    @abstractmethod
    def entries(self, message: Message) -> list[Any]:
        """Return the entries of one message, fitted for this model: at least one."""

    @abstractmethod
    def image_tokens(self, image: Image) -> int:
        """Return the tokens that the vendor counts for an image."""

    @property
    def takes_pdfs(self) -> bool:
        """True if the model takes PDFs themselves."""
        return self._cross_model.pdfs

    def pdf_tokens(self, pdf: Document) -> int:
        """Return the tokens that the vendor counts for a PDF, where the model takes one."""
        page_tokens, has_text = PDF_PAGE_TOKENS[self.pdf_rule]
        return pdf.pages * page_tokens + has_text * -(-(pdf.whole or len(pdf.text.encode())) // BYTES_PER_TOKEN)

    def body(self, request: Request) -> bytes:
        """Return the whole body in UTF-8."""
        return b",".join(self.body_entries(request))

    def body_entries(self, request: Request) -> list[bytes]:
        """Return the body without the commas between the entries of its list of messages. The first one has what
        stands before the list, the last one what stands behind it.
        """
        pieces = self._pieces(request)
        # Only the messages of this request are kept: the next one shares most of them.
        self._written = dict(zip(request.messages, pieces, strict=True))
        marked = self.marked(request, pieces)
        tail = self._whole_tail(request)
        left_out = (OUTPUT_LIMITS if request.output_cap else frozenset[str]()) | tail.keys()
        entries = self._framed_entries(self.head(request), self.preface(request), marked, left_out)
        if tail:
            entries[-1] = b"%b,%b" % (entries[-1][:-1], dumps(tail)[1:])
        return entries

    def countable(self, request: Request) -> bytes:
        """Return the body for an endpoint that counts. It leaves the cache of written messages unchanged."""
        return b",".join(self._framed_entries(self.head(request), self.preface(request), self._pieces(request)))

    def unwritten_size(self, request: Request) -> int:
        """Return the bytes of pictures and PDFs in the last messages, from the first on that was not sent before."""
        size = 0
        for message in reversed(request.messages):
            if self._written and message in self._written:
                break
            size += _data_size(message)
        return size

    def _pieces(self, request: Request) -> list[bytes]:
        return [self._written.get(message) or self._write(message) for message in request.messages]

    def envelope(self, request: Request) -> int:
        preface, tail = self.preface(request), self._whole_tail(request)
        [frame] = self._framed_entries(self.head(request), preface, [], frozenset(tail))
        framed = len(frame) - (not preface)
        return framed + len(dumps(tail)) - 1 if tail else framed

    def _whole_tail(self, request: Request) -> dict[str, Any]:
        return {name: _joined(value, self.extra.get(name, value)) for name, value in self.tail(request).items()}

    def _framed_entries(
        self, head: dict[str, Any], preface: list[Any], pieces: list[bytes], left_out: frozenset[str] = frozenset()
    ) -> list[bytes]:
        """Return the body up to the messages, as `body_entries` does.

        `left_out` are the fields of `extra`, and in them, that it does not have: the fields of the tail, and output
        limits where the request asks for what spending caps leave.
        """
        for name, value in self.extra.items():
            if name in left_out:
                continue
            if isinstance(value, dict):
                value = {key: each for key, each in cast("dict[str, Any]", value).items() if key not in left_out}
            head[name] = _joined(head.get(name), value)
        entries = [*([dumps(preface)[1:-1]] if preface else []), *pieces] or [b""]
        entries[0] = b"%b,%b:[%b" % (dumps(head)[:-1], dumps(self.array), entries[0])
        entries[-1] += b"]}"
        return entries

    def message(self, message: Message) -> int:
        # Not kept: an open turn is measured after every event, and most of the measured messages are never sent like
        # that.
        fitted = fit_message(message, self._cross_model)
        size = len(dumps(self.entries(fitted))) - 1
        if fitted.role is not ASSISTANT:
            for image in fitted.images:
                size -= len(image.data) - BYTES_PER_TOKEN * self.image_tokens(image)
            for pdf in fitted.pdfs:
                size -= len(pdf.data) - BYTES_PER_TOKEN * self.pdf_tokens(pdf)
        return size

    def _write(self, message: Message) -> bytes:
        return dumps(self.entries(fit_message(message, self._cross_model)))[1:-1]


async def write_body(encoder: BodyEncoder, request: Request) -> bytes:
    """Return the body of the request. A thread writes a large one: there, keys are heard meanwhile."""
    if encoder.unwritten_size(request) < LARGE_BODY_BYTES:
        entries = encoder.body_entries(request)
    else:
        entries = await asyncio.to_thread(encoder.body_entries, request)
    if sum(map(len, entries)) < LARGE_BODY_BYTES:
        return b",".join(entries)
    return await asyncio.to_thread(b",".join, entries)


async def write_countable(write: Callable[[Request], bytes], request: Request) -> bytes:
    """Return the body for an endpoint that counts, as `write` makes it: in a thread, if it is large."""
    if sum(map(_data_size, request.messages)) < LARGE_BODY_BYTES:
        return write(request)
    return await asyncio.to_thread(write, request)


def _data_size(message: Message) -> int:
    """Return the bytes of the pictures and PDFs that the user sent in this message, or a tool."""
    if message.role is ASSISTANT:
        return 0
    return sum(len(image.data) for image in message.images) + sum(len(pdf.data) for pdf in message.pdfs)


def is_json_object(text: str) -> bool:
    """Return True if the text is a JSON object."""
    try:
        msgspec.json.decode(text, type=dict[str, object])
    except (ValueError, RecursionError):
        return False
    return True


def json_object(text: str) -> msgspec.Raw:
    """Return the text of an object byte for byte, as it was written; {} if it is none, which would break the whole
    body.
    """
    return msgspec.Raw(text.encode() if is_json_object(text) else b"{}")


@lru_cache(maxsize=1024)
def tool_parameters(schema: str) -> dict[str, Any]:
    """Return the schema of a tool for OpenAI and Google: they refuse an array without `items`, which may hold anything.

    Nobody may change it.
    """
    decoded = msgspec.json.decode(schema, type=dict[str, Any])
    _complete_arrays(decoded)
    return decoded


def _complete_arrays(schema: Any) -> None:
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            _complete_arrays(each)
    elif isinstance(schema, dict):
        found = cast("dict[str, Any]", schema)
        for each in found.values():
            _complete_arrays(each)
        if found.get("type") in ("array", ["array", "null"]) and found.keys().isdisjoint(("items", "prefixItems")):
            found["items"] = {}


def result_text(result: ToolResult) -> str:
    """Return a tool's result as text, for formats without a field for errors."""
    return f"[error] {result.content}" if result.is_error else result.content


def _joined(own: Any, more: Any) -> Any:
    """Return a field of the body with what the configuration says of it: objects join, other values are replaced."""
    return own | more if isinstance(own, dict) and isinstance(more, dict) else more
