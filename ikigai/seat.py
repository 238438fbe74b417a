"""The agent on screen: its pen taken, its history drawn, its loop run, and all of that put down again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from ikigai.core import inputs, transcript
from ikigai.core.errors import Busy, IkigaiError
from ikigai.core.events import UserMessage
from ikigai.core.memory import Memory
from ikigai.profiles import missed

if TYPE_CHECKING:
    from ikigai.app import World
    from ikigai.runtime import Runtime
    from ikigai.store.agents import Agent
    from ikigai.store.log import AgentLog
    from ikigai.terminal.screen import Screen

log = logging.getLogger(__name__)

HISTORY_EVENTS = 60
"""Events drawn again on start: the last screenfuls."""
LEAVE_WITHIN = 3.0
"""Seconds that an agent's loop, and its pen, have to come to their end."""


class Seat:
    """At most one agent at a time. `runtime` is None while it is only looked at; `max_requests` bounds its turns."""

    def __init__(self, screen: Screen, max_requests: int) -> None:
        self.agent: Agent | None = None
        self.runtime: Runtime | None = None
        self._screen, self._max_requests = screen, max_requests
        self._store: AgentLog | None = None
        self._loop: asyncio.Task[None] | None = None
        self._memory: Memory | None = None  # of an agent that is only looked at

    @property
    def memory(self) -> Memory | None:
        return self.runtime.memory if self.runtime else self._memory

    @property
    def busy(self) -> bool:
        return self.runtime is not None and self.runtime.busy

    async def take(self, world: World, agent: Agent) -> None:
        """Put this agent on screen: take its pen and go on, or, where another program holds it, show what was said."""
        self.agent, self._memory = agent, None
        try:
            memory, self._store = await world.take(agent)
        except Busy as busy:
            self._memory = memory = await world.look(agent)
            await self._draw(world, agent, memory)
            self._screen.notice(f"{busy.what} It is shown read-only: /new begins another agent, /switch goes to one.")
            return
        await self._draw(world, agent, memory)
        self.runtime = world.runtime(agent, memory, self._store, self._screen, max_requests=self._max_requests)
        self._loop = asyncio.create_task(self.runtime.run(), name=f"{agent.name} loop")
        self._loop.add_done_callback(self._loop_ended)
        for notice in filter(None, (missed(memory), world.level_notice(memory.own))):
            self._screen.notice(notice)
        if not memory.run.resolve(memory.own).get("model"):
            self._screen.notice("There is no model yet: no key, and no local model.")
            self._screen.notice("`ikigai login` stores a key, `ikigai setup` fetches a small local model.")

    async def _draw(self, world: World, agent: Agent, memory: Memory) -> None:
        """The last screenfuls of the agent's history, the rule at its place."""
        history = list(await world.database.reader(agent).history(None, HISTORY_EVENTS))
        skipped = max(0, agent.events - len(history))  # a fork's history holds its ancestors' events, too
        self._screen.agent(agent.name)
        self._screen.history(transcript.fresh(history, memory), skipped)
        self._screen.changed(memory)

    async def leave(self) -> str:
        """End the loop of the agent and put its pen down; returns the sentence about what is not saved."""
        if self.runtime and self._loop:
            self._loop.remove_done_callback(self._loop_ended)
            self.runtime.tell(inputs.Interrupted())
            self.runtime.inbox.put_nowait(None)
            done, _ = await asyncio.wait({self._loop}, timeout=LEAVE_WITHIN)
            if not done:
                self._loop.cancel()
                await asyncio.wait({self._loop}, timeout=LEAVE_WITHIN)
        kept = self._spooled()
        if self._store:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._store.close(), LEAVE_WITHIN)
        self.runtime = self._loop = self._store = None
        return kept

    def _spooled(self) -> str:
        """Keep in a file what the database has not taken; the sentence that says so."""
        if not (self.runtime and self.agent and self.runtime.unsaved):
            return ""
        from ikigai.app import spool

        unsent = [UserMessage(each.text, each.images) for each in self.runtime.unsent()]
        return spool(self.agent.name, (*self.runtime.unsaved, *unsent))

    def _loop_ended(self, loop: asyncio.Task[None]) -> None:
        """The loop ended by itself: the pen was lost, or there is a bug. The words stay, nothing more is written."""
        if loop.cancelled() or (error := loop.exception()) is None:
            return
        if unsent := self.runtime.unsent() if self.runtime else []:
            self._screen.returned("\n".join(each.text for each in unsent))
        kept = self._spooled()
        self._memory, self.runtime = self.memory, None
        if not isinstance(error, IkigaiError):
            log.error("the loop ended", exc_info=error)
            error = IkigaiError("Something in ikigai itself went wrong.", "The log file has the details; start again.")
        self._screen.notice(f"{error} {kept} This agent is read-only now.".replace("  ", " "))
