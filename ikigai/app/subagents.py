"""An agent's own agents, over the crew of this program: the port `core.delegating.Delegates`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from ikigai.app import agent_tree as kin
from ikigai.core.agents.mail import WORKS_FOR, Mail
from ikigai.core.agents.subagents import Came, Delegate
from ikigai.core.agents.tree import Made, descendants
from ikigai.core.commands.arguments import model_choice
from ikigai.core.errors import Refused
from ikigai.core.events import Choices, Cleared, Forked, MailSent
from ikigai.core.sanitize import storable
from ikigai.core.state import inputs
from ikigai.core.state.project_limits import ALL
from ikigai.system.paths import directory

if TYPE_CHECKING:
    from ikigai.app.agent_manager import Crew, Member
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents import Agent

LOOK_AFTER = 1.0
"""Seconds after which whoever waits looks into the database: another program may have sent something."""


class Delegation:
    """Of the agent `id`, which is open in `crew`."""

    def __init__(self, crew: Crew, id: str) -> None:
        self._crew, self._id = crew, id

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        async with self._crew.post.starting:
            await self._within_limits()
            child = await self._fork(model, tools, self._crew.world.redaction.own(name))
            self._crew.begin(child)
            child.runtime.tell(inputs.Submitted(prompt, sender=self._own.agent.name, attended=self._attended))
        await self._prompted(child)
        return child.agent.name

    async def _prompted(self, child: Member) -> None:
        """Wait until its prompt is stored: what is not stored dies with the program. Raise Refused if it is refused."""
        with self._crew.post.calls.waiting() as call:
            while child.runtime.memory.open is None and self._crew.at_work(child.agent.id):
                call.look()
                await call.settle(LOOK_AFTER)
        if child.relay.returned_text:
            raise Refused(f"Agent {child.agent.name} was made, and has refused the prompt.", "`send` a shorter one.")

    @property
    def _own(self) -> Member:
        return self._crew.members[self._id]

    @property
    def _attended(self) -> bool:
        """Whether the turn under way is one that the user asked for."""
        turn = self._own.runtime.memory.open
        return turn is not None and turn.attended

    async def _fork(self, model: str, tools: Sequence[str] | None, name: str) -> Member:
        crew, family, parent = self._crew, self._crew.world.database.family, self._own
        memory = parent.runtime.memory
        choices: Choices = {"level": "", **model_choice(model)} if model else {}
        if choices:
            choices, _ = kin.chosen(crew.world, memory, choices)
        id = uuid4()
        choices = {**choices, **_kept(memory, tools), WORKS_FOR: f"{self._id} {id}"}
        own: Choices = {key: value for key, value in {**memory.own, **choices}.items() if value is not None}
        at = await family.point(parent.agent)
        facts = (Forked(parent.agent.name, at), Cleared(own))
        return await crew.open(await family.fork(parent.agent, at, facts, name, directory(), made=id))

    async def _within_limits(self) -> None:
        """Raise Refused where the tree is as deep, as busy or as large as it may be."""
        limits, tree = self._crew.world.config.agents, await self._tree()
        depth = next((each.depth for each in tree if each.id == self._id), 0)
        if depth >= limits.depth:
            raise Refused(f"You stand {depth} deep, and agents may stand {limits.depth} deep.", "Do it yourself.")
        made = [each for each in tree if each.maker]
        if len(made) >= limits.per_tree:
            raise Refused(f"{len(made)} agents were made here, which is the limit.", "Do it yourself, or `send`.")
        busy = [each.name for each in made if self._crew.at_work(each.id)]
        if len(busy) >= limits.at_once:
            raise Refused(f"{len(busy)} agents are at work, which is the limit: {', '.join(busy)}.", "`wait` for one.")

    async def agents(self) -> tuple[Delegate, ...]:
        tree = await self._tree()
        depths, mine = {each.id: each.depth for each in tree}, {each.id for each in descendants(tree, self._id)}
        found = list[Delegate]()
        for place, state, model in await kin.listed(self._crew.world.database, self._crew):
            if (each := place.kin).id in mine:
                depth = depths[each.id] - depths[self._id]
                found.append(Delegate(each.name, depth, state, model, each.turns, each.tokens, each.words))
        return tuple(found)

    async def letter(self, name: str, text: str) -> tuple[MailSent, str]:
        agent = await self._crew.world.database.agents.find(name)
        if agent.id == self._id:
            raise Refused("That is you.", "`agents` lists those that work for you.")
        tree = await self._tree()
        await self._among(agent, tree, "is no agent of this tree")
        work = agent.id in {each.id for each in descendants(tree, self._id)}
        attended = work and self._attended
        mail = MailSent(agent.id, storable(text), agent.name, wants_reply=work, attended=attended)
        return mail, "" if attended else self._crew.post.held.get(agent.id, "")

    async def wait(self, names: Sequence[str], seconds: float) -> Came:
        wanted = await self._wanted(names)
        until, post = time.monotonic() + seconds, self._crew.post
        await post.recovered(self._id)
        with post.calls.waiting(self._id) as call:
            while True:
                call.look()
                helps = bool(await self._others_at_work())
                # At the same moment: who came to rest in between would be named as busy with nobody at work. Whoever is
                # at rest now has stored what it had to say; asked later, the answer would not hold it.
                busy = [agent.name for agent in wanted if self._crew.at_work(agent.id)]
                mails = await post.unclaimed(self._id)
                left = until - time.monotonic()
                ends = bool(mails) if not wanted else not busy
                if ends or not helps or left <= 0:
                    return await self._came(wanted, busy, mails, "" if ends or helps else NOBODY)
                await call.settle(min(left, LOOK_AFTER))

    async def _wanted(self, names: Sequence[str]) -> list[Agent]:
        wanted, tree = list["Agent"](), await self._tree() if names else ()
        for name in dict.fromkeys(names):
            agent = await self._crew.world.database.agents.find(name)
            if agent.id == self._id:
                raise Refused("That is you: nobody waits for oneself.", "`agents` lists those that work for you.")
            await self._among(agent, tree, "is no agent of this tree", dead=True)
            wanted.append(agent)
        return wanted

    async def _came(self, wanted: list[Agent], busy: list[str], mails: list[Mail], why: str) -> Came:
        ids = {agent.id for agent in wanted}
        found = [mail for mail in mails if mail.sender in ids] if wanted else mails[:1]
        said = {mail.sender for mail in found}
        silent = [each for each in wanted if each.id not in said and each.name not in busy]
        named = tuple(f"{each.name} (killed)" if each.killed_at else each.name for each in silent)
        claimed = self._crew.post.claim(self._id, found)
        quiet = silent if wanted or found else await self._tree()
        told = " ".join(filter(None, (*(self._crew.post.why_silent(each.id) for each in quiet), why)))
        return Came(claimed, tuple(busy), named, len(mails) - len(found), told)

    async def _others_at_work(self) -> list[str]:
        """Those of the tree who may still say something: who only waits does not count."""
        calls = self._crew.post.calls
        return [
            each.name
            for each in await self._tree()
            if each.id != self._id and not calls.only_waits(each.id) and self._crew.at_work(each.id)
        ]

    async def kill(self, name: str) -> tuple[tuple[str, ...], tuple[Mail, ...]]:
        database = self._crew.world.database
        agent = await database.agents.find(name)
        mine = descendants(await self._tree(), self._id)
        await self._among(agent, mine, "is no agent of yours")
        dying = await kin.doomed(database, agent)
        if others := [link.name for link in dying if link.id not in {each.id for each in mine}]:
            raise Refused(f"The user has forked {', '.join(others)} from it.", "Only the user can kill those.")
        await kin.kill(database, dying, self._crew, by=self._own.agent.name)
        ids = {link.id for link in dying}
        mails = [mail for mail in await self._crew.post.unclaimed(self._id) if mail.sender in ids]
        return tuple(link.name for link in reversed(dying)), self._crew.post.claim(self._id, mails)

    async def _tree(self) -> tuple[Made, ...]:
        return await self._crew.world.database.mail.tree(self._id)

    async def _among(self, agent: Agent, those: Sequence[Made], what: str, dead: bool = False) -> None:
        """Raise Refused for an agent that is none of those, or, unless it may be `dead`, was killed."""
        if agent.id not in {each.id for each in those}:
            names = ", ".join(each.name for each in those if not each.dead and each.id != self._id) or "none"
            raise Refused(f"{agent.name} {what}.", f"There are: {names}")
        if agent.killed_at and not dead:
            raise Refused(f"{agent.name} was killed.", "`fork` makes another.")


NOBODY = "Nobody who could say more is at work."


def _kept(memory: Memory, tools: Sequence[str] | None) -> Choices:
    """The tools that a child has: of the parent's sets those named, and never one more."""
    off = set(filter(None, str(memory.settings.get("tools_off") or "").split(",")))
    if tools is not None:
        known = {tool.set for tool in memory.run.tools}
        if unknown := set(tools) - known:
            raise Refused(f"There are no tools {', '.join(sorted(unknown))}.", f"Sets: {', '.join(sorted(known))}")
        off |= known - set(tools)
    return {"tools_off": ALL if ALL in off else ",".join(sorted(off))} if off else {}
