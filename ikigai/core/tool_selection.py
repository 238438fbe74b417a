"""This module defines the selection of tool sets that are switched off, and the text that the setting `tools_off`
stores of it.
"""

from collections.abc import Iterable

from ikigai.core.events import Choices, Value
from ikigai.core.record import Record

EVERY_SET = "*"


class ToolSelection(Record, frozen=True):
    """A set of tool sets that are switched off, by name; EVERY_SET stands for all that there are."""

    off: tuple[str, ...] = ()

    @classmethod
    def parse(cls, stored: Value) -> "ToolSelection":
        """Return the selection that a value of the setting stores: names behind commas, or *."""
        return cls(tuple(name for name in str(stored or "").split(",") if name))

    @classmethod
    def of(cls, settings: Choices) -> "ToolSelection":
        """Return the selection in force with these settings."""
        return cls.parse(settings.get("tools_off"))

    @property
    def text(self) -> str:
        """The value of the setting that stores it."""
        return EVERY_SET if EVERY_SET in self.off else ",".join(self.off)

    @property
    def shown(self) -> str:
        """The sets as people read them."""
        return "all" if EVERY_SET in self.off else self.text or "none"

    def is_off(self, name: str) -> bool:
        """Return True if the tools of this set are switched off."""
        return name in self.off or EVERY_SET in self.off

    def named(self, known: Iterable[str]) -> frozenset[str]:
        """Return the names of the sets that are off; those of `known` where all are."""
        return frozenset(known if EVERY_SET in self.off else self.off)

    def covers(self, other: "ToolSelection") -> bool:
        """Return True if every set that the other one switches off is off here."""
        return all(map(self.is_off, other.off))

    def tightened(self, other: "ToolSelection") -> "ToolSelection":
        """Return the selection of all sets that either one switches off; `self` where the other one adds nothing."""
        return self if self.covers(other) else ToolSelection(tuple(sorted({*self.off, *other.off})))


NO_TOOLS = ToolSelection((EVERY_SET,))
