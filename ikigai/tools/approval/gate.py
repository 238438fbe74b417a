"""Whether a call may run: the policy, what was approved before, and the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.events import ApprovalDecided, Choices
from ikigai.core.messages import ToolCall
from ikigai.core.ports import Ask, Started
from ikigai.core.questions import Answered, Choice, Question
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.batch import Together, Waiting
from ikigai.tools.approval.invisible_characters import revealed
from ikigai.tools.approval.path_policy import Place
from ikigai.tools.approval.policy import Allow, Approval, Deny, Lasting, Mode, fingerprint, unasked, verdict
from ikigai.tools.approval.policy import Ask as Asked
from ikigai.tools.base import Kind, Touch

DENIED = "The user said no. Do not try the same again, and do not work around it; ask what they want instead."


class Standing(Protocol):
    """What was approved for always."""

    def known(self) -> Mapping[str, Approval]: ...

    def approve(self, fingerprint: str, call: ToolCall, touch: Touch) -> None:
        """Raises IkigaiError when it cannot be kept."""
        ...


class Gate:
    """One for a run of the program: what was approved for this session holds for all its agents."""

    def __init__(self, place: Place, allowlist: Allowlist, standing: Standing) -> None:
        self._place, self._allowlist, self._standing = place, allowlist, standing
        self._session: dict[str, Approval] = {}

    async def decide(
        self, call: ToolCall, touch: Touch, settings: Choices, ask: Ask, together: Together | None = None
    ) -> Started:
        """What becomes of the call, and the fact to be stored with it. `together` are the calls of the turn."""
        together = together or Together()
        found = self.found(call, touch, settings)
        if isinstance(found, Asked):
            async with together.alone(Waiting(call, touch, found.why)):
                found = self.found(call, touch, settings)  # an answer to another call may have settled this one
                if isinstance(found, Asked):
                    return await self._asked(Waiting(call, touch, found.why), ask, together)
        together.will_not(call.id)
        match found:
            case Allow(why):
                return Started(decision=ApprovalDecided(call.id, True, why))
            case Deny(why):
                return Started(why, ApprovalDecided(call.id, False, "policy", why))

    def found(self, call: ToolCall, touch: Touch, settings: Choices) -> Allow | Asked | Deny:
        """What the policy says of the call, with what was approved before."""
        return verdict(mode(settings), call, touch, self._place, self._allowlist, self._lasting())

    def _lasting(self) -> dict[str, Approval]:
        return {**self._standing.known(), **self._session}

    async def _asked(self, waiting: Waiting, ask: Ask, together: Together) -> Started:
        """Ask about the call, unless it was answered together with others and is still what was shown then."""
        id = waiting.call.id
        given = together.given(id)
        try:
            if given and not given.allowed:
                return Started(DENIED, ApprovalDecided(id, False, _with(given.others)))
            if given and given.of.same(waiting):
                return Started(decision=ApprovalDecided(id, True, _with(given.others)))
            while True:
                asked = question(*waiting, *together.place(id), changed=given is not None)
                if not together.can_be_together(waiting):
                    left = tuple(choice for choice in asked.choices if choice.key != EACH)
                    asked = msgspec.structs.replace(asked, choices=left)
                answered = await ask(asked)
                if answered.key == EACH:
                    number, of = together.place(id)
                    answered = await ask(whole(together.others(id), number, of))
                    if answered.key == BACK:
                        continue
                    return self._together(id, answered.key == "y", together)
                if answered.key == NONE:
                    return self._together(id, False, together)
                return self._answered(waiting, answered)
        finally:
            together.answered(id)

    def _together(self, id: str, allowed: bool, together: Together) -> Started:
        by = _with(together.give(id, allowed))
        return Started("" if allowed else DENIED, ApprovalDecided(id, allowed, by))

    def _answered(self, waiting: Waiting, answered: Answered) -> Started:
        """What the user's answer to this one call means."""
        call, touch, why = waiting
        if answered.nobody:
            told = unasked(Asked(why)).why
            return Started(told, ApprovalDecided(call.id, False, "policy", told))
        match answered.key:
            case "y":
                return Started(decision=ApprovalDecided(call.id, True, "user, once"))
            case "s":
                self._session[fingerprint(call, touch)] = Approval(Lasting.SESSION, touch.scripts)
                return Started(decision=ApprovalDecided(call.id, True, "user, for this session"))
            case "a":
                try:
                    self._standing.approve(fingerprint(call, touch), call, touch)
                except IkigaiError as error:  # what cannot be revoked later is not run now
                    told = f"Not run: the approval could not be kept. {error}"
                    return Started(told, ApprovalDecided(call.id, False, "policy", told))
                self._session.pop(fingerprint(call, touch), None)  # it may hold for an older script
                return Started(decision=ApprovalDecided(call.id, True, "user, for always"))
            case "r" if answered.words:
                told = f"{DENIED} The user's reason: {answered.words}"
                return Started(told, ApprovalDecided(call.id, False, "user", answered.words))
            case _:
                return Started(DENIED, ApprovalDecided(call.id, False, "user"))


