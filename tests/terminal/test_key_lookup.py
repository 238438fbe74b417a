"""KeyLookup chooses the binding that prompt_toolkit would choose among all of a key."""

from random import Random

import pytest
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPress, defaults, merge_key_bindings
from prompt_toolkit.key_binding.key_bindings import Binding, KeyBindingsBase
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys

from ikigai.terminal import key_lookup
from ikigai.terminal.key_lookup import KeyLookup

SEQUENCES: tuple[tuple[Keys | str, ...], ...] = (
    (Keys.ControlM,),
    (Keys.ControlX,),
    (Keys.ControlX, Keys.ControlE),
    (Keys.Escape, "b"),
    (Keys.Escape,),
    (Keys.Any,),
    ("a",),
    (Keys.ControlA,),
)


def some_bindings(rng: Random) -> KeyBindings:
    """Return bindings of which some are active and some eager, several of one key among them."""
    keys = KeyBindings()
    for _ in range(20):
        active, eager = rng.random() < 0.5, rng.random() < 0.3

        @keys.add(*rng.choice(SEQUENCES), filter=Condition(lambda it=active: it), eager=Condition(lambda it=eager: it))
        def _(event: object) -> None: ...

    return keys


def chosen(matches: list[Binding]) -> object:
    """Return the function that a KeyProcessor calls, which takes the last one of those that are left."""
    matches = [each for each in matches if each.eager()] or matches
    return matches[-1].handler if matches else None


def test_key_lookup_chooses_what_all_bindings_together_would(monkeypatch: pytest.MonkeyPatch):
    default = key_lookup.default_bindings(vi=False)
    monkeypatch.setattr(key_lookup, "default_bindings", lambda vi: default)
    found = set[object]()
    for seed in range(10):
        own = some_bindings(Random(seed))
        lookup = KeyLookup(vi=False)
        lookup.bind(some_bindings(Random(-seed)))
        lookup.bind(own)
        every = merge_key_bindings([default, own])
        for sequence in (*SEQUENCES, (Keys.ControlJ,), (Keys.Up,), ("é",)):
            keys = [KeyPress(key) for key in sequence]
            processors = KeyProcessor(lookup), KeyProcessor(every)
            ours, theirs = (chosen(each._get_matches(keys)) for each in processors)
            assert ours == theirs
            waits = [each._is_prefix_of_longer_match(keys) for each in processors]
            assert waits[0] == waits[1]
            found.add(ours in [each.handler for each in own.bindings])
    assert found == {True, False}


@pytest.mark.parametrize("vi", [False, True])
def test_default_bindings_are_those_of_prompt_toolkit_in_its_order(vi: bool, monkeypatch: pytest.MonkeyPatch):
    def described(bindings: KeyBindingsBase) -> list[tuple[object, ...]]:
        return [(each.keys, each.handler.__module__, each.handler.__qualname__) for each in bindings.bindings]

    monkeypatch.setattr(defaults, "load_vi_search_bindings", KeyBindings)
    if not vi:
        monkeypatch.setattr(defaults, "load_vi_bindings", KeyBindings)
    expected = described(defaults.load_key_bindings())
    assert described(key_lookup.default_bindings(vi)) == expected and len(expected) > 100
