"""What /model, /think and /status answer: memory in a few lines of plain text, and as figures for programs."""

from collections.abc import Sequence
from typing import Any

from ikigai.core import tokens
from ikigai.core.state.memory import Memory


def model(memory: Memory) -> str:
    """The model in force, who chose it, and what it takes."""
    if not memory.model:
        return (
            "There is no model. /model PROVIDER/NAME chooses one; `ikigai login` stores a key,"
            " `ikigai setup` fetches a small local model."
        )
    limits = memory.limits
    return (
        f"{_model(memory)} (from {_origin(memory, 'model')})\n"
        f"context {tokens.short(limits.context)} tokens, replies up to {tokens.short(limits.max_output)}"
        + ", no tools"
        * (not limits.tools)
    )


def model_figures(memory: Memory) -> dict[str, Any]:
    """The same: "" for no model and for no level, "agent" as the origin of its own choice; tokens."""
    limits = memory.limits
    return {
        "model": memory.model,
        "level": str(memory.settings.get("level") or ""),
        "origin": memory.run.origin("model", memory.own),
        "context": limits.context if memory.model else None,
        "max_output": limits.max_output if memory.model else None,
        "takes_tools": limits.tools if memory.model else None,
    }


def thinking(memory: Memory, levels: Sequence[str]) -> str:
    """The thinking level in force, who chose it, and the model's `levels`."""
    if not memory.model:
        return "There is no model. /model PROVIDER/NAME chooses one."
    level = memory.settings.get("level")
    if not any(each != "off" for each in levels):
        return f"{memory.model} does not think."
    now = f"{level} (from {_origin(memory, 'level')})" if level else "the model's own default"
    return f"{memory.model} thinks at {now}\nit has {', '.join(levels)}; /think LEVEL chooses one"


def _model(memory: Memory) -> str:
    level = memory.settings.get("level")
    return f"{memory.model}:{level}" if level else memory.model


def _origin(memory: Memory, key: str) -> str:
    origin = memory.run.origin(key, memory.own)
    return "your choice" if origin == "agent" else origin


def status(memory: Memory, agent: str, state: str, database: str) -> str:
    """Where the user is, a line for each thing."""
    older = memory.window.older
    budget = tokens.short(memory.budget) if memory.budget else "off"
    rows = (
        ("agent", agent),
        ("model", _model(memory) or "none"),
        ("state", state),
        ("context", f"{tokens.short(memory.used)} of {tokens.short(memory.ceiling)} tokens"),
        ("window", f"{_turns(_in(memory))} in, {older.turns:,} out; budget {budget}"),
        ("model takes", f"{tokens.short(memory.limits.context)} tokens, replies included"),
        ("marks", ", ".join(mark.label for mark in memory.marks) or "none"),
        ("database", database),
    )
    return "\n".join(f"{name:<12} {value}" for name, value in rows)


def status_figures(memory: Memory, agent: str, id: str, state: str, database: str) -> dict[str, Any]:
    """The same; tokens."""
    return {
        "agent": agent,
        "id": id,
        "model": memory.model,
        "level": str(memory.settings.get("level") or ""),
        "state": state,
        "used": memory.used,
        "ceiling": memory.ceiling,
        "budget": memory.budget,
        "context": memory.limits.context,
        "turns": _in(memory),
        "turns_out": memory.window.older.turns,
        "marks": [mark.label for mark in memory.marks],
        "database": database,
    }


def _in(memory: Memory) -> int:
    """How many turns that have ended are in the window."""
    return len(memory.window.turns) + (memory.window.first is not None)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"
