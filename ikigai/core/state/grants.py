"""Decide which rows grant something, and what is left of those that another program stored.

A row of the log may come from a dump, from an import, or from another program that may write to the schema. So a row
that grants something has a seal, which only the programs of one user on one machine can make (`Seal`). It binds the
row to its place in the log. Without it:

    approval, profile, tools_off    allow no more than the run does without these choices
    pins                            are not sent
    works_for, mail                 the agent reports to nobody; the mail begins no turn
    in an imported row              no choice counts at all

What does not count is in `Memory.unconfirmed` until the user chooses it here. Values with another origin than the
agent's own choice never grant anything: they tell what was in force, and the run says what is (`settings_in_force`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import msgspec

from ikigai.core.agents.mail import WORKS_FOR
from ikigai.core.approval_mode import ApprovalMode
from ikigai.core.events import (
    AGENT_ORIGIN,
    Choices,
    Cleared,
    Event,
    MailSent,
    MailTaken,
    SettingsChanged,
    StoredEvent,
    UserMessage,
)
from ikigai.core.request.pins import PIN_PREFIX, without_pins
from ikigai.core.sanitize import clean_line
from ikigai.core.tool_selection import ToolSelection

if TYPE_CHECKING:
    from ikigai.core.state.effective_settings import RunConfig

_Sealed: TypeAlias = SettingsChanged | Cleared | UserMessage | MailSent | MailTaken
Seal: TypeAlias = Callable[[bytes], str]
"""Returns the seal of these bytes, which only the holder of a key can make."""
GRANTS = ("approval", "profile", "tools_off")
"""Settings that let a model do more, besides pins."""
NAMES = {"system": "system prompt", "approval": "approval mode", "level": "thinking", "tools_off": "tools off"}
"""The names of settings for people, where those differ."""
MAX_SHOWN, MAX_SHOWN_VALUE = 6, 60
"""Settings that a notice names, and characters of each."""
IMPORTED = "imported"
"""The mark that an imported row has in place of a seal."""


def is_grant(key: str) -> bool:
    """Return True if this setting grants something."""
    return key in GRANTS or key == WORKS_FOR or key.startswith(PIN_PREFIX)


def needs_seal(event: Event) -> TypeGuard[_Sealed]:
    """Return True if the row makes, keeps or takes back a choice that grants something, or is mail of an agent."""
    match event:
        case UserMessage(sender=sender):
            return bool(sender)
        case MailSent(to=to):
            return bool(to)
        case MailTaken(reply_to=reply_to, attended=attended):
            return bool(reply_to or attended)
        case Cleared(own, overridden):
            return any(map(is_grant, (*own, *overridden)))
        case SettingsChanged(origins=origins):
            return any(is_grant(key) and origin == AGENT_ORIGIN for key, origin in origins.items())
        case _:
            return False


def sealed(event: Event, agent: str, seq: int, seal: Seal | None) -> Event:
    """Return the event as the row `seq` of an agent has it: with a seal, if it grants something."""
    if not needs_seal(event):
        return event
    return msgspec.structs.replace(event, seal=seal(_sealed_bytes(event, agent, seq)) if seal else "")


def is_confirmed(seal: Seal | None, stored: StoredEvent) -> bool:
    """Return True if all that this row grants counts."""
    event = stored.event
    if isinstance(event, SettingsChanged | Cleared) and event.seal == IMPORTED:
        return False
    return not seal or not needs_seal(event) or event.seal == seal(_sealed_bytes(event, stored.agent, stored.seq))


def confirmed_choices(run: RunConfig, own: Choices, chosen: Choices, seal: str) -> Choices:
    """Return what counts of the choices in an unconfirmed row, where `own` are those before it."""
    if seal == IMPORTED:
        return {}
    kept = {key: value for key, value in without_pins(chosen).items() if key != WORKS_FOR}
    if not kept.keys() & set(GRANTS):
        return kept
    above = {key: value for key, value in run.above.items() if key not in GRANTS}
    plain = msgspec.structs.replace(run, above=above)
    rest = {key: value for key, value in own.items() if key not in GRANTS}
    after = without_none({**own, **kept})
    alone, wanted = plain.resolve_unlimited(rest), plain.resolve_unlimited(after)
    mode = ApprovalMode.of(wanted)
    if (stricter := mode.stricter(ApprovalMode.of(alone))) is not mode:
        kept["approval"] = stricter.value if after.get("profile") else None
    here, tools = ToolSelection.of(alone), ToolSelection.of(wanted)
    on = tuple(name for name in tools.on if name in here.on)
    if not tools.covers(here) or on != tools.on:
        kept["tools_off"] = ToolSelection(tuple(sorted({*tools.off, *here.off})), on).text
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
    """Return the notice about choices that do not count here, "" if there are none."""
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
