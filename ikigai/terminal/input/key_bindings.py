"""Bind keys to actions: prompt_toolkit's Emacs keys, and over them the actions of `core.commands.key_actions`.

Esc and Ctrl+C stop the activity under way: a menu, a question, a command, the reading of attachments, or the turn. The
agent gets the input Interrupted: the turn ends with the part of the reply so far, running tools are cancelled, and
messages that wait return to the prompt (`core/state/decisions` has the rule).
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, emacs_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys

from ikigai.core.commands.key_actions import KEY_ACTIONS, active_keys, key_label
from ikigai.terminal.input.completion import Menu
from ikigai.terminal.input.input_actions import InputActions, On
from ikigai.terminal.input.prompt import GhostSuggestion
from ikigai.terminal.input.sent_prompts import Pastes
from ikigai.terminal.key_lookup import MOVES
from ikigai.terminal.keys.codes import ESC_KEY

DOUBLE_ESC_SECONDS = 0.5
"""Seconds between two presses of Esc that are meant together."""


def build_bindings(
    actions: InputActions,
    buffer: Buffer,
    pastes: Pastes,
    menu: Menu,
    ghost: GhostSuggestion,
    vi: bool = False,
    key_changes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> KeyBindings:
    """Return the bindings. `key_changes` are the keys that the user gave to actions, by their names."""
    keys = KeyBindings()
    always = Condition(lambda: True)
    finding = Condition(lambda: actions.finding)
    active = active_keys(key_changes)
    if not any("ctrl-j" in each for each in active.values()):  # terminals report Shift+Enter in many ways, all of them
        active["newline"] += ("ctrl-j",)  # taken for this key

    def on(*combination: Keys | str, filter: Condition = always, eager: bool = False) -> Callable[..., Any]:
        return keys.add(*combination, filter=~finding & filter, eager=eager)

    def on_action(name: str, filter: Condition = always) -> Callable[..., Any]:
        return _binder(active, name, lambda keys, eager: on(*keys, filter=filter, eager=eager))

    def in_search(*combination: Keys | str) -> Callable[..., Any]:
        return keys.add(*combination, filter=finding, eager=True)

    _writing(on_action, on, actions, buffer, pastes)
    _answering(on, actions, buffer)
    _stopping(on_action, actions, buffer, menu, active)
    _completing(on_action, on, actions, buffer, pastes, menu)
    _around_the_input(on_action, on, actions, buffer)
    _moving(on_action, actions, buffer)
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

    @keys.add(Keys.Escape, "#", filter=emacs_mode)
    @keys.add(Keys.Escape, Keys.Any, filter=emacs_mode)  # Alt with a key that means nothing
    def _(event: KeyPressEvent) -> None:
        """Do nothing: prompt_toolkit would delete the line, or type the key."""

    _moving_with_shift(keys)
    _finding(lambda name: _binder(active, name, lambda keys, _: in_search(*keys)), in_search, actions)
    return keys


def _binder(
    active: Mapping[str, tuple[str, ...]], name: str, bind: Callable[[tuple[Keys | str, ...], bool], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return the decorator that binds a function to every key of the action.

    A key that the user has chosen goes before the longer sequences of prompt_toolkit that begin with it.
    """
    default = next(action.keys for action in KEY_ACTIONS if action.name == name)

    def decorate(function: Callable[[KeyPressEvent], object]) -> Callable[[KeyPressEvent], object]:
        for key in active[name]:
            bind(key_presses(key), key not in default or key == "ctrl-c")(function)
        return function

    return decorate


def key_presses(key: str) -> tuple[Keys | str, ...]:
    """Return the key presses of a key of `core.commands.key_actions` as prompt_toolkit names them."""
    presses: list[Keys | str] = []
    for press in key.split():
        plain = press.removeprefix("alt-")
        if plain != press:
            presses.append(Keys.Escape)
        plain = plain.replace("ctrl-", "c-").replace("shift-", "s-")
        presses.append({"escape": ESC_KEY, "space": " "}.get(plain, plain))
    return tuple(presses)


