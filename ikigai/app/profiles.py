"""Profiles for the agents of a run: made of the configuration, listed by /profile, changed to, and missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikigai.config import Config, profiled, under
from ikigai.config.profiles import NONE, keys
from ikigai.core.state.run_config import Profile, Rules
from ikigai.core.state.tool_results import Caps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.config.records import Context
    from ikigai.core.events import Choices
    from ikigai.core.state.memory import Memory

SETTINGS = {"model": "model", "level": "level", "system_prompt": "system", "sliding_context_tokens": "budget"} | {
    "approval": "approval",
    "tools": "tools_off",
    "tools_off": "tools_off",
}
"""The settings that a profile's keys become where an agent can choose another; flags and variables set all keys."""


def make_profiles(config: Config, below: Choices, lacking: Callable[[Choices], str]) -> dict[str, Profile]:
    """Every profile by its name, "" for the configuration without one; nothing where there are none.

    A level that the model of a profile does not have (`lacking` says so) is left out, as that of the file is.
    """
    found: dict[str, Profile] = {}
    for name in ("", *config.profiles) if config.profiles else ():
        context, settings = under(config, name).context, profiled(config, name) if name else {}
        if "level" in settings and lacking({**below, **settings}):
            settings["level"] = ""
        found[name] = Profile(settings, make_rules(context), context.token_counter)
    return found


def make_rules(context: Context) -> Rules:
    """How the window is kept, besides the budget."""
    caps = Caps(
        context.max_tool_result_tokens,
        context.tool_result_truncation,
        context.tool_result_keep_first,
        context.tool_result_keep_last,
    )
    return Rules(context.prune_fraction, context.keep_first_turn, context.max_history_tokens, caps)


def in_force(memory: Memory) -> str:
    """The profile of this agent in this run; "" for none."""
    return memory.run.profile(memory.own)


def missed(memory: Memory) -> str:
    """What is to be said once where an agent, as it was loaded, goes by a profile of its choice that is gone; or ""."""
    name = str(memory.own.get("profile") or "")
    if not name or name in memory.run.profiles or memory.settings.get("profile") != name:
        return ""
    return (
        f"The profile {name}, which this agent chose, is gone: the configuration holds. /profile lists those there are."
    )


def told(config: Config, memory: Memory) -> str:
    """What /profile answers: each profile with what it sets, what it inherits included, and which is in force."""
    now = in_force(memory)
    origin = memory.run.origin("profile", memory.own)
    whose = "your choice" if origin == "agent" else f"from {origin}"
    rows = [f"Profile: {now} ({whose})" if now else "Profile: none"]
    for name, values in _shown(config).items():
        base = config.profiles[name].get("inherits")
        said = ", ".join(f"{key} = {_json(value)}" for key, value in values.items()) or "sets nothing"
        rows.append(f"{'→' if name == now else ' '} {name}{f' ({base})' * bool(base)}: {said}")
    if now and (kept := _kept(config, memory, now)):
        rows.append(f"Not from the profile, but {', '.join(kept)}.")
    if len(rows) == 1:
        rows.append("There are none to choose. A table [profiles.NAME] in the configuration makes one.")
    else:
        rows.append(f"/profile NAME chooses one, /profile {NONE} takes the choice back.")
    return "\n".join(rows)


def figures(config: Config, memory: Memory) -> dict[str, Any]:
    """The same for programs."""
    listed = [
        {"name": name, "inherits": config.profiles[name].get("inherits") or None, "sets": values}
        for name, values in _shown(config).items()
    ]
    return {"profile": in_force(memory), "origin": memory.run.origin("profile", memory.own), "profiles": listed}


def _shown(config: Config) -> dict[str, dict[str, Any]]:
    return {name: {key: each.value for key, each in keys(config, name).items()} for name in config.profiles}


def _kept(config: Config, memory: Memory, name: str) -> list[str]:
    """What the profile sets and somebody before it has set otherwise."""
    found = dict[str, str]()
    there = under(config, name)
    for key in keys(config, name):
        setting = SETTINGS.get(key, "")
        origin = memory.run.origin(setting, memory.own) if setting else ""
        if origin == "agent":
            found[setting] = f"{key} as you chose it"
        elif setting in memory.run.above:
            found[setting] = f"{key} from {origin}"
        elif not setting and there.kind(("context", key)) != "profile":
            found[key] = f"{key} from {there.origin(('context', key))}"
    return list(found.values())


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
