"""What the conversation looks like to people: stored event → block, and where the rule goes."""

from enum import StrEnum
from typing import TypeAlias

from ikigai.core import tokens
from ikigai.core.events import (
    AssistantMessage,
    Cleared,
    CommandRan,
    Ending,
    Forked,
    Marked,
    Rewound,
    SettingsChanged,
    StoredEvent,
    ToolStarted,
    TurnEnded,
    Unknown,
    UsageReported,
    UserMessage,
    Value,
)
from ikigai.core.memory import Memory
from ikigai.core.messages import Role, ToolCall, ToolResult
from ikigai.core.record import Record


class Speaker(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    NOTE = "note"  # what happened to the conversation: a clear, a mark, a change of settings
    STOPPED = "stopped"  # a turn that was interrupted or failed


class Block(Record, frozen=True):
    """One event on the screen. `text` is as stored: whoever draws it makes it safe.

    `name` is a tool's name; `failed` marks an error; `remembered` says whether the model still sees it.
    """

    id: int
    speaker: Speaker
    text: str
    name: str = ""
    failed: bool = False
    remembered: bool = True


class Rule(Record, frozen=True):
    """The line where the context begins: `turns` are out of it, `before` is the id of the first event in it.

    `words` are the first words of that turn. With `cleared` the context begins behind the clear `before`.
    """

    before: int
    turns: int
    words: str
    cleared: bool = False


Shown: TypeAlias = Block | Rule


def block(stored: StoredEvent, remembered: bool = True) -> Block | None:
    """The event as people read it; None for what is not shown."""
    said = _said(stored)
    return None if said is None else Block(stored.id, *said, remembered=remembered)


def _said(stored: StoredEvent) -> tuple[Speaker, str, str, bool] | None:
    match stored.event:
        case UserMessage(text):
            return Speaker.USER, text, "", False
        case AssistantMessage() as said:
            return (Speaker.ASSISTANT, said.text, "", False) if said.text else None
        case ToolCall(_, name, arguments, malformed):
            return Speaker.TOOL_CALL, malformed or arguments, name, bool(malformed)
        case ToolResult(_, content, is_error):
            return Speaker.TOOL_RESULT, content, "", is_error
        case TurnEnded(Ending.COMPLETED) | ToolStarted() | UsageReported():
            return None
        case TurnEnded(ending, reason):
            return Speaker.STOPPED, reason or ending.value, "", ending is Ending.FAILED
        case other:
            return Speaker.NOTE, _note(other), "", False


def _note(event: object) -> str:
    match event:
        case Cleared():
            return "Context cleared: the next request starts empty. Everything said stays in the history."
        case Marked(label):
            return f"Mark {label} set. /rewind {label} comes back here."
        case Rewound(to):
            return f"Rewound to event {to}: what came after it is out of the context, and stays in the history."
        case SettingsChanged(values, origins):
            return "; ".join(_setting(key, value, origins.get(key, "")) for key, value in values.items())
        case Forked(parent, at):
            return f"Forked from {parent}" + (f" at event {at}." if at is not None else ".")
        case CommandRan(line, output):
            return f"{line}\n{output}" if output else line
        case Unknown(kind, text):
            return f"[{kind}] {text}"
        case _:
            return ""


def _setting(key: str, value: Value, origin: str) -> str:
    match key:
        case "budget" if isinstance(value, int):
            shown = f"{tokens.short(value)} tokens" if value else "off"
        case "system":
            shown = "changed" if value else "default" if value is None else "none"
        case _:
            shown = "default" if value is None else str(value) or "none"
    return f"{key.capitalize()}: {shown}" + (f" (from {origin})" if origin not in ("agent", "") else "")


def rule(memory: Memory) -> Rule | None:
    """Where the rule goes; None while nothing is out of context."""
    older = memory.window.older.turns
    if older:
        first = memory.window.turns[0].messages if memory.window.turns else memory.open.messages if memory.open else ()
        words = next((message.text for message in first if message.role is Role.USER), "")
        return Rule(memory.cutoff or 0, older, " ".join(words.split())[:80])
    if memory.cleared is not None:
        return Rule(memory.cleared, 0, "", cleared=True)
    return None


def fresh(history: list[StoredEvent], memory: Memory) -> list[Shown]:
    """A stretch of history drawn anew, oldest first, with the rule at its exact place if that lies within it."""
    place = rule(memory)
    shown: list[Shown] = []
    for stored in history:
        if place and not place.cleared and stored.id == place.before:
            shown.append(place)
        if made := block(stored, memory.remembers(stored.id)):
            shown.append(made)
        if place and place.cleared and stored.id == place.before:
            shown.append(place)
    return shown
