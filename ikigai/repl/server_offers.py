"""This module offers the servers of models on this machine to the user, once each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ikigai.app import found_servers
from ikigai.core.state.inputs import Offered

if TYPE_CHECKING:
    from ikigai.repl.session import Session


async def offer_servers(session: Session) -> None:
    """Look for such servers where no other model is chosen; print a line for each new one."""
    services, memory = session.services, session.memory
    if not (services and memory and found_servers.are_wanted(memory.model)):
        return
    found = await found_servers.learn_servers(services.config, services.pool)
    loop = session.active_agent.agent_loop
    if loop and loop.memory.limits != services.pool.limits(loop.memory.model):
        loop.put_input(Offered(loop.memory.run.tools))  # which loads memory under the limits known now
    for line in await asyncio.to_thread(found_servers.new_offers, found, services.pool, memory.model):
        session.view.note(line)
