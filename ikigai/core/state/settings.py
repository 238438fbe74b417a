"""This module returns the events that change settings: by the agent's own choice, a new run, or new instructions."""

from ikigai.core.errors import Rejected, closest_names
from ikigai.core.events import Choices, Event, SettingsChanged
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY, INSTRUCTIONS_ORIGIN
from ikigai.core.state.memory import Memory


def settings_of_run(memory: Memory) -> tuple[Event, ...]:
    """Return the event with the settings of this run that differ from those in force, if there are any."""
    changed, origins = _differing(memory, memory.own)
    return (SettingsChanged(changed, origins),) if changed else ()


def _differing(memory: Memory, own: Choices) -> tuple[Choices, dict[str, str]]:
    """Return the settings that these own choices change, and the origin of each."""
    resolved = memory.run.resolve(own)
    keys = {**memory.settings, **resolved}  # a setting that no place names any more ends, too
    changed = {key: resolved.get(key) for key in keys if memory.settings.get(key) != resolved.get(key)}
    return changed, {key: memory.run.origin(key, own) for key in changed}


def changed_instructions(memory: Memory, value: str) -> tuple[Event, ...]:
    """Return the change of this setting alone: the rest of the run is as it was when memory was loaded."""
    if (memory.settings.get(INSTRUCTIONS_KEY) or "") == value:
        return ()
    return (SettingsChanged({INSTRUCTIONS_KEY: value or None}, {INSTRUCTIONS_KEY: INSTRUCTIONS_ORIGIN}),)


def chosen_settings(memory: Memory, values: Choices) -> tuple[Event, ...]:
    """Return the change to the agent's own choices `values`, with the settings of a new profile. Raise Rejected."""
    if key := next((key for key in values if key in memory.run.above), ""):
        raise Rejected(
            f"{key} is set by {memory.run.origins.get(key, 'a flag or variable')} for this run.",
            "Start without it to choose here.",
        )
    level, resolved = values.get("level"), memory.run.resolve({**memory.own, **values})
    if level is not None and level != resolved.get("level"):
        raise Rejected(
            f"Level {level} would go with {memory.own.get('model')}, the agent's own model, and that of this run is"
            f" {memory.model}, set by {memory.run.origins.get('model', 'a flag or variable')}.",
            f"Start with {memory.model}:{level} instead, or without a model.",
        )
    unlimited = memory.run.resolve_unlimited({**memory.own, **values})
    for key, origin in memory.run.project_limits.origins.items():
        limited = key in values and resolved.get(key) != unlimited.get(key)
        if limited and (values[key] is not None or key not in memory.own):
            name = {"tools_off": "Which tools are off"}.get(key, key.capitalize())
            raise Rejected(f"{name} is bounded here by the {origin}.", "/trust no and a new start take that away.")
    values = {key: value for key, value in values.items() if memory.own.get(key) != value}
    if not values:
        raise Rejected("That is chosen already.", "Nothing was changed.")
    others, origins = _profile_settings(memory, values) if "profile" in values else ({}, {})
    return (SettingsChanged({**values, **others}, {**origins, **dict.fromkeys(values, "agent")}),)


def _profile_settings(memory: Memory, values: Choices) -> tuple[Choices, dict[str, str]]:
    """Return the settings that come with a new profile, and the origin of each. Raise Rejected if it is unknown."""
    name, names = values.get("profile"), [each for each in memory.run.profiles if each]
    if name is not None and name not in names:
        near = closest_names(str(name), names) or names
        remedy = f"There are: {', '.join(near)}" if near else "Write [profiles.NAME] in the configuration."
        raise Rejected(f"There is no profile {str(name)!r}.", f"Did you mean {near[0]}?" if len(near) == 1 else remedy)
    own: Choices = {key: value for key, value in {**memory.own, **values}.items() if value is not None}
    others, origins = _differing(memory, own)
    return {key: value for key, value in others.items() if key not in values}, origins
