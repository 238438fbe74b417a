"""The tree of agents: who is whose child, who stands beside whom, and in which order all of them are read.

Nothing here trusts the tree to be one: where a parent is missing, or ancestors form a circle, all of it is finite.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from ikigai.core.record import Record


class Link(Record, frozen=True):
    """An agent and its parent; `created_at` in seconds since 1970."""

    id: str
    name: str
    parent: str | None
    created_at: float
    dead: bool


class Kin(Link, frozen=True):
    """An agent as far as the newest rows of its log tell: nobody has loaded it.

    `turns` have ended, inherited ones not counted. `model` is "" where none of its own rows names one, `tokens` are
    those of its last request and what came of it, `words` what was said last. `in_turn` says that a turn has not
    ended. `holder` is who writes to it: "" nobody, HERE this program, else "host, pid N".
    """

    forked_at: int | None
    last_used_at: float
    turns: int
    model: str
    tokens: int
    words: str
    in_turn: bool
    holder: str = ""


HERE = "here"

_Link = TypeVar("_Link", bound=Link)


class Place(Record, Generic[_Link], frozen=True):
    """An agent at its place in the tree: `depth` counts those above it that are listed, too.

    `trouble` says in words why it stands at the top though it has a parent.
    """

    kin: _Link
    depth: int
    trouble: str = ""


MISSING = "its parent is missing"
CIRCLE = "its ancestors form a circle"
UNLISTED = "child of {}, which is dead"


def tree(links: Sequence[_Link], names: dict[str, str] | None = None) -> list[Place[_Link]]:
    """Everybody once, parents before their children, siblings by age.

    `names` are those of all agents by id, also of such as are not listed; without it a parent that is not listed is
    missing.
    """
    children: dict[str, list[_Link]] = {}
    listed = {link.id for link in links}
    tops = list[tuple[_Link, str]]()
    for link in links:
        if link.parent is None:
            tops.append((link, ""))
        elif link.parent in listed:
            children.setdefault(link.parent, []).append(link)
        else:
            unlisted = (names or {}).get(link.parent)
            tops.append((link, UNLISTED.format(unlisted) if unlisted else MISSING))
    found, met = list[Place[_Link]](), set[str]()

    def walk(top: _Link, trouble: str) -> None:
        waiting = [Place(top, 0, trouble)]
        while waiting:
            place = waiting.pop()
            if place.kin.id not in met:
                met.add(place.kin.id)
                found.append(place)
                waiting += (Place(child, place.depth + 1) for child in reversed(children.get(place.kin.id, [])))

    for top, trouble in tops:
        walk(top, trouble)
    for link in links:  # nobody leads to those in a circle
        if link.id not in met:
            walk(link, CIRCLE)
    return found


def below(links: Iterable[_Link], id: str) -> list[_Link]:
    """The agent and all its descendants, each behind everybody below it."""
    children: dict[str | None, list[_Link]] = {}
    for link in links:
        children.setdefault(link.parent, []).append(link)
        if link.id == id:
            children[""] = [link]
    found, met = list[_Link](), set[str]()
    waiting = list(children.get("", ()))
    while waiting:
        link = waiting.pop()
        if link.id not in met:
            met.add(link.id)
            found.append(link)
            waiting += children.get(link.id, ())
    return found[::-1]


def beside(links: Sequence[_Link], id: str, where: str) -> _Link | None:
    """The living relative of an agent: its parent ("up"), newest child ("down"), elder or younger sibling ("left",
    "right"). Roots are each other's siblings. None where there is nobody.
    """
    own = next((link for link in links if link.id == id), None)
    if own is None:
        return None
    if where == "up":
        return next((link for link in links if link.id == own.parent and not link.dead), None)
    age = {link.id: (link.created_at, link.id) for link in links}
    living = sorted((link for link in links if not link.dead), key=lambda link: age[link.id])
    if where == "down":
        return next((link for link in reversed(living) if link.parent == id), None)
    siblings = [link for link in living if link.parent == own.parent and link.id != id]
    if where == "left":
        return next((link for link in reversed(siblings) if age[link.id] < age[id]), None)
    return next((link for link in siblings if age[link.id] > age[id]), None)


class Made(Record, frozen=True):
    """An agent of a tree: `maker` is the id of the one whose tool made it, None for the one at the top (`depth` 0)."""

    id: str
    name: str
    maker: str | None
    depth: int
    dead: bool


def descendants(tree: Sequence[Made], agent: str) -> tuple[Made, ...]:
    """Those of the tree that work for the agent, or for one that does; parents before their children."""
    found, mine = list[Made](), {agent}
    for each in sorted(tree, key=lambda made: made.depth):
        if each.maker in mine:
            mine.add(each.id)
            found.append(each)
    return tuple(found)
