"""Build the open turn event by event, and leave out the parts that a model is not sent any more.

    a tool result longer than a result may be     is cut when it comes
    results between the first and the last few    are masked, some at a time
    the oldest iterations (a reply with calls,    are dropped, as the last resort, when the turn alone is too large
    their results)                                for the model; the newest iteration stays

Later requests keep the cuts, masks and drops, and the size is the size of that form. The log keeps everything.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import islice
from typing import TypeAlias

import msgspec

from ikigai.core.events.events import Event, FilterPlanned, MailTaken, ToolStarted, TurnsRecalled, UserMessage
from ikigai.core.events.messages import ASSISTANT, TOOL, Block, Document, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.build import join
from ikigai.core.request.cross_model import document_text
from ikigai.core.state.tool_results import ToolResultLimits, cap_result, mask_result, masked_edge

replace = msgspec.structs.replace

Measure: TypeAlias = Callable[[Message], int]
"""Bytes of one message in a request."""

READ_RESULT = "read_result"
"""The tool that shows a model a result that was cut or masked. If it is offered, the replacement names the result."""


class AgentStatus(StrEnum):
    """The state of an agent's turn."""

    IDLE = "idle"
    WAITING = "waiting for the model"
    RUNNING_TOOLS = "running tools"


IDLE, WAITING, RUNNING_TOOLS = AgentStatus.IDLE, AgentStatus.WAITING, AgentStatus.RUNNING_TOOLS
"""Module names, because a lookup in the class takes a quarter of a microsecond up to Python 3.11."""


class OpenTurn(Record, frozen=True):
    """The turn under way. Hosted calls, and their results, are part of `messages` alone."""

    first: int
    """Id of its first event."""
    last: int
    """Id of its newest message event."""
    messages: tuple[Message, ...] = ()
    size: int = 0
    calls: tuple[tuple[int, ToolCall], ...] = ()
    """Its tool calls with the ids of their events."""
    started: frozenset[str] = frozenset()
    """Ids of the calls whose start is stored."""
    answered: frozenset[str] = frozenset()
    """Ids of the calls that have a result."""
    results: int = 0
    """Number of results so far."""
    edge: int = 0
    """Index of the first result that is not masked; the first few results never are."""
    dropped: int = 0
    """Number of results that left with dropped iterations."""
    iterations: int = 0
    """Number of iterations that were dropped."""
    planning: str = ""
    """Kind of the filter, "forget" or "remember", in a planning talk."""
    criteria: str = ""
    """The criteria of that filter, as the user typed them."""
    plan: FilterPlanned | None = None
    """The filter of a planning talk."""
    alone: bool = False
    """True if no reply is wanted."""
    sender: str = ""
    """Name of the agent whose message began the turn; "" also where another program stored that message."""
    reply_to: tuple[str, ...] = ()
    """Ids of the agents whose work the turn has taken from mail."""
    attended: bool = True
    """True if the user asked for the turn, by a message or through an agent above."""
    recalled: int = 0
    """As in `Turn`."""
    lacks_recalled: bool = False
    """As in `Turn`."""

    @property
    def not_started(self) -> frozenset[str]:
        """The ids of calls that have not begun to run, as one that the user is asked about."""
        return frozenset(call.id for _, call in self.calls) - self.started - self.answered

    @property
    def requests(self) -> int:
        """Number of replies that the turn has had."""
        return self.iterations + [message.role for message in self.messages].count(ASSISTANT)

    @property
    def pending(self) -> tuple[tuple[int, ToolCall], ...]:
        # From the newest on, as many as there are: a turn may have made 1,000 calls.
        newest = ((id, call) for id, call in reversed(self.calls) if call.id not in self.answered)
        return tuple(islice(newest, len(self.calls) - len(self.answered)))[::-1]


def turn_progress(turn: OpenTurn | None) -> tuple[object, ...]:
    """Return what a turn has come to, as far as the jobs of it depend on that: equal however it is measured."""
    return () if turn is None else (turn.first, turn.last, turn.pending, turn.started)


EMPTY_TURN = OpenTurn(0, 0)
"""The turn before its first event."""


