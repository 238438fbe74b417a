"""Decide which rows choose something, and what is left of those that another program stored.

A row of the log may come from a dump, from an import, or from another program that may write to the schema. So a row
that chooses or grants something has a seal, which only the programs of one user on one machine can make (`Seal`). It
binds the row to its place in the log. Without it:

    settings, clear    no choice counts, but for an approval mode and tools off that are stricter than those in force
    fork               what the agents above have chosen counts as if it had no seal
    works_for, mail    the agent reports to nobody; the mail begins no turn
    an imported row    no choice counts at all

What does not count is in `Memory.unconfirmed` until the user chooses it here. Values of grants with another origin than
the agent's own choice only tell what was in force, and the run says what is (`settings_in_force`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import msgspec

from ikigai.core.agents.mail import WORKS_FOR
from ikigai.core.events.events import (
    AGENT_ORIGIN,
    Choices,
    Cleared,
    Event,
    Forked,
    MailSent,
    MailTaken,
    SettingsChanged,
    StoredEvent,
    UserMessage,
)
from ikigai.core.request.pins import PIN_PREFIX, without_pins
from ikigai.core.state.lineage import Ancestor
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import NO_TOOLS, ToolSelection

if TYPE_CHECKING:
    from ikigai.core.state.effective_settings import RunConfig

_Sealed: TypeAlias = SettingsChanged | Cleared | Forked | UserMessage | MailSent | MailTaken
Seal: TypeAlias = Callable[[bytes], str]
"""Returns the seal of these bytes, which only the holder of a key can make."""
GRANTS = ("approval", "profile", "tools_off")
"""Settings that let a model do more, besides pins."""
INHERITED = "inherited"
"""A key of choices that are not known: the name of the agent that they were inherited from."""
STRICTEST: Choices = {"approval": ApprovalMode.READ_ONLY.value, "tools_off": NO_TOOLS.text}
NAMES = {
    "system": "system prompt",
    "approval": "approval mode",
    "level": "thinking",
    "tools_off": "tools off",
    INHERITED: "all that was inherited from",
}
"""The names of settings for people, where those differ."""
MAX_SHOWN, MAX_SHOWN_VALUE = 6, 60
"""Settings that a notice names, and characters of each."""
IMPORTED = "imported"
"""The mark that an imported row has in place of a seal."""


def is_grant(key: str) -> bool:
    """Return True if this setting grants something."""
    return key in GRANTS or key == WORKS_FOR or key.startswith(PIN_PREFIX)


def needs_seal(event: Event) -> TypeGuard[_Sealed]:
    """Return True if the row makes, keeps, takes back or inherits choices, or is mail of an agent."""
    match event:
        case UserMessage(sender=sender):
            return bool(sender)
        case MailSent(to=to):
            return bool(to)
        case MailTaken(reply_to=reply_to, attended=attended):
            return bool(reply_to or attended)
        case Forked(parent_id=parent):
            return bool(parent)
        case SettingsChanged() | Cleared():
            return True
        case _:
            return False


def sealed(event: Event, agent: str, seq: int, seal: Seal | None) -> Event:
    """Return the event as the row `seq` of an agent has it: with a seal, if it needs one."""
    if not needs_seal(event):
        return event
    return msgspec.structs.replace(event, seal=seal(_sealed_bytes(event, agent, seq)) if seal else "")


def is_confirmed(seal: Seal | None, stored: StoredEvent) -> bool:
    """Return True if all that this row chooses counts."""
    event = stored.event
    if isinstance(event, SettingsChanged | Cleared) and event.seal == IMPORTED:
        return False
    return not seal or not needs_seal(event) or event.seal == seal(_sealed_bytes(event, stored.agent, stored.seq))


def choices_of_undone(seal: Seal | None, clear: StoredEvent) -> StoredEvent | None:
    """Return the row that holds in place of an undone clear, None for none. An undo has no seal: what this program's
    clear did not let a model do, as the first one of a subagent, is not let by its undo either.
    """
    if not seal or not isinstance(clear.event, Cleared) or not is_confirmed(seal, clear):
        return None
    return _unsealed(clear, {key: clear.event.own.get(key) for key in GRANTS})


def with_proven_forks(seal: Seal | None, line: Sequence[Ancestor], rows: Sequence[StoredEvent]) -> list[StoredEvent]:
    """Return the rows of a lineage, `line` from the leaf up, as they count.

    Whoever may change the table agents could give an agent other ancestors. So choices above a fork lose their seals
    where no sealed row of the child says that it was forked there. Where such a row names events that are not in the
    lineage, what was chosen there may have been stricter than all else: nothing runs until the user chooses anew.
    A row also loses its seal where a later one of its agent stands before it.
    """
    if not seal:
        return list(rows)
    places = {
        (row.agent, row.event.parent_id): row.event.at
        for row in rows
        if isinstance(row.event, Forked) and row.event.parent_id and is_confirmed(seal, row)
    }
    above = {child.agent: (child, parent) for child, parent in pairwise(line)}
    unproven = set[str]()
    for child, parent in above.values():
        fork = child.agent, parent.agent
        if unproven or fork not in places or _shared(child.upto, places[fork]) != parent.upto:
            unproven.add(parent.agent)
    counting, newest = list[StoredEvent](), dict[str, int]()
    for row in rows:
        is_late = row.seq < newest.get(row.agent, 0)
        if needs_seal(row.event) and is_confirmed(seal, row):
            newest[row.agent] = max(row.seq, newest.get(row.agent, 0))
        counting.append(_without_seal(row) if is_late or row.agent in unproven else row)
        own_fork = row.event if isinstance(row.event, Forked) and (row.agent, row.event.parent_id) in places else None
        if own_fork and _is_cut(above.get(row.agent), own_fork):
            counting.append(_unsealed(row, {**STRICTEST, INHERITED: own_fork.parent}))
    return counting


def _is_cut(link: tuple[Ancestor, Ancestor] | None, fork: Forked) -> bool:
    """Return True if the lineage lacks events that the agent shares by its own row; `link` is the agent, and the one
    above it.
    """
    if not link or link[1].agent != fork.parent_id:
        return True
    shared, upto = _shared(link[0].upto, fork.at), link[1].upto
    return _shared(shared, upto) != shared


def _shared(upto: int | None, at: int | None) -> int | None:
    """Return the last event that is shared where both limits hold; None is no limit."""
    return min((limit for limit in (upto, at) if limit is not None), default=None)


def _without_seal(row: StoredEvent) -> StoredEvent:
    event = row.event
    if not isinstance(event, SettingsChanged | Cleared) or event.seal == IMPORTED:
        return row
    return msgspec.structs.replace(row, event=msgspec.structs.replace(event, seal=""))


def _unsealed(row: StoredEvent, choices: Choices) -> StoredEvent:
    """Return choices in the place of this row that count as another program's: the stricter ones."""
    return msgspec.structs.replace(row, event=SettingsChanged(choices, dict.fromkeys(choices, AGENT_ORIGIN)))


