"""What vi's own keys would do otherwise than is said here; loaded where somebody wants them."""

import string

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, vi_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode, ViState

from ikigai.terminal.input.actions import Actions, On
from ikigai.terminal.input.completion import Menu
from ikigai.terminal.keyboard import ESC


def vi_keys(on: On, actions: Actions, menu: Menu) -> None:
    """What vi's own keys would do otherwise than is said here."""
    editing = Condition(lambda: not _at_rest(get_app().vi_state, get_app().current_buffer))

    @on(ESC, filter=vi_mode & editing)
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


def _at_rest(state: ViState, buffer: Buffer) -> bool:
    """Whether vi waits for a command and nothing has been begun."""
    begun = state.operator_func or state.waiting_for_digraph or buffer.selection_state
    return state.input_mode is InputMode.NAVIGATION and not begun
