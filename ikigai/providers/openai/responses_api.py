"""Write requests in the Responses format, OpenAI's own. Pure, no SDK.

Nothing is stored at OpenAI: every request carries the conversation, with the model's thinking as it came, encrypted.
"""

from typing import Any

import msgspec

from ikigai.core.events.messages import (
    TOOL,
    USER,
    Block,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import EMPTY_TEXT, CrossModelFormat
from ikigai.core.text import tokens
from ikigai.core.tools.vendor_search import MAX_SEARCHES
from ikigai.providers.encoding import BodyEncoder, result_text, tool_parameters
from ikigai.providers.http.json_shape import as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai import terms
from ikigai.providers.openai.terms import OPENAI_EFFORT, OptionalPart

COUNTED_FIELDS = frozenset({"model", "instructions", "tools", "reasoning", "text"})
"""Keys of the head that the endpoint for counting knows."""

PHASE_SUFFIX = "#phase"
"""Suffix of the vendor of a Thinking that is not a thought: its signature is the phase of the text after it (commentary
or final answer), which OpenAI wants back.
"""


class ReasoningItem(Record, frozen=True, omit_defaults=True):
    """The content of a Thinking's signature, as JSON: all of a reasoning item that the API wants back.

    `content` is the thinking itself, which servers of open models give; some of them encrypt nothing.
    """

    id: str
    summary: tuple[str, ...]
    encrypted_content: str
    content: tuple[str, ...] = ()


class ResponsesEncoder(BodyEncoder):
    """Bodies of requests for one model: `vendor` is the `Thinking.vendor` of its own thoughts.

    `official` servers (OpenAI's own) have a key for their cache; `left_out` are the parts that the server refuses. With
    `diagnoses` the server says why its cache missed. It sets a breakpoint at the end of a request, looks for the
    breakpoints of the last 80 requests, and keeps them for half an hour at least. Neither has to be asked for.
    """

    array = "input"
    pdf_rule = "openai"

    def __init__(
        self,
        vendor: str,
        traits: ModelTraits,
        official: bool = False,
        left_out: frozenset[OptionalPart] = frozenset(),
        diagnoses: bool = False,
    ) -> None:
        super().__init__(CrossModelFormat(vendor, traits.images, traits.images and official))
        self._thinks = traits.thinking == "effort"
        self._official = official
        self._left_out = left_out
        self._diagnoses = diagnoses and "diagnosis" not in left_out

    def head(self, request: Request) -> dict[str, Any]:
        head: dict[str, Any] = {"model": request.model}
        if request.system:
            head["instructions"] = request.system
        if request.tools:
            head["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool_parameters(tool.schema),
                    "strict": False,
                }
                for tool in request.tools
                if not tool.hosted
            ]
        searches = any(tool.hosted for tool in request.tools)
        if searches:
            head["tools"].append({"type": "web_search"})
            head["max_tool_calls"] = MAX_SEARCHES  # of the vendor's own tools
        head |= {"stream": True, "store": False}
        include = ["reasoning.encrypted_content"] * self._thinks
        include += ["web_search_call.action.sources"] * (searches and "pages" not in self._left_out)
        if include:
            head["include"] = include
        if self._thinks:  # other models refuse both
            effort = {"effort": OPENAI_EFFORT.get(request.level, request.level)} if request.level else {}
            if reasoning := effort | ({} if "summary" in self._left_out else {"summary": "auto"}):
                head["reasoning"] = reasoning
        if request.max_output:
            head["max_output_tokens"] = request.max_output
        if request.schema:
            head["text"] = {"format": {"type": "json_schema", **terms.response_format(request.schema)}}
        if self._official:
            head["prompt_cache_key"] = terms.cache_key(request)
        return head

    def tail(self, request: Request) -> dict[str, Any]:
        if not (self._diagnoses and request.previous_reply):
            return {}
        return {"prompt_cache_options": {"comparison_response_id": request.previous_reply}}

    def countable(self, request: Request) -> bytes:
        head = {key: value for key, value in self.head(request).items() if key in COUNTED_FIELDS}
        return b",".join(self._framed_entries(head, self.preface(request), self._pieces(request)))

    def entries(self, message: Message) -> list[Any]:
        if message.role is USER:
            return [{"type": "message", "role": "user", "content": list(map(_part, message.blocks))}]
        if message.role is TOOL:
            return [
                {"type": "function_call_output", "call_id": block.call_id, "output": _output(block)}
                for block in message.blocks
                if type(block) is ToolResult
            ]
        items = _items(message.blocks)
        if not any(item["type"] == "function_call" for item in items):
            items = [item for item in items if not _is_plain(item)]  # before an answer it only costs tokens
        while items and items[-1]["type"] == "reasoning":  # refused without an item after it
            items.pop()
        return items or [_message_item(EMPTY_TEXT, "")]

    def image_tokens(self, image: Image) -> int:
        return terms.image_tokens(image) if self._official else tokens.image_tokens(image.data)


