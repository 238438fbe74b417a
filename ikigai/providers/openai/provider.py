"""OpenAI, and every server that speaks its Chat Completions or Responses: the official SDK under `Streaming`.

OpenAI itself is asked for Responses, which take its thinking back; any other address for Chat Completions, which many
servers speak.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from ikigai.core.request.build import Request
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.failures import Target
from ikigai.providers.json_shape import mapping, number
from ikigai.providers.models import Listed, Traits
from ikigai.providers.network import KEPT, KEPT_FOR, bracketed, loopback
from ikigai.providers.openai.chat_api import ChatEncoder, ChatReader
from ikigai.providers.openai.models import chats, listed
from ikigai.providers.openai.responses_api import ResponsesEncoder
from ikigai.providers.openai.responses_reader import ResponsesReader
from ikigai.providers.sdk_answer import SdkAnswer
from ikigai.providers.streaming import CONNECT, NoStream, Reader, Streaming
from ikigai.providers.vendor import FIRST, IDLE

OPENAI = "https://api.openai.com/v1"

LISTING = 30.0
"""Seconds that a list of models may take."""

EXTRAS = re.compile("stream_options|reasoning.summary")
"""How a server refuses to be asked for token counts (some know no such option), or for its thinking in words (OpenAI
gives that to verified accounts alone)."""
THOUGHTS = re.compile("invalid_encrypted_content|encrypted content|'reasoning' was provided without", re.IGNORECASE)
"""How a request is refused for the thinking in its history: it was made under another account, say."""

log = logging.getLogger(__name__)


class OpenAIProvider(Streaming):
    """A server that speaks OpenAI's formats (`Streaming`). An empty `base_url` is OpenAI's own.

    `api` is "chat" or "responses"; "" chooses by the address.
    """

    def __init__(
        self,
        name: str,
        base_url: str = "",
        api_key: str = "",
        first: float = FIRST,
        idle: float = IDLE,
        *,
        api: str = "",
        traits: Callable[[str], Traits] = lambda model: Traits(),
    ) -> None:
        super().__init__(name, base_url or OPENAI, api_key, first, idle)
        self._own = self.host == "api.openai.com" or self.host.endswith(".api.openai.com")
        self._official = self._own or self.host.endswith(".openai.azure.com")
        self._responses = (api or ("responses" if self._own else "chat")) == "responses"
        self._traits = traits
        self._encoders: dict[tuple[str, bool, bool], BodyEncoder] = {}
        self._extras = True

    def encoder(self, model: str) -> BodyEncoder:
        """How requests to this model are written and measured; one for each model."""
        return self._encoder(model)

    def _encoder(self, model: str, extras: bool = True, thoughts: bool = True) -> BodyEncoder:
        key = model, extras, thoughts
        if key not in self._encoders:
            traits = self._traits(model)
            if self._responses:
                vendor = self._vendor(model) if thoughts else ""
                made = ResponsesEncoder(vendor, traits, self._official, summaries=extras)
            else:
                made = ChatEncoder(self._official, traits.images, usage=extras, thinks=traits.levels != ("off",))
            self._encoders[key] = made
        return self._encoders[key]

    def _vendor(self, model: str) -> str:
        """`Thinking.vendor` of this model's thoughts: no other provider's server can read them."""
        return f"{self.name}/{model}"

    def reader(self, request: Request, target: Target) -> Reader:
        taken = frozenset(call.id for message in request.messages for call in message.calls)
        if self._responses:
            return ResponsesReader(target, self._vendor(request.model), taken)
        return ChatReader(target, taken)

    def connect(self) -> tuple[Any, Any]:
        import httpx2
        import openai

        timeout = openai.Timeout(None, connect=CONNECT)
        # llama.cpp closes a connection behind its second answer, often too late for us to see it; and without TLS a new
        # connection is cheap.
        kept = 0 if self.base_url.startswith("http:") else KEPT
        # A proxy from the environment is not meant for servers on this machine.
        direct = {f"all://{bracketed(self.host)}": None} if loopback(self.host) else None
        limits = httpx2.Limits(max_keepalive_connections=kept, keepalive_expiry=KEPT_FOR)
        http = openai.DefaultAsyncHttpx2Client(timeout=timeout, mounts=direct, limits=limits)
        client = openai.AsyncOpenAI(
            api_key=self.key or "none", base_url=self.base_url, max_retries=0, timeout=timeout, http_client=http
        )
        if not self._own:  # what the environment says for OpenAI is nobody else's business
            client.organization = client.project = None
            client._custom_headers = {}
        return client, http

    @asynccontextmanager
    async def post(self, client: Any, request: Request) -> AsyncGenerator[SdkAnswer, None]:
        async with await self._opened(client, request) as stream:
            yield SdkAnswer(stream)

    async def _opened(self, client: Any, request: Request) -> Any:
        """The answer's stream; what a server refuses and we can do without is left out, and never sent twice."""
        thoughts = True
        while True:
            body = self._encoder(request.model, self._extras, thoughts).body(request)
            try:
                return await self._send(client, body)
            except Exception as error:
                said = str(getattr(error, "body", ""))
                if self._extras and EXTRAS.search(said):
                    self._extras = False
                elif thoughts and THOUGHTS.search(said):
                    thoughts = False
                else:
                    raise
                if self._encoder(request.model, self._extras, thoughts).body(request) == body:
                    raise  # it was something else
                log.debug("%s refused what can be left out; sent again without", self.name)

    async def _send(self, client: Any, body: bytes) -> Any:
        return await client.post(
            "/responses" if self._responses else "/chat/completions",
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=_stream_class(),
            options=_options("text/event-stream"),
        )

    async def count(self, request: Request) -> int | None:
        """Tokens of the request as the server counts them; None from one that has no endpoint for it, or an error."""
        if not self._responses:
            return None
        try:
            client = await self.connected()
            body = self._encoder(request.model, self._extras).countable(request)
            answer = await client.post(
                "/responses/input_tokens", content=body, cast_to=object, options=_options("application/json")
            )
        except Exception as error:
            log.debug("%s did not count: %s", self.name, type(error).__name__)
            return None
        return number(mapping(answer).get("input_tokens")) or None

    async def models(self) -> list[Listed]:
        """The models that the server offers, in its order; of OpenAI's own only those to talk with.

        Raises IkigaiError when it does not tell.
        """
        try:
            async with asyncio.timeout(LISTING):
                client = await self.connected()
                answer = await client.get("/models", cast_to=object, options=_options("application/json"))
            if not isinstance(answer, list) and (not isinstance(answer, dict) or "data" not in answer):
                raise NoStream(answer)
        except Exception as error:
            raise self.untold(error, LISTING) from None
        found = listed(answer)
        return [model for model in found if chats(model.id)] if self._own else found


def _options(accept: str) -> dict[str, Any]:
    return {
        "headers": {"Content-Type": "application/json", "Accept": accept},
        "follow_redirects": False,  # neither key nor conversation goes where nobody sent them
        "security": {"bearer_auth": True},
    }


@cache
def _stream_class() -> Any:
    """The SDK's stream without events that carry no data ("retry: 3000"): it would take them for broken JSON."""
    import openai

    class Stream(openai.AsyncStream[object]):
        async def _iter_events(self) -> AsyncIterator[Any]:
            async for event in super()._iter_events():
                if event.data:
                    yield event

    return Stream
