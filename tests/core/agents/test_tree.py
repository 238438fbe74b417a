"""The tree of agents can be read whatever the table says, and a line of /fork is parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.agents.tree import ANCESTOR_CIRCLE, PARENT_MISSING, AgentLink, build_tree, subtree
from ikigai.core.commands.fork import ForkRequest, parse_fork
from ikigai.core.errors import Rejected

links = st.lists(st.tuples(st.none() | st.integers(0, 14), st.booleans()), max_size=12).map(
    lambda each: [
        AgentLink(str(n), f"n{n}", None if parent is None or parent == n else str(parent), float(n), dead, False)
        for n, (parent, dead) in enumerate(each)
    ]
)
"""Agents with any parents: earlier ones, later ones, such as are missing; circles among them."""


@given(links)
def test_everybody_has_one_place(found: list[AgentLink]) -> None:
    places = build_tree(found)
    assert sorted(place.agent.id for place in places) == sorted(link.id for link in found)
    at = {place.agent.id: n for n, place in enumerate(places)}
    known = {link.id for link in found}
    for place in places:
        parent = place.agent.parent
        if place.problem == "" and parent is not None:
            assert places[at[parent]].depth == place.depth - 1 and at[parent] < at[place.agent.id]
        else:
            assert place.depth == 0
            assert (place.problem == PARENT_MISSING) == (parent is not None and parent not in known)
            assert place.problem in ("", PARENT_MISSING, ANCESTOR_CIRCLE) and (place.problem == "") == (parent is None)


@given(links, st.integers(0, 12))
def test_descendants_come_before_those_above_them(found: list[AgentLink], n: int) -> None:
    mine = [link.id for link in subtree(found, str(n))]
    assert mine[-1:] == [str(n)] * (n < len(found)) and len(mine) == len(set(mine))
    for link in found:
        assert (link.id in mine) == (link.id == str(n) or (link.parent in mine)), "and nobody else"
    for link in found:
        if link.id in mine and link.parent in mine and link.id != str(n):
            assert mine.index(link.id) < mine.index(link.parent) or str(n) in _above(found, str(n))


def _above(found: list[AgentLink], id: str) -> set[str]:
    """Return the agents on the way up from an agent; with itself among them it is in a circle."""
    parents = {link.id: link.parent for link in found}
    met, at = set[str](), parents.get(id)
    while at is not None and at not in met:
        met.add(at)
        at = parents.get(at)
    return met


@pytest.mark.parametrize(
    ("line", "fork"),
    [
        ("", ForkRequest()),
        ("go on", ForkRequest(prompt="go on")),
        ('"go on"', ForkRequest(prompt="go on")),
        ("at 12", ForkRequest(12)),
        ("at #12 try that", ForkRequest(12, prompt="try that")),
        ('"at 12 o\'clock"', ForkRequest(prompt="at 12 o'clock")),
        ("at noon we eat", ForkRequest(prompt="at noon we eat")),
        ("at 10:30 it broke", ForkRequest(prompt="at 10:30 it broke")),
        ("--name kid", ForkRequest(name="kid")),
        ("--name=kid --model a/b:low it's on", ForkRequest(0, {"level": "low", "model": "a/b"}, "kid", "it's on")),
        ("--model a/b", ForkRequest(0, {"level": "", "model": "a/b"})),
        ("at 3 --name k -- --odd", ForkRequest(3, {}, "k", "--odd")),
        ('"two\nlines"', ForkRequest(prompt="two\nlines")),
        ('"', ForkRequest(prompt='"')),
    ],
)
def test_what_fork_asks_for(line: str, fork: ForkRequest) -> None:
    assert parse_fork(line) == fork


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
    with pytest.raises(Rejected) as refused:
        parse_fork(line)
    assert refused.value.what


@given(st.text(max_size=40))
def test_any_argument_of_fork_is_understood_or_refused(line: str) -> None:
    try:
        parse_fork(line)
    except Rejected as refusal:
        assert refusal.what
