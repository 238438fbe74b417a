"""Turn stored events into blocks that people read."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from ikigai.core.events.events import (
    AgentKilled,
    AgentRevived,
    ApprovalDecided,
    AssistantMessage,
    Cleared,
    Ending,
    Filtered,
    FilterPlanned,
    Forked,
    MailTaken,
    Marked,
    Rewound,
    SettingsChanged,
    StoredEvent,
    Summarized,
    ToolStarted,
    TurnEnded,
    Undone,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import Citation, Document, DocumentKind, Image, Text, Thinking, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.reply import SHORT_REPLY_REASONS
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.context_rule import ContextRule, context_rule

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory


class Speaker(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    NOTE = "note"  # a change of the conversation: a clear, a mark, settings
    STOPPED = "stopped"  # a turn that was interrupted or failed
    SHORT = "short"  # a reply that was cut off or refused
    SOURCES = "sources"  # the pages that a reply relies on


class Thought(Record, frozen=True):
    """A stretch of a model's thinking, before the character `at` of the words of its message."""

    at: int
    text: str


class TranscriptBlock(Record, frozen=True):
    """One event on the screen."""

    id: int
    speaker: Speaker
    text: str
    """The text as stored: the view that draws it makes it safe. Only the beginning if `whole` is set."""
    name: str = ""
    """A tool's name, or the agent's that sent a message. The result of a call that the user refused together with
    others has `tool_denial.DENIED_TOGETHER`.
    """
    failed: bool = False
    """True for an error."""
    remembered: bool = True
    """True if the model still sees the event."""
    thoughts: tuple[Thought, ...] = ()
    """The thoughts of a model's message, in order. A message with thoughts before a tool call and no words has no text.
    """
    diff: str = ""
    """The change of a file by a tool."""
    whole: int = 0
    """Size in bytes of the whole result, where `text` is only its beginning."""
    hosted: bool = False
    """True for a call that the vendor ran, and its result."""
    sources: tuple[Citation, ...] = ()
    """Cited pages, numbered from 1 in `text`."""
    call: str = ""
    """Id of a tool call, also in its result."""
    of: TranscriptBlock | None = None
    """The call of a result that is drawn in one line with it (`call_words`)."""
    excluded: str = ""
    """The word for the action of the user that took the event out of the context, if it is to be shown."""

    @property
    def parts(self) -> Iterator[str | Thought]:
        """Yield words and thoughts in the order in which they came."""
        start = 0
        for thought in self.thoughts:
            if thought.at > start:
                yield self.text[start : thought.at]
            yield thought
            start = thought.at
        if start < len(self.text):
            yield self.text[start:]


Shown: TypeAlias = TranscriptBlock | ContextRule


def event_block(stored: StoredEvent, remembered: bool = True) -> TranscriptBlock | None:
    """Return the event as people read it; None for an event that is not shown."""
    parts = _event_text(stored)
    thoughts = _collect_thoughts(stored.event.blocks) if isinstance(stored.event, AssistantMessage) else ()
    diff, whole = (stored.event.diff, stored.event.whole) if isinstance(stored.event, ToolResult) else ("", 0)
    hosted = isinstance(stored.event, ToolCall | ToolResult) and bool(stored.event.hosted)
    match stored.event:
        case ToolCall(id=call) | ToolResult(call_id=call):
            pass
        case _:
            call = ""
    if parts is None:
        return None
    return TranscriptBlock(stored.id, *parts, remembered, thoughts, diff, whole, hosted, call=call)


def event_blocks(stored: StoredEvent, remembered: bool = True) -> tuple[TranscriptBlock, ...]:
    """Return all blocks of the event: the event itself, behind a reply the pages that it relies on, and behind an
    incomplete one the reason why it is incomplete.
    """
    made = event_block(stored, remembered)
    if not isinstance(stored.event, AssistantMessage):
        return (made,) if made else ()
    why, pages = SHORT_REPLY_REASONS.get(stored.event.stop, ""), stored.event.sources
    text = "\n".join(source_line(number, page) for number, page in enumerate(pages, 1))
    sources = TranscriptBlock(stored.id, Speaker.SOURCES, text, remembered=remembered, sources=pages) if pages else None
    behind = TranscriptBlock(stored.id, Speaker.SHORT, why, remembered=remembered) if why else None
    return tuple(filter(None, (made, sources, behind)))


