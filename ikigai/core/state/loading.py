"""Loading an agent: which rows to ask for, and when there are enough.

A `Loading` is a generator that yields questions and is sent the answers, so the same steps run over PostgreSQL and over
a list in memory. What it costs grows with the window and the number of control events, not with the history.
"""

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar, cast

from ikigai.core.events import AssistantMessage, Event, Filtered, StoredEvent, TurnEnded, Undone, UserMessage
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.state.fold import blank, counted_size, ended_turn, history_room, replay, with_turns
from ikigai.core.state.lineage import Ancestor, Span, live, spans, void
from ikigai.core.state.memory import Memory, replace
from ikigai.core.state.run_config import Run
from ikigai.core.state.tool_results import MASK, Ends, ends
from ikigai.core.state.window import NO_TURNS, Origin, Turn, Window

CONTROL_KINDS = ("clear", "mark", "rewind", "filter", "summary", "undo", "settings", "fork")
"""Kinds that say what memory is; few and small, read whole within the spans."""
TURN_KINDS = ("user", "assistant", "tool_call", "tool_started", "filter_plan", "mail_taken", "tool_result", "turn_end")
"""Kinds that turns are made of; read backwards, as far as the window reaches."""
FIRST_PAGE = 16
"""Rows asked for of the first turn at first: most have fewer."""
PAGE = 128
"""Rows asked for at a time: a 100,000-token window is about six of these, and while one is folded the server looks for
the next.
"""

MORE = 8
"""Times as many pieces of the lineage that are asked for at once when those before held less than a page: a chain of
many short forks is read in a few questions.
"""

NEXT_ID = 2**63 - 1
"""The id of an event that is not stored yet: above all others."""

