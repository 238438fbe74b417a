"""Connect to Google's Gemini API through the official SDK.

Body and meaning are `generate_content_api`'s. The SDK's public methods serialize requests and parse replies by
themselves, which changes bytes that Google wants back unchanged. So this module uses the SDK's own request function: it
sends bytes as they are and returns the open answer.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from ikigai.core.request.build import Request
from ikigai.providers.call_ids import call_ids
from ikigai.providers.encoding import write_body, write_countable
from ikigai.providers.google.generate_content_api import ContentsEncoder, ContentsReader
from ikigai.providers.http.answer_limits import read_page
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.http.sdk_answer import SdkAnswer
from ikigai.providers.models.models import ListedModel
from ikigai.providers.open_stream import NoStream, StreamReader
from ikigai.providers.streaming import StreamingProvider

API_VERSION = re.compile(r"/(v\d+(?:alpha|beta)?\d*)/?$")
"""The version of the API at the end of an address; the default v1beta alone has everything used here."""
SIGNATURE_REFUSED = re.compile(r"thought.?signature|tool.?(call|response)\b", re.IGNORECASE)
"""Matches the refusal of a request for a thought signature in it, or for a search."""


class GoogleProvider(StreamingProvider):
    """A server that speaks generateContent (`StreamingProvider`)."""

    OWN_ADDRESS = "https://generativelanguage.googleapis.com"
    shows_searches = True
    """True if the server sends its searches as parts, and takes them back."""

    def encoder(self, model: str) -> ContentsEncoder:
        """Return the encoder that writes and measures requests to this model; one for each model."""
        return self._encoder(model, thoughts=True)

    def _encoder(self, model: str, thoughts: bool) -> ContentsEncoder:
        if (model, thoughts) not in self._encoders:
            encoder = ContentsEncoder(model, self._traits(model), thoughts, self.shows_searches)
            self._encoders[model, thoughts] = self.extended(encoder, model)
        return self._encoders[model, thoughts]

    def reader(self, request: Request, target: RequestTarget) -> StreamReader:
        return ContentsReader(target, call_ids(request))

    def connect(self) -> "tuple[_Client, Any]":
        import httpx2
        from google import genai
        from google.genai.client import DebugConfig
        from google.genai.types import HttpOptions

        options = self.http_options()
        options["event_hooks"]["response"].append(_refuse)
        http = httpx2.AsyncClient(**options)
        tls = {
            "verify": options["verify"],
            "ssl": options["verify"],
            "trust_env": False,
        }  # for clients of the SDK's own, which are not used
        # The SDK reads every value that is left out here from the environment.
        sdk = genai.Client(
            **self.sdk_arguments(),
            debug_config=DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
            http_options=HttpOptions(
                **self.sdk_address(), httpx_async_client=http, client_args=tls, async_client_args=tls
            ),
        )
        return _Client(sdk, http, options["timeout"]), http

    def sdk_arguments(self) -> dict[str, Any]:
        return {"vertexai": False, "api_key": self.key or "none"}

    def sdk_address(self) -> dict[str, Any]:
        version = API_VERSION.search(self.base_url)
        return {"base_url": API_VERSION.sub("", self.base_url), "api_version": version[1] if version else "v1beta"}

    def path(self, model: str) -> str:
        """Return the path of a model behind the version of the API."""
        return quote(_resource(model), errors="surrogatepass")

    @asynccontextmanager
    async def post(self, client: "_Client", request: Request) -> AsyncGenerator[SdkAnswer, None]:
        body = await write_body(self.encoder(request.model), request)
        try:
            answer = await self._open_stream(client, request.model, body)
        except _Refusal as error:
            # The conversation goes on without a signature that Google itself no longer knows.
            if not SIGNATURE_REFUSED.search(str(error.body)):
                raise
            unsigned = await write_body(self._encoder(request.model, thoughts=False), request)
            if unsigned == body:
                raise
            answer = await self._open_stream(client, request.model, unsigned)
        try:
            yield SdkAnswer(answer)
        finally:
            await answer.aclose()

    async def _open_stream(self, client: "_Client", model: str, body: bytes) -> Any:
        """Return the httpx2 response."""
        path = f"{self.path(model)}:streamGenerateContent?alt=sse"
        return (await client.send("post", path, body, stream=True)).response_stream

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request as Google counts them, with system prompt and tools; None if it does not
        say.
        """
        try:
            client = await self.connected()
            body = await write_countable(self.counting_body, request)
            answer = await client.read("post", f"{self.path(request.model)}:countTokens", body)
            return as_count(as_mapping(answer).get("totalTokens")) or None
        except Exception:
            return None

    def counting_body(self, request: Request) -> bytes:
        """Return the body of a reply, after the model's name. The SDK's own method leaves system and tools out."""
        name, body = msgspec.json.encode(_resource(request.model)), self.encoder(request.model).countable(request)
        return b'{"generateContentRequest":{"model":%b,%b}' % (name, body[1:])

    async def models(self) -> list[ListedModel]:
        """Return the models that generate content. Raise IkigaiError on failure."""
        models, path, seen = list[ListedModel](), "models?pageSize=1000", set[str]()
        try:
            async with asyncio.timeout(self._idle):
                client = await self.connected()
                while True:
                    answer = await client.read("get", path)
                    models += parse_models(answer)
                    token = as_string(as_mapping(answer).get("nextPageToken"))
                    if not token or token in seen:  # a server without pages repeats the first one for ever
                        return models
                    seen.add(token)
                    path = f"models?pageSize=1000&pageToken={quote(token, safe='')}"
        except Exception as error:
            raise self.listing_error(error, self._idle) from None


