"""Selection of the tool sets that are switched on and off, and its text in the setting `tools_off`: the names of the
sets that are off and, with a +, the sets of CHOSEN_SETS that are on.
"""

from collections.abc import Iterable

from ikigai.core.events.events import Choices, Value
from ikigai.core.events.record import Record
from ikigai.core.tools.vendor_search import VENDOR_SEARCH

EVERY_SET = "*"
EXTERNAL_SET = "external"
"""The tool set of the user's own tools and a project's tools."""
CHOSEN_SETS = (VENDOR_SEARCH,)
"""Tool sets that are off until the user switches them on."""


class ToolSelection(Record, frozen=True):
    """The tool sets that are switched off, by name; EVERY_SET stands for all that there are. `on` has the sets of
    CHOSEN_SETS that are switched on.
    """

    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()

    @classmethod
    def parse(cls, stored: Value) -> "ToolSelection":
        """Return the selection that a value of the setting stores: names behind commas, or *."""
        names = [name for name in str(stored or "").split(",") if name]
        on = tuple(name[1:] for name in names if name[0] == "+")
        return cls(tuple(name for name in names if name[0] != "+"), on)

    @classmethod
    def of(cls, settings: Choices) -> "ToolSelection":
        """Return the selection in force with these settings."""
        return cls.parse(settings.get("tools_off"))

    @property
    def text(self) -> str:
        """The value of the setting that stores it."""
        return EVERY_SET if EVERY_SET in self.off else ",".join((*self.off, *(f"+{name}" for name in self.on)))

    @property
    def shown(self) -> str:
        """The sets as people read them."""
        return "all" if EVERY_SET in self.off else ",".join(self.off) or "none"

    @property
    def sets_off(self) -> frozenset[str]:
        """The names of the sets that are off, EVERY_SET among them, and the sets of CHOSEN_SETS that are not on."""
        return frozenset((*self.off, *(name for name in CHOSEN_SETS if name not in self.on)))

    def is_off(self, name: str) -> bool:
        """Return True if the tools of this set are switched off."""
        return not self.sets_off.isdisjoint((name, EVERY_SET))

    def named(self, known: Iterable[str]) -> frozenset[str]:
        """Return the names of the sets that are off, or `known` if all are."""
        return frozenset(known if EVERY_SET in self.off else self.off)

    def switched(self, name: str, on: bool, known: Iterable[str]) -> "ToolSelection":
        """Return the selection with the set `name`, one of `known`, switched on or off."""
        off, chosen = self.named(known) - {name}, set(self.on) - {name}
        if name in CHOSEN_SETS:
            chosen |= {name} if on else set()
        elif not on:
            off |= {name}
        return ToolSelection(tuple(sorted(off - set(CHOSEN_SETS))), tuple(sorted(chosen)))

    def is_like(self, other: "ToolSelection") -> bool:
        """Return True if both name the same sets, in whatever order."""
        return set(self.off) == set(other.off) and set(self.on) == set(other.on)

    def covers(self, other: "ToolSelection") -> bool:
        """Return True if every set that the other one switches off is off here."""
        return all(map(self.is_off, other.off))

    def tightened(self, other: "ToolSelection") -> "ToolSelection":
        """Return the selection of all sets that either one switches off; `self` where the other one adds nothing."""
        return self if self.covers(other) else ToolSelection(tuple(sorted({*self.off, *other.off})), self.on)


NO_TOOLS = ToolSelection((EVERY_SET,))
