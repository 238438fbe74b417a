"""Speak Google's generateContent format: Request → body, chunk of a stream → deltas. Pure, no SDK.

For models with a thinkingLevel (Gemini 3 and later) a tool's picture goes within the functionResponse. Only they take
it there (ai.google.dev/gemini-api/docs/function-calling, "Multimodal function responses"). For others it goes in a
content of its own: beside the responses it would be one too many for as many calls, which they refuse.

A thought signature is Google's opaque text on a part of a reply, which must come back on the same part. Here it is the
signature of a `Thinking` block right before the block whose part carries it, or of an empty text if no block follows.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from ikigai.core.events.messages import (
    ASSISTANT,
    TOOL,
    Citation,
    Document,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import CrossModelFormat
from ikigai.core.request.reply import (
    CitationDelta,
    Delta,
    FailureKind,
    HostedDelta,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.tools.vendor_search import VENDOR_SEARCH, find_pages
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import BodyEncoder, json_object, tool_parameters
from ikigai.providers.http import failures
from ikigai.providers.http.failures import RequestTarget, failure_in_stream
from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ModelTraits

GEMINI_LEVELS = {"off": "MINIMAL", "min": "MINIMAL", "low": "LOW", "med": "MEDIUM", "high": "HIGH"}
"""Levels → thinkingLevel, of models that cannot do without thinking."""

GEMINI_BUDGETS = {"off": 0, "min": 512, "low": 2048, "med": 8192, "high": 24576}
"""Levels → thinkingBudget in tokens: within what every model of the 2.5 series takes (Flash-Lite from 512, Flash to
24576)."""

UNSIGNED_CALL = "skip_thought_signature_validator"
"""Google's signature for a call that it did not make itself. Models with a thinkingLevel refuse a step of the present
turn whose first call has no signature (ai.google.dev/gemini-api/docs/thought-signatures).
"""

TOKENS_PER_TILE, TILE_SIDE_PIXELS = 258, (256, 768)
"""Tokens of a tile, and the minimum and maximum pixels of its side before it is scaled."""
SMALL_IMAGE_PIXELS = 384
"""Pixels up to which both sides make one tile."""
FIXED_IMAGE_TOKENS = 1120
"""Tokens of any image for models with a thinkingLevel, unless asked for another media resolution."""

GEMINI_STOPS = {"STOP": StopReason.END, "MAX_TOKENS": StopReason.LENGTH, "CONTINUATION": StopReason.LENGTH}
"""finishReason → why; every other counts as a refusal."""

FILTERS = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "ESCALATION",
    "NO_IMAGE",
    "MODEL_ARMOR",
    "PUP_LIMITED",
)
"""The beginnings of the finishReason of a reply that Google withholds, also behind IMAGE_."""

MALFORMED_CALLS = {
    "MALFORMED_FUNCTION_CALL": "sent a tool call that cannot be parsed",
    "UNEXPECTED_TOOL_CALL": "called a tool that was not offered",
    "TOO_MANY_TOOL_CALLS": "called too many tools",
    "MALFORMED_RESPONSE": "sent a reply that cannot be parsed",
}
"""finishReason → the model's error, which a retry may avoid."""

UNSET_FINISH_REASON = "FINISH_REASON_UNSPECIFIED"

SEARCH_TOOL_TYPE = "GOOGLE_SEARCH_WEB"
"""The toolType of a web search that Google ran (the SDK's `ToolType`)."""
UNTOLD_PAGES = "Google names the pages with the answer."
"""The result of a search: pages come as sources of the text alone."""


def thinking_vendor(model: str) -> str:
    """Return the `Thinking.vendor` of a model's thoughts."""
    return f"google/{model}"


