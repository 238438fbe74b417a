"""These tests check what /search #ID and `ikigai history show` print of an event and its neighbors."""

import pytest
from wcwidth import wcswidth

from ikigai.app.history.search_results import EVENT_ROWS, NEIGHBOR_ROWS, SCANNED_CHARACTERS, format_neighbors
from ikigai.core.events.events import AssistantMessage, SettingsChanged, StoredEvent, UserMessage
from ikigai.core.events.messages import Text


def events(*texts: str) -> list[StoredEvent]:
    """Return messages of the user and of a model in turn, with ids from 1."""
    said = (UserMessage(text) if n % 2 == 0 else AssistantMessage((Text(text),)) for n, text in enumerate(texts))
    return [StoredEvent(n, "a", n, 0.0, event) for n, event in enumerate(said, 1)]


@pytest.mark.parametrize("words", ["a walrus and a seal ", "海象と海豹、"])
@pytest.mark.parametrize("width", [40, 80])
def test_long_lines_count_as_the_rows_that_they_take(words: str, width: int):
    long = "\n".join(f"{n} {words * (900 // len(words))}" for n in range(8))
    before, event, behind = format_neighbors("quiet-otter", events(long, long, "Short."), 2, width).split("\n\n")
    for part, id, rows in ((before, 1, NEIGHBOR_ROWS), (event, 2, EVENT_ROWS)):
        shown, _, told = part.partition("\n  … ")
        assert shown.startswith(f"#{id}  ") and shown.count("\n  ") == rows
        assert " ".join(told.split()) == f"8 lines in all: ikigai history show {id}"
    assert behind.endswith("\n  Short.")
    assert max(wcswidth(row) for part in (before, event, behind) for row in part.split("\n")) <= width


def test_one_long_line_is_told_by_its_characters():
    text = "x" * (2 * SCANNED_CHARACTERS)
    shown = format_neighbors("quiet-otter", events(text), 1)
    assert shown.endswith("\n  … 131,072 characters in all: ikigai history show 1")
    assert len(shown.split("\n")) == 1 + EVENT_ROWS + 1


def test_whole_event_keeps_its_lines_and_its_neighbors_are_cut():
    line = "a walrus " * 100
    before, event = format_neighbors("quiet-otter", events(line, line), 2, 40, whole=True).split("\n\n")
    assert event.endswith(f"assistant\n  {line}") and len(before.split("\n")) <= 2 + NEIGHBOR_ROWS + 2


@pytest.mark.parametrize("whole", [False, True])
def test_event_without_text_is_its_head_alone(whole: bool) -> None:
    event = StoredEvent(1, "agent", 1, 0.0, SettingsChanged({"default_system": "Be brief."}, {}))
    (row,) = format_neighbors("quiet-otter", [event], 1, whole=whole).split("\n")
    assert row.startswith("#1  ") and row.endswith("  quiet-otter  settings")
