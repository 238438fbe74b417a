"""What the screen completes with: arguments of commands; memory and world are None while nothing is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.state.memory import Memory
from ikigai.core.state.project_limits import ALL

if TYPE_CHECKING:
    from ikigai.app.services import World

NEWEST, FIRST_WORDS = 50, 80
"""Turns that are offered, and characters of what each began with."""


def marks(memory: Memory | None) -> list[str]:
    marks = memory.marks if memory else ()
    return list(dict.fromkeys(mark.label for mark in reversed(marks)))


def acts(memory: Memory | None) -> dict[str, str]:
    acts = memory.acts if memory else ()
    return {str(act.id): act.kind + " that took nothing" * act.empty for act in reversed(acts)}


def turns(memory: Memory | None) -> dict[str, str]:
    """What /fork takes: turns of the window, the newest first, each by its last event and its first words."""
    if memory is None:
        return {}
    first = (memory.window.first,) if memory.window.first else ()
    newest = (*reversed(memory.window.turns[-NEWEST:]), *first)
    return {f"at {turn.end}": " ".join(turn.messages[0].text[:FIRST_WORDS].split()) for turn in newest}


def files(typed: str) -> list[str]:
    from ikigai.repl import pin_commands as pinning

    return list(pinning.completions(typed, pinning.here()))


def pins(memory: Memory | None) -> dict[str, str]:
    from ikigai.repl import pin_commands as pinning

    return pinning.offered(memory, pinning.here()) if memory else {}


def code(memory: Memory | None) -> dict[str, str]:
    from ikigai.repl import copy_answer as copying

    return copying.offered(memory)


def models(world: World | None) -> list[str]:
    return list(world.known_models()) if world else []


def levels(world: World | None, memory: Memory | None) -> list[str]:
    return list(world.pool.known.levels(memory.model)) if world and memory else []


def sets(memory: Memory | None) -> dict[str, str]:
    """What /tools takes: each set of tools, on where it is off, and off where it is on."""
    if not memory:
        return {}
    off = str(memory.settings.get("tools_off") or "").split(",")
    found: dict[str, list[str]] = {}
    for tool in sorted(memory.run.tools, key=lambda tool: tool.set):
        found.setdefault(tool.set, []).append(tool.name)
    return {f"{'on' if name in off or ALL in off else 'off'} {name}": ", ".join(tools) for name, tools in found.items()}


def modes() -> dict[str, str]:
    """What /approve takes."""
    from ikigai.repl import permission_commands as permissions

    return {
        **{mode.value: means for mode, means in permissions.MEANS.items()},
        "default": "what the configuration says",
        "revoke ": "ask again about what was approved for always",
    }


TRUST = {"yes": "use what this folder brings", "no": "use it no more"}
