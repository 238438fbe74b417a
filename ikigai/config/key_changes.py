"""Check the keys that the table [keys] gives to actions; loaded only if there are some.

A key that cannot be used is not a reason to stop: the action keeps its default keys, and the user is told at start.
"""

import re
from collections.abc import Iterable

import msgspec

from ikigai.config import diagnostics
from ikigai.config.key_table import KEY_SPECS, KeyPath, Setting, dotted_path
from ikigai.core.commands.key_actions import active_keys
from ikigai.core.errors import ConfigError

MAX_KEYS, MAX_KEY_CHARACTERS = 8, 40
"""Keys of an action, and characters of a key."""
ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ins": "insert"}
SAME_KEYS = {"ctrl-h": "backspace", "ctrl-i": "tab", "ctrl-m": "enter", "ctrl-[": "escape"}
"""Keys that a terminal does not tell from others."""
_PRESS = re.compile(
    r"ctrl-(?:[a-z\\\]^_]|space|f[1-9]|f1\d|f2[0-4])|f[1-9]|f1\d|f2[0-4]|tab|shift-tab|enter|escape|backspace"
    r"|(?:ctrl-)?(?:shift-)?(?:up|down|left|right|home|end|pageup|pagedown|insert|delete)"
)
_ALT = re.compile(r"alt-(?:[a-z0-9!-/:-@`{-~\\]|(?P<rest>.+))")
"""Alt and a character; not those with which the terminal's own sequences begin."""


def resolve(chosen: Iterable[Setting]) -> tuple[dict[KeyPath, Setting], tuple[str, ...]]:
    """Return the settings that can be used, with their keys in one spelling, and the messages about the others."""
    usable: dict[KeyPath, Setting] = {}
    notices: list[str] = []
    for setting in chosen:
        try:
            if setting.path != ("keys",) or setting.value != {}:
                usable[setting.path] = msgspec.structs.replace(setting, value=_checked_keys(setting))
        except ConfigError as error:
            notices.append(str(error))
    while conflict := _find_conflict(usable):
        setting, key, other = conflict
        del usable[setting.path]
        notices.append(
            f"{_place(setting)}: {key} is a key of {other}, so {setting.path[1]} keeps its default keys. "
            f"Choose another, or give {other} other keys."
        )
    return usable, tuple(notices)


def _checked_keys(setting: Setting) -> tuple[str, ...]:
    """Return the keys of the setting. Raise ConfigError for an unknown action and for a key that is none."""
    if setting.path not in KEY_SPECS:
        raise diagnostics.unknown_key(setting)
    value = [setting.value] if isinstance(setting.value, str) else setting.value
    if not isinstance(value, list) or len(value) > MAX_KEYS or not all(isinstance(each, str) for each in value):
        raise diagnostics.bad_value(setting)
    if not value and setting.path[1] == "send":
        raise ConfigError(f"{_place(setting)} has no key.", "Without a key nothing can be sent; the default is kept.")
    default = KEY_SPECS[setting.path].default
    assert isinstance(default, tuple)
    keys = (each if each in default else _parse_key(each, setting) for each in value)
    return tuple(dict.fromkeys(keys))


def _parse_key(text: str, setting: Setting) -> str:
    """Return a key as `core.commands.key_actions` writes it. Raise ConfigError."""
    presses = [_spelled(press) for press in text[: MAX_KEY_CHARACTERS + 1].lower().split()]
    where = f"{_place(setting)} cannot be {diagnostics.format_value(text)}"
    for press in presses:
        if same := SAME_KEYS.get(press):
            raise ConfigError(
                f"{where}: terminals send it as {same}.", "The default keys are kept; choose another key."
            )
        if press in ("shift-enter", "ctrl-enter"):
            raise ConfigError(
                f"{where}: terminals send it as ctrl-j.", "The default keys are kept; choose another key."
            )
    if len(text) > MAX_KEY_CHARACTERS or not 1 <= len(presses) <= 2 or not all(map(_is_press, presses)):
        what = ": it types text" if len(text) == 1 else ""
        raise ConfigError(
            f"{where}{what}.",
            'The default keys are kept. Write keys as "ctrl-x", "alt-enter", "f2" or "ctrl-x ctrl-e".',
        )
    return " ".join(presses)


def _spelled(press: str) -> str:
    *modifiers, key = re.split(r"[-+](?=.)", press)
    names = {"c": "ctrl", "control": "ctrl", "m": "alt", "meta": "alt", "option": "alt", "s": "shift"}
    found = {names.get(each, each) for each in modifiers}
    known = [each for each in ("alt", "ctrl", "shift") if each in found]
    return "-".join([*known, *sorted(found - {*known}), ALIASES.get(key, key)])


def _is_press(press: str) -> bool:
    alt = _ALT.fullmatch(press)
    return bool(_PRESS.fullmatch((alt["rest"] or "enter") if alt else press))


def _find_conflict(usable: dict[KeyPath, Setting]) -> tuple[Setting, str, str] | None:
    """Return the first setting with a key that another action has, or that begins or continues one; and both."""
    active = active_keys({path[1]: setting.value for path, setting in usable.items()})
    for path, setting in reversed(usable.items()):
        for other, keys in active.items():
            if other != path[1]:
                for key in setting.value:
                    if any(_begins(key, each) or _begins(each, key) for each in keys):
                        return setting, key, other
    return None


def _begins(key: str, other: str) -> bool:
    return f"{other} ".startswith(f"{key} ")


def _place(setting: Setting) -> str:
    return f"{setting.place}: {dotted_path(setting.path)}" if setting.kind == "configuration" else setting.place
