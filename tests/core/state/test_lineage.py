"""These tests check the spans that are read, and the live ids in them, against sets of ids."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.state.lineage import Ancestor, Span, lineage_spans, live_spans

END = 60


def ids(span: Span) -> set[int]:
    return set(range(span.first, (END if span.last is None else span.last) + 1))


def test_root_is_read_whole() -> None:
    assert lineage_spans([Ancestor("a", None, None)]) == (Span("a", 0, None),)


def test_unknown_agent_has_no_spans() -> None:
    assert lineage_spans([]) == ()


def test_ancestors_come_first_and_end_where_the_child_was_forked() -> None:
    line = [Ancestor("c", None, None), Ancestor("b", 20, None), Ancestor("a", 10, None)]
    assert lineage_spans(line) == (Span("a", 0, 10), Span("b", 0, 20), Span("c", 0, None))


def test_child_forked_at_0_shares_nothing_and_one_without_limit_shares_all() -> None:
    nothing, everything = (
        lineage_spans([Ancestor("b", None, None), Ancestor("a", upto, None)])[0] for upto in (0, None)
    )
    assert ids(nothing) == {0}, "ids begin at 1"
    assert everything.last is None


def test_walk_stops_at_the_first_clear_met() -> None:
    line = [Ancestor("c", None, None), Ancestor("b", 20, 12), Ancestor("a", 10, 4)]
    assert lineage_spans(line) == (Span("b", 12, 20), Span("c", 0, None))
    assert lineage_spans([Ancestor("c", None, 0), *line[1:]]) == (Span("c", 0, None),), "0 is an id like any other"


@st.composite
def lines(draw: st.DrawFn) -> list[Ancestor]:
    """Return ancestors from leaf to root, as in a log: limits never grow on the way, a clear lies within its limit."""
    line: list[Ancestor] = []
    limit: int | None = None
    for name in "abc"[: draw(st.integers(1, 3))]:
        cleared = draw(st.none() | st.integers(1, END if limit is None else limit)) if limit != 0 else None
        line.append(Ancestor(name, limit, cleared))
        limit = draw(st.integers(0, END if limit is None else limit))
    return line


places = st.integers(0, END)
intervals = st.lists(st.tuples(places, places).filter(lambda pair: pair[0] < pair[1]), max_size=5)


@given(lines(), intervals)
@example([Ancestor("a", None, None)], [(3, 7), (2, 9)])
@example([Ancestor("a", None, None)], [(3, 4), (0, 60)])
@example([Ancestor("a", None, 5)], [(2, 9)])
def test_live_ids_are_those_of_the_spans_without_the_open_intervals(
    line: list[Ancestor], gone: list[tuple[int, int]]
) -> None:
    plan = lineage_spans(line)
    taken = {id for low, high in gone for id in range(low + 1, high)}
    pieces = live_spans(plan, gone)
    for agent in "abc":
        whole = {id for span in plan if span.agent == agent for id in ids(span)}
        left = [ids(piece) for piece in pieces if piece.agent == agent]
        assert set().union(*left) - {0} == whole - taken - {0}
        assert sum(map(len, left)) == len(set().union(*left)), "no id is read twice"
    in_plan = [span.agent for span in plan]
    assert [piece.agent for piece in pieces] == sorted((p.agent for p in pieces), key=in_plan.index)
    for one, next in pairwise(pieces):
        assert one.agent != next.agent or (one.last is not None and one.last < next.first), "oldest first"
    assert all(piece.last is None for piece in pieces[-1:] if plan[-1].last is None), "the leaf goes on growing"
