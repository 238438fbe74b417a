"""One reply over any SDK: how long to be patient, when a stream is whole, and where exceptions become words.

A vendor brings an address, a way to post a body and get its answer, and a pure reader of what comes (`Reader`). The SDK
carries the request (connections, TLS, headers, status errors, framing); the body is serialised by the vendor's encoder,
so that its length is what memory measured; retries are `retry.py`'s.
"""

import asyncio
import importlib
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.request.build import Request
from ikigai.core.request.reply import Broke, Counted, Delta, Finished, ProviderEvent, ThinkingDelta
from ikigai.providers import failures
from ikigai.providers.failures import Target
from ikigai.providers.network import bracketed
from ikigai.providers.preconnect import Ahead, of_client
from ikigai.providers.vendor import FIRST, IDLE
from ikigai.system import gc_pause as collector

CONNECT = 10.0
"""Seconds for a connection to come about."""
LINGER = 5.0
"""Seconds to wait, once the reply is whole, for the token counts behind it."""
NOT_A_STREAM = ("text/html", "application/json")
PAGE = 65_536
"""Bytes read at most of an answer that is no stream."""

FORM = re.compile(
    r"(response|output|text).?format|output_config|json.?(mode|schema)|response.?(mime|schema)|structured.?output|grammar"
    r"|requested parameters",
    re.IGNORECASE,
)
"""How a request is refused for the JSON schema that its reply is to keep to: the model cannot do it, or the server does
not know it. Words of OpenAI, Anthropic, Google, Groq, DeepSeek, llama.cpp and OpenRouter."""
REFUSED = (400, 404, 422)
"""Statuses that such a refusal has."""

log = logging.getLogger(__name__)


class Reader(Protocol):
    """What has been read of one stream so far: pure, fed with decoded chunks."""

    request_id: str

    @property
    def whole(self) -> bool:
        """Whether the end marker came."""
        ...

    def events(self, chunk: object) -> list[Delta | Counted | Broke]:
        """What one chunk says; a Broke is the last. A chunk of an unknown shape says nothing."""
        ...

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if the end marker came."""
        ...


class Answer(Protocol):
    """The open answer to one request: `chunks` are the decoded events of its stream, `pieces` its raw bytes instead."""

    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[object]: ...

    def pieces(self) -> AsyncIterator[bytes]: ...


class NoStream(Exception):
    """The server answered with success, but not with a stream; `body` is the beginning of what it sent."""

    def __init__(self, body: object) -> None:
        super().__init__("not a stream")
        self.body = body


class Streaming(ABC):
    """A model behind an SDK. Construction is cheap; the SDK is loaded by `warm` or the first request.

    `first` and `idle` are seconds, as FIRST and IDLE. Raises ConfigError for a key or an address that cannot work.
    """

    def __init__(self, name: str, base_url: str, api_key: str, first: float = FIRST, idle: float = IDLE) -> None:
        self.name, self.base_url = name, base_url
        self.host, self.address = checked_address(name, base_url)
        self.key = checked_key(name, api_key)
        self._first, self._idle = first, idle
        self._connecting = asyncio.Lock()
        self._client: Any = None
        self._ahead: Ahead | None = None
        self._formless = set[str]()  # models that are asked without a schema

    # ── what a vendor brings ──

    @abstractmethod
    def connect(self) -> tuple[Any, Any]:
        """Load the SDK and make its client and the httpx2 client below it; runs in a thread.

        Redirects and SDK retries are off.
        """

    @abstractmethod
    def post(self, client: Any, request: Request) -> AbstractAsyncContextManager[Answer]:
        """Send the request; entered when the headers are here. Raises whatever the SDK and the network raise."""

    @abstractmethod
    def reader(self, request: Request, target: Target) -> Reader: ...

    def refusal(self, error: Exception) -> tuple[int, object, Mapping[str, str]] | None:
        """Status, body and headers of an HTTP answer that the SDK raised; status 0 is an error within the stream."""
        response, body = getattr(error, "response", None), getattr(error, "body", None)
        if response is not None and response.status_code >= 300:
            return response.status_code, body, response.headers
        return (0, body, {}) if body is not None else None

    # ── what all share ──

    async def warm(self) -> None:
        """Load the SDK in a thread, ahead of the first request. Never raises: a request tells what is wrong."""
        try:
            await self.connected()
        except Exception:
            log.debug("The SDK of %s could not be loaded", self.name, exc_info=True)

    def expect(self) -> None:
        """A request will come soon: have a connection open by then. Costs nothing where there is one."""
        if self._ahead:
            self._ahead.open()

    async def close(self) -> None:
        client, self._client = self._client, None
        ahead, self._ahead = self._ahead, None
        if ahead:
            await ahead.close()
        if client is not None:
            await client.close()

    async def connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                with collector.off(imports=True):
                    self._client = await asyncio.to_thread(self._connected)
            return self._client

    def _connected(self) -> Any:
        client, http = self.connect()
        self._ahead = of_client(http, self.base_url, CONNECT)
        with suppress(ImportError):  # the first request would import it, with the event loop waiting
            importlib.import_module("anyio._backends._asyncio")
        return client

    def target(self, model: str) -> Target:
        return Target(self.name, model, self.address)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Send the request; yields what comes. Never raises but for cancellation, which closes the connection."""
        target = self.target(request.model)
        reader = self.reader(request, target)
        watch = _Watch(self._first, self._idle)
        try:
            async with aclosing(self._chunks(request, reader, watch)) as chunks:
                async for chunk in chunks:
                    for event in reader.events(chunk):
                        if isinstance(event, Broke):
                            yield failures.told(event, self.key)
                            return
                        watch.saw(event)
                        yield event
        except Exception as error:
            if not reader.whole:
                broke = failures.told(self.broke(error, target, watch, reader.request_id), self.key)
                log.debug("%s: %s", type(error).__name__, broke.text)  # a traceback could hold the key
                yield broke
                return
        yield reader.end()

    async def _chunks(self, request: Request, reader: Reader, watch: "_Watch") -> AsyncGenerator[object, None]:
        async with asyncio.timeout(watch.patience):
            answering, answer = await self._answering(await self.connected(), request)
        try:
            watch.opened = True
            reader.request_id = request_id(answer.headers)
            if answer.headers.get("content-type", "").partition(";")[0].strip().lower() in NOT_A_STREAM:
                async with asyncio.timeout(self._idle):
                    raise NoStream(await page(answer.pieces()))
            chunks, loop = answer.chunks(), asyncio.get_running_loop()
            async with asyncio.timeout(None) as limit:
                while True:
                    watch.whole = reader.whole
                    limit.reschedule(loop.time() + watch.patience)
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        return
                    limit.reschedule(None)  # whoever takes the chunk has all the time they want
                    yield chunk
        finally:
            await answering.__aexit__(None, None, None)

    async def _answering(self, client: Any, request: Request) -> tuple[AbstractAsyncContextManager[Answer], Answer]:
        """The open answer. A model that refuses to keep to a schema is asked without, now and from then on."""
        if request.schema and request.model in self._formless:
            request = replace(request, schema="")
        answering = self.post(client, request)
        try:
            return answering, await answering.__aenter__()
        except Exception as error:
            status, body, _ = self.refusal(error) or (0, None, {})
            if not request.schema or status not in REFUSED or not FORM.search(str(body)):
                raise
            log.debug("%s refused the form of the reply; sent again without", self.name)
        answering = self.post(client, replace(request, schema=""))
        answer = await answering.__aenter__()
        self._formless.add(request.model)
        return answering, answer

    def broke(self, error: Exception, target: Target, watch: "_Watch", id: str = "") -> Broke:
        """The one place where exceptions become words."""
        if isinstance(error, NoStream):
            return failures.no_stream(target, error.body, id)
        if isinstance(error, TimeoutError):
            return failures.silent(target, watch.patience, id)
        if refusal := self.refusal(error):
            status, body, headers = refusal
            if status:
                return failures.answered(target, status, body, headers, time.time())
            return failures.reported(target, body, id)
        return failures.thrown(target, error, watch.opened, id)

    def untold(self, error: Exception, seconds: float) -> IkigaiError:
        """What became of asking for a list of models, for `seconds` at most, in words."""
        broke = self.broke(error, self.target("to list"), _Watch(seconds, seconds))
        return failures.Untold(failures.told(broke, self.key))


