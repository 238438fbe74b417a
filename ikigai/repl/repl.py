"""The REPL's life: the screen first, then database, agent and history behind it, and what typed lines mean."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ikigai.config import Config
from ikigai.core.commands import table as commands
from ikigai.core.commands.parsers import Local
from ikigai.core.errors import ConfigError, IkigaiError, Unavailable
from ikigai.core.state import inputs
from ikigai.repl.active_agent import Seat
from ikigai.repl.input_router import KEYS_FIRST
from ikigai.repl.slash_commands import Commanding
from ikigai.system import gc_pause as collector
from ikigai.terminal.render.theme import Theme, theme
from ikigai.terminal.screen import Screen
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ikigai.app.project import Project
    from ikigai.core.search.prompt_history import Earlier
    from ikigai.repl.file_mentions import Mentions
    from ikigai.terminal.browser.source import Source

PROMPTS = 500
"""Earlier messages offered by Up and Ctrl+R."""
WARM_AFTER = 0.3
"""Seconds after the history is on screen until the SDK is loaded: the first keys come first."""
MOVES = ("new", "switch", "fork", "takeover")
"""Commands that lead to another agent, or to the pen of this one."""
AIMED = ("kill", "rename")
"""Commands that mean the agent on screen: behind one that leads to another they mean that one."""
SHAPING = ("approve", "tools", "trust", "pin", "unpin")
"""Commands that change what the next message is sent with: it waits for them."""
CLOSE_WITHIN = 3.0
"""Seconds that leaving may take."""


def run(tty: Tty, config: Config, arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL on a terminal already taken until the user leaves; returns the exit code."""
    return asyncio.run(Repl(config, arguments, prompt).run(tty))


def _completing() -> ModuleType:
    """What completes arguments: loaded when somebody types one, not before the first key is taken."""
    from ikigai.repl import completions as completing

    return completing


