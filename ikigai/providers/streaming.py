"""Stream one reply over any SDK: limit waits, check that the stream is complete, and word exceptions.

A vendor brings an address, a way to post a body and get its answer, and a pure reader of the chunks (`StreamReader`).
The SDK carries the request (connections, TLS, headers, status errors, framing). The vendor's encoder serializes the
body, so that its length is what memory measured. Retries are `retry.py`'s.
"""

import asyncio
import importlib
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl

from msgspec.structs import replace

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.events.messages import ToolCall
from ikigai.core.request.build import Request
from ikigai.core.request.reply import (
    CitationDelta,
    Delta,
    FailureKind,
    HostedDelta,
    ProviderEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.providers import clouds, lazy_sdk
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.http import failures, network
from ikigai.providers.http.answer_limits import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_BODY_BYTES,
    MAX_REPLY_CHARACTERS,
    UnusableAnswer,
    limit_answer,
    read_page,
)
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.http.preconnect import ConnectionOpener
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.open_stream import NoStream, OpenedAnswer, OpenStream, StreamReader
from ikigai.providers.vendor import FIRST_PIECE_TIMEOUT, PIECE_TIMEOUT
from ikigai.system import gc_pause

USAGE_TIMEOUT = 5.0
"""Seconds to wait, once the reply is whole, for the token counts after it."""
HTML, JSON = "text/html", "application/json"
"""Content types of an answer that is no stream."""

SCHEMA_REFUSED = re.compile(
    r"(response|output|text).?format|output_config|json.?(mode|schema)|response.?(mime|schema)|structured.?output|grammar"
    r"|requested parameters",
    re.IGNORECASE,
)
"""Matches the refusal of a request for the JSON schema of its reply: the model cannot do it, or the server does not
know it. Words of OpenAI, Anthropic, Google, Groq, DeepSeek, llama.cpp and OpenRouter.
"""
REFUSAL_STATUSES = (400, 404, 422)
"""Statuses that such a refusal has."""

E = TypeVar("E", bound=BodyEncoder)

log = logging.getLogger(__name__)


