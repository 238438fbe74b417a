"""Set the rows around the input: the parts of the status line, hints, and the lines of a new agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ikigai.terminal.output.frames import Frames
from ikigai.terminal.output.live_area import LiveArea

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory
    from ikigai.terminal.output.conversation import ConversationView

HINT_SECONDS = 2.0
"""Seconds that a hint stays in the status line."""


class StatusView:
    """The state around the input. A terminal that shows nothing there (`ConversationView.bare`) gets the rows that
    matter printed in the `view`.
    """

    def __init__(self, area: LiveArea, frames: Frames, view: ConversationView) -> None:
        self._area, self._frames, self._view = area, frames, view
        self._unhints: asyncio.TimerHandle | None = None

    def set_database_place(self, text: str) -> None:
        """Set the place of the database, for the status line."""
        self._area.database = text
        self._frames.soon()

    def set_agent(
        self,
        name: str,
        following: bool = False,
        deserted: bool = False,
        asking: bool = False,
        ephemeral: bool = False,
    ) -> None:
        """Set the name in the status line.

        `following`: another process writes the agent; `deserted`: no process does; `asking`: the user is asked there;
        `ephemeral`: the conversation is not kept.
        """
        self._area.asking_elsewhere, self._area.ephemeral = asking, ephemeral
        self._area.agent, self._area.following, self._area.deserted = name, following, deserted
        self._frames.soon()

    def show_first_screen(self, first_lines: Callable[[Memory], Sequence[str]], memory: Memory) -> None:
        """Show these lines until the first message or answer of a command; print them in a bare terminal."""
        if self._view.bare:
            self._view.print_text("\n".join(first_lines(memory)))
        else:
            self._area.first_lines = first_lines

    def set_meter(self, before_turn: Callable[[Memory], Memory]) -> None:
        """Let the meter count a memory as `before_turn` returns it."""
        self._area.before_turn = before_turn

    def set_background_agents(self, text: str, pressing: bool) -> None:
        """Set the text about agents in the background, for the status line; `pressing` where one waits for the user."""
        if self._view.bare and pressing and text != self._area.others[1]:
            self._view.notice(text)
        self._area.others = ("warning" if pressing else "dim", text)
        self._frames.soon()

    def show_hint(self, text: str) -> None:
        """Show `text` in the status line for a moment."""
        if self._view.bare:
            self._view.print_text(text)
            return
        if self._unhints:
            self._unhints.cancel()
        self._area.hint = text
        self._unhints = asyncio.get_running_loop().call_later(HINT_SECONDS, self._unhint)
        self._frames.soon()

    def suggest_recalled(self, names: Sequence[str]) -> None:
        """Offer in the status line to add earlier turns to the input; none with no names, and in a bare terminal."""
        self._area.recalled = () if self._view.bare else tuple(names)
        self._frames.soon()

    def _unhint(self) -> None:
        self._area.hint = ""
        self._frames.soon()

    def rows(self) -> str:
        """Return the parts of the status line in rows, beside those that memory tells."""
        from ikigai.terminal.output.screen_reader import speak_status

        return speak_status(self._area)
