"""End the turns of an imported history that has no turn ends, such as one from another program.

A log whose turns never end is one turn, which no window can leave out. So a message that comes behind a reply ends the
turn of that reply. An event that stands between turns (a clear, a mark) also ends it. In an export of ikigai every turn
has its end already, and nothing is added.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from ikigai.core.events import codec
from ikigai.core.events.events import (
    AssistantMessage,
    Cleared,
    Ending,
    Event,
    Filtered,
    Marked,
    Rewound,
    Summarized,
    ToolStarted,
    Totals,
    TurnEnded,
    Undone,
    UserMessage,
)
from ikigai.core.events.messages import Document, Message, Text, Thinking, ToolCall, ToolResult
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.request.build import close_turn, join
from ikigai.core.state.memory import replace

EVENTS_BETWEEN_TURNS = (Cleared, Marked, Rewound, Filtered, Summarized, Undone)
"""Events that stand between turns."""
BLOCK_OVERHEAD_BYTES = 32
"""Bytes of a block besides its words: about the size of its JSON."""


class _ImportedTurn:
    """The open turn: its first event, its messages to a model, and its progress."""

    def __init__(self, first: int, alone: bool) -> None:
        self.first, self.alone = first, alone
        self.messages: list[Message] = []
        self.pending, self.started = set[str](), set[str]()
        self.replied = False

    def add(self, event: Event) -> None:
        match event:
            case ToolCall(id):
                self.pending.add(id)
            case ToolResult(id):
                self.pending.discard(id)
            case ToolStarted(id):
                self.started.add(id)
                return
            case _:
                pass
        self.replied = isinstance(event, AssistantMessage)
        join(self.messages, event)

    @property
    def ending(self) -> Ending:
        return Ending.COMPLETED if self.replied or self.alone else Ending.INTERRUPTED

    def whole(self, ending: Ending) -> tuple[Message, ...]:
        return close_turn(tuple(self.messages), frozenset(self.started), ending)


class TurnEnds:
    """The ends of one history. `added` is the number of turns that were ended."""

    def __init__(self) -> None:
        self._turn: _ImportedTurn | None = None
        self._ends: list[tuple[int, Totals, Totals]] = []  # ids of the ends of live turns, and the totals behind each
        self._places = array("q")  # of those added, among all rows
        self._count = 0

    @property
    def added(self) -> int:
        return len(self._places)

    def original_number(self, number: int) -> int:
        """Return the number, counted from 1, that a row has among the original ones."""
        return number - bisect_left(self._places, number)

    def rows(self, rows: Iterator[RawRow]) -> Iterator[RawRow]:
        """Yield the rows with the missing ends; each end has the id of the row before it, for references to a place by
        that id.
        """
        before: RawRow | None = None
        for raw in rows:
            event = codec.decode(raw.kind, raw.content, raw.data)
            if before and self._turn and self._ends_turn(event, self._turn):
                yield self._add_end(before)
            self._count += 1
            before = raw
            yield self._stored_row(raw, event)
        if before and self._turn and self._turn.replied and not self._turn.pending:
            yield self._add_end(before)

    @staticmethod
    def _ends_turn(event: Event, turn: _ImportedTurn) -> bool:
        if isinstance(event, UserMessage):  # else it is one more of the same turn
            return turn.replied or turn.alone or bool(turn.pending)
        return isinstance(event, EVENTS_BETWEEN_TURNS)

    def _stored_row(self, raw: RawRow, event: Event) -> RawRow:
        """Return the row as it is stored: an end without totals gets the totals up to there."""
        match event:
            case UserMessage() if self._turn is None:
                self._turn = _ImportedTurn(raw.id, event.alone)
            case TurnEnded() if self._turn:
                if not (event.first or event.size or event.before.turns):
                    event = self._place_end(self._turn, event)
                    raw = raw._replace(data=codec.encode(event).data)
                self._end(raw.id, self._turn, event)
                return raw
            case Cleared():
                self._ends.clear()
            case Rewound(to):
                while self._ends and self._ends[-1][0] > to:
                    self._ends.pop()
            case _:
                pass
        if self._turn and isinstance(event, UserMessage | AssistantMessage | ToolCall | ToolResult | ToolStarted):
            self._turn.add(event)
        return raw

    def _add_end(self, before: RawRow) -> RawRow:
        assert self._turn
        event = self._place_end(self._turn, TurnEnded(self._turn.ending))
        self._end(before.id, self._turn, event)
        self._count += 1
        self._places.append(self._count)
        return RawRow(before.id, before.agent, 0, before.at, *codec.encode(event))

    def _place_end(self, turn: _ImportedTurn, event: TurnEnded) -> TurnEnded:
        _, total, newest = self._ends[-1] if self._ends else (0, Totals(), Totals())
        size = sum(map(_size, turn.whole(event.ending)))
        return replace(event, first=turn.first, size=size, before=total, before_previous=newest)

    def _end(self, id: int, turn: _ImportedTurn, event: TurnEnded) -> None:
        after = event.before + Totals(1, len(turn.whole(event.ending)), event.size)
        self._ends.append((id, after, event.before))
        self._turn = None


def _size(message: Message) -> int:
    """Return the bytes of a message, about as it is sent; messages in memory are measured exactly."""
    words = 0
    for block in message.blocks:
        match block:
            case Text(text):
                words += len(text.encode())
            case Thinking():
                words += len(block.text.encode()) + len(block.signature)
            case Document():
                words += len(block.text.encode())
            case ToolCall():
                words += len(block.arguments.encode())
            case ToolResult():
                words += len((block.opaque or block.content).encode())
            case _:
                pass
    return words + BLOCK_OVERHEAD_BYTES * len(message.blocks)
