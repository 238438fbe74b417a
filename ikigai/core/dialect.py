"""Histories made with one model, fitted for another: the one step that every vendor's encoding begins with.

what is in the message                       what is sent
thinking of this model, signed               itself, byte for byte
any other thinking                           nothing: another model cannot read it, and vendors refuse it
a call id or tool name the vendor refuses    a name made of it, the same for the call and its result
an image for a model that sees none          a line that says so
nothing                                      [empty]: vendors refuse a message without content

Pairs and the order of roles are whole before this (`core.request`). It works on one message at a time, so that sizes
add up, and done twice it changes nothing.
"""

import hashlib
import re

from ikigai.core.messages import Block, Image, Message, Role, Text, Thinking, ToolCall, ToolResult
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
    blocks = tuple(block for given in message.blocks for block in _fitted(given, dialect))
    if not blocks and message.role is not Role.TOOL:
        blocks = (Text(EMPTY),)
    return message if blocks == message.blocks else Message(message.role, blocks)


def _fitted(block: Block, dialect: Dialect) -> tuple[Block, ...]:
    match block:
        case Text(text):
            return (block,) if text else ()
        case Thinking(_, signature, vendor):
            return (block,) if dialect.thoughts and signature and vendor.partition("#")[0] == dialect.thoughts else ()
        case Image() if not dialect.images:
            return (Text(f"[image {block.name} left out: this model sees no images]".replace("  ", " ")),)
        case Image():
            return (block,)
        case ToolCall(id, name, arguments, malformed):
            return (ToolCall(acceptable(id), acceptable(name), arguments, malformed),)
        case ToolResult(call_id, content, is_error, name):
            return (ToolResult(acceptable(call_id), content or EMPTY, is_error, acceptable(name)),)


def acceptable(name: str) -> str:
    """A call id or tool name that every vendor takes: itself, or what is left of it with a digest of the whole."""
    if re.fullmatch(IDS, name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', name)[:40]}_{digest}"
