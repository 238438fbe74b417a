"""Return the events that change settings: by the agent's own choice, a new run, or new instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.errors import Rejected, closest_names
from ikigai.core.events.events import Choices, Event, SettingsChanged, Value
from ikigai.core.request.system_prompt import DEFAULT_SYSTEM_KEY, INSTRUCTIONS_KEY, INSTRUCTIONS_ORIGIN
from ikigai.core.state.effective_settings import RunProfile
from ikigai.core.state.memory import Memory, offered_tools, replace
from ikigai.core.text import tokens
from ikigai.core.tools.mcp_tools import MCP_ORIGIN, MCP_TOOLS_KEY
from ikigai.core.tools.skill_offer import SKILLS_KEY, SKILLS_ORIGIN

if TYPE_CHECKING:
    from ikigai.core.request.default_prompt import Surroundings

MIN_CONVERSATION_TOKENS = 1000
"""Tokens that a conversation needs beside system prompt and tools: a few short turns."""


def settings_of_run(memory: Memory) -> tuple[Event, ...]:
    """Return the event with the settings of this run that differ from those in force, if there are any."""
    changed, origins = _differing(memory, memory.own)
    return (SettingsChanged(changed, origins),) if changed else ()


def _differing(memory: Memory, own: Choices) -> tuple[Choices, dict[str, str]]:
    """Return the settings that these own choices change, and the origin of each."""
    resolved = memory.run.resolve(own)
    keys = {**memory.recorded, **resolved}  # a setting that no place names any more also ends
    for key in (DEFAULT_SYSTEM_KEY, MCP_TOOLS_KEY, SKILLS_KEY):  # they go with the turns, not with the run
        keys.pop(key, None)
    changed = {key: resolved.get(key) for key in keys if memory.recorded.get(key) != resolved.get(key)}
    return changed, {key: memory.run.origin(key, own) for key in changed}


def changed_instructions(memory: Memory, value: str) -> tuple[Event, ...]:
    """Return the change of this setting alone: the rest of the run is as it was when memory was loaded."""
    if (memory.settings.get(INSTRUCTIONS_KEY) or "") == value:
        return ()
    return (SettingsChanged({INSTRUCTIONS_KEY: value or None}, {INSTRUCTIONS_KEY: INSTRUCTIONS_ORIGIN}),)


def with_choices(memory: Memory, values: Choices) -> Memory:
    """Return memory with the run and the own choices as they will be once `values` are chosen, all else unchanged.

    A choice wins over flags and variables. A profile also wins over earlier choices of the settings that it sets.
    """
    profile = memory.run.profiles.get(str(values.get("profile") or ""), RunProfile())
    # A profile names the level "" with each model of its own: a level that was chosen goes on if that model has it.
    replaced = {key for key, value in profile.settings.items() if (key, value) != ("level", "")} - values.keys()
    own: Choices = {
        key: value for key, value in {**memory.own, **values}.items() if value is not None and key not in replaced
    }
    return replace(memory, run=memory.run.choose({*values, *replaced}, memory.run.since + 1), own=own)


def default_system(memory: Memory, where: Surroundings) -> str:
    """Return the default system prompt of a turn that begins now; "" if the user has set or cleared the prompt."""
    if memory.settings.get("system") or "system" in memory.own or "system" in memory.run.above:
        return ""
    from ikigai.core.request.default_prompt import full_prompt, short_prompt

    if memory.provider == "local" and not memory.limits.tools:
        return short_prompt(where)
    return full_prompt(where, {tool.set for tool in offered_tools(memory)})


def changed_default_system(memory: Memory, value: str) -> tuple[Event, ...]:
    """Return the change of the default system prompt, if it changes the request."""
    if (memory.settings.get(DEFAULT_SYSTEM_KEY) or "") == value or (not value and memory.settings.get("system")):
        return ()
    return (SettingsChanged({DEFAULT_SYSTEM_KEY: value or None}, {DEFAULT_SYSTEM_KEY: "default"}),)


def changed_mcp_tools(memory: Memory, value: str) -> tuple[Event, ...]:
    """Return the change of the tools of MCP servers, if others are offered."""
    if (memory.settings.get(MCP_TOOLS_KEY) or "") == value:
        return ()
    return (SettingsChanged({MCP_TOOLS_KEY: value or None}, {MCP_TOOLS_KEY: MCP_ORIGIN}),)


def changed_skills(memory: Memory, value: str) -> tuple[Event, ...]:
    """Return the change of the list of skills, if another one is offered."""
    if (memory.settings.get(SKILLS_KEY) or "") == value:
        return ()
    return (SettingsChanged({SKILLS_KEY: value or None}, {SKILLS_KEY: SKILLS_ORIGIN}),)


def chosen_settings(memory: Memory, values: Choices) -> tuple[Event, ...]:
    """Return the change to the agent's own choices `values`, with the settings of a new profile. Raise Rejected."""
    if values.get("profile") is not None:
        _check_profile(memory, str(values["profile"]))
    level, chosen = values.get("level"), with_choices(memory, values)
    if level is not None and level != chosen.run.resolve(chosen.own).get("level") and "model" not in values:
        values = {"model": memory.model, **values}  # a flag's model: the level is chosen for it, not for the own one
        chosen = with_choices(memory, values)
    resolved, unlimited = chosen.run.resolve(chosen.own), chosen.run.resolve_unlimited(chosen.own)
    for key, origin in memory.run.project_limits.origins.items():
        limited = key in values and resolved.get(key) != unlimited.get(key)
        if limited and (values[key] is not None or key not in memory.own):
            name = {"tools_off": "Which tools are off"}.get(key, key.capitalize())
            raise Rejected(
                f"{name} is limited here by the {origin}.", "To lift the limit: /trust no, then restart ikigai."
            )
    wins = chosen.run.overridden != memory.run.overridden or memory.own.keys() - chosen.own.keys() - values.keys()
    values = {
        key: value for key, value in values.items() if wins or key in memory.unconfirmed or memory.own.get(key) != value
    }
    if not values:
        raise Rejected("Already set.", "Nothing was changed.")
    others, origins = _differing_with_profile(memory, chosen) if "profile" in values else ({}, {})
    others = {key: value for key, value in others.items() if key not in values}
    if values.get("system") == "" and memory.settings.get(DEFAULT_SYSTEM_KEY):
        others, origins = {**others, DEFAULT_SYSTEM_KEY: None}, {**origins, DEFAULT_SYSTEM_KEY: "default"}
    return (SettingsChanged({**values, **others}, {**origins, **dict.fromkeys(values, "agent")}),)


