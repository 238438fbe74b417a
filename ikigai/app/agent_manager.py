"""The agents that this program has open: one loop and one pen each, over one database and one pool of providers.

Nothing here knows of a terminal. Each agent speaks through a `Relay`, which somebody may come in front of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ikigai.app.buffered_view import Relay
from ikigai.app.mailbox import Post
from ikigai.core.errors import Bug, Busy, IkigaiError, StoreError
from ikigai.core.events import UserMessage
from ikigai.core.ports import View
from ikigai.core.sanitize import storable
from ikigai.core.state import inputs
from ikigai.core.state.memory import replace

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.services import World
    from ikigai.core.agents.mail import Mail
    from ikigai.core.agents.subagents import Delegates
    from ikigai.core.events import StoredEvent
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents import Agent
    from ikigai.store.log import AgentLog

log = logging.getLogger(__name__)

LEAVE_WITHIN = 3.0
"""Seconds that an agent's loop, and its pen, have to come to their end."""
IDLE_KEPT = 8
"""Idle agents that stay open with nobody watching; the one left longest ago is put down first."""


class Member:
    """An agent of this program, with its pen. `left` orders agents by when somebody watched them last."""

    def __init__(self, agent: Agent, log: AgentLog, runtime: Runtime, relay: Relay) -> None:
        self.agent, self.log, self.runtime, self.relay = agent, log, runtime, relay
        self.left = 0
        self.loop: asyncio.Task[None] | None = None

    @property
    def resting(self) -> bool:
        """Whether nothing is under way, no summary either, nobody watches, and nobody is asked anything."""
        under_way = self.runtime.busy or self.runtime.looking or self.runtime.condensing
        return not (under_way or self.relay.front or self.relay.awaited or self.relay.asked)

    @property
    def state(self) -> str:
        """What it does, in a word or two."""
        return "asks" if self.relay.asked else self.runtime.memory.status.value