def stricter_choices(run: RunConfig, own: Choices, chosen: Choices, seal: str) -> Choices:
    """Return what counts of the choices in an unconfirmed row, where `own` are those before it: what lets a model do
    less than these.
    """
    if seal == IMPORTED:
        return {}
    plain = msgspec.structs.replace(run, above={key: value for key, value in run.above.items() if key not in GRANTS})
    before, after = (plain.resolve_unlimited(each) for each in (own, without_none({**own, **chosen})))
    kept: Choices = {}
    mode = ApprovalMode.of(before)
    if (stricter := mode.stricter(ApprovalMode.of(after))) is not mode:
        kept["approval"] = stricter.value
    tools, wanted = ToolSelection.of(before), ToolSelection.of(after)
    on = tuple(name for name in tools.on if name in wanted.on)
    both = ToolSelection(tuple(sorted({*tools.off, *wanted.off})), on)
    if not both.is_like(tools):
        kept["tools_off"] = both.text
    return kept


def unconfirmed_choices(choices: Choices, counting: Choices) -> Choices:
    """Return the choices that do not count as they are, for the user to make. One that was taken back is none."""
    wanted = {key: value for key, value in without_none(choices).items() if key != WORKS_FOR}
    return {key: value for key, value in wanted.items() if counting.get(key) != value}


def without_none(choices: Choices) -> Choices:
    """Return the choices but for those that were taken back."""
    return {key: value for key, value in choices.items() if value is not None}


def settings_in_force(run: RunConfig, own: Choices, recorded: Choices) -> Choices:
    """Return the settings in force where these were recorded: what grants something is as the run says."""
    if not run.seal:
        return recorded
    resolved = run.resolve(own)
    keys = filter(is_grant, dict.fromkeys((*recorded, *resolved)))
    return {**recorded, **{key: resolved.get(key) for key in keys}}


def unconfirmed_notice(unconfirmed: Choices) -> str:
    """Return the notice about choices that do not count here, or ""."""
    if not unconfirmed:
        return ""
    pins = sum(key.startswith(PIN_PREFIX) for key in unconfirmed)
    shown = [
        f"{NAMES.get(key, key)} {clean_line(str(value))[:MAX_SHOWN_VALUE]}"
        for key, value in sorted(without_pins(unconfirmed).items())
    ]
    shown += [f"{pins} pinned file{'s' * (pins != 1)}"] * bool(pins)
    more = [f"{len(shown) - MAX_SHOWN} more"] if len(shown) > MAX_SHOWN else []
    named = clean_line(", ".join((*shown[:MAX_SHOWN], *more)))
    return f"Not in force, because it was not chosen in this program: {named}. Choose it here to use it."


def _sealed_bytes(event: _Sealed, agent: str, seq: int) -> bytes:
    fields = msgspec.structs.asdict(event)
    del fields["seal"]
    return msgspec.json.encode([agent, seq, type(event).__name__, fields], order="deterministic")
