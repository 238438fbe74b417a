"""The turn under way: how it grows event by event, and what of it a model is not sent any more.

    a tool result longer than a result may be     is cut when it comes
    results between the first and the last few    are masked, some at a time
    the oldest iterations (a reply with calls,    are dropped, as the last resort, when the turn alone is too large
    their results)                                for the model; the newest iteration stays

What was cut, masked or dropped stays so in later requests, and the size is of that form. The log keeps everything.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from ikigai.core.events import Event, FilterPlanned, MailTaken, ToolStarted, UserMessage
from ikigai.core.messages import ASSISTANT, TOOL, Block, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.build import join
from ikigai.core.state.tool_results import Caps, capped, edge, masked

replace = msgspec.structs.replace

Measure: TypeAlias = Callable[[Message], int]
"""Bytes of one message in a request."""

READ_RESULT = "read_result"
"""The tool that shows a model what was cut or masked; where it is offered, what stands instead names the result."""


class Status(StrEnum):
    IDLE = "idle"
    WAITING = "waiting for the model"
    RUNNING_TOOLS = "running tools"


IDLE, WAITING, RUNNING_TOOLS = Status.IDLE, Status.WAITING, Status.RUNNING_TOOLS
"""Found at once, where one found in its class takes a quarter of a microsecond up to Python 3.11."""


class OpenTurn(Record, frozen=True):
    """The turn under way. `calls` are its tool calls with the ids of their events, `last` its newest message event.

    `results` have come so far; those before `edge` are masked but for the first few, `dropped` of them are gone with
    `iterations` that were dropped. `planning` and `criteria` are those of a talk that plans a filter, `plan` what it
    came to. `alone` says that no reply is wanted; `sender` is the name of the agent whose message began it. `reply_to`
    are the agents, by id, whose work it has taken from mail. `attended` says that the user asked for it: by a word of
    theirs, or through an agent above.
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
    sender: str = ""
    reply_to: tuple[str, ...] = ()
    attended: bool = True

    @property
    def requests(self) -> int:
        """How many replies the turn has had."""
        return self.iterations + sum(message.role is ASSISTANT for message in self.messages)

    @property
    def running(self) -> bool:
        """Whether a call has started and has no result yet; the others wait for it, or for the user's answer."""
        return not self.started <= self.answered

    @property
    def pending(self) -> tuple[tuple[int, ToolCall], ...]:
        return tuple((id, call) for id, call in self.calls if call.id not in self.answered)


NOTHING = OpenTurn(0, 0)
"""What a turn grows from."""


