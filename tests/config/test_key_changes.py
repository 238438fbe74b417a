"""Tests of the table [keys]: what maps a key, and what is refused, with its place, so that the default keys stay."""

import pytest

from ikigai.config import load
from ikigai.core.commands.key_actions import KEY_ACTIONS, active_keys, key_label
from ikigai.terminal.input.key_bindings import key_presses


def read(tmp_path, text, **environ):
    (file := tmp_path / "config.toml").write_text(text)
    return load(file, environ, {})


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ('"f2"', ("f2",)),
        ('["Ctrl+Q", "C-Q", "M-s"]', ("ctrl-q", "alt-s")),
        ('"ctrl-x ctrl-q"', ("ctrl-x ctrl-q",)),
        ('"ALT-CTRL-q"', ("alt-ctrl-q",)),
        ('"ctrl-shift-left"', ("ctrl-shift-left",)),
        ('["alt-%", "ctrl-space", "pgup", "alt-pageup"]', ("alt-%", "ctrl-space", "pageup", "alt-pageup")),
        ("[]", ()),
    ],
)
def test_keys_are_read_in_the_usual_spellings(tmp_path, written, keys):
    config = read(tmp_path, f"[keys]\nstash = {written}\n")
    assert config.notices == () and config.key_changes == {"stash": keys}
    assert active_keys(config.key_changes)["stash"] == keys
    from prompt_toolkit.key_binding import KeyBindings

    for key in keys:
        KeyBindings().add(*key_presses(key))(lambda event: None)  # prompt_toolkit knows it


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[keys]\nstash = "ctrl-i"', ("config.toml:2: keys.stash cannot be 'ctrl-i': terminals send it as tab.",)),
        ('[keys]\nstash = "shift-enter"', ("keys.stash cannot be 'shift-enter': terminals send it as ctrl-j.",)),
        ('[keys]\nstash = "q"', ("keys.stash cannot be 'q': it types text.",)),
        ('[keys]\nstash = "alt-["', ("keys.stash cannot be 'alt-['.", '"ctrl-x ctrl-e"')),
        ('[keys]\nstash = "hyper-x"', ("keys.stash cannot be 'hyper-x'.",)),
        ('[keys]\nstash = ""', ("keys.stash cannot be ''.",)),
        ('[keys]\nstash = "f2 f3 f4"', ("keys.stash cannot be 'f2 f3 f4'.",)),
        ("[keys]\nstash = 7", ("keys.stash cannot be 7. Allowed: a list of keys",)),
        ('[keys]\nstash = [["f2"]]', ("keys.stash cannot be a list with a list.",)),
        (f'[keys]\nstash = "{"x" * 10_000}"', ("keys.stash cannot be 'xxx", "...")),
        (
            '[keys]\ncycle-approval = "f2"',
            ("there is no key keys.cycle-approval.", "Did you mean keys.cycle_approval?"),
        ),
        ("[keys]\nsend = []", ("keys.send has no key.",)),
        ('keys = "f2"', ("there is no key keys.",)),
        ('[keys]\nstash = "ctrl-s"', ("config.toml:2: keys.stash: ctrl-s is a key of steer",)),
        ('[keys]\nstash = "ctrl-x"', ("ctrl-x is a key of editor",)),
        ('[keys]\nstash = "f2"\noutput = "f2"', ("config.toml:3: keys.output: f2 is a key of stash",)),
    ],
)
def test_unusable_keys_are_told_with_their_place_and_the_default_stays(tmp_path, table, words):
    config = read(tmp_path, table + "\n")
    (notice,) = config.notices
    assert all(word in notice for word in words), notice
    assert len(notice) < 400
    assert config.key_changes == ({"stash": ("f2",)} if "output" in table else {})


def test_key_can_be_moved_from_one_action_to_another(tmp_path):
    config = read(tmp_path, '[keys]\nstash = "ctrl-s"\nsteer = ["f3"]\n', IKIGAI_KEYS_OUTPUT="f4, ctrl-o")
    assert config.notices == ()
    assert config.key_changes == {"stash": ("ctrl-s",), "steer": ("f3",), "output": ("f4", "ctrl-o")}


def test_default_keys_do_not_conflict_and_have_labels():
    keys = [key for action in KEY_ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys))
    assert not [(one, other) for one in keys for other in keys if one != other and f"{other} ".startswith(f"{one} ")]
    assert (key_label("ctrl-x ctrl-e"), key_label("escape")) == ("Ctrl+X Ctrl+E", "Esc")
