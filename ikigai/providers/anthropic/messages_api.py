"""Write requests in Anthropic's Messages format: Request → body. Pure, no SDK."""

from typing import Any

import msgspec

from ikigai.core.events.messages import ASSISTANT, Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import CONTINUE_TEXT, Request
from ikigai.core.request.cross_model import EMPTY_TEXT, CrossModelFormat
from ikigai.core.tools.vendor_search import MAX_SEARCHES
from ikigai.providers.anthropic import models
from ikigai.providers.encoding import BodyEncoder, dumps, json_object
from ikigai.providers.models.models import ModelTraits

ANTHROPIC_VENDOR = "anthropic"
REDACTED_SUFFIX = "#redacted"
"""Suffix of the vendor of thinking that only its vendor can read: it has a signature and no text."""
THINKING_TYPES = ("thinking", "redacted_thinking")

CACHE_BREAKPOINT = {"type": "ephemeral"}
"""A cache breakpoint. A request may have four. Three are after the tools, after the system prompt, and, at the top of
the body, after the last block, where the server puts it. So the bytes of a message do not change.

The fourth is at the end of the request before, where that lies further back than the server looks by itself.
"""
SEARCHED_BLOCKS = 20
"""Blocks before a breakpoint in which the server looks for cached content (build-with-claude/prompt-caching)."""

DEFAULT_TTL = "5m"
"""The lifetime of a cache where none was chosen."""

THINKING_BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The beta that `block_binding` belongs to, for the header anthropic-beta."""

WEB_SEARCH_TOOL = {"type": "web_search_20250305", "name": "web_search", "max_uses": MAX_SEARCHES}
"""The vendor's search, in the version that needs no execution of code beside it."""

MAX_TITLE_CHARACTERS = 500
"""Characters of a PDF's name that are sent as its title."""


class MessagesEncoder(BodyEncoder):
    """Bodies of requests to one model.

    With `thoughts` its thinking goes back to it. Without, no budget for thinking is asked for either, as then a tool
    turn has to begin with the thinking before it. `binding` see `models.thinking_parameters`. With `lifetimes` the
    server knows how long a cache should live; both names are of one length, so that the choice changes no size. With
    `diagnoses` it says why a cache missed.
    """

    pdf_rule = tool_rule = "anthropic"

    def __init__(
        self,
        model: str,
        traits: ModelTraits | None = None,
        *,
        thoughts: bool = True,
        binding: bool = True,
        lifetimes: bool = False,
        diagnoses: bool = False,
    ) -> None:
        self._traits = traits or ModelTraits()
        takes_pdfs = self._traits.images and "claude" in model.lower()
        vendor = f"{ANTHROPIC_VENDOR}/{model}" if thoughts else ""
        super().__init__(CrossModelFormat(vendor, self._traits.images, takes_pdfs))
        self._model = model
        self._thoughts = thoughts
        self._binding = binding
        self._lifetimes = lifetimes
        self._diagnoses = diagnoses

    def head(self, request: Request) -> dict[str, Any]:
        max_output = self._traits.max_output
        output = min(request.max_output, max_output or request.max_output) or max_output or models.DEFAULT_MAX_TOKENS
        parameters = models.thinking_parameters(self._model, self._traits, request.level, self._binding)
        if self._traits.thinking == "budget" and request.level:
            level = request.level if self._thoughts else "off"
            most = min(max_output or request.output_cap, request.output_cap or max_output)
            output, budget = models.output_budget(level, output, most)
            parameters["thinking"] = {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}
        if request.schema and (request.schema_required or models.supports_schemas(self._model)):
            form = {"type": "json_schema", "schema": msgspec.Raw(request.schema.encode())}
            parameters["output_config"] = parameters.get("output_config", {}) | {"format": form}
        breakpoint = self._breakpoint(request)
        head: dict[str, Any] = {"model": request.model, "max_tokens": output, "stream": True} | parameters
        if request.tools:
            tools: list[dict[str, Any]] = [
                {"name": tool.name, "description": tool.description, "input_schema": msgspec.Raw(tool.schema.encode())}
                for tool in request.tools
                if not tool.hosted
            ]
            if len(tools) < len(request.tools):
                tools.append(dict(WEB_SEARCH_TOOL))
            tools[-1]["cache_control"] = breakpoint
            head["tools"] = tools
        if request.system.strip():
            head["system"] = [{"type": "text", "text": request.system, "cache_control": breakpoint}]
        head["cache_control"] = breakpoint
        return head

    def _breakpoint(self, request: Request) -> dict[str, str]:
        return CACHE_BREAKPOINT | ({"ttl": request.cache_ttl or DEFAULT_TTL} if self._lifetimes else {})

    def tail(self, request: Request) -> dict[str, Any]:
        return {"diagnostics": {"previous_message_id": request.previous_reply or None}} if self._diagnoses else {}

    def marked(self, request: Request, pieces: list[bytes]) -> list[bytes]:
        """Return the messages with a breakpoint at the end of the request before, if the server would not find it.

        The mark is not measured: it is no part of the prompt. A reply that paused, and whose searches were refused, is
        followed by a message of the user.
        """
        if not self._thoughts and request.messages and request.messages[-1].role is ASSISTANT:
            pieces = [*pieces, dumps({"role": "user", "content": [_text(CONTINUE_TEXT)]})]
        last = previous_end(request.messages)
        if last < 0 or sum(len(message.blocks) for message in request.messages[last + 1 :]) < SEARCHED_BLOCKS:
            return pieces
        piece = pieces[last]
        end = len(piece) - len(b"}]}")
        mark = b',"cache_control":' + dumps(self._breakpoint(request))
        return [*pieces[:last], piece[:end] + mark + piece[end:], *pieces[last + 1 :]]

    def beta(self, request: Request) -> str:
        """Return the value of the header anthropic-beta for this request; often ""."""
        parameters = models.thinking_parameters(self._model, self._traits, request.level, self._binding)
        return THINKING_BINDING_BETA if "block_binding" in parameters.get("thinking", {}) else ""

    def countable(self, request: Request) -> bytes:
        """Return the body for the counting endpoint.

        A user message of a few tokens follows a last message of the model: newer models do not continue their own.
        """
        head = {key: value for key, value in self.head(request).items() if key not in ("max_tokens", "stream")}
        pieces = self._pieces(request)
        if request.messages and request.messages[-1].role is ASSISTANT:
            pieces.append(dumps({"role": "user", "content": [_text(EMPTY_TEXT)]}))
        return b",".join(self._framed_entries(head, [], pieces))

    def entries(self, message: Message) -> list[Any]:
        role = "assistant" if message.role is ASSISTANT else "user"
        content = [part for block in message.blocks for part in _parts(block)]
        if not content or content[-1]["type"] in THINKING_TYPES:  # thinking must not come last
            content.append(_text(EMPTY_TEXT))
        return [{"role": role, "content": content}]

    def image_tokens(self, image: Image) -> int:
        return models.image_tokens(self._model, image)


