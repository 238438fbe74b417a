"""The agent on screen, of the several that may be open: who comes on stage, what is drawn of them, and who is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ikigai.app.profiles import missed
from ikigai.core.errors import Broken, Busy, Refused
from ikigai.core.events import Ending, StoredEvent
from ikigai.core.state.memory import Memory, replace
from ikigai.core.views import transcript
from ikigai.repl.input_drafts import Typed

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.agent_manager import Crew, Member
    from ikigai.app.followed_agent import Following
    from ikigai.app.services import World
    from ikigai.core.agents.subagents import Delegates
    from ikigai.store.agents import Agent
    from ikigai.terminal.screen import Screen

HISTORY_EVENTS = 60
"""Events drawn again on start: the last screenfuls."""
NAMED = 2
"""Agents that the status line names of each sort; of more it tells how many."""


class Seat:
    """`member` is None while the agent is only followed; `max_requests` bounds turns."""

    def __init__(self, screen: Screen, max_requests: int) -> None:
        self.agent: Agent | None = None
        self.member: Member | None = None
        self.crew: Crew | None = None
        self._screen, self._max_requests = screen, max_requests
        self._following: Following | None = None  # of an agent that another program writes
        self._memory: Memory | None = None  # of an agent that can only be read
        self.typed = Typed(screen, lambda: self.agent.id if self.agent else "", self._queued)
        self._taking = asyncio.Lock()

    @property
    def runtime(self) -> Runtime | None:
        return self.member.runtime if self.member else None

    @property
    def memory(self) -> Memory | None:
        if self._following:
            return self._following.memory
        return self.member.runtime.memory if self.member else self._memory

    @property
    def busy(self) -> bool:
        return self.member is not None and self.member.runtime.busy

    async def take(self, world: World, agent: Agent) -> None:
        """Put this agent on screen: take its pen and go on, or, where another program holds it, follow that.

        Whoever was there goes on in the wings. Raises Refused for a dead one, and then everything stays as it was.
        """
        agent.check_living()
        async with self._taking:
            await self._take(world, agent)

    async def _take(self, world: World, agent: Agent) -> None:
        crew = self._hire(world)
        member, memory, why = crew.members.get(agent.id), None, None
        try:
            if member is None:
                member = await crew.open(agent)
            else:
                member = await crew.come_back(member)
        except Busy:
            await self.follow(world, agent)
            return
        except Broken as broken:
            memory = await world.look(agent)
            why = broken
        await self._go(world, agent, member, memory)
        if member is None:
            self._shown_only(why)
            return
        if not member.loop:
            self._begin(world, crew, member)

    async def follow(self, world: World, agent: Agent) -> None:
        """Put this agent on screen as another program writes it, or as one would."""
        from ikigai.app.followed_agent import Following

        def written(holder: str) -> None:
            self._screen.agent(following.name, following=True, deserted=not holder)

        def called(name: str) -> None:
            self.renamed(agent.id, name)

        self._hire(world)
        following = Following(world, agent, self._screen, written, called)
        memory = await following.begin()
        try:
            await self._go(world, agent, None, memory, following)
        except BaseException:
            await following.stop()
            raise
        written(following.holder)
        self._screen.notice(following.told())
        following.start()

    async def take_over(self, world: World) -> None:
        """Take the pen of the agent that is followed, and go on with it. Raises Busy while its writer lives."""
        if self.member or not self.agent:
            raise Refused("There is nothing to take over: the agent on screen is written here.", "Send a message.")
        agent = await world.database.agents.get(self.agent.id) or self.agent  # it may have been renamed just now
        if self._following is None:
            await self.take(world, agent)
            return
        async with self._taking:
            await self._take_over(world, agent, self._following)

    async def _take_over(self, world: World, agent: Agent, following: Following) -> None:
        crew = self._hire(world)
        member = await crew.open(agent)
        try:
            await following.finish()
        except BaseException:
            await crew.put_down(member)
            raise
        self.agent, self.member, self._following = member.agent, member, None
        self._screen.agent(member.agent.name)
        self._screen.returned(member.relay.enter(self._screen))
        self._screen.notice(f"{member.agent.name} is written here now.")
        self._begin(world, crew, member)
        await self.typed.recover(agent.id, member, world.database.reader(agent).history)

    def refusal(self) -> Refused:
        """Why the agent on screen takes nothing, and what to do."""
        if self._following:
            return self._following.refusal()
        return Refused("This agent is read-only here.", "/new begins another, /switch goes to one.")

    def _hire(self, world: World) -> Crew:
        from ikigai.app.agent_manager import Crew

        if self.crew is None:
            screen, limit = self._screen, self._max_requests
            self.crew = Crew(
                world, delegates, news=self._told, ledger=screen.stored, lost=self._lost, max_requests=limit
            )
        return self.crew

    def _begin(self, world: World, crew: Crew, member: Member) -> None:
        """Begin the loop of the agent on screen, and say what it lacks."""
        crew.begin(member)
        chosen = member.runtime.memory
        for notice in filter(None, (missed(chosen), world.level_notice(chosen.own))):
            self._screen.notice(notice)
        if not member.runtime.memory.run.resolve(member.runtime.memory.own).get("model"):
            self._screen.notice("There is no model yet: no key, and no local model.")
            self._screen.notice("`ikigai login` stores a key, `ikigai setup` fetches a small local model.")

    def _shown_only(self, why: Broken | None) -> None:
        what, remedy = (why.what, why.remedy) if why else ("", "")
        self._screen.notice(f"{what} It is shown read-only: /new begins another agent, /switch goes to one.".strip())
        if remedy:
            self._screen.notice(remedy)

    async def _go(
        self,
        world: World,
        agent: Agent,
        member: Member | None,
        memory: Memory | None,
        following: Following | None = None,
    ) -> None:
        """Draw the last screenfuls of the agent's history, the rule at its place, and what is under way."""
        moved = self.agent is not None
        if member:
            member.relay.arriving()
        try:
            history = list(await world.database.reader(agent).history(None, HISTORY_EVENTS, glance=True))
        except BaseException:
            if member:
                member.relay.missed(0)
            raise
        await self._step_back()
        self.agent, self.member, self._memory, self._following = agent, member, memory, following
        if following:
            history = following.drawn(history)
        if member:  # from here on nothing waits: what is drawn is what memory is
            history += member.relay.missed(history[-1].id if history else 0)
            memory = member.relay.memory = member.runtime.memory
        assert memory
        self._draw(agent, history, memory, moved)
        text = self.typed.take(agent.id)
        if member:
            text = "\n".join(filter(None, (member.relay.enter(self._screen), text)))
        self._screen.returned(text)
        self._told()
        await self.typed.recover(agent.id, self.member, world.database.reader(agent).history)

    def _queued(self) -> Mapping[str, Sequence[str]]:
        """What the agents of this program wait to send, by their ids."""
        return {each.agent.id: each.relay.queue for each in self.crew.members.values()} if self.crew else {}

    def _draw(self, agent: Agent, history: list[StoredEvent], memory: Memory, moved: bool) -> None:
        skipped = max(0, agent.events - len(history))  # a fork's history holds its ancestors' events, too
        self._screen.agent(agent.name)
        if moved:
            self._screen.another(agent.name)
        self._screen.history(transcript.fresh(history, memory), skipped)
        self._screen.changed(memory)

    async def _step_back(self) -> None:
        """Whoever is on stage goes into the wings; what was followed is let go."""
        if self._following:
            following, self._following = self._following, None
            await following.stop()
        if self.member and self.crew:
            await self.member.relay.leave()
            self.crew.left(self.member)

    def stay(self) -> None:
        """Nobody has moved: what was put by is in the input again."""
        if self.agent:
            self._screen.returned(self.typed.take(self.agent.id))

    async def leave(self) -> str:
        """End all loops and put all pens down; returns the sentences about what is not saved."""
        kept = await self.typed.close(self._leave())
        self.member = self._following = None
        return kept

    async def _leave(self) -> str:
        if self._following:
            await self._following.stop()
        return await self.crew.close(self.member) if self.crew else ""

    def holds(self, runtime: Runtime) -> bool:
        """Whether this is the loop of an agent that is open."""
        return self.crew is not None and any(each.runtime is runtime for each in self.crew.members.values())

    def renamed(self, id: str, name: str) -> None:
        """An agent is called this now."""
        if self.crew:
            self.crew.rename(id, name)
        if self.agent and self.agent.id == id:
            self.agent = replace(self.agent, name=name)
            if self._following:
                self._following.rename(name)
            else:
                self._screen.agent(name)

    def answer(self, name: str) -> None:
        """Show what an agent in the wings asks: the one of that name, or whoever has waited longest. Raises Refused."""
        members = self.crew.members.values() if self.crew else ()
        asking = [each for each in members if each is not self.member and each.relay.asked]
        found = [each for each in asking if name in ("", each.agent.name)]
        if not found:
            there = f"There are: {', '.join(each.agent.name for each in asking)}" if asking else ""
            raise Refused(f"{name} asks nothing." if name else "No agent in the background asks anything.", there)
        first = found[0]
        first.relay.present(first.relay.asked[0], self._screen, first.agent.name)

    # ── what is told of those in the wings ──

    def _told(self) -> None:
        """Say in the status line who asks, whose mail is held, whose turn has ended, and how many are at work."""
        others = [each for each in self.crew.members.values() if each is not self.member] if self.crew else []
        asking = [each for each in others if each.relay.asked]
        held = [each for each in others if self.crew and each.agent.id in self.crew.post.held]
        there = [*asking, *held]
        ended = [each for each in others if each.relay.unseen and each not in there and not each.runtime.busy]
        failed = [each for each in ended if each.relay.unseen is Ending.FAILED]
        done = [each for each in ended if each.relay.unseen is Ending.COMPLETED]
        busy = sum(each.runtime.memory.open is not None and not each.relay.asked for each in others)
        said = [_named(asking, "asks: /answer"), _named(held, "held: /send")]
        said += [_named(failed, "failed"), _named(done, "done"), f"{busy} at work" if busy else ""]
        self._screen.others(" · ".join(filter(None, said)), pressing=bool(there or failed))

    def _lost(self, member: Member, why: str) -> None:
        """An agent's loop has ended by itself."""
        if member is self.member:
            self._memory, self.member = member.runtime.memory, None
            self._screen.changed(replace(self._memory, open=None))  # nothing is under way here any more
            self._screen.queued(())
            self._screen.away(False)
            self._screen.notice(why)
            return
        self.typed.lay_by(member.agent.id, member.relay.returned_text)
        self._screen.notice(f"{member.agent.name}: {why}")
        self._told()


def delegates(crew: Crew, id: str) -> Delegates:
    """The agents of one, imported when its model wants some."""
    from ikigai.app.subagents import Delegation

    return Delegation(crew, id)


def _named(members: list[Member], what: str) -> str:
    if not members:
        return ""
    names = ", ".join(member.agent.name for member in members[:NAMED])
    more = len(members) - NAMED
    return f"{names}{f' and {more} more' if more > 0 else ''} {what}"
