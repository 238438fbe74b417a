"""Anthropic's Messages format: Request → body, chunk of a stream → deltas. Pure, no SDK."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from ikigai.core.messages import (
    ASSISTANT,
    Block,
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
from ikigai.core.request.cross_model import EMPTY, Dialect
from ikigai.core.request.reply import Broke, Counted, Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.providers import failures
from ikigai.providers.anthropic import models as claude
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import BodyEncoder, dumps
from ikigai.providers.failures import Target, reported
from ikigai.providers.json_shape import mapping, string
from ikigai.providers.models import Traits

VENDOR = "anthropic"
REDACTED = "#redacted"
"""Behind the vendor of thinking that only its vendor can read: it has a signature and no text."""
UNSEEN = ("thinking", "redacted_thinking")

CACHED = {"type": "ephemeral"}
"""A cache breakpoint. Three of the four that a request may have: behind the tools, behind the system prompt, and, at
the top of the body, behind the last block, where the server puts it: so the bytes of a message never change."""

BINDING = "thinking-binding-controls-2026-08-01"
"""The beta that `block_binding` belongs to, for the header anthropic-beta."""

STOPS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
}
"""stop_reason → why; whatever else a server says is an ordinary end, or tools when it called some."""

COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class MessagesEncoder(BodyEncoder):
    """Bodies of requests to one model.

    `thoughts` says whether its thinking goes back to it; without, no budget for thinking is asked for either, as then a
    tool turn has to begin with the thinking before it. `binding` see `models.thinking`.
    """

    def __init__(
        self, model: str, traits: Traits | None = None, *, thoughts: bool = True, binding: bool = True
    ) -> None:
        self._traits = traits or Traits()
        super().__init__(Dialect(f"{VENDOR}/{model}" if thoughts else "", self._traits.images))
        self._model = model
        self._thoughts = thoughts
        self._binding = binding

    def head(self, request: Request) -> dict[str, Any]:
        most = self._traits.max_output
        output = min(request.max_output, most or request.max_output) or most or claude.OUTPUT
        asked = claude.thinking(self._model, self._traits, request.level, self._binding)
        if self._traits.thinking == "budget" and request.level:
            level = request.level if self._thoughts else "off"
            output, budget = claude.budget(level, output, most)
            asked["thinking"] = {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}
        if request.schema and claude.keeps_to_schemas(self._model):
            form = {"type": "json_schema", "schema": msgspec.Raw(request.schema.encode())}
            asked["output_config"] = asked.get("output_config", {}) | {"format": form}
        head: dict[str, Any] = {"model": request.model, "max_tokens": output, "stream": True} | asked
        if request.tools:
            head["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": msgspec.Raw(tool.schema.encode())}
                for tool in request.tools
            ]
            head["tools"][-1]["cache_control"] = CACHED
        if request.system.strip():
            head["system"] = [{"type": "text", "text": request.system, "cache_control": CACHED}]
        head["cache_control"] = CACHED
        return head

    def beta(self, request: Request) -> str:
        """What the header anthropic-beta has to say for this request; often nothing."""
        asked = claude.thinking(self._model, self._traits, request.level, self._binding)
        return BINDING if "block_binding" in asked.get("thinking", {}) else ""

    def countable(self, request: Request) -> bytes:
        """The body for the counting endpoint.

        Behind a model's words stands one more of the user's, a few tokens: newer models do not continue their own.
        """
        head = {key: value for key, value in self.head(request).items() if key not in ("max_tokens", "stream")}
        pieces = self._pieces(request)
        if request.messages and request.messages[-1].role is ASSISTANT:
            pieces.append(dumps({"role": "user", "content": [_text(EMPTY)]}))
        return self._framed(head, [], pieces)

    def entries(self, message: Message) -> list[Any]:
        role = "assistant" if message.role is ASSISTANT else "user"
        content = [part for block in message.blocks for part in _parts(block)]
        if not content or content[-1]["type"] in UNSEEN:  # thinking must not come last
            content.append(_text(EMPTY))
        return [{"role": role, "content": content}]

    def image_tokens(self, image: Image) -> int:
        return claude.image_tokens(self._model, image)


def _parts(block: Block) -> list[dict[str, Any]]:
    """What one block is in the content of its entry; words that are only blanks are refused, so they are left out."""
    match block:
        case Text(text):
            return [_text(text)] if text.strip() else []
        case Image(media_type, data):
            return [{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}]
        case Thinking(_, signature, vendor) if vendor.endswith(REDACTED):
            return [{"type": "redacted_thinking", "data": signature}]
        case Thinking(text, signature):
            return [{"type": "thinking", "thinking": text, "signature": signature}]
        case ToolCall(id, name, arguments):
            return [{"type": "tool_use", "id": id, "name": name, "input": _object(arguments)}]
        case ToolResult(call_id, content, is_error):
            said = content if content.strip() else EMPTY
            shown = [part for image in block.images for part in _parts(image)]
            result = {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": [_text(said), *shown] if shown else said,
            }
            return [result | {"is_error": True} if is_error else result]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _object(arguments: str) -> msgspec.Raw:
    """Arguments byte for byte, as the model wrote them; what is no object would break the whole body."""
    try:
        msgspec.json.decode(arguments, type=dict[str, object])
    except (ValueError, RecursionError):
        return msgspec.Raw(b"{}")
    return msgspec.Raw(arguments.encode())


class _Begun:
    """A content block that has begun: which call it is (-1 for none), and what is to be said when it ends."""

    def __init__(self, call: int = -1, arguments: str = "", signature: str = "") -> None:
        self.call = call
        self.arguments = arguments
        self.signature = signature


class MessagesReader:
    """What has been read of one stream so far: the blocks begun, why it stopped, the usage (`streaming.Reader`).

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self,
        target: Target,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = lambda: new_id("toolu"),
    ) -> None:
        self.target = target
        self.request_id = ""
        self.whole = False
        self._vendor = f"{VENDOR}/{target.model}"
        self._ids = CallIds(taken, new_id)
        self._begun: dict[object, _Begun] = {}
        self._calls = 0
        self._said = False
        self._stop = ""
        self._tokens = dict.fromkeys((*COUNTS, "thinking"), 0)

    def events(self, chunk: object) -> list[Delta | Counted | Broke]:
        """What one chunk says; a Broke is the last. After a stop_reason only counts and the end are believed."""
        if not isinstance(chunk, dict) or self.whole:
            return []
        kind = chunk.get("type")
        if kind == "error" or chunk.get("error"):
            return [reported(self.target, chunk, self.request_id)]
        if kind == "message_start":
            return [*self._counted(mapping(mapping(chunk.get("message")).get("usage")))]
        if kind == "message_delta":
            return [*self._stopped(mapping(chunk.get("delta"))), *self._counted(mapping(chunk.get("usage")))]
        if kind == "message_stop":
            self.whole = bool(self._stop)
        found: list[Delta] = []
        if not self._stop:
            if kind == "content_block_start":
                found = self._start(chunk.get("index"), mapping(chunk.get("content_block")))
            elif kind == "content_block_delta":
                found = self._delta(chunk.get("index"), mapping(chunk.get("delta")))
            elif kind == "content_block_stop":
                found = self._closed(chunk.get("index"))
        self._said = self._said or any(isinstance(event, TextDelta | ToolCallDelta) for event in found)
        return [*found]

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if message_stop came, and a stop_reason before it."""
        if not self.whole:
            return failures.cut(self.target, self.request_id)
        stop = STOPS.get(self._stop, StopReason.END)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return Finished(stop, self._usage(), self.request_id)

    def _start(self, index: object, block: dict[str, Any]) -> list[Delta]:
        thoughts = [key for key, begun in self._begun.items() if begun.call < 0]
        found = self._closed(*thoughts)  # a signature stands before what comes behind it, or nowhere
        for key in thoughts:
            del self._begun[key]
        match block.get("type"):
            case "text":
                self._begun[_key(index)] = _Begun()
                return [*found, *_spoken(block)]
            case "thinking":
                self._begun[_key(index)] = _Begun(signature=string(block.get("signature")))
                # Said even when it is empty: thinking may be silent for minutes.
                return [*found, ThinkingDelta(string(block.get("thinking")), vendor=self._vendor)]
            case "redacted_thinking" if data := string(block.get("data")):
                return [*found, ThinkingDelta("", data, self._vendor + REDACTED)]
            case "tool_use":
                id, given = self._ids.own(string(block.get("id"))), block.get("input")
                arguments = json.dumps(given) if isinstance(given, dict) and given else string(given)
                self._begun[_key(index)] = _Begun(self._calls, arguments)
                self._calls += 1
                return [*found, ToolCallDelta(self._calls - 1, id, string(block.get("name")))]
        return found

    def _delta(self, index: object, delta: dict[str, Any]) -> list[Delta]:
        begun = self._begun.get(_key(index))
        match delta.get("type"):
            case "text_delta":
                return _spoken(delta)
            case "thinking_delta" if thought := string(delta.get("thinking")):
                return [ThinkingDelta(thought, vendor=self._vendor)]
            case "signature_delta" if begun:
                begun.signature = string(delta.get("signature"))
            case "input_json_delta" if begun and begun.call >= 0 and (piece := string(delta.get("partial_json"))):
                begun.arguments = ""  # what stood at the beginning was a stand-in
                return [ToolCallDelta(begun.call, arguments=piece)]
        return []

    def _closed(self, *indexes: object) -> list[Delta]:
        """What is left to say of blocks that end: a whole signature, arguments that came all at once."""
        found: list[Delta] = []
        for begun in [self._begun[_key(index)] for index in indexes if _key(index) in self._begun]:
            if begun.signature:
                found.append(ThinkingDelta("", begun.signature, self._vendor))
            if begun.arguments:
                found.append(ToolCallDelta(begun.call, arguments=begun.arguments))
            begun.signature = begun.arguments = ""
        return found

    def _stopped(self, delta: dict[str, Any]) -> list[Delta]:
        if self._stop or not string(delta.get("stop_reason")):
            return []
        found = self._closed(*self._begun)
        self._stop = string(delta.get("stop_reason"))
        why = string(mapping(delta.get("stop_details")).get("explanation"))
        if self._stop == "refusal" and why and not self._said:
            found.append(TextDelta(why))
        return found

    def _counted(self, usage: dict[str, Any]) -> list[Counted]:
        """Take the tokens as the server counted them: each figure's last report stands."""
        details = mapping(usage.get("output_tokens_details"))
        for name, value in (*usage.items(), ("thinking", details.get("thinking_tokens"))):
            if name in self._tokens and isinstance(value, int) and 0 <= value < 2**53:
                self._tokens[name] = value
        return [Counted(self._usage(), self.request_id)] if usage else []

    def _usage(self) -> Usage:
        fresh, cached, written, output = (self._tokens[name] for name in COUNTS)
        return Usage(fresh + cached + written, output, cached, self._tokens["thinking"], written)


def _spoken(part: dict[str, Any]) -> list[Delta]:
    text = string(part.get("text"))
    return [TextDelta(text)] if text else []


def _key(index: object) -> object:
    """An index as a key: servers count blocks, and nothing else is believed."""
    return index if isinstance(index, int) else None
