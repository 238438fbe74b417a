"""Write the lines about an agent that is new, or has no model: its surroundings, and the next step."""

from collections.abc import Iterable

from ikigai.core.state.memory import Memory
from ikigai.providers.pool import LOCAL_MODEL

LOGIN = "/login anthropic connects a real model."
SETUP = "`ikigai setup` fetches a small local model, for a demonstration."


def way_to_a_model(keys: Iterable[str], known: Iterable[str]) -> str:
    """Return how to get a better model than none or the small local one.

    `keys` are the providers with a key, `known` are the models to choose from.
    """
    if provider := next(iter(keys), ""):
        return f"/model {provider}/NAME chooses a model."
    if any(not model.startswith("local/") for model in known):
        return "/model lists the models found here."
    return LOGIN


def first_lines(way: str, folder: str, memory: Memory) -> tuple[str, ...]:
    """Return the lines of a new agent, the most important one last. All but the first two fit into 40 columns.

    `way` is the one to a better model, `folder` the working directory.
    """
    about = f"Folder: {folder}", "ikigai keeps the whole conversation; the model sees its newest turns."
    if not memory.model:
        setup = (SETUP,) if way == LOGIN else ()
        lines = *about, "No model yet.", *setup, way
    elif memory.model == LOCAL_MODEL:
        lines = *about, f"{memory.model} is a demonstration.", way
    else:
        lines = *about, f"{memory.model} answers.", "/model changes it, /login adds a key."
    return *lines, "? keys · /help commands · /exit leaves"


def missing_model(way: str) -> tuple[str, ...]:
    """Return the notices of an older agent that has no model; `way` is the one to one."""
    if way != LOGIN:
        return (f"No model yet. {way}",)
    return ("No model yet. /login anthropic adds a key; `ikigai setup` in a shell fetches a small local model.",)
