"""Apply the limits that a trusted project sets: settings become stricter by them, never looser.

The limits hold against an agent's own choices and the configuration. A flag or a variable of this run is the user's
word, given after the project's, and takes precedence.
"""

from ikigai.core.events.events import Choices
from ikigai.core.events.record import Record
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import ToolSelection


class ProjectLimits(Record, frozen=True):
    """The loosest `approval` mode, the tool sets that are off, the largest `budget` in tokens, and spending `caps` by
    their keys in [limits].

    YOLO, no sets and 0 limit nothing. `origins` names, by setting, the place that the limit comes from.
    """

    approval: ApprovalMode = ApprovalMode.YOLO
    tools_off: ToolSelection = ToolSelection()
    budget: int = 0
    origins: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every record its own)
    caps: dict[str, float] = {}  # noqa: RUF012  (msgspec gives every record its own)


def smaller_budget(budget: object, other: int) -> int:
    """Return the smaller one of two budgets in tokens; 0 means no budget, and counts as the larger."""
    own = budget if isinstance(budget, int) else 0
    return min(own or other, other or own)


def apply_limits(settings: Choices, limits: ProjectLimits) -> Choices:
    """Return the settings within these limits."""
    limited = dict(settings)
    approval = ApprovalMode.of(settings)
    if (stricter := approval.stricter(limits.approval)) != approval:
        limited["approval"] = stricter.value
    if limits.budget:
        limited["budget"] = smaller_budget(settings.get("budget"), limits.budget)
    off = ToolSelection.of(settings)
    if not off.covers(limits.tools_off):
        limited["tools_off"] = off.tightened(limits.tools_off).text
    return limited
