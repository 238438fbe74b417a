"""Why an event is not in the context: cleared away, rewound past, forgotten, in a summary, slid out; or is undone."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from ikigai.core.events import Cleared, Filtered, Rewound, StoredEvent, Undone
from ikigai.core.record import Record
from ikigai.core.state.lineage import void
from ikigai.core.state.memory import Memory, Summary

CONTROLS = (Cleared, Rewound, Filtered, Undone)
"""Facts that say so."""


class Why(StrEnum):
    CLEARED = "cleared"
    REWOUND = "rewound"
    SUMMARISED = "summarised"
    FORGOTTEN = "forgotten"
    OUT = "out of the window"
    UNDONE = "undone"


class Outside(Record, frozen=True):
    """`by` is the event that took it away, 0 where the window did. What is UNDONE says nothing any more."""

    why: Why
    by: int = 0


class Reasons:
    """Over the clears, rewinds, filters and undos of a lineage, in any order; those not in force count for nothing."""

    def __init__(self, controls: Iterable[StoredEvent]) -> None:
        known = {stored.id: stored for stored in controls}
        self.controls = tuple(known[id] for id in sorted(known))
        undos = [(stored.id, stored.event.of) for stored in self.controls if isinstance(stored.event, Undone)]
        out = void(undos)
        self._undone = {of: Outside(Why.UNDONE, id) for id, of in undos if id not in out}
        self._cleared = 0
        self._removed: dict[int, int] = {}
        self._gone: list[tuple[int, int, Outside]] = []  # open intervals, oldest event first
        for stored in self.controls:
            if stored.id not in out:
                self._add(stored)

    def _add(self, stored: StoredEvent) -> None:
        match stored.event:
            case Cleared():
                self._cleared = stored.id
            case Rewound(to):
                self._gone.append((to, stored.id, Outside(Why.REWOUND, stored.id)))
            case Filtered(ranges=ranges, ids=ids, planning=planning):
                forgotten = Outside(Why.FORGOTTEN, stored.id)
                self._gone += ((first - 1, end + 1, forgotten) for first, end in ranges)
                if planning:
                    self._gone.append((planning - 1, stored.id, forgotten))
                self._removed |= dict.fromkeys(ids, stored.id)
            case _:
                pass

    def over(self, ids: Sequence[int], memory: Memory) -> dict[int, Outside]:
        """Of these events, ascending, those that are not in the context of `memory`, and why; those that are undone.

        What was forgotten is so whatever else happened to it.
        """
        near = [each for each in self._gone if ids and each[0] < ids[-1] and each[1] > ids[0]]
        found = {id: self._why(id, near, memory.summaries) for id in ids if not memory.remembers(id)}
        return found | {id: self._undone[id] for id in ids if id in self._undone}

    def _why(self, id: int, near: Sequence[tuple[int, int, Outside]], summaries: Sequence[Summary]) -> Outside:
        if by := self._removed.get(id):
            return Outside(Why.FORGOTTEN, by)
        taken = [outside for low, high, outside in near if low < id < high]
        if taken:
            return next((each for each in reversed(taken) if each.why is Why.FORGOTTEN), taken[-1])
        if id < self._cleared:
            return Outside(Why.CLEARED, self._cleared)
        covering = next((summary.id for summary in reversed(summaries) if id <= summary.upto), 0)
        return Outside(Why.SUMMARISED, covering) if covering else Outside(Why.OUT)
