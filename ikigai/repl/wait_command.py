"""/wait: until agents are at rest; then what each of them said last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.app import agent_tree as kin
from ikigai.core.errors import Refused
from ikigai.core.sanitize import clean_line

if TYPE_CHECKING:
    from ikigai.app.agent_manager import Crew

LOOK_AFTER = 1.0
"""Seconds after which agents are looked at again: of what another program's do nothing is heard."""


async def waited(crew: Crew, own: str, named: Sequence[str]) -> str:
    """Wait for the agents of these names, or for all but `own` that are at work; their last words, a line each.

    Who asks something has come to rest until it is answered. Raises Refused for names of nobody, of `own`, and where
    nobody is at work.
    """
    database = crew.world.database
    wanted = {(await database.agents.find(name)).id for name in named}
    if own in wanted:
        raise Refused("That is the agent on the screen.", "/wait is for those in the background.")
    with crew.post.calls.waiting() as call:
        while True:
            call.look()
            found = {line.place.kin.id: line for line in await kin.listed(database, crew, dead=True)}
            busy = {id for id, line in found.items() if id != own and _goes_on(crew, line)}
            if not wanted and not (wanted := busy):
                raise Refused("No other agent is at work.", "/agents lists them.")
            if not wanted & busy:
                return "\n".join(_said(line) for id, line in found.items() if id in wanted)
            await call.settle(LOOK_AFTER)


def _goes_on(crew: Crew, line: kin.Line) -> bool:
    """Whether the agent does something by itself, here or in another program."""
    return line.state == "busy" or (line.state != "asks" and crew.at_work(line.place.kin.id))


def _said(line: kin.Line) -> str:
    name = clean_line(line.place.kin.name)
    if line.state == "asks":
        return f"{name} asks something: /answer {name}"
    return f"{name} ({line.state}): {' '.join(clean_line(line.place.kin.words).split())}"
