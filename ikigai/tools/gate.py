"""Whether a call may run: the policy, what was approved before, and the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ikigai.core.errors import IkigaiError
from ikigai.core.events import ApprovalDecided, Choices
from ikigai.core.messages import ToolCall
from ikigai.core.ports import Ask, Started
from ikigai.core.questions import Choice, Question
from ikigai.tools.allowlist import Allowlist
from ikigai.tools.approval import Allow, Deny, Lasting, Mode, fingerprint, unasked, verdict
from ikigai.tools.approval import Ask as Asked
from ikigai.tools.base import Kind, Touch
from ikigai.tools.hidden import revealed
from ikigai.tools.places import Place

DENIED = "The user said no. Do not try the same again, and do not work around it; ask what they want instead."


class Standing(Protocol):
    """What was approved for always."""

    def known(self) -> Mapping[str, Lasting]: ...

    def approve(self, fingerprint: str, call: ToolCall, touch: Touch) -> None:
        """Raises IkigaiError when it cannot be kept."""
        ...


class Gate:
    """One for a run of the program: what was approved for this session holds for all its agents."""

    def __init__(self, place: Place, allowlist: Allowlist, standing: Standing) -> None:
        self._place, self._allowlist, self._standing = place, allowlist, standing
        self._session: dict[str, Lasting] = {}

    async def decide(self, call: ToolCall, touch: Touch, settings: Choices, ask: Ask) -> Started:
        """What becomes of the call, and the fact to be stored with it."""
        found = verdict(mode(settings), call, touch, self._place, self._allowlist, self._lasting())
        match found:
            case Allow(why):
                return Started(decision=ApprovalDecided(call.id, True, why))
            case Deny(why):
                return Started(why, ApprovalDecided(call.id, False, "policy", why))
            case Asked(why):
                return await self._asked(call, touch, why, ask)

    def _lasting(self) -> dict[str, Lasting]:
        return {**self._standing.known(), **self._session}

    async def _asked(self, call: ToolCall, touch: Touch, why: tuple[str, ...], ask: Ask) -> Started:
        answered = await ask(question(call, touch, why))
        if answered.nobody:
            told = unasked(Asked(why)).why
            return Started(told, ApprovalDecided(call.id, False, "policy", told))
        match answered.key:
            case "y":
                return Started(decision=ApprovalDecided(call.id, True, "user, once"))
            case "s":
                self._session[fingerprint(call, touch)] = Lasting.SESSION
                return Started(decision=ApprovalDecided(call.id, True, "user, for this session"))
            case "a":
                try:
                    self._standing.approve(fingerprint(call, touch), call, touch)
                except IkigaiError as error:  # what cannot be revoked later is not run now
                    told = f"Not run: the approval could not be kept. {error}"
                    return Started(told, ApprovalDecided(call.id, False, "policy", told))
                return Started(decision=ApprovalDecided(call.id, True, "user, for always"))
            case "r" if answered.words:
                told = f"{DENIED} The user's reason: {answered.words}"
                return Started(told, ApprovalDecided(call.id, False, "user", answered.words))
            case _:
                return Started(DENIED, ApprovalDecided(call.id, False, "user"))


def mode(settings: Choices) -> Mode:
    """The approval mode in force; an unknown one asks."""
    try:
        return Mode(str(settings.get("approval") or Mode.ASK))
    except ValueError:
        return Mode.ASK


TITLES = {Kind.READ: "Read it?", Kind.EDIT: "Make this edit?", Kind.NETWORK: "Fetch it?", Kind.RUN: "Run it?"}


def question(call: ToolCall, touch: Touch, why: tuple[str, ...]) -> Question:
    """The whole command or diff with everything visible, where it happens, and what to look at."""
    where = f"in {touch.directory}" if touch.directory else ""
    shown = revealed(touch.diff) if touch.diff else revealed(touch.shown)
    paths = [f"touches {revealed(path)}" for path in touch.paths if path not in shown]
    lines = (f"{call.name} {where}".strip(), *shown.splitlines(), *paths, *why)
    choices = (
        Choice("y", "yes"),
        Choice("s", "this session"),
        Choice("a", "always exactly this"),
        Choice("n", "no"),
        Choice("r", "no, because…", "Why not? The model is told."),
    )
    return Question(TITLES.get(touch.kind, "Allow it?"), lines, choices, default="n")
