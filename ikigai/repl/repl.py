"""Run the REPL: handle what the screen reports, from the first key until the user leaves."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from ikigai.config import Config
from ikigai.core.commands import table
from ikigai.core.commands.key_actions import active_keys
from ikigai.core.commands.parsers import ProgramCommand
from ikigai.core.commands.spec import CommandTiming
from ikigai.core.errors import IkigaiError, StoreError, Unavailable
from ikigai.core.state import inputs
from ikigai.repl.active_agent import ActiveAgent
from ikigai.repl.commands.program_commands import ProgramCommands
from ikigai.repl.input.input_router import KEYS_FIRST_SECONDS, InputRouter
from ikigai.repl.session import Session
from ikigai.system import gc_pause, paths
from ikigai.terminal.render.theme import terminal_theme
from ikigai.terminal.screen import Screen, ScreenOptions
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ikigai.app.run.services import Services
    from ikigai.core.commands.parsers import Meaning
    from ikigai.core.search.prompt_history import SentPrompt
    from ikigai.core.state.memory import Memory
    from ikigai.repl.drafts.draft_stash import DraftStash
    from ikigai.repl.input.file_mentions import FileMentions
    from ikigai.repl.input.recall_suggestions import RecallSuggestions
    from ikigai.terminal.browsable_history import HistoryPages

PRELOAD_DELAY_SECONDS = 0.3
"""Upper limit in seconds of the delay between the history on screen and the load of the SDK; the first key ends it
early.
"""
PURGE_WITHIN = 10.0
"""Seconds that purging an ephemeral conversation may take when leaving; else the next start does it."""
CLOSE_WITHIN = 3.0
"""Seconds that leaving may take."""
READ_WITHIN = 10.0
"""Seconds in which the files of a message are read when leaving: the thread that reads them cannot be stopped."""


def run(tty: Tty, config: Config, arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL on an opened terminal until the user leaves; return the exit code."""

    async def running() -> int:
        return await Repl(tty, config, arguments, prompt).run()

    return asyncio.run(running())


