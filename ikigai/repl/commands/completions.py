"""Complete the arguments of commands; `memory` and `services` are None while no agent is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ikigai.core.state.memory import Memory
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import ToolSelection

if TYPE_CHECKING:
    from ikigai.app.run.services import Services

PLAIN = {
    "all": {"--all": "killed and archived ones, too"},
    "caps": {
        "turn ": "one message of yours",
        "run ": "since ikigai started",
        "day ": "today, all agents",
        "agent ": "this agent and its subagents",
    },
    "online": {"--online": "ask the providers, too"},
    "plot": {"--plot": "draw tokens, cost and the window"},
    "trust": {"yes": "use its AGENTS.md, tools and settings", "no": "stop using its files"},
}
"""Completions that never change, by kind."""
MAX_FORK_TURNS, PREVIEW_CHARACTERS = 50, 80
"""Turns that /fork offers, and characters of the first words shown of each."""


def known(kind: str, typed: str, memory: Memory | None, services: Services | None) -> Iterable[str]:
    """Return completions of `typed` for an argument of `kind`, as `Command.completes` names it."""
    match kind:
        case "models":
            return complete_models(services)
        case "levels":
            return complete_levels(services, memory)
        case "files":
            return complete_files(typed)
        case "modes":
            return complete_modes()
        case "skills":
            return complete_skills(services, memory)
        case "marks" | "acts" | "code" | "pins" | "sets" | "turns":
            return _OF_MEMORY[kind](memory)
        case _:
            return PLAIN.get(kind, ())


def complete_marks(memory: Memory | None) -> list[str]:
    marks = memory.marks if memory else ()
    return list(dict.fromkeys(mark.label for mark in reversed(marks)))


def complete_undo(memory: Memory | None) -> dict[str, str]:
    if memory is None:
        return {}
    acts = {
        act.id: (act.kind if act.kind in ("undo", "redo") else act.command) + " without effect" * act.empty
        for act in memory.changes
    }
    acts |= {turn.recalled: "recalled excerpts" for turn in memory.window.turns if turn.recalled}
    return {str(id): acts[id] for id in sorted(acts, reverse=True)}


def complete_turns(memory: Memory | None) -> dict[str, str]:
    """Return completions of /fork: turns of the window, the newest first, each by its last event and its first
    words.
    """
    if memory is None:
        return {}
    first = (memory.window.first,) if memory.window.first else ()
    newest = (*reversed(memory.window.turns[-MAX_FORK_TURNS:]), *first)
    return {f"at {turn.end}": " ".join(turn.messages[0].text[:PREVIEW_CHARACTERS].split()) for turn in newest}


def complete_files(typed: str) -> list[str]:
    from ikigai.repl.commands import pin_commands
    from ikigai.repl.input import path_completion

    return list(path_completion.complete_paths(typed, pin_commands.working_directory()))


def complete_pins(memory: Memory | None) -> dict[str, str]:
    from ikigai.repl.commands import pin_commands

    return pin_commands.list_pinned(memory, pin_commands.working_directory()) if memory else {}


def complete_code(memory: Memory | None) -> dict[str, str]:
    from ikigai.repl.commands import copy_answer

    return copy_answer.list_code_blocks(memory)


def complete_models(services: Services | None) -> list[str]:
    return list(services.known_models()) if services else []


def complete_levels(services: Services | None, memory: Memory | None) -> list[str]:
    return list(services.pool.known.levels(memory.model)) if services and memory else []


def complete_tool_sets(memory: Memory | None) -> dict[str, str]:
    """Return completions of /tools: "on" for each tool set that is off, "off" for each that is on."""
    if not memory:
        return {}
    selection = ToolSelection.of(memory.settings)
    names_by_set: dict[str, list[str]] = {}
    for tool in sorted(memory.run.tools, key=lambda tool: tool.set):
        names_by_set.setdefault(tool.set, []).append(tool.name)
    rows = names_by_set.items()
    return {f"{'on' if selection.is_off(name) else 'off'} {name}": ", ".join(tools) for name, tools in rows}


def complete_skills(services: Services | None, memory: Memory | None) -> dict[str, str]:
    """Return completions of /skills: "on" for each skill that is off, "off" for each that is on."""
    if not (services and memory):
        return {}
    from ikigai.app.skills.library import short_line

    off = services.context_settings(memory).skills_off
    found = services.skills.skills().values()
    return {f"{'on' if each.name in off else 'off'} {each.name}": short_line(each.description) for each in found}


def complete_modes() -> dict[str, str]:
    """Return completions of /approve."""
    modes = {mode.value: mode.meaning for mode in ApprovalMode}
    return modes | {"default": "the value of the configuration", "revoke ": "revoke a standing approval"}


_OF_MEMORY: dict[str, Callable[[Memory | None], Iterable[str]]] = {
    "marks": complete_marks,
    "acts": complete_undo,
    "code": complete_code,
    "pins": complete_pins,
    "sets": complete_tool_sets,
    "turns": complete_turns,
}
