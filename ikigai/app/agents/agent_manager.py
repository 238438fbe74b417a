"""Manage the agents that this program has open, each with its loop and write lock, over one database.

Nothing here depends on a terminal. Each agent writes to a `BufferedView`, to which a front end may attach.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ikigai.agent.loop_options import DEFAULTS, LoopOptions
from ikigai.app.agents.buffered_view import BufferedView
from ikigai.app.agents.mailbox import Mailbox
from ikigai.app.unsaved.command_outputs import CommandOutputs
from ikigai.core.errors import AgentLocked, Bug, IkigaiError, LogDiverged, Rejected, StoreError
from ikigai.core.events.events import Ending, UserMessage
from ikigai.core.state import inputs
from ikigai.core.state.memory import AgentStatus, replace

if TYPE_CHECKING:
    from ikigai.agent.loop import AgentLoop
    from ikigai.app.run.services import Services
    from ikigai.app.unsaved.spool import SpoolResult
    from ikigai.core.agents.mail import Mail
    from ikigai.core.agents.subagent_port import Subagents
    from ikigai.core.events.events import StoredEvent
    from ikigai.core.ports import AttachedView
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent
    from ikigai.store.log.log import AgentLog

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT = 3.0
"""Seconds that an agent's loop, and its write lock, have to come to their end."""
MAX_IDLE_AGENTS = 8
"""Idle agents that stay open while detached; the one detached longest ago is unloaded first."""


class OpenAgent:
    """An open agent with its write lock. `last_detached` orders agents by when a front end detached from them.

    `make_loop` makes its loop, with the first use of that: what an agent has said is drawn before those modules load.
    """

    def __init__(
        self,
        agent: Agent,
        log: AgentLog,
        memory: Memory,
        make_loop: Callable[[], AgentLoop],
        buffered_view: BufferedView,
        outputs: CommandOutputs,
    ) -> None:
        self.agent, self.log, self.outputs, self.view = agent, log, outputs, buffered_view
        self._memory, self._make_loop = memory, make_loop
        self._agent_loop: AgentLoop | None = None
        self.last_detached = 0
        self.loop_task: asyncio.Task[None] | None = None

    @property
    def agent_loop(self) -> AgentLoop:
        if self._agent_loop is None:
            self._agent_loop = self._make_loop()
        return self._agent_loop

    @property
    def memory(self) -> Memory:
        return self._agent_loop.memory if self._agent_loop else self._memory

    @property
    def busy(self) -> bool:
        """True while its loop has a turn, or input, to work on."""
        return self._agent_loop is not None and self._agent_loop.busy

    @property
    def is_idle(self) -> bool:
        """True if no turn, mail check, summary or question is open and no front end is attached or attaching."""
        loop = self._agent_loop
        busy = loop and (loop.busy or loop.checks_mail or loop.condensing)
        view = self.view
        return not (busy or view.attached_view or view.is_buffering or view.questions)

    @property
    def state(self) -> str:
        """The state of the agent in a word or two."""
        if self.view.questions:
            return "asks"
        status = self.memory.status
        is_done = status is AgentStatus.IDLE and self.view.unseen_ending is Ending.COMPLETED
        return "done" if is_done else status.value  # as in the status line


class _AskingFlag:
    """Keeps the flag in the database that an agent waits for its user; errors while storing it are ignored."""

    def __init__(self, log: AgentLog) -> None:
        self._log, self._asks, self._task = log, False, asyncio.Future[None]()
        self._task.set_result(None)

    def set(self, asks: bool) -> None:
        self._asks = asks
        if self._task.done():
            self._task = asyncio.create_task(self._store(), name="asking")

    async def _store(self) -> None:
        stored: bool | None = None
        while stored is not self._asks:
            stored = self._asks
            with contextlib.suppress(IkigaiError):
                await self._log.asks(stored)


