"""Loading an agent: which rows to ask for, and when there are enough.

A `Loading` is a generator that yields questions and is sent the answers, so the same steps run over PostgreSQL and over
a list in memory. What it costs grows with the window and the number of control events, not with the history.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar, cast

from ikigai.core.events import AssistantMessage, Filtered, StoredEvent, TurnEnded, Undone, UserMessage
from ikigai.core.lineage import Ancestor, Span, live, spans, void
from ikigai.core.memory import Memory, Run, blank, counted_size, history_room, replace, replay
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.results import MASK, Caps
from ikigai.core.window import NO_TURNS, Origin, Window

CONTROL_KINDS = ("clear", "mark", "rewind", "filter", "undo", "settings", "fork")
"""Kinds that say what memory is; few and small, read whole within the spans."""
TURN_KINDS = ("user", "assistant", "tool_call", "tool_started", "filter_plan", "tool_result", "turn_end")
"""Kinds that turns are made of; read backwards, as far as the window reaches."""
FIRST_PAGE = 16
"""Rows asked for of the first turn at first: most have fewer."""
PAGE = 256
"""Rows asked for at a time: a 100,000-token window is about two of these."""


class AskAncestry(Record, frozen=True):
    """Wants the agents from `agent` to the root as tuple[Ancestor, …], the agent first; an unknown agent is ()."""

    agent: str


class AskClear(Record, frozen=True):
    """Wants the newest clear of the agent below the id `before` as tuple[int, …]: one id, or none."""

    agent: str
    before: int


class AskControls(Record, frozen=True):
    """Wants all events of CONTROL_KINDS in these spans as tuple[StoredEvent, …], ascending."""

    spans: tuple[Span, ...]


class AskPage(Record, frozen=True):
    """Wants the newest `limit` events of TURN_KINDS in this span as tuple[StoredEvent, …], descending.

    With `ascending` it wants the oldest ones, ascending.
    """

    span: Span
    limit: int = PAGE
    ascending: bool = False


class AskEvents(Record, frozen=True):
    """Wants the events of these ids, whosever they are, as tuple[StoredEvent, …], ascending, if there are any."""

    ids: tuple[int, ...]


Question: TypeAlias = AskAncestry | AskClear | AskControls | AskPage | AskEvents
Answer: TypeAlias = tuple[Ancestor, ...] | tuple[int, ...] | tuple[StoredEvent, ...]
_T = TypeVar("_T")
Reading: TypeAlias = Generator[Question, Answer, _T]
Loading: TypeAlias = Reading[Memory]


class Reach(Record, frozen=True):
    """What of the log belongs to the memory of an agent: `pieces` are what is live of its lineage, oldest first.

    `settled` is memory without its turns. `irregular` says that filters or undos have changed what the totals stored
    with turns counted.
    """

    settled: Memory
    pieces: tuple[Span, ...]
    irregular: bool


def reaching(run: Run, agent: str) -> Reading[Reach]:
    """Walk backwards, and find out what is in force: an undo counts only in the agent that it belongs to."""
    line: list[Ancestor] = []
    for ancestor in cast("tuple[Ancestor, ...]", (yield AskAncestry(agent))):
        out = void(ancestor.undos)
        cleared = ancestor.cleared
        while cleared in out:
            found = cast("tuple[int, ...]", (yield AskClear(ancestor.agent, cleared)))
            cleared = found[0] if found else None
        line.append(replace(ancestor, cleared=cleared))
        if cleared is not None:
            break
    plan = spans(line)
    controls = cast("tuple[StoredEvent, ...]", (yield AskControls(plan)))
    out = void(undo for ancestor in line for undo in ancestor.undos)
    inforce = [stored for stored in controls if stored.id not in out]
    settled = replace(replay(blank(run, agent), inforce), stale=False)
    # An undo of the past changed what totals counted even when it is out of force itself.
    irregular = any(isinstance(stored.event, Undone) for stored in controls)
    irregular = irregular or any(isinstance(stored.event, Filtered) for stored in inforce)
    return Reach(settled, live(plan, settled.gone), irregular)


def loading(run: Run, agent: str) -> Loading:
    """Ask for what the memory of `agent` takes, and return it."""
    found = yield from reaching(run, agent)
    settled, pieces = found.settled, found.pieces
    keep = run.rules.keep_first_turn and settled.budget > 0
    start = (yield from _first_turn(settled, pieces)) if keep or found.irregular else []
    origin = (yield from _origin(settled, pieces, start)) if found.irregular else None
    start = start if keep else []
    apart = replay(settled, start).window
    reach = _Reach(settled, apart.size)
    for span in reversed(pieces):
        asked = AskPage(span)
        while not reach.enough:
            page = cast("tuple[StoredEvent, ...]", (yield asked))
            reach.add(page)
            if len(page) < asked.limit:
                break
            asked = AskPage(Span(span.agent, span.first, page[-1].id - 1))
    rows = reach.whole_turns()
    if origin:
        ends = [stored.id for stored in rows if isinstance(stored.event, TurnEnded)]
        if origin.second > max(ends, default=0):  # of the open turn
            origin = replace(origin, second=0)
        begun = replace(settled.window, origin=origin)
        settled = replace(settled, window=begun, full=begun)
    if start and rows and rows[0].id > start[-1].id:
        if _lies_between(settled, rows):
            first, total, before_newest = apart.turns[0], apart.total, apart.before_newest
            kept = Window(NO_TURNS, apart.size, total, before_newest, first, origin)
            settled = replace(settled, window=kept, full=kept)
        else:  # nothing lies between
            rows = [*start, *rows]
    return replay(settled, rows)


def _origin(settled: Memory, pieces: tuple[Span, ...], start: list[StoredEvent]) -> Reading[Origin]:
    """Where live memory begins; `start` are the rows of its first turn."""
    if not start:
        return Origin()
    first = replay(settled, start).window.turns[0]
    for span in pieces:
        if span.last is None or span.last > first.end:
            behind = Span(span.agent, max(span.first, first.end + 1), span.last)
            if found := cast("tuple[StoredEvent, ...]", (yield AskPage(behind, limit=1, ascending=True))):
                return Origin(first.id, first.before, found[0].id)
    return Origin(first.id, first.before)


def _lies_between(settled: Memory, rows: list[StoredEvent]) -> bool:
    """Whether turns lie between the first one, kept apart, and these rows."""
    if origin := settled.window.origin:
        return rows[0].id > origin.second
    end = next((stored.event for stored in rows if isinstance(stored.event, TurnEnded)), None)
    return end is not None and end.before.turns > 1


def _first_turn(settled: Memory, pieces: tuple[Span, ...]) -> Generator[Question, Answer, list[StoredEvent]]:
    """The rows of the first live turn; empty while none has ended. Damaged rows that make no turn are passed over."""
    found: list[StoredEvent] = []
    for span in pieces:
        asked = AskPage(span, limit=FIRST_PAGE, ascending=True)
        while True:
            page = cast("tuple[StoredEvent, ...]", (yield asked))
            for stored in page:
                found.append(stored)
                if isinstance(stored.event, TurnEnded):
                    if replay(settled, found).window.turns:
                        return found
                    found = []
            if len(page) < asked.limit:
                break
            asked = AskPage(Span(span.agent, page[-1].id + 1, span.last), limit=4 * asked.limit, ascending=True)
    return []


class _Reach:
    """Rows read backwards so far, and whether they reach beyond the window. `taken` bytes of it are taken already."""

    def __init__(self, settled: Memory, taken: int) -> None:
        self._settled = settled
        self._allowed = history_room(settled) - taken
        self._least = _Least(settled.run.rules.caps)
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
                thinned = self._settled.thinned(stored.event.first, stored.id)
                self._partial = 0 if thinned else counted_size(self._settled, stored.event)
                self._by_bytes = not self._partial
                self._least = _Least(self._settled.run.rules.caps)
            elif self._by_bytes and not self._settled.thinned(stored.id, stored.id):
                self._partial += self._least.of(stored)
            # The newest turn is read whole, whatever its size, and without a budget so is the one that overflows; of
            # any other a part, or the count stored with its end, can prove that it is too much.
            proven = self._settled.budget and self._whole and self._size + self._partial > self._allowed
            self.enough = self.enough or bool(proven)
            self._rows.append(stored)

    def _next_turn(self) -> None:
        """A turn_end: the turn after it has been read whole."""
        if self._ends:
            newest_first = self._rows[self._ends[-1] :]
            window = replay(self._settled, reversed(newest_first)).full
            self._whole += len(window.turns)
            self._size += window.turns[-1].size if window.turns else 0
        # With one turn beyond the ceiling in hand nothing older can matter.
        self.enough = self._whole > 0 and self._size > self._allowed
        self._ends.append(len(self._rows))

    def whole_turns(self) -> list[StoredEvent]:
        """The rows in order, without the part of a turn that the reading stopped in."""
        rows = self._rows[: self._ends[-1]] if self.enough and self._ends else self._rows
        return rows[::-1]


class _Least:
    """What the rows of one turn, met from its end, surely add to a request, in bytes.

    Of the iterations before its newest nothing is sure: they may have been dropped. A result may have been cut, to no
    less than `most` characters, or masked, to no less than MASK; but for the last few, which never are.
    """

    def __init__(self, caps: Caps) -> None:
        self._most, self._unmasked = caps.most, caps.keep_last
        self._called = self._older = False

    def of(self, stored: StoredEvent) -> int:
        match stored.event:
            case UserMessage(text):
                return len(text)
            case AssistantMessage() as said if not self._older:
                return len(said.text)
            case ToolCall():  # its arguments may be sent in a shorter form
                self._called = True
                return 0
            case ToolResult(content=text):
                self._older = self._older or self._called
                self._unmasked -= 1
                if self._older:
                    return 0
                return min(len(text), self._most if self._unmasked >= 0 else MASK)
            case _:
                return 0
