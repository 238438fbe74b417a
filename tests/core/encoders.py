"""Two small encoders that measure real JSON bodies, and the bodies to compare with.

`Chat` writes the results of tools as messages of their own and arguments as text. `Blocks` writes lists of blocks, the
results inside a user's message, and arguments as objects, which makes them shorter than the model wrote them. For an
image, `Chat` counts the bytes, `Blocks` the pixels.
"""

import json
import math
from typing import Any

import msgspec

from ikigai.core.events.messages import Block, Image, Message, Role, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.model import Encoder, ModelLimits
from ikigai.core.text import tokens


def dumped(value: Any) -> bytes:
    return msgspec.json.encode(value)


class Chat:
    """Bodies in the manner of Chat Completions."""

    tool_rule = ""

    def body(self, request: Request) -> bytes:
        """Return the whole body of the request, serialized at once."""
        return dumped({**self._head(request), "messages": [m for said in request.messages for m in self._wire(said)]})

    def weight(self, request: Request) -> int:
        """Return the size of the whole body: its length, with four bytes for each token of an image."""
        images = [image for message in request.messages for image in message.images]
        return len(self.body(request)) + sum(4 * self.image_tokens(image) - len(image.data) for image in images)

    def envelope(self, request: Request) -> int:
        return len(dumped({**self._head(request), "messages": []})) - 1

    def message(self, message: Message) -> int:
        hidden = sum(len(image.data) - 4 * self.image_tokens(image) for image in message.images)
        return sum(len(dumped(wire)) + 1 for wire in self._wire(message)) - hidden

    def image_tokens(self, image: Image) -> int:
        return tokens.image_tokens(image.data)

    def _head(self, request: Request) -> dict[str, Any]:
        head: dict[str, Any] = {"model": request.model, "max_tokens": request.max_output, "stream": True}
        if request.system:
            head["system"] = request.system
        if request.level:
            head["effort"] = request.level
        if request.tools:
            head["tools"] = [
                {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.schema)}
                for tool in request.tools
            ]
        return head

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        if message.role is Role.TOOL:
            return [
                {"role": "tool", "tool_call_id": block.call_id, "content": block.content, **_pictures(block.images)}
                for block in message.blocks
                if isinstance(block, ToolResult)
            ]
        wire: dict[str, Any] = {"role": message.role.value, "content": message.text, **_pictures(message.images)}
        if message.calls:
            wire["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls]
        return [wire]


def _pictures(images: tuple[Image, ...]) -> dict[str, Any]:
    return {"images": [f"data:{image.media_type};base64,{image.data}" for image in images]} if images else {}


class Blocks(Chat):
    """Bodies in the manner of Messages."""

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        return [{"role": role, "content": [_block(block) for block in message.blocks]}]

    def image_tokens(self, image: Image) -> int:
        return math.ceil(image.width * image.height / 750)


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(media_type, data):
            return {"type": "image", "media_type": media_type, "data": data}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        case ToolResult(call_id, content, is_error, name):
            told = {"type": "tool_result", "tool_use_id": call_id, "name": name, "content": content, "error": is_error}
            return told | ({"images": list(map(_block, block.images))} if block.images else {})


ENCODERS: dict[str, Chat] = {"chat": Chat(), "blocks": Blocks()}
LIMITS = {
    "tiny": ModelLimits(250, 40),
    "small": ModelLimits(800, 1000),
    "large": ModelLimits(200_000, 8_000),
    "toolless": ModelLimits(800, 100, tools=False),
}


def encoder(model: str) -> Chat:
    """Return the encoder of a model "chat/…" or "blocks/…"; without a model chat's."""
    return ENCODERS[model.partition("/")[0] or "chat"]


def limits(model: str) -> ModelLimits:
    """Return the limits of a model "…/tiny", "…/small", "…/large" or "…/toolless"; almost none without a model."""
    return LIMITS[model.partition("/")[2] or "tiny"]


def cramped(model: str) -> ModelLimits:
    """Return two thirds of these limits: the models as another configuration knows them."""
    given = limits(model)
    return ModelLimits(given.context * 2 // 3, given.max_output, given.tools)


_conforms: Encoder = Chat()
