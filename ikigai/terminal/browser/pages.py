"""Hold a stretch of a history for the browser: it grows at one end and is dropped at the other."""

from collections.abc import Sequence

from ikigai.core.events.events import StoredEvent
from ikigai.core.views import transcript

PAGE_EVENTS = 200
"""Events read at a time."""
MAX_HELD_EVENTS = 3_000
"""Events held: more than a terminal of 300 rows shows, with a margin around it; most events are not shown at all."""
MAX_HELD_CHARACTERS = 8_000_000
"""Characters held, whatever the number of events; the screen and the newest page are held in any case."""


class EventPages:
    """Events with ascending ids. `first` and `last` say that nothing lies before them, or behind them."""

    def __init__(self) -> None:
        self.events: list[StoredEvent] = []
        self.first = self.last = False
        self._weights: list[int] = []

    def set(self, events: Sequence[StoredEvent], first: bool, last: bool) -> None:
        """Replace the stretch."""
        self.events, self._weights = list(events), list(map(_weight, events))
        self.first, self.last = first, last

    def add_before(self, events: Sequence[StoredEvent], seen: int) -> None:
        """Add the page before the held events; an empty one means that these are the first. Keep the events up to
        `seen`.
        """
        self.first = not events
        self.events[:0], self._weights[:0] = events, map(_weight, events)
        needed = sum(event.id <= seen for event in self.events)
        keep = max(_fitting(self._weights, len(events)), needed)
        if keep < len(self.events):
            del self.events[keep:], self._weights[keep:]
            self.last = False

    def add_after(self, events: Sequence[StoredEvent], seen: int) -> None:
        """Add the page after the held events; an empty one means that these are the last. Keep those from `seen` on."""
        known = self.events[-1].id if self.events else 0
        new = [event for event in events if event.id > known]
        self.last = not new
        self.events += new
        self._weights += map(_weight, new)
        needed = sum(event.id >= seen for event in self.events)
        keep = max(_fitting(self._weights[::-1], len(new)), needed)
        if keep < len(self.events):
            del self.events[:-keep], self._weights[:-keep]
            self.first = False


def _fitting(weights: Sequence[int], new: int) -> int:
    """Return how many events may stay, counted from the end where `new` ones were added."""
    held = 0
    for count, weight in enumerate(weights):
        held += weight
        if count >= MAX_HELD_EVENTS or (held > MAX_HELD_CHARACTERS and count >= new):
            return count
    return len(weights)


def _weight(event: StoredEvent) -> int:
    """Return the number of characters that are shown of the event."""
    return sum(len(each.text) + sum(len(t.text) for t in each.thoughts) for each in transcript.event_blocks(event))
