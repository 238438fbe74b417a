"""Decide when a context is so full that its oldest part should be condensed.

The question is asked when a turn has ended (`condenser.Condenser`), with the tokens of the next request and of the
turns that have left the window. Condensing starts at 75 per cent (`condense_at_percent`) of the model's context or of
the budget, whichever is smaller, and always where no room for a reply is left. It needs `condense = "auto"`; with
"manual" the user is told instead. /condense starts it at any time, and a clear does with `summarise_on_clear`.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from ikigai.core.events.events import Cleared, Event, TurnEnded
from ikigai.core.events.record import Record

DEFAULT_RESERVE = 8_192
"""Tokens kept free for a reply of unknown length (Roo-Code's figure)."""
MIN_PERCENT, MAX_PERCENT = 5, 100
INHERITED_THRESHOLD = -1
"""The threshold of a profile that leaves it to the others."""
TRIGGERS = (TurnEnded, Cleared)
"""Events from which condensing may follow by itself."""


class CondenseOptions(Record, frozen=True):
    """The user's choices about condensing (`[context] condense…`); `model` "" is the agent's own."""

    mode: str = "off"
    at_percent: int = 75
    to_percent: int = 40
    model: str = ""
    prompt_file: str = ""
    on_clear: bool = False

    @property
    def manual_only(self) -> "CondenseOptions":
        """These options without automatic condensing: a program that ends has no time for it."""
        return msgspec.structs.replace(self, mode="off", on_clear=False)

    def may_follow(self, events: Iterable[Event]) -> bool:
        """Return True if condensing may follow from these events by itself."""
        ends, clears = self.mode != "off", self.on_clear
        return any(
            (ends and isinstance(event, TurnEnded)) or (clears and isinstance(event, Cleared)) for event in events
        )


class CondenseVerdict(StrEnum):
    NOTHING = "nothing"
    CONDENSE = "condense"
    PRUNE = "prune"


class CondenseDecision(Record, frozen=True):
    """The decision; `threshold` is the one in force, in per cent, `warning` a sentence about an unusable one."""

    verdict: CondenseVerdict
    threshold: int
    warning: str = ""


def check_pressure(
    used: int,
    context: int,
    reserve: int | None,
    *,
    threshold: int,
    profile: int = INHERITED_THRESHOLD,
    automatic: bool = True,
    budget: int = 0,
) -> CondenseDecision:
    """Decide about a request of `used` tokens for a model of `context` tokens, of which `reserve` are for the reply.

    The reserve is 8,192 where it is None or 0. Condensing begins at `threshold` per cent of the context or of the
    `budget` (0: none), whichever is smaller. A `profile` has its own threshold, 5 to 100, or -1 for none; any other
    value gets a warning and is left out. Condensing begins as well where the request is above its limit: the context
    less the reserve and a tenth, or the budget. Above that limit, if nothing is condensed by itself, turns have to
    leave.
    """
    warning = ""
    if MIN_PERCENT <= profile <= MAX_PERCENT:
        threshold = profile
    elif profile != INHERITED_THRESHOLD:
        warning = f"A threshold of {profile} % is not valid ({MIN_PERCENT} to {MAX_PERCENT}); {threshold} % is used."
    limit = context - (reserve or DEFAULT_RESERVE) - context // 10
    base = context
    if budget:
        limit, base = min(limit, budget), min(base, budget)
    if automatic and (100 * used >= threshold * base or used > limit):
        return CondenseDecision(CondenseVerdict.CONDENSE, threshold, warning)
    return CondenseDecision(CondenseVerdict.PRUNE if used > limit else CondenseVerdict.NOTHING, threshold, warning)
