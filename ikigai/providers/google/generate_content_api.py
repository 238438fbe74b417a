"""Google's generateContent format: Request → body, chunk of a stream → deltas. Pure, no SDK.

A picture of a tool's stands within the functionResponse, for models with a thinkingLevel (Gemini 3 and later, which
alone take it there: ai.google.dev/gemini-api/docs/function-calling, "Multimodal function responses"). For others it
comes in a content of its own: beside the responses it would be one too many for as many calls, which they refuse.

A thought signature is Google's opaque text on a part of a reply, which must come back on the same part. Here it is the
signature of a `Thinking` block right before the block whose part carries it; with none behind it, of an empty text.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ikigai.core.messages import (
    ASSISTANT,
    TOOL,
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
from ikigai.core.request.cross_model import Dialect
from ikigai.core.request.reply import (
    Broke,
    Counted,
    Delta,
    Failure,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from ikigai.providers import failures
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.failures import Target, reported
from ikigai.providers.json_shape import mapping, number, sequence, string
from ikigai.providers.models import Traits

LEVELS = {"off": "MINIMAL", "min": "MINIMAL", "low": "LOW", "med": "MEDIUM", "high": "HIGH"}
"""Levels → thinkingLevel, of models that cannot do without thinking."""

BUDGETS = {"off": 0, "min": 512, "low": 2048, "med": 8192, "high": 24576}
"""Levels → thinkingBudget in tokens: within what every model of the 2.5 series takes (Flash-Lite from 512, Flash to
24576)."""

UNSIGNED = "skip_thought_signature_validator"
"""Google's word for a call that it did not make itself: models with a thinkingLevel refuse a step of the present turn
whose first call has no signature (ai.google.dev/gemini-api/docs/thought-signatures)."""

TILE, TILES = 258, (256, 768)
"""Tokens of a tile, and pixels that its side has at least and at most before it is scaled."""
SMALL = 384
"""Pixels up to which both sides make one tile."""
FIXED = 1120
"""Tokens of any image for models with a thinkingLevel, unless asked for another media resolution."""

STOPS = {"STOP": StopReason.END, "MAX_TOKENS": StopReason.LENGTH, "CONTINUATION": StopReason.LENGTH}
"""finishReason → why; every other is a filter of Google's (SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII …)
or unknown, and counts as a refusal."""

BROKEN = {
    "MALFORMED_FUNCTION_CALL": "wrote a tool call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "called a tool that was not offered",
    "TOO_MANY_TOOL_CALLS": "called tools without end",
    "MALFORMED_RESPONSE": "wrote a reply that cannot be read",
}
"""finishReason → what the model did wrong, which it may do right when asked again."""

UNSET = "FINISH_REASON_UNSPECIFIED"


def vendor(model: str) -> str:
    """Who thought, in `Thinking.vendor`."""
    return f"google/{model}"


class ContentsEncoder(BodyEncoder):
    """Bodies of streamGenerateContent for one model; without `thoughts` no signature is sent back."""

    array = "contents"

    def __init__(self, model: str, traits: Traits, thoughts: bool = True) -> None:
        super().__init__(Dialect(vendor(model) if thoughts else "", traits.images))
        self._traits = traits

    def head(self, request: Request) -> dict[str, Any]:
        head: dict[str, Any] = {}
        if request.system:
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            head["tools"] = [
                {
                    "functionDeclarations": [
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "parametersJsonSchema": msgspec.json.decode(tool.schema),
                        }
                        for tool in request.tools
                    ]
                }
            ]
        head["generationConfig"] = self._config(request)  # never left out: something must stand before the contents
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
                    thinking["thinkingLevel"] = LEVELS.get(request.level, request.level.upper())
                config["thinkingConfig"] = thinking
            case "budget":
                if request.level in BUDGETS:
                    thinking["thinkingBudget"] = BUDGETS[request.level]
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
        signature, called = "", False
        for block in message.blocks:
            if isinstance(block, Thinking):
                if signature:
                    yield {"text": "", "thoughtSignature": signature}
                signature = block.signature
                continue
            part = _part(block)
            if isinstance(block, ToolResult) and block.images and self._traits.thinking == "level":
                part["functionResponse"]["parts"] = list(map(_part, block.images))
            if isinstance(block, ToolCall):
                if not called and self._traits.thinking == "level":
                    signature = signature or UNSIGNED
                called = True
            if signature:
                part["thoughtSignature"] = signature
                signature = ""
            yield part
        if signature:
            yield {"text": "", "thoughtSignature": signature}

    def image_tokens(self, image: Image) -> int:
        """As Google documents it: small images are one tile, larger ones as many as two thirds of the shorter side fit
        into both (ai.google.dev/gemini-api/docs/image-understanding)."""
        if self._traits.thinking == "level":
            return FIXED
        if max(image.width, image.height) <= SMALL:
            return TILE
        least, most = TILES
        side = min(max(min(image.width, image.height) * 2 // 3, least), most)
        return TILE * -(-image.width // side) * -(-image.height // side)


def _part(block: Text | Image | ToolCall | ToolResult) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"text": text}
        case Image(media_type, data):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case ToolCall(id, name, arguments):
            return {"functionCall": {"id": id, "name": name, "args": msgspec.Raw(arguments.encode())}}
        case ToolResult(id, content, is_error, name):
            response = {"error" if is_error else "output": content}
            return {"functionResponse": {"id": id, "name": name, "response": response}}


class ContentsReader:
    """What has been read of one stream so far (`streaming.Reader`): the calls, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self,
        target: Target,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self.request_id = ""
        self._target = target
        self._ids = CallIds(taken, new_id)
        self._vendor = vendor(target.model)
        self._finish = ""
        self._calls = 0
        self._signed = False  # whether the last part was a text with a signature
        self._said = False
        self._usage = Usage()

    @property
    def whole(self) -> bool:
        return bool(self._finish)

    def events(self, chunk: object) -> list[Delta | Counted | Broke]:
        """What one chunk of a stream says; a Broke is the last. A chunk of an unknown shape says nothing."""
        if not isinstance(chunk, dict):
            return []
        self.request_id = self.request_id or string(chunk.get("responseId"))
        found: list[Delta | Counted | Broke] = []
        usage = _counted(mapping(chunk.get("usageMetadata")))
        if usage not in (self._usage, Usage()):
            self._usage = usage
            found.append(Counted(usage, self.request_id))
        if self._finish:
            return found
        if chunk.get("error"):
            return [*found, reported(self._target, chunk, self.request_id)]
        if blocked := string(mapping(chunk.get("promptFeedback")).get("blockReason")):
            return [*found, self._broke(Failure.REFUSED, f"refused the request: it was blocked ({blocked})")]
        candidate = mapping(next(iter(sequence(chunk.get("candidates"))), None))
        for part in sequence(mapping(candidate.get("content")).get("parts")):
            found += self._deltas(mapping(part))
        finish = string(candidate.get("finishReason"))
        return [*found, *self._ended("" if finish == UNSET else finish)]

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if the end marker came."""
        if not self._finish:
            return failures.cut(self._target, self.request_id)
        stop = STOPS.get(self._finish, StopReason.REFUSED)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return Finished(stop, self._usage, self.request_id)

    def _deltas(self, part: dict[str, Any]) -> Iterator[Delta]:
        text, signature = string(part.get("text")), string(part.get("thoughtSignature"))
        if part.get("thought") is True:
            if text or signature:
                self._signed = False
                yield ThinkingDelta(text, signature, self._vendor)
            return
        if signature or (text and self._signed):  # what is not signed must not join what is
            yield ThinkingDelta("", signature, self._vendor)
        if text:
            self._said = True
            yield TextDelta(text)
        if isinstance(call := part.get("functionCall"), dict):
            yield self._call(call)
        self._signed = bool(text and signature)

    def _call(self, call: dict[str, Any]) -> ToolCallDelta:
        id = self._ids.own(string(call.get("id")))
        self._calls += 1
        arguments = call.get("args")
        written = "" if arguments is None else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        return ToolCallDelta(self._calls - 1, id, string(call.get("name")), written)

    def _ended(self, finish: str) -> Iterator[Broke]:
        """Take the end marker; a Broke if nothing can be made of a reply that ends so."""
        if finish in BROKEN:
            yield self._broke(Failure.CUT, BROKEN[finish])
        elif finish and finish not in STOPS and (self._calls or not self._said):
            # Its calls must not run, and a reply without words would leave the user without any.
            yield self._broke(Failure.REFUSED, f"withheld its reply ({finish})")
        else:
            self._finish = finish

    def _broke(self, kind: Failure, what: str) -> Broke:
        remedy = "Send the message again." if kind is Failure.CUT else "Say it in other words, or choose another model."
        return Broke(kind, f"{self._target.name} {what}.", remedy, request_id=self.request_id)


def _counted(usage: dict[str, Any]) -> Usage:
    """Google counts cached tokens within the prompt, thoughts beside the reply, and tools' own prompts apart."""
    thinking = number(usage.get("thoughtsTokenCount"))
    return Usage(
        input=number(usage.get("promptTokenCount")) + number(usage.get("toolUsePromptTokenCount")),
        output=number(usage.get("candidatesTokenCount")) + thinking,
        cached=number(usage.get("cachedContentTokenCount")),
        thinking=thinking,
    )
