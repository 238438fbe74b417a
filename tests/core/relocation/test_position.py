"""Where events belong that a log may lack, and which of their ids they can have again."""

import pytest

from ikigai.core.events import events as ev
from ikigai.core.relocation.position import StoredPlace, UnsavedPosition, locate, reusable_ids
from ikigai.core.relocation.unsaved import Unsaved

BEFORE, FIRST, SECOND = "e0", "e1", "e2"
HERE, FORK = ("here", "heron"), ("fork", "crane")


@pytest.mark.parametrize(
    ("behind", "stored", "newest", "place"),
    [
        (BEFORE, {BEFORE: (7, 3, *HERE)}, 3, UnsavedPosition(2, "heron", 7, True)),
        (BEFORE, {BEFORE: (7, 3, *HERE)}, 4, UnsavedPosition(2, "heron", 7, False)),
        (BEFORE, {BEFORE: (7, 3, *HERE), FIRST: (8, 4, *HERE)}, 4, UnsavedPosition(1, "heron", 8, True)),
        (BEFORE, {BEFORE: (7, 3, *HERE), FIRST: (8, 3, *FORK)}, 3, UnsavedPosition(1, "crane", 8, False)),
        (BEFORE, {FIRST: (8, 4, *HERE), SECOND: (9, 5, *HERE)}, 5, UnsavedPosition(0, "heron", 9, True)),
        (BEFORE, {}, 0, UnsavedPosition(2, "", None, False)),
        (None, {}, 0, UnsavedPosition(2, "", 0, True)),
        (None, {}, 1, UnsavedPosition(2, "", 0, False)),
    ],
    ids=[
        "both are missing", "others follow", "one is missing", "a fork has one", "none is missing", "another database",
        "an empty log", "a log with others",
    ],
)  # fmt: skip
def test_events_follow_on_the_last_one_that_their_agent_has(
    behind: str | None, stored: dict[str, tuple[int, int, str, str]], newest: int, place: UnsavedPosition
) -> None:
    unsaved = Unsaved("here", "heron", behind, (FIRST, SECOND), (ev.Marked("1"), ev.Marked("2")))
    assert locate(unsaved, {id: StoredPlace(*at) for id, at in stored.items()}, newest) == place


@pytest.mark.parametrize(
    ("after", "taken", "highest", "kept"),
    [(4, (), 9, [5, 6, 7]), (4, (6,), 9, [5]), (4, (), 6, [5, 6]), (5, (), 9, []), (4, (5,), 9, []), (4, (), 0, [])],
)
def test_ids_are_kept_up_to_the_first_that_is_not_free(
    after: int, taken: tuple[int, ...], highest: int, kept: list[int]
) -> None:
    assert reusable_ids((5, 6, 7), after, taken, highest) == kept
