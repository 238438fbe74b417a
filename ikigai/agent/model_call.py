"""One request of a turn on behalf of the loop: its stream is shown, saved and measured, and ends as one input."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import reduce

import msgspec

from ikigai.agent.redacted_reply import RedactedReply
from ikigai.agent.reply_drafts import Drafts, Link
from ikigai.agent.usage_meter import Meter, Price
from ikigai.core.events import Ending, UsageReported
from ikigai.core.messages import ReplyBlock, ToolCall
from ikigai.core.model import Provider
from ikigai.core.ports import Log, View
from ikigai.core.redaction import Redactor
from ikigai.core.request.build import Request, closed, grow
from ikigai.core.request.reply import (
    Accumulator,
    Broke,
    Counted,
    Delta,
    Failure,
    Finished,
    Waiting,
    facts,
    storable_blocks,
)
from ikigai.core.state.inputs import CallModel, Exceeded, Failed, Input, Interrupted, Replied, Used
from ikigai.core.state.memory import Memory, frame, measured, plain_size, request
from ikigai.core.views.usage_totals import INTERRUPTED

COUNT_WITHIN = 2.0
"""Seconds that the provider may take to count a turn that has ended; after that its bytes count."""

replace = msgspec.structs.replace

log = logging.getLogger(__name__)


class Asking:
    """The request that `memory` means now, for the job `job`. `run` sends it; `stop` says what came of it so far.

    `redactor` replaces ikigai's own keys in the reply.
    """

    def __init__(self, job: CallModel, memory: Memory, provider: Provider, price: Price, redactor: Redactor) -> None:
        self._job, self._memory, self._provider = job, memory, provider
        self._reply, self._redacted = Accumulator(), RedactedReply(redactor)
        size, out = plain_size(memory), memory.window.older.turns
        self._meter = Meter(provider, request(memory), memory.model, price, size=size, out=out)
        self._last: Finished | Broke | None = None

    async def run(self, store: Log, view: View, link: Link, tell: Callable[[Input], None]) -> None:
        """Tell of every attempt that failed, and at last of the whole reply or the failure."""
        job, usage = self._job, None
        async with (
            Drafts(store, view, link, job.asked_by, self._reply, lambda: tell(Interrupted())) as drafts,
            aclosing(self._meter.events()) as events,
        ):
            async for event in events:
                match event:
                    case UsageReported() if self._last is None:
                        tell(Used(event))
                    case UsageReported():
                        usage = event
                    case Finished() | Broke():
                        self._last = event
                        self._pass_on(self._redacted.rest(), view, drafts)
                    case Waiting():
                        view.live(job.asked_by, event)
                    case Counted():
                        pass
                    case _:
                        self._pass_on(self._redacted.deltas(event), view, drafts)
        match self._last:
            case Finished(stop) if usage:
                replied = Replied(job, self._blocks(), stop, usage)
                tell(replace(replied, counted=await self._counted(replied)))
            case Broke(Failure.CONTEXT, text) if not self._reply.blocks():
                tell(Exceeded(job, text, usage))
            case Broke(_, text, remedy):
                tell(Failed(job, f"{text} {remedy}".strip(), self._blocks(), usage))

    def as_written(self, stored: Sequence[ToolCall]) -> dict[str, ToolCall]:
        """Return by id, of the calls that were `stored` of this reply, those that the model wrote otherwise."""
        written = [block for block in self._reply.blocks() if isinstance(block, ToolCall)]
        if len(written) != len(stored):
            return {}
        pairs = zip(stored, written, strict=True)
        return {kept.id: replace(call, id=kept.id) for kept, call in pairs if kept.arguments != call.arguments}

    def _pass_on(self, deltas: Iterable[Delta], view: View, drafts: Drafts) -> None:
        for delta in deltas:
            view.live(self._job.asked_by, delta)
            self._reply.add(delta)
            drafts.grown()

    def _blocks(self) -> tuple[ReplyBlock, ...]:
        """The reply so far, as it is stored."""
        for delta in self._redacted.rest(stopped=True):  # nothing, of one that has ended
            self._reply.add(delta)
        return self._redacted.stored(self._reply.blocks())

    async def stop(self) -> Replied | Interrupted:
        """What was said and taken, if it stops here; a whole reply that only had to be counted yet stays whole."""
        blocks, last = self._blocks(), self._last
        usage = await self._meter.stop(INTERRUPTED)
        if isinstance(last, Finished) and usage and not _calls(blocks):
            return Replied(self._job, blocks, last.stop, usage)
        return Interrupted(blocks, usage)

    async def fail(self, why: str) -> Failed:
        """The same after a bug in here or in the provider."""
        blocks = self._blocks()
        return Failed(self._job, why, blocks, await self._meter.stop("internal"))

    async def _counted(self, replied: Replied) -> int:
        """Tokens of the turn that this reply ends, by the provider's own count; 0 where its bytes have to do."""
        memory, turn = self._memory, self._memory.open
        if memory.run.counter != "provider" or turn is None or _calls(replied.blocks):
            return 0
        said = facts(storable_blocks(replied.blocks), replied.stop, memory.model)
        whole = closed(reduce(grow, said, turn.messages), turn.started, Ending.COMPLETED)
        try:
            async with asyncio.timeout(COUNT_WITHIN):
                count = await self._provider.count(Request(frame(memory).model, whole)) or 0
            # No token is less than a byte, and an image is measured by its tokens: more is a server's mistake.
            return count if count <= measured(memory, whole) else 0
        except TimeoutError:
            return 0
        except Exception:  # a figure for the window is no reason for a turn to fail
            log.exception("%s did not count", memory.model)
            return 0


def _calls(blocks: tuple[ReplyBlock, ...]) -> bool:
    return any(isinstance(block, ToolCall) for block in blocks)