def reasoning_signature(item: dict[str, Any], plain: bool) -> str:
    """Return the part of a reasoning item that the API wants back; "" if the server gave nothing to send back.

    With `plain` that is also thinking without its encrypted content.
    """
    encrypted = as_string(item.get("encrypted_content"))
    summary = tuple(as_string(as_mapping(part).get("text")) for part in as_sequence(item.get("summary")))
    parts = as_sequence(item.get("content")) if plain else ()
    content = tuple(text for part in parts if (text := as_string(as_mapping(part).get("text"))))
    if not encrypted and not (plain and (content or any(summary))):
        return ""
    return msgspec.json.encode(ReasoningItem(as_string(item.get("id")), summary, encrypted, content)).decode()


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Image(media_type, data):
            # Set explicitly, because by default a model may take four times the tokens for the finest detail.
            return {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "high"}
        case Text(text):
            return {"type": "input_text", "text": text}
        case Document(name, data=data):
            return {"type": "input_file", **terms.file_fields(name, data)}
        case _:
            raise TypeError(f"a user's message holds {type(block).__name__}")


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    """Return the output of a tool: text, or with images a list of parts."""
    text = result_text(result)
    return [_part(Text(text)), *map(_part, result.images)] if result.images else text


def _items(blocks: tuple[Block, ...]) -> list[dict[str, Any]]:
    """Return a model's message as items, in its order."""
    items: list[dict[str, Any]] = []
    phase = ""
    for block in blocks:
        match block:
            case Text(text):
                items.append(_message_item(text, phase))
                phase = ""
            case Thinking(_, signature, vendor) if vendor.endswith(PHASE_SUFFIX):
                phase = signature
            case Thinking(_, signature):
                if item := _reasoning_item(signature):
                    place = _place(items, item["id"])
                    items[place : place + 1] = [item]
            case ToolCall(hosted=hosted) if hosted:
                pass  # one item is call and result
            case ToolResult(id, opaque=opaque):
                items.append(as_mapping(msgspec.json.decode(opaque)) | {"id": id})
            case ToolCall(id, name, arguments):
                items.append({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            case _:
                raise TypeError(f"a model's message holds {type(block).__name__}")
    return items


def _message_item(text: str, phase: str) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": text}
    return message | {"phase": phase} if phase in ("commentary", "final_answer") else message


def _reasoning_item(signature: str) -> dict[str, Any] | None:
    """Return the reasoning item of a signature; None if the signature is not ours."""
    try:
        thought = msgspec.json.decode(signature, type=ReasoningItem)
    except (ValueError, RecursionError):
        return None
    summary = [{"type": "summary_text", "text": part} for part in thought.summary]
    item: dict[str, Any] = {"type": "reasoning", "id": thought.id, "summary": summary}
    if thought.content:
        item["content"] = [{"type": "reasoning_text", "text": part} for part in thought.content]
    if thought.encrypted_content:
        item["encrypted_content"] = thought.encrypted_content
    return item


def _is_plain(item: dict[str, Any]) -> bool:
    """Return True for thinking that its server did not encrypt."""
    return item["type"] == "reasoning" and "encrypted_content" not in item


def _place(items: list[dict[str, Any]], id: str) -> int:
    """Return the index of a reasoning item among `items`: where the same item stood before its signature came."""
    same = (at for at, item in enumerate(items) if id and _is_plain(item) and item["id"] == id)
    return next(same, len(items))
