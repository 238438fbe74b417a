"""State of one user at one screen: agent, services, and background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ikigai.core.errors import Bug, IkigaiError, Rejected

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.config import Config
    from ikigai.core.state.memory import Memory
    from ikigai.repl.active_agent import ActiveAgent
    from ikigai.terminal.screen import Screen

log = logging.getLogger(__name__)


class Session:
    """The state that the parts of the REPL share.

    `services` is None until they are open.
    """

    def __init__(self, config: Config, screen: Screen, active_agent: ActiveAgent) -> None:
        self.config, self.screen, self.active_agent = config, screen, active_agent
        self.view = screen.view
        self.services: Services | None = None
        self.exit_code = 0
        self.closing = False
        self._background: set[asyncio.Task[None]] = set()
        self._command: asyncio.Task[None] | None = None  # the user's own

    def leave(self, exit_code: int = 0) -> None:
        self.exit_code, self.closing = exit_code, True
        self.screen.close()

    @property
    def memory(self) -> Memory | None:
        return self.active_agent.memory

    def track(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def interrupt(self) -> bool:
        """Stop the user's own command; return False if none is running."""
        if running := self.command_running:
            assert self._command
            self._command.cancel()
        return running

    @property
    def command_running(self) -> bool:
        """True while the user's own command runs."""
        return self._command is not None and not self._command.done()

    def cancel(self) -> set[asyncio.Task[None]]:
        """Cancel all tasks; return the user's own command, which is to be awaited."""
        for task in (*self._background, *((self._command,) if self._command else ())):
            task.cancel()
        return {self._command} if self._command else set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.track(asyncio.create_task(self.catch_errors(work, name), name=name))

    async def catch_errors(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Await `work` and show its error as a notice."""
        try:
            await work
        except IkigaiError as error:
            self.view.notice(str(error))
        except Exception:
            log.exception("%s failed", name)
            self.view.notice(str(Bug()))

    async def _run_command(self, work: Coroutine[Any, Any, None]) -> None:
        """Await the user's own command, and notify the user if it was stopped."""
        try:
            await self.catch_errors(work, "own command")
        except asyncio.CancelledError:
            self.view.note("The command was stopped.")

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as the user's own command, which the stop key stops. Raise Rejected if another one is running."""
        if self.command_running:
            work.close()
            raise Rejected("A shell command is still running.", "Stop it, or wait until it ends.")
        self._command = asyncio.create_task(self._run_command(work), name="own command")

    async def show_running(self, line: str, work: Callable[..., Coroutine[Any, Any, str]], *arguments: Any) -> None:
        """Await `work` while the screen shows `line` as running, and print the result."""
        self.view.running(line)
        try:
            text = await work(*arguments)
        finally:
            self.view.running("")
        self.view.print_text(text)
