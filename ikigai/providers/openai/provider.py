"""Connect to OpenAI, and to servers with its Chat Completions or Responses, through the official SDK.

OpenAI itself gets Responses, which take its thinking back; any other address gets Chat Completions, which many servers
speak.
"""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

from ikigai.core.request.build import Request
from ikigai.core.request.cache_diagnosis import has_paid_cache
from ikigai.core.vendors import ChatDemand, ServerPreset
from ikigai.providers.call_ids import call_ids
from ikigai.providers.encoding import BodyEncoder, write_body, write_countable
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.http.json_shape import as_count, as_mapping
from ikigai.providers.http.sdk_answer import SdkAnswer
from ikigai.providers.models.models import ListedModel
from ikigai.providers.open_stream import NoStream, StreamReader
from ikigai.providers.openai.chat_api import ChatEncoder, WantedThinking
from ikigai.providers.openai.chat_reader import ChatReader
from ikigai.providers.openai.chat_thinking import chat_vendor
from ikigai.providers.openai.models import is_chat_model, parse_models
from ikigai.providers.openai.responses_api import ResponsesEncoder
from ikigai.providers.openai.responses_reader import ResponsesReader
from ikigai.providers.openai.terms import OptionalPart
from ikigai.providers.streaming import StreamingProvider
from ikigai.providers.vendor import FIRST_PIECE_TIMEOUT, MACHINE_HEADERS, PIECE_TIMEOUT

LISTING_TIMEOUT = 30.0
"""Seconds that a list of models may take."""

PARTS_REFUSED: dict[OptionalPart, re.Pattern[str]] = {
    "usage": re.compile("stream_options"),
    "summary": re.compile("reasoning.summary"),
    "diagnosis": re.compile("prompt_cache_options|comparison_response_id"),
    "pages": re.compile(r"web_search_call\.action\.sources"),
}
"""Matches the refusal of a part: some servers know no such option, and OpenAI gives thinking in words to verified
accounts alone.
"""
REASONING_REFUSED = re.compile(
    "invalid_encrypted_content|encrypted content|'(reasoning|web_search_call)' was provided without", re.IGNORECASE
)
"""Matches the refusal of a request for the thinking in its history, or for its searches: it was made under another
account, say.
"""
THINKING_MISSING = re.compile(r"must be passed back|reasoning_content.{0,20} is (missing|required)", re.IGNORECASE)
"""Matches the refusal, by DeepSeek and Moonshot, of a request for messages of the model without their thinking."""
THINKING_FIELDS_REFUSED = re.compile(
    r"\breasoning(_content|_details)?\b|extra_content|thinking|extra.(input|field|forbidden)|additional propert"
    r"|(unknown|unrecognized|unexpected|unsupported) (field|key|name|propert|param)"
    r"|items are not persisted|item\['content'\]",
    re.IGNORECASE,
)
"""Matches the refusal of the fields that such thinking goes back in."""
CHAT_DEMANDS: dict[ChatDemand, re.Pattern[str]] = {
    "short_ids": re.compile(r"tool.?call.?id\b.{0,120}length of 9", re.IGNORECASE | re.DOTALL),
    "reply_after_results": re.compile(r"role '?user'? after role '?tool\b", re.IGNORECASE),
    "alternating_roles": re.compile(r"roles must alternate", re.IGNORECASE),
    "max_completion_tokens": re.compile(r"max_tokens\b.{0,80}\bmax_completion_tokens", re.DOTALL),
}
"""Matches the refusal of a request for a form that the server insists on: by vLLM and others with a tokenizer of
Mistral, by llama.cpp and others with a template like Gemma's, by GitHub and other hosts of OpenAI's models.
"""

ROUTED_VENDORS = ("anthropic", "openai", "google")
"""Vendors whose models OpenRouter and other routers name VENDOR/MODEL."""

log = logging.getLogger(__name__)


