"""What a project that the user trusts bounds of the settings: they become stricter by it, never looser.

The bounds hold against an agent's own choices and the configuration; what a flag or a variable says for this run is the
user's word, given after the project's, and goes before it.
"""

from ikigai.core.events import Choices
from ikigai.core.record import Record

MODES = ("read-only", "ask", "edits", "auto", "yolo")
"""Approval modes from the strictest on."""
ALL = "*"
"""For all sets of tools."""


class Bounds(Record, frozen=True):
    """The loosest `approval` mode, sets of tools that are off (`ALL` for every one), the largest `budget` in tokens.

    "", () and 0 bound nothing. `origins` names by setting the place that says so.
    """

    approval: str = ""
    tools_off: tuple[str, ...] = ()
    budget: int = 0
    origins: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every record its own)


def stricter(mode: str, other: str) -> str:
    """The one of two approval modes that lets less run; one that is none asks."""
    return min(mode, other, key=lambda each: MODES.index(each if each in MODES else "ask"))


def smaller(budget: object, other: int) -> int:
    """The smaller one of two budgets in tokens; 0, which is none at all, is the larger."""
    own = budget if isinstance(budget, int) else 0
    return min(own or other, other or own)


def bounded(settings: Choices, bounds: Bounds) -> Choices:
    """The settings as these bounds leave them."""
    found = dict(settings)
    approval, budget = str(settings.get("approval") or "ask"), settings.get("budget")
    if bounds.approval and stricter(approval, bounds.approval) != approval:
        found["approval"] = bounds.approval
    if bounds.budget:
        found["budget"] = smaller(budget, bounds.budget)
    off = set(filter(None, str(settings.get("tools_off") or "").split(",")))
    if not off >= set(bounds.tools_off):
        off |= set(bounds.tools_off)
        found["tools_off"] = ALL if ALL in off else ",".join(sorted(off))
    return found
