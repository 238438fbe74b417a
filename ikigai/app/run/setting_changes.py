"""Judge changes of an agent's settings: if its models and its budget allow them, and the message to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.app.run.factories import missing_level_message, model_and_level
from ikigai.app.run.run_profiles import missing_profile_notice
from ikigai.config.layers import split_layers
from ikigai.core.state.decisions.settings import check_budget, with_choices

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.core.events.events import Choices
    from ikigai.core.state.memory import Memory


def check_change(services: Services, memory: Memory, values: Choices) -> None:
    """Raise if an agent cannot change to these settings: no provider serves the model, it lacks the level, or the
    budget has no room for a request.
    """
    if values.get("budget"):
        check_budget(services.with_turn_prompt(memory), values["budget"])
    chosen = with_choices(memory, values)
    resolved = chosen.run.resolve(chosen.own)
    inherited = {key: resolved.get(key) for key, value in values.items() if value is None}
    requested = model_and_level({**memory.settings, **values, **inherited})
    if "profile" in values:  # `_keep_level` checks the agent's own level
        own = {key: value for key, value in chosen.own.items() if key != "level"}
        requested = model_and_level(chosen.run.resolve(own))
    if values.get("model") or values.get("profile"):
        services.pool.check(*requested)
    elif "level" in values:
        services.pool.known.check(*requested)


def accept_change(services: Services, memory: Memory, values: Choices) -> tuple[Choices, str]:
    """Return the settings that the agent changes to, and a notice about its thinking level. Raise as `check_change`."""
    check_change(services, memory, values)
    return _keep_level(services, memory, values)


def _keep_level(services: Services, memory: Memory, values: Choices) -> tuple[Choices, str]:
    """Return the change with the agent's own level kept if the other model has it, and a notice.

    The help of /model describes the rule.
    """
    level, chosen = str(memory.own.get("level") or ""), with_choices(memory, values)
    if (
        level
        and values.get("profile")
        and (why := missing_level_message(services.pool, chosen.run.resolve(chosen.own)))
    ):
        return {**values, "level": None}, f"{why} The profile's thinking level is used; /think chooses another."
    if not (level and values.get("model") and values.get("level") == ""):
        return values, ""
    if why := missing_level_message(services.pool, {**values, "level": level}):
        return values, f"{why} Its default thinking level is used; /think chooses another."
    return {key: value for key, value in values.items() if key != "level"}, ""


def unseen_images_notice(services: Services, memory: Memory, values: Choices) -> str:
    """Return the notice about images in the context that a newly chosen model does not see; "" for none."""
    model = str(services.run.resolve({**memory.own, **values}).get("model") or "")
    if not model or model == memory.model or services.sees_images(model):
        return ""
    from ikigai.core.views.context_report import count_images

    if not (count := count_images(memory)):
        return ""
    return f"{model} does not support images: {count:,} in the context {'is' if count == 1 else 'are'} left out."


def opening_notices(services: Services, memory: Memory) -> list[str]:
    """Return the notices about the profile and the thinking level of an agent that is opened with this memory."""
    return [*filter(None, (missing_profile_notice(memory), _level_notice(services, memory)))]


def _level_notice(services: Services, memory: Memory) -> str:
    if (
        "model" not in memory.own
        and "model" not in memory.run.above
        and (why := missing_level_message(services.pool, split_layers(services.config).below))
    ):
        return f"{why} The level in the configuration is not used; /think chooses one."
    why = missing_level_message(services.pool, memory.run.resolve(memory.own))
    return f"{why} /think chooses another level." if why else ""