def check_budget(memory: Memory, budget: Value | None) -> None:
    """Raise Rejected for a budget that a request without any turn exceeds; 0 is no budget."""
    empty = tokens.count_tokens(memory.provider, memory.model, memory.envelope) if memory.model else 0
    if isinstance(budget, int) and 0 < budget <= empty:
        raise Rejected(
            f"A budget of {budget:,} tokens is too small: system prompt and tools alone take {empty}.",
            f"The smallest budget that works is {empty + MIN_CONVERSATION_TOKENS}; 0 turns the window off.",
        )


def _differing_with_profile(memory: Memory, chosen: Memory) -> tuple[Choices, dict[str, str]]:
    """Return the settings that come with a new profile, and the origin of each; those that it takes back among them."""
    changed, origins = _differing(chosen, chosen.own)
    resolved, ended = chosen.run.resolve(chosen.own), {*(memory.own.keys() - chosen.own.keys()), *chosen.run.overridden}
    changed |= {key: resolved.get(key) for key in ended if key in resolved}
    return changed, origins | {key: chosen.run.origin(key, chosen.own) for key in changed}


def _check_profile(memory: Memory, name: str) -> None:
    """Raise Rejected if there is no profile of this name."""
    names = [each for each in memory.run.profiles if each]
    if name not in names:
        near = closest_names(name, names) or names
        remedy = f"There are: {', '.join(near)}" if near else "Write [profiles.NAME] in the configuration."
        raise Rejected(f"There is no profile {name!r}.", f"Did you mean {near[0]}?" if len(near) == 1 else remedy)
