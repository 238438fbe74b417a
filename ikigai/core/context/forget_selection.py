"""Find the turns and events of memory that ids name, with the same questions to the log as `loading`.

A selected reply includes its thinking, its calls and their results; a selected message includes what was recalled for
it. If no event of a turn would stay, the whole turn is selected. Ids can name only events in memory, in the window or
not.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events.events import (
    AssistantMessage,
    StoredEvent,
    Summarized,
    ToolStarted,
    TurnEnded,
    TurnsRecalled,
    UserMessage,
)
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import REMOVED_TEXT, replay
from ikigai.core.state.inputs import EventRange
from ikigai.core.state.lineage import Span
from ikigai.core.state.loading import PAGE_ROWS, AskEvents, AskPage, Reach, Reading, find_reach
from ikigai.core.state.memory import Memory, replace
from ikigai.core.text import tokens

SENT_EVENTS = (UserMessage, TurnsRecalled, AssistantMessage, ToolCall, ToolResult)
"""Events that are sent to a model."""
MAX_SELECTED_ROWS = 50_000
"""Events that are read for one selection: some seconds, and some hundred megabytes."""


class EndedTurn(Record, frozen=True):
    """An ended turn of the log: its rows of TURN_KINDS without those that filters removed; `piece` is its live piece.

    The user's message at its beginning stays in `rows`. If a filter removed it, `removed` is True, and it is not sent.
    Recalled excerpts of forgotten events also stay there, so that the turn is measured without them: see `unsent`.
    """

    rows: tuple[StoredEvent, ...]
    piece: int
    removed: bool = False
    unsent: tuple[int, ...] = ()

    @property
    def first(self) -> int:
        return self.rows[0].id

    @property
    def end(self) -> int:
        return self.rows[-1].id

    @property
    def sent_rows(self) -> tuple[StoredEvent, ...]:
        """The rows that are sent to a model."""
        sent = (row for row in self.rows[self.removed :] if isinstance(row.event, SENT_EVENTS))
        return tuple(row for row in sent if row.id not in self.unsent)

    @property
    def title(self) -> str:
        """The beginning of the user's message in one line; of a planning talk, the command."""
        if self.removed or not isinstance(message := self.rows[0].event, UserMessage):
            return REMOVED_TEXT
        text = f"/{message.planning} {message.text}" if message.planning else message.text
        return " ".join(text.split())[:80]


class TurnSelection(Record, frozen=True):
    """The selected part of one turn: single events `ids`, or the whole turn if `ids` is empty."""

    turn: EndedTurn
    ids: tuple[int, ...]
    tokens: int

    @property
    def messages(self) -> int:
        return len(self.ids) or len(self.turn.sent_rows)