def _with(others: int) -> str:
    """Who decided, where it was for several calls."""
    return f"user, with {others} other{'s' * (others != 1)}"


def mode(settings: Choices) -> Mode:
    """The approval mode in force; an unknown one asks."""
    try:
        return Mode(str(settings.get("approval") or Mode.ASK))
    except ValueError:
        return Mode.ASK


TITLES = {Kind.READ: "Read it?", Kind.EDIT: "Make this edit?", Kind.NETWORK: "Fetch it?", Kind.RUN: "Run it?"}


EACH, NONE, BACK = "t", "x", "o"
"""Keys for several calls: show all and answer together, no to all, and one by one after all."""
CHANGED = "This is not what was shown for it before: it has changed since, and is asked about again."


def question(
    call: ToolCall, touch: Touch, why: tuple[str, ...], number: int = 1, of: int = 1, *, changed: bool = False
) -> Question:
    """The whole command or diff with everything visible, where it happens, and what to look at; of several calls,
    which one it is."""
    lines = (*described(call, touch, why), *((CHANGED,) if changed else ()))
    several = (Choice(EACH, f"together, all {of - number + 1}"), Choice(NONE, "no to all")) if number < of else ()
    choices = (
        Choice("y", "yes"),
        Choice("s", "this session"),
        Choice("a", "always exactly this"),
        Choice("n", "no"),
        Choice("r", "no, because…", "Why not? The model is told."),
        *several,
    )
    title = TITLES.get(touch.kind, "Allow it?")
    return Question(f"{number} of {of} · {title}" if of > 1 else title, lines, choices, default="n")


def whole(others: tuple[Waiting, ...], number: int, of: int) -> Question:
    """All calls behind the one that has just been shown, whole, and one answer for it and them."""
    lines = [
        line
        for place, each in enumerate(others, number + 1)
        for line in (*("",) * (place > number + 1), f"{place} of {of}", *described(*each))
    ]
    count = len(others) + 1
    choices = (Choice("y", f"yes, all {count}"), Choice("n", "no to all"), Choice(BACK, "one by one"))
    return Question(f"Allow all {count}, {number} to {of}?", tuple(lines), choices, default=BACK)


def described(call: ToolCall, touch: Touch, why: tuple[str, ...]) -> tuple[str, ...]:
    """All there is to see of a call before it is approved."""
    where = f"in {_on_a_line(touch.directory)}" if touch.directory else ""
    command = revealed(touch.shown) if touch.kind is Kind.RUN else _on_a_line(touch.shown)
    shown = revealed(touch.diff) if touch.diff else command
    paths = [f"touches {_on_a_line(path)}" for path in touch.paths if _on_a_line(path) not in shown]
    how = " (in the background)" if touch.background else ""
    return (f"{call.name}{how} {where}".strip(), *shown.splitlines(), *paths, *why)


def _on_a_line(name: str) -> str:
    """A path or an address with everything visible; a line break in it must not begin a line of its own."""
    return revealed(name).replace("\n", "⏎")
