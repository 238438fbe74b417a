"""What the conversation looks like to people: stored event → block, and where the rule goes."""

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from ikigai.core import tokens
from ikigai.core.events import (
    AgentKilled,
    AgentRevived,
    ApprovalDecided,
    AssistantMessage,
    Cleared,
    CommandRan,
    Ending,
    Event,
    Filtered,
    FilterPlanned,
    Forked,
    MailSent,
    MailTaken,
    Marked,
    Rewound,
    SettingsChanged,
    StoredEvent,
    Summarised,
    ToolStarted,
    TurnEnded,
    Undone,
    Unknown,
    UsageReported,
    UserMessage,
    Value,
)
from ikigai.core.messages import Image, Role, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.pins import PREFIX, pin, size
from ikigai.core.request.reply import SHORT
from ikigai.core.request.system_prompt import named
from ikigai.core.sanitize import clean_line
from ikigai.core.state.memory import Memory
from ikigai.core.state.project_limits import ALL
from ikigai.core.views.usage_totals import dollars


class Speaker(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    NOTE = "note"  # what happened to the conversation: a clear, a mark, a change of settings
    STOPPED = "stopped"  # a turn that was interrupted or failed
    SHORT = "short"  # a reply that was cut off or refused


class Thought(Record, frozen=True):
    """What a model thought in one go, before the character `at` of the words of its message."""

    at: int
    text: str


class Block(Record, frozen=True):
    """One event on the screen. `text` is as stored: whoever draws it makes it safe.

    `name` is a tool's name; `failed` marks an error; `remembered` says whether the model still sees it. `thoughts` are
    those of a model's message, in order; one that thought before a tool call and said nothing has no text. `diff` is
    what a tool changed in a file. Where `text` is only the beginning of a long result, `whole` is the size of it all in
    bytes.
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

    @property
    def parts(self) -> Iterator[str | Thought]:
        """Words and thoughts in the order in which they came."""
        start = 0
        for thought in self.thoughts:
            if thought.at > start:
                yield self.text[start : thought.at]
            yield thought
            start = thought.at
        if start < len(self.text):
            yield self.text[start:]


class Rule(Record, frozen=True):
    """The line where the context begins: `turns` are out of it, `before` is the id of the first event in it.

    `words` are the first words of that turn. A summary stands for `summarised` turns before all these. With `cleared`
    the context begins behind the event `before`, a clear or such a summary. Where turns have just left, `left` says how
    many, and the request came from `used_before` to `used` tokens by that.
    """

    before: int
    turns: int
    words: str
    cleared: bool = False
    left: int = 0
    used_before: int = 0
    used: int = 0
    summarised: int = 0


Shown: TypeAlias = Block | Rule


def block(stored: StoredEvent, remembered: bool = True) -> Block | None:
    """The event as people read it; None for what is not shown."""
    said = _said(stored)
    thoughts = _thoughts(stored.event.blocks) if isinstance(stored.event, AssistantMessage) else ()
    diff, whole = (stored.event.diff, stored.event.whole) if isinstance(stored.event, ToolResult) else ("", 0)
    return None if said is None else Block(stored.id, *said, remembered, thoughts, diff, whole)


def blocks(stored: StoredEvent, remembered: bool = True) -> tuple[Block, ...]:
    """All that is shown of the event: what it is, and behind a reply that is not whole why that is so."""
    made = block(stored, remembered)
    why = SHORT.get(stored.event.stop, "") if isinstance(stored.event, AssistantMessage) else ""
    behind = Block(stored.id, Speaker.SHORT, why, remembered=remembered) if why else None
    return tuple(filter(None, (made, behind)))


def _said(stored: StoredEvent) -> tuple[Speaker, str, str, bool] | None:
    match stored.event:
        case UserMessage(text, planning=planning) if planning:
            return Speaker.USER, f"/{planning} {text}", "", False
        case UserMessage(text, sender=sender) if sender:
            return Speaker.USER, f"[from {sender}] {text}", "", False
        case MailTaken():
            return None
        case UserMessage(text, images):
            return Speaker.USER, "\n".join((*map(_picture, images), text)).rstrip("\n"), "", False
        case AssistantMessage() as said:
            shown = said.text or _thoughts(said.blocks)
            return (Speaker.ASSISTANT, said.text, "", False) if shown else None
        case ToolCall(_, name, arguments, malformed):
            return Speaker.TOOL_CALL, malformed or arguments, name, bool(malformed)
        case ToolResult(_, content, is_error):
            return Speaker.TOOL_RESULT, content, "", is_error
        case TurnEnded(Ending.COMPLETED) | ToolStarted() | UsageReported() | FilterPlanned() | ApprovalDecided():
            return None
        case TurnEnded(ending, reason):
            return Speaker.STOPPED, reason or ending.value, "", ending is Ending.FAILED
        case other:
            return Speaker.NOTE, _note(stored.id, other), "", False


def _thoughts(blocks: tuple[Text | Thinking, ...]) -> tuple[Thought, ...]:
    """What was thought in a message, wherever words came of it; what came as a signature alone cannot be read."""
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


def _note(id: int, event: object) -> str:
    match event:
        case Cleared():
            return "Context cleared: the next request starts empty. The history stays; /undo takes this back."
        case Marked(label):
            return f"Mark {label} set. /rewind {label} comes back here."
        case Rewound(to, label):
            where = f"mark {label}" if label else f"event {to}"
            return f"Rewound to {where}: what came after it is out of the context. /undo takes this back."
        case Filtered():
            return _filtered(event)
        case Summarised():
            return _summarised(id, event)
        case Undone(of, what):
            return f"Undone: the {what or 'event'} {of} no longer holds. /undo {id} takes this back."
        case SettingsChanged(values, origins):
            said = {key: value for key, value in values.items() if (key, value) != ("level", "") or len(values) == 1}
            order = sorted(said, key=lambda key: key != "profile")  # what the others come from
            return "; ".join(_setting(key, said[key], origins.get(key, "")) for key in order)
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
        case CommandRan(line, output):
            return f"{line}\n{output}" if output else line
        case Unknown(kind, text):
            return f"[{kind}] {text}"
        case _:
            return ""


def _filtered(event: Filtered) -> str:
    if not event.ranges and not event.ids:
        return f"Nothing was forgotten. This talk about it ({event.criteria}) has left the context."
    sizes = f"{tokens.short(event.before)} → {tokens.short(event.after)} tokens"
    said = f"{event.messages:,} message{'s' * (event.messages != 1)}"
    if event.mode == "remember":
        return f"Remembered only {event.criteria}: {said} forgotten, {sizes}. /undo takes this back."
    return f"Forgotten: {event.criteria}: {said}, {sizes}. /undo takes this back."


def _summarised(id: int, event: Summarised) -> str:
    turns = f"{event.turns:,} turn{'s' * (event.turns != 1)}"
    cost = ", $?" if event.cost is None else f", {dollars(Decimal(repr(event.cost)))}" if event.cost else ""
    if event.closed:
        return f"What was cleared is summarised: {turns}{cost}. /summary shows it, /quote {id} brings it back."
    unseen = f", {event.unseen:,} of them unread" if event.unseen else ""
    sizes = f"{tokens.short(event.before)} → {tokens.short(event.after)} tokens"
    return f"Condensed: {turns}{unseen}, {sizes}{cost}. /summary shows it, /undo takes this back."


def _setting(key: str, value: Value, origin: str) -> str:
    match key:
        case _ if key.startswith(PREFIX):
            return _pinned(key, value)
        case "tools_off":
            said = f"Tools switched off: {'all' if value == ALL else value or 'none'}"
            return said + (f" (from {origin})" if origin not in ("agent", "") else "")
        case "budget" if isinstance(value, int):
            shown = f"{tokens.short(value)} tokens" if value else "off"
        case "instructions":
            said = str(value or "")
            size = tokens.short(tokens.count("", "", len(said.encode())))
            return f"Project instructions: {f'{named(said)}, {size} tokens' if said else 'none'}"
        case "system":
            shown = "changed" if value else "default" if value is None else "none"
        case _:
            shown = "default" if value is None else str(value) or "none"
    return f"{key.capitalize()}: {shown}" + (f" (from {origin})" if origin not in ("agent", "") else "")


def _pinned(key: str, value: Value) -> str:
    path = clean_line(key.removeprefix(PREFIX))
    if value is None:
        return f"Unpinned: {path}. /pin {path} pins it again, as it is then."
    found = pin(key, value)
    return f"Pinned: {path}, {tokens.short(size(found)) if found else 'no'} tokens. /unpin {path} takes it away."


def rule(memory: Memory) -> Rule | None:
    """Where the rule goes; None while nothing is out of context."""
    older, summary = memory.window.older.turns, memory.summary
    if older or (summary and memory.cutoff is not None):
        first = memory.first_behind_rule
        messages = first.messages if first else ()
        words = next((message.text for message in messages if message.role is Role.USER), "")
        condensed = summary.turns if summary else 0
        return Rule(memory.cutoff or 0, older, " ".join(words.split())[:80], summarised=condensed)
    if summary:
        return Rule(summary.id, 0, "", cleared=True)
    if memory.cleared is not None:
        return Rule(memory.cleared, 0, "", cleared=True)
    return None


def redraws(event: Event) -> bool:
    """Whether the rule is drawn again behind this event wherever it is now: the user moved it, or looks for it."""
    match event:
        case Rewound() | Filtered() | Undone():
            return True
        case Summarised(closed=closed):
            return not closed
        case SettingsChanged(_, origins):
            return origins.get("budget") == "agent" or origins.get("profile") == "agent"
        case _:
            return False


def fresh(history: list[StoredEvent], memory: Memory) -> list[Shown]:
    """A stretch of history drawn anew, oldest first, with the rule at its exact place if that lies within it."""
    place = rule(memory)
    shown: list[Shown] = []
    for stored in history:
        if place and not place.cleared and stored.id == place.before:
            shown.append(place)
        shown.extend(blocks(stored, memory.remembers(stored.id)))
        if place and place.cleared and stored.id == place.before:
            shown.append(place)
    return shown
