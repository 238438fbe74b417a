"""Tell why an event is not in the context: cleared, rewound, forgotten, summarized, out of the window or undone."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from ikigai.core.events.events import Cleared, Filtered, Rewound, StoredEvent, TurnsRecalled, Undone
from ikigai.core.events.record import Record
from ikigai.core.state.intervals import Interval, excluded_by, within
from ikigai.core.state.lineage import undone_ids
from ikigai.core.state.memory import Memory, Summary


class ExclusionReason(StrEnum):
    CLEARED = "cleared"
    REWOUND = "rewound"
    SUMMARIZED = "summarised"
    FORGOTTEN = "forgotten"
    OUT = "out of the window"
    UNDONE = "undone"


WHYS: dict[type, ExclusionReason] = {
    Filtered: ExclusionReason.FORGOTTEN,
    Rewound: ExclusionReason.REWOUND,
    Cleared: ExclusionReason.CLEARED,
}
"""The reason that each kind of event gives; where several apply, the first of these is shown."""
CONTROL_EVENTS = (*WHYS, Undone)
"""Kinds of events that `Exclusions` are made of."""


class Exclusion(Record, frozen=True):
    """The reason why an event is not in the context. `by` is the event that took it away, 0 where the window did. An
    UNDONE event has no effect any more.
    """

    reason: ExclusionReason
    by: int = 0


def named_exclusion(stored: StoredEvent, memory: Memory) -> ExclusionReason | None:
    """Return FORGOTTEN or REWOUND if the user took the event out of the context so, as far as memory alone tells.

    For the other reasons the context rule stands below the event.
    """
    id = stored.id
    if within(id, memory.forgotten_intervals) or memory.has_removed(id, id) or memory.quotes_forgotten(stored):
        return ExclusionReason.FORGOTTEN
    return ExclusionReason.REWOUND if within(id, memory.excluded_intervals) else None


class Exclusions:
    """The exclusions by the clears, rewinds, filters and undos of a lineage, in any order; events out of force do not
    count.
    """

    def __init__(self, controls: Iterable[StoredEvent]) -> None:
        known = {stored.id: stored for stored in controls}
        self.controls = tuple(known[id] for id in sorted(known))
        undos = [(stored.id, stored.event.of) for stored in self.controls if isinstance(stored.event, Undone)]
        out = undone_ids(undos)
        self._undone = {of: Exclusion(ExclusionReason.UNDONE, id) for id, of in undos if id not in out}
        self._removed: dict[int, int] = {}
        self._gone: list[tuple[Interval, Exclusion]] = []  # by WHYS, then the newest event first
        inforce = [stored for stored in reversed(self.controls) if stored.id not in out]
        for kind, why in WHYS.items():
            for stored in (each for each in inforce if isinstance(each.event, kind)):
                excluded = excluded_by(stored.id, stored.event)
                self._gone += ((interval, Exclusion(why, stored.id)) for interval in excluded.intervals)
                for id in excluded.ids:
                    self._removed.setdefault(id, stored.id)
                if why is ExclusionReason.CLEARED:
                    break  # the newest covers those before it

    def find(self, events: Sequence[StoredEvent], memory: Memory) -> dict[int, Exclusion]:
        """Return the exclusions of these ascending events, as far as they are not in the context of `memory`, or are
        undone.

        FORGOTTEN goes before every other reason. Recalled excerpts of a forgotten event have its reason.
        """
        ids = [stored.id for stored in events]
        near = [(gone, why) for gone, why in self._gone if ids and gone[0] < ids[-1] and gone[1] > ids[0]]
        found = {id: self._why(id, near, memory.summaries) for id in ids if not memory.has_in_context(id)}
        for stored in events:
            if isinstance(stored.event, TurnsRecalled) and memory.quotes_forgotten(stored):
                found[stored.id] = self._forgotten_first(found.get(stored.id), stored.event.ids)
        return found | {id: self._undone[id] for id in ids if id in self._undone}

    def _forgotten_first(self, other: Exclusion | None, quoted: Sequence[int]) -> Exclusion:
        """Return the exclusion of recalled excerpts by the filter that excludes one of the events they quote."""
        gone = [(gone, why) for gone, why in self._gone if why.reason is ExclusionReason.FORGOTTEN]
        for id in quoted:
            if by := self._removed.get(id):
                return Exclusion(ExclusionReason.FORGOTTEN, by)
            if why := next((why for interval, why in gone if within(id, (interval,))), None):
                return why
        return other or Exclusion(ExclusionReason.FORGOTTEN)

    def _why(self, id: int, near: Sequence[tuple[Interval, Exclusion]], summaries: Sequence[Summary]) -> Exclusion:
        if by := self._removed.get(id):
            return Exclusion(ExclusionReason.FORGOTTEN, by)
        if outside := next((outside for interval, outside in near if within(id, (interval,))), None):
            return outside
        covering = next((each.id for each in reversed(summaries) if within(id, each.intervals)), 0)
        return Exclusion(ExclusionReason.SUMMARIZED, covering) if covering else Exclusion(ExclusionReason.OUT)