class _AgentMail:
    """The mail of one open agent: the `agent.loop_options.MailSource` of its AgentLoop."""

    def __init__(self, mailbox: Mailbox, open_agent: Callable[[], OpenAgent], on_change: Callable[[], None]) -> None:
        self._mailbox, self._open_agent, self._on_change = mailbox, open_agent, on_change

    async def collect(self) -> tuple[Mail, ...]:
        mails = await self._mailbox.collect(self._open_agent())
        asyncio.get_running_loop().call_soon(self._on_change)  # without mail it is idle by then
        return mails

    def refuse(self, mails: tuple[Mail, ...], error: Rejected) -> None:
        self._mailbox.refuse(self._open_agent(), mails, error)
        self._on_change()


class AgentManager:
    """Opens, registers, evicts and closes the agents of this program.

    `subagents` returns the subagents of an agent, by its id. `on_change` is called when the state of a detached agent
    changed; `on_usage` gets the usage of its requests. `on_lost` gets an agent whose loop has ended by itself, and the
    message about it. With `can_ask` false, questions of detached agents are answered with their default, and no agent
    is opened for mail. `options` hold for every loop, except mail and outputs.
    """

    def __init__(
        self,
        services: Services,
        subagents: Callable[[AgentManager, str], Subagents],
        *,
        on_change: Callable[[], object] = lambda: None,
        on_usage: Callable[[StoredEvent], object] = lambda event: None,
        on_lost: Callable[[OpenAgent, str], object] = lambda open_agent, message: None,
        can_ask: bool = True,
        options: LoopOptions = DEFAULTS,
    ) -> None:
        self.services, self.agents = services, dict[str, OpenAgent]()
        self._on_change, self._on_usage, self._on_lost = on_change, on_usage, on_lost
        self._can_ask, self._options = can_ask, options
        self._subagents = subagents
        self.mailbox = Mailbox(self, opens=can_ask)
        self._opening = asyncio.Lock()
        self._evicting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._kept: list[SpoolResult] = []  # of loops that ended by themselves
        self._detach_count = 0

    async def open(self, agent: Agent, front: AttachedView | None = None) -> OpenAgent:
        """Return the agent with its write lock and memory, its loop not started; return an open agent unchanged.

        Raise Rejected if it was killed, AgentLocked if another program has its write lock, CorruptLineage if it can
        only be read.
        """
        agent.check_living()
        async with self._opening:
            if self._closing:
                await asyncio.wait({self._closing})
            if open_agent := self.agents.get(agent.id):
                return open_agent
            memory, log, messages = await self.services.acquire(agent)
            open_agent = self.register(agent, memory, log, front)
            for message in messages:
                open_agent.view.notice(message)
            return open_agent

    def register(
        self, agent: Agent, memory: Memory, log: AgentLog, front: AttachedView | None = None, mail: bool = True
    ) -> OpenAgent:
        """Register an agent whose write lock is already held. With `mail` false, mail never starts a turn."""

        def make_loop() -> AgentLoop:
            from ikigai.app.agents import agent_services

            return agent_services.make_loop(self.services, agent, memory, log, view, subagents, options)

        on_stored = lambda stored: self.mailbox.on_stored(open_agent, stored)  # noqa: E731
        view = BufferedView(self._report_change, self._on_usage, self._can_ask, on_stored, _AskingFlag(log).set)
        view.begin(memory)
        if front:
            view.attach(front)
        log.report = view.notice
        source = _AgentMail(self.mailbox, lambda: open_agent, self._report_change) if mail else None
        subagents, outputs = partial(self._subagents, self, agent.id), CommandOutputs(log, view.notice)
        options = self._options._replace(mail=source, outputs=outputs)
        self.agents[agent.id] = open_agent = OpenAgent(agent, log, memory, make_loop, view, outputs)
        self.mailbox.on_opened(open_agent)
        return open_agent

    def is_running(self, id: str) -> bool:
        """Return True if this agent is open here and has work to do, or is being opened for its mail."""
        open_agent = self.agents.get(id)
        if open_agent is None or id in self.mailbox.opening:  # then its loop may not have started
            return id in self.mailbox.opening
        busy = open_agent.agent_loop.busy or open_agent.agent_loop.checks_mail
        return busy and not (open_agent.loop_task and open_agent.loop_task.done())

    def start_loop(self, open_agent: OpenAgent) -> None:
        """Start its loop, unless it has been started."""
        if open_agent.loop_task is None:
            open_agent.loop_task = asyncio.create_task(
                open_agent.agent_loop.run(), name=f"{open_agent.agent.name} loop"
            )
            open_agent.loop_task.add_done_callback(lambda loop: self._on_loop_end(open_agent, loop))

    def offer_tools(self) -> None:
        """Offer the current tools of this program to every open agent."""
        for open_agent in self.agents.values():
            open_agent.agent_loop.put_input(inputs.Offered(self.services.run.tools))

    async def start(self, agent: Agent) -> None:
        """Open `agent` and start its loop. Raise the errors of `open`."""
        self.start_loop(await self.open(agent))

    async def reacquire(self, open_agent: OpenAgent) -> OpenAgent:
        """Prepare an open agent for a front end: reacquire its write lock, or open an idle one that lost it anew.

        Raise AgentLocked if another program has the write lock.
        """
        open_agent.view.start_buffering()  # else it might be evicted
        try:
            await open_agent.log.mark_used()
        except AgentLocked:
            if not open_agent.agent_loop.busy:  # else its loop ends by itself and keeps its unsaved events
                await self.unload(open_agent)
                return await self.open(open_agent.agent)
        except StoreError:
            pass
        return open_agent

    def find(self, name: str) -> OpenAgent | None:
        return next((open_agent for open_agent in self.agents.values() if open_agent.agent.name == name), None)

    def detached(self, open_agent: OpenAgent) -> None:
        """Note that the front end has detached from the agent."""
        self._detach_count += 1
        open_agent.last_detached = self._detach_count
        self._report_change()

    async def unload(self, open_agent: OpenAgent, write_lock: bool = True) -> str:
        """Interrupt its turn, end its loop and release its write lock; return the message about unsaved events.

        With `write_lock` false the log stays open: the caller uses and closes it.
        """
        self.agents.pop(open_agent.agent.id, None)
        self.mailbox.clear_held(open_agent.agent.id)
        self.mailbox.calls.wake()
        self._on_change()
        if open_agent.loop_task and not open_agent.loop_task.done():
            open_agent.agent_loop.put_input(inputs.Interrupted())
            open_agent.agent_loop.inbox.put_nowait(None)
            done, _ = await asyncio.wait({open_agent.loop_task}, timeout=SHUTDOWN_TIMEOUT)
            if not done:
                open_agent.loop_task.cancel()
                await asyncio.wait({open_agent.loop_task}, timeout=SHUTDOWN_TIMEOUT)
        message, _ = _keep_unsaved(open_agent)
        if write_lock:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(open_agent.log.close(), SHUTDOWN_TIMEOUT)
        return message

    async def close(self, last: OpenAgent | None = None) -> str:
        """Unload all agents in parallel, and `last` after the others: it will be the agent used last.

        Return the messages about unsaved events, also from loops that had ended by themselves.
        """
        await self.mailbox.close()
        if ending := {task for task in (self._evicting, self._closing) if task}:
            await asyncio.wait(ending, timeout=SHUTDOWN_TIMEOUT)
        others = [open_agent for open_agent in self.agents.values() if open_agent is not last]
        messages = list(await asyncio.gather(*map(self.unload, others)))
        if last and last.agent.id in self.agents:
            messages.append(await self.unload(last))
        messages += [rest.message for rest in self._kept if rest.path.exists()]
        return " ".join(filter(None, messages))

    def rename(self, id: str, name: str) -> None:
        """Set the new name of an agent, if it is open."""
        if open_agent := self.agents.get(id):
            open_agent.agent = replace(open_agent.agent, name=name)
            open_agent.log.name = name
            self._report_change()

    def _report_change(self) -> None:
        """Report a change of a detached agent, and evict idle agents if there are many."""
        self._on_change()
        if len(self._idle_agents()) > MAX_IDLE_AGENTS and (self._evicting is None or self._evicting.done()):
            self._evicting = asyncio.create_task(self._evict_idle(), name="evict")

    def _idle_agents(self) -> list[OpenAgent]:
        is_held = self.mailbox.is_held  # the status line shows these
        idle = [each for id, each in self.agents.items() if each.loop_task and each.is_idle and not is_held(id)]
        idle = [each for each in idle if not each.agent.ephemeral]  # their write locks keep others from purging them
        return sorted(idle, key=lambda open_agent: open_agent.last_detached)

    async def _evict_idle(self) -> None:
        while len(idle := self._idle_agents()) > MAX_IDLE_AGENTS:
            async with self._opening:  # it cannot be opened meanwhile
                if idle[0].is_idle:
                    await self.unload(idle[0])
        self._on_change()

    def _on_loop_end(self, open_agent: OpenAgent, loop: asyncio.Task[None]) -> None:
        """Handle a loop that ended by itself: the write lock was lost, or there is a bug. The agent stays readable."""
        id = open_agent.agent.id
        if loop.cancelled() or (error := loop.exception()) is None or self.agents.get(id) is not open_agent:
            return
        del self.agents[id]
        message, rest = _keep_unsaved(open_agent)
        if isinstance(error, LogDiverged) and rest and rest.is_complete:
            self._closing = asyncio.create_task(self._fork_rest(open_agent, error, rest), name="fork")
            return
        if rest:
            self._kept.append(rest)
        self._closing = asyncio.create_task(open_agent.log.close(), name="close")
        if not isinstance(error, IkigaiError):
            log.error("the loop of %s ended", open_agent.agent.name, exc_info=error)
            error = Bug("; start again")
        now = f"This agent is read-only now: /switch {open_agent.agent.name} opens or follows it again."
        self._on_lost(open_agent, f"{error} {message} {now}".replace("  ", " "))

    async def _fork_rest(self, open_agent: OpenAgent, error: LogDiverged, rest: SpoolResult) -> None:
        """Make a fork of the events that the log lacks, and report it."""
        from ikigai.app.unsaved.unsaved_events import fork_rest

        await open_agent.log.close()
        try:
            message = f"{error} {await fork_rest(self.services.database, rest.path)}"
        except IkigaiError as failure:
            log.warning("no fork was made of %s: %s", rest.path, failure)
            message = f"{error} {rest.message}"
        self._on_lost(open_agent, message)


def _keep_unsaved(open_agent: OpenAgent) -> tuple[str, SpoolResult | None]:
    """Write unsaved events to a file and return unsent messages to the prompt; return the message about it, and about
    the file alone.
    """
    from ikigai.app.unsaved.spool import spool_rest

    unsaved, unsent = open_agent.agent_loop.unsaved, open_agent.agent_loop.unsent()
    messages, is_complete = list[str](), True
    if rest := spool_rest(open_agent.log, unsaved):
        messages.append(rest.message)
        is_complete = rest.is_complete
    outputs = open_agent.outputs
    messages += [outputs.message(outputs.save(each)) for each in unsent if isinstance(each, inputs.Quote)]
    typed = [each for each in unsaved if isinstance(each, UserMessage)] if not is_complete else []
    returned = [each.text for each in (*typed, *unsent) if not isinstance(each, inputs.Quote)]
    if unsaved or returned:
        open_agent.view.queued(())
        open_agent.view.restore_input("\n".join(returned))
    return " ".join(filter(None, messages)), rest
