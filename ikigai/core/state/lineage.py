"""Walk backwards over an agent's ancestors, play forwards the spans that result: planning only, no events."""

from collections.abc import Iterable

from ikigai.core.record import Record


class Ancestor(Record, frozen=True):
    """One agent on the way from a leaf to the root.

    `upto` is the last of its events that the leaf shares, None for no limit (0 is a limit: nothing is shared);
    `cleared` is its last clear within that limit, `undos` are the ids of all undos within it, each with what it names.
    """

    agent: str
    upto: int | None
    cleared: int | None
    undos: tuple[tuple[int, int], ...] = ()


class Span(Record, frozen=True):
    """Events of one agent by id, both ends included; `last` None means that it is still growing."""

    agent: str
    first: int
    last: int | None


def void(undos: Iterable[tuple[int, int]]) -> frozenset[int]:
    """What is not in force: each undo names an event, and counts unless a later one that counts names it."""
    found: set[int] = set()
    for id, of in sorted(undos, reverse=True):
        if id not in found:
            found.add(of)
    return frozenset(found)


def spans(leaf_to_root: Iterable[Ancestor]) -> tuple[Span, ...]:
    """What replay reads of each agent, oldest first: nothing lies before the first clear met on the way back.

    The clears have to be in force.
    """
    found: list[Span] = []
    for ancestor in leaf_to_root:
        found.append(Span(ancestor.agent, ancestor.cleared or 0, ancestor.upto))
        if ancestor.cleared is not None:
            break
    return tuple(reversed(found))


def live(spans: Iterable[Span], gone: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    """The spans without the open intervals that rewinds and filters took away, oldest first.

    Ids ascend along a lineage.
    """
    pieces = list(spans)
    for low, high in gone:
        pieces = [piece for span in pieces for piece in _without(span, low, high)]
    return tuple(pieces)


def _without(span: Span, low: int, high: int) -> Iterable[Span]:
    """What is left of the span when low < id < high is taken out."""
    if (span.last is not None and span.last <= low) or span.first >= high:
        yield span
        return
    if span.first <= low:
        yield Span(span.agent, span.first, low)
    if span.last is None or span.last >= high:
        yield Span(span.agent, high, span.last)