class ContentsEncoder(BodyEncoder):
    """Bodies of streamGenerateContent for one model; without `thoughts` no signature is sent back.

    With `shows_searches` the server is asked for the parts of its searches. Vertex AI knows neither that wish nor them.
    """

    array = "contents"
    tool_rule = "google"

    def __init__(self, model: str, traits: ModelTraits, thoughts: bool = True, shows_searches: bool = True) -> None:
        takes_pdfs = traits.images and "gemini" in model.lower()
        vendor = thinking_vendor(model) if thoughts else ""
        super().__init__(CrossModelFormat(vendor, traits.images, takes_pdfs, searches=shows_searches))
        self.pdf_rule = "gemini level" if traits.thinking == "level" else "gemini"
        self._traits = traits
        self._shows_searches = shows_searches

    def head(self, request: Request) -> dict[str, Any]:
        head: dict[str, Any] = {}
        if request.system:
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        if functions := [tool for tool in request.tools if not tool.hosted]:
            head["tools"] = [
                {
                    "functionDeclarations": [
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "parametersJsonSchema": tool_parameters(tool.schema),
                        }
                        for tool in functions
                    ]
                }
            ]
        if len(functions) < len(request.tools):
            head.setdefault("tools", []).append({"googleSearch": {}})
            if self._shows_searches:
                head["toolConfig"] = {"includeServerSideToolInvocations": True}
        head["generationConfig"] = self._config(request)  # never left out: a key must precede the contents
        return head

    def _config(self, request: Request) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if request.max_output:
            config["maxOutputTokens"] = request.max_output
        if request.schema:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = msgspec.Raw(request.schema.encode())
        thinking: dict[str, Any] = {"includeThoughts": True}
        match self._traits.thinking:
            case "level":
                if request.level:
                    thinking["thinkingLevel"] = GEMINI_LEVELS.get(request.level, request.level.upper())
                config["thinkingConfig"] = thinking
            case "budget":
                if request.level in GEMINI_BUDGETS:
                    thinking["thinkingBudget"] = GEMINI_BUDGETS[request.level]
                if request.level == "off":  # thoughts of a model that does not think are refused
                    del thinking["includeThoughts"]
                config["thinkingConfig"] = thinking
        return config

    def entries(self, message: Message) -> list[Any]:
        role = "model" if message.role is ASSISTANT else "user"
        entries = [{"role": role, "parts": list(self._parts(message))}]
        if message.role is TOOL and message.images and self._traits.thinking != "level":
            entries.append({"role": role, "parts": list(map(_part, message.images))})
        return entries

    def _parts(self, message: Message) -> Iterator[dict[str, Any]]:
        signature, has_call = "", False
        for block in message.blocks:
            if isinstance(block, Thinking):
                if signature:
                    yield {"text": "", "thoughtSignature": signature}
                signature = block.signature
                continue
            part = _part(block)
            if isinstance(block, ToolResult) and block.images and self._traits.thinking == "level":
                part["functionResponse"]["parts"] = list(map(_part, block.images))
            if isinstance(block, ToolCall) and not block.hosted:
                if not has_call and self._traits.thinking == "level":
                    signature = signature or UNSIGNED_CALL
                has_call = True
            if signature:
                part["thoughtSignature"] = signature
                signature = ""
            yield part
        if signature:
            yield {"text": "", "thoughtSignature": signature}

    def image_tokens(self, image: Image) -> int:
        """Return the tokens as Google documents them: a small image is one tile; a larger one has as many tiles as two
        thirds of its shorter side fit into both sides (ai.google.dev/gemini-api/docs/image-understanding).
        """
        if self._traits.thinking == "level":
            return FIXED_IMAGE_TOKENS
        if max(image.width, image.height) <= SMALL_IMAGE_PIXELS:
            return TOKENS_PER_TILE
        least, most = TILE_SIDE_PIXELS
        side = min(max(min(image.width, image.height) * 2 // 3, least), most)
        return TOKENS_PER_TILE * -(-image.width // side) * -(-image.height // side)


def _part(block: Text | Image | Document | ToolCall | ToolResult) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"text": text}
        case Image(media_type, data):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case ToolCall(id, name, arguments, hosted=hosted) if hosted:
            return {"toolCall": {"id": id, "toolType": SEARCH_TOOL_TYPE, "args": json_object(arguments)}}
        case ToolResult(id, hosted=hosted, opaque=opaque) if hosted:
            return {"toolResponse": {"id": id, "toolType": SEARCH_TOOL_TYPE, "response": json_object(opaque)}}
        case ToolCall(id, name, arguments):
            return {"functionCall": {"id": id, "name": name, "args": msgspec.Raw(arguments.encode())}}
        case ToolResult(id, content, is_error, name):
            response = {"error" if is_error else "output": content}
            return {"functionResponse": {"id": id, "name": name, "response": response}}
        case Document(data=data):  # `fit_message` makes any but a PDF a Text
            return {"inlineData": {"mimeType": "application/pdf", "data": data}}


class ContentsReader:
    """The state of one stream so far (`open_stream.StreamReader`): the calls, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self, target: RequestTarget, taken: frozenset[str] = frozenset(), new_id: Callable[[], str] = new_id
    ) -> None:
        self.request_id = ""
        self._target = target
        self._ids = CallIds(taken, new_id)
        self._vendor = thinking_vendor(target.model)
        self._finish = ""
        self._calls = 0
        self._signed = False  # True if the last part was a text with a signature
        self._has_text = False
        self._usage = Usage()
        self._grounding: dict[str, Any] = {}
        self._search_id = ""  # of the newest search
        self._queries = 0  # of all searches

    @property
    def whole(self) -> bool:
        return bool(self._finish)

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. A chunk of an unknown shape has none."""
        if not isinstance(chunk, dict):
            return []
        self.request_id = self.request_id or as_string(chunk.get("responseId"))
        events: list[Delta | UsageUpdate | StreamFailed] = []
        usage = _read_usage(as_mapping(chunk.get("usageMetadata")))
        if usage not in (self._usage, Usage()):
            self._usage = usage
            events.append(UsageUpdate(self._counted(), self.request_id))
        if self._finish:
            return events
        if chunk.get("error"):
            return [*events, failure_in_stream(self._target, chunk, self.request_id)]
        if blocked := as_string(as_mapping(chunk.get("promptFeedback")).get("blockReason")):
            return [*events, self._fail(FailureKind.REFUSED, f"refused the request: it was blocked ({blocked})")]
        candidate = as_mapping(next(iter(as_sequence(chunk.get("candidates"))), None))
        for part in as_sequence(as_mapping(candidate.get("content")).get("parts")):
            events += self._deltas(as_mapping(part))
        self._grounding = as_mapping(candidate.get("groundingMetadata")) or self._grounding
        finish = as_string(candidate.get("finishReason"))
        if finish not in ("", UNSET_FINISH_REASON):
            events += self._grounded()
        return [*events, *self._store_end("" if finish == UNSET_FINISH_REASON else finish)]

    def end(self) -> StreamFinished | StreamFailed:
        """Return the last event of a stream that has ended: whole only if the end marker came."""
        if not self._finish:
            return failures.cut(self._target, self.request_id)
        stop = GEMINI_STOPS.get(self._finish, StopReason.REFUSED)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return StreamFinished(stop, self._counted(), self.request_id)

    def _counted(self) -> Usage:
        """Return the usage so far, with the queries, each of which is charged for (gemini-api/docs/pricing)."""
        queries = [query for query in as_sequence(self._grounding.get("webSearchQueries")) if query]
        return replace(self._usage, searches=max(len(queries), self._queries))

    def _grounded(self) -> Iterator[Delta]:
        """Yield the sources of the reply, and its searches if they did not come as parts."""
        chunks = map(as_mapping, as_sequence(self._grounding.get("groundingChunks")))
        found = [as_mapping(chunk.get("web")) for chunk in chunks]
        pages = [(as_string(page.get("title")), as_string(page.get("uri"))) for page in found]
        supports = map(as_mapping, as_sequence(self._grounding.get("groundingSupports")))
        used = {index for each in supports for index in as_sequence(each.get("groundingChunkIndices"))}
        cited = [page for number, page in enumerate(pages) if (number in used or not used) and page[1]]
        queries = [query for query in as_sequence(self._grounding.get("webSearchQueries")) if query]
        if queries and not self._search_id:
            id = self._ids.own("")
            yield HostedDelta(ToolCall(id, VENDOR_SEARCH, _compact({"queries": queries}), hosted=self._vendor))
            yield HostedDelta(ToolResult(id, find_pages(pages), name=VENDOR_SEARCH, hosted=self._vendor))
        if cited:
            yield CitationDelta(tuple(Citation(url, title) for title, url in cited))

    def _deltas(self, part: dict[str, Any]) -> Iterator[Delta]:
        text, signature = as_string(part.get("text")), as_string(part.get("thoughtSignature"))
        if part.get("thought") is True:
            if text or signature:
                self._signed = False
                yield ThinkingDelta(text, signature, self._vendor)
            return
        if signature or (text and self._signed):  # unsigned text must not join signed text
            yield ThinkingDelta("", signature, self._vendor)
        if text:
            self._has_text = True
            yield TextDelta(text)
        if isinstance(call := part.get("functionCall"), dict):
            yield self._call(call)
        for name in ("toolCall", "toolResponse"):
            if (hosted := as_mapping(part.get(name))).get("toolType") == SEARCH_TOOL_TYPE:
                yield HostedDelta(self._hosted(name, hosted))
        self._signed = bool(text and signature)

    def _hosted(self, name: str, part: dict[str, Any]) -> ToolCall | ToolResult:
        """Return a search that Google ran, or its result."""
        if name == "toolCall":
            self._search_id = self._ids.own(as_string(part.get("id")))
            arguments = as_mapping(part.get("args"))
            self._queries += len(as_sequence(arguments.get("queries"))) or 1
            return ToolCall(self._search_id, VENDOR_SEARCH, _compact(arguments), hosted=self._vendor)
        id, response = as_string(part.get("id")) or self._search_id, as_mapping(part.get("response"))
        return ToolResult(id, UNTOLD_PAGES, name=VENDOR_SEARCH, hosted=self._vendor, opaque=_compact(response))

    def _call(self, call: dict[str, Any]) -> ToolCallDelta:
        id = self._ids.own(as_string(call.get("id")))
        self._calls += 1
        arguments = call.get("args")
        text = "" if arguments is None else _compact(arguments)
        return ToolCallDelta(self._calls - 1, id, as_string(call.get("name")), text)

    def _store_end(self, finish: str) -> Iterator[StreamFailed]:
        """Store the end marker; yield a StreamFailed if it makes the reply unusable."""
        if finish in MALFORMED_CALLS:
            yield self._fail(FailureKind.CUT, MALFORMED_CALLS[finish])
        elif finish and finish not in GEMINI_STOPS and (self._calls or not self._has_text):
            # Its calls must not run, and a reply without text would leave the user without any.
            if finish.removeprefix("IMAGE_").startswith(FILTERS):
                yield self._fail(FailureKind.REFUSED, f"withheld its reply ({finish})")
            else:
                text = f"{self._target.name} ended its reply in a way that ikigai does not know ({finish[:60]})."
                remedy = "Send the message again, or update ikigai."
                yield StreamFailed(FailureKind.REFUSED, text, remedy, request_id=self.request_id)
        else:
            self._finish = finish

    def _fail(self, kind: FailureKind, what: str) -> StreamFailed:
        remedy = (
            "Send the message again." if kind is FailureKind.CUT else "Rephrase the message, or choose another model."
        )
        return StreamFailed(kind, f"{self._target.name} {what}.", remedy, request_id=self.request_id)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read_usage(usage: dict[str, Any]) -> Usage:
    """Return the usage. Google counts cached tokens within the prompt, thoughts beside the reply, and tools' own
    prompts apart.
    """
    thinking = as_count(usage.get("thoughtsTokenCount"))
    return Usage(
        input=as_count(usage.get("promptTokenCount")) + as_count(usage.get("toolUsePromptTokenCount")),
        output=as_count(usage.get("candidatesTokenCount")) + thinking,
        cached=as_count(usage.get("cachedContentTokenCount")),
        thinking=thinking,
    )
