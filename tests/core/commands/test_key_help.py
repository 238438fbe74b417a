"""Tests of the list of keys and its layout."""

import pytest

from ikigai.core.commands.key_actions import KEY_ACTIONS, key_label
from ikigai.core.commands.key_help import FIXED_KEYS, NO_KEY, format_keys, key_rows


def test_list_names_the_keys_in_use():
    changed = dict(key_rows({"editor": ("f2", "ctrl-x e"), "stash": ()}))
    default = dict(key_rows({}))
    assert changed["F2, Ctrl+X E"] == default["Ctrl+G, Ctrl+X Ctrl+E"] and NO_KEY in changed
    assert len(default) == len(KEY_ACTIONS) + len(FIXED_KEYS)


@pytest.mark.parametrize("columns", [16, 38, 78, 118])
def test_list_keeps_to_the_columns_and_leaves_nothing_out(columns: int):
    text = format_keys(columns, {})
    assert max(map(len, text.split("\n"))) <= columns
    for action in KEY_ACTIONS:
        assert all(word in text for word in f"{key_label(action.keys[0])} {action.pair or action.help}".split())


def test_list_fits_a_screen_of_80_by_24():
    assert len(format_keys(78, {}).split("\n")) <= 24 - 3, "the prompt, its status line and a blank row are there, too"
