"""Anthropic, and every server that speaks its Messages format: the official SDK under `Streaming`.

The SDK reads keys, addresses, headers and profiles from the environment by itself; here everything comes from the
constructor.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ikigai.core.request.build import Request
from ikigai.providers.anthropic import models as claude
from ikigai.providers.anthropic.messages_api import MessagesEncoder, MessagesReader
from ikigai.providers.failures import Target
from ikigai.providers.json_shape import mapping, number
from ikigai.providers.models import Listed, Traits
from ikigai.providers.network import KEPT, KEPT_FOR, bracketed, loopback
from ikigai.providers.sdk_answer import SdkAnswer
from ikigai.providers.streaming import CONNECT, NoStream, Reader, Streaming
from ikigai.providers.vendor import FIRST, IDLE

ANTHROPIC = "https://api.anthropic.com"
PAGE = 1000
"""Models asked for at once; the endpoint gives no more."""

THOUGHTS = re.compile(r"\bsignature\b|\bthinking`? blocks?\b|expected `thinking`|redacted_thinking", re.IGNORECASE)
"""How a request is refused for the thinking in its history: it was made under another account, for another model, or
in front of it something changed (memory drops and masks); or thinking was turned on in the middle of a turn."""
CONTROLS = re.compile(r"block_binding|anthropic-beta|thinking-binding-controls", re.IGNORECASE)
"""How a server that does not know the controls for that refuses them."""

log = logging.getLogger(__name__)


class AnthropicProvider(Streaming):
    """A server that speaks Messages (`Streaming`).

    An empty `base_url` is Anthropic's own; a /v1 at its end may be left out.
    """

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
        super().__init__(name, base_url or ANTHROPIC, api_key, first, idle)
        self._traits = traits
        self._encoders: dict[tuple[str, bool, bool], MessagesEncoder] = {}
        self._binding = True

    def encoder(self, model: str) -> MessagesEncoder:
        """How requests to this model are written and measured; one for each model."""
        return self._encoder(model)

    def _encoder(self, model: str, thoughts: bool = True, binding: bool = True) -> MessagesEncoder:
        key = model, thoughts, binding
        if key not in self._encoders:
            self._encoders[key] = MessagesEncoder(model, self._traits(model), thoughts=thoughts, binding=binding)
        return self._encoders[key]

    def reader(self, request: Request, target: Target) -> Reader:
        return MessagesReader(target, frozenset(call.id for message in request.messages for call in message.calls))

    def connect(self) -> tuple[Any, Any]:
        import anthropic
        import httpx2

        timeout = anthropic.Timeout(None, connect=CONNECT)
        # A proxy from the environment is not meant for servers on this machine.
        direct = {f"all://{bracketed(self.host)}": None} if loopback(self.host) else {}
        limits = httpx2.Limits(max_keepalive_connections=KEPT, keepalive_expiry=KEPT_FOR)
        # Neither key nor conversation goes where nobody sent them.
        http = anthropic.DefaultAsyncHttpxClient(timeout=timeout, mounts=direct, limits=limits, follow_redirects=False)
        client = anthropic.AsyncAnthropic(
            api_key=self.key or "none",  # without one the SDK looks for others
            base_url=self.base_url.rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=timeout,
            open_telemetry=False,
            http_client=http,
        )
        client._custom_headers = self._headers()  # not those of ANTHROPIC_CUSTOM_HEADERS, which would go to any address
        return client, http

    def _headers(self) -> dict[str, str]:
        """What every request says beside what the SDK does."""
        headers = {}
        if self.key and not self.host.endswith("anthropic.com"):
            # The SDK sends a key as a bearer token; servers that speak as Anthropic used to look for it here.
            headers["X-Api-Key"] = self.key
        if loopback(self.host):
            # llama.cpp closes connections behind a stream without a word, now and then just when the next request is
            # on its way; a new one costs nothing on this machine.
            headers["Connection"] = "close"
        return headers

    @asynccontextmanager
    async def post(self, client: Any, request: Request) -> AsyncGenerator[SdkAnswer, None]:
        async with await self._opened(client, request) as stream:
            yield SdkAnswer(stream)

    async def _opened(self, client: Any, request: Request) -> Any:
        """The answer's stream; what a server refuses and we can do without is left out, and never sent twice."""
        thoughts = True
        while True:
            encoder = self._encoder(request.model, thoughts, self._binding)
            body = encoder.body(request)
            try:
                return await self._send(client, body, encoder.beta(request))
            except Exception as error:
                said = str(getattr(error, "body", "")) if getattr(error, "status_code", 0) == 400 else ""
                if thoughts and THOUGHTS.search(said):
                    thoughts = False
                elif self._binding and CONTROLS.search(said):
                    self._binding = False
                else:
                    raise
                if self._encoder(request.model, thoughts, self._binding).body(request) == body:
                    raise  # it was something else
                log.debug("%s refused the thinking sent back; sent again without", self.name)

    async def _send(self, client: Any, body: bytes, beta: str) -> Any:
        import anthropic

        return await client.post(
            "/v1/messages",
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
            options={"headers": _typed(beta) | {"Accept": "text/event-stream"}},
        )

    async def count(self, request: Request) -> int | None:
        """Tokens of the request by the provider's own count; None on any failure. The caller bounds the time."""
        try:
            encoder = self._encoder(request.model, binding=self._binding)
            answer = await (await self.connected()).post(
                "/v1/messages/count_tokens",
                content=encoder.countable(request),
                cast_to=object,
                options={"headers": _typed(encoder.beta(request))},
            )
            return number(mapping(answer).get("input_tokens")) or None
        except Exception as error:
            log.debug("%s counted no tokens: %s", self.name, type(error).__name__)
            return None

    async def models(self) -> list[Listed]:
        """The models that the key can use, as the list endpoint tells, newest first. Raises IkigaiError."""
        found, after = dict[str, Listed](), ""
        try:
            async with asyncio.timeout(self._idle):
                client = await self.connected()
                while True:
                    params = {"limit": PAGE, "after_id": after} if after else {"limit": PAGE}
                    page = await client.get("/v1/models", cast_to=object, options={"params": params})
                    models = listed(page)
                    known = len(found)
                    found |= {model.id: model for model in models}
                    after = page.get("last_id") if page.get("has_more") else ""
                    if not after or len(found) == known:  # a server that knows no pages gives the same one for ever
                        return list(found.values())
        except Exception as error:
            raise self.untold(error, self._idle) from None


