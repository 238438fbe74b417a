"""Count the pending approvals of one reply, which are asked one at a time or answered together.

An answer for all calls holds for each as it was shown, in full. If a diff is too long for that, each call is asked
about by itself. If a call has changed since it was shown (a command before it has changed the folder, or the file), it
is asked about again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import msgspec

from ikigai.core.events.messages import ToolCall
from ikigai.tools.base import Effect
from ikigai.tools.files.diffs import is_whole

HUNK_HEADER = re.compile(r"^@@ .*? @@", re.MULTILINE)
"""Position of a change in the file: earlier edits move the change, which stays the same one."""


class PendingApproval(NamedTuple):
    """Call that waits for approval, with its effect and the reasons for the question: all that the question shows."""

    call: ToolCall
    effect: Effect
    why: tuple[str, ...]

    @property
    def is_whole_shown(self) -> bool:
        """True if the question shows the whole call; the end of a long diff is left out."""
        return is_whole(self.effect.diff)

    def is_same(self, other: PendingApproval) -> bool:
        """Return True if a question shows both calls alike."""
        return self.call == other.call and self.why == other.why and self._without_positions == other._without_positions

    @property
    def _without_positions(self) -> Effect:
        return msgspec.structs.replace(self.effect, diff=HUNK_HEADER.sub("@@", self.effect.diff))


class BatchAnswer(NamedTuple):
    """Answer for several calls: this one as it was shown, and the number of the others."""

    of: PendingApproval
    allowed: bool
    others: int


class ApprovalBatch:
    """Pending approvals of an agent. A call counts as expected from its start until its preview is there or fails."""

    def __init__(self) -> None:
        self._turn = self._done = 0
        self._starting: set[str] = set()
        self._calls: dict[str, asyncio.Event] = {}
        self._pending: dict[str, PendingApproval] = {}
        self._answers: dict[str, BatchAnswer] = {}
        self._question_lock = asyncio.Lock()

    @contextmanager
    def expect(self, turn: int, id: str) -> Iterator[asyncio.Event]:
        """Register a call of the turn `turn` that has started; the caller sets the event after its preview."""
        if turn != self._turn or not self._starting:  # the calls of a reply are started together
            self._turn, self._done, self._starting = turn, 0, set()
            self._calls, self._pending, self._answers = {}, {}, {}
            self._question_lock = asyncio.Lock()
        previewed, starting = asyncio.Event(), self._starting
        self._calls[id] = previewed
        starting.add(id)
        try:
            yield previewed
        finally:
            previewed.set()
            starting.discard(id)
            self._pending.pop(id, None)
            self._answers.pop(id, None)

    def will_ask(self, pending: PendingApproval) -> None:
        """Record that the user will probably be asked about this call."""
        self._pending[pending.call.id] = pending

    def will_not_ask(self, id: str) -> None:
        """Record that this call needs no answer."""
        self._pending.pop(id, None)

    @asynccontextmanager
    async def ask_alone(self, pending: PendingApproval) -> AsyncIterator[None]:
        """Wait until all other pending calls are known, and until no other question of the turn is open."""
        self.will_ask(pending)
        await asyncio.sleep(0)  # calls of one reply are started together: each has been registered by now
        for previewed in list(self._calls.values()):
            await previewed.wait()
        async with self._question_lock:
            yield

    def others(self, id: str) -> tuple[PendingApproval, ...]:
        """Return the other calls that wait for an answer and have none yet, in the order of the calls."""
        return tuple(
            self._pending[each] for each in self._calls if each in self._pending and each not in (id, *self._answers)
        )

    def can_answer_together(self, pending: PendingApproval) -> bool:
        """Return True if this call and all other pending ones can be shown in full."""
        return all(each.is_whole_shown for each in (pending, *self.others(pending.call.id)))

    def position(self, id: str) -> tuple[int, int]:
        """Return the number of the question about this call, and the number of questions of the reply."""
        return self._done + 1, self._done + 1 + len(self.others(id))

    def mark_answered(self, id: str) -> None:
        """Record that the user has answered for this call."""
        self._done += 1
        self._pending.pop(id, None)

    def answer_all(self, id: str, allowed: bool) -> int:
        """Record the answer of the user for all other pending calls; return their number."""
        others = self.others(id)
        for each in others:
            self._answers[each.call.id] = BatchAnswer(each, allowed, len(others))
        return len(others)

    def take_answer(self, id: str) -> BatchAnswer | None:
        """Return the answer given for this call together with others, once, or None."""
        return self._answers.pop(id, None)
