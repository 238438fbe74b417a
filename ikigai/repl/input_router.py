"""A user at the screen: how what they write gets to the agent there, and waits while another one is being opened."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ikigai.config import Config
from ikigai.core.commands import table as commands
from ikigai.core.errors import Bug, IkigaiError
from ikigai.core.state import inputs
from ikigai.core.state.memory import Memory
from ikigai.repl.active_agent import Seat
from ikigai.terminal.screen import Screen

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.services import World

log = logging.getLogger(__name__)

Sent: TypeAlias = type[inputs.Submitted] | type[inputs.Steered]
"""What becomes of a message: it begins a turn, or goes into the one under way."""

KEYS_FIRST = 0.002
"""Seconds from the first paint until anything else is begun: keys typed meanwhile are shown before."""


class Sitting(ABC):
    """One screen, its world once that is open, and the agent on it."""

    screen: Screen
    _seat: Seat

    def __init__(self, config: Config, prompt: str) -> None:
        self._config = config
        self._opening = True
        self._early = [prompt] if prompt else []  # submitted while an agent was being opened, or behind a message
        self._reading: asyncio.Task[None] | None = None  # what comes before all that is entered now, as reading images
        self._world: World | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._code = 0
        self._closing = False

    @abstractmethod
    def submit(self, text: str) -> None:
        """A line was entered: a command, or a message."""

    def leave(self, code: int = 0) -> None:
        self._code, self._closing = code, True
        self.screen.close()

    @property
    def memory(self) -> Memory | None:
        return self._seat.memory

    @contextlib.contextmanager
    def _moving(self) -> Iterator[None]:
        """While another agent is being opened, what is typed waits for it, and is given back where that fails."""
        writable = False
        try:
            yield
            writable = self._seat.runtime is not None
        finally:
            self._opening = False
            early = self._no_longer_early()
            if writable:
                for text in early:
                    self.submit(text)
            elif early:
                self.screen.returned("\n".join(early))

    def _no_longer_early(self) -> list[str]:
        """What has been entered meanwhile: from now on it is the caller's."""
        early, self._early = self._early, []
        self.screen.waiting(())
        return early

    def _say(self, text: str, made: Sent = inputs.Submitted) -> None:
        """Send a message, whatever it begins with."""
        from ikigai import images

        if images.mentioned(text):
            self._first(self._attach(text, made))
        else:
            self._tell(made(text))

    async def _attach(self, text: str, made: Sent) -> None:
        """Send a message with the images it mentions."""
        from ikigai import images

        to = self._seat.runtime
        try:
            found = await images.attached(text)
            self._tell(made(text, found), to)
            if found and self._world and self.memory and not self._world.sees(self.memory.model):
                self.screen.notice(images.unseen(self.memory.model))
        except Exception as error:
            if not isinstance(error, IkigaiError):
                log.exception("images could not be attached")
                error = Bug()
            self.screen.notice(str(error))
            self.screen.returned(text)

    def _first(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do this; what is entered meanwhile waits behind it."""
        self._reading = asyncio.create_task(self._before_the_rest(work), name="first")
        return self._reading

    async def _before_the_rest(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self._reading = None
        early = self._no_longer_early()
        if self._closing:  # they stay, as a draft
            self.screen.returned("\n".join(early))
            return
        for each in early:
            self.submit(each)

    def _typing(self, text: str) -> None:
        """A message is being written: its request should find a connection. The key that was pressed is shown first."""
        if self._world and self.memory and not self._seat.busy and not commands.is_command(text):
            asyncio.get_running_loop().call_later(KEYS_FIRST, self._world.pool.expect, self.memory.model)

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

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)