def hosted_block(event: ToolCall | ToolResult) -> TranscriptBlock:
    """Return a hosted call, or its result, as it is shown before its event is stored."""
    block = event_block(StoredEvent(0, "", 0, 0.0, event))
    assert block
    return block


def source_line(number: int, page: Citation) -> str:
    """Return a cited page on one line: its number, title and address."""
    return clean_line(f"[{number}] {page.title} {page.url}" if page.title else f"[{number}] {page.url}")


def _event_text(stored: StoredEvent) -> tuple[Speaker, str, str, bool] | None:
    match stored.event:
        case UserMessage(text, planning=planning) if planning:
            return Speaker.USER, f"/{planning} {text}", "", False
        case UserMessage(text, sender=sender) if sender:
            return Speaker.USER, f"[from {sender}] {text}", sender, False
        case MailTaken():
            return None
        case UserMessage(text, images, documents=documents):
            attached = (*map(_picture, images), *map(_document, documents))
            return Speaker.USER, "\n".join((*attached, text)).rstrip("\n"), "", False
        case AssistantMessage() as message:
            shown = message.text or _collect_thoughts(message.blocks)
            return (Speaker.ASSISTANT, message.text, "", False) if shown else None
        case ToolCall(_, name, arguments, malformed):
            return Speaker.TOOL_CALL, malformed or arguments, name, bool(malformed)
        case ToolResult(_, content, True):
            from ikigai.core.tools.tool_denial import describe_denial

            said, together = describe_denial(content) or ("", "")
            return Speaker.TOOL_RESULT, said or content, together, not said
        case ToolResult(_, content):
            return Speaker.TOOL_RESULT, content, "", False
        case TurnEnded(Ending.COMPLETED, reason) if reason:
            return Speaker.SHORT, reason, "", False
        case TurnEnded(Ending.COMPLETED) | ToolStarted() | UsageReported() | FilterPlanned() | ApprovalDecided():
            return None
        case TurnEnded(ending, reason):
            return Speaker.STOPPED, reason or ending.value, "", ending is Ending.FAILED
        case other:
            from ikigai.core.views.event_notes import note  # a conversation may have no such event

            return (Speaker.NOTE, text, "", False) if (text := note(stored.id, other)) else None


def _collect_thoughts(blocks: tuple[Text | Thinking, ...]) -> tuple[Thought, ...]:
    """Return the thoughts of a message that have words; thinking that came as a signature alone cannot be read."""
    found: list[Thought] = []
    at = 0
    for block in blocks:
        if isinstance(block, Text):
            at += len(block.text)
        elif not block.text.strip():
            continue
        elif found and found[-1].at == at:
            found[-1] = Thought(at, f"{found[-1].text}\n\n{block.text}")
        else:
            found.append(Thought(at, block.text))
    return tuple(found)


def _picture(image: Image) -> str:
    return f"[image {image.name or image.media_type}, {image.width}×{image.height}]"


def _document(document: Document) -> str:
    if document.kind is DocumentKind.PDF:
        return f"[pdf {document.name}, {document.pages:,} page{'s' * (document.pages != 1)}]"
    one, more = ("entry", "entries") if document.kind is DocumentKind.FOLDER else ("line", "lines")
    size = f"{document.lines:,} {one if document.lines == 1 else more}{', cut' * bool(document.whole)}"
    return f"[{document.kind} {document.name}, {size}]"


_CHANGES = (
    *(Cleared, Marked, Rewound, Filtered, Summarized, Undone),
    *(SettingsChanged, Forked, AgentKilled, AgentRevived),
)
"""Events about the context, the settings and the agent itself, which are no part of a turn."""


def history_items(history: list[StoredEvent], memory: Memory, changes: bool = True) -> list[Shown]:
    """Return a stretch of history drawn anew, oldest first, with the rule at its exact place if that lies within it.

    Without `changes` of context and settings only turns and the rule are left; words then tell which ones the user took
    out of the context.
    """
    from ikigai.core.views.exclusion_reason import named_exclusion  # the first prompt needs none

    place = context_rule(memory)
    shown: list[Shown] = []
    for stored in history:
        if place and not place.cleared and stored.id == place.before:
            shown.append(place)
        if changes or not isinstance(stored.event, _CHANGES):
            drawn = event_blocks(stored, memory.has_event_in_context(stored))
            excluded = None if changes else named_exclusion(stored, memory)
            shown.extend(replace(block, excluded=excluded.value) if excluded else block for block in drawn)
        if place and place.cleared and stored.id == place.before:
            shown.append(place)
    return shown
