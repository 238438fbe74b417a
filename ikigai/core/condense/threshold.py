"""Whether a context is so full that its oldest part should be condensed, or has to leave: one pure decision."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from ikigai.core.events import Cleared, Event, TurnEnded
from ikigai.core.record import Record

DEFAULT_RESERVE = 8_192
"""Tokens kept free for the reply where nobody knows how long it may be (Roo-Code's figure)."""
LEAST_PERCENT, MOST_PERCENT = 5, 100
INHERIT = -1
"""The threshold of a profile that leaves it to the others."""


class Options(Record, frozen=True):
    """What the user has chosen of condensing (`[context] condense…`); `model` "" is the agent's own."""

    mode: str = "off"
    at_percent: int = 75
    to_percent: int = 40
    model: str = ""
    prompt_file: str = ""
    on_clear: bool = False

    @property
    def asked(self) -> "Options":
        """The same, where nothing is condensed that nobody asks for: a program that ends has no time for it."""
        return msgspec.structs.replace(self, mode="off", on_clear=False)

    def concerns(self, facts: Iterable[Event]) -> bool:
        """Whether anything may follow from these facts without being asked for."""
        ends, clears = self.mode != "off", self.on_clear
        return any((ends and isinstance(fact, TurnEnded)) or (clears and isinstance(fact, Cleared)) for fact in facts)


class Verdict(StrEnum):
    NOTHING = "nothing"
    CONDENSE = "condense"
    PRUNE = "prune"


class Decision(Record, frozen=True):
    """What is to be done; `threshold` is the one that held, in per cent, `warning` a sentence about one that cannot."""

    verdict: Verdict
    threshold: int
    warning: str = ""


def pressed(
    used: int,
    context: int,
    reserve: int | None,
    *,
    threshold: int,
    profile: int = INHERIT,
    automatic: bool = True,
    budget: int = 0,
) -> Decision:
    """What a request of `used` tokens means for a model of `context` tokens, of which `reserve` are for the reply.

    The reserve is 8,192 where it is None or 0. Condensing begins at `threshold` per cent of the context or of the
    `budget` (0: none), whichever is smaller; a `profile` has its own, 5 to 100, or -1 for none, and anything else is
    warned of and left out. It begins as well where the request is above what it may be: the context less the reserve
    and a tenth, or the budget. There, if nothing is condensed by itself, turns have to leave.
    """
    warning = ""
    if LEAST_PERCENT <= profile <= MOST_PERCENT:
        threshold = profile
    elif profile != INHERIT:
        warning = f"A threshold of {profile} % is none ({LEAST_PERCENT} to {MOST_PERCENT}); {threshold} % holds."
    most = context - (reserve or DEFAULT_RESERVE) - context // 10
    whole = context
    if budget:
        most, whole = min(most, budget), min(whole, budget)
    if automatic and (100 * used >= threshold * whole or used > most):
        return Decision(Verdict.CONDENSE, threshold, warning)
    return Decision(Verdict.PRUNE if used > most else Verdict.NOTHING, threshold, warning)
