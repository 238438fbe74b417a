"""Loading an agent: which rows to ask for, and when there are enough.

A `Loading` is a generator that yields questions and is sent the answers, so the same steps run over PostgreSQL and over
a list in memory. What it costs grows with the window and the number of control events, not with the history.
"""

from collections.abc import Generator
from typing import TypeAlias, cast

from ikigai.core import tokens
from ikigai.core.events import AssistantMessage, StoredEvent, TurnEnded, UserMessage
from ikigai.core.lineage import Ancestor, Span, live, spans
from ikigai.core.memory import Memory, Run, blank, counted_size, replace, replay
from ikigai.core.messages import ToolResult
from ikigai.core.record import Record

CONTROL_KINDS = ("clear", "mark", "rewind", "settings", "fork")
"""Kinds that say what memory is; few and small, read whole within the spans."""
TURN_KINDS = ("user", "assistant", "tool_call", "tool_started", "tool_result", "turn_end")
"""Kinds that turns are made of; read backwards, as far as the window reaches."""
PAGE = 256
"""Rows asked for at a time: a 100,000-token window is about two of these."""


class AskAncestry(Record, frozen=True):
    """Wants the agents from `agent` to the root as tuple[Ancestor, …], the agent first; an unknown agent is ()."""

    agent: str


class AskControls(Record, frozen=True):
    """Wants all events of CONTROL_KINDS in these spans as tuple[StoredEvent, …], ascending."""

    spans: tuple[Span, ...]


class AskPage(Record, frozen=True):
    """Wants the newest `limit` events of TURN_KINDS in this span as tuple[StoredEvent, …], descending."""

    span: Span
    limit: int = PAGE


Question: TypeAlias = AskAncestry | AskControls | AskPage
Answer: TypeAlias = tuple[Ancestor, ...] | tuple[StoredEvent, ...]
Loading: TypeAlias = Generator[Question, Answer, Memory]


def loading(run: Run, agent: str) -> Loading:
    """Ask for what the memory of `agent` takes, and return it."""
    plan = spans(cast("tuple[Ancestor, ...]", (yield AskAncestry(agent))))
    controls = cast("tuple[StoredEvent, ...]", (yield AskControls(plan)))
    settled = replace(replay(blank(run, agent), controls), stale=False)
    reach = _Reach(settled)
    for span in reversed(live(plan, settled.gone)):
        asked = AskPage(span)
        while not reach.enough:
            page = cast("tuple[StoredEvent, ...]", (yield asked))
            reach.add(page)
            if len(page) < asked.limit:
                break
            asked = AskPage(Span(span.agent, span.first, page[-1].id - 1))
    return replay(settled, reach.whole_turns())


class _Reach:
    """Rows read backwards so far, and whether they reach beyond the window."""

    def __init__(self, settled: Memory) -> None:
        self._settled = settled
        self._allowed = tokens.most_bytes(settled.provider, settled.model, settled.ceiling) - settled.envelope
        self._rows: list[StoredEvent] = []  # newest first
        self._ends: list[int] = []  # places of turn_end in _rows
        self._whole = 0  # turns read whole, the open one left out
        self._size = 0  # their bytes
        self._partial = 0  # bytes that the turn being read has at least
        self._by_bytes = True  # whether that is so by its rows, and not by a count stored with its end
        self.enough = False

    def add(self, page: tuple[StoredEvent, ...]) -> None:
        for stored in page:
            if self.enough:
                return
            if isinstance(stored.event, TurnEnded):
                self._next_turn()
                self._partial = counted_size(self._settled, stored.event)
                self._by_bytes = not self._partial
            elif self._by_bytes:
                self._partial += _characters(stored)
            # The newest turn is read whole, whatever its size, and without a budget so is the one that overflows; of
            # any other a part, or the count stored with its end, can prove that it is too much.
            proven = self._settled.budget and self._whole and self._size + self._partial > self._allowed
            self.enough = self.enough or bool(proven)
            self._rows.append(stored)

    def _next_turn(self) -> None:
        """A turn_end: the turn after it has been read whole."""
        if self._ends:
            newest_first = self._rows[self._ends[-1] :]
            window = replay(self._settled, reversed(newest_first)).window
            self._whole += len(window.turns)
            self._size += window.size
        # With one turn beyond the ceiling in hand nothing older can matter.
        self.enough = self._whole > 0 and self._size > self._allowed
        self._ends.append(len(self._rows))

    def whole_turns(self) -> list[StoredEvent]:
        """The rows in order, without the part of a turn that the reading stopped in."""
        rows = self._rows[: self._ends[-1]] if self.enough and self._ends else self._rows
        return rows[::-1]


def _characters(stored: StoredEvent) -> int:
    """What an event surely adds to a request; the arguments of a call may be sent in a shorter form."""
    match stored.event:
        case UserMessage(text) | ToolResult(content=text):
            return len(text)
        case AssistantMessage() as said:
            return len(said.text)
        case _:
            return 0
