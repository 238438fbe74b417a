"""What an export for people tells of each event: the pieces of a conversation, turn by turn, as `views.transcript`.

Every text that leaves here is safe for a terminal: exports are looked at in one, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from ikigai.core import codec
from ikigai.core.events import StoredEvent, Summarised, TurnEnded, UserMessage
from ikigai.core.messages import Image, ToolCall, ToolResult
from ikigai.core.sanitize import clean, clean_line
from ikigai.core.transfer.renumber import Raw
from ikigai.core.views import transcript
from ikigai.core.views.transcript import Block, Speaker

LABEL = 100
"""Characters of a line that stands for something longer."""


class Kind(StrEnum):
    USER = "user"
    REPLY = "reply"
    THOUGHT = "thought"
    CALL = "call"
    RESULT = "result"
    NOTE = "note"
    STOPPED = "stopped"


class Piece(NamedTuple):
    """Something said or done. `label` is it in a line, `turn` the number of the turn that it begins, 0 for none."""

    kind: Kind
    id: int
    at: float
    text: str
    label: str
    turn: int = 0
    failed: bool = False
    images: tuple[Image, ...] = ()


_KINDS = {
    Speaker.USER: Kind.USER,
    Speaker.TOOL_CALL: Kind.CALL,
    Speaker.TOOL_RESULT: Kind.RESULT,
    Speaker.STOPPED: Kind.STOPPED,
    Speaker.SHORT: Kind.STOPPED,
}


class Teller:
    """Tells the events of one history in their order."""

    def __init__(self) -> None:
        self.turns = 0
        self._open = False
        self._calls: dict[str, str] = {}  # of the open turn: names by id

    def tell(self, raw: Raw) -> Iterator[Piece]:
        """The pieces of one event; none for what nobody reads."""
        event = codec.decode(raw.kind, raw.content, raw.data)
        turn = 0
        if isinstance(event, UserMessage) and not self._open:
            self._open, self.turns = True, self.turns + 1
            turn = self.turns
        elif isinstance(event, TurnEnded):
            self._open = False
            self._calls.clear()
        elif isinstance(event, ToolCall):
            self._calls[event.id] = event.name
        for block in transcript.blocks(StoredEvent(raw.id, raw.agent, raw.seq, raw.at, event)):
            if block.speaker is Speaker.ASSISTANT:
                yield from _reply(raw, block)
            else:
                name = self._calls.get(event.call_id, "") if isinstance(event, ToolResult) else block.name
                yield _piece(raw, block, name)._replace(
                    turn=turn, images=event.images if isinstance(event, UserMessage) else ()
                )
        if isinstance(event, Summarised) and (text := clean(event.text)).strip():
            yield Piece(Kind.RESULT, raw.id, raw.at, text, "the summary")


def _reply(raw: Raw, block: Block) -> Iterator[Piece]:
    for part in block.parts:
        thought = not isinstance(part, str)
        text = clean(part.text if thought else part)
        if text.strip():
            yield Piece(Kind.THOUGHT if thought else Kind.REPLY, raw.id, raw.at, text, short(text))


def _piece(raw: Raw, block: Block, name: str) -> Piece:
    text = clean(block.text)
    kind = _KINDS.get(block.speaker, Kind.NOTE)
    label = f"{clean_line(name)} {short(text)}".strip() if kind is Kind.CALL else short(text)
    if kind is Kind.RESULT:
        lines = text.strip("\n").count("\n") + 1
        label = f"{clean_line(name)}: {label}".removeprefix(": ") + (f" ({lines:,} lines)" if lines > 1 else "")
    return Piece(kind, raw.id, raw.at, text, label, failed=block.failed)


def short(text: str) -> str:
    """The first words of a text that is safe already, on one line."""
    words = " ".join(text[: 4 * LABEL].split())
    return f"{words[: LABEL - 1]}…" if len(words) > LABEL else words


def when(at: float) -> str:
    """A moment, here, to the minute."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
