"""Tests of what `ikigai db status` says of the index of words."""

import pytest

from ikigai.cli.subcommands import _index_progress


@pytest.mark.parametrize(
    ("behind", "events", "said"),
    [
        (0, 0, "complete"),
        (0, 5_000, "complete"),
        (5_000, 5_000, "0 % filled, 5,000 events to go; it grows while ikigai is open"),
        (1, 4, "75 % filled, 1 event to go; it grows while ikigai is open"),
        (1, 5_000, "99 % filled, 1 event to go; it grows while ikigai is open"),
        (50, 40, "0 % filled, 50 events to go; it grows while ikigai is open"),
    ],
)
def test_status_says_how_far_the_index_is(behind: int, events: int, said: str):
    assert _index_progress(behind, events) == said
