"""Carry out the commands about agents: begin, show, rename, end and await them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ikigai.app.agents import agent_tree
from ikigai.core.agents.mail import MAX_MESSAGE_CHARACTERS
from ikigai.core.commands.parsers import ProgramCommand, parse_one_agent, parse_rename
from ikigai.core.errors import IkigaiError, NotReady, Rejected
from ikigai.core.events.events import MailSent
from ikigai.core.state import inputs
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.questions import Question, yes_or_no
from ikigai.repl.commands import switching

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import AgentManager
    from ikigai.app.run.services import Services
    from ikigai.core.agents.tree import AgentLink
    from ikigai.repl.commands.switching import AgentSwitch
    from ikigai.repl.input.input_router import InputRouter
    from ikigai.repl.session import Session
    from ikigai.store.agents.agents import Agent

MAX_LISTED_NAMES = 10
"""Names that the question of /kill lists."""
WAIT_POLL_INTERVAL = 1.0
"""Seconds after which agents are read again: other processes do not notify this one."""


class AgentCommands:
    """Carries out commands about agents."""

    def __init__(self, session: Session, router: InputRouter, services: Services) -> None:
        self._session, self._router, self._services = session, router, services
        self._database, self._view, self._active_agent = services.database, session.view, session.active_agent

    # ── to another agent ──

    async def _change_agent(self, command: ProgramCommand) -> None:
        """Carry out /new, /switch and /fork."""
        with self._router.switching():
            if command == ProgramCommand("switch"):
                picked = await self._pick_agent(command)
                if picked is None:
                    self._active_agent.return_draft()
                    return
                command = picked
            await self._switch_to(switching.choose_destination(self._services, self._active_agent, command))

    async def _pick_agent(self, command: ProgramCommand) -> ProgramCommand | None:
        """Return /switch with the agent that the user picks; None if there was none picked."""
        from ikigai.repl.pickers.agent_picker import AgentSource

        if self._view.bare:
            return command
        current = self._active_agent.agent
        id = await self._session.screen.programs.pick(AgentSource(self._database, current.id if current else ""))
        return ProgramCommand(command.name, id) if id else None

    async def go_to_relative(self, way: str) -> None:
        """Go to a relative, as the keys for that do, or show a hint that it has no such relative."""
        with self._router.switching():
            try:
                await self._switch_to(switching.choose_relative(self._services, self._active_agent, way))
            except Rejected as error:
                self._session.screen.status.show_hint(str(error))

    async def _switch_to(self, pending: Awaitable[AgentSwitch]) -> None:
        """Open the agent of the `pending` switch, or stay with the one on screen."""
        try:
            switch = await pending
            announced = switch.text if switch.continues else ""
            await self._active_agent.switch_to(self._services, switch.agent, announced)
        except IkigaiError:
            self._active_agent.return_draft()
            raise
        if switch.text and not announced:
            self._view.print_text(switch.text)
        if switch.notice:
            self._view.notice(switch.notice)
        if switch.prompt:
            self._router.send(switch.prompt)

    async def _take_over(self, command: ProgramCommand) -> None:
        with self._router.switching():
            try:
                await self._active_agent.take_over(self._services)
            finally:
                self._active_agent.return_draft()

    async def _leave_agent(self, id: str) -> None:
        """Show another agent in place of the one on screen, which goes with the agent `id`."""
        self._router.opening = True
        with self._router.switching():
            await self._active_agent.switch_to(self._services, await switching.fallback_agent(self._services, id))

    # ── changes of agents ──

    async def _rename(self, command: ProgramCommand) -> None:
        request = parse_rename(command.argument.split())
        agent = await self._database.agents.find(request.old) if request.old else self._on_screen()
        text = await agent_tree.rename(self._database, agent, request.new)
        self._active_agent.rename(agent.id, request.new)
        self._view.print_text(text)

    async def _revive(self, command: ProgramCommand) -> None:
        agent = await self._database.agents.find(command.argument)
        self._view.print_text(await agent_tree.revive(self._database, agent))

    async def _archive(self, command: ProgramCommand) -> None:
        """Archive an agent; if it leaves the screen with that, go to the agent above it, or to the one used last."""
        on_screen = self._on_screen()
        name = parse_one_agent("archive", command.argument)
        text = await agent_tree.archive(self._database, await self._database.agents.find(name or on_screen.id))
        now = await self._database.agents.get(on_screen.id)
        if now and now.archived_at and not on_screen.archived_at:
            await self._leave_agent(now.id)
        self._view.print_text(text)

    async def _kill(self, command: ProgramCommand) -> None:
        """Kill an agent and those below it when the user agrees; leave the one on screen if it is among them."""
        on_screen = self._on_screen()
        name = parse_one_agent("kill", command.argument)
        agent = await self._database.agents.find(name or on_screen.id)
        to_kill = await agent_tree.subtree_to_kill(self._database, agent)
        if (await self._view.ask(_kill_question(to_kill))).key != "y":
            self._view.print_text("Cancelled. No agent was killed.")
            return
        to_kill = await agent_tree.subtree_to_kill(self._database, agent)  # there may be more by now
        if self._on_screen().id in {link.id for link in to_kill}:
            await self._leave_agent(to_kill[-1].id)
        for notice in await agent_tree.kill(self._database, to_kill, self._active_agent.manager):
            self._view.notice(notice)
        self._view.print_text(agent_tree.kill_message(to_kill))

    # ── messages ──

    async def _send(self, command: ProgramCommand) -> None:
        """Send a message to another agent."""
        on_screen, (name, _, text) = self._on_screen(), command.argument.partition(" ")
        agent = await self._database.agents.find(name)
        if agent.id == on_screen.id:
            raise Rejected("That is the agent on the screen.", "Write to it without /send.")
        agent.check_living()
        if len(text) > MAX_MESSAGE_CHARACTERS:
            limit = f"A message can have {MAX_MESSAGE_CHARACTERS:,} characters"
            raise Rejected(f"{limit}, and this has {len(text):,}.", "Send less of it.")
        self._router.route(inputs.Send(MailSent(agent.id, text, agent.name, by_user=True)))

    async def _wait(self, command: ProgramCommand) -> None:
        """Wait for other agents, and print their last words."""
        agent, manager = self._on_screen(), self._active_agent.manager
        if manager is None:
            raise NotReady()
        line, names = f"/wait {command.argument}".strip(), command.argument.split()
        self._session.run(self._session.show_running(line, wait_for_agents, manager, agent.id, names))

    def _on_screen(self) -> Agent:
        """Return the agent on screen. Raise NotReady while no agent is on screen."""
        if self._active_agent.agent is None:
            raise NotReady()
        return self._active_agent.agent


def _kill_question(to_kill: list[AgentLink]) -> Question:
    *others, target = [clean_line(link.name) for link in to_kill]
    title = f"Kill {target} and the {len(others):,} below it?" if others else f"Kill {target}?"
    named = ", ".join(reversed(others[-MAX_LISTED_NAMES:])) + (", …" if len(others) > MAX_LISTED_NAMES else "")
    also = (f"With it: {named}.",) if others else ()
    return yes_or_no(title, (*also, "Running work is cancelled. The history stays; /revive brings an agent back."))


AgentHandler: TypeAlias = Callable[[AgentCommands, ProgramCommand], Awaitable[None]]

AGENT_HANDLERS: Mapping[str, AgentHandler] = {
    "archive": AgentCommands._archive,
    "fork": AgentCommands._change_agent,
    "kill": AgentCommands._kill,
    "new": AgentCommands._change_agent,
    "rename": AgentCommands._rename,
    "revive": AgentCommands._revive,
    "send": AgentCommands._send,
    "switch": AgentCommands._change_agent,
    "takeover": AgentCommands._take_over,
    "wait": AgentCommands._wait,
}


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
            lines = await agent_tree.list_agents(database, manager, unlisted=True, ids=wanted)
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
