"""The settings in force: what follows from an agent's own choice, a new run, and the project's instructions."""

from ikigai.core.errors import Refused, nearest
from ikigai.core.events import Choices, Event, SettingsChanged
from ikigai.core.request.system_prompt import KEY, ORIGIN
from ikigai.core.state.memory import Memory


def reconfigured(memory: Memory) -> tuple[Event, ...]:
    """This run's settings as a fact, where they differ from those in force."""
    changed, origins = _differing(memory, memory.own)
    return (SettingsChanged(changed, origins),) if changed else ()


def _differing(memory: Memory, own: Choices) -> tuple[Choices, dict[str, str]]:
    """What is in force with these choices of the agent's own and is not now, and who wants each."""
    wanted = memory.run.resolve(own)
    keys = {**memory.settings, **wanted}  # what was in force and is wanted by nobody now ends, too
    changed = {key: wanted.get(key) for key in keys if memory.settings.get(key) != wanted.get(key)}
    return changed, {key: memory.run.origin(key, own) for key in changed}


def reinstructed(memory: Memory, value: str) -> tuple[Event, ...]:
    """The setting alone: all else of this run is what it was when memory was loaded."""
    if (memory.settings.get(KEY) or "") == value:
        return ()
    return (SettingsChanged({KEY: value or None}, {KEY: ORIGIN}),)


def chosen(memory: Memory, values: Choices) -> tuple[Event, ...]:
    """The agent's own choice of these, with what comes with another profile. Raises Refused."""
    overruled = [key for key in values if key in memory.run.above]
    if overruled:
        key = overruled[0]
        raise Refused(
            f"{key} is set by {memory.run.origins.get(key, 'a flag or variable')} for this run.",
            "Start without it to choose here.",
        )
    level, wanted = values.get("level"), memory.run.resolve({**memory.own, **values})
    if level is not None and level != wanted.get("level"):
        raise Refused(
            f"Level {level} would go with {memory.own.get('model')}, the agent's own model, and that of this run is"
            f" {memory.model}, set by {memory.run.origins.get('model', 'a flag or variable')}.",
            f"Start with {memory.model}:{level} instead, or without a model.",
        )
    free = memory.run.wanted({**memory.own, **values})
    for key, where in memory.run.bounds.origins.items():
        if key in values and wanted.get(key) != free.get(key) and (values[key] is not None or key not in memory.own):
            name = {"tools_off": "Which tools are off"}.get(key, key.capitalize())
            raise Refused(f"{name} is bounded here by the {where}.", "/trust no and a new start take that away.")
    values = {key: value for key, value in values.items() if memory.own.get(key) != value}
    if not values:
        raise Refused("That is chosen already.", "Nothing was changed.")
    others, origins = _following(memory, values) if "profile" in values else ({}, {})
    return (SettingsChanged({**values, **others}, {**origins, **dict.fromkeys(values, "agent")}),)


def _following(memory: Memory, values: Choices) -> tuple[Choices, dict[str, str]]:
    """What else is in force with another profile, and who wants each."""
    name, there = values.get("profile"), [each for each in memory.run.profiles if each]
    if name is not None and name not in there:
        near = nearest(str(name), there) or there
        how = f"There are: {', '.join(near)}" if near else "Write [profiles.NAME] in the configuration."
        raise Refused(f"There is no profile {str(name)!r}.", f"Did you mean {near[0]}?" if len(near) == 1 else how)
    own: Choices = {key: value for key, value in {**memory.own, **values}.items() if value is not None}
    others, origins = _differing(memory, own)
    return {key: value for key, value in others.items() if key not in values}, origins
