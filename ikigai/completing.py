"""What the screen completes the arguments of commands with; memory and world are None while nothing is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.memory import Memory

if TYPE_CHECKING:
    from ikigai.app import World


def marks(memory: Memory | None) -> list[str]:
    marks = memory.marks if memory else ()
    return list(dict.fromkeys(mark.label for mark in reversed(marks)))


def acts(memory: Memory | None) -> dict[str, str]:
    acts = memory.acts if memory else ()
    return {str(act.id): act.kind + " that took nothing" * act.empty for act in reversed(acts)}


def files(typed: str) -> list[str]:
    from ikigai import pinning

    return list(pinning.completions(typed, pinning.here()))


def pins(memory: Memory | None) -> dict[str, str]:
    from ikigai import pinning

    return pinning.offered(memory, pinning.here()) if memory else {}


def models(world: World | None) -> list[str]:
    return list(world.known_models()) if world else []


def levels(world: World | None, memory: Memory | None) -> list[str]:
    return list(world.pool.known.levels(memory.model)) if world and memory else []