class TurnBuilder:
    """Adds one event after another to an open turn, or to a turn that has not begun.

    A message is measured only when its exact size is needed. `OpenTurn` has the exact size. An upper limit of each
    message mostly shows that the turn takes no more than `limit`. So a turn that is folded at once is measured at
    its end, and equals one that is folded event by event.

    `readable` returns True if READ_RESULT is offered. Beyond `limit` bytes iterations are dropped; with None none ever
    is.
    """

    def __init__(
        self,
        turn: OpenTurn | None,
        caps: ToolResultLimits,
        readable: Callable[[], bool],
        measure: Measure,
        limit: int | None = None,
    ) -> None:
        self._turn = turn
        self._caps, self._readable, self._measure, self._limit = caps, readable, measure, limit
        self._changed = False
        self.status = WAITING if turn else IDLE
        self._begun = turn = turn or EMPTY_TURN
        self._first, self._last = turn.first, turn.last
        self._messages = list(turn.messages)
        self._calls = list(turn.calls)
        self._pending = {call.id for _, call in turn.pending}
        self._started, self._answered = set(turn.started), set(turn.answered)
        self._results, self._edge, self._dropped = turn.results, turn.edge, turn.dropped
        self._iterations = turn.iterations
        self._plan, self._reply_to, self._attended = turn.plan, turn.reply_to, turn.attended
        self._recalled, self._lacks_recalled = turn.recalled, turn.lacks_recalled
        self._size = turn.size  # bytes of the messages that are measured, the first `_measured`
        self._measured = len(self._messages)
        self._unmeasured_limit = 0  # bytes that the others take at the most
        if self._pending:
            self.status = RUNNING_TOOLS

    def admits(self, event: Event) -> bool:
        """Return True if the id of the event fits: a call must be new, a start and a result need a pending call."""
        if type(event) is ToolCall:
            return event.id not in self._pending and event.id not in self._answered
        if type(event) is ToolResult:
            return bool(event.hosted) or event.call_id in self._pending
        if type(event) is ToolStarted:
            return event.call_id in self._pending
        return True

    def add(self, id: int, event: Event) -> None:
        """Add the event stored as `id`. It is not checked again that it belongs here."""
        if self.status is IDLE:
            self._first, self.status = id, WAITING
        self._changed = True
        if type(event) is ToolStarted:
            self._started.add(event.call_id)
            return
        if type(event) is FilterPlanned:
            self._plan = event
            return
        if type(event) is MailTaken:
            if event.reply_to and event.reply_to not in self._reply_to:
                self._reply_to = (*self._reply_to, event.reply_to)
            self._attended = self._attended or event.attended
            return
        self._last = id
        if (type(event) is ToolCall or type(event) is ToolResult) and event.hosted:
            self._join(event)  # nothing is run, cut or masked
        elif type(event) is ToolCall:
            self._calls.append((id, event))
            self._pending.add(event.id)
            self.status = RUNNING_TOOLS
            self._join(event)
        elif type(event) is ToolResult:
            self._pending.discard(event.call_id)
            self._answered.add(event.call_id)
            if not self._pending:
                self.status = WAITING
            if len(event.content) > self._caps.max_tokens:
                content = cap_result(event.content, self._caps, self._pointer(event.call_id), event.whole)
                event = replace(event, content=content, whole=0)
            self._join(event)
            self._results += 1
            edge = masked_edge(self._results, self._caps)
            if edge > self._edge:
                self._mask(edge)
        else:
            if type(event) is UserMessage and not event.sender:
                self._attended = True
            if type(event) is TurnsRecalled:
                self._recalled = id
            self._join(event)
        if self._limit is not None and self._size + self._unmeasured_limit > self._limit and len(self._calls) > 1:
            self.shrink(self._limit)

    def leave_out_recalled(self) -> None:
        """Note that the turn lacks recalled excerpts: what was counted for it, and cached of it, had them."""
        if self.status is not IDLE:
            self._changed = self._lacks_recalled = True

    def turn(self) -> OpenTurn | None:
        """Return the turn as it is now; the identical value that it began with if no event came."""
        if not self._changed:
            return self._turn
        self._measure_rest()
        return replace(
            self._begun,
            first=self._first,
            last=self._last,
            messages=tuple(self._messages),
            size=self._size,
            calls=tuple(self._calls),
            started=frozenset(self._started),
            answered=frozenset(self._answered),
            results=self._results,
            edge=self._edge,
            dropped=self._dropped,
            iterations=self._iterations,
            plan=self._plan,
            reply_to=self._reply_to,
            attended=self._attended,
            recalled=self._recalled,
            lacks_recalled=self._lacks_recalled,
        )

    def shrink(self, max_bytes: int) -> None:
        """Drop the oldest whole iterations until the turn takes `max_bytes` at most. The newest iteration stays."""
        self._measure_rest()
        while self._size > max_bytes:
            messages = self._messages
            starts = [n for n, message in enumerate(messages) if message.calls]
            if len(starts) < 2:
                return
            start = starts[0]
            calls = {call.id for call in messages[start].calls}
            dropped = [n for n in range(start, starts[1]) if n == start or messages[n].role is TOOL]
            results = [block for n in dropped[1:] for block in messages[n].blocks]
            answers = {block.call_id for block in results if isinstance(block, ToolResult)}
            if not calls <= self._answered or answers != calls:
                return  # not whole: some of its results are still to come, or stand elsewhere
            self._size -= sum(self._measure(messages[n]) for n in dropped)
            self._messages = [message for n, message in enumerate(messages) if n not in dropped]
            self._measured = len(self._messages)
            self._dropped += len(results)
            self._iterations += 1
            self._changed = True

    def _join(self, event: Event) -> None:
        messages = self._messages
        newest = messages[-1] if self._measured and len(messages) == self._measured else None  # only a measured one
        blocks = join(messages, event)
        if newest is not None and len(messages) == self._measured and messages[-1] is not newest:
            self._size -= self._measure(newest)
            self._measured -= 1
            blocks = messages[-1].blocks
        if self._limit is not None and blocks:
            self._unmeasured_limit += MAX_MESSAGE_BYTES + max_bytes(blocks)

    def _mask(self, edge: int) -> None:
        """Move the masked edge to `edge`, and mask the results that it passes."""
        since = max(self._edge, self._caps.keep_first, self._dropped)
        self._edge = edge
        if edge <= since:
            return
        place = self._dropped
        for n, message in enumerate(self._messages):
            if message.role is TOOL:
                here = range(place, place + len(message.blocks))
                place = here.stop
                blocks = list(message.blocks)
                for index, block in zip(here, message.blocks, strict=True):
                    if isinstance(block, ToolResult) and since <= index < edge:
                        blocks[index - here.start] = _mask_block(block, self._pointer(block.call_id))
                if tuple(blocks) != message.blocks:
                    self._replace_message(n, Message(message.role, tuple(blocks)))

    def _replace_message(self, n: int, message: Message) -> None:
        if n < self._measured:
            self._size += self._measure(message) - self._measure(self._messages[n])
        elif self._limit is not None:
            self._unmeasured_limit += max_bytes(message.blocks)
        self._messages[n] = message

    def _measure_rest(self) -> None:
        for message in self._messages[self._measured :]:
            self._size += self._measure(message)
        self._measured, self._unmeasured_limit = len(self._messages), 0

    def _pointer(self, call_id: str) -> str:
        return f" [{READ_RESULT} {call_id}]" if self._readable() else ""


