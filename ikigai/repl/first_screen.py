"""This module writes the lines that an agent without a conversation shows: what this is, the model, keys and help."""

from ikigai.core.state.memory import Memory
from ikigai.providers.pool import LOCAL_MODEL


def first_lines(memory: Memory) -> tuple[str, ...]:
    """Return the lines, the most important one last. All but the first fit into 40 columns."""
    about = "ikigai keeps the whole conversation; the model sees its newest turns."
    login = "/login stores a key for a real model."
    if not memory.model:
        setup = "`ikigai setup` fetches a small local model, for a demonstration."
        lines = about, "There is no model yet.", setup, login
    elif memory.model == LOCAL_MODEL:
        lines = about, f"{memory.model} is a demonstration.", login
    else:
        lines = about, f"{memory.model} answers.", "/model changes it, /login adds a key."
    return *lines, "? keys · /help commands · /exit leaves"
