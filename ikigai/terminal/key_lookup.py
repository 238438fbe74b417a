"""Find the function of a key, among the bindings of prompt_toolkit and ikigai, in the fewest steps.

prompt_toolkit walks through the layout and through all its nested sets of bindings twice for each key, and then asks
every binding of the key if it is active. That takes 0.4 ms of each Enter, whose request waits for it.
"""

from collections.abc import Hashable

from prompt_toolkit.filters import buffer_has_focus
from prompt_toolkit.key_binding import ConditionalKeyBindings, KeyBindings, merge_key_bindings
from prompt_toolkit.key_binding.bindings.basic import load_basic_bindings
from prompt_toolkit.key_binding.bindings.cpr import load_cpr_bindings
from prompt_toolkit.key_binding.bindings.emacs import (
    load_emacs_bindings,
    load_emacs_search_bindings,
    load_emacs_shift_selection_bindings,
)
from prompt_toolkit.key_binding.bindings.mouse import load_mouse_bindings
from prompt_toolkit.key_binding.bindings.vi import load_vi_bindings
from prompt_toolkit.key_binding.key_bindings import Binding, KeyBindingsBase, KeysTuple
from prompt_toolkit.keys import Keys

MOVES = ("left", "right", "up", "down", "home", "end")
"""Keys that move the cursor; with Shift they do the same."""
_ESC, _ANY = Keys.Escape, Keys.Any
_LEFT_OUT: frozenset[KeysTuple] = frozenset(
    {
        (Keys.ControlAt,),  # Ctrl+Space starts a selection: letters vanish until Esc
        *((Keys(f"{ctrl}s-{key}"),) for ctrl in ("", "c-") for key in MOVES),  # the same: letters replace it
        (Keys.ControlQ,),  # quotes the next key, also Enter and Ctrl+C
        (Keys.ControlSquareClose, _ANY),  # goes to the next letter typed
        (_ESC, Keys.ControlSquareClose, _ANY),
        *((_ESC, digit) for digit in "-0123456789"),  # repeats the next letter
        *((Keys.ControlX, key) for key in "()e"),  # records keys and types them again
        *((Keys.ControlX, "r", key) for key in "ky"),
        (Keys.ControlO,),  # clears the line
        (Keys.ControlZ,),  # types a control character
    }
)
"""Keys of prompt_toolkit's Emacs mode after which typed text is lost, and nothing on the screen tells why."""


class KeyLookup(KeyBindingsBase):
    """The default bindings of prompt_toolkit, after the bindings of `bind`. The layout has none of its own.

    Those of vi are here only with `vi`: else they are hundreds that no key would reach.
    """

    def __init__(self, vi: bool) -> None:
        self._defaults = [each for each in default_bindings(vi).bindings if not _is_left_out(each)]
        self._all = _in_one(self._defaults)

    def bind(self, keys: KeyBindingsBase) -> None:
        """Use `keys` in the place of those before."""
        self._all = _in_one([*self._defaults, *keys.bindings])

    @property
    def _version(self) -> Hashable:
        return id(self._all)

    @property
    def bindings(self) -> list[Binding]:
        return self._all.bindings

    def get_bindings_for_keys(self, keys: KeysTuple) -> list[Binding]:
        """Return the binding that the processor of keys chooses: the last active one, eager ones first."""
        newest_first = self._all.get_bindings_for_keys(keys)[::-1]
        active = next((each for each in newest_first if each.eager() and each.filter()), None)
        active = active or next((each for each in newest_first if each.filter()), None)
        return [active] if active else []

    def get_bindings_starting_with_keys(self, keys: KeysTuple) -> list[Binding]:
        return self._all.get_bindings_starting_with_keys(keys)


def default_bindings(vi: bool) -> KeyBindingsBase:
    """Return the bindings of prompt_toolkit's `load_key_bindings`, without vi's search."""
    editing = [load_basic_bindings(), load_emacs_bindings()]
    editing += [load_emacs_search_bindings(), load_emacs_shift_selection_bindings()]
    if vi:
        editing.append(load_vi_bindings())
    in_buffer = ConditionalKeyBindings(merge_key_bindings(editing), buffer_has_focus)
    return merge_key_bindings([in_buffer, load_mouse_bindings(), load_cpr_bindings()])


def _is_left_out(binding: Binding) -> bool:
    """Return True if the binding loses text; bindings of vi's modes, and bindings that do nothing, stay."""
    handler = binding.handler
    return binding.keys in _LEFT_OUT and handler.__name__ != "_ignore" and not handler.__module__.endswith(".vi")


def _in_one(bindings: list[Binding]) -> KeyBindings:
    """Return a set with all these bindings, which remembers the bindings of each key."""
    keys = KeyBindings()
    keys.bindings.extend(bindings)
    return keys
