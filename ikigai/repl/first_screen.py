"""This module writes the lines about an agent that is new, or has no model: what there is, and what to do."""

from collections.abc import Iterable

from ikigai.core.state.memory import Memory
from ikigai.providers.pool import LOCAL_MODEL


def first_lines(keys: Iterable[str], memory: Memory) -> tuple[str, ...]:
    """Return the lines of a new agent, the most important one last. All but the first fit into 40 columns.

    `keys` are the providers with a key.
    """
    about = "ikigai keeps the whole conversation; the model sees its newest turns."
    provider = next(iter(keys), "")
    better = _choice(provider) if provider else "/login stores a key for a real model."
    if not memory.model:
        setup = () if provider else ("`ikigai setup` fetches a small local model, for a demonstration.",)
        lines = about, "There is no model yet.", *setup, better
    elif memory.model == LOCAL_MODEL:
        lines = about, f"{memory.model} is a demonstration.", better
    else:
        lines = about, f"{memory.model} answers.", "/model changes it, /login adds a key."
    return *lines, "? keys · /help commands · /exit leaves"


def missing_model(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the notices of an older agent that has no model. `keys` are the providers with a key."""
    if provider := next(iter(keys), ""):
        return (f"There is no model yet. {_choice(provider)}",)
    return (
        "There is no model yet: no key, and no local model.",
        "`ikigai login` stores a key, `ikigai setup` fetches a small local model.",
    )


def _choice(provider: str) -> str:
    return f"/model {provider}/NAME chooses a model."