class Repl:
    """The REPL of one process: handles what its screen reports, with the parts that carry it out."""

    def __init__(self, tty: Tty, config: Config, arguments: argparse.Namespace, prompt: str) -> None:
        self._arguments, self._prompt = arguments, prompt
        self._mentions: FileMentions | None = None
        self._stash: DraftStash | None = None
        self._suggestions: RecallSuggestions | None = None  # once the first keys have been taken
        look = config.terminal
        changes = config.key_changes
        options = ScreenOptions(look.thinking, look.status, look.editing == "vi", changes)
        colors = terminal_theme(os.environ, look.color, look.theme, config.themes, look.screen_reader)
        colors.wraps_prose = look.wrap == "words"
        self._screen = Screen(tty, colors, self, options)
        self._view = self._screen.view
        self._active_agent = ActiveAgent(self._screen, arguments.max_turns, self.submit)
        self._session = Session(config, self._screen, self._active_agent)
        self._router = InputRouter(self._session, self.submit)
        self._commands = ProgramCommands(self._session, self._router, arguments)
        self._pasting: asyncio.Task[None] | None = None
        self._has_typed = asyncio.Event()

    # ── start and end ──

    async def run(self) -> int:
        try:
            await self._screen.run(self._open)
        finally:
            await self._close()
        return self._session.exit_code

    async def _open(self) -> None:
        """Open the conversation behind the visible prompt."""
        if self._prompt:
            self._active_agent.queue.hold(self._prompt)
        await asyncio.sleep(KEYS_FIRST_SECONDS)
        from ikigai.repl.opening import Opening
        from ikigai.system.thread_switches import switch_often

        opening = Opening(self._session, self._router, self._arguments)
        try:
            with switch_often():
                is_open = await opening.open_agent()
            if is_open:
                with contextlib.suppress(StoreError):  # Tab then knows no agents: the conversation goes on
                    await self._commands.name_agents()
                if any(paths.state_dir().glob("unsent-stash-*.txt")):
                    await self._draft_stash().recover()
            await self._view.drawn()
        except IkigaiError as error:
            self._screen.close(error)
            return
        finally:
            gc.freeze()  # what has been imported stays: the collector, off since the start, need not look at it
            gc_pause.resume_gc()
        import html  # noqa: F401  here: later pygments in one thread and markdown-it in another may be loading it

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_typed.wait(), PRELOAD_DELAY_SECONDS)
        await opening.open_rest()
        if self._session.services:
            from ikigai.repl.input.recall_suggestions import RecallSuggestions

            self._suggestions = RecallSuggestions(self._session)
            self._suggestions.changed()  # what has been typed meanwhile

    async def _close(self) -> None:
        """Stop and close everything within a few seconds; tell where the conversation goes on."""
        self._session.closing = True
        at_work = self.at_work(past=True)
        ending = self._session.cancel()  # a command says what it has done
        if ending:
            await asyncio.wait(ending, timeout=CLOSE_WITHIN)
        await self._router.end_reading(READ_WITHIN)
        if self._mentions:
            await self._mentions.close()
        unsaved, agent = "", self._active_agent.agent
        with contextlib.suppress(Exception):
            unsaved = await self._active_agent.leave()
        if agent is None and (entered := self._entered_early()):
            self._draft_stash().put_aside(entered)
        if self._stash:
            with contextlib.suppress(Exception):
                await self._stash.close()
        if self._session.services:
            if self._arguments.ephemeral:
                unsaved = f"{unsaved} {await self._purge(self._session.services)}".strip()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._session.services.close(), CLOSE_WITHIN)
        if unsaved:  # the screen is gone
            sys.stderr.write(f"ikigai: {unsaved}\n")
            self._session.exit_code = self._session.exit_code or Unavailable.exit_code
        if agent and not self._session.exit_code:
            from ikigai.repl.exit_message import exit_message

            sys.stdout.write(f"{exit_message(agent, self._arguments, at_work, self._view.spent)}\n")
            sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is lost any more by a Ctrl+C

    def _entered_early(self) -> str:
        """Return what was typed before there was a conversation that it could be a draft of."""
        return self._screen.unsent.removeprefix(self._prompt).strip("\n")

    async def _purge(self, services: Services) -> str:
        """Purge the agents of an ephemeral run; return a sentence about it if that failed, else ""."""
        try:
            await asyncio.wait_for(services.purge_ephemeral(), PURGE_WITHIN)
        except (IkigaiError, TimeoutError):
            return "This conversation could not be purged now; the next start of ikigai does that."
        return ""

    # ── the screen's handler ──

    def submit(self, text: str) -> None:
        """Handle an entered line: a command or a message."""
        if self._suggestions:
            self._suggestions.clear()
        try:
            if text.startswith("!") and text.strip("!").strip() and not self._router.is_holding:
                self._session.run(self._router.shell(text))
                return
            incoming = table.parse(text, self._commands.is_own) if table.is_command(text) else inputs.Submitted(text)
            is_command = isinstance(incoming, ProgramCommand)
            timing = table.BY_NAME[incoming.name].timing if is_command else CommandTiming.QUEUED
            if self._router.is_holding and (timing is not CommandTiming.NOW or self._waits_for_answer(incoming)):
                self._active_agent.queue.hold(text)
            elif is_command:
                self._commands.start(incoming, timing)
            elif isinstance(incoming, inputs.Submitted):
                self._router.send(text)
            elif isinstance(incoming, inputs.Forget):
                self._router.forget(incoming, text)
            elif incoming == inputs.RewindTo("") and (memory := self._memory_to_rewind()):
                self._session.track(asyncio.create_task(self._choose_rewind(memory), name="rewind"))
            else:
                self._router.route(incoming)
        except IkigaiError as error:
            self._view.notice(str(error))
            if not table.is_command(text):  # a command is in the history, and the next line should not join it
                self._view.restore_input(text)

    def _waits_for_answer(self, incoming: Meaning | inputs.Submitted) -> bool:
        """Return True for all but /exit while the question of a command is open: its answer comes first."""
        return self._view.asks_for_command and incoming != ProgramCommand("exit")

    def _memory_to_rewind(self) -> Memory | None:
        """Return the memory if /rewind alone lets the user choose where to go back to, not only to the newest mark."""
        loop = self._active_agent.agent_loop
        return None if loop is None or self._active_agent.busy or self._view.bare else loop.memory

    async def _choose_rewind(self, memory: Memory) -> None:
        """Let the user choose a mark, or a message if there are no marks."""
        from ikigai.repl.pickers.mark_picker import MarkSource

        try:
            label = await self._screen.programs.pick(MarkSource(memory)) if memory.marks else ""
            if label:
                self._router.route(inputs.RewindTo(label))
            elif label is not None:
                self._screen.actions.browse(rewinding=True)
        except IkigaiError as error:
            self._view.notice(str(error))

    def question_closed(self) -> None:
        self._router.release()

    def steer(self, text: str) -> None:
        """Send a line into the turn under way: it goes in after the tool results that the turn waits for."""
        if self._suggestions:
            self._suggestions.clear()
        is_holding = self._router.is_holding and not self._router.waits_for_turn
        if is_holding or not self._active_agent.busy or text.startswith("!") or table.is_command(text):
            self.submit(text)
            return
        try:
            self._router.send(text, inputs.Steered)
        except IkigaiError as error:
            self._view.notice(str(error))
            self._view.restore_input(text)

    def take_back(self) -> str:
        return self._active_agent.queue.unqueue()

    def stash(self) -> None:
        self._screen.status.show_hint(self._draft_stash().toggle())

    def _draft_stash(self) -> DraftStash:
        from ikigai.repl.drafts import draft_stash

        if self._stash is None:
            self._stash = draft_stash.DraftStash(self._screen, self._stash_key, not self._arguments.ephemeral)
        return self._stash

    def _stash_key(self) -> str:
        return next(iter(active_keys(self._session.config.key_changes)["stash"]), "stash")

    def at_work(self, past: bool = False) -> str:
        own = f"your command {'was' if past else 'is still'} running" if self._session.command_running else ""
        return ", ".join(filter(None, (self._active_agent.at_work(past), own)))

    def leave(self) -> None:
        self._session.leave()

    def signalled(self, number: int) -> None:
        self._session.leave(128 + number)

    def typing(self, text: str) -> None:
        self._has_typed.set()
        self._router.typing(text)

    def paste_picture(self) -> None:
        from ikigai.repl.input import picture_input

        if self._pasting is None or self._pasting.done():
            agent = self._active_agent.agent
            pasting = picture_input.paste_picture(self._screen, agent.id if agent and agent.ephemeral else "")
            work = self._session.catch_errors(pasting, "clipboard")
            self._pasting = asyncio.create_task(work, name="clipboard")
            self._session.track(self._pasting)

    def dropped(self, text: str) -> bool:
        from ikigai.repl.input import picture_input

        if not picture_input.may_be_pictures(text):
            return False
        self._session.spawn(picture_input.insert_dropped(self._screen, text), "dropped")
        return True

    def add_recalled(self) -> bool:
        return self._suggestions is not None and self._suggestions.add()

    def draft_changed(self, entered: bool) -> None:
        if self._suggestions and not entered:
            self._suggestions.changed()
        self._active_agent.drafts.changed(entered)

    def interrupt(self) -> None:
        if not (self._session.interrupt() or self._router.interrupt()) and self._active_agent.agent_loop:
            self._active_agent.agent_loop.put_input(inputs.Interrupted())

    def retry_now(self) -> None:
        if open_agent := self._active_agent.open_agent:
            open_agent.view.drop_reply()
            open_agent.agent_loop.jobs.retry_now()

    def history(self) -> HistoryPages | None:
        """Return the history of the agent on screen, or None while no agent is open."""
        from ikigai.repl.history_source import HistorySource

        services = self._session.services
        return HistorySource(services, self._active_agent) if services and self._session.memory else None

    def search(self, typed: str, found: Callable[[Sequence[SentPrompt]], object]) -> Callable[[], object]:
        """Search all prompts ever sent; return a function that stops the search."""
        from ikigai.repl.input import prompt_search

        if self._session.services is None:
            return lambda: None
        search = prompt_search.PromptSearch(self._session.services.database, typed, found)
        self._session.track(asyncio.create_task(search.run(), name="search"))
        return search.stop

    def complete(self, kind: str, typed: str) -> Iterable[str]:
        """Return completions of an argument, or of the file after an @."""
        match kind:
            case "mentions":
                return self._find_files(typed)
            case "agents":
                return self._commands.agents
            case "unlisted":
                return self._commands.unlisted
            case "own commands":
                return self._commands.complete_own()
            case "providers" | "themes":
                from ikigai.repl.commands import setup_commands

                of = setup_commands.known_providers if kind == "providers" else setup_commands.complete_themes
                return of(self._session.config)
            case "settings":
                from ikigai.repl.commands import config_command

                return config_command.complete_config(self._session.config, typed)
            case "profiles":
                return (*self._session.config.profiles, *(["default"] if self._session.config.profiles else []))
            case _:
                from ikigai.repl.commands import completions

                return completions.known(kind, typed, self._session.memory, self._session.services)

    def _find_files(self, typed: str) -> Iterable[str]:
        """Return the files that an @ can mean."""
        if self._mentions is None:
            from ikigai.repl.commands import pin_commands
            from ikigai.repl.input import file_mentions

            folder, screen = pin_commands.working_directory(), self._screen
            self._mentions = file_mentions.FileMentions(folder, screen.input.earlier, screen.input.offer_again)
        services = self._session.services
        if services and services.tool_runtime.mcp and ":" in typed:
            from ikigai.repl.commands import mcp_command

            return mcp_command.complete_resources(services.tool_runtime.mcp, typed)
        return self._mentions.matches(typed)

    def cycle_approval(self) -> None:
        """Choose the next approval mode."""
        services, memory = self._session.services, self._session.memory
        if services is None or memory is None or self._active_agent.agent_loop is None:
            return
        from ikigai.repl.commands import permission_commands

        change = permission_commands.next_approval_mode(memory, self._view.announced.newest)
        told = self._active_agent.busy or self._view.bare  # else the status line names the mode, and that is enough
        text = permission_commands.describe_mode(change, services.tool_runtime.directory)
        self._view.announced.expect(change.values, partial(self._screen.status.show_hint, text) if told else None)
        try:
            self._router.route(change)
        except IkigaiError as error:
            self._view.notice(str(error))

    def go_to(self, where: str) -> None:
        """Switch to a relative; text in the input stays with this agent."""
        if self._session.services and not (self._router.is_holding or self._view.wording):
            self._active_agent.drafts.stash_current()
            self._commands.go_to_relative(where)