class OpenAIProvider(StreamingProvider):
    """A server that speaks OpenAI's formats (`StreamingProvider`).

    `api` is "chat" or "responses"; "" chooses by the address. `preset` has the peculiarities of a known server.
    """

    OWN_ADDRESS = "https://api.openai.com/v1"
    SDK = "openai"

    def __init__(
        self,
        name: str,
        base_url: str = "",
        api_key: str = "",
        first: float = FIRST_PIECE_TIMEOUT,
        idle: float = PIECE_TIMEOUT,
        *,
        api: str = "",
        preset: ServerPreset | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name, base_url, api_key, first, idle, **more)
        self._own = self.host == "api.openai.com" or self.host.endswith(".api.openai.com")
        self._official = self._own or self.host.endswith(".openai.azure.com")
        self._responses = (api or ("responses" if self._own else "chat")) == "responses"
        self._left_out: frozenset[OptionalPart] = frozenset()
        self._preset = preset or ServerPreset("", (), "")
        self._wants: WantedThinking = "calls" if self._preset.keeps_thinking else ""
        self._wanted: dict[str, WantedThinking | None] = {}  # by model; None takes no thinking back
        known = frozenset(self._preset.demands)
        self._demands: dict[str, frozenset[ChatDemand]] = defaultdict(lambda: known)  # by model

    def encoder(self, model: str) -> BodyEncoder:
        """Return the encoder that writes and measures requests to this model; one for each model."""
        return self._encoder(model, wanted=self._wants)

    def _encoder(
        self,
        model: str,
        left_out: frozenset[OptionalPart] = frozenset(),
        thoughts: bool = True,
        wanted: WantedThinking = "",
    ) -> BodyEncoder:
        demands = self._demands[model]
        key = model, thoughts, wanted, *sorted(left_out), *sorted(demands)
        if key not in self._encoders:
            traits = self._traits(model)
            if self._responses:
                vendor = self._vendor(model) if thoughts else ""
                encoder = ResponsesEncoder(vendor, traits, self._official, left_out, self._diagnoses(model))
            else:
                encoder = ChatEncoder(
                    self._official,
                    traits.images,
                    usage="usage" not in left_out,
                    thinks=traits.levels != ("off",),
                    thinking=chat_vendor(self.name, model) if thoughts else "",
                    wanted=wanted,
                    effort=self._preset.effort,
                    pdfs=self._own and traits.images,
                    demands=demands,
                )
            encoder.tool_rule = self._tool_rule(model)
            self._encoders[key] = self.extended(encoder, model)
        return self._encoders[key]

    def _tool_rule(self, model: str) -> str:
        """Return the rule for schemas of tools: of OpenAI, or of the vendor whose model a router names. Other servers
        have rules of their own, which are not known.
        """
        if self._official or self.name == "openai":
            return "openai"
        vendor, slash, _ = model.partition("/")
        return vendor if slash and vendor in ROUTED_VENDORS else ""

    def _diagnoses(self, model: str) -> bool:
        """Return True if the server says why its cache missed."""
        return self._own and has_paid_cache(model)

    def _vendor(self, model: str) -> str:
        """Return the `Thinking.vendor` of this model's thoughts: no other provider's server can read them."""
        return f"{self.name}/{model}"

    def reader(self, request: Request, target: RequestTarget) -> StreamReader:
        taken = call_ids(request)
        if self._responses:
            diagnoses = self._diagnoses(request.model)
            vendor = self._vendor(request.model)
            return ResponsesReader(target, vendor, taken, diagnoses=diagnoses, plain=not self._official)
        tools = frozenset(tool.name for tool in request.tools)
        return ChatReader(target, taken, cost_field=self._preset.cost_field, tools=tools)

    def connect(self) -> tuple[Any, Any]:
        import openai

        client_class, arguments = self.sdk_client()
        options = self.http_options()
        http = openai.DefaultAsyncHttpx2Client(**options)
        shared = {"max_retries": 0, "timeout": options["timeout"], "http_client": http}
        client = client_class(base_url=self.base_url, **shared, **arguments)
        if not self._own:  # OpenAI's variables are not for other servers
            client.organization = client.project = None
            client._custom_headers = {}
        client._custom_headers = {**client._custom_headers, **dict.fromkeys(MACHINE_HEADERS, openai.Omit())}
        return client, http

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the class of the SDK's client, and its own arguments. A cloud may move to the address of a region."""
        import openai

        return openai.AsyncOpenAI, {"api_key": self.key or "none"}

    @asynccontextmanager
    async def post(self, client: Any, request: Request) -> AsyncGenerator[SdkAnswer, None]:
        async with await self._open_stream(client, request) as stream:
            yield SdkAnswer(stream.response)

    async def _open_stream(self, client: Any, request: Request) -> Any:
        """Open the answer's stream. Leave out dispensable parts that the server refuses; never send a body twice."""
        thoughts = True
        while True:
            left_out, demands = self._left_out, self._demands[request.model]  # others may be refused meanwhile
            body = await self._body(request, thoughts)
            try:
                return await self._send(client, request.model, body)
            except Exception as error:
                refusal = str(getattr(error, "body", ""))
                refused: set[OptionalPart] = {part for part, words in PARTS_REFUSED.items() if words.search(refusal)}
                if refused - left_out:
                    self._left_out |= refused
                elif thoughts and REASONING_REFUSED.search(refusal):
                    thoughts = False
                elif (self._responses and self._official) or not await self._change_form(request, refusal, demands):
                    raise
                if await self._body(request, thoughts) == body:
                    raise  # the refusal has another cause
                log.debug("%s refused optional parts of the request; it is sent again without them", self.name)

    def _encoder_now(self, model: str, thoughts: bool) -> BodyEncoder:
        """Return the encoder without what the server has refused so far."""
        return self._encoder_returning(model, self._wanted.get(model, self._wants), thoughts)

    def _encoder_returning(self, model: str, wanted: WantedThinking | None, thoughts: bool = True) -> BodyEncoder:
        return self._encoder(model, self._left_out, thoughts and wanted is not None, wanted or "")

    async def _body(self, request: Request, thoughts: bool) -> bytes:
        return await write_body(self._encoder_now(request.model, thoughts), request)

    async def _change_form(self, request: Request, refusal: str, sent: frozenset[ChatDemand]) -> bool:
        """Send this model what the refusal insists on from now on; False if that changes nothing in the request, which
        met the demands `sent`.
        """
        wanted: set[ChatDemand] = {name for name, words in CHAT_DEMANDS.items() if words.search(refusal)}
        self._demands[request.model] |= wanted
        return self._demands[request.model] != sent or await self._change_returned_thinking(request, refusal)

    async def _change_returned_thinking(self, request: Request, refusal: str) -> bool:
        """Return more thinking to the model from now on, or none, as the refusal says; False if that changes nothing
        in the request.
        """
        model = request.model
        known, body = self._wanted.get(model, self._wants), await self._body(request, thoughts=True)
        ways: tuple[WantedThinking | None, ...] = ()
        if THINKING_MISSING.search(refusal):
            ways = ("calls", "all")
        elif THINKING_FIELDS_REFUSED.search(refusal):
            ways = (None,)
        for way in ways[ways.index(known) + 1 :] if known in ways else ways:
            if await write_body(self._encoder_returning(model, way), request) != body:
                self._wanted[model] = way
                return True
        return False

    def path(self, model: str) -> str:
        """Return the path of requests to this model behind the address."""
        return "/responses" if self._responses else "/chat/completions"

    async def _send(self, client: Any, model: str, body: bytes) -> Any:
        import openai

        return await client.post(
            self.path(model),
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=openai.AsyncStream[object],
            options=_options("text/event-stream"),
        )

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request as the server counts them; None on an error or without an endpoint
        for it.
        """
        if not self._responses:
            return None
        try:
            client = await self.connected()
            body = await write_countable(self._encoder_now(request.model, thoughts=True).countable, request)
            answer = await client.post(
                "/responses/input_tokens", content=body, cast_to=object, options=_options("application/json")
            )
        except Exception as error:
            log.debug("%s did not count tokens: %s", self.name, type(error).__name__)
            return None
        return as_count(as_mapping(answer).get("input_tokens")) or None

    async def models(self) -> list[ListedModel]:
        """Return the models that the server offers, in its order; of OpenAI's own only those that chat.

        Raise IkigaiError on failure.
        """
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                client, options = await self.connected(), _options("application/json")
                if self.key and self._preset.key_path:
                    await client.get(self._preset.key_path, cast_to=object, options=options)
                path = urljoin(self.base_url, self._preset.models_path) if self._preset.models_path else "/models"
                answer = await client.get(path, cast_to=object, options=options)
            if not isinstance(answer, list) and (not isinstance(answer, dict) or "data" not in answer):
                raise NoStream(answer)
        except Exception as error:
            raise self.listing_error(error, LISTING_TIMEOUT) from None
        models = parse_models(answer)
        return [model for model in models if is_chat_model(model.id)] if self._own else models


def _options(accept: str) -> dict[str, Any]:
    return {"headers": {"Content-Type": "application/json", "Accept": accept}, "security": {"bearer_auth": True}}
