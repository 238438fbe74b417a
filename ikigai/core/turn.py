"""The turn under way: how it grows event by event, and what of it a model is not sent any more.

    a tool result longer than a result may be     is cut when it comes
    results between the first and the last few    are masked, some at a time
    the oldest iterations (a reply with calls,    are dropped, as the last resort, when the turn alone is too large
    their results)                                for the model; the newest iteration stays

What was cut, masked or dropped stays so in later requests, and the size is of that form. The log keeps everything.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ikigai.core.events import Event, FilterPlanned
from ikigai.core.messages import Message, Role, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request import grow
from ikigai.core.results import Caps, capped, edge, masked

replace = msgspec.structs.replace

Measure: TypeAlias = Callable[[Message], int]
"""Bytes of one message in a request."""

READ_RESULT = "read_result"
"""The tool that shows a model what was cut or masked; where it is offered, what stands instead names the result."""


class OpenTurn(Record, frozen=True):
    """The turn under way. `calls` are its tool calls with the ids of their events, `last` its newest message event.

    `results` have come so far; those before `edge` are masked but for the first few, `dropped` of them are gone with
    `iterations` that were dropped. `planning` and `criteria` are those of a talk that plans a filter, `plan` what it
    came to. `alone` says that no reply is wanted.
    """

    first: int
    last: int
    messages: tuple[Message, ...] = ()
    size: int = 0
    calls: tuple[tuple[int, ToolCall], ...] = ()
    started: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    results: int = 0
    edge: int = 0
    dropped: int = 0
    iterations: int = 0
    planning: str = ""
    criteria: str = ""
    plan: FilterPlanned | None = None
    alone: bool = False

    @property
    def requests(self) -> int:
        """How many replies the turn has had."""
        return self.iterations + sum(message.role is Role.ASSISTANT for message in self.messages)

    @property
    def pending(self) -> tuple[tuple[int, ToolCall], ...]:
        return tuple((id, call) for id, call in self.calls if call.id not in self.answered)


def grown(turn: OpenTurn, id: int, event: Event, caps: Caps, readable: bool, measure: Measure) -> OpenTurn:
    """The turn with one more message event, under the id `id`; `readable` says that READ_RESULT is offered."""
    if isinstance(event, ToolResult):
        event = replace(event, content=capped(event.content, caps, _place(event.call_id, readable)))
    messages = grow(turn.messages, event)
    size = turn.size
    if messages is not turn.messages:
        size += measure(messages[-1])
        if len(messages) == len(turn.messages):
            size -= measure(turn.messages[-1])
    turn = replace(turn, last=id, messages=messages, size=size)
    match event:
        case ToolCall():
            return replace(turn, calls=(*turn.calls, (id, event)))
        case ToolResult():
            turn = replace(turn, answered=turn.answered | {event.call_id}, results=turn.results + 1)
            return _mask(turn, caps, readable, measure)
        case _:
            return turn


def _place(call_id: str, readable: bool) -> str:
    return f" [{READ_RESULT} {call_id}]" if readable else ""


def _mask(turn: OpenTurn, caps: Caps, readable: bool, measure: Measure) -> OpenTurn:
    """Mask the results that the edge has passed."""
    until = edge(turn.results, caps)
    since = max(turn.edge, caps.keep_first, turn.dropped)
    turn = replace(turn, edge=until)
    if until <= since:
        return turn
    place, messages, size = turn.dropped, list(turn.messages), turn.size
    for n, message in enumerate(messages):
        if message.role is Role.TOOL:
            here = range(place, place + len(message.blocks))
            place = here.stop
            blocks = tuple(
                replace(block, content=masked(block.content, _place(block.call_id, readable)))
                if isinstance(block, ToolResult) and since <= index < until
                else block
                for index, block in zip(here, message.blocks, strict=True)
            )
            if blocks != message.blocks:
                messages[n] = Message(message.role, blocks)
                size += measure(messages[n]) - measure(message)
    return replace(turn, messages=tuple(messages), size=size)


def shrunk(turn: OpenTurn, most: int, measure: Measure) -> OpenTurn:
    """The turn without its oldest whole iterations, as many as it takes to come to `most` bytes; the newest stays."""
    while turn.size > most:
        starts = [n for n, message in enumerate(turn.messages) if message.calls]
        if len(starts) < 2:
            return turn
        start = starts[0]
        asked = {call.id for call in turn.messages[start].calls}
        gone = [n for n in range(start, starts[1]) if n == start or turn.messages[n].role is Role.TOOL]
        lost = [block for n in gone[1:] for block in turn.messages[n].blocks]
        if not asked <= turn.answered or {block.call_id for block in lost if isinstance(block, ToolResult)} != asked:
            return turn  # not whole: some of its results are still to come, or stand elsewhere
        turn = replace(
            turn,
            messages=tuple(message for n, message in enumerate(turn.messages) if n not in gone),
            size=turn.size - sum(measure(turn.messages[n]) for n in gone),
            dropped=turn.dropped + len(lost),
            iterations=turn.iterations + 1,
        )
    return turn
