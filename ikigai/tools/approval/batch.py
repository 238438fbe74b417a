"""The calls of one reply that wait for the user's answer: counted, asked about one at a time, and answered together.

An answer for all of them holds for what each was when it was shown, whole: where a diff is too long for that, each is
asked about by itself. Where a call has become another one when its turn comes (a command before it has changed the
folder, or the file), it is asked about again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import msgspec

from ikigai.core.messages import ToolCall
from ikigai.tools.base import Touch
from ikigai.tools.files.diffs import is_whole

HUNK = re.compile(r"^@@ .*? @@", re.MULTILINE)
"""Where in the file a change is: edits before it move it, and it is the same one all the same."""


class Waiting(NamedTuple):
    """A call, what it would do, and why it is asked about: all that a question shows of it."""

    call: ToolCall
    touch: Touch
    why: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether all of it can be seen: of a long diff the end is left out."""
        return is_whole(self.touch.diff)

    def same(self, other: Waiting) -> bool:
        """Whether what was shown of one is what there is to see of the other."""
        return self.call == other.call and self.why == other.why and self._placeless == other._placeless

    @property
    def _placeless(self) -> Touch:
        return msgspec.structs.replace(self.touch, diff=HUNK.sub("@@", self.touch.diff))


class Given(NamedTuple):
    """An answer for several calls: what this one was when it was given, and with how many others."""

    of: Waiting
    allowed: bool
    others: int


class Together:
    """One for an agent. A call is `expected` from its start on, and known once it was looked at or cannot be."""

    def __init__(self) -> None:
        self._turn = self._done = 0
        self._starting: set[str] = set()
        self._looking: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, Waiting] = {}
        self._given: dict[str, Given] = {}
        self._asking = asyncio.Lock()

    @contextmanager
    def expected(self, turn: int, id: str) -> Iterator[asyncio.Event]:
        """A call of the turn `turn` has started; the event is to be set when it has been looked at."""
        if turn != self._turn or not self._starting:  # the calls of a reply are started together
            self._turn, self._done, self._starting = turn, 0, set()
            self._looking, self._waiting, self._given = {}, {}, {}
            self._asking = asyncio.Lock()
        looked, starting = asyncio.Event(), self._starting
        self._looking[id] = looked
        starting.add(id)
        try:
            yield looked
        finally:
            looked.set()
            starting.discard(id)
            self._waiting.pop(id, None)
            self._given.pop(id, None)

    def will_ask(self, waiting: Waiting) -> None:
        """The user will be asked about this call, as far as can be known."""
        self._waiting[waiting.call.id] = waiting

    def will_not(self, id: str) -> None:
        """It turned out that nobody has to be asked about this call."""
        self._waiting.pop(id, None)

    @asynccontextmanager
    async def alone(self, waiting: Waiting) -> AsyncIterator[None]:
        """Wait until it is known what else waits, and until no other call of the turn is being asked about."""
        self.will_ask(waiting)
        await asyncio.sleep(0)  # calls of one reply are started together: each has been expected by now
        for looked in list(self._looking.values()):
            await looked.wait()
        async with self._asking:
            yield

    def others(self, id: str) -> tuple[Waiting, ...]:
        """The other calls that wait for an answer and have none yet, in the order of the calls."""
        return tuple(
            self._waiting[each] for each in self._looking if each in self._waiting and each not in (id, *self._given)
        )

    def can_be_together(self, waiting: Waiting) -> bool:
        """Whether this call and all others that wait can be shown whole."""
        return all(each.whole for each in (waiting, *self.others(waiting.call.id)))

    def place(self, id: str) -> tuple[int, int]:
        """Which of how many questions of the reply that about this call is."""
        return self._done + 1, self._done + 1 + len(self.others(id))

    def answered(self, id: str) -> None:
        """The user has answered for this call."""
        self._done += 1
        self._waiting.pop(id, None)

    def give(self, id: str, allowed: bool) -> int:
        """The user has answered for this call and all others; returns how many those are."""
        others = self.others(id)
        for each in others:
            self._given[each.call.id] = Given(each, allowed, len(others))
        return len(others)

    def given(self, id: str) -> Given | None:
        """What was answered for this call together with others; it holds once."""
        return self._given.pop(id, None)
