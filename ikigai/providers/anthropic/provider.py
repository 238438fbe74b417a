"""Connect to Anthropic, and to servers that speak its Messages format, through the official SDK.

The SDK reads keys, addresses, headers and profiles from the environment by itself; here everything comes from the
constructor.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ikigai.core.request.build import Request
from ikigai.providers.anthropic.messages_api import ANTHROPIC_VENDOR, MessagesEncoder
from ikigai.providers.anthropic.messages_reader import MessagesReader
from ikigai.providers.anthropic.models import THINKING_BUDGET
from ikigai.providers.call_ids import call_ids
from ikigai.providers.encoding import write_body, write_countable
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.http.json_shape import as_count, as_mapping
from ikigai.providers.http.sdk_answer import SdkAnswer
from ikigai.providers.models.models import ListedModel
from ikigai.providers.open_stream import NoStream, OpenStream, StreamReader
from ikigai.providers.streaming import StreamingProvider
from ikigai.providers.vendor import MACHINE_HEADERS

MODELS_PER_PAGE = 1000
"""Models on one page of the list; the endpoint gives no more."""

THINKING_REFUSED = re.compile(
    r"\bsignature\b|\bthinking`? blocks?\b|expected `thinking`|redacted_thinking"
    r"|server_tool_use|web_search_tool_result|encrypted_(content|index)",
    re.IGNORECASE,
)
"""Matches the refusal of a request for the thinking in its history, or for its searches. Another account or model made
it, or something before it changed (memory drops and masks), or thinking was turned on in the middle of a turn.
"""
THINKING_CONTROLS_REFUSED = re.compile(
    r"block_binding|anthropic.beta|beta flag|thinking-binding-controls", re.IGNORECASE
)
"""Matches the refusal by a server that does not know the controls for that."""
DIAGNOSTICS_REFUSED = re.compile(r"\bdiagnostics\b|previous_message_id")
"""Matches the refusal by a server that does not say why a cache missed."""

log = logging.getLogger(__name__)


class AnthropicProvider(StreamingProvider):
    """A server that speaks Messages (`StreamingProvider`); a /v1 at the end of `base_url` may be left out."""

    OWN_ADDRESS = "https://api.anthropic.com"
    SDK = "anthropic"
    encoder_class = MessagesEncoder
    _binding = True
    _diagnoses = True

    def encoder(self, model: str) -> MessagesEncoder:
        """Return the encoder that writes and measures requests to this model; one for each model."""
        return self._encoder(model)

    def _encoder(self, model: str, thoughts: bool = True, binding: bool = True) -> MessagesEncoder:
        key = model, thoughts, binding, self._diagnoses
        if key not in self._encoders:
            official = self._official
            encoder = self.encoder_class(
                model,
                self._traits(model),
                thoughts=thoughts,
                binding=binding,
                lifetimes=official,
                diagnoses=official and self._diagnoses,
            )
            self._encoders[key] = self.extended(encoder, model)
        return self._encoders[key]

    @property
    def _official(self) -> bool:
        return self.name == ANTHROPIC_VENDOR or self.host.endswith("anthropic.com")

    def reader(self, request: Request, target: RequestTarget) -> StreamReader:
        return MessagesReader(target, call_ids(request), diagnoses=self._official and self._diagnoses)

    def connect(self) -> tuple[Any, Any]:
        import anthropic

        client_class, arguments = self.sdk_client()
        options = self.http_options()
        http = anthropic.DefaultAsyncHttpxClient(**options)
        shared = {"max_retries": 0, "timeout": options["timeout"], "open_telemetry": False, "http_client": http}
        client = client_class(**shared, **arguments)
        client._custom_headers = self._headers()  # not from ANTHROPIC_CUSTOM_HEADERS, which would go to any address
        return client, http

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the class of the SDK's client, and its own arguments. A cloud may move to the address of a region."""
        import anthropic

        address = self.base_url.rstrip("/").removesuffix("/v1")
        return anthropic.AsyncAnthropic, {"api_key": self.key or "none", "base_url": address}  # else it looks for a key

    def _headers(self) -> dict[str, Any]:
        """Return the headers to add to every request, and the SDK's headers to drop."""
        import anthropic

        headers: dict[str, Any] = dict.fromkeys(MACHINE_HEADERS, anthropic.Omit())
        if self.key and not self.SIGN_IN and not self.host.endswith("anthropic.com"):
            # The SDK sends a key as a bearer token; other servers that speak Anthropic's format look for it here.
            headers["X-Api-Key"] = self.key
        return headers

    @asynccontextmanager
    async def post(self, client: Any, request: Request) -> AsyncGenerator[OpenStream, None]:
        async with await self._open_stream(client, request) as stream:
            yield SdkAnswer(stream.response)

    async def _open_stream(self, client: Any, request: Request) -> Any:
        """Open the answer's stream. Leave out dispensable parts that the server refuses; never send a body twice."""
        thoughts = True
        if request.schema_required:
            request = msgspec.structs.replace(request, schema=_accepted_schema(request.schema))
        while True:
            diagnoses, binding = self._diagnoses, self._binding  # others may be refused meanwhile
            encoder = self._encoder(request.model, thoughts, binding)
            body = await write_body(encoder, request)
            try:
                return await self._send(client, request.model, body, encoder.beta(request))
            except Exception as error:
                refusal = str(getattr(error, "body", "")) if getattr(error, "status_code", 0) == 400 else ""
                if thoughts and THINKING_REFUSED.search(refusal):
                    thoughts = False
                elif diagnoses and DIAGNOSTICS_REFUSED.search(refusal):
                    self._diagnoses = False
                elif binding and THINKING_CONTROLS_REFUSED.search(refusal):
                    self._binding = False
                else:
                    raise
                if await write_body(self._encoder(request.model, thoughts, self._binding), request) == body:
                    raise  # the refusal has another cause
                log.debug("%s refused optional parts of the request; it is sent again without them", self.name)

    async def _send(self, client: Any, model: str, body: bytes, beta: str) -> Any:
        return await self.post_bytes(client, "/v1/messages", body, beta)

    async def post_bytes(
        self, client: Any, path: str, body: bytes, beta: str, accept: str = "text/event-stream"
    ) -> Any:
        """Post a body as it is, and return the SDK's open stream."""
        import anthropic

        return await client.post(
            path,
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
            options={"headers": _content_headers(beta) | {"Accept": accept}},
        )

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request by the provider's own count; None on any failure. The caller limits the
        time.
        """
        try:
            encoder = self._encoder(request.model, binding=self._binding)
            client = await self.connected()
            answer = await client.post(
                await self.count_path(client),
                content=await write_countable(encoder.countable, request),
                cast_to=object,
                options={"headers": _content_headers(encoder.beta(request))},
            )
            return as_count(as_mapping(answer).get("input_tokens")) or None
        except Exception as error:
            log.debug("%s did not count tokens: %s", self.name, type(error).__name__)
            return None

    async def count_path(self, client: Any) -> str:
        return "/v1/messages/count_tokens"

    async def models(self) -> list[ListedModel]:
        """Return the models that the key can use, by the list endpoint, newest first. Raise IkigaiError on failure."""
        models, after = dict[str, ListedModel](), ""
        try:
            async with asyncio.timeout(self._idle):
                client = await self.connected()
                while True:
                    params = {"limit": MODELS_PER_PAGE, "after_id": after} if after else {"limit": MODELS_PER_PAGE}
                    page = await client.get("/v1/models", cast_to=object, options={"params": params})
                    known = len(models)
                    models |= {model.id: model for model in parse_models(page)}
                    after = page.get("last_id") if page.get("has_more") else ""
                    if not after or len(models) == known:  # a server without pages repeats the first one for ever
                        return list(models.values())
        except Exception as error:
            raise self.listing_error(error, self._idle) from None


def _content_headers(beta: str) -> dict[str, str]:
    return {"Content-Type": "application/json"} | ({"anthropic-beta": beta} if beta else {})


def parse_models(page: Any) -> list[ListedModel]:
    """Return the models of one page of the list endpoint except the retired ones. Raise NoStream for anything else."""
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise NoStream(page)
    models = [model for model in page["data"] if isinstance(model, dict) and isinstance(model.get("id"), str)]
    return [_listed_model(model) for model in models if model.get("lifecycle") != "retired"]


def _listed_model(model: dict[str, Any]) -> ListedModel:
    listed = ListedModel(model["id"], as_count(model.get("max_input_tokens")), as_count(model.get("max_tokens")))
    capabilities = model.get("capabilities")
    if not isinstance(capabilities, dict):
        return listed
    levels, form, off = _levels(capabilities)
    images = _can(capabilities, "image_input") if "image_input" in capabilities else None
    return ListedModel(listed.id, listed.context, listed.max_output, levels, images, form, off)


def _levels(capabilities: dict[str, Any]) -> tuple[tuple[str, ...] | None, str, str]:
    """Return from a model's capabilities its thinking levels, their form, and the name of off; as in `ListedModel`."""
    if not isinstance(capabilities.get("thinking"), dict):
        return None, "", ""
    if not _can(capabilities, "thinking"):
        return (), "", ""
    off = next((way for way in ("disabled", "between_tools") if _can(capabilities, "thinking", "types", way)), "")
    efforts = {"low": "low", "med": "medium", "high": "high"}
    adaptive = _can(capabilities, "thinking", "types", "adaptive")
    on = (
        [level for level, effort in efforts.items() if _can(capabilities, "effort", effort)]
        if adaptive
        else THINKING_BUDGET
    )
    levels = (*(["off"] if off else []), *on)
    return levels, "adaptive" if adaptive else "budget", off.replace("disabled", "")


def _can(capabilities: object, *path: str) -> bool:
    for name in (*path, "supported"):
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else None
    return capabilities is True


def _accepted_schema(schema: str) -> str:
    """Return a user's schema in the form that the API takes: its objects are closed, and limits become descriptions.

    One that the SDK cannot convert is returned as it is; the API says what is wrong with it.
    """
    import anthropic

    try:
        return msgspec.json.encode(anthropic.transform_schema(msgspec.json.decode(schema))).decode()
    except (ValueError, TypeError, KeyError, AttributeError):
        return schema