class Growing:
    """The open turn, or none yet, while one event after another comes to it.

    A message is measured when somebody has to know how big it is. `OpenTurn` says so exactly; whether the turn still
    takes no more than `most` mostly shows without, by what a message takes at the most. So a turn that is folded at
    once is measured at its end, and comes to the same as one that is folded event by event.

    `readable` says that READ_RESULT is offered. Beyond `most` bytes iterations are dropped; with None none ever is.
    """

    def __init__(
        self, turn: OpenTurn | None, caps: Caps, readable: bool, measure: Measure, most: int | None = None
    ) -> None:
        self._turn = turn
        self._caps, self._readable, self._measure, self._most = caps, readable, measure, most
        self._changed = False
        self.status = WAITING if turn else IDLE
        turn = turn or NOTHING
        self._first, self._last = turn.first, turn.last
        self._messages = list(turn.messages)
        self._calls = list(turn.calls)
        self._pending = {call.id for _, call in turn.calls} - turn.answered
        self._started, self._answered = set(turn.started), set(turn.answered)
        self._results, self._edge, self._dropped = turn.results, turn.edge, turn.dropped
        self._iterations = turn.iterations
        self._kind = turn.planning, turn.criteria
        self._plan, self._alone, self._sender = turn.plan, turn.alone, turn.sender
        self._reply_to, self._attended = turn.reply_to, turn.attended
        self._size = turn.size  # of those measured, the first `_measured`
        self._measured = len(self._messages)
        self._most_more = 0  # bytes that the others take at the most
        if self._pending:
            self.status = RUNNING_TOOLS

    def admits(self, event: Event) -> bool:
        """Whether its id fits: no call comes twice, and nothing starts or is answered that is not pending."""
        if type(event) is ToolCall:
            return event.id not in self._pending and event.id not in self._answered
        if type(event) is ToolResult or type(event) is ToolStarted:
            return event.call_id in self._pending
        return True

    def add(self, id: int, event: Event) -> None:
        """One more event under the id `id`; that it belongs here is not looked at again."""
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
        if type(event) is ToolCall:
            self._calls.append((id, event))
            self._pending.add(event.id)
            self.status = RUNNING_TOOLS
            self._join(event)
        elif type(event) is ToolResult:
            self._pending.discard(event.call_id)
            self._answered.add(event.call_id)
            if not self._pending:
                self.status = WAITING
            if len(event.content) > self._caps.most:
                content = capped(event.content, self._caps, self._place(event.call_id), event.whole)
                event = replace(event, content=content, whole=0)
            self._join(event)
            self._results += 1
            until = edge(self._results, self._caps)
            if until > self._edge:
                self._mask(until)
        else:
            if type(event) is UserMessage and not event.sender:
                self._attended = True
            self._join(event)
        if self._most is not None and self._size + self._most_more > self._most and len(self._calls) > 1:
            self.shrink(self._most)

    def turn(self) -> OpenTurn | None:
        """The turn as it is now; the very one that it began with if nothing came."""
        if not self._changed:
            return self._turn
        self._weigh()
        return OpenTurn(
            self._first,
            self._last,
            tuple(self._messages),
            self._size,
            tuple(self._calls),
            frozenset(self._started),
            frozenset(self._answered),
            self._results,
            self._edge,
            self._dropped,
            self._iterations,
            *self._kind,
            self._plan,
            self._alone,
            self._sender,
            self._reply_to,
            self._attended,
        )

    def shrink(self, most: int) -> None:
        """Drop the oldest whole iterations, as many as it takes to come to `most` bytes; the newest stays."""
        self._weigh()
        while self._size > most:
            messages = self._messages
            starts = [n for n, message in enumerate(messages) if message.calls]
            if len(starts) < 2:
                return
            start = starts[0]
            asked = {call.id for call in messages[start].calls}
            gone = [n for n in range(start, starts[1]) if n == start or messages[n].role is TOOL]
            lost = [block for n in gone[1:] for block in messages[n].blocks]
            answers = {block.call_id for block in lost if isinstance(block, ToolResult)}
            if not asked <= self._answered or answers != asked:
                return  # not whole: some of its results are still to come, or stand elsewhere
            self._size -= sum(self._measure(messages[n]) for n in gone)
            self._messages = [message for n, message in enumerate(messages) if n not in gone]
            self._measured = len(self._messages)
            self._dropped += len(lost)
            self._iterations += 1
            self._changed = True

    def _join(self, event: Event) -> None:
        messages = self._messages
        newest = messages[-1] if self._measured and len(messages) == self._measured else None  # and it is measured
        blocks = join(messages, event)
        if newest is not None and len(messages) == self._measured and messages[-1] is not newest:
            self._size -= self._measure(newest)
            self._measured -= 1
            blocks = messages[-1].blocks
        if self._most is not None and blocks:
            self._most_more += MOST_OF_MESSAGE + most_of(blocks)

    def _mask(self, until: int) -> None:
        """Mask the results that the edge has passed on its way to `until`."""
        since = max(self._edge, self._caps.keep_first, self._dropped)
        self._edge = until
        if until <= since:
            return
        place = self._dropped
        for n, message in enumerate(self._messages):
            if message.role is TOOL:
                here = range(place, place + len(message.blocks))
                place = here.stop
                blocks = tuple(
                    _masked(block, self._place(block.call_id))
                    if isinstance(block, ToolResult) and since <= index < until
                    else block
                    for index, block in zip(here, message.blocks, strict=True)
                )
                if blocks != message.blocks:
                    self._put(n, Message(message.role, blocks))

    def _put(self, n: int, message: Message) -> None:
        if n < self._measured:
            self._size += self._measure(message) - self._measure(self._messages[n])
        elif self._most is not None:
            self._most_more += most_of(message.blocks)
        self._messages[n] = message

    def _weigh(self) -> None:
        for message in self._messages[self._measured :]:
            self._size += self._measure(message)
        self._measured, self._most_more = len(self._messages), 0

    def _place(self, call_id: str) -> str:
        return f" [{READ_RESULT} {call_id}]" if self._readable else ""


NOT_SHOWN = " [masked: its picture is not shown any more]"
"""Behind what was said of a picture; shorter than any of them."""


def _masked(result: ToolResult, whole: str) -> ToolResult:
    """What stands for an old result; its pictures are gone from it."""
    content = masked(result.content, whole)
    return replace(result, content=content + NOT_SHOWN if result.images else content, images=())


MOST_OF_CHARACTER, MOST_OF_MESSAGE, MOST_OF_BLOCK = 12, 1_000, 1_000
"""Bytes that a measure comes to at the most: a character as \\u0000 takes six of them, and ids may be said twice."""
MOST_OF_IMAGE = 2**62
"""Nothing is sure of an image: it is counted by its vendor's formula."""


def most_of(blocks: tuple[Block, ...]) -> int:
    """Bytes that these blocks take at the most, whoever the message with them is for; what it says besides left out."""
    most = 0
    for block in blocks:
        if type(block) is ToolCall:
            characters = len(block.id) + len(block.name) + len(block.arguments)
        elif type(block) is ToolResult and not block.images:
            characters = len(block.call_id) + len(block.name) + len(block.content)
        elif type(block) is Text:
            characters = len(block.text)
        elif type(block) is Thinking:
            characters = len(block.text) + len(block.signature)
        else:
            return MOST_OF_IMAGE
        most += MOST_OF_BLOCK + MOST_OF_CHARACTER * characters
    return most
