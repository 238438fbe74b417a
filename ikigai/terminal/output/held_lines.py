"""Hold back the lines of events until it is known how they are shown: calls of tools, and announced changes.

a question about the call     names it, so the line is dropped
the call starts to run        the line is printed; for a tool that only reads it waits for the result
its result                    of a tool that only reads: one line for both
the end of the turn           what is left is printed
a change of settings          is told in the words of the key or command that has announced it, if one has
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from ikigai.core.events.events import Choices, SettingsChanged, StoredEvent
from ikigai.core.views.call_words import is_read, join_result, name_once
from ikigai.core.views.questions import Question
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock


class HeldCalls:
    """The calls of the open turn whose lines are not printed yet, by their ids."""

    def __init__(self) -> None:
        self._calls: dict[str, TranscriptBlock] = {}
        self._reply: list[TranscriptBlock] = []  # the calls of the newest reply, printed or not
        self._is_answered = False  # one of them has its result
        self._proposed: list[str] = []  # the texts of the questions of this turn

    def hold(self, block: TranscriptBlock) -> bool:
        """Hold a call; return False for any other block. Calls that a vendor runs are shown at once."""
        is_held = block.speaker is Speaker.TOOL_CALL and bool(block.call) and not block.hosted
        if is_held:
            self._calls[block.call] = block
            self._reply, self._is_answered = [*([] if self._is_answered else self._reply), block], False
        return is_held

    def hold_again(self, shown: Sequence[Shown], ids: Collection[str]) -> list[Shown]:
        """Hold the calls with these ids in a stretch of history that is drawn anew; return the rest of it."""

        def is_held(each: Shown) -> bool:
            return isinstance(each, TranscriptBlock) and each.call in ids and self.hold(each)

        return [each for each in shown if not is_held(each)]

    def propose(self, question: Question) -> str:
        """Drop the calls that a question names; return the text of its lines."""
        for id in question.calls:
            self._calls.pop(id, None)
        self._proposed.append(text := "\n".join(question.lines))
        return text

    def started(self, id: str) -> list[TranscriptBlock]:
        """Return the call that is to be printed now that it runs, if there is one."""
        call = self._calls.get(id)
        return [self._calls.pop(id)] if call and not is_read(call) else []

    def before(self, block: TranscriptBlock) -> tuple[list[TranscriptBlock], TranscriptBlock]:
        """Return the calls to print before a block, and the block, joined with its call if it is drawn in one line.

        A diff that stands in a question above is left out, and a file whose name stands right above.
        """
        if block.diff and any(block.diff in proposed for proposed in self._proposed):
            block = msgspec.structs.replace(block, diff="")
        is_result = block.speaker is Speaker.TOOL_RESULT
        if block.speaker is Speaker.STOPPED or (is_result and block.name):  # refused by one answer for all of them
            return self.take_all(), block
        if is_result:
            self._is_answered = True
            if [each.call for each in self._reply] == [block.call]:
                block = name_once(self._reply[0], block)
        call = self._calls.pop(block.call, None) if is_result else None
        if call is None:
            return [], block
        joined = join_result(call, block)
        return ([], joined) if joined else ([call], block)

    def take_all(self) -> list[TranscriptBlock]:
        """Return all calls that are left."""
        calls, self._calls = list(self._calls.values()), {}
        return calls

    def end_turn(self) -> list[TranscriptBlock]:
        """Forget the questions; return all calls that are left."""
        self._proposed.clear()
        return self.take_all()


class AnnouncedChanges:
    """The announced changes that are not stored yet, oldest first, and the event that the last one became."""

    def __init__(self) -> None:
        self._expected: list[tuple[Choices, Callable[[], None] | None]] = []
        self._event = 0

    @property
    def newest(self) -> Choices:
        """The values that are on their way."""
        return self._expected[-1][0] if self._expected else {}

    def expect(self, values: Choices, tell: Callable[[], None] | None) -> None:
        """Call `tell` when the change to these values is stored; None: nothing is told."""
        self._expected.append((values, tell))

    def stored(self, event: StoredEvent) -> None:
        """Tell of the change that `event` is, if it is announced; those before it were refused."""
        if not isinstance(event.event, SettingsChanged):
            return
        for at, (values, tell) in enumerate(self._expected):
            if values == event.event.values:
                del self._expected[: at + 1]
                self._event = event.id
                if tell:
                    tell()
                return

    def replaces(self, id: int) -> bool:
        """Return True if the event has been told so."""
        return id == self._event

    def forget(self) -> None:
        self._expected.clear()
