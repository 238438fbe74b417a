"""Fit messages written by one model for another one: the first step of every vendor's encoding.

in the message                               sent
thinking of this model, signed               itself, byte for byte
any other thinking                           not at all: another model cannot read it, and vendors refuse it
a hosted call of this model with its result  themselves, with the citations of a text
any other hosted call                        a text of both; the texts around citations are joined
a call id or tool name the vendor refuses    a name made of it, the same for the call and its result
an image for a model that sees none          a line that says so, also within a result
a PDF for a model that takes PDFs            itself, unless it is encrypted: vendors refuse such a file
any other document                           its text between marks that do not occur in it
no content                                   [empty]: vendors refuse a message without content

Pairs and the order of roles are whole before this (`request.build`). It works on one message at a time, so that sizes
add up. It is idempotent.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ikigai.core.events.messages import (
    TOOL,
    Block,
    Document,
    DocumentKind,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.vendor_search import hosted_text

EMPTY_TEXT = "[empty]"
"""The text of a message without content: vendors refuse such a message."""

PORTABLE_ID = r"[A-Za-z0-9_-]{1,64}"
"""Call ids and tool names that every vendor takes: Anthropic is the strictest about characters, OpenAI about length."""


class CrossModelFormat(Record, frozen=True):
    """The content that a model accepts. `thinking_vendor` is the `Thinking.vendor` of the signed thinking that it takes
    back.

    "" means none. A vendor's second kind of thinking has a suffix behind a # ("anthropic/claude-x#redacted"). With
    `short_ids` calls have ids of nine letters and digits. Without `searches` even its own hosted calls are texts.
    """

    thinking_vendor: str = ""
    images: bool = True
    pdfs: bool = False
    short_ids: bool = False
    searches: bool = True


def fit_message(message: Message, cross_model: CrossModelFormat) -> Message:
    """Return the message as this model accepts it, by the table above."""
    for block in message.blocks:
        if type(block) is Text and block.text and not block.citations:
            continue
        if _FITTED[type(block)](block, cross_model) is not block:
            break
    else:  # most messages: this runs for every message that is measured
        if message.blocks:
            return message
    blocks = tuple(block for block in _fitted_blocks(message, cross_model) if block is not None)
    if not blocks and message.role is not TOOL:
        blocks = (Text(EMPTY_TEXT),)
    return Message(message.role, blocks)


def _fitted_blocks(message: Message, cross_model: CrossModelFormat) -> Iterable[Block | None]:
    """Return each block of the message as it is sent, or None; foreign hosted calls and citations are texts."""
    hosted = {block.id: block for block in message.blocks if type(block) is ToolCall and block.hosted}
    if not hosted and not any(type(block) is Text and block.citations for block in message.blocks):
        return [_FITTED[type(block)](block, cross_model) for block in message.blocks]
    answered = {block.call_id: block for block in message.blocks if type(block) is ToolResult}
    fitted: list[Block | None] = []
    joins = False  # the next text continues the one before it
    for block in message.blocks:
        if type(block) is ToolCall and block.hosted:
            result = answered.get(block.id)
            unanswered = cross_model.searches and block.hosted == cross_model.thinking_vendor
            own = _is_native(result, cross_model) if result else unanswered
            if not cross_model.searches and fitted and type(fitted[-1]) is Thinking:
                fitted.pop()  # its signature is the call's
            fitted.append(block if own else None)
            joins = False
        elif type(block) is ToolResult and block.hosted:
            own = _is_native(block, cross_model)
            fitted.append(block if own else Text(hosted_text(hosted.get(block.call_id), block)))
            joins = False
        elif type(block) is Text and block.text:
            sent = _text(block, cross_model)
            before = fitted[-1] if fitted else None
            if type(before) is Text and sent and joins and not before.citations and not sent.citations:
                fitted[-1] = Text(before.text + sent.text)
            else:
                fitted.append(sent)
            joins = True
        else:
            fitted.append(_FITTED[type(block)](block, cross_model))
    return fitted


def _is_native(result: ToolResult, cross_model: CrossModelFormat) -> bool:
    """Return True if this model takes the result back as it came. An import may hold anything in its place."""
    if not result.opaque or not cross_model.searches or result.hosted != cross_model.thinking_vendor:
        return False
    try:
        return isinstance(msgspec.json.decode(result.opaque), list | dict)
    except (ValueError, RecursionError):
        return False


def _text(text: Text, cross_model: CrossModelFormat) -> Text | None:
    if not text.text:
        return None
    kept = tuple(each for each in text.citations if each.opaque and each.vendor == cross_model.thinking_vendor)
    return text if kept == text.citations else Text(text.text, kept)


def _thinking(thought: Thinking, cross_model: CrossModelFormat) -> Thinking | None:
    if not cross_model.thinking_vendor or not thought.signature:
        return None
    return thought if thought.vendor.partition("#")[0] == cross_model.thinking_vendor else None


def _image(image: Image, cross_model: CrossModelFormat) -> Image | Text:
    return image if cross_model.images else Text(_image_placeholder(image))


def _image_placeholder(image: Image) -> str:
    return f"[image {image.name} left out: this model sees no images]".replace("  ", " ")


def _document(document: Document, cross_model: CrossModelFormat) -> Document | Text:
    if cross_model.pdfs and document.data:
        from ikigai.core.request.pdf_encryption import is_encrypted  # few conversations have a PDF

        if not is_encrypted(document.data):  # earlier versions stored such files, and imports may hold them
            return document
    return Text(document_text(document))


def document_text(document: Document) -> str:
    """Return a document as a model reads it: between marks that name it and do not occur in its text."""
    mark, number = str(document.kind), 1
    while f"</{mark}>" in document.text:
        number += 1
        mark = f"{document.kind}-{number}"
    name = clean_line(document.name).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    if document.kind is DocumentKind.PDF and not document.text:
        pages = f"{document.pages:,} page{'s' * (document.pages != 1)}"
        return f'<{mark} name="{name}">\n[{pages} without text]\n</{mark}>'
    end = "" if document.text.endswith("\n") else "\n"
    if document.whole:
        is_folder = document.kind is DocumentKind.FOLDER
        shown, unit = (document.lines, "entries") if is_folder else (len(document.text.encode()), "bytes")
        end += f"[cut: only the first {shown:,} of {document.whole:,} {unit} are shown]\n"
    return f'<{mark} name="{name}">\n{document.text}{end}</{mark}>'


def _call(call: ToolCall, cross_model: CrossModelFormat) -> ToolCall | None:
    if call.hosted:  # `_fitted_blocks` knows its result
        return None
    id, name = _call_id(call.id, cross_model), portable_name(call.name)
    return call if id == call.id and name == call.name else ToolCall(id, name, call.arguments, call.malformed)


def _result(result: ToolResult, cross_model: CrossModelFormat) -> ToolResult | Text:
    if result.hosted:  # its call is in another message
        return Text(hosted_text(None, result))
    seen = cross_model.images or not result.images
    call_id, name = _call_id(result.call_id, cross_model), portable_name(result.name)
    if call_id == result.call_id and name == result.name and result.content and seen:
        return result
    texts = (result.content, *(() if seen else map(_image_placeholder, result.images)))
    content = "\n".join(filter(None, texts))
    return ToolResult(call_id, content or EMPTY_TEXT, result.is_error, name, result.images if seen else ())


def _call_id(id: str, cross_model: CrossModelFormat) -> str:
    """Return the id of a call as this model takes it: the same for the same id."""
    if not cross_model.short_ids:
        return portable_name(id)
    if _is_short(id):
        return id
    digest = hashlib.sha256(id.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest)[:9].decode()


_FITTED: dict[type, Callable[[Any, CrossModelFormat], Block | None]] = {
    Text: _text,
    Thinking: _thinking,
    Image: _image,
    Document: _document,
    ToolCall: _call,
    ToolResult: _result,
}
"""The function that fits a block, by its class; None as its result leaves the block out."""

_is_portable = re.compile(PORTABLE_ID).fullmatch
_is_short = re.compile("[A-Za-z0-9]{9}").fullmatch


def portable_name(name: str) -> str:
    """Return a call id or tool name that every vendor takes: unchanged, or its portable characters with a digest."""
    if _is_portable(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', name)[:40]}_{digest}"
