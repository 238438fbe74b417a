"""Print a sentence in place of a change of settings that a key or command has announced."""

from __future__ import annotations

from ikigai.core.events import Choices, SettingsChanged, StoredEvent


class AnnouncedChange:
    """The change of settings that was announced last, and the event that it became."""

    def __init__(self) -> None:
        self._values: Choices = {}
        self._text, self._event = "", 0

    def expect(self, values: Choices, text: str) -> None:
        """Tell the next change to these values as `text`, "" for not at all."""
        self._values, self._text = values, text

    def take(self, event: StoredEvent) -> str:
        """Return the text to print for a stored event; "" for none."""
        if not self._values or not isinstance(event.event, SettingsChanged) or event.event.values != self._values:
            return ""
        self._event, self._values = event.id, {}
        return self._text

    def replaces(self, id: int) -> bool:
        """Return True if the event is told by the text alone."""
        return id == self._event
