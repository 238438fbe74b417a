"""Keep the thinking that servers with Chat Completions want back beside the words of a reply, and write it again.

The format has no field of its own for thinking, so servers have theirs, and some refuse a call that comes back without
it. All of it stands in the `signature` of a Thinking block, as JSON, and goes back to the model that wrote it alone.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from ikigai.core.events.messages import Message, Text, Thinking
from ikigai.core.events.record import Record
from ikigai.providers.http.json_shape import as_string

CHAT_VENDOR = "openai-chat"
"""The beginning of the vendor of thinking from Chat Completions."""

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields with thinking in words: of DeepSeek, Moonshot, xAI, vLLM and llama.cpp; of OpenRouter, Groq and Ollama."""
CONTENT_FIELD = "content"
"""Mistral's place for thinking: a part of the content."""

CALL_FIELDS = ("index", "id", "type", "function")
"""Fields of a call that the format itself defines."""


class ReturnedFields(Record, frozen=True, omit_defaults=True):
    """The fields of one Thinking block: where its words stood, or OpenRouter's `reasoning_details` in their stead, or
    fields of the reply's call number `call` that the format does not define ("extra_content", with Google's signature).
    """

    field: str = ""
    details: tuple[dict[str, Any], ...] = ()
    call: int = -1
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def signature(self) -> str:
        return msgspec.json.encode(self).decode()


def chat_vendor(provider: str, model: str) -> str:
    """Return the `Thinking.vendor` of a model's thinking: no other server is sent it."""
    return f"{CHAT_VENDOR}/{provider}/{model}"


def join_details(details: list[dict[str, Any]], pieces: Iterable[dict[str, Any]]) -> None:
    """Add pieces of `reasoning_details` in place: pieces of one type and index are one text, except encrypted ones."""
    for piece in pieces:
        last = details[-1] if details else {}
        kind = as_string(piece.get("type"))
        if not kind.endswith("encrypted") and all(piece.get(key) == last.get(key, "") for key in ("type", "index")):
            known = {name: value for name, value in piece.items() if value is not None}
            for name in ("text", "summary"):
                if name in known:
                    known[name] = as_string(last.get(name)) + as_string(known[name])
            details[-1] = last | known
        else:
            details.append(piece)


class ReturnedThinking:
    """The thinking of one message of the model, in the fields that its server had it in."""

    def __init__(self, message: Message) -> None:
        self.entry: dict[str, Any] = {}
        self.calls: dict[int, dict[str, Any]] = {}
        self.content: list[dict[str, Any]] | None = None
        parts: list[dict[str, Any]] = []
        for block in message.blocks:
            if type(block) is Text and block.text:
                parts.append({"type": "text", "text": block.text})
            elif type(block) is Thinking and (fields := _parse(block.signature)):
                if fields.field == CONTENT_FIELD:
                    parts.append({"type": "thinking", "thinking": [{"type": "text", "text": block.text}]})
                    self.content = parts
                elif fields.field in REASONING_FIELDS:
                    self.entry[fields.field] = self.entry.get(fields.field, "") + block.text
                if fields.details:
                    join_details(self.entry.setdefault("reasoning_details", []), fields.details)
                if fields.call >= 0:
                    self.calls[fields.call] = self.calls.get(fields.call, {}) | undefined_fields(fields.fields)

    @property
    def is_known(self) -> bool:
        """True if the thinking of the message goes back in some field."""
        return bool(self.entry) or self.content is not None


def _parse(signature: str) -> ReturnedFields | None:
    try:
        return msgspec.json.decode(signature, type=ReturnedFields)
    except (msgspec.DecodeError, RecursionError):
        return None


def undefined_fields(call: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a call that the format does not define."""
    return {name: value for name, value in call.items() if name not in CALL_FIELDS and value is not None}
