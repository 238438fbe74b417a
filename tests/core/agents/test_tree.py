"""The tree of agents as it is read, whatever the table says; and what a line of /fork asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.agents.tree import CIRCLE, MISSING, Link, below, beside, tree
from ikigai.core.commands.fork import Fork, asked
from ikigai.core.errors import Refused

links = st.lists(st.tuples(st.none() | st.integers(0, 14), st.booleans()), max_size=12).map(
    lambda each: [
        Link(str(n), f"n{n}", None if parent is None or parent == n else str(parent), float(n), dead)
        for n, (parent, dead) in enumerate(each)
    ]
)
"""Agents with any parents: earlier ones, later ones, such as are missing; circles among them."""


@given(links)
def test_everybody_has_one_place(found: list[Link]) -> None:
    places = tree(found)
    assert sorted(place.kin.id for place in places) == sorted(link.id for link in found)
    at = {place.kin.id: n for n, place in enumerate(places)}
    known = {link.id for link in found}
    for place in places:
        parent = place.kin.parent
        if place.trouble == "" and parent is not None:
            assert places[at[parent]].depth == place.depth - 1 and at[parent] < at[place.kin.id]
        else:
            assert place.depth == 0
            assert (place.trouble == MISSING) == (parent is not None and parent not in known)
            assert place.trouble in ("", MISSING, CIRCLE) and (place.trouble == "") == (parent is None)


@given(links, st.integers(0, 12))
def test_descendants_come_before_those_above_them(found: list[Link], n: int) -> None:
    mine = [link.id for link in below(found, str(n))]
    assert mine[-1:] == [str(n)] * (n < len(found)) and len(mine) == len(set(mine))
    for link in found:
        assert (link.id in mine) == (link.id == str(n) or (link.parent in mine)), "and nobody else"
    for link in found:
        if link.id in mine and link.parent in mine and link.id != str(n):
            assert mine.index(link.id) < mine.index(link.parent) or str(n) in _above(found, str(n))


def _above(found: list[Link], id: str) -> set[str]:
    """Those on the way up from an agent; with itself among them it is in a circle."""
    parents = {link.id: link.parent for link in found}
    met, at = set[str](), parents.get(id)
    while at is not None and at not in met:
        met.add(at)
        at = parents.get(at)
    return met


def test_relatives() -> None:
    def link(name: str, parent: str | None = None, dead: bool = False) -> Link:
        return Link(name, name, parent, float(len(found)), dead)

    found: list[Link] = []
    for name, parent, dead in (
        ("a", None, False), ("b", None, False), ("a1", "a", False), ("a2", "a", True), ("a3", "a", False),
        ("a11", "a1", False), ("under", "a2", False),
    ):  # fmt: skip
        found.append(link(name, parent, dead))

    def ways(id: str) -> list[str | None]:
        return [other.name if (other := beside(found, id, way)) else None for way in ("up", "down", "left", "right")]

    assert ways("a") == [None, "a3", None, "b"]
    assert ways("a1") == ["a", "a11", None, "a3"]
    assert ways("a3") == ["a", None, "a1", None]
    assert ways("under") == [None, None, None, None], "its parent is dead"
    assert ways("nobody") == [None] * 4


@pytest.mark.parametrize(
    ("line", "fork"),
    [
        ("", Fork()),
        ("go on", Fork(prompt="go on")),
        ('"go on"', Fork(prompt="go on")),
        ("at 12", Fork(12)),
        ("at #12 try that", Fork(12, prompt="try that")),
        ('"at 12 o\'clock"', Fork(prompt="at 12 o'clock")),
        ("at noon we eat", Fork(prompt="at noon we eat")),
        ("at 10:30 it broke", Fork(prompt="at 10:30 it broke")),
        ("--name kid", Fork(name="kid")),
        ("--name=kid --model a/b:low it's on", Fork(0, {"level": "low", "model": "a/b"}, "kid", "it's on")),
        ("--model a/b", Fork(0, {"level": "", "model": "a/b"})),
        ("at 3 --name k -- --odd", Fork(3, {}, "k", "--odd")),
        ('"two\nlines"', Fork(prompt="two\nlines")),
        ('"', Fork(prompt='"')),
    ],
)
def test_what_fork_asks_for(line: str, fork: Fork) -> None:
    assert asked(line) == fork


@pytest.mark.parametrize(
    "line",
    [
        "at 0",
        "at 99999999999999999999",
        "--model",
        "--model x",
        "--level high",
        "--name",
        "at",
        "at abc",
        "at #x",
        "at -3",
        "at #12abc look here",
        "at 12, look",
        'at abc "look here"',
        "at abc --name x",
    ],
)
def test_what_fork_cannot(line: str) -> None:
    with pytest.raises(Refused) as refused:
        asked(line)
    assert refused.value.what and refused.value.remedy


@given(st.text(max_size=40))
def test_any_argument_of_fork_is_understood_or_refused(line: str) -> None:
    try:
        asked(line)
    except Refused as refusal:
        assert refusal.what
