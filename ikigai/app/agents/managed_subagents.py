"""Implement the port `core.agents.subagent_port.Subagents` with the agent manager, and apply the limits.

    depth below the user's agent              2     SubagentLimits
    agents made in a tree                     50    SubagentLimits
    of these, running at once                 8     SubagentLimits
    tool sets                                 the parent's, or fewer
    answers to answers within open turns      16    MAX_ANSWERS in `exchanges`
    turns in a row begun by mail              8     MAX_UNATTENDED_TURNS in `mailbox`

The approval mode, the spending caps and the limit of requests in a turn come from the run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from ikigai.app.agents import agent_tree
from ikigai.app.agents.exchanges import MAX_ANSWERS, NO_ANSWER, refusal
from ikigai.app.run.setting_changes import accept_change
from ikigai.core.agents.mail import WORKS_FOR, Mail
from ikigai.core.agents.subagent_port import Subagent, WaitOutcome
from ikigai.core.agents.tree import SubagentNode, descendants
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import Rejected
from ikigai.core.events.events import Choices, Cleared, Forked, MailSent
from ikigai.core.events.record import Record
from ikigai.core.state import inputs
from ikigai.core.state.decisions.settings import with_choices
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.tool_selection import ToolSelection
from ikigai.system.paths import current_directory

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent

POLL_INTERVAL = 1.0
"""Seconds between checks of the database while a call waits: another program may have sent mail."""


class SubagentLimits(Record, frozen=True):
    """The agents that tools may create. [limits] caps what they cost, and `/tools off agents` lets none be created."""

    depth: int = 2
    """Below the user's agent: one that plans, and those that carry out its parts."""
    at_once: int = 8
    """Requests under way: vendors' limits by the minute refuse more of them on the smaller plans."""
    per_tree: int = 50
    """In all: a model that creates agents in a circle ends, before it has cost much."""


DEFAULT_LIMITS = SubagentLimits()


