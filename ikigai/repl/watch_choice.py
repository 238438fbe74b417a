"""Ask what to do beside an agent that is open elsewhere: one key starts or forks a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ikigai.core.views.questions import Choice, Question

if TYPE_CHECKING:
    from ikigai.terminal.output.conversation import ConversationView

COMMANDS = {"n": "/new", "f": "/fork"}
CHOICES = (Choice("n", "new conversation"), Choice("f", "fork this one"), Choice("w", "only watch"))


class WatchChoice:
    """The question, asked at once; `submit` takes the command that the user chooses."""

    def __init__(self, view: ConversationView, submit: Callable[[str], None]) -> None:
        self._view, self._submit = view, submit
        self._task: asyncio.Task[None] | None = asyncio.create_task(self._ask(), name="watch choice")

    def end(self) -> None:
        """Take the question back if it is still open."""
        if self._task:
            self._task.cancel()

    async def _ask(self) -> None:
        answered = await self._view.ask(Question("What do you want to do here?", (), CHOICES, default="w"))
        self._task = None  # the command ends with another agent on screen
        if line := COMMANDS.get(answered.key):
            self._submit(line)
