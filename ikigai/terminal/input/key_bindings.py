"""This module binds keys to actions: prompt_toolkit's Emacs keys, and ours over them."""

import time
from collections.abc import Callable
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, emacs_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from ikigai.terminal.input.completion import Menu
from ikigai.terminal.input.input_actions import InputActions, On
from ikigai.terminal.input.pastes import Pastes
from ikigai.terminal.input.prompt import GhostSuggestion
from ikigai.terminal.keyboard import ESC_KEY, NEWLINE_KEY

DOUBLE_ESC_SECONDS = 0.5
"""Seconds between two presses of Esc that are meant together."""


def build_bindings(
    actions: InputActions, buffer: Buffer, pastes: Pastes, menu: Menu, ghost: GhostSuggestion, vi: bool = False
) -> KeyBindings:
    keys = KeyBindings()
    always = Condition(lambda: True)
    finding = Condition(lambda: actions.finding)

    def on(*combination: Keys | str, filter: Condition = always, eager: bool = False) -> Callable[..., Any]:
        return keys.add(*combination, filter=~finding & filter, eager=eager)

    _writing(on, actions, buffer, pastes)
    _answering(on, actions, buffer)
    _stopping(on, actions, buffer, menu)
    _completing(on, actions, buffer, pastes, menu)
    _around_the_input(on, actions, buffer)
    _moving(on, actions, buffer)
    _accepting(on, buffer, ghost)
    if vi:
        from ikigai.terminal.input.vi import bind_vi_keys

        bind_vi_keys(on, actions, menu)

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer is buffer:
            if actions.asked or not actions.handler.dropped(event.data):
                buffer.insert_text(actions.pasted(event.data))
        else:
            event.current_buffer.insert_text(" ".join(event.data.split())[:200])

    _finding(lambda *combination: keys.add(*combination, filter=finding, eager=True), actions)
    return keys


