"""Keep the sliding window: the newest whole turns whose request fits under a ceiling.

    window = the longest run of newest whole turns whose request fits; at least the newest turn

The oldest turns leave when a turn has ended and the request is above the ceiling, and then as many more as complete a
step (`fit_window`). They leave at once while an open turn and they are above the model's room. A smaller budget or
another model loads the window anew. `fold` calls it in these cases and no others; no budget, no turn leaves.

"Remove the oldest turn until it fits" gives the same window, whichever way memory came about, because sizes only add:
a run that does not fit today cannot fit once another turn has been added.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import eq
from typing import NamedTuple, overload

from ikigai.core.events.events import Totals
from ikigai.core.events.messages import Message
from ikigai.core.events.record import Record
from ikigai.core.request.build import call_ids


class Turn(Record, frozen=True):
    """One ended turn as a model is sent it."""

    id: int
    """Its first event."""
    end: int
    """Its turn_end."""
    messages: tuple[Message, ...]
    size: int
    """Bytes that it counts for; with some counters the tokens stored with its end decide."""
    before: Totals
    """With `before_previous` and `after` its position in live memory since the last clear (see `TurnEnded`)."""
    before_previous: Totals
    after: Totals
    recalled: int = 0
    """The event of its newest recalled excerpts, or 0."""
    lacks_recalled: bool = False
    """True if those excerpts quote forgotten events, and are left out."""
    plain_size: int = 0
    """Bytes that it has."""


class SentTurns(NamedTuple):
    """The messages of successive turns, and the ids of the calls in them.

    The first `left_messages` and `left_ids` belong to turns that have left.
    """

    messages: tuple[Message, ...]
    call_ids: tuple[str, ...]
    left_messages: int = 0
    left_ids: int = 0

    def push(self, turn: Turn) -> "SentTurns":
        messages, ids = self.trimmed()[:2]
        return SentTurns(messages + turn.messages, (*ids, *call_ids(turn.messages)))

    def without(self, oldest: Turn) -> "SentTurns":
        """Return these without the oldest turn. Nothing is copied: thousands of turns may leave at once."""
        messages, ids = self.left_messages + len(oldest.messages), self.left_ids + len(call_ids(oldest.messages))
        return self._replace(left_messages=messages, left_ids=ids)

    def trimmed(self) -> "SentTurns":
        """Return these without what belongs to turns that have left."""
        if not self.left_messages:
            return self
        return SentTurns(self.messages[self.left_messages :], self.call_ids[self.left_ids :])


class Turns(Sequence[Turn]):
    """An immutable sequence of turns that grows at one end and shrinks at the other in constant time.

    Values share one list, and each sees a slice of it. A push on the value that ends where the list ends extends the
    list in place, which no other value can see. Any other push copies its own slice first.

    Once `sent` was asked for it is kept up: with 1,000 messages that takes a hundredth of the time to collect them.
    """

    __slots__ = ("_sent", "_shared", "_start", "_stop")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self._shared = list(turns)
        self._start, self._stop = 0, len(self._shared)
        self._sent: SentTurns | None = None

    def _slice(self, shared: list[Turn], start: int, stop: int, sent: SentTurns | None) -> "Turns":
        made = Turns.__new__(Turns)
        made._shared, made._start, made._stop, made._sent = shared, start, stop, sent
        return made

    @property
    def sent(self) -> SentTurns:
        """The messages and ids of calls that a request has of these turns."""
        if not self:  # not kept: all memory grows from one empty value, and a replay would keep it up turn by turn
            return SentTurns((), ())
        if self._sent is None:
            messages = tuple(chain.from_iterable([turn.messages for turn in self]))
            self._sent = SentTurns(messages, tuple(call_ids(messages)))
        self._sent = sent = self._sent.trimmed()
        return sent

    def push(self, turn: Turn) -> "Turns":
        sent = self._sent.push(turn) if self._sent else None
        if self._stop != len(self._shared) or self._start > 64 + len(self):
            # Another value was pushed on from here, or most of the list is turns that left: copying pays for itself.
            return self._slice([*self, turn], 0, len(self) + 1, sent)
        self._shared.append(turn)
        return self._slice(self._shared, self._start, self._stop + 1, sent)

    def without_oldest(self) -> "Turns":
        sent = self._sent.without(self[0]) if self._sent else None
        return self._slice(self._shared, self._start + 1, self._stop, sent)

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Turn]:
        return islice(self._shared, self._start, self._stop)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | Sequence[Turn]:
        if isinstance(index, slice):
            return self._shared[self._start : self._stop][index]
        place = index + (self._start if index >= 0 else self._stop)
        if not self._start <= place < self._stop:
            raise IndexError(index)
        return self._shared[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turns) and len(self) == len(other) and all(map(eq, self, other))

    def __repr__(self) -> str:
        return f"Turns({list(self)!r})"


NO_TURNS = Turns()


class MemoryOrigin(Record, frozen=True):
    """The start of live memory, once filters or undos changed the events that the stored totals had counted.

    `first` is the id of the first live turn and `before` the totals stored with it. `second` is the id of the turn
    behind it. Both ids are 0 while there is no such turn.
    """

    first: int = 0
    before: Totals = Totals()
    second: int = 0


class Window(Record, frozen=True):
    """The turns that are sent, their sizes in bytes as in `Turn`, and the totals of live memory.

    `turns` is the run of newest turns. `first` is the first live turn, if it is kept apart from them. `total` is all
    live memory up to the newest turn, `before_newest` all before it; both survive when turns leave. `origin` None means
    that totals count from the first live turn.
    """

    turns: Turns = NO_TURNS
    size: int = 0
    total: Totals = Totals()
    before_newest: Totals = Totals()
    first: Turn | None = None
    origin: MemoryOrigin | None = None
    plain_size: int = 0

    @property
    def older(self) -> Totals:
        """Totals of the live turns that the window leaves out; turns forgotten in between count with them."""
        before = self.turns[0].before if self.turns else self.total
        if self.origin is None:
            return before - self.first.after if self.first else before
        removable = self.origin.second if self.first else self.origin.first  # the oldest turn that can be left out
        if not removable or (self.turns and self.turns[0].id <= removable):
            return Totals()
        older = before - (self.first.after if self.first else self.origin.before)
        # Totals were stored under other filters: they may count 0 although at least one turn is left out.
        return Totals(max(1, older.turns), max(1, older.messages), max(0, older.bytes))

    def push(self, turn: Turn) -> "Window":
        origin = self.origin
        if origin and not origin.first:
            origin = MemoryOrigin(turn.id, turn.before)
        elif origin and not origin.second and turn.id > origin.first:
            origin = MemoryOrigin(origin.first, origin.before, turn.id)
        size, plain = self.size + turn.size, self.plain_size + turn.plain_size
        return Window(self.turns.push(turn), size, turn.after, turn.before, self.first, origin, plain)

    def without_oldest(self, keep_first: bool = False) -> "Window":
        """Return the window without its oldest turn. With `keep_first` the first live turn is kept apart."""
        oldest = self.turns[0]
        is_first = oldest.id == self.origin.first if self.origin else not oldest.before.turns
        first = oldest if keep_first and is_first else self.first
        size, plain = self.size, self.plain_size
        if first is not oldest:
            size, plain = size - oldest.size, plain - oldest.plain_size
        return Window(self.turns.without_oldest(), size, self.total, self.before_newest, first, self.origin, plain)


def fit_window(
    window: Window,
    allowed: int,
    notice_size: Callable[[int], int],
    min_turns: int,
    step: int = 0,
    keep_first: bool = False,
) -> Window:
    """Drop the oldest turns until turns and notice together take `allowed` bytes at most; `min_turns` turns stay.

    `notice_size` gives the bytes of the notice for a number of older messages, 0 for none. Where turns had to leave,
    `step` in bytes cuts further, to the first turn that opens a step of live memory. So the cutoff stands still for
    many turns, and the caches of providers hold. With `keep_first` the first live turn stays, whatever its size.
    """
    while len(window.turns) > min_turns and window.size + notice_size(window.older.messages) > allowed:
        window = window.without_oldest(keep_first)
    if step and window.older.turns:
        opening = (n for n, turn in enumerate(window.turns) if opens_step(turn, step))
        for _ in range(next(opening, 0)):
            window = window.without_oldest(keep_first)
    return window


def opens_step(turn: Turn, step: int) -> bool:
    """Return True if live memory before this turn lies in another step than before the preceding turn."""
    return turn.before.bytes // step != turn.before_previous.bytes // step


def overflowing_window(window: Window, allowed: int) -> Window:
    """With the window off, keep the shortest run of newest turns that takes more than `allowed` bytes, or all turns.

    No turn leaves silently. At most one turn beyond the sendable size is held, because input is refused there.
    """
    while len(window.turns) > 1 and window.size - window.turns[0].size > allowed:
        window = window.without_oldest()
    return window
