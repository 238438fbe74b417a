"""Bind keys of vi mode that differ from prompt_toolkit's; loaded only for vi mode."""

import string

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, vi_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode, ViState

from ikigai.terminal.input.completion import Menu
from ikigai.terminal.input.input_actions import InputActions, On
from ikigai.terminal.keys.codes import ESC_KEY


def bind_vi_keys(on: On, actions: InputActions, menu: Menu) -> None:
    """Bind the keys of vi mode that differ from prompt_toolkit's."""
    editing = Condition(lambda: not _is_idle(get_app().vi_state, get_app().current_buffer))

    @on(ESC_KEY, filter=vi_mode & editing)
    def _(event: KeyPressEvent) -> None:
        menu.close()
        buffer, state = event.current_buffer, event.app.vi_state
        if state.input_mode in (InputMode.INSERT, InputMode.REPLACE):
            buffer.cursor_position += buffer.document.get_cursor_left_position()
        state.reset()
        state.input_mode = InputMode.NAVIGATION
        buffer.exit_selection()

    @on("/", filter=vi_navigation_mode)
    def _(event: KeyPressEvent) -> None:
        actions.find()

    answering = vi_navigation_mode & Condition(lambda: actions.asked)
    for letter in string.ascii_letters + string.digits:

        @on(letter, filter=answering, eager=True)
        def _(event: KeyPressEvent) -> None:
            actions.pressed(event.data)


def _is_idle(state: ViState, buffer: Buffer) -> bool:
    """Return True if vi waits for a command and none has been begun."""
    begun = state.operator_func or state.waiting_for_digraph or buffer.selection_state
    return state.input_mode is InputMode.NAVIGATION and not begun