def _writing(on: On, actions: InputActions, buffer: Buffer, pastes: Pastes) -> None:
    @on("enter")
    def _(event: KeyPressEvent) -> None:
        if buffer.document.text_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif actions.asked and actions.said(pastes.expanded(buffer.text)):
            pass
        elif buffer.text.strip():
            text = pastes.expanded(buffer.text)
            buffer.reset(append_to_history=True)
            event.app.vi_state.reset()
            actions.handler.submit(text)
        elif not actions.asked:
            actions.retry()

    @on("c-s")
    def _(event: KeyPressEvent) -> None:
        """Send the input, or else the newest queued message, into the turn under way."""
        if not actions.asked and (buffer.text.strip() or actions.take_back()):
            text = pastes.expanded(buffer.text)
            buffer.reset(append_to_history=True)
            actions.handler.steer(text)

    @on("c-v")
    def _(event: KeyPressEvent) -> None:
        if not actions.asked:
            actions.handler.paste_picture()

    @on(NEWLINE_KEY)
    @on(Keys.Escape, "enter")
    def _(event: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @on("up", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        if not actions.take_back():
            buffer.auto_up()

    @on("c-g")
    @on("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        actions.edit()

    @on(Keys.Escape, "#", filter=emacs_mode)
    @on(Keys.Escape, Keys.Any, filter=emacs_mode)  # Alt with a key that means nothing
    def _(event: KeyPressEvent) -> None:
        """Do nothing: prompt_toolkit would delete the line."""


def _finding(on: On, actions: InputActions) -> None:
    @on("enter")
    @on(NEWLINE_KEY)
    @on("tab")
    def _(event: KeyPressEvent) -> None:
        actions.found(take=True)

    @on(ESC_KEY)
    @on("c-c")
    @on("c-g")
    def _(event: KeyPressEvent) -> None:
        actions.found(take=False)

    @on("c-r")
    @on("up")
    @on("c-p")
    def _(event: KeyPressEvent) -> None:
        actions.find_next(1)

    @on("c-s")
    @on("down")
    @on("c-n")
    def _(event: KeyPressEvent) -> None:
        actions.find_next(-1)

    @on("c-z")
    def _(event: KeyPressEvent) -> None:
        """Suspend the program: prompt_toolkit would type the key."""
        actions.suspend()

    @on("c-l")
    def _(event: KeyPressEvent) -> None:
        actions.redraw()


def _answering(on: On, actions: InputActions, buffer: Buffer) -> None:
    @on(Keys.Any, filter=Condition(lambda: actions.asked))
    def _(event: KeyPressEvent) -> None:
        if not actions.pressed(event.data):
            buffer.insert_text(event.data)


def _stopping(on: On, actions: InputActions, buffer: Buffer, menu: Menu) -> None:
    pressed = 0.0  # Esc, on an empty line, with nothing to stop

    @on(ESC_KEY)
    def _(event: KeyPressEvent) -> None:
        nonlocal pressed
        before, pressed = pressed, 0.0
        if menu.close():
            pass
        elif actions.asked:
            actions.back()
        elif actions.busy:
            actions.handler.interrupt()
        elif not buffer.text and time.monotonic() - before < DOUBLE_ESC_SECONDS:
            actions.browse(rewinding=True)
        elif not buffer.text:
            pressed = time.monotonic()

    @on("c-c", eager=True)
    def _(event: KeyPressEvent) -> None:
        if actions.asked:
            actions.back()
        elif actions.busy:
            actions.handler.interrupt()
        elif buffer.text:
            buffer.reset(append_to_history=True)
        elif actions.ask_to_leave():
            actions.handler.leave()

    @on("c-d", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        actions.handler.leave()


def _completing(on: On, actions: InputActions, buffer: Buffer, pastes: Pastes, menu: Menu) -> None:
    @on("tab")
    def _(event: KeyPressEvent) -> None:
        if not buffer.complete_state:
            menu.offer()
        if buffer.complete_state and buffer.complete_state.complete_index is None:
            actions.offered()
        buffer.complete_next()

    @on("s-tab")
    def _(event: KeyPressEvent) -> None:
        if buffer.complete_state:
            buffer.complete_previous()
        else:
            actions.handler.cycle_approval()

    @on("backspace")
    def _(event: KeyPressEvent) -> None:
        label = pastes.label_before(buffer.document.text_before_cursor)
        buffer.delete_before_cursor(len(label) or event.arg)
        menu.offer()


def _around_the_input(on: On, actions: InputActions, buffer: Buffer) -> None:
    @on("c-l")
    def _(event: KeyPressEvent) -> None:
        actions.redraw()

    @on("c-z")
    def _(event: KeyPressEvent) -> None:
        actions.suspend()

    @on("c-o")
    def _(event: KeyPressEvent) -> None:
        actions.unfold()

    @on("c-r")
    def _(event: KeyPressEvent) -> None:
        actions.find()

    @on("?", filter=_empty(buffer) & Condition(lambda: not actions.asked))
    def _(event: KeyPressEvent) -> None:
        actions.handler.submit("/keys")

    @on("c-t")
    def _(event: KeyPressEvent) -> None:
        actions.browse()


def _moving(on: On, actions: InputActions, buffer: Buffer) -> None:
    @on(Keys.Escape, "up")
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("up")

    @on(Keys.Escape, "down")
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("down")

    @on(Keys.Escape, "left", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("left")

    @on(Keys.Escape, "right", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("right")


def _accepting(on: On, buffer: Buffer, ghost: GhostSuggestion) -> None:
    """Let keys that move to the end of the line insert the suggestion there."""
    is_there = Condition(lambda: bool(ghost.rest))

    for keys in ("right", "end", "c-e", "c-f"):

        @on(keys, filter=is_there)
        def _(event: KeyPressEvent) -> None:
            buffer.insert_text(ghost.rest)

    for keys in ((Keys.Escape, "right"), (Keys.Escape, "f"), ("c-right",)):

        @on(*keys, filter=is_there & (emacs_mode if "f" in keys else vi_mode | emacs_mode))
        def _(event: KeyPressEvent) -> None:
            buffer.insert_text(ghost.word)


def _empty(buffer: Buffer) -> Condition:
    return Condition(lambda: not buffer.text)
