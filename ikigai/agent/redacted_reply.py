"""This module removes ikigai's own keys from a streaming reply, so that screen, drafts and log get identical text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ikigai.core.messages import ReplyBlock, Text, Thinking, ToolCall, ToolResult
from ikigai.core.redaction import Redactor, StreamRedactor
from ikigai.core.request.reply import CitationDelta, Delta, HostedDelta, TextDelta, ThinkingDelta, ToolCallDelta


class RedactedReply:
    """One reply. A text's end that may be the start of a key is held back until more comes or the text ends."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text, self._thinking = StreamRedactor(redactor), StreamRedactor(redactor)
        self._received: list[str] = []  # the current thinking block, as received
        self._passed: list[str] = []  # and as passed on
        self._vendor = ""
        self._unsigned: set[str] = set()  # signatures of thinking that was changed
        self._calls: set[int] = set()

    def deltas(self, delta: Delta) -> Iterator[Delta]:
        """Yield the deltas that may be shown and stored now."""
        match delta:
            case TextDelta(""):
                pass
            case TextDelta(text):
                yield from self._end_thinking()
                if safe := self._text.feed(text):
                    yield TextDelta(safe)
            case ThinkingDelta(text, signature, vendor):
                yield from self._end_text()
                if vendor and self._vendor not in ("", vendor):  # as the Accumulator divides blocks
                    yield from self._end_thinking()
                self._vendor = vendor or self._vendor
                self._received.append(text)
                safe = self._thinking.feed(text)
                if signature:
                    safe += self._thinking.finish()
                self._passed.append(safe)
                if signature:
                    self._sign(signature)
                yield ThinkingDelta(safe, signature, vendor)
            case ToolCallDelta(index) if index in self._calls:  # more of a known call ends no text
                yield delta
            case ToolCallDelta(index):
                self._calls.add(index)
                yield from self.rest()
                yield delta
            case HostedDelta(block):
                yield from self.rest()
                yield HostedDelta(self._stored_hosted(block))
            case CitationDelta():
                yield from self._end_text()
                yield delta

    def rest(self, stopped: bool = False) -> Iterator[Delta]:
        """Yield the text held back, at the end of a block or reply; with `stopped` more would have come."""
        yield from self._end_thinking(stopped)
        yield from self._end_text(stopped)

    def stored(self, blocks: Sequence[ReplyBlock]) -> tuple[ReplyBlock, ...]:
        """Return the blocks as they are stored.

        Signed thinking that was changed loses its signature, so that no model is sent it. Keys are removed from tool
        calls, and from texts even if a key is divided between two of them.
        """
        own = self._redactor.own
        redacted = [self._stored(block) for block in blocks]
        texts = [block.text for block in redacted if isinstance(block, Text)]
        if own(whole := "".join(texts)) != whole:
            joined = iter((own(whole), *("" for _ in texts)))
            redacted = [replace(block, text=next(joined)) if isinstance(block, Text) else block for block in redacted]
        return tuple(block for block in redacted if not isinstance(block, Text) or block.text)

    def _stored(self, block: ReplyBlock) -> ReplyBlock:
        own = self._redactor.own
        match block:
            case Thinking(text, signature, vendor) if signature in self._unsigned:
                return Thinking(text, "", vendor)
            case ToolCall(hosted=hosted) if hosted:
                return self._stored_hosted(block)
            case ToolResult():
                return self._stored_hosted(block)
            case ToolCall(id, name, arguments, malformed):
                return ToolCall(own(id), own(name), self._redactor.own_json(arguments), own(malformed))
            case Text() | Thinking():
                return block

    def _stored_hosted(self, block: ToolCall | ToolResult) -> ToolCall | ToolResult:
        """Return a hosted call, or its result, as it is stored; what is changed is not sent back as it came."""
        own = self._redactor.own
        if isinstance(block, ToolCall):
            return replace(block, arguments=self._redactor.own_json(block.arguments))
        opaque = block.opaque if self._redactor.own_json(block.opaque) == block.opaque else ""
        return replace(block, content=own(block.content), opaque=opaque)

    def _end_text(self, stopped: bool = False) -> Iterator[Delta]:
        if rest := self._text.finish(stopped):
            yield TextDelta(rest)

    def _end_thinking(self, stopped: bool = False) -> Iterator[Delta]:
        if rest := self._thinking.finish(stopped):
            yield ThinkingDelta(rest, vendor=self._vendor)
        self._received, self._passed, self._vendor = [], [], ""

    def _sign(self, signature: str) -> None:
        if "".join(self._received) != "".join(self._passed):
            self._unsigned.add(signature)
        self._received, self._passed, self._vendor = [], [], ""
