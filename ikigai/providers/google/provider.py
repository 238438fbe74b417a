"""Google's Gemini API: the official SDK under `Streaming`.

Body and meaning are `generate_content_api`'s. The SDK's public methods serialise requests and parse replies by
themselves, which changes bytes that Google wants back unchanged. So this goes one step below them, to the SDK's own
request function: it sends bytes as they are and gives the decoded events of a stream.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from ikigai.core.request.build import Request
from ikigai.providers.failures import Target
from ikigai.providers.google.generate_content_api import ContentsEncoder, ContentsReader
from ikigai.providers.json_shape import mapping, number, sequence, string
from ikigai.providers.models import Listed, Traits
from ikigai.providers.network import KEPT, KEPT_FOR, bracketed, loopback
from ikigai.providers.streaming import CONNECT, NoStream, Reader, Streaming, page
from ikigai.providers.vendor import FIRST, IDLE

GOOGLE = "https://generativelanguage.googleapis.com"
VERSION = re.compile(r"/(v\d+(?:alpha|beta)?\d*)/?$")
"""The version of the API at the end of an address; without one it is v1beta, which alone has everything used here."""
SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)
"""How a request is refused for a thought signature in it."""


class GoogleProvider(Streaming):
    """A server that speaks generateContent (`Streaming`). An empty `base_url` is Google's own."""

    def __init__(
        self,
        name: str,
        base_url: str = "",
        api_key: str = "",
        first: float = FIRST,
        idle: float = IDLE,
        *,
        traits: Callable[[str], Traits] = lambda model: Traits(),
    ) -> None:
        super().__init__(name, base_url or GOOGLE, api_key, first, idle)
        self._traits = traits
        self._encoders: dict[tuple[str, bool], ContentsEncoder] = {}

    def encoder(self, model: str) -> ContentsEncoder:
        """How requests to this model are written and measured; one for each model."""
        return self._encoder(model, thoughts=True)

    def _encoder(self, model: str, thoughts: bool) -> ContentsEncoder:
        if (model, thoughts) not in self._encoders:
            self._encoders[model, thoughts] = ContentsEncoder(model, self._traits(model), thoughts)
        return self._encoders[model, thoughts]

    def reader(self, request: Request, target: Target) -> Reader:
        return ContentsReader(target, frozenset(call.id for message in request.messages for call in message.calls))

    def connect(self) -> "tuple[_Client, Any]":
        import httpx2
        from google import genai
        from google.genai.client import DebugConfig
        from google.genai.types import HttpOptions

        timeout = httpx2.Timeout(None, connect=CONNECT)
        # A proxy from the environment is not meant for servers on this machine.
        direct = {f"all://{bracketed(self.host)}": None} if loopback(self.host) else None
        http = httpx2.AsyncClient(
            timeout=timeout,
            mounts=direct,
            limits=httpx2.Limits(max_keepalive_connections=KEPT, keepalive_expiry=KEPT_FOR),
            follow_redirects=False,  # neither key nor conversation goes where nobody sent them
            event_hooks={"response": [_refuse]},
        )
        version = VERSION.search(self.base_url)
        # Whatever is left out here, the SDK looks for in the environment.
        sdk = genai.Client(
            vertexai=False,
            api_key=self.key or "none",
            debug_config=DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
            http_options=HttpOptions(
                base_url=VERSION.sub("", self.base_url),
                api_version=version[1] if version else "v1beta",
                httpx_async_client=http,
            ),
        )
        return _Client(sdk, http, timeout), http

    @asynccontextmanager
    async def post(self, client: "_Client", request: Request) -> AsyncGenerator["_Answer", None]:
        body = self.encoder(request.model).body(request)
        try:
            answer = await self._opened(client, request.model, body)
        except _Refusal as error:
            # A signature that Google itself no longer knows must not keep the conversation from going on.
            if not SIGNATURE.search(str(error.body)):
                raise
            unsigned = self._encoder(request.model, thoughts=False).body(request)
            if unsigned == body:
                raise
            answer = await self._opened(client, request.model, unsigned)
        try:
            yield answer
        finally:
            await answer.close()

    async def _opened(self, client: "_Client", model: str, body: bytes) -> "_Answer":
        return _Answer(await client.send("post", f"{_path(model)}:streamGenerateContent?alt=sse", body, stream=True))

    async def count(self, request: Request) -> int | None:
        """Tokens of the request as Google counts them, with system prompt and tools; None if it does not say."""
        try:
            client = await self.connected()
            # The same body as for a reply, behind the model's name. The SDK's own method leaves system and tools out.
            name, body = msgspec.json.encode(_resource(request.model)), self.encoder(request.model).countable(request)
            body = b'{"generateContentRequest":{"model":%b,%b}' % (name, body[1:])
            answer = await client.read("post", f"{_path(request.model)}:countTokens", body)
            return number(mapping(answer).get("totalTokens")) or None
        except Exception:
            return None

    async def models(self) -> list[Listed]:
        """The models that generate content. Raises IkigaiError."""
        found, path, seen = list[Listed](), "models?pageSize=1000", set[str]()
        try:
            async with asyncio.timeout(self._idle):
                client = await self.connected()
                while True:
                    answer = await client.read("get", path)
                    found += listed(answer)
                    token = string(mapping(answer).get("nextPageToken"))
                    if not token or token in seen:  # a server that knows no pages gives the same one for ever
                        return found
                    seen.add(token)
                    path = f"models?pageSize=1000&pageToken={quote(token, safe='')}"
        except Exception as error:
            raise self.untold(error, self._idle) from None


