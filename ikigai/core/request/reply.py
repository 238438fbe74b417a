"""Events of a provider's stream, and the events of the log that a finished reply becomes."""

import math
from enum import StrEnum
from typing import TypeAlias, TypeGuard

import msgspec

from ikigai.core.events.events import AssistantMessage, Event
from ikigai.core.events.messages import (
    Block,
    Citation,
    ReplyBlock,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import storable


class TextDelta(Record, frozen=True):
    """More text."""

    text: str


class ThinkingDelta(Record, frozen=True):
    """More thinking; a `signature` closes the block that it belongs to, and another `vendor` begins a new one."""

    text: str = ""
    signature: str = ""
    vendor: str = ""


class ToolCallDelta(Record, frozen=True):
    """More of the call at `index` (calls of one reply count 0, 1, 2 …); missing fields are empty."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class HostedDelta(Record, frozen=True):
    """A whole hosted call, or its result."""

    block: ToolCall | ToolResult


class CitationDelta(Record, frozen=True):
    """The pages that the newest text relies on; more text begins a block of its own."""

    citations: tuple[Citation, ...] = ()


class RetryScheduled(Record, frozen=True):
    """The request failed in a way that may pass; attempt number `attempt` of `max_attempts` starts in `seconds`.

    `failure` and `request_id` describe the attempt that failed. `max_attempts` is 0 if it is not known.
    """

    seconds: float
    attempt: int
    why: str
    failure: str = ""
    request_id: str = ""
    max_attempts: int = 0


def describe_retry(waiting: RetryScheduled, left: float) -> str:
    """Return the words about the retry of a failed request, `left` seconds before it is made."""
    of = f" of {waiting.max_attempts}" if waiting.max_attempts else ""
    when = f"in {math.ceil(left)} s " if left > 0 else ""
    return f"Trying again {when}(attempt {waiting.attempt}{of})"


class UsageUpdate(Record, frozen=True):
    """The provider's usage so far; the last report is valid, and StreamFinished's takes precedence."""

    usage: Usage
    request_id: str = ""


class StreamFinished(Record, frozen=True):
    """The provider's end marker came: the reply is complete."""

    stop: StopReason
    usage: Usage = Usage()
    request_id: str = ""


class FailureKind(StrEnum):
    """The kinds of failed requests that the program handles differently."""

    AUTH = "auth"  # 401, 403: the key
    NOT_FOUND = "not_found"  # 404: model or address
    REFUSED = "refused"  # other 4xx: the request itself
    NO_TOOLS = "no_tools"  # the model or its server takes no tools
    QUOTA = "quota"  # out of credit; waiting does not help
    CONTEXT = "context"  # the request is larger than the model's context
    RATE = "rate"  # 429: too fast
    OVERLOADED = "overloaded"  # 408, 409, 5xx, 529
    UNREACHABLE = "unreachable"  # no connection
    CUT = "cut"  # the stream ended without its end marker, or stalled
    LIMIT = "limit"  # a spending cap of the user; nothing was sent
    UNAVAILABLE = "unavailable"  # no model: nothing configured, an extra missing, weights missing


TRANSIENT_FAILURES = frozenset({FailureKind.RATE, FailureKind.OVERLOADED, FailureKind.UNREACHABLE, FailureKind.CUT})
"""Failures that may pass soon: the request is retried, or can be sent again later."""


DOWN_FAILURES = TRANSIENT_FAILURES | {FailureKind.QUOTA}
"""Failures of a model that is down: another one may answer."""


class StreamFailed(Record, frozen=True):
    """The stream ended without a complete reply. `text` is one sentence, `remedy` what the user can do.

    `retry_after` is the delay in seconds that the provider asked for, if it named one.
    """

    kind: FailureKind
    text: str
    remedy: str = ""
    retry_after: float | None = None
    request_id: str = ""


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | HostedDelta | CitationDelta
ProviderEvent: TypeAlias = Delta | UsageUpdate | RetryScheduled | StreamFinished | StreamFailed
"""Events of a stream: its last one is always a StreamFinished or a StreamFailed. A stream never raises."""


NOT_AN_OBJECT = "The arguments were not a JSON object; nothing was run."
MAX_QUOTED_ARGUMENTS = 200
"""Characters of malformed arguments that the model is shown, to see its own mistake."""
CUT_OFF = "The reply reached its length limit within this call; nothing was run."
REPLY_WITHHELD = "The reply ended as refused; nothing was run."


def storable_blocks(blocks: tuple[ReplyBlock, ...]) -> tuple[ReplyBlock, ...]:
    """Return the blocks as the log can hold them, so that the measured text is the stored one."""
    return tuple(_storable(block) for block in blocks)


def _storable(block: ReplyBlock) -> ReplyBlock:
    match block:
        case Text(text, citations):
            return Text(storable(text), tuple(map(_storable_citation, citations)))
        case Thinking(text, signature, vendor):
            return Thinking(storable(text), storable(signature), vendor)
        case ToolCall(id, name, arguments, malformed, hosted):
            return ToolCall(storable(id), storable(name), storable(arguments), storable(malformed), hosted)
        case ToolResult(id, content, name=name, opaque=opaque):
            return msgspec.structs.replace(
                block, call_id=storable(id), content=storable(content), name=storable(name), opaque=storable(opaque)
            )


def _storable_citation(citation: Citation) -> Citation:
    url, title, opaque = storable(citation.url), storable(citation.title), storable(citation.opaque)
    return Citation(url, title, opaque, citation.vendor)


def reply_events(blocks: tuple[ReplyBlock, ...], stop: StopReason, model: str) -> tuple[Event, ...]:
    """Return the events of a complete reply: AssistantMessages, calls, and an error for each call that must not run.

    There is at least one AssistantMessage. Text and thinking between two calls become a further one, so that the order
    of blocks survives. Only one event says why the reply ended short: the last AssistantMessage, or the error of the
    call that was cut off.
    """
    # Thinking without words only carries what a vendor wants back with the call before it.
    worded = (block for block in reversed(blocks) if not isinstance(block, Thinking) or block.text)
    last = next(worded, None)
    cut = last if stop is StopReason.LENGTH and is_own_call(last) else None
    events = _with_calls_apart(blocks, stop, model)
    errors = ((block.id, _call_error(block, stop, block is cut)) for block in blocks if is_own_call(block))
    results = (ToolResult(id, error, is_error=True) for id, error in errors if error)
    return (*_with_one_reason(events, cut is not None), *results)


def _with_calls_apart(
    blocks: tuple[ReplyBlock, ...], stop: StopReason, model: str, interrupted: bool = False
) -> list[Event]:
    """Return the blocks as events: calls and hosted results as such, the blocks between them as AssistantMessages."""
    events: list[Event] = []
    message: list[Text | Thinking] = []
    for block in (*blocks, None):
        if isinstance(block, Text | Thinking):
            message.append(block)
            continue
        if message or not events:
            events.append(AssistantMessage(tuple(message), stop, model, interrupted))
            message = []
        if block is not None:
            events.append(block)
    return events


def is_own_call(block: object) -> TypeGuard[ToolCall]:
    """Return True for a call that ikigai runs."""
    return isinstance(block, ToolCall) and not block.hosted


def _with_one_reason(events: list[Event], reported: bool) -> list[Event]:
    """Return the events with the reason for a short reply on the last message only; on none if it is `reported`."""
    last = max((index for index, event in enumerate(events) if isinstance(event, AssistantMessage)), default=-1)
    return [
        msgspec.structs.replace(event, stop=StopReason.TOOLS)
        if isinstance(event, AssistantMessage) and event.stop in SHORT_REPLY_REASONS and (reported or index != last)
        else event
        for index, event in enumerate(events)
    ]


SHORT_REPLY_REASONS = {
    StopReason.LENGTH: "The reply was cut off at its length limit.",
    StopReason.REFUSED: "The model refused to answer.",
}
"""The notice for the user behind a reply that ended short."""


NO_TEXT = "The model sent no text."
"""The notice for the user behind a reply that ended by itself, with thinking or hosted calls at most."""


def _call_error(call: ToolCall, stop: StopReason, cut: bool) -> str:
    """Return why a call must not run; "" if it may. A cut call can look complete: `{}` is how arguments begin."""
    if stop is StopReason.REFUSED:
        return REPLY_WITHHELD
    if cut:
        return CUT_OFF
    if call.malformed:
        began = " ".join(call.malformed[: 4 * MAX_QUOTED_ARGUMENTS].split())[:MAX_QUOTED_ARGUMENTS]
        return f"{NOT_AN_OBJECT} They began: {began}" if began else NOT_AN_OBJECT
    return ""


def is_cut_off(block: Block) -> bool:
    """Return True if this is the result of a call that was cut off."""
    return isinstance(block, ToolResult) and block.is_error and block.content == CUT_OFF


def interrupted_events(blocks: tuple[ReplyBlock, ...], model: str) -> tuple[Event, ...]:
    """Return the events of an interrupted reply: its text and thinking so far, and its hosted calls.

    Its own calls never came complete. Its thinking is kept for people: without a signature no model is sent it again.
    Neither is what a vendor wants back of hosted calls, which belongs to that thinking.
    """
    partial = tuple(filter(None, map(_without_opaque, storable_blocks(blocks))))
    return tuple(_with_calls_apart(partial, StopReason.END, model, interrupted=True)) if partial else ()


def _without_opaque(block: ReplyBlock) -> ReplyBlock | None:
    """Return the part of an interrupted reply without what its vendor wants back; None for one that is not kept."""
    match block:
        case Text(text, citations):
            cited = tuple(Citation(citation.url, citation.title) for citation in citations)
            return Text(text, cited) if text else None
        case Thinking(text, _, vendor):
            return Thinking(text, "", vendor) if text else None
        case ToolCall(hosted=hosted):
            return block if hosted else None
        case ToolResult():
            return msgspec.structs.replace(block, opaque="")
