"""Order agents into a tree: parents, siblings, and the sequence in which all of them are read.

Nothing here trusts the tree to be one: with a missing parent, or ancestors in a circle, all of it stays finite.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from ikigai.core.events.record import Record


class AgentLink(Record, frozen=True):
    """An agent and its parent; `created_at` in seconds since 1970."""

    id: str
    name: str
    parent: str | None
    created_at: float
    killed: bool
    archived: bool

    @property
    def is_listed(self) -> bool:
        """True unless it is killed or archived."""
        return not (self.killed or self.archived)


class AgentInfo(AgentLink, frozen=True):
    """An agent as the newest rows of its log show it, without loading it."""

    forked_at: int | None
    last_used_at: float
    turns: int
    """Ended turns, without inherited ones."""
    model: str
    """The model in its own rows, or ""."""
    tokens: int
    """Tokens of its last request and reply that have figures."""
    last_words: str
    """The last words of the conversation."""
    in_turn: bool
    """True if a turn is open."""
    failed: bool
    """True if the newest turn failed."""
    holder: str = ""
    """The lock owner: "" for none, THIS_PROGRAM for this process, else "host, pid N"."""


THIS_PROGRAM = "here"

_Link = TypeVar("_Link", bound=AgentLink)


class TreeNode(Record, Generic[_Link], frozen=True):
    """An agent at its place in the tree. `depth` also counts the listed agents above it.

    `problem` says in words why it stands at the top though it has a parent.
    """

    agent: _Link
    depth: int
    problem: str = ""


PARENT_MISSING = "its parent is missing"
ANCESTOR_CIRCLE = "its ancestors form a circle"
PARENT_UNLISTED = "child of {}, which is not listed"


def build_tree(links: Sequence[_Link], names: dict[str, str] | None = None) -> list[TreeNode[_Link]]:
    """Return each agent once, parents before their children, siblings by age.

    `names` has the names of all agents by id, also of unlisted ones. Without it, an unlisted parent counts as missing.
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
            tops.append((link, PARENT_UNLISTED.format(unlisted) if unlisted else PARENT_MISSING))
    found, seen = list[TreeNode[_Link]](), set[str]()

    def walk(top: _Link, trouble: str) -> None:
        waiting = [TreeNode(top, 0, trouble)]
        while waiting:
            node = waiting.pop()
            if node.agent.id not in seen:
                seen.add(node.agent.id)
                found.append(node)
                waiting += (TreeNode(child, node.depth + 1) for child in reversed(children.get(node.agent.id, [])))

    for top, trouble in tops:
        walk(top, trouble)
    for link in links:  # no root leads to those in a circle
        if link.id not in seen:
            walk(link, ANCESTOR_CIRCLE)
    return found


def subtree(links: Iterable[_Link], id: str) -> list[_Link]:
    """Return the agent and all its descendants, each behind all agents below it."""
    children: dict[str | None, list[_Link]] = {}
    for link in links:
        children.setdefault(link.parent, []).append(link)
        if link.id == id:
            children[""] = [link]
    agents, seen = list[_Link](), set[str]()
    waiting = list(children.get("", ()))
    while waiting:
        link = waiting.pop()
        if link.id not in seen:
            seen.add(link.id)
            agents.append(link)
            waiting += children.get(link.id, ())
    return agents[::-1]


class SubagentNode(Record, frozen=True):
    """An agent of a tree: `maker` is the id of the one whose tool made it, None for the one at the top (`depth` 0)."""

    id: str
    name: str
    maker: str | None
    depth: int
    dead: bool


def descendants(tree: Sequence[SubagentNode], agent: str) -> tuple[SubagentNode, ...]:
    """Return the agents of the tree that work for the agent, directly or through others; parents before their
    children.
    """
    nodes, ids = list[SubagentNode](), {agent}
    for each in sorted(tree, key=lambda made: made.depth):
        if each.maker in ids:
            ids.add(each.id)
            nodes.append(each)
    return tuple(nodes)
