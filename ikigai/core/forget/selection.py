"""Which turns and events of memory people mean by ids: asked of the log as loading asks, and closed over pairs.

A reply belongs together with its thinking, its calls and their results; where nothing of a turn would stay, the whole
turn is meant. Only what is in memory can be named, whether the window holds it or not.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from ikigai.core import codec, tokens
from ikigai.core.errors import Refused
from ikigai.core.events import AssistantMessage, StoredEvent, Summarised, ToolStarted, TurnEnded, UserMessage
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.state.fold import REMOVED, replay
from ikigai.core.state.inputs import Wanted
from ikigai.core.state.lineage import Span
from ikigai.core.state.loading import PAGE, AskEvents, AskPage, Reach, Reading, reaching
from ikigai.core.state.memory import Memory, replace
from ikigai.core.state.run_config import Run

SAID = (UserMessage, AssistantMessage, ToolCall, ToolResult)
"""Events that are sent to a model."""
MOST_ROWS = 50_000
"""Events that are looked into for one selection: some seconds, and some hundred megabytes."""


class Ended(Record, frozen=True):
    """An ended turn as the log has it: its rows of TURN_KINDS without what filters took; `piece` is its live piece.

    The user's message that it begins with stays in `rows`: where a filter took it, it is `removed`, and not said.
    """

    rows: tuple[StoredEvent, ...]
    piece: int
    removed: bool = False

    @property
    def first(self) -> int:
        return self.rows[0].id

    @property
    def end(self) -> int:
        return self.rows[-1].id

    @property
    def said(self) -> tuple[StoredEvent, ...]:
        return tuple(row for row in self.rows[self.removed :] if isinstance(row.event, SAID))

    @property
    def words(self) -> str:
        """The user's first words, in one line; of a talk that plans a filter, the command."""
        if self.removed or not isinstance(asked := self.rows[0].event, UserMessage):
            return REMOVED
        text = f"/{asked.planning} {asked.text}" if asked.planning else asked.text
        return " ".join(text.split())[:80]


class Chosen(Record, frozen=True):
    """What of one turn is selected: single events `ids`, or with none of them the whole turn."""

    turn: Ended
    ids: tuple[int, ...]
    tokens: int

    @property
    def messages(self) -> int:
        return len(self.ids) or len(self.turn.said)