class StreamingProvider(ABC):
    """A model behind an SDK. Construction is cheap; `preload` or the first request loads it.

    An empty `base_url` is OWN_ADDRESS. `first` and `idle` are seconds, as FIRST_PIECE_TIMEOUT and PIECE_TIMEOUT.
    `traits` returns the abilities of a model. `headers` go with every request, and a query in `base_url` does; `body`
    returns fields that requests to a model have besides their own. `region` and `project` are a cloud's. `key_variable`
    is the environment variable that the key came from, "" for none. Raise ConfigError for a key or an address that
    cannot work.
    """

    OWN_ADDRESS: ClassVar[str]
    """The vendor's own address."""
    SDK: ClassVar[str] = ""
    """The package of the SDK, if it defers its exports (`lazy_sdk`)."""
    SIGN_IN: ClassVar[str] = ""
    """The command that makes the credentials of a cloud, for requests without a key."""

    def __init__(
        self,
        name: str,
        base_url: str = "",
        api_key: str = "",
        first: float = FIRST_PIECE_TIMEOUT,
        idle: float = PIECE_TIMEOUT,
        *,
        traits: Callable[[str], ModelTraits] = lambda model: ModelTraits(),
        headers: Mapping[str, str] = MappingProxyType({}),
        body: Callable[[str], Mapping[str, Any]] = lambda model: {},
        region: str = "",
        project: str = "",
        key_variable: str = "",
    ) -> None:
        self.name = name
        self._key_variable = key_variable
        self._region, self._project, self._has_address = region, project, bool(base_url)
        self.base_url, _, query = (base_url or self.OWN_ADDRESS).partition("?")
        self._query, self._more_headers, self._more_body = parse_qsl(query, keep_blank_values=True), headers, body
        self.host, self.address = network.check_address(name, self.base_url)
        self.key = _check_key(name, api_key)
        self._traits = traits
        self._encoders: dict[tuple[str | bool, ...], Any] = {}  # by model, and the parts left out for its server
        self._first, self._idle = first, idle
        self._connecting = asyncio.Lock()
        self._client: Any = None
        self._opener: ConnectionOpener | None = None
        self._without_schema = set[str]()  # models that refused a schema

    # ── what a vendor brings ──

    @abstractmethod
    def connect(self) -> tuple[Any, Any]:
        """Load the SDK and make its client and the httpx2 client below it; it runs in a thread.

        Redirects and SDK retries are off.
        """

    @abstractmethod
    def post(self, client: Any, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        """Send the request; entered when the headers are here. Errors of SDK and network pass through."""

    @abstractmethod
    def reader(self, request: Request, target: RequestTarget) -> StreamReader: ...

    def refusal(self, error: Exception) -> tuple[int, object, Mapping[str, str]] | None:
        """Return status, body and headers of an HTTP answer that the SDK raised."""
        response = getattr(error, "response", None)
        if response is None or response.status_code < 300:
            return None
        return response.status_code, getattr(error, "body", None), response.headers

    # ── what all share ──

    async def preload(self) -> None:
        """Load the SDK in a thread, ahead of the first request. It never raises: a request reports errors."""
        try:
            await self.connected()
        except Exception:
            log.debug("The SDK of %s could not be loaded", self.name, exc_info=True)

    def preconnect(self) -> None:
        if self._opener:
            self._opener.open()

    async def close(self) -> None:
        client, self._client = self._client, None
        opener, self._opener = self._opener, None
        if opener:
            await opener.close()
        if client is not None:
            await client.close()

    async def connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                with gc_pause.pause_gc(imports=True):
                    self._client = await asyncio.to_thread(self._connected)
            return self._client

    def _connected(self) -> Any:
        if self.SDK:
            lazy_sdk.defer_exports(self.SDK)
        client, http = self.connect()
        self._opener = ConnectionOpener(http, self.base_url)
        with suppress(ImportError):  # the first request would import it, with the event loop waiting
            importlib.import_module("anyio._backends._asyncio")
        return client

    def http_options(self) -> dict[str, Any]:
        """Return the options of the httpx2 client below the SDK, whose module is loaded by then."""
        hooks = {"request": [self._add_headers], "response": [limit_answer]}
        return network.client_options(self.base_url) | {"params": self._query, "event_hooks": hooks}

    async def _add_headers(self, request: Any) -> None:
        """Set the configured headers, which override the SDK's."""
        request.headers.update(self._more_headers)

    def extended(self, encoder: E, model: str) -> E:
        """Return the encoder, with the fields that the configuration adds to the requests to this model."""
        if extra := self._more_body(model):
            encoder.extra = extra
        return encoder

    def move_to(self, base_url: str) -> None:
        """Use another address from now on: the address of a region that is known only when the SDK is loaded."""
        self.base_url = base_url
        self.host, self.address = network.check_address(self.name, base_url)

    def target(self, model: str) -> RequestTarget:
        sign_in = "" if self.key else self.SIGN_IN
        return RequestTarget(self.name, model, self.address, sign_in, self._key_variable)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Send the request and yield its events. It raises only on cancellation, which closes the connection."""
        target = self.target(request.model)
        watch = _StreamWatch(self._first, self._idle)
        reader: StreamReader | None = None
        try:
            answering, answer = await self._answer(request, watch)
            reader = self.reader(request, target)
            try:
                chunks = _chunks(answer, reader, watch)
                while (chunk := await watch.next(chunks, reader)) is not _END:
                    for event in reader.events(chunk):
                        if isinstance(event, StreamFailed):
                            yield failures.name_tool(self._presentable(event), request.tools)
                            return
                        watch.record(event)
                        yield event
                if self._opener:
                    self._opener.used()
            finally:
                await answering.__aexit__(None, None, None)
        except Exception as error:
            if reader is None or not reader.whole:
                id = reader.request_id if reader else ""
                failure = self._presentable(self.failure_of(error, target, watch, id))
                failure = failures.name_tool(failure, request.tools)
                log.debug("%s: %s", type(error).__name__, failure.text)  # a traceback could hold the key
                yield failure
                return
        yield reader.end()

    async def _answer(self, request: Request, watch: "_StreamWatch") -> OpenedAnswer:
        """Send the request and return the open answer, within the time for that."""
        async with asyncio.timeout(watch.timeout):
            client = await self.connected()
            try:
                return await self._open_answer(client, request)
            except Exception as error:
                if self.refusal(error) or self._opener is None or not self._opener.give_up():
                    raise
                log.debug("%s: %s after a HEAD request; sent again", self.name, type(error).__name__)
                return await self._open_answer(client, request)

    async def _open_answer(self, client: Any, request: Request) -> OpenedAnswer:
        """Return the open answer. A model that refuses an optional schema is asked without, now and from then on."""
        is_optional = bool(request.schema) and not request.schema_required
        if is_optional and request.model in self._without_schema:
            request = replace(request, schema="")
        answering = self.post(client, request)
        try:
            return answering, await answering.__aenter__()
        except Exception as error:
            status, body, _ = self.refusal(error) or (0, None, {})
            if not is_optional or status not in REFUSAL_STATUSES or not SCHEMA_REFUSED.search(str(body)):
                raise
            log.debug("%s refused the reply format; it is sent again without it", self.name)
        answering = self.post(client, replace(request, schema=""))
        answer = await answering.__aenter__()
        self._without_schema.add(request.model)
        return answering, answer

    def failure_of(self, error: Exception, target: RequestTarget, watch: "_StreamWatch", id: str = "") -> StreamFailed:
        """Return the failure of an exception, in words."""
        if isinstance(error, IkigaiError):
            return StreamFailed(FailureKind.UNAVAILABLE, error.what, error.remedy)
        if missing := clouds.credential_failure(error):
            return missing
        if isinstance(error, NoStream):
            return failures.failure_without_stream(target, error.body, id)
        if unusable := failures.unusable_answer(error):
            return StreamFailed(
                FailureKind.REFUSED, f"{target.name} {unusable}.", "Check the address and the server.", request_id=id
            )
        if isinstance(error, TimeoutError):
            return failures.failure_of_silence(target, watch.timeout, id)
        if refusal := self.refusal(error):
            return failures.failure_of_response(target, *refusal, time.time())
        return failures.failure_of_exception(target, error, watch.opened, id)

    def _presentable(self, failure: StreamFailed) -> StreamFailed:
        for secret in (self.key, *self._more_headers.values()):
            failure = failures.presentable_failure(failure, secret)
        return failure

    def listing_error(self, error: Exception, seconds: float) -> IkigaiError:
        """Return the error of a request for a list of models, which had `seconds` at most."""
        failure = self.failure_of(error, self.target("to list"), _StreamWatch(seconds, seconds))
        return failures.ProviderRequestFailed(self._presentable(failure))


_END = object()
"""The end of a stream, behind its last chunk."""


class _StreamWatch:
    """The wait for the next piece, in seconds."""

    def __init__(self, first: float, idle: float) -> None:
        self._first, self._idle = first, idle
        self.opened = False
        self.whole = False
        self._size = 0
        self.thinking = True  # until text comes: hidden thinking sends nothing at all

    def record(self, event: Delta | UsageUpdate) -> None:
        """Take what came. Raise UnusableAnswer if the reply is larger than any can be."""
        match event:
            case UsageUpdate():
                return
            case ToolCallDelta():
                size = len(event.arguments)
            case HostedDelta(block):
                size = len(block.arguments) if isinstance(block, ToolCall) else len(block.content) + len(block.opaque)
            case CitationDelta(citations):
                size = sum(len(each.url) + len(each.title) + len(each.opaque) for each in citations)
            case TextDelta() | ThinkingDelta():
                size = len(event.text)
        self.thinking = isinstance(event, ThinkingDelta | HostedDelta)  # a search also sends nothing
        self._size += size
        if self._size > MAX_REPLY_CHARACTERS:
            raise UnusableAnswer(f"sent a reply of more than {MAX_REPLY_CHARACTERS >> 20} million characters")

    async def next(self, chunks: AsyncIterator[object], reader: StreamReader) -> object:
        """Return the next chunk, within the time for it; its consumer has no time limit."""
        self.whole = reader.whole
        async with asyncio.timeout(self.timeout):
            try:
                return await anext(chunks)
            except StopAsyncIteration:
                return _END

    @property
    def has_output(self) -> bool:
        return self._size > 0

    @property
    def timeout(self) -> float:
        if self.whole:
            return min(USAGE_TIMEOUT, self._idle)
        return self._first if self.thinking else self._idle


def _chunks(answer: OpenStream, reader: StreamReader, watch: _StreamWatch) -> AsyncIterator[object]:
    """Return the decoded chunks of the open answer."""
    watch.opened = True
    reader.request_id = request_id(answer.headers)
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    watch.thinking = kind != HTML
    return _page(answer, reader, watch) if kind in (HTML, JSON) else answer.chunks()


async def _page(answer: OpenStream, reader: StreamReader, watch: _StreamWatch) -> AsyncGenerator[object, None]:
    """Yield the content of an answer that is no stream: some servers send the whole reply as one.

    Raise NoStream if it is none.
    """
    page = await read_page(answer.pieces(), MAX_ANSWER_BYTES if watch.thinking else MAX_ERROR_BODY_BYTES)
    for whole in page if isinstance(page, list) else [page]:
        yield whole
    if not reader.whole and not watch.has_output:
        raise NoStream(page)


def request_id(headers: Mapping[str, str]) -> str:
    return headers.get("x-request-id") or headers.get("request-id") or ""


def _check_key(name: str, key: str) -> str:
    """Return the key. Raise ConfigError if it has a character that keys do not have."""
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"The key for {name} contains a space, a line break or a character that keys do not have.",
            "Copy it again, without the text around it.",
        )
    return key
