"""Tell of changes of settings that a key or command has announced in its own words."""

from __future__ import annotations

from collections.abc import Callable

from ikigai.core.events import Choices, SettingsChanged, StoredEvent


class AnnouncedChanges:
    """The announced changes that are not stored yet, oldest first, and the event that the last one became."""

    def __init__(self) -> None:
        self._expected: list[tuple[Choices, Callable[[], None] | None]] = []
        self._event = 0

    @property
    def newest(self) -> Choices:
        """The values that are on their way."""
        return self._expected[-1][0] if self._expected else {}

    def expect(self, values: Choices, tell: Callable[[], None] | None) -> None:
        """Call `tell` when the change to these values is stored; None: nothing is told."""
        self._expected.append((values, tell))

    def stored(self, event: StoredEvent) -> None:
        """Tell of the change that `event` is, if it is announced; those before it were refused."""
        if not isinstance(event.event, SettingsChanged):
            return
        for at, (values, tell) in enumerate(self._expected):
            if values == event.event.values:
                del self._expected[: at + 1]
                self._event = event.id
                if tell:
                    tell()
                return

    def replaces(self, id: int) -> bool:
        """Return True if the event has been told so."""
        return id == self._event

    def forget(self) -> None:
        self._expected.clear()
