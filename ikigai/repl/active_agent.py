"""Put one of the open agents on screen: attach agents, draw them, and detach them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import structs

from ikigai.core.errors import AgentLocked, CorruptLineage, Rejected
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.core.views import transcript
from ikigai.repl.drafts.input_drafts import InputDrafts

if TYPE_CHECKING:
    from ikigai.agent.input_queue import InputQueue
    from ikigai.agent.loop import AgentLoop
    from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
    from ikigai.app.agents.buffered_view import BufferedView
    from ikigai.app.agents.followed_agent import FollowedAgent
    from ikigai.app.run.services import Services
    from ikigai.core.agents.subagent_port import Subagents
    from ikigai.core.state.memory import Memory
    from ikigai.repl.watch_choice import WatchChoice
    from ikigai.store.agents.agents import Agent
    from ikigai.terminal.screen import Screen

HISTORY_EVENTS = 60
"""Events drawn again on start: the last screenfuls."""


class ActiveAgent:
    """The agent on screen, among the open agents of this process.

    `open_agent` is None while the agent is only followed. `max_requests` is the limit of requests for one message.
    `submit` takes the command that the user chooses for an agent that is open elsewhere.
    """

    def __init__(self, screen: Screen, max_requests: int, submit: Callable[[str], None]) -> None:
        self.agent: Agent | None = None
        self.open_agent: OpenAgent | None = None
        self.manager: AgentManager | None = None
        self._view, self._status, self._max_requests = screen.view, screen.status, max_requests
        self._followed: FollowedAgent | None = None  # while another process holds the write lock
        self._memory: Memory | None = None  # of an agent that can only be read
        self._being_read = ""  # the message whose attachments are being read
        self.drafts = InputDrafts(screen, self._agent_id, self._queued_texts, self._unstored_texts)
        self._switch_lock = asyncio.Lock()
        self._is_new = False  # the agent has no conversation yet
        self._submit = submit
        self._watch_choice: WatchChoice | None = None  # what to do here, while another process writes

    @property
    def agent_loop(self) -> AgentLoop | None:
        return self.open_agent.agent_loop if self.open_agent else None

    @cached_property
    def _own_view(self) -> BufferedView:
        """The view that is attached while no open agent is on screen."""
        from ikigai.app.agents.buffered_view import BufferedView

        view = BufferedView()
        view.attach(self._view)
        return view

    @cached_property
    def _own_queue(self) -> InputQueue:
        """The queue of input that is typed while no open agent is on screen."""
        from ikigai.agent.input_queue import InputQueue

        return InputQueue(self._own_view)

    @property
    def queue(self) -> InputQueue:
        """The queue of texts that the user has entered and no turn has taken yet."""
        return self.open_agent.agent_loop.queue if self.open_agent else self._own_queue

    @property
    def memory(self) -> Memory | None:
        if self._followed:
            return self._followed.memory
        return self.open_agent.memory if self.open_agent else self._memory

    @property
    def busy(self) -> bool:
        return self.open_agent is not None and self.open_agent.busy

    async def switch_to(self, services: Services, agent: Agent, announced: str = "") -> None:
        """Put `agent` on screen: acquire its write lock, or follow it if another process holds the lock.

        The agent that was on screen goes on detached. Raise Rejected for a killed agent; then the screen stays as it
        was. For a new agent whose past stands on the screen `announced` is shown in place of it.
        """
        agent.check_living()
        async with self._switch_lock:
            await self._switch_to(services, agent, announced)

    async def _switch_to(self, services: Services, agent: Agent, announced: str) -> None:
        manager = self._build_manager(services)
        open_agent, memory, corrupt = manager.agents.get(agent.id), None, None
        try:
            if open_agent is None:
                open_agent = await manager.open(agent)
            else:
                open_agent = await manager.reacquire(open_agent)
        except AgentLocked:
            await self.follow(services, agent)
            from ikigai.repl.watch_choice import WatchChoice

            self._watch_choice = WatchChoice(self._view, self._submit)
            return
        except CorruptLineage as error:
            memory = await services.load_memory(agent)
            corrupt = error
        await self._show(services, agent, open_agent, memory, announced=announced)
        if open_agent is None:
            self._show_read_only(corrupt)
            return
        if not open_agent.loop_task:
            self._begin(services, manager, open_agent)

    async def follow(self, services: Services, agent: Agent) -> None:
        """Put `agent` on screen read-only, and show what another process writes."""
        from ikigai.app.agents.followed_agent import FollowedAgent

        def on_lock_owner(lock_owner: str) -> None:
            if not lock_owner:
                self._end_watch_choice()
            self._status.set_agent(followed.name, following=True, deserted=not lock_owner, asking=followed.asks)

        def on_rename(name: str) -> None:
            self.rename(agent.id, name)

        self._build_manager(services)
        followed = FollowedAgent(services, agent, self._own_view, on_lock_owner, on_rename)
        memory = await followed.begin()
        try:
            await self._show(services, agent, None, memory, followed)
        except BaseException:
            await followed.stop()
            raise
        on_lock_owner(followed.owner)
        self._view.notice(str(followed.refusal()))
        followed.start()

    async def take_over(self, services: Services) -> None:
        """Acquire the write lock of the followed agent and go on with it.

        Raise AgentLocked while the lock owner is alive.
        """
        if self.open_agent or not self.agent:
            raise Rejected("Nothing to take over: you already control this agent.", "Send a message.")
        agent = await services.database.agents.get(self.agent.id) or self.agent  # it may have been renamed just now
        if self._followed is None:
            await self.switch_to(services, agent)
            return
        async with self._switch_lock:
            await self._take_over(services, agent, self._followed)

    async def _take_over(self, services: Services, agent: Agent, followed: FollowedAgent) -> None:
        manager = self._build_manager(services)
        open_agent = await manager.open(agent)
        try:
            await followed.catch_up()
        except BaseException:
            await manager.unload(open_agent)
            raise
        self.agent, self._followed = open_agent.agent, None
        self._end_watch_choice()
        await self._own_view.detach()
        self._set_open(open_agent)
        self._status.set_agent(open_agent.agent.name, ephemeral=open_agent.agent.ephemeral)
        open_agent.view.continue_reply(self._own_view)
        self._view.restore_input(open_agent.view.attach(self._view))
        self._view.note(f"You write to {open_agent.agent.name} here now.")
        self._begin(services, manager, open_agent)
        await self.drafts.recover(agent.id, open_agent, services.database.reader(agent).history)

    def refusal(self) -> Rejected:
        """The reason why the agent on screen takes no input, with a remedy."""
        if self._followed:
            return self._followed.refusal()
        return Rejected("This agent can only be read here.", "/new starts a conversation, /switch opens another.")

    def _build_manager(self, services: Services) -> AgentManager:
        from ikigai.agent.loop_options import LoopOptions
        from ikigai.app.agents.agent_manager import AgentManager

        if self.manager is None:
            self.manager = AgentManager(
                services,
                subagents_of,
                on_change=self._show_background,
                on_usage=self._view.stored,
                on_lost=self._on_lost,
                options=LoopOptions(self._max_requests),
            )
        return self.manager

    def _begin(self, services: Services, manager: AgentManager, open_agent: OpenAgent) -> None:
        """Start the loop of the agent on screen, and show notices about its model, profile and thinking level."""
        manager.start_loop(open_agent)
        from ikigai.app.run.setting_changes import opening_notices

        chosen = open_agent.memory
        for notice in opening_notices(services, chosen):
            self._view.notice(notice)
        if not (self._is_new or chosen.run.resolve(chosen.own).get("model")):  # the first screen also says so
            from ikigai.repl.welcome import missing_model, way_to_a_model

            for notice in missing_model(way_to_a_model(services.config.keys, services.known_models())):
                self._view.notice(notice)

    def _show_read_only(self, corrupt: CorruptLineage | None) -> None:
        what, remedy = (corrupt.what, corrupt.remedy) if corrupt else ("", "")
        self._view.notice(
            f"{what} It can only be read here. /new starts a conversation, /switch opens another.".strip()
        )
        if remedy:
            self._view.notice(remedy)

    async def _show(
        self,
        services: Services,
        agent: Agent,
        open_agent: OpenAgent | None,
        memory: Memory | None,
        followed: FollowedAgent | None = None,
        announced: str = "",
    ) -> None:
        """Draw the agent's history, the context rule at its place, and the work under way.

        At the start these are the last screenfuls, at a switch a rule and the last turn, for a fork one line.
        """
        is_switch = self.agent is not None
        if open_agent:
            open_agent.view.start_buffering()
        try:
            history = list(await services.database.reader(agent).history(None, HISTORY_EVENTS, glance=True))
        except BaseException:
            if open_agent:
                open_agent.view.drain_buffer(0)
            raise
        await self._detach()
        self.agent, self._memory, self._followed = agent, memory, followed
        self._set_open(open_agent)
        view = open_agent.view if open_agent else self._own_view
        if followed:
            history = followed.known_rows(history)
        if open_agent:  # no await from here on: the drawing agrees with memory
            history += view.drain_buffer(history[-1].id if history else 0)
            memory = open_agent.memory
            view.changed(memory)
        else:
            assert memory
            view.begin(memory)
        self._is_new = agent.events <= len(history) and not any(isinstance(row.event, UserMessage) for row in history)
        if announced:
            self._status.set_agent(agent.name, ephemeral=agent.ephemeral)
            self._view.forget_agent()
            self._view.print_text(announced)
        else:
            self._draw(agent, history, memory, is_switch)
        self._status.set_meter(services.before_turn)
        if self._is_new and open_agent:
            from ikigai.repl.welcome import first_lines, way_to_a_model
            from ikigai.system.paths import current_directory
            from ikigai.terminal.input.prompt_finder import shorten_home

            known = services.known_models() if memory.provider in ("", "local") else ()
            way = way_to_a_model(services.config.keys, known)
            folder = shorten_home(current_directory())
            self._status.show_first_screen(partial(first_lines, way, folder), memory)
        text = self.drafts.pop(agent.id)
        self._view.restore_input("\n".join(filter(None, (view.attach(self._view), text))))
        self._show_background()
        if not is_switch:
            await self._view.drawn()  # before the first draft, whose module has to be loaded
        await self.drafts.recover(agent.id, self.open_agent, services.database.reader(agent).history)

    def _queued_texts(self) -> Mapping[str, Sequence[str]]:
        """Return the texts that wait to be sent, by the ids of this process's agents."""
        open_agents = self.manager.agents.values() if self.manager else ()
        return {each.agent.id: each.view.live_state.waiting for each in open_agents}

    def _agent_id(self) -> str:
        return self.agent.id if self.agent else ""

    def keep_while_reading(self, text: str) -> None:
        """Keep a message as a draft while its attachments are being read; "" once they are."""
        self._being_read = text
        self.drafts.changed(entered=bool(text))

    def _unstored_texts(self) -> Sequence[str]:
        """Return the messages that were entered, are not in the log yet, and are not shown as waiting."""
        open_agent, unstored = self.open_agent, list[str]()
        if open_agent:
            waiting = open_agent.view.live_state.waiting
            unstored += open_agent.agent_loop.queue.unstored_texts(waiting)
        return [*unstored, *filter(None, [self._being_read])]

    def _draw(self, agent: Agent, history: list[StoredEvent], memory: Memory, is_switch: bool) -> None:
        skipped = max(0, agent.events - len(history))  # a fork's history also holds its ancestors' events
        self._status.set_agent(agent.name, ephemeral=agent.ephemeral)
        if is_switch:
            self._view.show_other_agent(agent.name)
        goes_on = memory.open is not None and (self.open_agent or self._followed)
        held = memory.open.not_started if memory.open and goes_on else ()
        self._view.history(transcript.history_items(history, memory, changes=False), skipped, is_switch, held)

    def _set_open(self, open_agent: OpenAgent | None) -> None:
        """Make `open_agent` the agent on screen, while none is attached; its queue takes over what was typed ahead."""
        old_queue, self.open_agent = self.queue, open_agent
        if old_queue.before_open and self.queue is not old_queue:
            self.queue.take_over(old_queue)
            old_queue.show()

    def _end_watch_choice(self) -> None:
        if self._watch_choice:
            self._watch_choice.end()
            self._watch_choice = None

    async def _detach(self) -> None:
        """Detach the agent on screen; if it was only followed, stop following."""
        self._end_watch_choice()
        if self._followed:
            followed, self._followed = self._followed, None
            await followed.stop()
        await self._own_view.detach()
        if self.open_agent and self.manager:
            await self.open_agent.view.detach()
            self.manager.detached(self.open_agent)

    def return_draft(self) -> None:
        """Return the saved draft to the input, because the agent on screen stays."""
        if self.agent:
            self._view.restore_input(self.drafts.pop(self.agent.id))

    async def leave(self) -> str:
        """Stop all loops and release all write locks; return the sentences about what could not be saved."""
        unsaved = await self.drafts.close(self._leave())
        self.open_agent = self._followed = None
        return unsaved

    async def _leave(self) -> str:
        self._end_watch_choice()
        if self._followed:
            await self._followed.stop()
        return await self.manager.close(self.open_agent) if self.manager else ""

    def is_open(self, agent_loop: AgentLoop) -> bool:
        """Return True if `agent_loop` is the loop of an open agent."""
        return self.manager is not None and any(each.agent_loop is agent_loop for each in self.manager.agents.values())

    def rename(self, id: str, name: str) -> None:
        """Show `name` as the new name of the agent `id`."""
        if self.manager:
            self.manager.rename(id, name)
        if self.agent and self.agent.id == id:
            self.agent = structs.replace(self.agent, name=name)
            if self._followed:
                self._followed.rename(name)
            else:
                self._status.set_agent(name, ephemeral=self.agent.ephemeral)

    def answer(self, name: str) -> None:
        """Show the question of a detached agent: of the one called `name`, or of the one that has waited
        longest.

        Raise Rejected if none asks.
        """
        from ikigai.repl.agents_at_work import find_asking

        first = find_asking(self._open_agents(), self.open_agent, name)
        first.view.show_question(first.view.questions[0], self._view, first.agent.name)

    def _open_agents(self) -> list[OpenAgent]:
        return list(self.manager.agents.values()) if self.manager else []

    def _show_background(self) -> None:
        """Show in the status line which agents ask, hold mail or have ended a turn, and how many are running."""
        from ikigai.repl.agents_at_work import describe_background

        others = [each for each in self._open_agents() if each is not self.open_agent]
        text, pressing = describe_background(others, self.manager.mailbox if self.manager else None)
        self._status.set_background_agents(text, pressing=pressing)

    def at_work(self, past: bool = False) -> str:
        """Return in a clause which agents of this process work or wait for the user, or did; "" if none do."""
        from ikigai.repl.agents_at_work import describe_work

        return describe_work(self._open_agents(), past)

    def _on_lost(self, open_agent: OpenAgent, why: str) -> None:
        """Handle the end of an agent's loop that nothing in this process asked for."""
        if open_agent is self.open_agent:
            self._memory = open_agent.memory
            open_agent.view.attached_view = None
            self._set_open(None)
            ended = structs.replace(self._memory, open=None)  # this process runs nothing of it any more
            self._own_view.begin(ended)
            self._own_view.attach(self._view)
            self._view.notice(why)
            return
        self.drafts.stash(open_agent.agent.id, open_agent.view.returned_text)
        self._view.notice(f"{open_agent.agent.name}: {why}")
        self._show_background()


def subagents_of(manager: AgentManager, id: str) -> Subagents:
    """Return the subagents of the agent `id`; their module is imported when its model wants some."""
    from ikigai.app.agents.managed_subagents import ManagedSubagents

    return ManagedSubagents(manager, id)
