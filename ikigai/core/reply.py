"""A reply on its way in: what a provider's stream says, and the facts that a finished one comes to."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from ikigai.core.events import AssistantMessage, Event
from ikigai.core.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.record import Record
from ikigai.core.sanitize import storable


class TextDelta(Record, frozen=True):
    text: str


class ThinkingDelta(Record, frozen=True):
    """More thinking; `signature`, when it comes, closes the block it belongs to."""

    text: str = ""
    signature: str = ""
    vendor: str = ""


class ToolCallDelta(Record, frozen=True):
    """More of the call at `index` (calls of one reply count 0, 1, 2 …); fields that did not come are empty."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Waiting(Record, frozen=True):
    """The request failed in a way that may pass; the next attempt starts in `seconds`."""

    seconds: float
    attempt: int
    why: str


class Finished(Record, frozen=True):
    """The provider's end marker came: the reply is whole."""

    stop: StopReason
    usage: Usage = Usage()
    request_id: str = ""


class Failure(StrEnum):
    """What can go wrong with a request, as far as anybody acts differently on it."""

    AUTH = "auth"  # 401, 403: the key
    NOT_FOUND = "not_found"  # 404: model or address
    REFUSED = "refused"  # other 4xx: the request itself
    QUOTA = "quota"  # out of credit; waiting does not help
    CONTEXT = "context"  # the request is larger than the model's context
    RATE = "rate"  # 429: too fast
    OVERLOADED = "overloaded"  # 408, 409, 5xx, 529
    UNREACHABLE = "unreachable"  # no connection
    CUT = "cut"  # the stream ended without its end marker, or stalled
    UNAVAILABLE = "unavailable"  # no model: nothing configured, an extra missing, weights missing


class Broke(Record, frozen=True):
    """The stream ended without a whole reply. `text` is one sentence, `remedy` what the user can do.

    `retry_after` is the provider's wish in seconds, if it named one.
    """

    kind: Failure
    text: str
    remedy: str = ""
    retry_after: float | None = None
    request_id: str = ""


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta
ProviderEvent: TypeAlias = Delta | Waiting | Finished | Broke
"""A stream yields deltas and waits, and its last event is always one Finished or one Broke; it never raises."""


class Accumulator:
    """Adds up the deltas of one reply, in the order in which its blocks began."""

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []  # ["text", …] or ["thinking", …, signature, vendor] or ["call", index]
        self._calls: dict[int, list[list[str]]] = {}  # index → pieces of id, name, arguments

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                if not self._blocks or self._blocks[-1][0] != "text":
                    self._blocks.append(["text"])
                self._blocks[-1].append(text)
            case ThinkingDelta(text, signature, vendor):
                if not self._blocks or self._blocks[-1][0] != "thinking" or self._blocks[-1][1]:
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

    @property
    def text(self) -> str:
        """The words so far, without thinking and calls."""
        return "".join("".join(block[1:]) for block in self._blocks if block[0] == "text")

    def blocks(self) -> tuple[ReplyBlock, ...]:
        return tuple(self._block(block) for block in self._blocks)

    def _block(self, block: list[str]) -> ReplyBlock:
        match block[0]:
            case "text":
                return Text("".join(block[1:]))
            case "thinking":
                return Thinking("".join(block[3:]), block[1], block[2])
            case _:
                id, name, arguments = ("".join(pieces) for pieces in self._calls[int(block[1])])
                return _checked(ToolCall(id or f"call_{block[1]}", name, arguments or "{}"))


def _checked(call: ToolCall) -> ToolCall:
    """A call whose arguments are no JSON object keeps them apart: they must never reach a provider again."""
    try:
        msgspec.json.decode(call.arguments, type=dict[str, object])
    except (ValueError, RecursionError):  # no JSON, no object, no Unicode, or nested beyond reason
        return ToolCall(call.id, call.name, "{}", malformed=call.arguments)
    return call


NOT_AN_OBJECT = "The arguments were not a JSON object; nothing was run."
CUT_OFF = "The reply reached its length limit within this call; nothing was run."


def storable_blocks(blocks: tuple[ReplyBlock, ...]) -> tuple[ReplyBlock, ...]:
    """The blocks as the log can hold them, so that what is measured is what will be stored."""
    return tuple(_storable(block) for block in blocks)


def _storable(block: ReplyBlock) -> ReplyBlock:
    match block:
        case Text(text):
            return Text(storable(text))
        case Thinking(text, signature, vendor):
            return Thinking(storable(text), storable(signature), vendor)
        case ToolCall(id, name, arguments, malformed):
            return ToolCall(storable(id), storable(name), storable(arguments), storable(malformed))


def facts(blocks: tuple[ReplyBlock, ...], stop: StopReason, model: str) -> tuple[Event, ...]:
    """The facts of a whole reply: one AssistantMessage at least, the calls, and an error for each that must not run.

    Words and thoughts between two calls become a further AssistantMessage, so that the order of blocks survives.
    """
    found: list[Event] = []
    said: list[Text | Thinking] = []
    for block in (*blocks, None):
        if isinstance(block, Text | Thinking):
            said.append(block)
            continue
        if said or not found:
            found.append(AssistantMessage(tuple(said), stop, model))
            said = []
        if block is not None:
            found.append(block)
    cut = blocks[-1] if blocks and stop is StopReason.LENGTH else None
    unfit = ((block.id, _unfit(block, block is cut)) for block in blocks if isinstance(block, ToolCall))
    return (*found, *(ToolResult(id, why, is_error=True) for id, why in unfit if why))


def _unfit(call: ToolCall, cut: bool) -> str:
    """Why a call must not run; empty if it may. What was cut off can look whole: `{}` is how arguments begin."""
    if call.malformed:
        return NOT_AN_OBJECT
    return CUT_OFF if cut else ""


def interrupted(blocks: tuple[ReplyBlock, ...], model: str) -> tuple[Event, ...]:
    """The facts of a reply that was cut off: what was said so far, as interrupted; its calls never came whole."""
    said = tuple(block for block in storable_blocks(blocks) if isinstance(block, Text) and block.text)
    return (AssistantMessage(said, StopReason.END, model, interrupted=True),) if said else ()
