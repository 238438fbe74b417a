"""Find the agent that /new, /switch, /fork and Alt+arrows lead to, or that replaces one that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.agents import agent_tree
from ikigai.app.run.first_agent import AgentChoice
from ikigai.core.commands import fork
from ikigai.core.errors import Rejected

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.core.commands.parsers import ProgramCommand
    from ikigai.repl.active_agent import ActiveAgent
    from ikigai.store.agents.agents import Agent

NO_RELATIVE = {
    "up": "This is a top-level agent: it has no parent.",
    "down": "This agent has no forks.",
    "left": "There is no previous sibling.",
    "right": "There is no next sibling.",
}


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
    if active_agent.agent_loop and active_agent.agent and agent.id == active_agent.agent.id:
        raise Rejected(f"{agent.name} is already on the screen.", "/new begins another agent.")
    return AgentSwitch(agent)


DESTINATIONS = {"fork": _fork, "new": _new, "switch": _switch}


async def fallback_agent(services: Services, id: str) -> Agent:
    """Return the agent to show when the one on screen goes with the agent `id`, which is killed or archived.

    It is the parent of that agent, or the next listed one above.
    """
    agents = services.database.agents
    above = await agents.get(id)
    while above and above.parent and (above := await agents.get(above.parent)):
        if not (above.killed_at or above.archived_at):
            return above
    return await services.choose(AgentChoice(last=True))
