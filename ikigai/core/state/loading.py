"""Load the memory of an agent: ask for the rows that it needs, until there are enough.

A `Loading` is a generator that yields questions and is sent the answers, so the same steps run over PostgreSQL and over
a list in memory. Its cost grows with the window and the number of control events, not with the history.
"""

from collections.abc import Collection, Generator, Sequence
from typing import TypeAlias, TypeVar, cast

from ikigai.core.events.events import (
    AssistantMessage,
    Cleared,
    Event,
    Filtered,
    Forked,
    SettingsChanged,
    StoredEvent,
    TurnEnded,
    Undone,
    UserMessage,
)
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import build_turn, counted_size, empty_memory, history_bytes, prepend_turns, replay
from ikigai.core.state.grants import choices_of_undone, is_confirmed, with_proven_forks
from ikigai.core.state.lineage import Ancestor, Span, lineage_spans, live_spans, undone_ids
from ikigai.core.state.memory import Memory, replace
from ikigai.core.state.tool_results import MASK_START, TextEnds, ends_to_read
from ikigai.core.state.window import NO_TURNS, MemoryOrigin, Turn

CONTROL_KINDS = ("clear", "mark", "rewind", "filter", "summary", "undo", "settings", "fork")
"""Kinds that define memory; their events are few and small, and all of the spans are read."""
TURN_KINDS = (
    "user", "recall", "assistant", "tool_call", "tool_started", "filter_plan", "mail_taken", "tool_result", "turn_end",
)  # fmt: skip
"""Kinds that turns are made of; their events are read backwards, as far as the window reaches."""
FIRST_PAGE = 16
"""Rows of the first turn in the first question: most first turns have fewer."""
PAGE_ROWS = 128
"""Rows of one question: a 100,000-token window takes about six pages, and the server reads the next page while one is
folded.
"""

SPAN_GROWTH = 8
"""Factor by which the pieces of lineage in one question grow while they hold less than a page: a chain of many short
forks is read in a few questions.
"""

NEXT_ID = 2**63 - 1
"""An id for an event that is not stored yet: above all others."""