class ManagedSubagents:
    """The subagents of the agent `id`, which is open in `manager`."""

    def __init__(self, manager: AgentManager, id: str, limits: SubagentLimits = DEFAULT_LIMITS) -> None:
        self._manager, self._id, self._limits = manager, id, limits

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        async with self._manager.mailbox.starting:
            await self._within_limits()
            child = await self._fork(model, tools, self._manager.services.redaction.own(name))
            self._manager.start_loop(child)
            child.agent_loop.put_input(inputs.Submitted(prompt, sender=self._own.agent.name, attended=self._attended))
        await self._wait_for_prompt(child)
        return child.agent.name

    async def _wait_for_prompt(self, child: OpenAgent) -> None:
        """Wait until its prompt is stored: an unsaved one is lost with the program. Raise Rejected if it is refused."""
        with self._manager.mailbox.calls.waiting() as call:
            while child.agent_loop.memory.open is None and self._manager.is_running(child.agent.id):
                call.look()
                await call.settle(POLL_INTERVAL)
        if child.view.returned_text:
            raise Rejected(f"Agent {child.agent.name} was created, but refused the prompt.", "`send` a shorter one.")

    @property
    def _own(self) -> OpenAgent:
        return self._manager.agents[self._id]

    @property
    def _attended(self) -> bool:
        """True if the open turn was started by the user."""
        turn = self._own.agent_loop.memory.open
        return turn is not None and turn.attended

    async def _fork(self, model: str, tools: Sequence[str] | None, name: str) -> OpenAgent:
        manager, tree, parent = self._manager, self._manager.services.database.tree, self._own
        memory = parent.agent_loop.memory
        choices: Choices = {"level": "", **parse_model(model)} if model else {}
        if choices:
            choices, _ = accept_change(manager.services, memory, choices)
        id = uuid4()
        choices = {**choices, **_child_tools(memory, tools), WORKS_FOR: f"{self._id} {id}"}
        own: Choices = {key: value for key, value in {**memory.own, **choices}.items() if value is not None}
        at = await tree.fork_point(parent.agent)
        overridden = tuple(sorted(with_choices(memory, choices).run.overridden))
        events = (Forked(parent.agent.name, at, parent.agent.id), Cleared(own, overridden))
        return await manager.open(await tree.fork(parent.agent, at, events, name, current_directory(), made=id))

    async def _within_limits(self) -> None:
        """Raise Rejected if the tree has reached a limit of depth, running agents or size."""
        limits, tree = self._limits, await self._tree()
        depth = next((each.depth for each in tree if each.id == self._id), 0)
        if depth >= limits.depth:
            raise Rejected(f"You are at depth {depth}, and the limit is {limits.depth}.", "Do it yourself.")
        made = [each for each in tree if each.maker]
        if len(made) >= limits.per_tree:
            raise Rejected(f"{len(made)} agents were created here, which is the limit.", "Do it yourself, or `send`.")
        busy = [each.name for each in made if self._manager.is_running(each.id)]
        if len(busy) >= limits.at_once:
            raise Rejected(f"{len(busy)} agents are running, which is the limit: {', '.join(busy)}.", "`wait` for one.")

    async def agents(self) -> tuple[Subagent, ...]:
        tree = await self._tree()
        depths, mine = {each.id: each.depth for each in tree}, {each.id for each in descendants(tree, self._id)}
        subagents = list[Subagent]()
        database = self._manager.services.database
        for node, state, model, _ in await agent_tree.list_agents(database, self._manager, ids=list(mine)):
            if (each := node.agent).id in mine:
                depth = depths[each.id] - depths[self._id]
                subagents.append(Subagent(each.name, depth, state, model, each.turns, each.tokens, each.last_words))
        return tuple(subagents)

    async def write_message(self, name: str, text: str) -> tuple[MailSent, str]:
        agent = await self._manager.services.database.agents.find(name)
        if agent.id == self._id:
            raise Rejected("That is you.", "`agents` lists those that work for you.")
        tree = await self._tree()
        await self._find_among(agent, tree, "is not an agent of this tree")
        work = agent.id in {each.id for each in descendants(tree, self._id)}
        attended = work and self._attended
        mailbox, answers = self._manager.mailbox, self._manager.mailbox.exchanges.next(self._id)
        if answers >= MAX_ANSWERS and self._manager.is_running(agent.id):
            mailbox.refuse_answer(self._own, agent.name)
            raise refusal(agent.name)
        mail = MailSent(agent.id, storable(text), agent.name, wants_reply=work, attended=attended, answers=answers)
        return mail, (mailbox.refused if attended else mailbox.held | mailbox.refused).get(agent.id, "")

    async def wait(self, names: Sequence[str], seconds: float) -> WaitOutcome:
        wanted = await self._resolve_names(names)
        until, mailbox = time.monotonic() + seconds, self._manager.mailbox
        await mailbox.wait_for_recovery(self._id)
        with mailbox.calls.waiting(self._id) as call:
            while True:
                call.look()
                helps = bool(await self._others_at_work())
                # At the same moment as above: an agent that became idle in between would be listed as busy with none
                # running. An agent that is idle now has stored its mail: read before, its mail would be missing.
                busy = [agent.name for agent in wanted if self._manager.is_running(agent.id)]
                mails = await mailbox.unclaimed(self._id)
                left = until - time.monotonic()
                ends = bool(mails) if not wanted else not busy
                if ends or not helps or left <= 0:
                    return await self._outcome(wanted, busy, mails, "" if ends or helps else NO_AGENT_RUNNING)
                await call.settle(min(left, POLL_INTERVAL))

    async def _resolve_names(self, names: Sequence[str]) -> list[Agent]:
        wanted, tree = list["Agent"](), await self._tree() if names else ()
        for name in dict.fromkeys(names):
            agent = await self._manager.services.database.agents.find(name)
            if agent.id == self._id:
                raise Rejected("That is you: you cannot wait for yourself.", "`agents` lists those that work for you.")
            await self._find_among(agent, tree, "is not an agent of this tree", dead=True)
            wanted.append(agent)
        return wanted

    async def _outcome(self, wanted: list[Agent], busy: list[str], mails: list[Mail], why: str) -> WaitOutcome:
        ids = {agent.id for agent in wanted}
        matches = [mail for mail in mails if mail.sender in ids] if wanted else mails[:1]
        senders, mailbox = {mail.sender for mail in matches}, self._manager.mailbox
        silent = [each for each in wanted if each.id not in senders and each.name not in busy]
        names = tuple(f"{each.name} (killed)" if each.killed_at else each.name for each in silent)
        claimed = mailbox.claim(self._id, matches)
        quiet = silent if wanted or matches else await self._tree()
        no_answer = NO_ANSWER if not matches and mailbox.exchanges.next(self._id) >= MAX_ANSWERS - 1 else ""
        message = " ".join(filter(None, (*(mailbox.hold_reason(each.id) for each in quiet), no_answer, why)))
        return WaitOutcome(claimed, tuple(busy), names, len(mails) - len(matches), message)

    async def _others_at_work(self) -> list[str]:
        """Return the other agents of the tree that may still send mail; agents that only wait do not count."""
        calls = self._manager.mailbox.calls
        return [
            each.name
            for each in await self._tree()
            if each.id != self._id and not calls.only_waits(each.id) and self._manager.is_running(each.id)
        ]

    async def kill(self, name: str) -> tuple[tuple[str, ...], tuple[Mail, ...]]:
        database = self._manager.services.database
        agent = await database.agents.find(name)
        mine = descendants(await self._tree(), self._id)
        await self._find_among(agent, mine, "is not one of your agents")
        links = await agent_tree.subtree_to_kill(database, agent)
        if others := [link.name for link in links if link.id not in {each.id for each in mine}]:
            raise Rejected(f"The user has forked {', '.join(others)} from it.", "Only the user can kill those.")
        await agent_tree.kill(database, links, self._manager, by=self._own.agent.name)
        ids = {link.id for link in links}
        mails = [mail for mail in await self._manager.mailbox.unclaimed(self._id) if mail.sender in ids]
        return tuple(link.name for link in reversed(links)), self._manager.mailbox.claim(self._id, mails)

    async def _tree(self) -> tuple[SubagentNode, ...]:
        return await self._manager.services.database.mail.tree(self._id)

    async def _find_among(self, agent: Agent, those: Sequence[SubagentNode], what: str, dead: bool = False) -> None:
        """Raise Rejected for an agent that is not among `those`, or that was killed, unless `dead` allows that."""
        if agent.id not in {each.id for each in those}:
            names = ", ".join(each.name for each in those if not each.dead and each.id != self._id) or "none"
            raise Rejected(f"{agent.name} {what}.", f"There are: {names}")
        if agent.killed_at and not dead:
            raise Rejected(f"{agent.name} was killed.", "`fork` makes another.")


NO_AGENT_RUNNING = "No running agent could send more."


def _child_tools(memory: Memory, tools: Sequence[str] | None) -> Choices:
    """Return the tools of a child: the named sets among the parent's, and never another one."""
    selection = ToolSelection.of(memory.settings)
    if tools is not None:
        known = {tool.set for tool in memory.run.tools}
        if unknown := set(tools) - known:
            raise Rejected(f"There are no tools {', '.join(sorted(unknown))}.", f"Sets: {', '.join(sorted(known))}")
        selection = selection.tightened(ToolSelection(tuple(sorted(known - set(tools)))))
    by_default = ToolSelection.of(memory.run.resolve({}))
    return {"tools_off": selection.text} if selection.off or not selection.is_like(by_default) else {}