def previous_end(messages: tuple[Message, ...]) -> int:
    """Return the place of the message that the request before ended with: the one that the newest reply followed; -1
    for none.
    """
    replies = (place for place in range(len(messages) - 1, 0, -1) if messages[place].role is ASSISTANT)
    return next(replies, 0) - 1


def _parts(block: Block) -> list[dict[str, Any]]:
    """Return the parts of one block in the content of its entry. Blank text is left out, because it is refused."""
    match block:
        case Text(text, citations):
            cited = {"citations": [json_object(each.opaque) for each in citations]} if citations else {}
            return [_text(text) | cited] if text.strip() else []
        case Image(media_type, data):
            return [{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}]
        case Thinking(_, signature, vendor) if vendor.endswith(REDACTED_SUFFIX):
            return [{"type": "redacted_thinking", "data": signature}]
        case Thinking(text, signature):
            return [{"type": "thinking", "thinking": text, "signature": signature}]
        case ToolCall(id, name, arguments, hosted=hosted):
            kind, name = ("server_tool_use", WEB_SEARCH_TOOL["name"]) if hosted else ("tool_use", name)
            return [{"type": kind, "id": id, "name": name, "input": json_object(arguments)}]
        case ToolResult(call_id, hosted=hosted, opaque=opaque) if hosted:
            found = msgspec.Raw(opaque.encode())
            return [{"type": "web_search_tool_result", "tool_use_id": call_id, "content": found}]
        case ToolResult(call_id, content, is_error):
            text = content if content.strip() else EMPTY_TEXT
            images = [part for image in block.images for part in _parts(image)]
            result = {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": [_text(text), *images] if images else text,
            }
            return [result | {"is_error": True} if is_error else result]
        case Document(name, data=data):  # `fit_message` makes any but a PDF a Text
            source = {"type": "base64", "media_type": "application/pdf", "data": data}
            return [{"type": "document", "source": source, "title": name[-MAX_TITLE_CHARACTERS:]}]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
