"""List the marks, for the picker of /rewind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.terminal.browser.picker_source import PickerRow

if TYPE_CHECKING:
    from ikigai.core.state.memory import Mark, Memory


class MarkSource:
    """The marks of `memory` that a label names, the newest first, and behind them the history, whose value is ""."""

    title, verb, more_key = "Go back to which mark?", "goes back", ""

    def __init__(self, memory: Memory) -> None:
        newest = {mark.label: mark for mark in memory.marks}
        marks = sorted(newest.values(), key=lambda mark: mark.id, reverse=True)
        self._rows = [*(_row(memory, mark) for mark in marks), PickerRow("", "choose a message in the history")]

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return the rows that have the typed text in their names."""
        return [row for row in self._rows if typed.strip().lower() in row.name.lower()], True

    def typed_value(self, typed: str) -> str:
        """Return the id of an event, or what no mark is named, as it was typed."""
        return typed.strip()


def _row(memory: Memory, mark: Mark) -> PickerRow:
    turns = sum(turn.id > mark.id for turn in memory.full_window.turns)
    return PickerRow(mark.label, mark.label, (f"{turns:,} turn{'s' * (turns != 1)} after it",))
