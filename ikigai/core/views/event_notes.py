"""Say in one line what an event that is not a message did: a change of context, settings or the agent, mail, recall."""

from __future__ import annotations

import re
from decimal import Decimal

from ikigai.core.events.events import (
    FALLBACK_KEY,
    AgentKilled,
    AgentRevived,
    Cleared,
    CommandRan,
    Filtered,
    Forked,
    MailSent,
    Marked,
    Rewound,
    SettingsChanged,
    Summarized,
    TurnsRecalled,
    Undone,
    Unknown,
    Value,
)
from ikigai.core.request.pins import PIN_PREFIX, parse_pin, pin_tokens
from ikigai.core.request.system_prompt import DEFAULT_SYSTEM_KEY, instructions_file
from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.tool_selection import ToolSelection
from ikigai.core.tools.vendor_search import SEARCH_CONSENT, VENDOR_SEARCH
from ikigai.core.views.usage_totals import NO_PRICE, format_dollars

MAX_NAMED_EVENTS = 6
"""Events that a line about recalled excerpts names."""


def note(id: int, event: object) -> str:
    """Return what an event that is not a message did; "" if it says nothing to a user."""
    match event:
        case Cleared():
            return "Context cleared: the next request starts empty. The history stays. To undo this: /undo"
        case Marked(label):
            return f"Mark {label} set. /rewind {label} returns here."
        case Rewound(to, label):
            where = f"mark {label}" if label else f"event {to}"
            return f"Rewound to {where}: everything after it has left the context. To undo this: /undo"
        case Filtered():
            return _filter_note(event)
        case Summarized():
            return _summary_note(id, event)
        case Undone(of, what, command):
            change = f"the {command}" if command else f"event #{of}"
            is_redo = what == "undo"
            return f"Redid {change}. /undo takes it back." if is_redo else f"Undid {change}. /redo does it again."
        case SettingsChanged(values) if values.keys() == {"model", "level", FALLBACK_KEY} and not values[FALLBACK_KEY]:
            return ""  # behind the turn: the first model is in force again
        case SettingsChanged(values, origins) if values.get(FALLBACK_KEY):
            return f"{origins.get(FALLBACK_KEY, '')} This turn goes on with {values.get('model')}.".lstrip()
        case SettingsChanged(values, origins):
            changed = {key: value for key, value in values.items() if (key, value) != ("level", "") or len(values) == 1}
            for key in (DEFAULT_SYSTEM_KEY, FALLBACK_KEY):  # /system shows the first, the turn the other
                changed.pop(key, None)
            order = sorted(changed, key=lambda key: key != "profile")  # the profile sets the others
            return "; ".join(_setting(key, changed[key], origins.get(key, "")) for key in order)
        case Forked(parent, at):
            return f"Forked from {parent}" + (f" at event {at}." if at is not None else ".")
        case AgentKilled(along):
            return "This agent was killed" + (f" with its ancestor {along}." if along else ".")
        case AgentRevived():
            return "This agent was revived."
        case MailSent(_, text, name, ending, _):
            return (
                f"Sent to {name}: {text}" if name else f"This turn ({ending}) was reported to the agent that began it."
            )
        case TurnsRecalled() as recalled:
            return _recall_note(recalled)
        case CommandRan(line, output):
            return f"{line}\n{output}" if output else line
        case Unknown(kind, text):
            return f"[{kind}] {text}"
        case _:
            return ""


def _recall_note(event: TurnsRecalled) -> str:
    named = ", ".join(f"#{id}" for id in event.ids[:MAX_NAMED_EVENTS])
    more = f" and {len(event.ids) - MAX_NAMED_EVENTS} more" if len(event.ids) > MAX_NAMED_EVENTS else ""
    size = tokens.format_tokens(tokens.count_tokens("", "", len(event.text.encode())))
    return f"Recalled {named}{more}: {size} tokens. To undo this: /undo"


def _filter_note(event: Filtered) -> str:
    if not event.ranges and not event.ids:
        return "Nothing was forgotten."
    sizes = f"{tokens.format_tokens(event.before)} → {tokens.format_tokens(event.after)} tokens"
    count = f"{event.messages:,} message{'s' * (event.messages != 1)}"
    if event.mode == "remember":
        return f"Kept only {event.criteria}: forgot {count}, context {sizes}. To undo this: /undo"
    which = event.criteria
    if newest := re.fullmatch(r"last (\d+)", which):
        which = "the newest turn" if newest[1] == "1" else f"the newest {newest[1]} turns"
    return f"Forgot {count} ({which}): context {sizes}. To undo this: /undo"


def _summary_note(id: int, event: Summarized) -> str:
    turns = f"{event.turns:,} turn{'s' * (event.turns != 1)}"
    known = f", {format_dollars(Decimal(repr(event.cost)))}" if event.cost else ""
    cost = f", {NO_PRICE} for {clean_line(event.model) or 'it'}" if event.cost is None else known
    if event.closed:
        return f"What was cleared is summarised: {turns}{cost}. /summary shows it, /quote {id} adds it to the context."
    unseen = f", {event.unseen:,} of them not read" if event.unseen else ""
    sizes = f"{tokens.format_tokens(event.before)} → {tokens.format_tokens(event.after)} tokens"
    return f"Condensed: {turns}{unseen}, {sizes}{cost}. /summary shows it, /undo undoes it."


def _setting(key: str, value: Value, origin: str) -> str:
    match key:
        case _ if key.startswith(PIN_PREFIX):
            return _pin_note(key, value)
        case "tools_off":
            selection = ToolSelection.parse(value)
            text = f"Tools off: {selection.shown}" if selection.off else "All tools are on"
            if not selection.is_off(VENDOR_SEARCH):
                text += f"; {VENDOR_SEARCH} is on: {SEARCH_CONSENT}"
            elif not selection.off:
                text += f" but {VENDOR_SEARCH}"
            return text + (f" (from {origin})" if origin not in ("agent", "") else "")
        case "budget" if isinstance(value, int):
            shown = f"{tokens.format_tokens(value)} tokens" if value else "off"
        case "instructions":
            text = str(value or "")
            size = tokens.format_tokens(tokens.count_tokens("", "", len(text.encode())))
            return f"Project instructions: {f'{instructions_file(text)}, {size} tokens' if text else 'none'}"
        case "skills":
            from ikigai.core.tools.skill_offer import describe_skills  # most conversations have no skill

            return describe_skills(str(value or ""))
        case "mcp_tools":
            from ikigai.core.tools.mcp_tools import describe_offer  # most conversations have no server

            return describe_offer(str(value or ""))
        case "system":
            shown = "changed" if value else "default" if value is None else "none"
        case _:
            shown = "default" if value is None else str(value) or "none"
    return f"{key.capitalize()}: {shown}" + (f" (from {origin})" if origin not in ("agent", "") else "")


def _pin_note(key: str, value: Value) -> str:
    path = clean_line(key.removeprefix(PIN_PREFIX))
    if value is None:
        return f"Unpinned: {path}. To pin its current version: /pin {path}"
    found = parse_pin(key, value)
    taken = tokens.format_tokens(pin_tokens(found)) if found else "no"
    return f"Pinned: {path}, {taken} tokens. To remove it: /unpin {path}"
