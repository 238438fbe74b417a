"""Carry out the commands of print mode that change the tree of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.agents import agent_tree
from ikigai.core.commands import fork
from ikigai.core.commands.parsers import parse_one_agent, parse_rename
from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.core.state.decisions.settings import with_choices

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.core.events.events import Choices
    from ikigai.store.agents.agents import Agent


class TreeChange(NamedTuple):
    """The result of a command that changes the tree: its agent, the message to send there next, and the report."""

    agent: Agent
    prompt: str
    report: str


async def _fork(services: Services, agent: Agent | None, argument: str, yes: bool) -> TreeChange:
    request = fork.parse_fork(argument)
    if agent is None and request.at:
        agent, _ = await services.database.tree.fork_point_at(request.at)
    agent = await _named(services, "", agent, "/fork")
    if request.prompt:
        chosen = with_choices(await services.load_memory(agent), request.choices)
        check_model(services, chosen.run.resolve(chosen.own))  # no child for nothing
    child = await agent_tree.fork(services, agent, request)
    return TreeChange(child.agent, request.prompt, agent_tree.fork_message(child, "ikigai -r {}"))


async def _rename(services: Services, agent: Agent | None, argument: str, yes: bool) -> TreeChange:
    names = parse_rename(argument.split())
    agent = await _named(services, names.old, agent, "/rename")
    report = await agent_tree.rename(services.database, agent, names.new, "ikigai agents rename {} {}")
    return TreeChange(agent, "", report)


async def _kill(services: Services, agent: Agent | None, argument: str, yes: bool) -> TreeChange:
    agent = await _named(services, parse_one_agent("kill", argument), agent, "/kill")
    return TreeChange(agent, "", await agent_tree.kill_agreed(services.database, agent, yes))


async def _archive(services: Services, agent: Agent | None, argument: str, yes: bool) -> TreeChange:
    agent = await _named(services, parse_one_agent("archive", argument), agent, "/archive")
    return TreeChange(agent, "", await agent_tree.archive(services.database, agent, "ikigai agents revive {}"))


async def _revive(services: Services, agent: Agent | None, argument: str, yes: bool) -> TreeChange:
    agent = await _named(services, argument, agent, "/revive")
    return TreeChange(agent, "", await agent_tree.revive(services.database, agent, "ikigai -r {}"))


async def _named(services: Services, name: str, agent: Agent | None, word: str) -> Agent:
    """Return the agent of this name, or without a name `agent`. Raise Rejected, ConfigError."""
    if name:
        return await services.database.agents.find(name)
    if agent is None:
        raise needs_agent(word)
    return agent


TREE_HANDLERS = {"archive": _archive, "fork": _fork, "kill": _kill, "rename": _rename, "revive": _revive}
"""Handlers of the commands that change the tree: they take the agent of -c or -r, the argument, and --yes."""


def needs_agent(word: str) -> ConfigError:
    """Return the error for a command `word` that no agent was named for."""
    return ConfigError(
        f"{word} is for a conversation, and print mode begins a new one.",
        "Add -c for the one you used last, or -r NAME.",
    )


def check_model(services: Services, settings: Choices) -> None:
    """Raise an IkigaiError if these settings name no model, or one that no provider serves."""
    model = settings.get("model")
    if not model:
        if services.config.keys:
            raise Rejected("No model is chosen.", "Choose one with -m PROVIDER/NAME; ikigai models lists them.")
        raise IkigaiError(
            "No model yet: there is no key, and no local model.",
            "Run: ikigai login    or ikigai setup, or name a server in the configuration.",
        )
    services.pool.check(str(model))
