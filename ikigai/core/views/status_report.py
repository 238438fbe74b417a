"""Build the answers of /model, /think, /budget and /status: memory in a few lines of plain text, and as JSON values."""

from collections.abc import Sequence
from typing import Any

from ikigai.core.state.memory import Memory
from ikigai.core.text import tokens


def format_model(memory: Memory) -> str:
    """Return the model in force, its origin, and its limits."""
    if not memory.model:
        return (
            "No model yet. /login anthropic adds a key, /model PROVIDER/NAME chooses a model;"
            " `ikigai setup` in a shell fetches a small local one."
        )
    limits = memory.limits
    return (
        f"{_model(memory)} (from {_origin(memory, 'model')})\n"
        f"context {tokens.format_tokens(limits.context)} tokens, "
        f"replies up to {tokens.format_tokens(limits.max_output)}"
        + ", no tools" * (not limits.tools)
        + "\n/model PROVIDER/NAME[:LEVEL] chooses another; `ikigai models` lists them"
    )


def model_as_dict(memory: Memory) -> dict[str, Any]:
    """Return the model for programs: "" for no model and for no level, "agent" as the origin of its own
    choice; tokens.
    """
    limits = memory.limits
    return {
        "model": memory.model,
        "level": str(memory.settings.get("level") or ""),
        "origin": memory.run.origin("model", memory.own),
        "context": limits.context if memory.model else None,
        "max_output": limits.max_output if memory.model else None,
        "takes_tools": limits.tools if memory.model else None,
    }


def format_thinking(memory: Memory, levels: Sequence[str]) -> str:
    """Return the thinking level in force, its origin, and the model's `levels`."""
    if not memory.model:
        return "No model yet. /model PROVIDER/NAME chooses one."
    level = memory.settings.get("level")
    if not any(each != "off" for each in levels):
        return f"{memory.model} does not think."
    now = f"{level} (from {_origin(memory, 'level')})" if level else "the model's own default"
    return f"{memory.model} thinks at {now}\nlevels: {', '.join(levels)}; /think LEVEL chooses one"


def format_budget(memory: Memory) -> str:
    """Return the budget in force, its origin, the size of the next request, and the commands that change it."""
    budget = f"{tokens.format_tokens(memory.budget)} (from {_origin(memory, 'budget')})" if memory.budget else "off"
    return (
        f"budget {budget}; the next request takes {tokens.format_tokens(memory.used)} tokens\n"
        "/budget 200k sets another, 0 turns the window off; /context shows the parts"
    )


def _model(memory: Memory) -> str:
    level = memory.settings.get("level")
    return f"{memory.model}:{level}" if level else memory.model


def _origin(memory: Memory, key: str) -> str:
    origin = memory.run.origin(key, memory.own)
    return "your choice" if origin == "agent" else origin


def format_status(memory: Memory, agent: str, state: str, database: str) -> str:
    """Return agent, model, context and database, a line for each."""
    older = memory.window.older
    budget = tokens.format_tokens(memory.budget) if memory.budget else "off"
    rows = (
        ("agent", agent),
        ("model", _model(memory) or "none"),
        ("state", state),
        ("context", f"{tokens.format_tokens(memory.used)} of {tokens.format_tokens(memory.ceiling)} tokens"),
        ("window", f"{_turns(_turns_in_window(memory))} in, {older.turns:,} out; budget {budget}"),
        ("model limit", f"{tokens.format_tokens(memory.limits.context)} tokens, including the reply"),
        ("marks", ", ".join(mark.label for mark in memory.marks) or "none"),
        ("database", database),
    )
    return "\n".join(f"{name:<12} {value}" for name, value in rows)


def status_as_dict(memory: Memory, agent: str, id: str, state: str, database: str) -> dict[str, Any]:
    """Return the status for programs, with sizes in tokens."""
    return {
        "agent": agent,
        "agent_id": id,
        "model": memory.model,
        "level": str(memory.settings.get("level") or ""),
        "state": state,
        "used": memory.used,
        "ceiling": memory.ceiling,
        "budget": memory.budget,
        "context": memory.limits.context,
        "turns": _turns_in_window(memory),
        "turns_out": memory.window.older.turns,
        "marks": [mark.label for mark in memory.marks],
        "database": database,
    }


def _turns_in_window(memory: Memory) -> int:
    """Return the number of ended turns in the window."""
    return len(memory.window.turns) + (memory.window.first is not None)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"
