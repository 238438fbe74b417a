"""The REPL: the screen first, then database, agent and history behind it, and what typed lines mean."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ikigai import images
from ikigai.config import Config, describe
from ikigai.core import about, commands, machine, transcript
from ikigai.core.commands import Local
from ikigai.core.errors import Busy, ConfigError, IkigaiError, Refused, Unavailable
from ikigai.core.events import UserMessage
from ikigai.core.memory import Memory
from ikigai.terminal.screen import Screen
from ikigai.terminal.theme import theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.app import World
    from ikigai.runtime import Runtime
    from ikigai.store.agents import Agent
    from ikigai.store.log import AgentLog

log = logging.getLogger(__name__)

HISTORY_EVENTS = 60
"""Events drawn again on start: the last screenfuls."""
PROMPTS = 500
"""Earlier messages offered by Up and Ctrl+R."""
KEYS_FIRST = 0.005
"""Seconds from the first paint until anything else is begun: keys typed meanwhile are shown before."""
WARM_AFTER = 0.3
"""Seconds after the history is on screen until the SDK is loaded: the first keys come first."""
CLOSE_WITHIN = 3.0
"""Seconds that leaving may take."""


def run(tty: Tty, config: Config, arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL on a terminal already taken until the user leaves; returns the exit code."""
    return asyncio.run(Repl(config, arguments, prompt).run(tty))


