"""Tests of what `ikigai db status` says of the index of recall."""

import pytest

from ikigai.cli.subcommands import _recall_progress


@pytest.mark.parametrize(
    ("behind", "events", "said"),
    [
        (0, 0, "index complete"),
        (0, 5_000, "index complete"),
        (5_000, 5_000, "index 0 % filled, 5,000 events to go; it grows while ikigai is open"),
        (1, 4, "index 75 % filled, 1 event to go; it grows while ikigai is open"),
        (1, 5_000, "index 99 % filled, 1 event to go; it grows while ikigai is open"),
        (50, 40, "index 0 % filled, 50 events to go; it grows while ikigai is open"),
    ],
)
def test_status_says_how_far_the_index_of_recall_is(behind: int, events: int, said: str):
    assert _recall_progress(behind, events) == said
