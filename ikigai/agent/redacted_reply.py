"""Passes a streaming reply on without ikigai's own keys: the screen, the drafts and the log get the same text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ikigai.core.messages import ReplyBlock, Text, Thinking, ToolCall
from ikigai.core.redaction import Redactor, StreamRedactor
from ikigai.core.request.reply import Delta, TextDelta, ThinkingDelta
from ikigai.core.sanitize import storable


class RedactedReply:
    """One reply. `calls` are the tool calls as the model wrote them, by their ids,
    where a stored argument differs: these run.

    The end of a text that may be the start of a key is held back until more comes or the text ends.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._own = redactor.own
        self._text, self._thinking = StreamRedactor(redactor), StreamRedactor(redactor)
        self._thought: list[str] = []  # the thinking block under way, as it came
        self._kept: list[str] = []  # and as it was passed on
        self._vendor = ""
        self._unsigned: set[str] = set()  # signatures of thinking that was changed
        self.calls: dict[str, ToolCall] = {}

    def deltas(self, delta: Delta) -> Iterator[Delta]:
        """Yield what may be shown and stored now."""
        match delta:
            case TextDelta(""):
                pass
            case TextDelta(text):
                yield from self._end_thinking()
                if safe := self._text.feed(text):
                    yield TextDelta(safe)
            case ThinkingDelta(text, signature, vendor):
                yield from self._end_text()
                if vendor and vendor != self._vendor:
                    yield from self._end_thinking()
                    self._vendor = vendor
                self._thought.append(text)
                safe = self._thinking.feed(text)
                if signature:
                    safe += self._thinking.finish()
                self._kept.append(safe)
                if signature:
                    self._sign(signature)
                if safe or signature or not text:
                    yield ThinkingDelta(safe, signature, vendor)
            case _:
                yield from self.rest()
                yield delta

    def rest(self) -> Iterator[Delta]:
        """Yield what was held back, at the end of a block or of the reply."""
        yield from self._end_thinking()
        yield from self._end_text()

    def stored(self, blocks: Sequence[ReplyBlock]) -> tuple[ReplyBlock, ...]:
        """The blocks as they are stored: signed thinking that was changed loses its signature, so that no model is sent
        it; the arguments of calls lose their keys.
        """
        return tuple(self._stored(block) for block in blocks)

    def _stored(self, block: ReplyBlock) -> ReplyBlock:
        match block:
            case Thinking(text, signature, vendor) if signature in self._unsigned:
                return Thinking(text, "", vendor)
            case ToolCall(id, name, arguments, malformed):
                kept = ToolCall(id, name, self._own(arguments), self._own(malformed))
                if kept != block:
                    self.calls[storable(id)] = block
                return kept
            case Text() | Thinking():
                return block

    def _end_text(self) -> Iterator[Delta]:
        if rest := self._text.finish():
            yield TextDelta(rest)

    def _end_thinking(self) -> Iterator[Delta]:
        if rest := self._thinking.finish():
            yield ThinkingDelta(rest)
        self._thought, self._kept = [], []

    def _sign(self, signature: str) -> None:
        if "".join(self._thought) != "".join(self._kept):
            self._unsigned.add(signature)
        self._thought, self._kept = [], []
