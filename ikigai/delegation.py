"""An agent's own agents, over the crew of this program: the port `core.delegating.Delegates`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai import app, kin
from ikigai.core import inputs
from ikigai.core.commands import model_choice
from ikigai.core.delegating import Delegate, Outcome
from ikigai.core.errors import Refused
from ikigai.core.events import AssistantMessage, Choices, Cleared, Forked, StoredEvent, TurnEnded, UserMessage
from ikigai.core.family import below

if TYPE_CHECKING:
    from ikigai.crew import Crew, Member
    from ikigai.store.agents import Agent

LOOKED_AT = 200
"""Events of an agent that is not open here, among which its last turn is looked for."""


class Delegation:
    """The descendants of the agent `id`, which is open in `crew`."""

    def __init__(self, crew: Crew, id: str) -> None:
        self._crew, self._id = crew, id

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        crew, family = self._crew, self._crew.world.database.family
        parent = self._crew.members[self._id]
        memory = parent.runtime.memory
        choices: Choices = {"level": "", **model_choice(model)} if model else {}
        if tools is not None:
            known = {tool.set for tool in memory.run.tools}
            if unknown := set(tools) - known:
                raise Refused(f"There are no tools {', '.join(sorted(unknown))}.", f"Sets: {', '.join(sorted(known))}")
            choices = {**choices, "tools_off": ",".join(sorted(known - set(tools))) or None}
        if choices:
            choices, _ = kin.chosen(crew.world, memory, choices)
        own: Choices = {key: value for key, value in {**memory.own, **choices}.items() if value is not None}
        at = await family.point(parent.agent)
        facts = (Forked(parent.agent.name, at), Cleared(own))
        child = await crew.open(await family.fork(parent.agent, at, facts, name, app.directory()))
        crew.begin(child)
        child.runtime.tell(inputs.Submitted(prompt))
        return child.agent.name

    async def agents(self) -> tuple[Delegate, ...]:
        mine = {link.id for link in below(await self._crew.world.database.family.links(), self._id)}
        lines = [each for each in await kin.listed(self._crew.world.database, self._crew) if each.place.kin.id in mine]
        own = next((line.place.depth for line in lines if line.place.kin.id == self._id), 0)
        return tuple(
            Delegate(found.name, place.depth - own, state, model, found.turns, found.tokens, found.words)
            for place, state, model in lines
            if (found := place.kin).id != self._id
        )

    async def outcome(self, name: str, seconds: float | None = None) -> Outcome:
        agent = await self._descendant(name)
        member = self._crew.members.get(agent.id)
        if member is None:
            return _last(name, await self._crew.world.database.reader(agent).history(None, LOOKED_AT), agent.id)
        try:
            async with asyncio.timeout(seconds):
                await _rested(member)
        except TimeoutError:
            return Outcome(name, None, member.relay.words)
        ended = member.relay.ended
        return Outcome(name, ended.ending if ended else None, member.relay.words, ended.reason if ended else "")

    async def kill(self, name: str) -> tuple[str, ...]:
        database = self._crew.world.database
        dying = await kin.doomed(database, await self._descendant(name))
        await kin.kill(database, dying, self._crew, by=self._crew.members[self._id].agent.name)
        return tuple(link.name for link in reversed(dying))

    async def _descendant(self, name: str) -> Agent:
        database = self._crew.world.database
        agent = await database.agents.find(name)
        found = [link for link in below(await database.family.links(), self._id) if link.id != self._id]
        if agent.id not in {link.id for link in found}:
            names = ", ".join(link.name for link in found if not link.dead) or "none"
            raise Refused(f"{agent.name} is no agent of yours.", f"Yours: {names}")
        return agent


async def _rested(member: Member) -> None:
    """Wait until an agent has nothing to do, or its loop has ended."""
    assert member.loop
    while not member.loop.done():
        member.relay.moved.clear()
        if not member.runtime.busy:
            return
        moved = asyncio.ensure_future(member.relay.moved.wait())
        try:
            await asyncio.wait({moved, member.loop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()


def _last(name: str, history: Sequence[StoredEvent], agent: str) -> Outcome:
    """What the log says of an agent that is not open here."""
    ended, words = None, ""
    for stored in history:
        match stored.event:
            case _ if stored.agent != agent:
                pass
            case UserMessage():
                ended, words = None, ""
            case AssistantMessage() as said if said.text:
                words = said.text
            case TurnEnded() as end:
                ended = end
            case _:
                pass
    return Outcome(name, ended.ending if ended else None, words, ended.reason if ended else "")
