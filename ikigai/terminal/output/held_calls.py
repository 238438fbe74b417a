"""Hold the lines of tool calls until it is known how they are shown.

a question about the call     names it, so the line is dropped
the call starts to run        the line is printed; that of a tool that only reads waits for the result
its result                    of a tool that only reads: one line for both
the end of the turn           what is left is printed
"""

from __future__ import annotations

from collections.abc import Sequence

from ikigai.core.views.call_words import is_read, join_result
from ikigai.core.views.transcript import Speaker, TranscriptBlock


class HeldCalls:
    """The calls of the open turn whose lines are not printed yet, by their ids."""

    def __init__(self) -> None:
        self._calls: dict[str, TranscriptBlock] = {}

    def hold(self, block: TranscriptBlock) -> bool:
        """Hold a call; return False for any other block. Calls that a vendor runs are shown at once."""
        is_held = block.speaker is Speaker.TOOL_CALL and bool(block.call) and not block.hosted
        if is_held:
            self._calls[block.call] = block
        return is_held

    def drop(self, ids: Sequence[str]) -> None:
        """Drop calls that a question names."""
        for id in ids:
            self._calls.pop(id, None)

    def started(self, id: str) -> list[TranscriptBlock]:
        """Return the call that is to be printed now that it runs, if there is one."""
        call = self._calls.get(id)
        return [self._calls.pop(id)] if call and not is_read(call) else []

    def before(self, block: TranscriptBlock) -> tuple[list[TranscriptBlock], TranscriptBlock]:
        """Return the calls to print before a block, and the block, joined with its call if it is drawn in one line."""
        is_result = block.speaker is Speaker.TOOL_RESULT
        if block.speaker is Speaker.STOPPED or (is_result and block.name):  # refused by one answer for all of them
            return self.take_all(), block
        call = self._calls.pop(block.call, None) if is_result else None
        if call is None:
            return [], block
        joined = join_result(call, block)
        return ([], joined) if joined else ([call], block)

    def take_all(self) -> list[TranscriptBlock]:
        """Return all calls that are left."""
        calls, self._calls = list(self._calls.values()), {}
        return calls
