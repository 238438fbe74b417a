"""This module carries out /wait: it waits until agents are idle, then returns the last words of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.app import agent_tree
from ikigai.core.errors import Rejected
from ikigai.core.sanitize import clean_line

if TYPE_CHECKING:
    from ikigai.app.agent_manager import AgentManager

WAIT_POLL_INTERVAL = 1.0
"""Seconds after which agents are read again: other processes do not notify this one."""


async def wait_for_agents(manager: AgentManager, own: str, names: Sequence[str]) -> str:
    """Wait for the agents of these names, or for all running ones but `own`; return their last words, a line
    each.

    An agent that asks something counts as idle until it is answered. Raise Rejected for unknown names, for `own`, and
    where no agent is running.
    """
    database = manager.services.database
    ids = {(await database.agents.find(name)).id for name in names}
    if own in ids:
        raise Rejected("That is the agent on the screen.", "/wait is for background agents.")
    with manager.mailbox.calls.waiting() as call:
        while True:
            call.look()
            wanted = list(ids or {*manager.agents, *await database.tree.open_ids()})
            lines = await agent_tree.list_agents(database, manager, unlisted=True, everyone=True, ids=wanted)
            listings = {line.node.agent.id: line for line in lines}
            busy = {id for id, line in listings.items() if id != own and _is_running(manager, line)}
            if not ids and not (ids := busy):
                raise Rejected("No other agent is running.", "/agents lists them.")
            if not ids & busy:
                return "\n".join(_last_words(line) for id, line in listings.items() if id in ids)
            await call.settle(WAIT_POLL_INTERVAL)


def _is_running(manager: AgentManager, line: agent_tree.AgentListing) -> bool:
    """Return True if the agent goes on by itself, in this process or in another one."""
    return line.state == "busy" or (line.state != "asks" and manager.is_running(line.node.agent.id))


def _last_words(line: agent_tree.AgentListing) -> str:
    name = clean_line(line.node.agent.name)
    if line.state == "asks":
        return f"{name} is waiting for your answer: /answer {name}"
    return f"{name} ({line.state}): {' '.join(clean_line(line.node.agent.last_words).split())}"