class _Client:
    """The SDK's client with the HTTP client under it, so that both can be closed."""

    def __init__(self, sdk: Any, http: Any, timeout: Any) -> None:
        self._sdk, self._http, self._timeout = sdk, http, timeout

    async def send(self, method: str, path: str, body: bytes = b"", stream: bool = False) -> Any:
        """The SDK's HttpResponse; `body` goes out as it is."""
        api = self._sdk._api_client
        request = api._build_request(method, path, {})
        request.data, request.timeout = body, self._timeout
        return await api._async_request(request, stream=stream)

    async def read(self, method: str, path: str, body: bytes = b"") -> object:
        """The whole answer: decoded JSON if it is, else text."""
        text = (await self.send(method, path, body)).response_stream[0]
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text

    async def close(self) -> None:
        await self._http.aclose()
        self._sdk.close()


class _Answer:
    """An open stream of the SDK, as `streaming.Answer`."""

    def __init__(self, response: Any) -> None:
        self.headers: Mapping[str, str] = response.headers
        self._http = response.response_stream
        self._chunks = response.async_segments()

    def chunks(self) -> AsyncIterator[object]:
        return self._chunks

    def pieces(self) -> AsyncIterator[bytes]:
        return self._http.aiter_bytes()

    async def close(self) -> None:
        await self._chunks.aclose()
        await self._http.aclose()


class _Refusal(Exception):
    """An HTTP answer that is no success; `body` is the beginning of what it says."""

    def __init__(self, response: Any, body: object) -> None:
        super().__init__(str(response.status_code))
        self.response = response
        self.body = body


async def _refuse(response: Any) -> None:
    """Raise what is no success before the SDK does: it reads pages of any length, and trips over some of them."""
    if response.status_code != 200:
        raise _Refusal(response, await page(response.aiter_bytes()))


def _resource(model: str) -> str:
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def _path(model: str) -> str:
    return quote(_resource(model), errors="surrogatepass")


def listed(page: object) -> list[Listed]:
    """The models of one page that generate content. Raises NoStream for what is no such page."""
    if not isinstance(page, dict) or "error" in page:
        raise NoStream(page)
    models = map(mapping, sequence(page.get("models")))
    return [
        Listed(
            id=string(model.get("name")).removeprefix("models/"),
            context=number(model.get("inputTokenLimit")),
            max_output=number(model.get("outputTokenLimit")),
            levels=() if model.get("thinking") is False else None,
        )
        for model in models
        if "generateContent" in sequence(model.get("supportedGenerationMethods"))
    ]
