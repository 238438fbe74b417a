"""This module turns the saved states of a streaming reply into deltas for a process that reads its draft."""

from collections.abc import Sequence
from typing import TypeAlias

from ikigai.core.messages import ReplyBlock, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.reply import Delta, TextDelta, ThinkingDelta, ToolCallDelta

Parts: TypeAlias = tuple[tuple[str, int | str], ...]
"""The order of text, thinking and calls in a draft: ("text", characters), ("thinking", characters), ("call", name)."""

THOUGHT_SEPARATOR = "\n\n"
"""Text between two blocks of thinking in a draft (`reply.Accumulator.thinking`)."""


class Draft(Record, frozen=True):
    """The text and thinking of a streaming reply, as last saved; `asked_by` is the event that it answers.

    `parts` is their order, for a process that watches the reply; () if it is not needed.
    """

    asked_by: int
    text: str
    thinking: str = ""
    parts: Parts = ()


def draft_parts(blocks: Sequence[ReplyBlock]) -> Parts:
    """Return the parts of a reply so far."""
    said = (block for block in blocks if not isinstance(block, ToolResult))
    return tuple(_part(block) for block in said if not isinstance(block, Thinking) or block.text)


def _part(block: Text | Thinking | ToolCall) -> tuple[str, int | str]:
    match block:
        case Text(text):
            return "text", len(text)
        case Thinking(text):
            return "thinking", len(text)
        case call:
            return "call", call.name


class DraftFollower:
    """Turns the states of one draft into deltas, each character once and in order.

    `text` and `thinking` are the part of the reply to the event `asked_by` that was returned so far.
    """

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.text = self.thinking = ""
        self._calls: list[str] = []  # names of the calls returned so far

    def add_state(self, text: str, thinking: str, parts: Parts) -> list[Delta]:
        """Return the deltas of a newer state: `text` and `thinking` are its new part, `parts` are all of its parts.

        Parts that do not fit the texts, as in a damaged row, are replaced by one block of thinking and one of text.
        """
        old_text, old_thinking = len(self.text), len(self.thinking)
        self.text += text
        self.thinking += thinking
        if not self._fit(parts):
            parts = (("thinking", len(self.thinking)), ("text", len(self.text)))
        deltas: list[Delta] = []
        text_start = thinking_start = call = 0  # of the part
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

    def _fit(self, parts: Parts) -> bool:
        """Return True if these parts fit the texts."""
        texts = [size for kind, size in parts if kind == "text" and isinstance(size, int) and size >= 0]
        thoughts = [size for kind, size in parts if kind == "thinking" and isinstance(size, int) and size >= 0]
        calls = [name for kind, name in parts if kind == "call" and isinstance(name, str)]
        between = len(THOUGHT_SEPARATOR) * max(0, len(thoughts) - 1)
        valid = len(texts) + len(thoughts) + len(calls) == len(parts)
        return valid and sum(texts) == len(self.text) and sum(thoughts) + between == len(self.thinking)
