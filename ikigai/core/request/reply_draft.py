"""Turn the saved states of a streaming reply into deltas for a process that reads its draft."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from ikigai.core.events.messages import ReplyBlock, Text, Thinking, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.reply import Delta, HostedDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.request.reply_builder import ReplyBuilder

Parts: TypeAlias = tuple[tuple[str, int | str], ...]
"""The order of text, thinking and calls in a draft: ("text", characters), ("thinking", characters), ("call", name), and
("hosted", JSON) for a hosted call or its result.
"""

THOUGHT_SEPARATOR = "\n\n"
"""Text between two blocks of thinking in a draft (`ReplyBuilder.thinking`)."""


class Draft(Record, frozen=True):
    """The text and thinking of a streaming reply, as last saved; `asked_by` is the event that it answers.

    `parts` is their order, for a process that watches the reply, and where a vendor ran calls; () if it is not needed.
    """

    asked_by: int
    text: str
    thinking: str = ""
    parts: Parts = ()


def draft_parts(blocks: Sequence[ReplyBlock]) -> Parts:
    """Return the parts of a reply so far."""
    return tuple(_part(block) for block in blocks if not isinstance(block, Thinking) or block.text)


def draft_blocks(draft: Draft) -> tuple[ReplyBlock, ...]:
    """Return the text, the thinking and the hosted calls of a reply that a killed process left."""
    if has_hosted(draft.parts) and _fit(draft.parts, draft.text, draft.thinking):
        follower = DraftFollower(draft.asked_by)
        reply = ReplyBuilder()
        for delta in follower.add_state(draft.text, draft.thinking, draft.parts):
            if not isinstance(delta, ToolCallDelta):
                reply.add(delta)
        return reply.blocks()
    return Thinking(draft.thinking), Text(draft.text)


def has_hosted(parts: Parts) -> bool:
    """Return True if a hosted call is among the parts."""
    return any(kind == HOSTED_PART for kind, _ in parts)


HOSTED_PART = "hosted"
_HOSTED = msgspec.json.Decoder(ToolCall | ToolResult)


def _part(block: ReplyBlock) -> tuple[str, int | str]:
    match block:
        case ToolResult() | ToolCall() if block.hosted:
            kept = block if isinstance(block, ToolCall) else msgspec.structs.replace(block, opaque="")
            return HOSTED_PART, msgspec.json.encode(kept).decode()
        case Text(text):
            return "text", len(text)
        case Thinking(text):
            return "thinking", len(text)
        case ToolCall(name=name) | ToolResult(name=name):
            return "call", name


class DraftFollower:
    """Turns the states of one draft into deltas, each character once and in order.

    `text` and `thinking` are the part of the reply to the event `asked_by` that was returned so far.
    """

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.text = self.thinking = ""
        self._calls: list[str] = []  # names of the calls returned so far
        self._hosted = 0  # hosted calls and results returned so far

    def add_state(self, text: str, thinking: str, parts: Parts) -> list[Delta]:
        """Return the deltas of a newer state: `text` and `thinking` are its new part, `parts` are all of its parts.

        Parts that do not fit the texts, as in a damaged row, are replaced by one block of thinking and one of text.
        """
        old_text, old_thinking = len(self.text), len(self.thinking)
        self.text += text
        self.thinking += thinking
        if not _fit(parts, self.text, self.thinking):
            parts = (("thinking", len(self.thinking)), ("text", len(self.text)))
        deltas: list[Delta] = []
        text_start = thinking_start = call = hosted = 0  # of the part
        before = ""
        for kind, size in parts:
            match kind, size:
                case "text", int():
                    if new := self.text[max(text_start, old_text) : text_start + size]:
                        deltas.append(TextDelta(new))
                    text_start += size
                case "thinking", int():
                    if new := self.thinking[max(thinking_start, old_thinking) : thinking_start + size]:
                        is_next = before == kind and thinking_start >= old_thinking
                        deltas.append(ThinkingDelta(THOUGHT_SEPARATOR * is_next + new))
                    thinking_start += size + len(THOUGHT_SEPARATOR)
                case "hosted", str():
                    hosted += 1
                    if hosted > self._hosted:
                        self._hosted = hosted
                        deltas.append(HostedDelta(_HOSTED.decode(size)))
                case _:
                    deltas += self._call(call, str(size))
                    call += 1
            before = kind
        return deltas

    def finish(self, blocks: Sequence[ReplyBlock]) -> list[Delta]:
        """Return the deltas of the complete reply that are left; none if it is not the reply of this draft."""
        text = "".join(block.text for block in blocks if isinstance(block, Text))
        thinking = THOUGHT_SEPARATOR.join(block.text for block in blocks if isinstance(block, Thinking) and block.text)
        if not (text.startswith(self.text) and thinking.startswith(self.thinking)):
            return []
        return self.add_state(text[len(self.text) :], thinking[len(self.thinking) :], draft_parts(blocks))

    def _call(self, number: int, name: str) -> list[Delta]:
        if number < len(self._calls):
            return []
        self._calls.append(name)
        return [ToolCallDelta(number, name=name)]


def _fit(parts: Parts, text: str, thinking: str) -> bool:
    """Return True if these parts fit the texts."""
    texts = [size for kind, size in parts if kind == "text" and isinstance(size, int) and size >= 0]
    thoughts = [size for kind, size in parts if kind == "thinking" and isinstance(size, int) and size >= 0]
    calls = [name for kind, name in parts if kind == "call" and isinstance(name, str)]
    hosted = [json for kind, json in parts if kind == HOSTED_PART and isinstance(json, str) and _is_hosted(json)]
    between = len(THOUGHT_SEPARATOR) * max(0, len(thoughts) - 1)
    valid = len(texts) + len(thoughts) + len(calls) + len(hosted) == len(parts)
    return valid and sum(texts) == len(text) and sum(thoughts) + between == len(thinking)


def _is_hosted(json: str) -> bool:
    try:
        return bool(_HOSTED.decode(json).hosted)
    except (ValueError, RecursionError):
        return False
