"""Send one request of a turn for the loop: show, save and measure its stream, and end it with one input."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import msgspec

from ikigai.agent.db_retry import DatabaseStatus
from ikigai.agent.request.reply_drafts import ReplyDraftSaver
from ikigai.agent.request.usage_meter import PriceOf, UsageMeter, read_reply
from ikigai.core.events.events import Ending
from ikigai.core.events.messages import ReplyBlock, StopReason, ToolCall
from ikigai.core.ports import Log, View
from ikigai.core.request.build import Request, append_event, close_turn
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import (
    Delta,
    FailureKind,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    is_own_call,
    reply_events,
    storable_blocks,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state.inputs import (
    CallModel,
    ContextOverflowed,
    Failed,
    Input,
    Interrupted,
    Replied,
    ToolsRefused,
    UsageRecorded,
)
from ikigai.core.state.memory import Memory, measure, next_request, plain_size, request_frame
from ikigai.core.views.usage_totals import INTERRUPTED_FAILURE

if TYPE_CHECKING:
    from ikigai.agent.request.prompt_cache import PromptCache

COUNT_TIMEOUT = 2.0
"""Seconds that the provider may take to count a turn that has ended; after that its size in bytes is used."""

replace = msgspec.structs.replace

log = logging.getLogger(__name__)


def turn_request(memory: Memory, schema: str = "", cache: PromptCache | None = None) -> Request:
    """Return the next request of the open turn. Its reply has to match the JSON `schema` if there is one.

    `cache` knows what the provider's cache has of the conversation.
    """
    request = next_request(memory)
    if schema:
        request = replace(request, schema=schema, schema_required=True)
    if cache:
        request = cache.prepare(memory, request)
    if memory.run.fallback:
        from ikigai.core.state.decisions.fallback import next_fallback  # most runs have no list

        request = replace(request, has_fallback=bool(next_fallback(memory)))
    return request


class ModelCall:
    """The next request of `memory`, for the job `job`. `run` sends it; `stop` ends it with the reply so far.

    `redactor` replaces ikigai's own keys in the reply. `cache` is as in `turn_request`.
    """

    def __init__(
        self,
        job: CallModel,
        memory: Memory,
        request: Request,
        provider: Provider,
        price: PriceOf,
        redactor: Redactor,
        cache: PromptCache | None = None,
    ) -> None:
        self._job, self._memory, self._provider = job, memory, provider
        self._has_tools = bool(request.tools)
        size, out = partial(plain_size, memory), memory.window.older.turns
        judge = partial(cache.judge, memory, request) if cache else None
        self._meter = UsageMeter(request, memory.model, price, size=size, out=out, judge=judge)
        self._reply = ReplyBuilder(redactor)
        self._waits_until = 0.0  # for the next attempt

    async def run(self, store: Log, view: View, status: DatabaseStatus, put_input: Callable[[Input], None]) -> None:
        """Put an input for every failed attempt, and at the end one for the whole reply or the failure."""
        job, reply = self._job, self._reply
        async with ReplyDraftSaver(
            store, view, status, job.asked_by, reply, lambda: put_input(Interrupted())
        ) as drafts:

            def show(event: Delta | RetryScheduled) -> None:
                if isinstance(event, RetryScheduled):
                    self._waits_until = time.monotonic() + event.seconds
                view.show_delta(job.asked_by, event)
                drafts.notify()

            usage = await read_reply(
                self._provider, self._meter, reply, show, lambda row: put_input(UsageRecorded(row))
            )
        match reply.last:
            case StreamFinished(stop) if usage:
                replied = Replied(job, reply.stored(), stop, usage)
                put_input(replace(replied, counted=await self._count_tokens(replied)))
            case StreamFailed(FailureKind.CONTEXT, text) if not reply.blocks():
                put_input(ContextOverflowed(job, text, usage))
            case StreamFailed(FailureKind.NO_TOOLS, text) if not reply.blocks() and self._has_tools:
                put_input(ToolsRefused(job, text, usage))
            case StreamFailed(kind, text, remedy):
                blocks = reply.stored()
                outage = text if not blocks and self._is_outage(kind) else ""
                put_input(Failed(job, f"{text} {remedy}".strip(), blocks, usage, outage))

    def _is_outage(self, kind: FailureKind) -> bool:
        """Return True if another model of the run's list may answer behind this failure."""
        if not self._memory.run.fallback:
            return False
        from ikigai.core.state.decisions.fallback import is_down

        return is_down(self._memory, kind)

    @property
    def is_waiting(self) -> bool:
        """True between two attempts: nothing is under way that could cost anything."""
        return time.monotonic() < self._waits_until

    def as_written(self, stored: Sequence[ToolCall]) -> dict[str, ToolCall]:
        """Return, by id, the calls that the model wrote differently from those `stored` of this reply."""
        written = [block for block in self._reply.blocks() if isinstance(block, ToolCall)]
        if len(written) != len(stored):
            return {}
        pairs = zip(stored, written, strict=True)
        return {row.id: replace(call, id=row.id) for row, call in pairs if row.arguments != call.arguments}

    async def stop(self) -> Replied | Interrupted:
        """Return the reply and its usage so far; a whole reply that only had to be counted stays whole."""
        blocks, last = self._reply.stored(), self._reply.last
        usage = await self._meter.stop(INTERRUPTED_FAILURE)
        if isinstance(last, StreamFinished) and usage and not _calls(blocks):
            return Replied(self._job, blocks, last.stop, usage)
        return Interrupted(blocks, usage)

    def abandon(self) -> None:
        """Release the reservation of a request that is not sent any more."""
        self._meter.abandon()

    async def fail(self, reason: str) -> Failed:
        """Return the failed reply so far, after a bug in this program or in the provider."""
        blocks = self._reply.stored()
        return Failed(self._job, reason, blocks, await self._meter.stop("internal"))

    async def _count_tokens(self, replied: Replied) -> int:
        """Return the tokens of the turn that this reply ends, as the provider counts them; 0 if it cannot."""
        memory, turn = self._memory, self._memory.open
        goes_on = _calls(replied.blocks) or replied.stop is StopReason.PAUSED
        if memory.run.counter != "provider" or turn is None or goes_on:
            return 0
        events = reply_events(storable_blocks(replied.blocks), replied.stop, memory.model)
        messages = close_turn(reduce(append_event, events, turn.messages), turn.started, Ending.COMPLETED)
        try:
            async with asyncio.timeout(COUNT_TIMEOUT):
                count = await self._provider.count(Request(request_frame(memory).model, messages)) or 0
            # No token is less than a byte, and an image is measured by its tokens: more is a server's mistake.
            return count if count <= measure(memory, messages) else 0
        except TimeoutError:
            return 0
        except Exception:  # a figure for the window is not a reason for a turn to fail
            log.exception("%s did not count", memory.model)
            return 0


def _calls(blocks: tuple[ReplyBlock, ...]) -> bool:
    return any(map(is_own_call, blocks))