class Selection(Record, frozen=True):
    """Turns and events to be filtered, oldest first; `beyond` are whole ranges that nobody looked into."""

    chosen: tuple[Chosen, ...]
    beyond: tuple[tuple[int, int], ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Whole turns; those that follow one another in one piece of the log are one range."""
        found: list[tuple[int, int]] = list(self.beyond)
        joined: Ended | None = None
        for each in self.chosen:
            if each.ids:
                joined = None
                continue
            if joined and joined.piece == each.turn.piece and each.turn.rows[0].seq == joined.rows[-1].seq + 1:
                found[-1] = (found[-1][0], each.turn.end)
            else:
                found.append((each.turn.first, each.turn.end))
            joined = each.turn
        return tuple(found)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(id for each in self.chosen for id in each.ids)

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.chosen)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.chosen)


def selecting(run: Run, agent: str, wanted: Sequence[Wanted]) -> Reading[Selection]:
    """What these mean. Raises Refused for a single id that is not in memory, and where nothing is meant."""
    reach = yield from reaching(run, agent)
    turns: dict[int, Ended] = {}
    ids: set[int] = set()
    for each in wanted:
        if each.back:
            found = yield from _newest(reach, each.back)
            ids.update(row.id for turn in found for row in turn.said)
        else:
            found = yield from _within(reach, each.first, each.last)
            named = {row.id for turn in found for row in turn.said if each.first <= row.id <= each.last}
            if not named:
                yield from _refuse(reach, each)
            ids |= named
        turns.update((turn.first, turn) for turn in found)
    if not ids:
        raise Refused("There is nothing in the context yet.", "/search finds everything that was ever said.")
    return selection(reach.settled, (turns[first] for first in sorted(turns)), ids)


def in_window(run: Run, agent: str, since: int, apart: int = 0) -> Reading[tuple[Memory, tuple[Ended, ...]]]:
    """The ended turns in memory from the event `since` on, and memory without its turns to measure them in.

    `apart` is the first event of a turn that is sent, too, and stands before them.
    """
    reach = yield from reaching(run, agent)
    first = (yield from _within(reach, apart, apart)) if apart else ()
    return reach.settled, (*first, *(yield from _within(reach, since, 2**63 - 1)))


def before(run: Run, agent: str, id: int) -> Reading[tuple[tuple[int, int], ...]]:
    """What is in memory before the event `id`, as ranges that need not be looked into."""
    reach = yield from reaching(run, agent)
    found: list[tuple[int, int]] = []
    for piece in reach.pieces:
        last = id - 1 if piece.last is None else min(piece.last, id - 1)
        span = Span(piece.agent, piece.first, last)
        oldest = cast("tuple[StoredEvent, ...]", (yield AskPage(span, limit=1, ascending=True)))
        newest = cast("tuple[StoredEvent, ...]", (yield AskPage(span, limit=1)))
        found += ((first.id, last.id) for first, last in zip(oldest, newest, strict=True))
    return tuple(found)


def turn_of(run: Run, agent: str, id: int) -> Reading[int]:
    """The turn_end of the turn in memory that the event belongs to. Raises Refused."""
    reach = yield from reaching(run, agent)
    found = yield from _within(replace(reach, pieces=reach.deep), id, id)  # going back brings condensed turns back
    if not found:
        yield from _refuse(reach, Wanted(id, id))
    return found[0].end


def selection(settled: Memory, turns: Iterable[Ended], ids: Iterable[int]) -> Selection:
    """These events, closed over pairs, and how much they take. `settled` is memory without its turns."""
    wanted = set(ids)
    chosen = (_chosen(settled, turn, wanted) for turn in turns)
    return Selection(tuple(each for each in chosen if each))


def _chosen(settled: Memory, turn: Ended, wanted: set[int]) -> Chosen | None:
    closed = _closed(turn, wanted)
    size = _size(settled, turn)
    if not closed:
        return None
    if len(closed) == len(turn.said):
        return Chosen(turn, (), tokens.count(settled.provider, settled.model, size))
    thinned = replace(settled, removed=tuple(sorted({*settled.removed, *closed})))
    left = max(0, size - _size(thinned, turn))
    return Chosen(turn, closed, tokens.count(settled.provider, settled.model, left))


def _size(settled: Memory, turn: Ended) -> int:
    return replay(settled, turn.rows).window.size


def _closed(turn: Ended, wanted: set[int]) -> tuple[int, ...]:
    """The wanted events of a turn with what belongs to them: a reply with its calls and results."""
    together: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    replying = False
    for row in turn.rows:
        match row.event:
            case UserMessage():
                together.append([row.id])
                replying = False
            case AssistantMessage() | ToolCall():
                if isinstance(row.event, AssistantMessage) or not replying:
                    together.append([])
                together[-1].append(row.id)
                replying = True
                if isinstance(row.event, ToolCall):
                    calls[row.event.id] = together[-1]
            case ToolResult(call_id) if call_id in calls:
                calls[call_id].append(row.id)
                replying = False
            case _:
                replying = replying and not isinstance(row.event, (ToolResult, ToolStarted))
    return tuple(sorted(id for group in together if wanted.intersection(group) for id in group))


def _newest(reach: Reach, count: int) -> Reading[list[Ended]]:
    """The newest turns of memory, oldest first."""
    found: list[Ended] = []
    for number in range(len(reach.pieces) - 1, -1, -1):
        rows = list[StoredEvent]()  # newest first
        span = reach.pieces[number]
        while len(found) + _complete(rows) < count:
            page = cast("tuple[StoredEvent, ...]", (yield AskPage(span)))
            rows += page
            if len(page) < PAGE:
                break
            span = Span(span.agent, span.first, page[-1].id - 1)
        found = [*_ended(reach.settled, reversed(rows), number), *found]
    return found[-count:]


def _complete(rows: list[StoredEvent]) -> int:
    """How many turns, met from the newest row on, are surely there from their first row."""
    return max(0, sum(isinstance(row.event, TurnEnded) for row in rows) - 1)


def _within(reach: Reach, first: int, last: int) -> Reading[tuple[Ended, ...]]:
    """The ended turns of memory that lie between these events, or about them, whole."""
    found: list[Ended] = []
    for number, piece in enumerate(reach.pieces):
        if piece.first > last or (piece.last is not None and piece.last < first):
            continue
        start = yield from _start(piece, first)
        rows = list[StoredEvent]()
        span = Span(piece.agent, start, piece.last)
        while True:
            page = cast("tuple[StoredEvent, ...]", (yield AskPage(span, ascending=True)))
            rows += page
            if len(rows) > MOST_ROWS:
                raise Refused(f"That is more than {MOST_ROWS:,} events.", "Name fewer, or use /clear or /rewind.")
            if len(page) < PAGE or any(row.id > last and isinstance(row.event, TurnEnded) for row in page):
                break
            span = Span(span.agent, page[-1].id + 1, span.last)
        turns = _ended(reach.settled, rows, number)
        found += (turn for turn in turns if turn.first <= last and turn.end >= first)
    return tuple(found)


def _start(piece: Span, id: int) -> Reading[int]:
    """Where the turn begins that the event belongs to."""
    span = Span(piece.agent, piece.first, id - 1)
    start = max(id, piece.first)
    while span.last and span.last >= span.first:
        page = cast("tuple[StoredEvent, ...]", (yield AskPage(span)))
        for row in page:
            if isinstance(row.event, TurnEnded):
                return start
            start = row.id
        if len(page) < PAGE:
            break
        span = Span(span.agent, span.first, page[-1].id - 1)
    return start


def _ended(settled: Memory, rows: Iterable[StoredEvent], piece: int) -> list[Ended]:
    """Rows in order as turns; what comes before the first whole one, and an open turn, is left out."""
    found: list[Ended] = []
    turn: list[StoredEvent] = []
    for row in rows:
        if isinstance(row.event, TurnEnded):
            if turn and isinstance(turn[0].event, UserMessage):
                ended = Ended((*turn, row), piece, removed=settled.thinned(turn[0].id, turn[0].id))
                found += (ended,) if ended.said else ()
            turn = []
        elif not turn or not settled.thinned(row.id, row.id):
            turn.append(row)
    return found


def _refuse(reach: Reach, wanted: Wanted) -> Reading[None]:
    """Say why nothing is meant."""
    if wanted.first != wanted.last:
        raise Refused(f"Nothing in the context lies between {wanted.first} and {wanted.last}.", IDS)
    events = cast("tuple[StoredEvent, ...]", (yield AskEvents((wanted.first,))))
    if not events:
        raise Refused(f"There is no event {wanted.first}.", IDS)
    (stored,) = events
    if stored.agent not in {piece.agent for piece in reach.pieces}:
        raise Refused(f"Event {stored.id} belongs to another agent.", IDS)
    if isinstance(stored.event, Summarised):
        raise Refused(f"Event {stored.id} is a summary.", f"/undo {stored.id} takes it back, /summary shows it.")
    if not isinstance(stored.event, SAID):
        kind = codec.KIND.get(type(stored.event), "unknown")
        raise Refused(f"Event {stored.id} is no message ({kind}): it is never sent to the model.", IDS)
    if stored.id <= reach.settled.covered:
        raise Refused(f"Event {stored.id} is not in the context: a summary stands for it.", "/undo may bring it back.")
    raise Refused(f"Event {stored.id} is not in the context: it was cleared, rewound or forgotten before.", IDS)


IDS = "/search shows the ids of messages."