class Repl:
    """One program at the terminal: its screen, its world once that is open, and the agent on screen."""

    screen: Screen

    def __init__(self, config: Config, arguments: argparse.Namespace, prompt: str) -> None:
        self._config, self._arguments = config, arguments
        self._opening = True
        self._early = [prompt] if prompt else []  # submitted while an agent was being opened, or behind a message
        self._reading: asyncio.Task[None] | None = None  # whose images are still being read
        self._world: World | None = None
        self._agent: Agent | None = None
        self._runtime: Runtime | None = None
        self._store: AgentLog | None = None
        self._loop: asyncio.Task[None] | None = None
        self._memory: Memory | None = None  # of an agent that is only looked at
        self._background: set[asyncio.Task[None]] = set()
        self._agents: list[str] = []
        self._code = 0

    # ── the life of the program ──

    async def run(self, tty: Tty) -> int:
        sources = {"marks": self._marks, "models": self._models, "levels": self._levels, "agents": lambda: self._agents}
        self.screen = Screen(
            tty,
            theme(os.environ, self._config.terminal.color),
            on_submit=self.submit,
            on_interrupt=self.interrupt,
            on_quit=self.leave,
            on_take_back=lambda: self._runtime.unqueue() if self._runtime else "",
            on_signal=lambda number: self.leave(128 + number),
            sources=sources,
            thinking=self._config.terminal.thinking,
        )
        try:
            await self.screen.run(self._open)
        finally:
            await self._close()
        return self._code

    def leave(self, code: int = 0) -> None:
        self._code = code
        self.screen.close()

    async def _open(self) -> None:
        """What happens behind the visible prompt: world, agent, history, then what the first request will need."""
        await asyncio.sleep(KEYS_FIRST)
        try:
            await self._begin()
        except IkigaiError as error:
            self.screen.close(error)
            return
        finally:
            gc.freeze()  # what has been imported stays: the collector, off since the start, need not look at it
            gc.enable()
        await asyncio.sleep(WARM_AFTER)
        if self._world and self.memory:
            await self._world.pool.warm(self.memory.model)
        if self._runtime:
            self._runtime.warm()

    async def _begin(self) -> None:
        self.screen.database("opening the database")
        app = await asyncio.to_thread(importlib.import_module, "ikigai.app")
        self.screen.warm()
        self._world = world = await app.World.open(self._config)
        unusable = ""
        if model := world.run.resolve({}).get("model"):
            try:
                world.pool.check(str(model))
            except ConfigError:
                raise
            except IkigaiError as error:  # no key: all that needs no model works
                unusable = str(error)
        self.screen.database(world.database_name)
        with self._moving():
            arguments = self._arguments
            await self._enter(await world.choose(arguments.resume, arguments.new, getattr(arguments, "continue")))
        if unusable:
            self.screen.notice(unusable)
        self.screen.set_prompts(await world.database.prompts(PROMPTS))
        await self._name_agents()

    async def _close(self) -> None:
        """Put everything down, within a few seconds."""
        if self._reading:
            await asyncio.wait({self._reading}, timeout=CLOSE_WITHIN)
        for task in self._background:
            task.cancel()
        kept = ""
        with contextlib.suppress(Exception):
            kept = await self._leave_agent()
        if self._world:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._world.close(), CLOSE_WITHIN)
        if kept:  # the screen is gone
            sys.stderr.write(f"ikigai: {kept}\n")
            self._code = self._code or Unavailable.exit_code

    @contextlib.contextmanager
    def _moving(self) -> Iterator[None]:
        """While another agent is being opened, what is typed waits for it, and is given back where that fails."""
        writable = False
        try:
            yield
            writable = self._runtime is not None
        finally:
            self._opening = False
            early, self._early = self._early, []
            if writable:
                for text in early:
                    self.submit(text)
            elif early:
                self.screen.returned("\n".join(early))

    async def _enter(self, agent: Agent) -> None:
        """Put this agent on screen: take its pen and go on, or, where another program holds it, show what was said."""
        assert self._world
        self._agent, self._memory = agent, None
        try:
            memory, self._store = await self._world.take(agent)
        except Busy as busy:
            self._memory = memory = await self._world.look(agent)
            await self._draw(agent, memory)
            self.screen.notice(f"{busy.what} It is shown read-only: /new begins another agent, /switch goes to one.")
            return
        await self._draw(agent, memory)
        self._runtime = self._world.runtime(memory, self._store, self.screen, max_requests=self._arguments.max_turns)
        self._loop = asyncio.create_task(self._runtime.run(), name=f"{agent.name} loop")
        self._loop.add_done_callback(self._loop_ended)
        if notice := self._world.level_notice(memory.own):
            self.screen.notice(notice)
        if not memory.run.resolve(memory.own).get("model"):
            self.screen.notice("There is no model yet: no key, and no local model.")
            self.screen.notice("`ikigai login` stores a key, `ikigai setup` fetches a small local model.")

    async def _draw(self, agent: Agent, memory: Memory) -> None:
        """The last screenfuls of the agent's history, the rule at its place."""
        assert self._world
        history = list(await self._world.database.reader(agent).history(None, HISTORY_EVENTS))
        skipped = max(0, agent.events - len(history))  # a fork's history holds its ancestors' events, too
        self.screen.agent(agent.name)
        self.screen.history(transcript.fresh(history, memory), skipped)
        self.screen.changed(memory)

    async def _leave_agent(self) -> str:
        """End the loop of the agent on screen and put its pen down; returns the sentence about what is not saved."""
        if self._runtime and self._loop:
            self._loop.remove_done_callback(self._loop_ended)
            self._runtime.tell(machine.Interrupted())
            self._runtime.inbox.put_nowait(None)
            done, _ = await asyncio.wait({self._loop}, timeout=CLOSE_WITHIN)
            if not done:
                self._loop.cancel()
                await asyncio.wait({self._loop}, timeout=CLOSE_WITHIN)
        kept = self._spooled()
        if self._store:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._store.close(), CLOSE_WITHIN)
        self._runtime = self._loop = self._store = None
        return kept

    def _spooled(self) -> str:
        """Keep in a file what the database has not taken; the sentence that says so."""
        if not (self._runtime and self._agent and self._runtime.unsaved):
            return ""
        from ikigai.app import spool

        unsent = [UserMessage(each.text, each.images) for each in self._runtime.unsent()]
        return spool(self._agent.name, (*self._runtime.unsaved, *unsent))

    def _loop_ended(self, loop: asyncio.Task[None]) -> None:
        """The loop ended by itself: the pen was lost, or there is a bug. The words stay, nothing more is written."""
        if loop.cancelled() or (error := loop.exception()) is None:
            return
        if unsent := self._runtime.unsent() if self._runtime else []:
            self.screen.returned("\n".join(each.text for each in unsent))
        kept = self._spooled()
        self._memory, self._runtime = self.memory, None
        if not isinstance(error, IkigaiError):
            log.error("the loop ended", exc_info=error)
            error = IkigaiError("Something in ikigai itself went wrong.", "The log file has the details; start again.")
        self.screen.notice(f"{error} {kept} This agent is read-only now.".replace("  ", " "))

    @property
    def memory(self) -> Memory | None:
        return self._runtime.memory if self._runtime else self._memory

    # ── what the screen asks and tells ──

    @property
    def busy(self) -> bool:
        return self._runtime is not None and self._runtime.busy

    def submit(self, text: str) -> None:
        """A line was entered: a command, or a message."""
        try:
            happened = commands.parse(text) if commands.is_command(text) else machine.Submitted(text)
            moves = isinstance(happened, Local) and happened.name in ("new", "switch")
            if isinstance(happened, Local) and not moves:
                self._spawn(happened)
            elif self._opening or self._reading:
                self._early.append(text)
                self.screen.queued(tuple(self._early))
            elif isinstance(happened, Local):
                self._move(happened)
            elif isinstance(happened, machine.Submitted) and images.mentioned(text):
                self._reading = asyncio.create_task(self._attach(text), name="images")
            else:
                self._tell(happened)
        except IkigaiError as error:
            self.screen.notice(str(error))
            if not commands.is_command(text):  # a command is in the history, and the next line should not join it
                self.screen.returned(text)

    async def _attach(self, text: str) -> None:
        """Send a message with the images it mentions; what is entered while they are read waits behind it."""
        try:
            found = await images.attached(text)
            self._tell(machine.Submitted(text, found))
            if found and self._world and self.memory and not self._world.sees(self.memory.model):
                self.screen.notice(images.unseen(self.memory.model))
        except Exception as error:
            if not isinstance(error, IkigaiError):
                log.exception("images could not be attached")
                error = IkigaiError("Something in ikigai itself went wrong.", "The log file has the details.")
            self.screen.notice(str(error))
            self.screen.returned(text)
        finally:
            self._reading = None
            early, self._early = self._early, []
            if early and not self.busy:
                self.screen.queued(())
            for each in early:
                self.submit(each)

    def interrupt(self) -> None:
        if self._runtime:
            self._runtime.tell(machine.Interrupted())

    def _marks(self) -> list[str]:
        marks = self.memory.marks if self.memory else ()
        return list(dict.fromkeys(mark.label for mark in reversed(marks)))

    def _models(self) -> list[str]:
        return list(self._world.known_models()) if self._world else []

    def _levels(self) -> list[str]:
        return list(self._world.pool.known.levels(self.memory.model)) if self._world and self.memory else []

    def _tell(self, happened: machine.Input) -> None:
        assert self._world
        if self._runtime is None:
            raise Refused("This agent is read-only here.", "/new begins another, /switch goes to one.")
        if isinstance(happened, machine.Change):
            self._world.check(self._runtime.memory, happened.values)
            if model := happened.values.get("model"):  # another SDK, maybe: not when Enter is pressed
                self._keep(asyncio.create_task(self._world.pool.warm(str(model)), name="warm"))
        self._runtime.tell(happened)

    def _spawn(self, command: Local) -> None:
        self._keep(asyncio.create_task(self._local(command), name=f"/{command.name}"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ── commands of the program ──

    async def _local(self, command: Local) -> None:
        try:
            match command.name:
                case "help":
                    self.screen.print_text(commands.help_text(command.argument))
                case "exit":
                    self.leave()
                case "new" | "switch":
                    await self._go(command)
                case "config":
                    rows = describe(self._config)
                    self.screen.print_text("\n".join(f"{key} = {value}  ({origin})" for key, value, origin in rows))
                case "model":
                    self.screen.print_text(about.model(self.memory))
                case "think":
                    self.screen.print_text(about.thinking(self.memory, self._levels()))
                case "system":
                    system = self.memory.settings.get("system") if self.memory else ""
                    self.screen.print_text(str(system or "There is no system prompt. /system TEXT sets one."))
                case "cost":
                    self.screen.print_text(await self._cost())
                case "context" | "status":
                    self.screen.print_text(self._status())
        except IkigaiError as error:
            self.screen.notice(str(error))
        except Exception:
            log.exception("/%s failed", command.name)
            self.screen.notice(f"/{command.name} went wrong inside ikigai; the log file has the details.")

    def _move(self, command: Local) -> None:
        """Go to another agent. What is typed from now on is meant for that one."""
        if self.busy:
            raise Refused("The agent is busy.", "Esc stops it; or wait for the end of the turn.")
        if command.name == "switch" and not command.argument:
            raise Refused("Which agent?", f"There are: {', '.join(self._agents)}")
        self._opening = True
        self._spawn(command)

    async def _go(self, command: Local) -> None:
        assert self._world
        with self._moving():
            if command.name == "new":
                agent = await self._world.create(command.argument)
            else:
                agent = await self._world.database.agents.find(command.argument)
            if self._runtime and self._agent and agent.id == self._agent.id:
                raise Refused(f"{agent.name} is on the screen already.", "/new begins another agent.")
            if kept := await self._leave_agent():
                self.screen.notice(kept)
            await self._enter(agent)
        await self._name_agents()

    async def _name_agents(self) -> None:
        assert self._world
        self._agents = [agent.name for agent in await self._world.database.agents.all()]

    async def _cost(self) -> str:
        from ikigai import reports

        if self._agent is None or self._world is None:
            return "The conversation is being opened."
        return await reports.cost_so_far(self._world.database, self.screen.usage, self._agent.id)

    def _status(self) -> str:
        memory = self.memory
        if memory is None or self._agent is None or self._world is None:
            return "The conversation is being opened."
        state = "read-only" if self._runtime is None else memory.status.value
        return about.status(memory, f"{self._agent.name} ({self._agent.id})", state, self._world.database_name)