class _Watch:
    """How long to wait for what comes next, in seconds."""

    def __init__(self, first: float, idle: float) -> None:
        self._first, self._idle = first, idle
        self.opened = False
        self.whole = False
        self._thinking = True  # until something is said: hidden thinking sends nothing at all

    def saw(self, event: Delta | Counted) -> None:
        if not isinstance(event, Counted):
            self._thinking = isinstance(event, ThinkingDelta)

    @property
    def patience(self) -> float:
        if self.whole:
            return min(LINGER, self._idle)
        return self._first if self._thinking else self._idle


def request_id(headers: Mapping[str, str]) -> str:
    return headers.get("x-request-id") or headers.get("request-id") or ""


async def page(pieces: AsyncIterator[bytes]) -> object:
    """The beginning of an answer: decoded JSON if it is, else text."""
    page = b""
    async for piece in pieces:
        page += piece
        if len(page) > PAGE:
            break
    try:
        return msgspec.json.decode(page)
    except (msgspec.DecodeError, RecursionError):
        return page[:PAGE].decode(errors="replace")


def checked_key(name: str, key: str) -> str:
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"The key for {name} holds a space, a line break or a character that no key has.",
            "Copy it again, without what stands around it.",
        )
    return key


def checked_address(name: str, base_url: str) -> tuple[str, str]:
    """Host, and the address as it may be shown (without user and password)."""
    remedy = "Write it whole, like http://localhost:8080/v1."
    try:
        url = urlsplit(base_url)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise ConfigError(f"The address of {name} is no URL.", remedy) from None
    if url.scheme not in ("http", "https") or not host or not base_url.isprintable() or " " in base_url:
        raise ConfigError(f"The address of {name} lacks http:// or https:// in front of a host.", remedy)
    if url.query or url.fragment:
        raise ConfigError(f"The address of {name} has something behind its path.", remedy)
    return host, f"{url.scheme}://{bracketed(host)}{f':{port}' if port else ''}{url.path}"