class Crew:
    """`delegates` gives the own agents of one, by its id. `news` is called when there is something to say of an agent
    that nobody watches; `ledger` gets the usage of its requests. `lost` gets an agent whose loop has ended by itself,
    and the sentences about that. With `asks` false questions of agents that nobody watches are answered with their
    default, and nobody is opened for mail. `limits` are further ones of every Runtime.
    """

    def __init__(
        self,
        world: World,
        delegates: Callable[[Crew, str], Delegates],
        *,
        news: Callable[[], object] = lambda: None,
        ledger: Callable[[StoredEvent], object] = lambda event: None,
        lost: Callable[[Member, str], object] = lambda member, why: None,
        asks: bool = True,
        **limits: Any,
    ) -> None:
        self.world, self.members = world, dict[str, Member]()
        self._news, self._ledger, self._lost, self._asks, self._limits = news, ledger, lost, asks, limits
        self._delegates = delegates
        self.post = Post(self, opens=asks)
        self._opening = asyncio.Lock()
        self._resting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._times = 0

    async def open(self, agent: Agent, front: View | None = None) -> Member:
        """The agent with its pen and its memory, its loop not begun; one that is open already is what it is.

        Raises Refused for a dead one, Busy when another program holds it, Broken when it can only be read.
        """
        agent.check_living()
        async with self._opening:
            if self._closing:
                await asyncio.wait({self._closing})
            if member := self.members.get(agent.id):
                return member
            memory, log, told = await self.world.take(agent)
            member = self.join(agent, memory, log, front)
            for sentence in told:
                member.relay.notice(sentence)
            return member

    def join(self, agent: Agent, memory: Memory, log: AgentLog, front: View | None = None, mail: bool = True) -> Member:
        """The same for an agent whose pen somebody has taken; without `mail` none begins a turn of its."""
        relay = Relay(front, self._told, self._ledger, self._asks, lambda stored: self.post.heard(member, stored))
        relay.memory = memory
        post = (lambda: self._collected(member)) if mail else None
        own = partial(self._delegates, self, agent.id)
        runtime = self.world.runtime(agent, memory, log, relay, own, post=post, **self._limits)
        self.members[agent.id] = member = Member(agent, log, runtime, relay)
        self.post.opened(member)
        return member

    async def _collected(self, member: Member) -> tuple[Mail, ...]:
        mails = await self.post.collect(member)
        asyncio.get_running_loop().call_soon(self._told)  # without mail it rests by then
        return mails

    def at_work(self, id: str) -> bool:
        """Whether this agent is open here and has something to do, or is being opened for its mail."""
        member = self.members.get(id)
        if member is None or id in self.post.opening:  # then its loop may not have begun
            return id in self.post.opening
        busy = member.runtime.busy or member.runtime.looking
        return busy and not (member.loop and member.loop.done())

    def begin(self, member: Member) -> None:
        """Begin its loop, unless it has begun."""
        if member.loop is None:
            member.loop = asyncio.create_task(member.runtime.run(), name=f"{member.agent.name} loop")
            member.loop.add_done_callback(lambda loop: self._ended(member, loop))

    async def start(self, agent: Agent) -> None:
        """Open `agent` and start its loop. Raises as `open` does."""
        self.begin(await self.open(agent))

    async def come_back(self, member: Member) -> Member:
        """Somebody is about to come in front of it. Where its pen was lost while it had nothing to do it is opened
        afresh, which raises Busy when another program has that.
        """
        member.relay.arriving()  # else it might be put down
        try:
            await member.log.come_back()
        except Busy:
            if not member.runtime.busy:  # else its loop ends by itself, and keeps what it has
                await self.put_down(member)
                return await self.open(member.agent)
        except StoreError:
            pass
        return member

    def find(self, name: str) -> Member | None:
        return next((member for member in self.members.values() if member.agent.name == name), None)

    def left(self, member: Member) -> None:
        """Nobody watches it any more."""
        self._times += 1
        member.left = self._times
        self._told()

    async def put_down(self, member: Member, pen: bool = True) -> str:
        """End its loop, what it has under way first, and put its pen down; the sentence about what is not saved.

        Without `pen` the caller goes on with its log, and closes that.
        """
        self.members.pop(member.agent.id, None)
        self.post.held.pop(member.agent.id, None)
        self.post.calls.wake()
        self._news()
        if member.loop and not member.loop.done():
            member.runtime.tell(inputs.Interrupted())
            member.runtime.inbox.put_nowait(None)
            done, _ = await asyncio.wait({member.loop}, timeout=LEAVE_WITHIN)
            if not done:
                member.loop.cancel()
                await asyncio.wait({member.loop}, timeout=LEAVE_WITHIN)
        kept = _kept(member)
        if pen:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(member.log.close(), LEAVE_WITHIN)
        return kept

    async def close(self, last: Member | None = None) -> str:
        """Put everybody down at once, `last` behind the others: it will be the agent used last."""
        await self.post.close()
        if ending := {task for task in (self._resting, self._closing) if task}:
            await asyncio.wait(ending, timeout=LEAVE_WITHIN)
        others = [member for member in self.members.values() if member is not last]
        kept = list(await asyncio.gather(*map(self.put_down, others)))
        if last and last.agent.id in self.members:
            kept.append(await self.put_down(last))
        return " ".join(filter(None, kept))

    def rename(self, id: str, name: str) -> None:
        """The agent is called this now."""
        if member := self.members.get(id):
            member.agent = replace(member.agent, name=name)
            member.log.name = name
            self._told()

    def _told(self) -> None:
        """Something has changed in the wings: say so, and put down whoever has rested longest if there are many."""
        self._news()
        if len(self._idle()) > IDLE_KEPT and (self._resting is None or self._resting.done()):
            self._resting = asyncio.create_task(self._rest(), name="rest")

    def _idle(self) -> list[Member]:
        held = self.post.held  # of these the status line tells
        resting = (each for id, each in self.members.items() if each.loop and each.resting and id not in held)
        return sorted(resting, key=lambda member: member.left)

    async def _rest(self) -> None:
        while len(idle := self._idle()) > IDLE_KEPT:
            async with self._opening:  # nobody opens it meanwhile
                if idle[0].resting:
                    await self.put_down(idle[0])
        self._news()

    def _ended(self, member: Member, loop: asyncio.Task[None]) -> None:
        """A loop ended by itself: the pen was lost, or there is a bug. The words stay, nothing more is written."""
        if loop.cancelled() or (error := loop.exception()) is None or self.members.get(member.agent.id) is not member:
            return
        del self.members[member.agent.id]
        kept = _kept(member)
        self._closing = asyncio.create_task(member.log.close(), name="close")
        if not isinstance(error, IkigaiError):
            log.error("the loop of %s ended", member.agent.name, exc_info=error)
            error = Bug("; start again")
        now = f"This agent is read-only now: /switch {member.agent.name} opens it again, or follows it."
        self._lost(member, f"{error} {kept} {now}".replace("  ", " "))


def _kept(member: Member) -> str:
    """Keep in a file what the database has not taken, and give what nobody took back to the input; the sentence that
    says so.
    """
    unsaved, left = member.runtime.unsaved, member.runtime.unsent()
    ran = [UserMessage(storable(each.text), alone=True) for each in left if isinstance(each, inputs.Quote)]
    told, whole = "", True
    if unsaved or ran:
        from ikigai.app.spool import spool

        told, whole = spool(member.log.unsaved(unsaved, ran))
    typed = [each for each in unsaved if isinstance(each, UserMessage)] if not whole else []
    returned = [each.text for each in (*typed, *left) if not isinstance(each, inputs.Quote)]
    if unsaved or returned:
        member.relay.queued(())
        member.relay.returned("\n".join(returned))
    return told
