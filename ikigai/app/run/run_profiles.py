"""Build the profiles of a run from the configuration, and format them for /profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikigai.config import Config, with_profile
from ikigai.config.key_table import PROFILE_KEYS
from ikigai.config.layers import profile_choices
from ikigai.config.profiles import NO_PROFILE, profile_settings
from ikigai.core.commands.arguments import parse_model
from ikigai.core.state.effective_settings import RunProfile, WindowRules
from ikigai.core.state.tool_results import ToolResultLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.app.json_records.command_figures import ProfilesRecord
    from ikigai.config.records import ContextSettings
    from ikigai.core.events.events import Choices
    from ikigai.core.state.memory import Memory

PROFILE_SETTINGS = {
    "model": "model",
    "level": "level",
    "system_prompt": "system",
    "sliding_context_tokens": "budget",
} | {
    "approval": "approval",
    "tools": "tools_off",
    "tools_off": "tools_off",
    "vendor_search": "tools_off",
}
"""The setting of each profile key that an agent can choose itself; flags and variables set all keys."""


def make_profiles(config: Config, below: Choices, lacking: Callable[[Choices], str]) -> dict[str, RunProfile]:
    """Return the profiles by name, "" for the configuration without one; empty if none is configured.

    A level that the model of a profile lacks (`lacking` returns a message) is left out, like a level in the file.
    """
    profiles: dict[str, RunProfile] = {}
    for name in ("", *config.profiles) if config.profiles else ():
        profiled, settings = with_profile(config, name), profile_choices(config, name) if name else {}
        if "level" in settings and lacking({**below, **settings}):
            settings["level"] = ""
        profiles[name] = RunProfile(
            settings, make_rules(profiled.context), profiled.context.token_counter, make_fallback(profiled.fallback)
        )
    return profiles


def make_fallback(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the models of a list, each with its thinking level, "" for its default."""
    choices = map(parse_model, names)
    return tuple((str(choice["model"]), str(choice.get("level") or "")) for choice in choices)


def make_rules(context: ContextSettings) -> WindowRules:
    """Return the rules of the window beside the budget."""
    caps = ToolResultLimits(
        context.max_tool_result_tokens,
        context.tool_result_truncation,
        context.tool_result_keep_first,
        context.tool_result_keep_last,
    )
    return WindowRules(context.prune_fraction, context.keep_first_turn, context.max_history_tokens, caps)


def profile_in_force(memory: Memory) -> str:
    """Return the profile of this agent in this run; "" for none."""
    return memory.run.profile(memory.own)


def missing_profile_notice(memory: Memory) -> str:
    """Return the notice that the profile which the loaded agent chose no longer exists; "" if it does."""
    name = str(memory.own.get("profile") or "")
    if not name or name in memory.run.profiles or memory.recorded.get("profile") != name:
        return ""
    return (
        f"The profile {name}, which this agent chose, no longer exists: the configuration is used."
        " /profile lists the profiles."
    )


def format_profiles(config: Config, memory: Memory) -> str:
    """Return the answer of /profile: all profiles with their settings, also inherited ones, and the one in force."""
    now = profile_in_force(memory)
    origin = memory.run.origin("profile", memory.own)
    whose = "your choice" if origin == "agent" else f"from {origin}"
    rows = [f"Profile: {now} ({whose})" if now else "Profile: none"]
    for name, values in _profile_values(config).items():
        base = config.profiles[name].get("inherits")
        settings = ", ".join(f"{key} = {_json(value)}" for key, value in values.items()) or "sets nothing"
        rows.append(f"{'→' if name == now else ' '} {name}{f' ({base})' * bool(base)}: {settings}")
    if now and (overrides := _overrides(config, memory, now)):
        rows.append(f"Overrides of the profile: {', '.join(overrides)}.")
    if len(rows) == 1:
        return "No profiles. Define one as [profiles.NAME] in config.toml."
    else:
        rows.append(f"/profile NAME chooses one, /profile {NO_PROFILE} removes the choice.")
    return "\n".join(rows)


def profiles_record(config: Config, memory: Memory) -> ProfilesRecord:
    """Return the answer of /profile as a JSON object."""
    from ikigai.app.json_records.command_figures import ProfileFields, ProfilesRecord

    listed = (
        ProfileFields(name=name, inherits=config.profiles[name].get("inherits") or None, sets=values)
        for name, values in _profile_values(config).items()
    )
    origin = memory.run.origin("profile", memory.own)
    return ProfilesRecord(profile=profile_in_force(memory), origin=origin, profiles=tuple(listed))


def _profile_values(config: Config) -> dict[str, dict[str, Any]]:
    return {name: {key: each.value for key, each in profile_settings(config, name).items()} for name in config.profiles}


def _overrides(config: Config, memory: Memory, name: str) -> list[str]:
    """Return the settings of the profile that a source of higher precedence, or a later choice, overrides."""
    found = dict[str, str]()
    there = with_profile(config, name)
    for key in profile_settings(config, name):
        setting = PROFILE_SETTINGS.get(key, "")
        origin = memory.run.origin(setting, memory.own) if setting else ""
        if origin == "agent":
            found[setting] = f"{key} as you chose it"
        elif setting in memory.run.above:
            found[setting] = f"{key} from {origin}"
        elif not setting and there.kind(PROFILE_KEYS[key]) != "profile":
            found[key] = f"{key} from {there.origin(PROFILE_KEYS[key])}"
    return list(found.values())


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
