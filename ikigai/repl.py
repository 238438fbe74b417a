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
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from ikigai import images
from ikigai.config import Config
from ikigai.core import commands, inputs
from ikigai.core.commands import Local
from ikigai.core.errors import ConfigError, IkigaiError, Refused, Unavailable
from ikigai.core.memory import Memory
from ikigai.seat import Seat
from ikigai.terminal.screen import Screen
from ikigai.terminal.theme import theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.answers import Place
    from ikigai.app import World
    from ikigai.project import Project
    from ikigai.runtime import Runtime
    from ikigai.store.agents import Agent
    from ikigai.terminal.browser_source import Source

log = logging.getLogger(__name__)

PROMPTS = 500
"""Earlier messages offered by Up and Ctrl+R."""
KEYS_FIRST = 0.005
"""Seconds from the first paint until anything else is begun: keys typed meanwhile are shown before."""
WARM_AFTER = 0.3
"""Seconds after the history is on screen until the SDK is loaded: the first keys come first."""
MOVES = ("new", "switch", "fork", "takeover")
"""Commands that lead to another agent, or to the pen of this one."""
AIMED = ("kill", "rename")
"""Commands that mean the agent on screen: behind one that leads to another they mean that one."""
CLOSE_WITHIN = 3.0
"""Seconds that leaving may take."""


