"""This module finds the agent that /new, /switch, /fork and Alt+arrows lead to, and the one that /kill falls
back to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ikigai.app import agent_tree
from ikigai.core.agents.mail import MAX_MESSAGE_CHARACTERS
from ikigai.core.agents.tree import AgentLink
from ikigai.core.commands import fork
from ikigai.core.commands.parsers import parse_rename
from ikigai.core.errors import NotReady, Rejected
from ikigai.core.events import MailSent
from ikigai.core.questions import Question, yes_or_no
from ikigai.core.sanitize import clean_line
from ikigai.core.state.inputs import Send

if TYPE_CHECKING:
    from ikigai.app.services import Services
    from ikigai.core.commands.parsers import ProgramCommand
    from ikigai.repl.active_agent import ActiveAgent
    from ikigai.store.agents import Agent

NO_RELATIVE = {
    "up": "This is a top-level agent: it has no parent.",
    "down": "This agent has no forks.",
    "left": "There is no previous sibling.",
    "right": "There is no next sibling.",
}
MAX_LISTED_NAMES = 10
"""Names that the question of /kill lists."""


class AgentSwitch(NamedTuple):
    """The agent to go to, the text and the notice to show there, and the message to send there first.

    `continues` is True for a fork of all that stands on the screen: then the text is shown in place of its past.
    """

    agent: Agent
    text: str = ""
    notice: str = ""
    prompt: str = ""
    continues: bool = False


async def choose_destination(services: Services, active_agent: ActiveAgent, command: ProgramCommand) -> AgentSwitch:
    """Return where /new, /switch or /fork lead. Raise Rejected, and then nothing has changed."""
    return await DESTINATIONS[command.name](services, active_agent, command.argument)


async def choose_relative(services: Services, active_agent: ActiveAgent, direction: str) -> AgentSwitch:
    """Return where Alt+arrows lead: up, down, left or right of the agent on screen. Raise Rejected if nowhere."""
    own = active_agent.agent
    agent = await services.database.tree.relative(own, direction) if own else None
    if agent is None:
        raise Rejected(NO_RELATIVE[direction])
    return AgentSwitch(agent)


async def _new(services: Services, active_agent: ActiveAgent, argument: str) -> AgentSwitch:
    return AgentSwitch(await services.create(argument))


async def _fork(services: Services, active_agent: ActiveAgent, argument: str) -> AgentSwitch:
    if active_agent.agent is None:
        raise Rejected("There is no agent to fork yet.", "Wait until one is open.")
    request = fork.parse_fork(argument)
    child = await agent_tree.fork(services, active_agent.agent, request, active_agent.memory)
    text, continues = agent_tree.fork_message(child), not request.at
    return AgentSwitch(child.agent, text, child.notice, request.prompt, continues)


async def _switch(services: Services, active_agent: ActiveAgent, argument: str) -> AgentSwitch:
    if not argument:
        raise Rejected("Which agent?", await services.database.agents.suggestion())
    agent = await services.database.agents.find(argument)
    agent.check_living()
    if active_agent.runtime and active_agent.agent and agent.id == active_agent.agent.id:
        raise Rejected(f"{agent.name} is already on the screen.", "/new begins another agent.")
    return AgentSwitch(agent)


DESTINATIONS = {"fork": _fork, "new": _new, "switch": _switch}


def kill_question(to_kill: list[AgentLink]) -> Question:
    """Return the question before agents are killed."""
    *others, target = [clean_line(link.name) for link in to_kill]
    title = f"Kill {target} and the {len(others):,} below it?" if others else f"Kill {target}?"
    named = ", ".join(reversed(others[-MAX_LISTED_NAMES:])) + (", …" if len(others) > MAX_LISTED_NAMES else "")
    also = (f"With it: {named}.",) if others else ()
    return yes_or_no(title, (*also, "Running work is cancelled. The history stays; /revive brings an agent back."))


async def fallback_agent(services: Services, id: str) -> Agent:
    """Return the agent to show when the one on screen goes with the agent `id`, which is killed or archived.

    It is the parent of that agent, or the next listed one above.
    """
    agents = services.database.agents
    above = await agents.get(id)
    while above and above.parent and (above := await agents.get(above.parent)):
        if not (above.killed_at or above.archived_at):
            return above
    return await services.choose(None, new=False, last=True)


async def build_send(services: Services | None, active_agent: ActiveAgent, argument: str) -> Send:
    """Return the input that /send makes. Raise Rejected."""
    if services is None or active_agent.agent is None:
        raise NotReady()
    name, _, text = argument.partition(" ")
    agent = await services.database.agents.find(name)
    if agent.id == active_agent.agent.id:
        raise Rejected("That is the agent on the screen.", "Write to it without /send.")
    agent.check_living()
    agent.check_writable("nothing can be sent to it")
    if len(text) > MAX_MESSAGE_CHARACTERS:
        limit = f"A message can have {MAX_MESSAGE_CHARACTERS:,} characters"
        raise Rejected(f"{limit}, and this has {len(text):,}.", "Send less of it.")
    return Send(MailSent(agent.id, text, agent.name, by_user=True))


async def rename(services: Services, active_agent: ActiveAgent, argument: str) -> str:
    """Carry out /rename and return the sentence that reports it. Raise Rejected."""
    request = parse_rename(argument.split())
    agent = await services.database.agents.find(request.old) if request.old else active_agent.agent
    if agent is None:
        raise NotReady()
    text = await agent_tree.rename(services.database, agent, request.new)
    active_agent.rename(agent.id, request.new)
    return text
