"""This module finds the function of a key, among those of prompt_toolkit and ours, in the fewest steps.

prompt_toolkit walks through the layout and through all its nested sets of bindings twice for each key, and then asks
every binding of the key if it is active. That takes 0.4 ms of each Enter, whose request waits for it.
"""

from collections.abc import Hashable

from prompt_toolkit.key_binding import KeyBindings, defaults
from prompt_toolkit.key_binding.key_bindings import Binding, KeyBindingsBase, KeysTuple


class KeyLookup(KeyBindingsBase):
    """The default bindings of prompt_toolkit, and before them those of `bind`. The layout has none of its own."""

    def __init__(self) -> None:
        self._defaults = defaults.load_key_bindings().bindings
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


def _in_one(bindings: list[Binding]) -> KeyBindings:
    """Return a set with all these bindings, which remembers those of each key."""
    keys = KeyBindings()
    keys.bindings.extend(bindings)
    return keys