def run(tty: Tty, config: Config, arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL on a terminal already taken until the user leaves; returns the exit code."""
    return asyncio.run(Repl(config, arguments, prompt).run(tty))


class Repl:
    """One program at the terminal: its screen, its world once that is open, and the agent on screen."""

    screen: Screen
    _seat: Seat

    def __init__(self, config: Config, arguments: argparse.Namespace, prompt: str) -> None:
        self._config, self._arguments = config, arguments
        self._opening = True
        self._early = [prompt] if prompt else []  # submitted while an agent was being opened, or behind a message
        self._reading: asyncio.Task[None] | None = None  # whose images are still being read
        self._world: World | None = None
        self._running: asyncio.Task[None] | None = None  # the user's own command
        self._background: set[asyncio.Task[None]] = set()
        self._agents: list[str] = []
        self._dead: list[str] = []
        self._code = 0

    # ── the life of the program ──

    async def run(self, tty: Tty) -> int:
        sources = {
            "marks": self._marks,
            "acts": self._acts,
            "models": self._models,
            "levels": self._levels,
            "profiles": lambda: (*self._config.profiles, *(["default"] if self._config.profiles else [])),
            "agents": lambda: self._agents,
            "dead": lambda: self._dead,
            "files": self._files,
            "pins": self._pins,
        }
        self.screen = Screen(
            tty,
            theme(os.environ, self._config.terminal.color),
            on_submit=self.submit,
            on_interrupt=self.interrupt,
            on_quit=self.leave,
            on_cycle=self._cycle,
            on_take_back=lambda: self._seat.runtime.unqueue() if self._seat.runtime else "",
            on_signal=lambda number: self.leave(128 + number),
            on_go=self._arrow,
            sources=sources,
            on_typing=self._typing,
            thinking=self._config.terminal.thinking,
            on_browse=self._looked_at,
        )
        self._seat = Seat(self.screen, self._arguments.max_turns)
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
            await self.screen.drawn()
        except IkigaiError as error:
            self.screen.close(error)
            return
        finally:
            gc.freeze()  # what has been imported stays: the collector, off since the start, need not look at it
            gc.enable()
        await asyncio.sleep(WARM_AFTER)
        if self._world and self.memory:
            await self._world.pool.warm(self.memory.model)
        if self._seat.runtime:
            self._seat.runtime.warm()
        if self._world:
            self._keep(asyncio.create_task(self._world.database.indexer.run(), name="index"))

    async def _begin(self) -> None:
        self.screen.database("opening the database")
        app = await asyncio.to_thread(importlib.import_module, "ikigai.app")
        project = await self._trusting(app.make_project())
        self._world = world = await app.World.open(self._config, project)
        self._config = world.config  # as the project has tightened it
        self.screen.warm()  # while the server answers
        unusable = ""
        if model := world.run.resolve({}).get("model"):
            try:
                world.pool.check(str(model))
            except ConfigError:
                raise
            except IkigaiError as error:  # no key: all that needs no model works
                unusable = str(error)
        self.screen.database(world.place)
        with self._moving():
            arguments = self._arguments
            named = arguments.follow or arguments.resume
            agent = await world.choose(named, arguments.new, getattr(arguments, "continue"))
            await (self._seat.follow if arguments.follow else self._seat.take)(world, agent)
        for notice in filter(None, (unusable, *world.problems())):
            self.screen.notice(notice)
        self.screen.set_prompts(await world.database.prompts(PROMPTS))
        await self._name_agents()

    async def _trusting(self, project: Project) -> Project:
        """The working directory; where it brings something and is not trusted yet, the user is asked once."""
        brings = project.brings
        await asyncio.to_thread(project.look)
        if brings and not project.trusted and not project.problems:
            from ikigai import permissions

            await permissions.asked(project, brings, self.screen.ask)
        return project

    async def _close(self) -> None:
        """Put everything down, within a few seconds."""
        if self._reading:
            await asyncio.wait({self._reading}, timeout=CLOSE_WITHIN)
        for task in (*self._background, *((self._running,) if self._running else ())):
            task.cancel()
        kept = ""
        with contextlib.suppress(Exception):
            kept = await self._seat.leave()
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
            writable = self._seat.runtime is not None
        finally:
            self._opening = False
            early, self._early = self._early, []
            if writable:
                for text in early:
                    self.submit(text)
            elif early:
                self.screen.returned("\n".join(early))
            if early and self._seat.member:
                self.screen.queued(self._seat.member.relay.queue)

    @property
    def memory(self) -> Memory | None:
        return self._seat.memory

    # ── what the screen asks and tells ──

    def submit(self, text: str) -> None:
        """A line was entered: a command, or a message."""
        try:
            if text.startswith("!") and text.strip("!").strip() and not (self._opening or self._reading):
                if self._running and not self._running.done():
                    raise Refused("A command of yours is still running.", "Esc stops it; or wait for its end.")
                self._running = asyncio.create_task(self._guarded(self._shell(text)), name="shell")
                return
            happened = commands.parse(text) if commands.is_command(text) else inputs.Submitted(text)
            if isinstance(happened, Local) and happened.name not in (*MOVES, *AIMED):
                self._spawn(happened)
            elif self._opening or self._reading:
                self._early.append(text)
                self.screen.queued(tuple(self._early))
            elif isinstance(happened, Local) and happened.name in AIMED:
                self._spawn(happened)
            elif isinstance(happened, Local):
                self._move(happened)
            elif isinstance(happened, inputs.Submitted):
                self._say(text)
            else:
                self._tell(happened)
        except IkigaiError as error:
            self.screen.notice(str(error))
            if not commands.is_command(text):  # a command is in the history, and the next line should not join it
                self.screen.returned(text)

    def _say(self, text: str) -> None:
        """Send a message, whatever it begins with."""
        if images.mentioned(text):
            self._reading = asyncio.create_task(self._attach(text), name="images")
        else:
            self._tell(inputs.Submitted(text))

    async def _attach(self, text: str) -> None:
        """Send a message with the images it mentions; what is entered while they are read waits behind it."""
        to = self._seat.runtime
        try:
            found = await images.attached(text)
            self._tell(inputs.Submitted(text, found), to)
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
            if early and not self._seat.busy:
                self.screen.queued(())
            for each in early:
                self.submit(each)

    def _typing(self, text: str) -> None:
        """A message is being written: its request should find a connection. The key that was pressed is shown first."""
        if self._world and self.memory and not self._seat.busy and not commands.is_command(text):
            asyncio.get_running_loop().call_later(KEYS_FIRST, self._world.pool.expect, self.memory.model)

    def interrupt(self) -> None:
        if self._running and not self._running.done():
            self._running.cancel()
        elif self._seat.runtime:
            self._seat.runtime.tell(inputs.Interrupted())

    def _marks(self) -> list[str]:
        marks = self.memory.marks if self.memory else ()
        return list(dict.fromkeys(mark.label for mark in reversed(marks)))

    def _acts(self) -> dict[str, str]:
        acts = self.memory.acts if self.memory else ()
        return {str(act.id): act.kind + " that took nothing" * act.empty for act in reversed(acts)}

    def _files(self, typed: str) -> list[str]:
        from ikigai import pinning

        return list(pinning.completions(typed, pinning.here()))

    def _pins(self) -> dict[str, str]:
        from ikigai import pinning

        return pinning.offered(self.memory, pinning.here()) if self.memory else {}

    def _models(self) -> list[str]:
        return list(self._world.known_models()) if self._world else []

    def _levels(self) -> list[str]:
        return list(self._world.pool.known.levels(self.memory.model)) if self._world and self.memory else []

    def _tell(self, happened: inputs.Input, to: Runtime | None = None) -> None:
        """Tell the agent on screen, or the one that it is meant for."""
        assert self._world
        runtime = to or self._seat.runtime
        if runtime is None or not self._seat.holds(runtime):
            raise self._seat.refusal()
        if isinstance(happened, inputs.Change):
            self._world.check(runtime.memory, happened.values)
            values, notice = self._world.fitting(runtime.memory, happened.values)
            happened = inputs.Change(values)
            if notice:
                self.screen.notice(notice)
            if model := happened.values.get("model"):  # another SDK, maybe: not when Enter is pressed
                self._keep(asyncio.create_task(self._world.pool.warm(str(model)), name="warm"))
        runtime.tell(happened)

    def _spawn(self, command: Local) -> None:
        self._keep(asyncio.create_task(self._local(command), name=f"/{command.name}"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ── commands of the program ──

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, and say in words what goes wrong."""
        try:
            await work
        except asyncio.CancelledError:
            self.screen.notice("The command was stopped.")
        except IkigaiError as error:
            self.screen.notice(str(error))
        except Exception:
            log.exception("a command failed")
            self.screen.notice("Something in ikigai itself went wrong; the log file has the details.")

    async def _local(self, command: Local) -> None:
        try:
            match command.name:
                case "exit":
                    self.leave()
                case "new" | "switch" | "fork" | "go" | "takeover":
                    await self._go(command)
                case "answer":
                    self._seat.answer(command.argument)
                case "rename" | "kill" | "revive":
                    await self._rearrange(command)
                case "history":
                    self.screen.browse()
                case "approve" | "tools" | "trust" | "pin" | "unpin":
                    await self._permit(command)
                case "recall" | "quote":
                    await self._recall(command)
                case "export":
                    await self._export(command)
                case "send":
                    from ikigai import moving

                    self._tell(await moving.sent(self._world, self._seat, command.argument))
                case _:
                    from ikigai import answers

                    found = await answers.answer(command, self._config, self._place())
                    if found.marked:
                        self.screen.print_marked(found.marked)
                    else:
                        self.screen.print_text(found.text)
        except IkigaiError as error:
            self.screen.notice(str(error))
        except Exception:
            log.exception("/%s failed", command.name)
            self.screen.notice(f"/{command.name} went wrong inside ikigai; the log file has the details.")

    async def _recall(self, command: Local) -> None:
        """Answer from what was ever said, or bring a piece of it back."""
        from ikigai import app, recalling

        world, memory, to = self._world, self.memory, self._seat.runtime
        if world is None or memory is None:
            raise Refused("The conversation is being opened.", "Ask again in a moment.")
        if command.name == "quote":
            self._tell(await recalling.quoted(world.database, command.argument), to)
            return
        if not memory.model:
            raise Refused("There is no model to ask.", "/model PROVIDER/NAME chooses one; /search needs none.")
        provider, price = world.pool.provider(memory.model), app.make_price(self._config)
        asked = (world.database, provider, memory.model, price, command.argument)
        answer, usage = await recalling.recalled(*asked)
        if to is None or not self._seat.holds(to):
            self.screen.print_text(answer)
            return
        for each in (*map(inputs.Used, usage), inputs.Ran(f"/recall {command.argument}", answer)):
            to.tell(each)

    async def _export(self, command: Local) -> None:
        """Write the history to a file; Esc stops it, as a command of the user's own."""
        from ikigai.exporting import command as exporting

        if self._world is None or self._seat.agent is None:
            raise Refused("The conversation is being opened.", "Ask again in a moment.")
        if self._running and not self._running.done():
            raise Refused("A command of yours is still running.", "Esc stops it; or wait for its end.")
        database, agent, line = self._world.database, self._seat.agent, f"/export {command.argument}"
        work = exporting.typed_export(database, agent, command.argument, lambda text: self.screen.progress(line, text))
        self._running = asyncio.create_task(self._guarded(self._told(line, work)), name="export")

    async def _told(self, line: str, work: Coroutine[Any, Any, str]) -> None:
        """Do it while the screen says so, and print what it came to."""
        self.screen.running(line)
        try:
            told = await work
        finally:
            self.screen.running("")
        self.screen.print_text(told)

    async def _permit(self, command: Local) -> None:
        """/approve, /tools, /trust, /pin and /unpin."""
        from ikigai import permissions

        to = self._seat.runtime
        if self.memory is None or self._world is None:
            raise Refused("The conversation is being opened.", "Ask again in a moment.")
        if command.name == "approve":
            found = await permissions.approve(command.argument, self.memory, self.screen.ask)
        elif command.name == "trust":
            found = permissions.trusted(command.argument, self._world.project)
        elif command.name in ("pin", "unpin"):
            from ikigai import pinning

            found = await pinning.answered(command, self.memory, self.screen)
        else:
            found = permissions.tools(command.argument, self.memory)
        if isinstance(found, str):
            self.screen.print_text(found)
        else:
            self._tell(found, to)

    def _looked_at(self) -> Source | None:
        """The history of the agent on screen."""
        from ikigai.browsing import History

        return History(self._world, self._seat) if self._world and self.memory else None

    def _cycle(self) -> None:
        """Shift+Tab: the next approval mode."""
        if self.memory is None or self._seat.runtime is None:
            return
        from ikigai import permissions

        try:
            self._tell(permissions.cycled(self.memory))
        except IkigaiError as error:
            self.screen.notice(str(error))

    async def _shell(self, line: str) -> None:
        """The user's own command: with one ! its output goes into the conversation, with two it does not."""
        from ikigai import permissions

        assert self._world
        to = self._seat.runtime
        quiet = line.startswith("!!")
        typed = line.lstrip("!").strip()
        if self._seat.runtime is None and not quiet:
            raise self._seat.refusal()
        self.screen.running(line)
        try:
            output = await permissions.ran(self._world.workshop, typed, lambda text: self.screen.progress(line, text))
        finally:
            self.screen.running("")
        if quiet or (to and not self._seat.holds(to)):
            self.screen.print_text(f"$ {typed}\n{output}")
        else:
            self._tell(inputs.Quote(f"!{typed}\n{output}"), to)

    def _move(self, command: Local) -> None:
        """Go to another agent. What is typed from now on is meant for that one."""
        if command.name == "switch" and not command.argument:
            raise Refused("Which agent?", f"There are: {', '.join(self._agents)}")
        self._opening = True
        self._spawn(command)

    def _arrow(self, where: str) -> None:
        """Go to a relative; what is in the input stays with this agent."""
        if self._world and not (self._opening or self._reading or self.screen.wording):
            self._seat.put_by()
            self._move(Local("go", where))

    async def _go(self, command: Local) -> None:
        from ikigai import moving

        assert self._world
        with self._moving():
            if command.name == "takeover":
                try:
                    await self._seat.take_over(self._world)
                finally:
                    self._seat.stay()
                return
            try:
                move = await moving.destination(self._world, self._seat, command)
                await self._seat.take(self._world, move.agent)
            except IkigaiError as error:
                self._seat.stay()
                if command.name != "go" or not isinstance(error, Refused):
                    raise
                self.screen.hint(str(error))
                return
            for told, tell in ((move.told, self.screen.print_text), (move.notice, self.screen.notice)):
                if told:
                    tell(told)
            if move.prompt:
                self._say(move.prompt)
        await self._name_agents()

    async def _rearrange(self, command: Local) -> None:
        """/rename, /kill and /revive."""
        from ikigai import kin, moving

        world, seat = self._world, self._seat
        if world is None or seat.agent is None:
            raise Refused("The conversation is being opened.", "Ask again in a moment.")
        if command.name == "rename":
            self.screen.print_text(await moving.rename(world, seat, command.argument))
        elif command.name == "revive":
            agent = await world.database.agents.find(command.argument)
            self.screen.print_text(await kin.revive(world.database, agent))
        else:
            await self._kill(world, await world.database.agents.find(command.argument or seat.agent.id))
        await self._name_agents()

    async def _kill(self, world: World, agent: Agent) -> None:
        from ikigai import kin, moving

        dying = await kin.doomed(world.database, agent)
        if (await self.screen.ask(moving.sure(dying))).key != "y":
            self.screen.print_text("Nobody was killed.")
            return
        dying = await kin.doomed(world.database, agent)  # there may be more by now
        if self._seat.agent and self._seat.agent.id in {link.id for link in dying}:
            self._opening = True
            with self._moving():
                await self._seat.take(world, await moving.refuge(world, dying))
        for kept in await kin.kill(world.database, dying, self._seat.crew):
            self.screen.notice(kept)
        self.screen.print_text(kin.killed(dying))

    async def _name_agents(self) -> None:
        assert self._world
        known = await self._world.database.agents.all(dead=True)
        self._agents = [agent.name for agent in known if not agent.killed_at]
        self._dead = [agent.name for agent in known if agent.killed_at]

    def _place(self) -> Place | None:
        """What commands are asked about; None while no agent is open."""
        from ikigai.answers import Place

        memory = self.memory
        if memory is None or self._seat.agent is None or self._world is None:
            return None
        state = "read-only" if self._seat.runtime is None else memory.status.value
        return Place(self._world, self._seat.agent, memory, state, self.screen.usage, self._seat.crew)