def _writing(on_action: On, on: On, actions: InputActions, buffer: Buffer, pastes: Pastes) -> None:
    @on_action("send")
    def _(event: KeyPressEvent) -> object:
        if buffer.document.text_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif actions.asked and actions.answer_with(pastes.expanded(buffer.text)):
            pass
        elif buffer.text.strip():
            text = pastes.expanded(buffer.text)
            buffer.reset(append_to_history=True)
            event.app.vi_state.reset()
            actions.handler.submit(text)
            actions.entered()
            return NotImplemented  # else prompt_toolkit lays the input out before the message is stored and sent
        elif not actions.asked:
            actions.retry()
        return None

    @on_action("steer")
    def _(event: KeyPressEvent) -> None:
        """Send the input, or else the newest queued message, into the turn under way."""
        if not actions.asked and (buffer.text.strip() or actions.take_back()):
            text = pastes.expanded(buffer.text)
            buffer.reset(append_to_history=True)
            actions.handler.steer(text)

    @on_action("paste_picture")
    def _(event: KeyPressEvent) -> None:
        if not actions.asked:
            actions.handler.paste_picture()

    @on_action("stash")
    def _(event: KeyPressEvent) -> None:
        if not actions.asked:
            actions.handler.stash()

    @on_action("newline")
    def _(event: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @on("up", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        if not actions.take_back():
            buffer.auto_up()

    @on_action("editor")
    def _(event: KeyPressEvent) -> None:
        actions.edit()


def _finding(on_action: On, on: On, actions: InputActions) -> None:
    @on_action("newline")
    @on_action("send")
    @on("tab")
    def _(event: KeyPressEvent) -> None:
        actions.found(take=True)

    @on("c-g")
    @on_action("stop")
    @on_action("cancel")
    def _(event: KeyPressEvent) -> None:
        actions.found(take=False)

    @on("up")
    @on("c-p")
    @on_action("search")
    def _(event: KeyPressEvent) -> None:
        actions.find_next(1)

    @on("c-s")
    @on("down")
    @on("c-n")
    def _(event: KeyPressEvent) -> None:
        actions.find_next(-1)

    @on_action("suspend")
    def _(event: KeyPressEvent) -> None:
        """Suspend the program: prompt_toolkit would type the key."""
        actions.suspend()

    @on_action("redraw")
    def _(event: KeyPressEvent) -> None:
        actions.redraw()


def _answering(on: On, actions: InputActions, buffer: Buffer) -> None:
    @on(Keys.Any, filter=Condition(lambda: actions.asked))
    def _(event: KeyPressEvent) -> None:
        if not actions.pressed(event.data):
            buffer.insert_text(event.data)


def _stopping(
    on_action: On, actions: InputActions, buffer: Buffer, menu: Menu, active: Mapping[str, tuple[str, ...]]
) -> None:
    pressed = 0.0  # Esc, on an empty line, with nothing to stop

    @on_action("stop")
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

    @on_action("cancel")
    def _(event: KeyPressEvent) -> None:
        if actions.asked:
            actions.back()
        elif actions.busy:
            actions.handler.interrupt()
        elif buffer.text:
            buffer.reset(append_to_history=True)
        elif actions.ask_to_leave(key_label(active["cancel"][0])):
            actions.handler.leave()

    @on_action("exit", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        if not actions.handler.at_work() or actions.ask_to_leave(key_label(active["exit"][0])):
            actions.handler.leave()


def _completing(on_action: On, on: On, actions: InputActions, buffer: Buffer, pastes: Pastes, menu: Menu) -> None:
    @on_action("complete")
    def _(event: KeyPressEvent) -> None:
        if not buffer.complete_state:
            menu.offer()
        if not buffer.complete_state and not actions.asked and actions.handler.add_recalled():
            return
        if buffer.complete_state and buffer.complete_state.complete_index is None:
            actions.offered()
        buffer.complete_next()

    @on_action("cycle_approval")
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


def _around_the_input(on_action: On, on: On, actions: InputActions, buffer: Buffer) -> None:
    @on_action("redraw")
    def _(event: KeyPressEvent) -> None:
        actions.redraw()

    @on_action("suspend")
    def _(event: KeyPressEvent) -> None:
        actions.suspend()

    @on_action("output")
    def _(event: KeyPressEvent) -> None:
        actions.unfold()

    @on_action("search")
    def _(event: KeyPressEvent) -> None:
        actions.find()

    @on("?", filter=_empty(buffer) & Condition(lambda: not actions.asked))
    def _(event: KeyPressEvent) -> None:
        actions.show_keys()

    @on_action("choose_model", filter=Condition(lambda: not actions.asked))
    def _(event: KeyPressEvent) -> None:
        actions.handler.submit("/model")

    @on_action("history")
    def _(event: KeyPressEvent) -> None:
        actions.browse()


def _moving(on_action: On, actions: InputActions, buffer: Buffer) -> None:
    @on_action("parent_agent")
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("up")

    @on_action("child_agent")
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("down")

    @on_action("previous_agent", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("left")

    @on_action("next_agent", filter=_empty(buffer))
    def _(event: KeyPressEvent) -> None:
        actions.handler.go_to("right")


def _moving_with_shift(keys: KeyBindings) -> None:
    """Let Shift make no difference to keys that move the cursor: prompt_toolkit selects text, which letters replace."""
    for ctrl in ("", "c-"):
        for move in MOVES:

            @keys.add(f"{ctrl}s-{move}")
            def _(event: KeyPressEvent, plain: str = ctrl + move) -> None:
                event.key_processor.feed(KeyPress(Keys(plain), ""), first=True)


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
