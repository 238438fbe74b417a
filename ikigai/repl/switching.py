"""From one agent to another at the terminal: where /new, /switch, /fork and Alt+arrows lead, and what /kill leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ikigai.app import agent_tree as kin
from ikigai.core.agents.mail import MOST
from ikigai.core.agents.tree import Link, beside
from ikigai.core.commands import fork as forking
from ikigai.core.errors import Opening, Refused
from ikigai.core.events import MailSent
from ikigai.core.questions import Question, yes_or_no
from ikigai.core.sanitize import clean_line
from ikigai.core.state.inputs import Send
from ikigai.system.paths import directory

if TYPE_CHECKING:
    from ikigai.app.services import World
    from ikigai.core.commands.parsers import Local
    from ikigai.repl.active_agent import Seat
    from ikigai.store.agents import Agent

NOBODY = {
    "up": "This is a root: nobody is above it.",
    "down": "Nobody was forked from this agent.",
    "left": "There is no elder sibling.",
    "right": "There is no younger sibling.",
}
LISTED = 10
"""Names that the question of /kill tells."""


class Move(NamedTuple):
    """Where to go, what is told there, and what is said there first."""

    agent: Agent
    told: str = ""
    notice: str = ""
    prompt: str = ""


async def destination(world: World, seat: Seat, command: Local) -> Move:
    """Where /new, /switch, /fork or Alt+arrows ("go", the way) lead. Raises Refused, and then nothing has changed."""
    agents = world.database.agents
    match command.name:
        case "new":
            return Move(await world.create(command.argument))
        case "fork":
            if seat.agent is None:
                raise Refused("There is no agent to fork yet.", "Wait until one is open.")
            asked = forking.asked(command.argument)
            child = await kin.fork(world, seat.agent, asked, seat.memory)
            return Move(child.agent, kin.told(child), child.notice, asked.prompt)
        case "go":
            links = await world.database.family.links()
            found = beside(links, seat.agent.id, command.argument) if seat.agent else None
            agent = await agents.get(found.id) if found else None
            if agent is None:
                raise Refused(NOBODY[command.argument])
            return Move(agent)
        case _:
            agent = await agents.find(command.argument)
            agent.check_living()
            if seat.runtime and seat.agent and agent.id == seat.agent.id:
                raise Refused(f"{agent.name} is on the screen already.", "/new begins another agent.")
            return Move(agent)


def sure(dying: list[Link]) -> Question:
    """Whether they are to be killed."""
    *others, target = [clean_line(link.name) for link in dying]
    title = f"Kill {target} and the {len(others):,} below it?" if others else f"Kill {target}?"
    named = ", ".join(reversed(others[-LISTED:])) + (", …" if len(others) > LISTED else "")
    also = (f"With it: {named}.",) if others else ()
    return yes_or_no(title, (*also, "Running work is cancelled. The history stays; /revive brings an agent back."))


async def refuge(world: World, dying: list[Link]) -> Agent:
    """Where somebody goes whose agent dies: to the parent of the one that was meant, or the next living above."""
    agents = world.database.agents
    place = await agents.get(dying[-1].id)
    while place and place.parent and (place := await agents.get(place.parent)):
        if place.killed_at is None:
            return place
    return await agents.last_or_new(directory())


async def sent(world: World | None, seat: Seat, argument: str) -> Send:
    """What /send says. Raises Refused."""
    if world is None or seat.agent is None:
        raise Opening()
    name, _, text = argument.partition(" ")
    agent = await world.database.agents.find(name)
    if agent.id == seat.agent.id:
        raise Refused("That is the agent on the screen.", "Write to it without /send.")
    agent.check_living()
    if len(text) > MOST:
        raise Refused(f"A message holds {MOST:,} characters, and this has {len(text):,}.", "Send less of it.")
    return Send(MailSent(agent.id, text, agent.name, by_user=True))


async def rename(world: World, seat: Seat, argument: str) -> str:
    """Do what /rename says; the sentence that says what that was. Raises Refused."""
    *old, new = argument.rsplit(maxsplit=1) or [""]
    if not new or seat.agent is None:
        raise Refused("What is the new name?", "Write /rename NEW, or /rename OLD NEW.")
    agent = await world.database.agents.find(old[0]) if old else seat.agent
    await world.database.family.rename(agent, new)
    seat.renamed(agent.id, new)
    return f"{agent.name} is called {new} now. /rename {new} {agent.name} takes it back."