class _Client:
    """The SDK's client with the HTTP client under it, so that both can be closed."""

    def __init__(self, sdk: Any, http: Any, timeout: Any) -> None:
        self._sdk, self._http, self._timeout = sdk, http, timeout

    @property
    def address(self) -> str:
        """The address that the SDK uses."""
        return str(self._sdk._api_client._http_options.base_url)

    async def send(self, method: str, path: str, body: bytes = b"", stream: bool = False) -> Any:
        """Send `body` as it is and return the SDK's HttpResponse."""
        api = self._sdk._api_client
        request = api._build_request(method, path, {})
        request.data, request.timeout = body, self._timeout
        return await api._async_request(request, stream=stream)

    async def read(self, method: str, path: str, body: bytes = b"") -> object:
        """Return the whole answer: decoded JSON if possible, else text."""
        text = (await self.send(method, path, body)).response_stream[0]
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text

    async def close(self) -> None:
        await self._http.aclose()
        self._sdk.close()


class _Refusal(Exception):
    """An HTTP answer that is no success; `body` is the beginning of its content."""

    def __init__(self, response: Any, body: object) -> None:
        super().__init__(str(response.status_code))
        self.response = response
        self.body = body


async def _refuse(response: Any) -> None:
    """Raise _Refusal for anything but success before the SDK does: it reads pages of any length, and fails on some of
    them.
    """
    if response.is_success:
        response.status_code = 200  # any other is an error to the SDK
    else:
        raise _Refusal(response, await read_page(response.aiter_bytes()))


def _resource(model: str) -> str:
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def parse_models(page: object) -> list[ListedModel]:
    """Return the models of one page that generate content. Raise NoStream if it is no such page."""
    if not isinstance(page, dict) or "error" in page:
        raise NoStream(page)
    models = map(as_mapping, as_sequence(page.get("models")))
    return [
        ListedModel(
            id=as_string(model.get("name")).removeprefix("models/"),
            context=as_count(model.get("inputTokenLimit")),
            max_output=as_count(model.get("outputTokenLimit")),
            levels=() if model.get("thinking") is False else None,
        )
        for model in models
        if "generateContent" in as_sequence(model.get("supportedGenerationMethods"))
    ]
