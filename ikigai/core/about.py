"""What /model and /status answer: memory in a few lines of plain text."""

from ikigai.core import tokens
from ikigai.core.memory import Memory


def model(memory: Memory | None) -> str:
    """The model in force, who chose it, and what it takes."""
    if memory is None or not memory.model:
        return "There is no model. /model PROVIDER/NAME chooses one; `ikigai setup` fetches a small local one."
    limits = memory.limits
    level = f":{memory.settings['level']}" if memory.settings.get("level") else ""
    origin = memory.run.origin("model", memory.own)
    return (
        f"{memory.model}{level} (from {'your choice' if origin == 'agent' else origin})\n"
        f"context {tokens.short(limits.context)} tokens, replies up to {tokens.short(limits.max_output)}"
    )


def status(memory: Memory, agent: str, state: str, database: str) -> str:
    """Where the user is, a line for each thing."""
    older = memory.window.older
    budget = tokens.short(memory.budget) if memory.budget else "off"
    rows = (
        ("agent", agent),
        ("model", memory.model or "none"),
        ("state", state),
        ("context", f"{tokens.short(memory.used)} of {tokens.short(memory.ceiling)} tokens"),
        ("window", f"{_turns(len(memory.window.turns))} in, {older.turns:,} out; budget {budget}"),
        ("model takes", f"{tokens.short(memory.limits.context)} tokens, replies included"),
        ("marks", ", ".join(mark.label for mark in memory.marks) or "none"),
        ("database", database),
    )
    return "\n".join(f"{name:<12} {value}" for name, value in rows)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"
