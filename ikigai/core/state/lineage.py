"""Plan a replay: walk back over an agent's ancestors, and return the spans to read forwards."""

from collections.abc import Iterable

from ikigai.core.events.record import Record
from ikigai.core.state.intervals import Interval


class Ancestor(Record, frozen=True):
    """One agent on the way from a leaf to the root.

    `upto` is the last of its events that the leaf shares, None for no limit. 0 is a limit: nothing is shared. `cleared`
    is its last clear within that limit. `undos` are the ids of all undos within it, each with the id that it undoes.
    """

    agent: str
    upto: int | None
    cleared: int | None
    undos: tuple[tuple[int, int], ...] = ()


class Span(Record, frozen=True):
    """Events of one agent by id, both ends included; `last` None means that the span still grows."""

    agent: str
    first: int
    last: int | None


def undone_ids(undos: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Return the ids that are not in force. An undo counts unless a later undo that counts names it."""
    found: set[int] = set()
    for id, of in sorted(undos, reverse=True):
        if id not in found:
            found.add(of)
    return frozenset(found)


def lineage_spans(leaf_to_root: Iterable[Ancestor]) -> tuple[Span, ...]:
    """Return the spans of each agent that replay reads, oldest first. The first clear on the way back is the start.

    The clears have to be in force.
    """
    found: list[Span] = []
    for ancestor in leaf_to_root:
        found.append(Span(ancestor.agent, ancestor.cleared or 0, ancestor.upto))
        if ancestor.cleared is not None:
            break
    return tuple(reversed(found))


def live_spans(spans: Iterable[Span], excluded: Iterable[Interval]) -> tuple[Span, ...]:
    """Return the spans without the open intervals that rewinds and filters exclude, oldest first.

    Ids ascend along a lineage.
    """
    pieces = list(spans)
    for low, high in excluded:
        pieces = [piece for span in pieces for piece in _without(span, low, high)]
    return tuple(pieces)


def _without(span: Span, low: int, high: int) -> Iterable[Span]:
    """Yield the parts of the span outside the events low < id < high."""
    if (span.last is not None and span.last <= low) or span.first >= high:
        yield span
        return
    if span.first <= low:
        yield Span(span.agent, span.first, low)
    if span.last is None or span.last >= high:
        yield Span(span.agent, high, span.last)