NOT_SHOWN = " [masked: its picture is not shown any more]"
"""Text behind the masked description of an image; shorter than any image."""


def _mask_block(result: ToolResult, pointer: str) -> ToolResult:
    """Return the replacement of an old result, without its images."""
    content = mask_result(result.content, pointer)
    return replace(result, content=content + NOT_SHOWN if result.images else content, images=())


MAX_CHARACTER_BYTES, MAX_MESSAGE_BYTES, MAX_BLOCK_BYTES = 12, 1_000, 1_000
"""Upper limits of a measure in bytes: a character such as \\u0000 takes six, and ids may be written twice."""
MAX_IMAGE_BYTES = 2**62
"""An image or a PDF has no useful limit: it is counted by its vendor's formula."""


def max_bytes(blocks: tuple[Block, ...]) -> int:
    """Return the most bytes that these blocks take for any model, without the rest of the message."""
    total = 0
    for block in blocks:
        if type(block) is ToolCall:
            characters = len(block.id) + len(block.name) + len(block.arguments)
        elif type(block) is ToolResult and not block.images:
            characters = len(block.call_id) + len(block.name) + len(block.content) + len(block.opaque)
        elif type(block) is Text:
            characters = len(block.text) + sum(len(citation.opaque) for citation in block.citations)
        elif type(block) is Thinking:
            characters = len(block.text) + len(block.signature)
        elif type(block) is Document and not block.data:
            characters = len(document_text(block))
        else:
            return MAX_IMAGE_BYTES
        total += MAX_BLOCK_BYTES + MAX_CHARACTER_BYTES * characters
    return total