class Selection(Record, frozen=True):
    """Turns and events to be filtered, oldest first; `unread_ranges` are whole ranges whose rows were not read."""

    turns: tuple[TurnSelection, ...]
    unread_ranges: tuple[tuple[int, int], ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ranges of whole turns; turns that follow one another in one piece of the log share a range."""
        ranges = list(self.unread_ranges)
        before: EndedTurn | None = None
        for each in self.turns:
            turn = each.turn
            if each.ids:
                before = None
                continue
            if before and before.piece == turn.piece and turn.rows[0].seq == before.rows[-1].seq + 1:
                ranges[-1] = (ranges[-1][0], turn.end)
            else:
                ranges.append((turn.first, turn.end))
            before = turn
        return tuple(ranges)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(id for each in self.turns for id in each.ids)

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.turns)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.turns)


def select_events(run: RunConfig, agent: str, ranges: Sequence[EventRange]) -> Reading[Selection]:
    """Return the selection of these ranges. Raise Rejected for an id that is not in memory, and if it is empty."""
    reach = yield from find_reach(run, agent)
    turns: dict[int, EndedTurn] = {}
    ids: set[int] = set()
    for each in ranges:
        if each.newest_turns:
            selected = yield from _newest_turns(reach, each.newest_turns)
            ids.update(row.id for turn in selected for row in turn.sent_rows)
        else:
            selected = yield from _turns_within(reach, each.first, each.last)
            named = {row.id for turn in selected for row in turn.sent_rows if each.first <= row.id <= each.last}
            if not named:
                yield from _refuse(reach, each)
            ids |= named
        turns.update((turn.first, turn) for turn in selected)
    if not ids:
        raise Rejected("There is nothing in the context yet.", "/search finds every message in the history.")
    return close_selection(reach.settled, (turns[first] for first in sorted(turns)), ids)


def load_window_turns(
    run: RunConfig, agent: str, since: int, first_turn: int = 0
) -> Reading[tuple[Memory, tuple[EndedTurn, ...]]]:
    """Return memory without its turns, to measure turns in, and the ended turns in memory from the event `since` on.

    `first_turn` is the first event of an earlier turn that is also sent, or 0.
    """
    reach = yield from find_reach(run, agent)
    first = (yield from _turns_within(reach, first_turn, first_turn)) if first_turn else ()
    return reach.settled, (*first, *(yield from _turns_within(reach, since, 2**63 - 1)))


def load_ranges_before(run: RunConfig, agent: str, id: int) -> Reading[tuple[tuple[int, int], ...]]:
    """Return the part of memory before the event `id` as ranges, without reading their rows."""
    reach = yield from find_reach(run, agent)
    ranges: list[tuple[int, int]] = []
    for piece in reach.pieces:
        last = id - 1 if piece.last is None else min(piece.last, id - 1)
        span = Span(piece.agent, piece.first, last)
        oldest = cast("tuple[StoredEvent, ...]", (yield AskPage(span, limit=1, ascending=True)))
        newest = cast("tuple[StoredEvent, ...]", (yield AskPage(span, limit=1)))
        ranges += ((first.id, last.id) for first, last in zip(oldest, newest, strict=True))
    return tuple(ranges)


def turn_of(run: RunConfig, agent: str, id: int) -> Reading[int]:
    """Return the id of the turn_end of the event's turn in memory. Raise Rejected if none exists."""
    reach = yield from find_reach(run, agent)
    turns = yield from _turns_within(
        replace(reach, pieces=reach.pieces_with_summarized), id, id
    )  # a rewind restores condensed turns
    if not turns:
        yield from _refuse(reach, EventRange(id, id))
    return turns[0].end


def close_selection(settled: Memory, turns: Iterable[EndedTurn], ids: Iterable[int]) -> Selection:
    """Return the selection of these events with what belongs to them. `settled` is memory without its turns."""
    selected = set(ids)
    chosen = (_select_of_turn(settled, turn, selected) for turn in turns)
    return Selection(tuple(each for each in chosen if each))


def _select_of_turn(settled: Memory, turn: EndedTurn, selected: set[int]) -> TurnSelection | None:
    closed = _close_over_replies(turn, selected)
    size = _size(settled, turn)
    if not closed:
        return None
    if len(closed) == len(turn.sent_rows):
        return TurnSelection(turn, (), tokens.count_tokens(settled.provider, settled.model, size))
    thinned = replace(settled, removed_ids=tuple(sorted({*settled.removed_ids, *closed})))
    removed = max(0, size - _size(thinned, turn))
    return TurnSelection(turn, closed, tokens.count_tokens(settled.provider, settled.model, removed))


def _size(settled: Memory, turn: EndedTurn) -> int:
    return replay(settled, turn.rows).window.size


def _close_over_replies(turn: EndedTurn, selected: set[int]) -> tuple[int, ...]:
    """Return the selected events of a turn with what belongs to them: calls, results, and recalled excerpts."""
    groups: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    replying = False
    for row in turn.rows:
        match row.event:
            case UserMessage():
                groups.append([row.id])
                replying = False
            case TurnsRecalled() if row.id in turn.unsent:
                pass
            case TurnsRecalled():
                if groups and not selected.isdisjoint(groups[-1]):
                    groups[-1].append(row.id)
                else:  # it can go alone
                    groups.append([row.id])
            case AssistantMessage() | ToolCall():
                if isinstance(row.event, AssistantMessage) or not replying:
                    groups.append([])
                groups[-1].append(row.id)
                replying = True
                if isinstance(row.event, ToolCall):
                    calls[row.event.id] = groups[-1]
            case ToolResult(call_id) if call_id in calls:
                calls[call_id].append(row.id)
                replying = bool(row.event.hosted)  # more of the reply follows
            case _:
                replying = replying and not isinstance(row.event, (ToolResult, ToolStarted))
    return tuple(sorted(id for group in groups if selected.intersection(group) for id in group))


def _newest_turns(reach: Reach, count: int) -> Reading[list[EndedTurn]]:
    """Return the newest `count` turns of memory, oldest first."""
    turns: list[EndedTurn] = []
    for number in range(len(reach.pieces) - 1, -1, -1):
        rows = list[StoredEvent]()  # newest first
        span = reach.pieces[number]
        while len(turns) + _count_complete(rows) < count:
            page = cast("tuple[StoredEvent, ...]", (yield AskPage(span)))
            rows += page
            if len(page) < PAGE_ROWS:
                break
            span = Span(span.agent, span.first, page[-1].id - 1)
        turns = [*_ended_turns(reach.settled, reversed(rows), number), *turns]
    return turns[-count:]


def _count_complete(rows: list[StoredEvent]) -> int:
    """Return the number of turns, read from the newest row on, whose first row is surely there."""
    return max(0, sum(isinstance(row.event, TurnEnded) for row in rows) - 1)


def _turns_within(reach: Reach, first: int, last: int) -> Reading[tuple[EndedTurn, ...]]:
    """Return the ended turns of memory with an event from `first` to `last`, as whole turns."""
    turns: list[EndedTurn] = []
    for number, piece in enumerate(reach.pieces):
        if piece.first > last or (piece.last is not None and piece.last < first):
            continue
        start = yield from _turn_start(piece, first)
        rows = list[StoredEvent]()
        span = Span(piece.agent, start, piece.last)
        while True:
            page = cast("tuple[StoredEvent, ...]", (yield AskPage(span, ascending=True)))
            rows += page
            if len(rows) > MAX_SELECTED_ROWS:
                message = f"That is more than {MAX_SELECTED_ROWS:,} events."
                raise Rejected(message, "Choose fewer, or use /clear or /rewind.")
            if len(page) < PAGE_ROWS or any(row.id > last and isinstance(row.event, TurnEnded) for row in page):
                break
            span = Span(span.agent, page[-1].id + 1, span.last)
        ended = _ended_turns(reach.settled, rows, number)
        turns += (turn for turn in ended if turn.first <= last and turn.end >= first)
    return tuple(turns)


def _turn_start(piece: Span, id: int) -> Reading[int]:
    """Return the id of the first row of the turn that the event belongs to."""
    span = Span(piece.agent, piece.first, id - 1)
    start = max(id, piece.first)
    while span.last and span.last >= span.first:
        page = cast("tuple[StoredEvent, ...]", (yield AskPage(span)))
        for row in page:
            if isinstance(row.event, TurnEnded):
                return start
            start = row.id
        if len(page) < PAGE_ROWS:
            break
        span = Span(span.agent, span.first, page[-1].id - 1)
    return start


def _ended_turns(settled: Memory, rows: Iterable[StoredEvent], piece: int) -> list[EndedTurn]:
    """Return rows in order as turns. Rows before the first whole turn, and an open turn, are left out."""
    turns: list[EndedTurn] = []
    turn: list[StoredEvent] = []
    for row in rows:
        if isinstance(row.event, TurnEnded):
            if turn and isinstance(turn[0].event, UserMessage):
                removed = settled.has_removed(turn[0].id, turn[0].id)
                unsent = tuple(each.id for each in turn if settled.quotes_forgotten(each))
                ended = EndedTurn((*turn, row), piece, removed, unsent)
                turns += (ended,) if ended.sent_rows else ()
            turn = []
        elif not turn or not settled.has_removed(row.id, row.id):
            turn.append(row)
    return turns


def _refuse(reach: Reach, wanted: EventRange) -> Reading[None]:
    """Raise Rejected with the reason why no event is selected."""
    if wanted.first != wanted.last:
        raise Rejected(f"Nothing in the context is between {wanted.first} and {wanted.last}.", IDS_REMEDY)
    events = cast("tuple[StoredEvent, ...]", (yield AskEvents((wanted.first,))))
    if not events:
        raise Rejected(f"There is no event {wanted.first}.", IDS_REMEDY)
    (stored,) = events
    if stored.agent not in {piece.agent for piece in reach.pieces}:
        raise Rejected(f"Event {stored.id} belongs to another agent.", IDS_REMEDY)
    if isinstance(stored.event, Summarized):
        raise Rejected(f"Event {stored.id} is a summary.", f"/undo {stored.id} undoes it, /summary shows it.")
    if not isinstance(stored.event, SENT_EVENTS):
        kind = codec.KIND_OF.get(type(stored.event), "unknown")
        raise Rejected(f"Event {stored.id} is not a message ({kind}): it is never sent to the model.", IDS_REMEDY)
    if stored.id <= reach.settled.summarized_upto:
        raise Rejected(f"Event {stored.id} is not in the context: a summary stands for it.", "/undo may bring it back.")
    raise Rejected(f"Event {stored.id} is not in the context: it was cleared, rewound or forgotten before.", IDS_REMEDY)


IDS_REMEDY = "/search shows the ids of messages."
