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
    """More thinking; `signature`, when it comes, closes the block it belongs to, and another `vendor` begins one."""

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
    """The request failed in a way that may pass; attempt number `attempt` of `most` starts in `seconds`.

    `failure` and `request_id` are those of the attempt that failed. `most` is 0 where it is not known.
    """

    seconds: float
    attempt: int
    why: str
    failure: str = ""
    request_id: str = ""
    most: int = 0


class Counted(Record, frozen=True):
    """What the provider has counted so far; the last report stands, and that of Finished before all."""

    usage: Usage
    request_id: str = ""


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


PASSING = frozenset({Failure.RATE, Failure.OVERLOADED, Failure.UNREACHABLE, Failure.CUT})
"""What may be gone in a moment: tried again by itself, or worth trying later."""


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
ProviderEvent: TypeAlias = Delta | Counted | Waiting | Finished | Broke
"""A stream yields deltas, counts and waits, and its last event is always one Finished or one Broke; it never raises."""


class Accumulator:
    """Adds up the deltas of one reply, in the order in which its blocks began."""

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []  # ["text", …] or ["thinking", …, signature, vendor] or ["call", index]
        self._calls: dict[int, list[list[str]]] = {}  # index → pieces of id, name, arguments

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(""):
                pass  # many servers send one with every piece of thinking
            case TextDelta(text):
                if not self._blocks or self._blocks[-1][0] != "text":
                    self._blocks.append(["text"])
                self._blocks[-1].append(text)
            case ThinkingDelta(text, signature, vendor):
                if not self._blocks or not _goes_on(self._blocks[-1], vendor):
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
    def thinking(self) -> str:
        """The thoughts so far."""
        return "\n\n".join(block.text for block in self.blocks() if isinstance(block, Thinking) and block.text)

    @property
    def text(self) -> str:
        """The words so far, without thinking and calls."""
        return "".join("".join(block[1:]) for block in self._blocks if block[0] == "text")

    def blocks(self) -> tuple[ReplyBlock, ...]:
        """Thinking of which neither a word nor a signature came is none, but keeps apart what stands around it."""
        made = (self._block(block) for block in self._blocks)
        return tuple(block for block in made if not isinstance(block, Thinking) or block.text or block.signature)

    def _block(self, block: list[str]) -> ReplyBlock:
        match block[0]:
            case "text":
                return Text("".join(block[1:]))
            case "thinking":
                return Thinking("".join(block[3:]), block[1], block[2])
            case _:
                id, name, arguments = ("".join(pieces) for pieces in self._calls[int(block[1])])
                return _checked(ToolCall(id or f"call_{block[1]}", name, arguments or "{}"))


def _goes_on(block: list[str], vendor: str) -> bool:
    """Whether more thinking of this vendor belongs to the block: one of another kind must keep its signature apart."""
    return block[0] == "thinking" and not block[1] and (not vendor or block[2] in ("", vendor))


def _checked(call: ToolCall) -> ToolCall:
    """A call whose arguments are no JSON object keeps them apart: they must never reach a provider again."""
    try:
        msgspec.json.decode(call.arguments, type=dict[str, object])
    except (ValueError, RecursionError):  # no JSON, no object, no Unicode, or nested beyond reason
        return ToolCall(call.id, call.name, "{}", malformed=call.arguments)
    return call


NOT_AN_OBJECT = "The arguments were not a JSON object; nothing was run."
QUOTED = 200
"""Characters of such arguments that the model is shown, to see its own mistake."""
CUT_OFF = "The reply reached its length limit within this call; nothing was run."
WITHHELD = "The reply ended as refused; nothing was run."


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

    Words and thoughts between two calls become a further AssistantMessage, so that the order of blocks survives. Why
    the reply ended short is said once: by its last AssistantMessage, or by the error of the call that was cut off.
    """
    cut = blocks[-1] if blocks and stop is StopReason.LENGTH and isinstance(blocks[-1], ToolCall) else None
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
    unfit = ((block.id, _unfit(block, stop, block is cut)) for block in blocks if isinstance(block, ToolCall))
    return (*_ending_once(found, cut is not None), *(ToolResult(id, why, is_error=True) for id, why in unfit if why))


def _ending_once(facts: list[Event], told: bool) -> list[Event]:
    """The facts with a stop that people are told of on the last message alone, and on none if it is `told` already."""
    last = max((index for index, fact in enumerate(facts) if isinstance(fact, AssistantMessage)), default=-1)
    return [
        msgspec.structs.replace(fact, stop=StopReason.TOOLS)
        if isinstance(fact, AssistantMessage) and fact.stop in SHORT and (told or index != last)
        else fact
        for index, fact in enumerate(facts)
    ]


SHORT = {
    StopReason.LENGTH: "The reply was cut off: it reached its longest length.",
    StopReason.REFUSED: "The model refused to answer.",
}
"""Why a reply is not what was asked for, as people are told behind it."""


def _unfit(call: ToolCall, stop: StopReason, cut: bool) -> str:
    """Why a call must not run; empty if it may. What was cut off can look whole: `{}` is how arguments begin."""
    if stop is StopReason.REFUSED:
        return WITHHELD
    if call.malformed:
        began = " ".join(call.malformed[: 4 * QUOTED].split())[:QUOTED]
        return f"{NOT_AN_OBJECT} They began: {began}" if began else NOT_AN_OBJECT
    return CUT_OFF if cut else ""


def interrupted(blocks: tuple[ReplyBlock, ...], model: str) -> tuple[Event, ...]:
    """The facts of a reply that was cut off: what was said and thought so far, as interrupted.

    Its calls never came whole. Its thoughts are kept for people: without a signature no model is sent them again.
    """
    blocks = storable_blocks(blocks)
    kept = (Thinking(block.text, "", block.vendor) if isinstance(block, Thinking) else block for block in blocks)
    said = tuple(block for block in kept if isinstance(block, Text | Thinking) and block.text)
    return (AssistantMessage(said, StopReason.END, model, interrupted=True),) if said else ()
