"""This module turns stored events into blocks that people read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from ikigai.core import tokens
from ikigai.core.events import (
    FALLBACK_KEY,
    AgentKilled,
    AgentRevived,
    ApprovalDecided,
    AssistantMessage,
    Cleared,
    CommandRan,
    Ending,
    Filtered,
    FilterPlanned,
    Forked,
    MailSent,
    MailTaken,
    Marked,
    Rewound,
    SettingsChanged,
    StoredEvent,
    Summarized,
    ToolStarted,
    TurnEnded,
    TurnsRecalled,
    Undone,
    Unknown,
    UsageReported,
    UserMessage,
    Value,
)
from ikigai.core.messages import Citation, Document, DocumentKind, Image, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.pins import PIN_PREFIX, parse_pin, pin_tokens
from ikigai.core.request.reply import SHORT_REPLY_REASONS
from ikigai.core.request.system_prompt import DEFAULT_SYSTEM_KEY, instructions_file
from ikigai.core.sanitize import clean_line
from ikigai.core.tool_selection import ToolSelection
from ikigai.core.vendor_search import SEARCH_CONSENT, VENDOR_SEARCH
from ikigai.core.views.context_rule import ContextRule, context_rule
from ikigai.core.views.usage_totals import NO_PRICE, format_dollars

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory


MAX_NAMED_EVENTS = 6
"""Events that a line about recalled excerpts names."""


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
    """One event on the screen. `text` is as stored: the view that draws it makes it safe.

    `name` is a tool's name, or the agent's that sent a message; the result of a call that the user refused together
    with others has `tool_denial.DENIED_TOGETHER`. `failed` marks an error; `remembered` says that the model still sees
    it. `thoughts` are those of a model's message, in order; a message with thoughts before a tool call and no words has
    no text. `diff` is the change of a file by a tool. Where `text` is only the beginning of a long result, `whole` is
    the size of it all in bytes. `hosted` marks a call that the vendor ran, and its result. `sources` are cited pages,
    numbered from 1 in `text`. `call` is the id of a tool call, also in its result; `of` is the call of a result that is
    drawn in one line with it (`call_words`). `excluded` is the word for what the user did to take it out of the
    context, if it is to be shown.
    """

    id: int
    speaker: Speaker
    text: str
    name: str = ""
    failed: bool = False
    remembered: bool = True
    thoughts: tuple[Thought, ...] = ()
    diff: str = ""
    whole: int = 0
    hosted: bool = False
    sources: tuple[Citation, ...] = ()
    call: str = ""
    of: TranscriptBlock | None = None
    excluded: str = ""

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
            from ikigai.core.tool_denial import describe_denial

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
        case SettingsChanged(values) if values.keys() == {DEFAULT_SYSTEM_KEY}:
            return None
        case SettingsChanged(values) if values.keys() == {"model", "level", FALLBACK_KEY} and not values[FALLBACK_KEY]:
            return None  # behind the turn: the first model is in force again
        case other:
            return Speaker.NOTE, _note(stored.id, other), "", False


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


def _note(id: int, event: object) -> str:
    match event:
        case Cleared():
            return "Context cleared: the next request starts empty. The history stays. To undo this: /undo"
        case Marked(label):
            return f"Mark {label} set. /rewind {label} returns here."
        case Rewound(to, label):
            where = f"mark {label}" if label else f"event {to}"
            return f"Rewound to {where}: everything after it has left the context. To undo this: /undo"
        case Filtered():
            return _filter_note(event)
        case Summarized():
            return _summary_note(id, event)
        case Undone(of, what, command):
            change = f"the {command}" if command else f"event #{of}"
            is_redo = what == "undo"
            return f"Redid {change}. /undo takes it back." if is_redo else f"Undid {change}. /redo does it again."
        case SettingsChanged(values, origins) if values.get(FALLBACK_KEY):
            return f"{origins.get(FALLBACK_KEY, '')} This turn goes on with {values.get('model')}.".lstrip()
        case SettingsChanged(values, origins):
            changed = {key: value for key, value in values.items() if (key, value) != ("level", "") or len(values) == 1}
            for key in (DEFAULT_SYSTEM_KEY, FALLBACK_KEY):  # /system shows the first, the turn the other
                changed.pop(key, None)
            order = sorted(changed, key=lambda key: key != "profile")  # the profile sets the others
            return "; ".join(_setting(key, changed[key], origins.get(key, "")) for key in order)
        case Forked(parent, at):
            return f"Forked from {parent}" + (f" at event {at}." if at is not None else ".")
        case AgentKilled(along):
            return "This agent was killed" + (f" with its ancestor {along}." if along else ".")
        case AgentRevived():
            return "This agent was revived."
        case MailSent(_, text, name, ending, _):
            return (
                f"Sent to {name}: {text}" if name else f"This turn ({ending}) was reported to the agent that began it."
            )
        case TurnsRecalled() as recalled:
            return _recall_note(recalled)
        case CommandRan(line, output):
            return f"{line}\n{output}" if output else line
        case Unknown(kind, text):
            return f"[{kind}] {text}"
        case _:
            return ""


def _recall_note(event: TurnsRecalled) -> str:
    named = ", ".join(f"#{id}" for id in event.ids[:MAX_NAMED_EVENTS])
    more = f" and {len(event.ids) - MAX_NAMED_EVENTS} more" if len(event.ids) > MAX_NAMED_EVENTS else ""
    size = tokens.format_tokens(tokens.count_tokens("", "", len(event.text.encode())))
    return f"Recalled {named}{more}: {size} tokens. To undo this: /undo"


def _filter_note(event: Filtered) -> str:
    if not event.ranges and not event.ids:
        return "Nothing was forgotten."
    sizes = f"{tokens.format_tokens(event.before)} → {tokens.format_tokens(event.after)} tokens"
    count = f"{event.messages:,} message{'s' * (event.messages != 1)}"
    if event.mode == "remember":
        return f"Kept only {event.criteria}: forgot {count}, context {sizes}. To undo this: /undo"
    which = event.criteria
    if newest := re.fullmatch(r"last (\d+)", which):
        which = "the newest turn" if newest[1] == "1" else f"the newest {newest[1]} turns"
    return f"Forgot {count} ({which}): context {sizes}. To undo this: /undo"


def _summary_note(id: int, event: Summarized) -> str:
    turns = f"{event.turns:,} turn{'s' * (event.turns != 1)}"
    known = f", {format_dollars(Decimal(repr(event.cost)))}" if event.cost else ""
    cost = f", {NO_PRICE} for {clean_line(event.model) or 'it'}" if event.cost is None else known
    if event.closed:
        return f"What was cleared is summarised: {turns}{cost}. /summary shows it, /quote {id} adds it to the context."
    unseen = f", {event.unseen:,} of them not read" if event.unseen else ""
    sizes = f"{tokens.format_tokens(event.before)} → {tokens.format_tokens(event.after)} tokens"
    return f"Condensed: {turns}{unseen}, {sizes}{cost}. /summary shows it, /undo undoes it."


def _setting(key: str, value: Value, origin: str) -> str:
    match key:
        case _ if key.startswith(PIN_PREFIX):
            return _pin_note(key, value)
        case "tools_off":
            selection = ToolSelection.parse(value)
            text = f"Tools off: {selection.shown}" if selection.off else "All tools are on"
            if not selection.is_off(VENDOR_SEARCH):
                text += f"; {VENDOR_SEARCH} is on: {SEARCH_CONSENT}"
            elif not selection.off:
                text += f" but {VENDOR_SEARCH}"
            return text + (f" (from {origin})" if origin not in ("agent", "") else "")
        case "budget" if isinstance(value, int):
            shown = f"{tokens.format_tokens(value)} tokens" if value else "off"
        case "instructions":
            text = str(value or "")
            size = tokens.format_tokens(tokens.count_tokens("", "", len(text.encode())))
            return f"Project instructions: {f'{instructions_file(text)}, {size} tokens' if text else 'none'}"
        case "mcp_tools":
            from ikigai.core.mcp_tools import describe_offer  # most conversations have no server

            return describe_offer(str(value or ""))
        case "system":
            shown = "changed" if value else "default" if value is None else "none"
        case _:
            shown = "default" if value is None else str(value) or "none"
    return f"{key.capitalize()}: {shown}" + (f" (from {origin})" if origin not in ("agent", "") else "")


def _pin_note(key: str, value: Value) -> str:
    path = clean_line(key.removeprefix(PIN_PREFIX))
    if value is None:
        return f"Unpinned: {path}. To pin its current version: /pin {path}"
    found = parse_pin(key, value)
    taken = tokens.format_tokens(pin_tokens(found)) if found else "no"
    return f"Pinned: {path}, {taken} tokens. To remove it: /unpin {path}"


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
