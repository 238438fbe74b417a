"""Compute the events of a lineage that a stored event excludes from memory.

    clear     every event before it
    rewind    every event between the one it goes back to and itself
    filter    its ranges, both ends included; the talk that planned it, up to itself; its single ids
    summary   every event up to `upto`, that one included; none if it tells of a cleared epoch
    undo      the recalled excerpts that it names; else no event: it puts the event that it names out of force, see
              `lineage.undone_ids`

A rewind to before a summary also takes that summary out of force. Recalled excerpts of an event that a filter excludes
are excluded with it, wherever they stand: see `Memory.quotes_forgotten`.
"""

from collections.abc import Iterable
from typing import TypeAlias

from ikigai.core.events.events import Cleared, Event, Filtered, Rewound, Summarized, Undone
from ikigai.core.events.record import Record

RECALL = "recall"
"""The kind of recalled excerpts, which an undo names."""

Interval: TypeAlias = tuple[int, int]
"""Ids between two ends, neither of which belongs to it."""


class ExcludedInterval(Record, frozen=True):
    """Events that are out of memory as long as the event that excludes them is in force."""

    intervals: tuple[Interval, ...] = ()
    ids: tuple[int, ...] = ()


def excluded_by(id: int, event: Event) -> ExcludedInterval:
    """Return the events of its lineage that the event stored as `id` excludes."""
    match event:
        case Cleared():
            return ExcludedInterval((_up_to(id - 1),))
        case Rewound(to):
            return ExcludedInterval(((to, id),))
        case Filtered(ranges=ranges, ids=ids, planning=planning):
            talk = ((planning - 1, id),) if planning else ()
            return ExcludedInterval((*((first - 1, end + 1) for first, end in ranges), *talk), ids)
        case Summarized(upto=upto, closed=closed):
            return ExcludedInterval() if closed else ExcludedInterval((_up_to(upto),))
        case Undone(of, what) if what == RECALL:
            return ExcludedInterval(ids=(of,))
        case _:
            return ExcludedInterval()


def _up_to(last: int) -> Interval:
    """Return the interval of all events until `last`, that one included."""
    return (-1, last + 1)


def within(id: int, intervals: Iterable[Interval]) -> bool:
    """Return True if one of the intervals has this event."""
    return any(low < id < high for low, high in intervals)
