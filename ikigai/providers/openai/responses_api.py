"""Requests in the Responses format, OpenAI's own. Pure, no SDK.

Nothing is stored at OpenAI: every request carries the conversation, with the model's thinking as it came, encrypted.
"""

import hashlib
from typing import Any

import msgspec

from ikigai.core import tokens
from ikigai.core.messages import TOOL, USER, Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import EMPTY, Dialect
from ikigai.providers.encoding import BodyEncoder, told
from ikigai.providers.models import Traits
from ikigai.providers.openai import terms as openai_terms
from ikigai.providers.openai.terms import EFFORT

COUNTED = frozenset({"model", "instructions", "tools", "reasoning", "text"})
"""Keys of the head that the endpoint for counting knows."""

PHASE = "#phase"
"""Behind the vendor of a Thinking that is no thought: its signature says what the text behind it is (commentary or
final answer), which OpenAI wants to hear again."""


class Reasoning(Record, frozen=True):
    """What a Thinking's signature holds, as JSON: all of a reasoning item that the API wants back."""

    id: str
    summary: tuple[str, ...]
    encrypted_content: str


class ResponsesEncoder(BodyEncoder):
    """Bodies of requests for one model: `vendor` is the `Thinking.vendor` of its own thoughts.

    `official` servers (OpenAI's own) have a key for their cache; `summaries` asks for thoughts in words.
    """

    array = "input"

    def __init__(self, vendor: str, traits: Traits, official: bool = False, summaries: bool = True) -> None:
        super().__init__(Dialect(vendor, traits.images))
        self._thinks = traits.thinking == "effort"
        self._official = official
        self._summaries = summaries

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
                    "parameters": msgspec.json.decode(tool.schema),
                    "strict": False,
                }
                for tool in request.tools
            ]
        head |= {"stream": True, "store": False}
        if self._thinks:  # other models refuse both
            head["include"] = ["reasoning.encrypted_content"]
            effort = {"effort": EFFORT.get(request.level, request.level)} if request.level else {}
            if reasoning := effort | ({"summary": "auto"} if self._summaries else {}):
                head["reasoning"] = reasoning
        if request.max_output:
            head["max_output_tokens"] = request.max_output
        if request.schema:
            head["text"] = {"format": {"type": "json_schema", **openai_terms.form(request.schema)}}
        if self._official:
            head["prompt_cache_key"] = _conversation(request)
        return head

    def countable(self, request: Request) -> bytes:
        head = {key: value for key, value in self.head(request).items() if key in COUNTED}
        return self._framed(head, self.preface(request), self._pieces(request))

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
        while items and items[-1]["type"] == "reasoning":  # refused without what it led to
            items.pop()
        return items or [_said(EMPTY, "")]

    def image_tokens(self, image: Image) -> int:
        return openai_terms.image_tokens(image) if self._official else tokens.image(image.data)


def _conversation(request: Request) -> str:
    """A name for the conversation, always as long: requests of the same name go where their prefix may be cached."""
    first = request.messages[0].text if request.messages else ""
    return hashlib.sha256(f"{request.system}\0{first}".encode(errors="surrogatepass")).hexdigest()[:32]


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Image(media_type, data):
            # Said, because by itself a model may take four times the tokens for the finest detail.
            return {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "high"}
        case Text(text):
            return {"type": "input_text", "text": text}
        case _:
            raise TypeError(f"a user's message holds {type(block).__name__}")


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    """What came of a tool: words, or with pictures a list of parts."""
    said = told(result)
    return [_part(Text(said)), *map(_part, result.images)] if result.images else said


def _items(blocks: tuple[Block, ...]) -> list[dict[str, Any]]:
    """What a model said, as items, in its order."""
    items: list[dict[str, Any]] = []
    phase = ""
    for block in blocks:
        match block:
            case Text(text):
                items.append(_said(text, phase))
                phase = ""
            case Thinking(_, signature, vendor) if vendor.endswith(PHASE):
                phase = signature
            case Thinking(_, signature):
                items += _thought(signature)
            case ToolCall(id, name, arguments):
                items.append({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            case _:
                raise TypeError(f"a model's message holds {type(block).__name__}")
    return items


def _said(text: str, phase: str) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": text}
    return message | {"phase": phase} if phase in ("commentary", "final_answer") else message


def _thought(signature: str) -> list[dict[str, Any]]:
    """The reasoning item of a signature; none of what is no signature of ours."""
    try:
        thought = msgspec.json.decode(signature, type=Reasoning)
    except (ValueError, RecursionError):
        return []
    summary = [{"type": "summary_text", "text": part} for part in thought.summary]
    item = {"type": "reasoning", "id": thought.id, "summary": summary, "encrypted_content": thought.encrypted_content}
    return [item]
