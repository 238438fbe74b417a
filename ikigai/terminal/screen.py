"""Put the screen together: the conversation, the input, the dialogs that need both, and the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ikigai.terminal.input.input_actions import InputActions
from ikigai.terminal.input.input_line import InputLine
from ikigai.terminal.input.key_bindings import build_bindings
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.output.conversation import ConversationView
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.status_line import STATUS_PARTS
from ikigai.terminal.output.status_view import StatusView
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.external_programs import ExternalPrograms
    from ikigai.terminal.notifications import NotificationSettings
    from ikigai.terminal.screen_handler import ScreenHandler


class ScreenOptions(NamedTuple):
    """The user's choices.

    `thinking` says how thoughts are shown: "fold" (in a row, once the model speaks), "full" or "hide". `parts` are the
    parts of the status line. With `vi` its keys edit. `key_changes` are the keys that the user gave to actions of
    `core.commands.key_actions`.
    """

    thinking: str = "fold"
    parts: Sequence[str] = STATUS_PARTS
    vi: bool = False
    key_changes: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Screen:
    """The terminal as the program behind `handler` uses it. Agents and commands write to `view`; `status` has the rows
    around the `input`; `actions` are the actions of keys.
    """

    def __init__(self, tty: Tty, theme: Theme, handler: ScreenHandler, options: ScreenOptions) -> None:
        self._tty, self._theme, self._handler = tty, theme, handler
        suggests = theme.color and not (tty.dumb or theme.words)  # else they look like the text
        dialogs = Dialogs(lambda: self.view.update_question())
        self.input = input = InputLine(
            tty, theme, handler, dialogs, suggests=suggests, changed=lambda: terminal_app.frames.invalidate()
        )
        self._area = LiveArea(theme, input.buffer)
        self._area.parts = options.parts
        vi = options.vi
        self._terminal_app = terminal_app = TerminalApp(
            tty, theme, self._area, input.layout, handler, lambda: self.view.drawn(), vi
        )
        self.view = ConversationView(tty, theme, self._area, terminal_app, input, dialogs, handler, options.thinking)
        self.status = StatusView(self._area, terminal_app.frames, self.view)
        parts = self.view, self.status, input, dialogs, terminal_app
        self.actions = InputActions(*parts, lambda: self.programs, handler)
        self._vi = vi
        self.bind_keys(options.key_changes)

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible.

        Raise the exception that `begin` raises, and any bug in here. The terminal is restored in any case.
        """
        await self._terminal_app.run(begin)

    def equip(self, settings: NotificationSettings) -> None:
        """Use the terminal's abilities beside drawing text that `settings` allow, from now on."""
        from ikigai.terminal.notifications import equip_terminal

        equip_terminal(self._tty, self._terminal_app, self.view.entries, settings, os.environ)

    def bind_keys(self, key_changes: Mapping[str, tuple[str, ...]]) -> None:
        """Bind the keys of all actions; `key_changes` as in ScreenOptions."""
        input = self.input
        self._theme.bind_keys(key_changes)
        parts = self.actions, input.buffer, input.pastes, input.menu, input.ghost
        self._terminal_app.bind(build_bindings(*parts, self._vi, key_changes))

    def show_status_parts(self, parts: Sequence[str]) -> None:
        """Show these parts in the status line from now on."""
        self._area.parts = parts
        self._terminal_app.frames.soon()

    async def copied(self, text: str, what: str) -> str:
        """Copy clean `text`, which `what` names, to the terminal's clipboard; return a message about that.

        Raise Rejected where it cannot.
        """
        from ikigai.terminal.clipboard import copy_through_tty

        return await copy_through_tty(text, what, self._tty, os.environ)

    def drop_keys(self, drops: bool) -> None:
        """Drop typed text from now on, until this is called with False or a program that hides typing runs."""
        self._terminal_app.drop_keys(drops)

    def apply_theme(self, name: str, own: Mapping[str, Mapping[str, str]]) -> bool:
        """Use this theme from now on, one of `own` or of those there are; return False where there are no colors."""
        if not self._theme.color:
            return False
        self._terminal_app.apply_theme(name, own)
        return True

    @cached_property
    def programs(self) -> ExternalPrograms:
        """The programs that take the terminal from the prompt; loaded at their first use."""
        from ikigai.terminal.external_programs import ExternalPrograms

        parts = self._tty, self._theme, self._terminal_app, self.input, self.view, self.status
        return ExternalPrograms(*parts, self._handler)

    def close(self, error: BaseException | None = None) -> None:
        """End `run`, which raises `error` if there is one."""
        self._terminal_app.close(error)

    def restore(self) -> None:
        """Restore the terminal, for exits that go past `run`."""
        self._tty.restore()

    @property
    def has_input(self) -> bool:
        """True if a message is being typed: not an answer, nor the text of a search."""
        return bool(self.input.buffer.text) and not (self.input.finding or self._area.dialog)

    @property
    def unsent(self) -> str:
        """The text that was typed but not sent: queued messages, and the input before any search or answer."""
        return "\n".join(filter(None, (*self._area.live.waiting, self.input.typed)))
