"""Keep the newest events of a log as this program knows them, for a server that turns out to lack them."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ikigai.core.events.events import StoredEvent
from ikigai.core.relocation.unsaved import Unsaved

MAX_TAIL_SECONDS = 900.0
"""Seconds that an event is kept for. An asynchronous standby lags behind by less, or it is not promoted."""
MAX_TAIL_BYTES = 8 << 20
"""Bytes of the events that are kept, as they are stored. Those in the window are in memory anyway."""


class _Stored(NamedTuple):
    """Events that were stored together at the time `at`, in seconds of a clock that never goes back."""

    rows: Sequence[StoredEvent]
    ids: Sequence[str]
    size: int
    at: float


class KnownTail:
    """The newest events of one log. `behind` is the `event_id` of the event before them, None at the beginning."""

    def __init__(self, behind: str | None) -> None:
        self.behind = behind
        self._stored: deque[_Stored] = deque()
        self._size = 0

    def add(self, rows: Sequence[StoredEvent], ids: Sequence[str], size: int, now: float) -> None:
        """Add events of `size` bytes that were stored `now`, and forget events that are too old or too many.

        What was added last stays, however large it is.
        """
        if not rows:
            return
        self._stored.append(_Stored(rows, ids, size, now))
        self._size += size
        while len(self._stored) > 1 and (self._size > MAX_TAIL_BYTES or self._stored[0].at < now - MAX_TAIL_SECONDS):
            oldest = self._stored.popleft()
            self._size -= oldest.size
            self.behind = oldest.ids[-1]

    @property
    def newest(self) -> int:
        """The id of the newest event, or 0."""
        return self._stored[-1].rows[-1].id if self._stored else 0

    def unsaved(self, agent: str, name: str) -> Unsaved | None:
        """Return the events of the agent as unsaved ones, or None."""
        if not self._stored:
            return None
        rows = [row for stored in self._stored for row in stored.rows]
        return Unsaved(
            agent,
            name,
            self.behind,
            tuple(id for stored in self._stored for id in stored.ids),
            tuple(row.event for row in rows),
            numbers=tuple(row.id for row in rows),
            times=tuple(row.at for row in rows),
        )