TYPICAL_ROW = 1_000
"""Bytes that a row adds to a request, as a guess before any was read: the average of rows of text and tools."""


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

    With `ascending` it wants the oldest ones, ascending. `prefetch` says that the next question will probably ask for
    as many before them, so the reader may begin to fetch them. With `ends`, the ends of long tool results are enough.
    """

    span: Span
    limit: int = PAGE_ROWS
    ascending: bool = False
    prefetch: bool = False
    ends: TextEnds | None = None


class AskSpans(Record, frozen=True):
    """Wants the newest `limit` events of TURN_KINDS in all of these spans as tuple[StoredEvent, …], descending.

    The spans follow one another, oldest first. `ends` as above.
    """

    spans: tuple[Span, ...]
    limit: int = 2 * PAGE_ROWS
    ends: TextEnds | None = None


class AskEvents(Record, frozen=True):
    """Wants the events of these ids, of any agent, as tuple[StoredEvent, …], ascending; missing ones are left out."""

    ids: tuple[int, ...]


Question: TypeAlias = AskAncestry | AskClear | AskControls | AskPage | AskSpans | AskEvents
Answer: TypeAlias = tuple[Ancestor, ...] | tuple[int, ...] | tuple[StoredEvent, ...]
_T = TypeVar("_T")
Reading: TypeAlias = Generator[Question, Answer, _T]
Loading: TypeAlias = Reading[Memory]


class Reach(Record, frozen=True):
    """The part of the log that belongs to the memory of an agent: `pieces` are its live lineage, oldest first.

    `settled` is memory without its turns. `irregular` is True if filters, summaries or undos changed the events that
    the totals stored with turns had counted. `pieces_with_summarized` are the pieces with the events that summaries
    replace.
    """

    settled: Memory
    pieces: tuple[Span, ...]
    irregular: bool
    pieces_with_summarized: tuple[Span, ...] = ()


def find_reach(run: RunConfig, agent: str, next_event: Event | None = None) -> Reading[Reach]:
    """Walk back over the lineage and find the events in force. An undo counts only in the agent that it belongs to.

    `next_event`, of CONTROL_KINDS, is treated as stored behind all others.
    """
    line: list[Ancestor] = []
    ancestry = cast("tuple[Ancestor, ...]", (yield AskAncestry(agent)))
    for ancestor in ancestry:
        undone, cleared = undone_ids(ancestor.undos), ancestor.cleared
        while cleared in undone:
            earlier = cast("tuple[int, ...]", (yield AskClear(ancestor.agent, cleared)))
            cleared = earlier[0] if earlier else None
        line.append(replace(ancestor, cleared=cleared))
        if cleared is not None:
            break
    plan = lineage_spans(line)
    controls = cast("tuple[StoredEvent, ...]", (yield AskControls(plan)))
    undone = undone_ids(undo for ancestor in ancestry for undo in ancestor.undos)
    in_force: Sequence[StoredEvent] = controls
    if controls and isinstance(controls[0].event, Cleared) and not is_confirmed(run.seal, controls[0]):
        in_force = [*(yield from _choices_before(ancestry, {row.id for row in controls})), *controls]
    # No command undoes a setting or a fork. A row that names one would bring back what it has replaced, with its seal.
    kept = (
        choices_of_undone(run.seal, row)
        if row.id in undone and not isinstance(row.event, SettingsChanged | Forked)
        else row
        for row in in_force
    )
    in_force = with_proven_forks(run.seal, ancestry, [row for row in kept if row])
    if next_event:
        in_force.append(StoredEvent(NEXT_ID, agent, 0, 0.0, next_event))
    settled = replace(replay(empty_memory(run.before_choices(), agent), in_force), stale=False)
    # An undo of the past changed the totals even when it is out of force itself.
    irregular = any(isinstance(stored.event, Undone) for stored in controls) or bool(settled.summaries)
    irregular = irregular or any(isinstance(stored.event, Filtered) for stored in in_force)
    return Reach(settled, live_spans(plan, settled.excluded), irregular, live_spans(plan, settled.excluded_intervals))


def _choices_before(ancestry: tuple[Ancestor, ...], behind: Collection[int]) -> Reading[list[StoredEvent]]:
    """Return the rows of choices that a clear of another program would take back, all but those `behind` it: it
    takes none back, whatever id it has.
    """
    whole = lineage_spans(replace(ancestor, cleared=None) for ancestor in ancestry)
    rows = cast("tuple[StoredEvent, ...]", (yield AskControls(whole)))
    return [row for row in rows if row.id not in behind and isinstance(row.event, SettingsChanged | Cleared | Forked)]


def load_memory(run: RunConfig, agent: str, next_event: Event | None = None) -> Loading:
    """Load and return the memory of `agent`; with `next_event` as it will be once that is stored."""
    return (yield from load_reach((yield from find_reach(run, agent, next_event))))


def load_reach(reach: Reach) -> Loading:
    """Load and return the memory of an agent whose live part of the log is already known."""
    settled, pieces = reach.settled, reach.pieces
    keep = settled.run.rules.keep_first_turn and settled.budget > 0
    start = (yield from _first_turn(settled, pieces)) if keep or reach.irregular else []
    origin = (yield from _origin(settled, pieces, start)) if reach.irregular else None
    start = start if keep else []
    first = replay(settled, start).window
    reader, ends = _BackwardReader(settled, first.size), ends_to_read(settled.run.rules.result_limits)
    left, count = list(pieces), 1  # the pieces that are not read yet, and how many of them one question asks for
    while left and not reader.enough:
        spans = tuple(left[-count:])
        single = len(spans) == 1
        question = (
            AskPage(spans[0], prefetch=reader.needs(PAGE_ROWS), ends=ends) if single else AskSpans(spans, ends=ends)
        )
        page = cast("tuple[StoredEvent, ...]", (yield question))
        reader.add(page)
        if len(page) < question.limit:
            del left[-count:]
            count *= SPAN_GROWTH
        else:
            left, count = _before(left, page[-1]), 1
    turns, rows = reader.finish()
    if origin:
        if origin.second > reader.newest_end:  # of the open turn
            origin = replace(origin, second=0)
        window = replace(settled.window, origin=origin)
        settled = replace(settled, window=window, full_window=window)
    if start and reader.oldest > start[-1].id:
        if reader.oldest > origin.second if origin else reader.before_oldest > 1:
            window = replace(first, turns=NO_TURNS, first=first.turns[0], origin=origin)
            settled = replace(settled, window=window, full_window=window)
        else:  # no turns lie between
            turns = [*first.turns, *turns]
    return replay(prepend_turns(settled, turns), rows)


def _before(pieces: list[Span], row: StoredEvent) -> list[Span]:
    """Return the part of the pieces before this row, which belongs to one of them."""
    number = max(n for n, piece in enumerate(pieces) if piece.agent == row.agent and piece.first <= row.id)
    piece = pieces[number]
    return [*pieces[:number], Span(piece.agent, piece.first, row.id - 1)]


def _origin(settled: Memory, pieces: tuple[Span, ...], start: list[StoredEvent]) -> Reading[MemoryOrigin]:
    """Return the place where live memory begins; `start` are the rows of its first turn."""
    if not start:
        return MemoryOrigin()
    first = replay(settled, start).window.turns[0]
    for span in pieces:
        if span.last is None or span.last > first.end:
            behind = Span(span.agent, max(span.first, first.end + 1), span.last)
            if found := cast("tuple[StoredEvent, ...]", (yield AskPage(behind, limit=1, ascending=True))):
                return MemoryOrigin(first.id, first.before, found[0].id)
    return MemoryOrigin(first.id, first.before)


def _first_turn(settled: Memory, pieces: tuple[Span, ...]) -> Generator[Question, Answer, list[StoredEvent]]:
    """Return the rows of the first live turn; none while none has ended. Damaged rows that make no turn are skipped."""
    rows: list[StoredEvent] = []
    ends = ends_to_read(settled.run.rules.result_limits)
    for span in pieces:
        question = AskPage(span, limit=FIRST_PAGE, ascending=True, ends=ends)
        while True:
            page = cast("tuple[StoredEvent, ...]", (yield question))
            for stored in page:
                rows.append(stored)
                if isinstance(stored.event, TurnEnded):
                    if replay(settled, rows).window.turns:
                        return rows
                    rows = []
            if len(page) < question.limit:
                break
            rest = Span(span.agent, page[-1].id + 1, span.last)
            question = AskPage(rest, limit=4 * question.limit, ascending=True, ends=ends)
    return []


class _BackwardReader:
    """Collects rows read backwards until they reach beyond the window. `taken` bytes of the window are taken already.

    A turn is folded by itself when its first row is reached: it does not depend on the turns before it.
    """

    def __init__(self, settled: Memory, taken: int) -> None:
        self._settled = settled
        self._allowed = history_bytes(settled) - taken
        self._open: list[StoredEvent] | None = None  # the rows behind the newest turn_end, once that is read
        self._turns: list[Turn] = []  # newest first
        self._size = 0  # their bytes
        self._read = 0  # rows
        self._rows: list[StoredEvent] = []  # of the turn being read, newest first
        self._least: _LeastBytes | None = None  # its least size, once that was asked for
        self.newest_end = 0  # id of the newest turn_end
        self.oldest = 0  # id of the oldest row of the turns that were read whole
        self.before_oldest = 0  # turns of live memory before the oldest turn
        self.enough = False

    def add(self, page: tuple[StoredEvent, ...]) -> None:
        self._read += len(page)
        start, thinned = 0, self._settled.has_removed
        ends = [n for n, row in enumerate(page) if type(row.event) is TurnEnded and not thinned(row.id, row.id)]
        for end in ends:
            self._rows += page[start:end]
            start = end
            self._finish_turn()
            if self.enough:
                return
            self.newest_end = self.newest_end or page[end].id
        self._rows += page[start:]
        self._check_partial_turn()

    def needs(self, rows: int) -> bool:
        """Return True if `rows` more rows will probably not be enough, by the average size of those before them."""
        average = self._size / self._read if self._read else TYPICAL_ROW
        return self._size + rows * average <= self._allowed

    def finish(self) -> tuple[list[Turn], list[StoredEvent]]:
        """Return the turns that were read whole, and the rows behind them, both in order. Call it once, at the end."""
        if not self.enough:
            self._finish_turn()
        return self._turns[::-1], self._open or []

    def _finish_turn(self) -> None:
        """Fold the rows read since the last turn_end: the next row is a turn_end, or the log ends."""
        rows, self._rows, self._least = self._rows[::-1], [], None
        if rows:
            self.oldest = rows[0].id
        if self._open is None:
            self._open = rows
        elif rows:
            end = rows[-1].event
            self.before_oldest = end.before.turns if isinstance(end, TurnEnded) else 0
            if turn := build_turn(self._settled, rows):
                self._turns.append(turn)
                self._size += turn.size
        # With one turn beyond the ceiling nothing older can matter.
        self.enough = bool(self._turns) and self._size > self._allowed

    def _check_partial_turn(self) -> None:
        """Stop if the part read of a turn proves that the turn is too large, by its rows or the count at its end.

        The newest turn is read whole, whatever its size, and without a budget so is the one that overflows.
        """
        if not self._settled.budget or not self._turns or not self._rows:
            return
        if self._least is None:
            self._least = _LeastBytes(self._settled, self._rows[0])
        self._least.add(self._rows)
        self.enough = self._size + self._least.bytes > self._allowed


class _LeastBytes:
    """The `bytes` that the rows of one turn, read from its end, add to a request at the least.

    A count stored with the turn's end is exact, unless a filter removed something of the turn since. Excerpts that the
    turn recalls may also be forgotten. Only rows that are not read yet would tell, so count and rows may both be right,
    and the smaller one is certain. Of the rows only the newest iteration is, for older ones may have been dropped. A
    result may have been cut to no less than `most` characters. It may have been masked, to no less than MASK_START, but
    for the last few.
    """

    def __init__(self, settled: Memory, end: StoredEvent) -> None:
        self._settled = settled
        self._counted = self._of_rows = 0
        if isinstance(end.event, TurnEnded) and not settled.has_removed(end.event.first, end.id):
            self._counted = counted_size(settled, end.event)
        self._count_rows = not self._counted or settled.has_forgotten
        caps = settled.run.rules.result_limits
        self._max_characters, self._unmasked = caps.max_tokens, caps.keep_last
        self._has_called = self._is_older = False
        self._seen = 0

    def add(self, rows: Sequence[StoredEvent]) -> None:
        """Count the rows of the turn, newest first. Those counted before are skipped."""
        if self._count_rows:
            new, thinned = rows[self._seen :], self._settled.has_removed
            self._of_rows += sum(self._least_of(stored) for stored in new if not thinned(stored.id, stored.id))
        self._seen = len(rows)

    @property
    def bytes(self) -> int:
        if not self._count_rows:
            return self._counted
        return min(self._of_rows, self._counted) if self._counted else self._of_rows

    def _least_of(self, stored: StoredEvent) -> int:
        match stored.event:
            case UserMessage(text):
                return len(text)
            case AssistantMessage() as reply if not self._is_older:
                return len(reply.text)
            case ToolCall(hosted=""):  # its arguments may be sent in a shorter form
                self._has_called = True
                return 0
            case ToolResult(content=text, hosted=""):
                self._is_older = self._is_older or self._has_called
                self._unmasked -= 1
                if self._is_older:
                    return 0
                return min(len(text), self._max_characters if self._unmasked >= 0 else MASK_START)
            case _:
                return 0