TYPICAL_ROW = 1_000
"""Bytes that a row adds to a request, as a guess before any was read: so many had rows of text and tools on average."""


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

    With `ascending` it wants the oldest ones, ascending. `more` says that as many before them will probably be asked
    for next: whoever answers may begin to look for them. Of long tool results the `ends` are enough, if these are
    given.
    """

    span: Span
    limit: int = PAGE
    ascending: bool = False
    more: bool = False
    ends: Ends | None = None


class AskSpans(Record, frozen=True):
    """Wants the newest `limit` events of TURN_KINDS in all of these spans, which follow one another oldest first, as
    tuple[StoredEvent, …], descending. `ends` as above.
    """

    spans: tuple[Span, ...]
    limit: int = 2 * PAGE
    ends: Ends | None = None


class AskEvents(Record, frozen=True):
    """Wants the events of these ids, whosever they are, as tuple[StoredEvent, …], ascending, if there are any."""

    ids: tuple[int, ...]


Question: TypeAlias = AskAncestry | AskClear | AskControls | AskPage | AskSpans | AskEvents
Answer: TypeAlias = tuple[Ancestor, ...] | tuple[int, ...] | tuple[StoredEvent, ...]
_T = TypeVar("_T")
Reading: TypeAlias = Generator[Question, Answer, _T]
Loading: TypeAlias = Reading[Memory]


class Reach(Record, frozen=True):
    """What of the log belongs to the memory of an agent: `pieces` are what is live of its lineage, oldest first.

    `settled` is memory without its turns. `irregular` says that filters, summaries or undos have changed what the
    totals stored with turns counted. `deep` are the pieces with what summaries stand for.
    """

    settled: Memory
    pieces: tuple[Span, ...]
    irregular: bool
    deep: tuple[Span, ...] = ()


def reaching(run: Run, agent: str, next_event: Event | None = None) -> Reading[Reach]:
    """Walk backwards, and find out what is in force: an undo counts only in the agent that it belongs to.

    `next_event` is taken as stored behind all others; it is of CONTROL_KINDS.
    """
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
    if next_event:
        inforce.append(StoredEvent(NEXT_ID, agent, 0, 0.0, next_event))
    settled = replace(replay(blank(run, agent), inforce), stale=False)
    # An undo of the past changed what totals counted even when it is out of force itself.
    irregular = any(isinstance(stored.event, Undone) for stored in controls)
    irregular = irregular or any(isinstance(stored.event, Filtered) for stored in inforce)
    irregular = irregular or bool(settled.summaries)
    return Reach(settled, live(plan, settled.out), irregular, live(plan, settled.gone))


def loading(run: Run, agent: str, next_event: Event | None = None) -> Loading:
    """Ask for what the memory of `agent` takes, and return it; with `next_event` as it will be behind that."""
    return (yield from filling((yield from reaching(run, agent, next_event))))


def filling(found: Reach) -> Loading:
    """The same when it is known how far it reaches."""
    settled, pieces = found.settled, found.pieces
    keep = settled.run.rules.keep_first_turn and settled.budget > 0
    start = (yield from _first_turn(settled, pieces)) if keep or found.irregular else []
    origin = (yield from _origin(settled, pieces, start)) if found.irregular else None
    start = start if keep else []
    apart = replay(settled, start).window
    reach, wanted = _Reach(settled, apart.size), ends(settled.run.rules.caps)
    left, many = list(pieces), 1  # what is not read yet, and how many pieces of it are asked for at once
    while left and not reach.enough:
        behind = tuple(left[-many:])
        alone = len(behind) == 1
        asked = AskPage(behind[0], more=reach.far(PAGE), ends=wanted) if alone else AskSpans(behind, ends=wanted)
        page = cast("tuple[StoredEvent, ...]", (yield asked))
        reach.add(page)
        if len(page) < asked.limit:
            del left[-many:]
            many *= MORE
        else:
            left, many = _before(left, page[-1]), 1
    turns, rows = reach.whole()
    if origin:
        if origin.second > reach.newest_end:  # of the open turn
            origin = replace(origin, second=0)
        begun = replace(settled.window, origin=origin)
        settled = replace(settled, window=begun, full=begun)
    if start and reach.oldest > start[-1].id:
        if reach.oldest > origin.second if origin else reach.before_oldest > 1:
            first, total, before_newest = apart.turns[0], apart.total, apart.before_newest
            kept = Window(NO_TURNS, apart.size, total, before_newest, first, origin)
            settled = replace(settled, window=kept, full=kept)
        else:  # nothing lies between
            turns = [*apart.turns, *turns]
    return replay(with_turns(settled, turns), rows)


def _before(pieces: list[Span], row: StoredEvent) -> list[Span]:
    """What of the pieces lies before this row of one of them."""
    number = next(n for n in range(len(pieces) - 1, -1, -1) if _holds(pieces[n], row))
    piece = pieces[number]
    return [*pieces[:number], Span(piece.agent, piece.first, row.id - 1)]


def _holds(piece: Span, row: StoredEvent) -> bool:
    return piece.agent == row.agent and piece.first <= row.id


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


def _first_turn(settled: Memory, pieces: tuple[Span, ...]) -> Generator[Question, Answer, list[StoredEvent]]:
    """The rows of the first live turn; empty while none has ended. Damaged rows that make no turn are passed over."""
    found: list[StoredEvent] = []
    wanted = ends(settled.run.rules.caps)
    for span in pieces:
        asked = AskPage(span, limit=FIRST_PAGE, ascending=True, ends=wanted)
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
            behind = Span(span.agent, page[-1].id + 1, span.last)
            asked = AskPage(behind, limit=4 * asked.limit, ascending=True, ends=wanted)
    return []


class _Reach:
    """What was read backwards so far, and whether it reaches beyond the window. `taken` bytes of it are taken already.

    A turn is folded when its first row is reached, by itself: what it comes to does not depend on what is before it.
    """

    def __init__(self, settled: Memory, taken: int) -> None:
        self._settled = settled
        self._allowed = history_room(settled) - taken
        self._open: list[StoredEvent] | None = None  # the rows behind the newest turn_end, once that is met
        self._turns: list[Turn] = []  # newest first
        self._size = 0  # their bytes
        self._read = 0  # rows
        self._rows: list[StoredEvent] = []  # of the turn being read, newest first
        self._least: _Least | None = None  # what it has at least, once that was looked at
        self.newest_end = 0  # id of the newest turn_end
        self.oldest = 0  # id of the oldest row that is not left out
        self.before_oldest = 0  # turns of live memory before the oldest turn
        self.enough = False

    def add(self, page: tuple[StoredEvent, ...]) -> None:
        self._read += len(page)
        start, thinned = 0, self._settled.thinned
        ends = [n for n, row in enumerate(page) if type(row.event) is TurnEnded and not thinned(row.id, row.id)]
        for end in ends:
            self._rows += page[start:end]
            start = end
            self._take()
            if self.enough:
                return
            self.newest_end = self.newest_end or page[end].id
        self._rows += page[start:]
        self._look()

    def far(self, rows: int) -> bool:
        """Whether so many rows more will probably not be enough, by what those before them came to."""
        row = self._size / self._read if self._read else TYPICAL_ROW
        return self._size + rows * row <= self._allowed

    def whole(self) -> tuple[list[Turn], list[StoredEvent]]:
        """The turns that were read whole, and the rows behind them, both in order; to be called once, at the end."""
        if not self.enough:
            self._take()
        return self._turns[::-1], self._open or []

    def _take(self) -> None:
        """A turn_end, or nothing more: what was read since the last one is whole."""
        rows, self._rows, self._least = self._rows[::-1], [], None
        if rows:
            self.oldest = rows[0].id
        if self._open is None:
            self._open = rows
        elif rows:
            end = rows[-1].event
            self.before_oldest = end.before.turns if isinstance(end, TurnEnded) else 0
            if turn := ended_turn(self._settled, rows):
                self._turns.append(turn)
                self._size += turn.size
        # With one turn beyond the ceiling in hand nothing older can matter.
        self.enough = bool(self._turns) and self._size > self._allowed

    def _look(self) -> None:
        """See whether the part read of a turn proves that it is too much, by its rows or the count stored with its end.

        The newest turn is read whole, whatever its size, and without a budget so is the one that overflows.
        """
        if not self._settled.budget or not self._turns or not self._rows:
            return
        if self._least is None:
            self._least = _Least(self._settled, self._rows[0])
        self._least.add(self._rows)
        self.enough = self._size + self._least.bytes > self._allowed


class _Least:
    """What the rows of one turn, met from its end, surely add to a request: `bytes`.

    Where a count was stored with the turn's end, and no filter took from it since, that is it. Else: of the iterations
    before its newest nothing is sure, they may have been dropped. A result may have been cut, to no less than `most`
    characters, or masked, to no less than MASK; but for the last few, which never are.
    """

    def __init__(self, settled: Memory, end: StoredEvent) -> None:
        self._settled = settled
        self.bytes = 0
        if isinstance(end.event, TurnEnded) and not settled.thinned(end.event.first, end.id):
            self.bytes = counted_size(settled, end.event)
        self._by_rows = not self.bytes
        caps = settled.run.rules.caps
        self._most, self._unmasked = caps.most, caps.keep_last
        self._called = self._older = False
        self._seen = 0

    def add(self, rows: Sequence[StoredEvent]) -> None:
        """These rows of the turn, newest first; those seen before are passed over."""
        if self._by_rows:
            new, thinned = rows[self._seen :], self._settled.thinned
            self.bytes += sum(self._of(stored) for stored in new if not thinned(stored.id, stored.id))
        self._seen = len(rows)

    def _of(self, stored: StoredEvent) -> int:
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