class Repl(Commanding):
    """One program at the terminal: its screen, its world once that is open, and the agent on screen."""

    def __init__(self, config: Config, arguments: argparse.Namespace, prompt: str) -> None:
        super().__init__(config, prompt)
        self._arguments = arguments
        self._mentions: Mentions | None = None

    # ── the life of the program ──

    async def run(self, tty: Tty) -> int:
        sources = {
            "marks": lambda: _completing().marks(self.memory),
            "acts": lambda: _completing().acts(self.memory),
            "models": lambda: _completing().models(self._world),
            "levels": lambda: _completing().levels(self._world, self.memory),
            "profiles": lambda: (*self._config.profiles, *(["default"] if self._config.profiles else [])),
            "agents": lambda: self._agents,
            "dead": lambda: self._dead,
            "files": lambda typed: _completing().files(typed),
            "code": lambda: _completing().code(self.memory),
            "pins": lambda: _completing().pins(self.memory),
            "sets": lambda: _completing().sets(self.memory),
            "modes": lambda: _completing().modes(),
            "trust": lambda: _completing().TRUST,
            "turns": lambda: _completing().turns(self.memory),
            "all": lambda: {"--all": "the dead, too"},
            "plot": lambda: {"--plot": "draw tokens, cost and the window"},
            "mentions": self._mentioned,
        }
        self.screen = Screen(
            tty,
            self._theme(),
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
            parts=self._config.terminal.status,
            suggestions=self._config.terminal.suggestions,
            vi=self._config.terminal.editing == "vi",
            on_browse=self._looked_at,
            on_search=self._sought,
            on_steer=self.steer,
            on_draft=lambda queued: self._seat.typed.changed(queued),
        )
        self._seat = Seat(self.screen, self._arguments.max_turns)
        try:
            await self.screen.run(self._open)
        finally:
            await self._close()
        return self._code

    def _theme(self) -> Theme:
        look = self._config.terminal
        return theme(os.environ, look.color, look.theme, self._config.themes, look.screen_reader)

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
            collector.on()
        await asyncio.sleep(WARM_AFTER)
        if self._world and self.memory:
            await self._world.pool.warm(self.memory.model)
        if self._seat.runtime:
            self._seat.runtime.warm()
        if self._world:
            await self._world.workshop.warm()
            self._keep(asyncio.create_task(self._world.database.indexer.run(), name="index"))

    async def _begin(self) -> None:
        self.screen.database("opening the database")
        app = await asyncio.to_thread(importlib.import_module, "ikigai.app.services")
        from ikigai.app.factories import make_project  # app has imported it by now

        project = await self._trusting(make_project())
        from ikigai.system.progress import counting

        async with counting(lambda far: self.screen.database(f"opening the database {far}")) as told:
            self._world = world = await app.World.open(self._config, project, told)
        self._config = world.config  # as the project has tightened it
        self.screen.equip(self._config.terminal)
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
        """The working directory; the user is asked once about one that is not trusted, and about changed files."""
        brings = project.brings
        await asyncio.to_thread(project.look)
        if (brings or project.approved) and not project.problems:
            from ikigai.repl import permission_commands as permissions

            if project.trusted:
                await permissions.asked_about_changes(project, self.screen.ask)
            else:
                await permissions.asked(project, brings, self.screen.ask)
        return project

    async def _close(self) -> None:
        """Put everything down, within a few seconds."""
        self._closing = True
        for task in (*self._background, *((self._running,) if self._running else ())):
            task.cancel()
        if ending := {task for task in (self._reading, self._running) if task}:  # a command says what it has done
            await asyncio.wait(ending, timeout=CLOSE_WITHIN)
        if self._mentions:
            await self._mentions.close()
        kept = ""
        with contextlib.suppress(Exception):
            kept = await self._seat.leave()
        if self._world:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._world.close(), CLOSE_WITHIN)
        if kept:  # the screen is gone
            sys.stderr.write(f"ikigai: {kept}\n")
            self._code = self._code or Unavailable.exit_code

    # ── what the screen asks and tells ──

    def submit(self, text: str) -> None:
        """A line was entered: a command, or a message."""
        try:
            if text.startswith("!") and text.strip("!").strip() and not (self._opening or self._reading):
                self._run(self._shell(text))
                return
            happened = commands.parse(text) if commands.is_command(text) else inputs.Submitted(text)
            if isinstance(happened, Local) and happened.name not in (*MOVES, *AIMED, *SHAPING):
                self._spawn(happened)
            elif self._opening or self._reading:
                self._early.append(text)
                self.screen.waiting(tuple(self._early))
            elif isinstance(happened, Local) and happened.name in AIMED:
                self._spawn(happened)
            elif isinstance(happened, Local) and happened.name in SHAPING:
                self._keep(self._first(self._local(happened)))
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

    def steer(self, text: str) -> None:
        """A line was sent into the turn under way: it goes in behind the results that the turn waits for."""
        if self._opening or self._reading or not self._seat.busy or text.startswith("!") or commands.is_command(text):
            self.submit(text)
            return
        try:
            self._say(text, inputs.Steered)
        except IkigaiError as error:
            self.screen.notice(str(error))
            self.screen.returned(text)

    def interrupt(self) -> None:
        if self._running and not self._running.done():
            self._running.cancel()
        elif self._seat.runtime:
            self._seat.runtime.tell(inputs.Interrupted())

    def _looked_at(self) -> Source | None:
        """The history of the agent on screen."""
        from ikigai.repl.history_source import History

        return History(self._world, self._seat) if self._world and self.memory else None

    def _sought(self, typed: str, found: Callable[[Sequence[Earlier]], object]) -> Callable[[], object]:
        """Look through everything ever sent."""
        from ikigai.repl import prompt_search as searching

        if self._world is None:
            return lambda: None
        looking = searching.Looking(self._world.database, typed, found)
        self._keep(asyncio.create_task(looking.run(), name="search"))
        return looking.stop

    def _mentioned(self, typed: str) -> Iterable[str]:
        """The files that an @ can mean."""
        if self._mentions is None:
            from ikigai.repl import file_mentions as mentioning
            from ikigai.repl import pin_commands as pinning

            self._mentions = mentioning.Mentions(pinning.here(), self.screen.earlier, self.screen.offer_again)
        return self._mentions.offered(typed)

    def _cycle(self) -> None:
        """Shift+Tab: the next approval mode."""
        if self.memory is None or self._seat.runtime is None:
            return
        from ikigai.repl import permission_commands as permissions

        try:
            self._tell(permissions.cycled(self.memory))
        except IkigaiError as error:
            self.screen.notice(str(error))

    def _arrow(self, where: str) -> None:
        """Go to a relative; what is in the input stays with this agent."""
        if self._world and not (self._opening or self._reading or self.screen.wording):
            self._seat.typed.put_by()
            self._move(Local("go", where))
