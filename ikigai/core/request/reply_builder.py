"""Builder of a reply from the events of its stream, without ikigai's own keys: screen, drafts and log get one text."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from ikigai.core.events.messages import Citation, ReplyBlock, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.reply import (
    CitationDelta,
    Delta,
    HostedDelta,
    ProviderEvent,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.secrets.redaction import Redactor, StreamRedactor

NO_SECRETS = Redactor({}, formats=False)


class ReplyBuilder:
    """One reply so far, in the order in which its blocks began. `last` is the event that ended its stream.

    `redactor` replaces ikigai's own keys. A text's end that may be the start of a key is held back until more comes or
    the text ends.
    """

    def __init__(self, redactor: Redactor = NO_SECRETS) -> None:
        self.last: StreamFinished | StreamFailed | None = None
        # ["text", …] or ["thinking", …, signature, vendor] or ["call", index] or ["hosted", index]
        self._blocks: list[list[str]] = []
        self._calls: dict[int, list[list[str]]] = {}  # index → pieces of id, name, arguments
        self._hosted: list[ToolCall | ToolResult] = []
        self._cited: dict[int, tuple[Citation, ...]] = {}  # by the number of the text among the blocks
        self._redactor = redactor
        self._open_text, self._open_thinking = StreamRedactor(redactor), StreamRedactor(redactor)
        self._received: list[str] = []  # the current thinking block, as received
        self._passed: list[str] = []  # and as passed on
        self._vendor = ""
        self._unsigned: set[str] = set()  # signatures of thinking that was changed

    # ── the stream ──

    def add(self, event: ProviderEvent) -> list[Delta | RetryScheduled]:
        """Add the next event of the stream; return what may be shown now."""
        match event:
            case UsageUpdate():
                return []
            case RetryScheduled():
                return [event]
            case StreamFinished() | StreamFailed():
                self.last = event
                return self._kept(self._rest())
            case _:
                return self._kept(self._redacted(event))

    def _redacted(self, delta: Delta) -> Iterator[Delta]:
        """Yield the deltas that may be shown and stored now."""
        match delta:
            case TextDelta(""):
                pass  # many servers send one with every piece of thinking
            case TextDelta(text):
                yield from self._end_thinking()
                if safe := self._open_text.feed(text):
                    yield TextDelta(safe)
            case ThinkingDelta(text, signature, vendor):
                yield from self._end_text()
                if vendor and self._vendor not in ("", vendor):  # as `_keep` divides blocks
                    yield from self._end_thinking()
                self._vendor = vendor or self._vendor
                self._received.append(text)
                safe = self._open_thinking.feed(text)
                if signature:
                    safe += self._open_thinking.finish()
                self._passed.append(safe)
                if signature:
                    self._sign(signature)
                yield ThinkingDelta(safe, signature, vendor)
            case ToolCallDelta(index):
                if index not in self._calls:  # more of a known call ends no text
                    yield from self._rest()
                yield delta
            case HostedDelta(block):
                yield from self._rest()
                yield HostedDelta(self._stored_hosted(block))
            case CitationDelta():
                yield from self._end_text()
                yield delta

    def _rest(self, stopped: bool = False) -> Iterator[Delta]:
        """Yield the text held back, at the end of a block or reply; with `stopped` more would have come."""
        yield from self._end_thinking(stopped)
        yield from self._end_text(stopped)

    def _end_text(self, stopped: bool = False) -> Iterator[Delta]:
        if rest := self._open_text.finish(stopped):
            yield TextDelta(rest)

    def _end_thinking(self, stopped: bool = False) -> Iterator[Delta]:
        if rest := self._open_thinking.finish(stopped):
            yield ThinkingDelta(rest, vendor=self._vendor)
        self._received, self._passed, self._vendor = [], [], ""

    def _sign(self, signature: str) -> None:
        if "".join(self._received) != "".join(self._passed):
            self._unsigned.add(signature)
        self._received, self._passed, self._vendor = [], [], ""

    def _kept(self, deltas: Iterator[Delta]) -> list[Delta | RetryScheduled]:
        """Return the deltas, which are in the blocks by then."""
        kept = list[Delta | RetryScheduled]()
        for delta in deltas:
            self._keep(delta)
            kept.append(delta)
        return kept

    def _keep(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                if not self._blocks or self._blocks[-1][0] != "text" or len(self._blocks) - 1 in self._cited:
                    self._blocks.append(["text"])
                self._blocks[-1].append(text)
            case ThinkingDelta(text, signature, vendor):
                if not self._blocks or not _continues(self._blocks[-1], vendor):
                    self._blocks.append(["thinking", "", ""])
                block = self._blocks[-1]
                block[1], block[2] = signature, vendor or block[2]
                block.append(text)
            case ToolCallDelta(index, id, name, arguments):
                if index not in self._calls:
                    self._calls[index] = [[], [], []]
                    self._blocks.append(["call", str(index)])
                for pieces, piece in zip(self._calls[index], (id, name, arguments), strict=True):
                    pieces.append(piece)
            case HostedDelta(block):
                self._blocks.append(["hosted", str(len(self._hosted))])
                self._hosted.append(block)
            case CitationDelta(citations):
                texts = [number for number, block in enumerate(self._blocks) if block[0] == "text"]
                if texts:
                    self._cited[texts[-1]] = self._cited.get(texts[-1], ()) + citations

    # ── the reply ──

    @property
    def thinking(self) -> str:
        """The thinking so far."""
        return "\n\n".join(block.text for block in self.blocks() if isinstance(block, Thinking) and block.text)

    @property
    def text(self) -> str:
        """The text so far, without thinking and calls."""
        return "".join("".join(block[1:]) for block in self._blocks if block[0] == "text")

    @property
    def hosted(self) -> int:
        """The number of hosted calls and results so far."""
        return len(self._hosted)

    def blocks(self) -> tuple[ReplyBlock, ...]:
        """Return the blocks so far, with the calls as the model wrote them.

        Thinking without text and signature is left out, but separates its neighbors.
        """
        blocks = (self._block(number, block) for number, block in enumerate(self._blocks))
        return tuple(block for block in blocks if not isinstance(block, Thinking) or block.text or block.signature)

    def _block(self, number: int, block: list[str]) -> ReplyBlock:
        match block[0]:
            case "text":
                return Text("".join(block[1:]), self._cited.get(number, ()))
            case "hosted":
                return self._hosted[int(block[1])]
            case "thinking":
                return Thinking("".join(block[3:]), block[1], block[2])
            case _:
                id, name, arguments = ("".join(pieces) for pieces in self._calls[int(block[1])])
                return _with_valid_arguments(ToolCall(id or f"call_{block[1]}", name, arguments or "{}"))

    def stored(self) -> tuple[ReplyBlock, ...]:
        """Return the reply so far as it is stored; nothing can follow it.

        Signed thinking that was changed loses its signature, so that no model is sent it. Keys are removed from tool
        calls, and from texts even if a key is divided between two of them.
        """
        self._kept(self._rest(stopped=True))  # nothing is left after the end
        own = self._redactor.own
        redacted = [self._stored(block) for block in self.blocks()]
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
        """Return a hosted call, or its result, as it is stored; a changed one is not sent back as it came."""
        own = self._redactor.own
        if isinstance(block, ToolCall):
            return replace(block, arguments=self._redactor.own_json(block.arguments))
        opaque = block.opaque if self._redactor.own_json(block.opaque) == block.opaque else ""
        return replace(block, content=own(block.content), opaque=opaque)


def _continues(block: list[str], vendor: str) -> bool:
    """Return True if more thinking of this vendor belongs to the block. Another kind must keep its own signature."""
    return block[0] == "thinking" and not block[1] and (not vendor or block[2] in ("", vendor))


def _with_valid_arguments(call: ToolCall) -> ToolCall:
    """Return the call with arguments that are not a JSON object moved apart: they must never reach a provider again."""
    try:
        msgspec.json.decode(call.arguments, type=dict[str, object])
    except (ValueError, RecursionError):  # no JSON, no object, no Unicode, or nested too deeply
        return ToolCall(call.id, call.name, "{}", malformed=call.arguments)
    return call
