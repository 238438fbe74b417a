"""Histories made with one model, fitted for another: the one step that every vendor's encoding begins with.

what is in the message                       what is sent
thinking of this model, signed               itself, byte for byte
any other thinking                           nothing: another model cannot read it, and vendors refuse it
a call id or tool name the vendor refuses    a name made of it, the same for the call and its result
an image for a model that sees none          a line that says so, also within a result
nothing                                      [empty]: vendors refuse a message without content

Pairs and the order of roles are whole before this (`request.build`). It works on one message at a time, so that sizes
add up, and done twice it changes nothing.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from ikigai.core.messages import TOOL, Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record

EMPTY = "[empty]"
"""What stands for no words at all: vendors refuse a message without content."""

IDS = r"[A-Za-z0-9_-]{1,64}"
"""Call ids and tool names that every vendor takes: Anthropic is the strictest about characters, OpenAI about length."""


class Dialect(Record, frozen=True):
    """What a model can be sent. `thoughts` is the `Thinking.vendor` whose signed thinking it takes back, "" for none.

    That of a vendor's second kind of thinking has something behind a # ("anthropic/claude-x#redacted").
    """

    thoughts: str = ""
    images: bool = True


def fitted(message: Message, dialect: Dialect) -> Message:
    """The message as this model can be sent it: the table above."""
    for block in message.blocks:
        if type(block) is Text and block.text:
            continue
        if _FITTED[type(block)](block, dialect) is not block:
            break
    else:  # as most are: this runs for every message that is measured
        if message.blocks:
            return message
    made = [_FITTED[type(block)](block, dialect) for block in message.blocks]
    blocks = tuple(block for block in made if block is not None)
    if not blocks and message.role is not TOOL:
        blocks = (Text(EMPTY),)
    return Message(message.role, blocks)


def _text(text: Text, dialect: Dialect) -> Text | None:
    return text if text.text else None


def _thinking(thought: Thinking, dialect: Dialect) -> Thinking | None:
    if not dialect.thoughts or not thought.signature:
        return None
    return thought if thought.vendor.partition("#")[0] == dialect.thoughts else None


def _image(image: Image, dialect: Dialect) -> Image | Text:
    return image if dialect.images else Text(_unseen(image))


def _unseen(image: Image) -> str:
    return f"[image {image.name} left out: this model sees no images]".replace("  ", " ")


def _call(call: ToolCall, dialect: Dialect) -> ToolCall:
    if _acceptable(call.id) and _acceptable(call.name):
        return call
    return ToolCall(acceptable(call.id), acceptable(call.name), call.arguments, call.malformed)


def _result(result: ToolResult, dialect: Dialect) -> ToolResult:
    seen = dialect.images or not result.images
    if _acceptable(result.call_id) and _acceptable(result.name) and result.content and seen:
        return result
    call_id, name = acceptable(result.call_id), acceptable(result.name)
    content = result.content if seen else "\n".join(filter(None, (result.content, *map(_unseen, result.images))))
    return ToolResult(call_id, content or EMPTY, result.is_error, name, result.images if seen else ())


_FITTED: dict[type, Callable[[Any, Dialect], Block | None]] = {
    Text: _text,
    Thinking: _thinking,
    Image: _image,
    ToolCall: _call,
    ToolResult: _result,
}
"""What becomes of a block, by its class; None leaves it out."""

_acceptable = re.compile(IDS).fullmatch


def acceptable(name: str) -> str:
    """A call id or tool name that every vendor takes: itself, or what is left of it with a digest of the whole."""
    if _acceptable(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', name)[:40]}_{digest}"
