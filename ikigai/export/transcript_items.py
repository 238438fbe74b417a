"""Turn events into the items of an export for people, turn by turn, as `views.transcript` does.

Every text that leaves here is safe for a terminal: people also look at exports in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from ikigai.core.events import codec
from ikigai.core.events.events import StoredEvent, Summarized, TurnEnded, UserMessage
from ikigai.core.events.messages import Citation, Image, ToolCall, ToolResult
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.text.sanitize import clean, clean_line
from ikigai.core.views import transcript
from ikigai.core.views.transcript import Speaker, TranscriptBlock

ALLOWED_LINK = re.compile(r"(?:https?://|mailto:)\S+", re.IGNORECASE)
"""The addresses that exports make links of."""
LABEL_CHARACTERS = 100
"""Characters of a line that stands for something longer."""


class ItemKind(StrEnum):
    USER = "user"
    REPLY = "reply"
    THOUGHT = "thought"
    CALL = "call"
    RESULT = "result"
    NOTE = "note"
    STOPPED = "stopped"
    SOURCES = "sources"


class TranscriptItem(NamedTuple):
    """An event or a part of it, for people. `label` is it in a line, `turn` the number of the turn that it begins, 0
    for none.
    """

    kind: ItemKind
    id: int
    at: float
    text: str
    label: str
    turn: int = 0
    failed: bool = False
    images: tuple[Image, ...] = ()
    sources: tuple[Citation, ...] = ()


_KINDS = {
    Speaker.USER: ItemKind.USER,
    Speaker.TOOL_CALL: ItemKind.CALL,
    Speaker.TOOL_RESULT: ItemKind.RESULT,
    Speaker.STOPPED: ItemKind.STOPPED,
    Speaker.SHORT: ItemKind.STOPPED,
    Speaker.SOURCES: ItemKind.SOURCES,
}


class TranscriptBuilder:
    """A builder of items from the events of one history in their order."""

    def __init__(self) -> None:
        self.turns = 0
        self._open = False
        self._calls: dict[str, str] = {}  # of the open turn: names by id

    def items(self, raw: RawRow) -> Iterator[TranscriptItem]:
        """Yield the items of one event; none for an event that nobody reads."""
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
        for block in transcript.event_blocks(StoredEvent(raw.id, raw.agent, raw.seq, raw.at, event)):
            if block.speaker is Speaker.ASSISTANT:
                yield from _reply(raw, block)
            else:
                name = self._calls.get(event.call_id, "") if isinstance(event, ToolResult) else block.name
                yield _piece(raw, block, name)._replace(
                    turn=turn, images=event.images if isinstance(event, UserMessage) else ()
                )
        if isinstance(event, Summarized) and (text := clean(event.text)).strip():
            yield TranscriptItem(ItemKind.RESULT, raw.id, raw.at, text, "the summary")


def _reply(raw: RawRow, block: TranscriptBlock) -> Iterator[TranscriptItem]:
    for part in block.parts:
        thought = not isinstance(part, str)
        text = clean(part.text if thought else part)
        if text.strip():
            yield TranscriptItem(
                ItemKind.THOUGHT if thought else ItemKind.REPLY, raw.id, raw.at, text, first_words(text)
            )


def _piece(raw: RawRow, block: TranscriptBlock, name: str) -> TranscriptItem:
    text = clean(block.text)
    kind = _KINDS.get(block.speaker, ItemKind.NOTE)
    label = f"{clean_line(name)} {first_words(text)}".strip() if kind is ItemKind.CALL else first_words(text)
    if kind is ItemKind.RESULT:
        lines = text.strip("\n").count("\n") + 1
        label = f"{clean_line(name)}: {label}".removeprefix(": ") + (f" ({lines:,} lines)" if lines > 1 else "")
    return TranscriptItem(kind, raw.id, raw.at, text, label, failed=block.failed, sources=block.sources)


def first_words(text: str) -> str:
    """Return the first words of a text that is safe already, on one line."""
    words = " ".join(text[: 4 * LABEL_CHARACTERS].split())
    return f"{words[: LABEL_CHARACTERS - 1]}…" if len(words) > LABEL_CHARACTERS else words


def format_time(at: float) -> str:
    """Return a time in the local zone, to the minute."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