def _typed(beta: str) -> dict[str, str]:
    return {"Content-Type": "application/json"} | ({"anthropic-beta": beta} if beta else {})


def listed(page: Any) -> list[Listed]:
    """The models of one page of the list endpoint but the retired ones. Raises NoStream for what is no such page."""
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise NoStream(page)
    models = [model for model in page["data"] if isinstance(model, dict) and isinstance(model.get("id"), str)]
    return [_described(model) for model in models if model.get("lifecycle") != "retired"]


def _described(model: dict[str, Any]) -> Listed:
    found = Listed(model["id"], number(model.get("max_input_tokens")), number(model.get("max_tokens")))
    able = model.get("capabilities")
    if not isinstance(able, dict):
        return found
    levels, form, off = _levels(able)
    images = _can(able, "image_input") if "image_input" in able else None
    return Listed(found.id, found.context, found.max_output, levels, images, form, off)


def _levels(able: dict[str, Any]) -> tuple[tuple[str, ...] | None, str, str]:
    """Of a model's capabilities: its thinking levels, how it is told them, and what off is called; as in `Listed`."""
    if not isinstance(able.get("thinking"), dict):
        return None, "", ""
    if not _can(able, "thinking"):
        return (), "", ""
    off = next((way for way in ("disabled", "between_tools") if _can(able, "thinking", "types", way)), "")
    efforts = {"low": "low", "med": "medium", "high": "high"}
    adaptive = _can(able, "thinking", "types", "adaptive")
    on = [level for level, effort in efforts.items() if _can(able, "effort", effort)] if adaptive else claude.BUDGET
    levels = (*(["off"] if off else []), *on)
    return levels, "adaptive" if adaptive else "budget", off.replace("disabled", "")


def _can(capabilities: object, *path: str) -> bool:
    for name in (*path, "supported"):
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else None
    return capabilities is True
