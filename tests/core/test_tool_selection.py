"""The value type for tool sets that are off: its stored text, and what two of them switch off together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.tools.tool_selection import CHOSEN_SETS, EVERY_SET, NO_TOOLS, ToolSelection

SETS = ("files", "shell", "web")
selections = st.lists(st.sampled_from([*SETS, EVERY_SET]), unique=True).map(lambda names: ToolSelection(tuple(names)))


@pytest.mark.parametrize(
    ("stored", "off", "shown"),
    [
        (None, (), "none"),
        ("", (), "none"),
        ("web", ("web",), "web"),
        ("web,shell", ("shell", "web"), "web,shell"),
        (",web,", ("web",), "web"),
        ("*", SETS, "all"),
    ],
)
def test_stored_text_says_which_sets_are_off(stored: str | None, off: tuple[str, ...], shown: str):
    selection = ToolSelection.of({"tools_off": stored})
    assert tuple(name for name in SETS if selection.is_off(name)) == off
    assert selection.shown == shown and selection.text == (stored or "").strip(",")
    assert ToolSelection.of({}) == ToolSelection()
    assert selection.named(SETS) == frozenset(off)


@given(selections, selections)
def test_tightened_selection_switches_off_what_either_one_does(one: ToolSelection, other: ToolSelection):
    both = one.tightened(other)
    for name in SETS:
        assert both.is_off(name) == (one.is_off(name) or other.is_off(name))
    assert both.covers(one) and both.covers(other) and both.tightened(other) is both
    assert (both is one) == one.covers(other)
    assert ToolSelection.parse(both.text).text == both.text
    assert NO_TOOLS.covers(both)


@pytest.mark.parametrize("name", CHOSEN_SETS)
def test_chosen_set_is_off_until_it_is_switched_on(name: str):
    known = (*SETS, name)
    off = ToolSelection.parse("web")
    assert off.is_off(name) and ToolSelection().is_off(name) and NO_TOOLS.is_off(name)
    on = off.switched(name, True, known)
    assert on.text == f"web,+{name}" and ToolSelection.parse(on.text) == on
    assert not on.is_off(name) and on.is_off("web") and on.shown == "web"
    assert on.switched(name, False, known) == off
    assert on.switched("web", True, known).text == f"+{name}"
    forbidden = on.tightened(ToolSelection((name,)))
    assert forbidden.is_off(name) and forbidden.covers(ToolSelection((name,)))
    assert NO_TOOLS.switched(name, True, known).off == SETS, "the others stay off"
