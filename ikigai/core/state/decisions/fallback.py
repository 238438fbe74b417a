"""Choose the model that a turn goes on with when its own is down, and return to the first one after the turn.

The change is a settings event with the origin FALLBACK_ORIGIN, within the turn: so the room of the other model decides
the window, and a replay arrives at the same memory. It is not a choice of the agent. The setting FALLBACK_KEY counts
the models of the list that the turn has come to.
"""

from ikigai.core.events.events import FALLBACK_KEY, Choices, SettingsChanged
from ikigai.core.request.reply import DOWN_FAILURES, FailureKind
from ikigai.core.state.memory import Memory, envelope, replace
from ikigai.core.text.sanitize import storable

FALLBACK_ORIGIN = "fallback"
MAX_REASON = 300
"""Characters of the reason that are stored."""


def next_fallback(memory: Memory) -> Choices:
    """Return the settings of the next model that the open turn can go on with; empty for none."""
    tried = _tried(memory)
    for number, (model, level) in enumerate(memory.run.fallback[tried:], tried + 1):
        if model != memory.model:
            return {"model": model, "level": level, FALLBACK_KEY: number}
    return {}


def is_down(memory: Memory, kind: FailureKind) -> bool:
    """Return True for a failure behind which the next model answers; a fallback that cannot be had is passed over."""
    return kind in DOWN_FAILURES or (kind is FailureKind.UNAVAILABLE and _tried(memory) > 0)


def fall_back(memory: Memory, outage: str) -> SettingsChanged | None:
    """Return the change to the next model, with the sentence that says why; None if there is no other model."""
    values = next_fallback(memory) if outage else {}
    origins = {**dict.fromkeys(values, FALLBACK_ORIGIN), FALLBACK_KEY: storable(outage)[:MAX_REASON]}
    return SettingsChanged(values, origins) if values else None


def first_model_again(memory: Memory) -> tuple[SettingsChanged, ...]:
    """Return the change back to the first model, behind a turn that has fallen back."""
    if not _tried(memory):
        return ()
    resolved = memory.run.resolve(memory.own)
    values: Choices = {"model": resolved.get("model"), "level": resolved.get("level"), FALLBACK_KEY: None}
    return (SettingsChanged(values, dict.fromkeys(values, FALLBACK_ORIGIN)),)


def on_fallback(memory: Memory, values: Choices) -> Memory:
    """Return memory as a request of the other model sees it, without changing the turn; the window stays."""
    changed = replace(memory, settings={**memory.settings, **values})
    changed = replace(changed, limits=changed.run.limits(changed.model))
    return replace(changed, envelope=envelope(changed))


def _tried(memory: Memory) -> int:
    tried = memory.settings.get(FALLBACK_KEY)
    return tried if isinstance(tried, int) else 0
