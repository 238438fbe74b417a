"""OpenAI, and every server that speaks its Chat Completions: the official SDK behind `core.ports.Provider`.

The SDK carries the request (connections, TLS, headers, status errors, server-sent events); body and meaning are
`chat.py`'s, words for failures `failures.py`'s, retries `retry.py`'s. The body is serialised here and not by the SDK,
so that its length is what `ChatEncoder` says.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.reply import Broke, ProviderEvent
from ikigai.core.request import Request
from ikigai.providers import failures
from ikigai.providers.chat import ChatEncoder, Reading, dumps, events, wire

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"

CONNECT = 10.0
"""Seconds for a connection to come about."""
LINGER = 5.0
"""Seconds to wait, once the reply is whole, for the token counts behind it."""
NOT_A_STREAM = ("text/html", "application/json")
PAGE = 65_536
"""Bytes read at most of an answer that is no stream."""

log = logging.getLogger(__name__)


class OpenAIProvider:
    """A server that speaks Chat Completions. Construction is cheap; the SDK is loaded by `warm` or the first request.

    An empty `base_url` is OpenAI's own. `first` is how long, in seconds, the first piece of a reply may take (long
    prompts and hidden thinking take minutes), `idle` how long each further one. Raises ConfigError for a key or an
    address that cannot work.
    """

    def __init__(
        self, name: str, base_url: str = "", api_key: str = "", first: float = 300.0, idle: float = 90.0
    ) -> None:
        base_url = base_url or OPENAI
        self.name = name
        self.host, self.address = _checked_address(name, base_url)
        official = self.host == "api.openai.com" or self.host.endswith((".api.openai.com", ".openai.azure.com"))
        self.encoder = ChatEncoder(official)
        self._official = official
        self._base_url = base_url
        self._key = _checked_key(name, api_key)
        self._first = first
        self._idle = idle
        self._usage = True
        self._client: openai.AsyncOpenAI | None = None
        self._connecting = asyncio.Lock()

    async def warm(self) -> None:
        """Load the SDK in a thread, ahead of the first request. Never raises: a request tells what is wrong."""
        try:
            await self._connected()
        except Exception:
            log.debug("The SDK of %s could not be loaded", self.name, exc_info=True)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client:
            await client.close()

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Send the request; yields what comes. Never raises but for cancellation, which closes the connection."""
        target = failures.Target(self.name, request.model, self.address)
        taken = frozenset(call.id for message in request.messages for call in message.calls)
        reading = Reading(target, taken)
        try:
            async with aclosing(self._chunks(request, reading)) as chunks:
                async for chunk in chunks:
                    for event in events(chunk, reading):
                        yield failures.told(event, self._key) if isinstance(event, Broke) else event
                        if isinstance(event, Broke):
                            return
        except Exception as error:
            if not reading.finish:
                broke = failures.told(self._broke(error, reading), self._key)
                log.debug("%s: %s", type(error).__name__, broke.text)  # a traceback could hold the key
                yield broke
                return
        yield reading.end()

    async def _chunks(self, request: Request, reading: Reading) -> AsyncGenerator[Any, None]:
        """The decoded chunks of one answer; raises whatever the SDK and the network raise."""
        async with asyncio.timeout(self._first):
            stream = await self._open(request)
        async with stream:
            reading.opened = True
            headers = stream.response.headers
            reading.request_id = headers.get("x-request-id") or ""
            if headers.get("content-type", "").partition(";")[0].strip().lower() in NOT_A_STREAM:
                async with asyncio.timeout(self._idle):
                    raise NoStream(await _page(stream.response))
            while True:
                async with asyncio.timeout(self._patience(reading)):
                    try:
                        chunk = await anext(stream)
                    except StopAsyncIteration:
                        return
                yield chunk

    def _patience(self, reading: Reading) -> float:
        if reading.finish:
            return min(LINGER, self._idle)
        return self._idle if reading.started else self._first

    async def _open(self, request: Request) -> "openai.AsyncStream[Any]":
        client = await self._connected()
        try:
            return await self._post(client, request)
        except Exception as error:
            # Asking for token counts is all that a server may dislike and we can do without.
            if not self._usage or "stream_options" not in str(getattr(error, "body", "")):
                raise
        self._usage = False
        return await self._post(client, request)

    async def _post(self, client: "openai.AsyncOpenAI", request: Request) -> "openai.AsyncStream[Any]":
        import openai

        return await client.post(
            "/chat/completions",
            content=dumps(wire(request, self._official, self._usage)),
            cast_to=object,
            stream=True,
            stream_cls=openai.AsyncStream[object],
            options={
                "headers": {"Content-Type": "application/json", "Accept": "text/event-stream"},
                "follow_redirects": False,  # neither key nor conversation goes where nobody sent them
                "security": {"bearer_auth": True},
            },
        )

    async def _connected(self) -> "openai.AsyncOpenAI":
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> "openai.AsyncOpenAI":
        import openai

        timeout = openai.Timeout(None, connect=CONNECT)
        # A proxy from the environment is not meant for servers on this machine.
        direct = {f"all://{_bracketed(self.host)}": None} if _loopback(self.host) else None
        return openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpx2Client(timeout=timeout, mounts=direct),
        )

    def _broke(self, error: Exception, reading: Reading) -> Broke:
        """The one place where exceptions become words."""
        target, id = reading.target, reading.request_id
        if isinstance(error, NoStream):
            return failures.no_stream(target, error.body, id)
        if isinstance(error, TimeoutError):
            return failures.silent(target, self._patience(reading), id)
        response, body = getattr(error, "response", None), getattr(error, "body", None)
        if response is not None:
            return failures.answered(target, response.status_code, body, response.headers, time.time())
        if body is not None:
            return failures.reported(target, body, id)
        return failures.thrown(target, error, reading.opened, id)


class NoStream(Exception):
    """The server answered with success, but not with a stream; `body` is the beginning of what it sent."""

    def __init__(self, body: object) -> None:
        super().__init__("not a stream")
        self.body = body


async def _page(response: Any) -> object:
    """The beginning of an answer: decoded JSON if it is, else text."""
    page = b""
    async for piece in response.aiter_bytes():
        page += piece
        if len(page) > PAGE:
            break
    try:
        return msgspec.json.decode(page)
    except msgspec.DecodeError:
        return page[:PAGE].decode(errors="replace")


def _checked_key(name: str, key: str) -> str:
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"The key for {name} holds a space, a line break or a character that no key has.",
            "Copy it again, without what stands around it.",
        )
    return key


def _checked_address(name: str, base_url: str) -> tuple[str, str]:
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
    return host, f"{url.scheme}://{_bracketed(host)}{f':{port}' if port else ''}{url.path}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _loopback(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")
