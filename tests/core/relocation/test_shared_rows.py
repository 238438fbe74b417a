"""Rows that histories of one import have in common."""

import pytest

from ikigai.core.relocation.renumber import RawRow
from ikigai.core.relocation.shared_rows import ConflictingRow, ForkPoint, SharedRows


def rows(text: str) -> list[RawRow]:
    """Return rows from words such as "a1 a2 b3": the agent, and the id; an id with ! has another content."""
    return [RawRow(int(word[1:].rstrip("!")), word[0], 1, 5.0, "user", word, None) for word in text.split()]


def stored(*histories: str) -> SharedRows:
    """Return the rows of these histories as if each was imported by an agent of its number, under ids 100 higher."""
    shared = SharedRows()
    for number, text in enumerate(histories):
        _, _, rest = shared.split(iter(rows(text)))
        for raw in rest:
            shared.add(raw, f"agent {number}", raw.id + 100)
        shared.end()
    return shared


@pytest.mark.parametrize(
    ("histories", "text", "fork", "rest"),
    [
        ((), "a1 a2", None, "a1 a2"),
        (("a1 a2 a5",), "b3 b4", None, "b3 b4"),
        (("a1 a2 a5",), "a1 a2 b3 b4", ForkPoint("agent 0", 102), "b3 b4"),
        (("a1 a2",), "a1 a2 b3", ForkPoint("agent 0", 102), "b3"),
        (("a1 a2 a9", "a1 a2 b3 b4 b8"), "a1 a2 b3 b4 c5", ForkPoint("agent 1", 104), "c5"),
        (("a1 a2 a9", "a1 a2 b3 b4"), "a1 c5", ForkPoint("agent 0", 101), "c5"),
        # The ancestor itself is not among the files: the first fork holds its events.
        (("a1 a2 b3",), "a1 a2 a4 a5", ForkPoint("agent 0", 102), "a4 a5"),
        (("a1 a2 b3", "a1 a2 a4 a5 c6"), "a1 a2 a4 a5 d7", ForkPoint("agent 1", 105), "d7"),
        (("a1 a2",), "a1 a2", ForkPoint("agent 0", 102), ""),
        (("a1 a2 b3",), "a1 a2", ForkPoint("agent 0", 102), ""),
        (("a1 a2",), "a1! a2", None, "a1! a2"),
        (("a1 a2 a3",), "a2 a3 b4", None, "a2 a3 b4"),
        (("a1 a2 b3 b4",), "a1 a2 b3! b4", ForkPoint("agent 0", 102), "b3! b4"),
    ],
)
def test_history_forks_where_it_leaves_an_earlier_one(
    histories: tuple[str, ...], text: str, fork: ForkPoint | None, rest: str
):
    numbers, found, left = stored(*histories).split(iter(rows(text)))
    assert found == fork and [raw.content for raw in left] == rest.split()
    shared = text.split()[: len(text.split()) - len(rest.split())]
    assert [numbers.same(int(word[1:])) for word in shared] == [int(word[1:]) + 100 for word in shared]


@pytest.mark.parametrize("text", ["a1 a2! a3 b4", "a1 a3 b4", "a1 a2 a3! b4"])
def test_history_that_differs_in_the_middle_is_a_conflict(text: str):
    with pytest.raises(ConflictingRow):
        stored("a1 a2 a3 b9").split(iter(rows(text)))
