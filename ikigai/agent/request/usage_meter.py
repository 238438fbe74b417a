"""Sending and measuring of a request: tokens, seconds, cost and outcome of every attempt, as rows of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias

import msgspec

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import ToolCall, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import (
    Delta,
    FailureKind,
    HostedDelta,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.text import tokens

PriceOf: TypeAlias = Callable[[str, Usage, float], tuple[float | None, str]]
"""Model "provider/name", tokens, seconds since 1970 → cost in US dollars (None: unknown), and the price list used.

Runs in a thread: it may import.
"""

PRICE_TIMEOUT = 2.0
"""Seconds to find a price; after that the row has none."""
COST_DECIMALS = 12
"""Decimal places of a cost: list prices per token have up to eleven, and the rest is noise of floating point."""

UNANSWERED_FAILURES = frozenset(FailureKind) - {FailureKind.CUT}
"""Failures before a model has worked; nothing is charged for them if the reply is empty."""

MIN_TOKENS_PER_BYTE = 0.2
"""Tokens that a byte of a request or reply is at least, where the provider has not counted it: prose has 0.21 to 0.26,
everything else more.
"""

log = logging.getLogger(__name__)


class RequestTicket(Protocol):
    """One admitted request: the `request` as it has to be sent, and its row once it has ended."""

    request: Request
    report: UsageReported | None


class RequestGuard(Protocol):
    """Admits requests under caps; see `spending_guard.SpendingGuard`."""

    refusal: StreamFailed | None

    async def admit(self, request: Request, model: str, fixed: bool = False) -> RequestTicket | StreamFailed | None: ...
    def settle(self, ticket: RequestTicket, report: UsageReported, streamed: int) -> UsageReported: ...
    def cancel(self, ticket: RequestTicket) -> None: ...
    def stored(self, report: UsageReported) -> None: ...
    async def recover(self) -> None: ...
    async def close(self) -> None: ...


class Billing:
    """The price function of an agent's requests, with the `guard` that keeps them under caps; None without caps."""

    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self.guard: RequestGuard | None = None

    def __call__(self, model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        return self._price(model, usage, at)


def no_price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    """Return an unknown price; the default of callers without a price list."""
    return None, ""


def preload(price: PriceOf, model: str) -> None:
    """Load the modules for pricing in a thread while a reply comes in, so that no turn waits for them."""

    def load() -> None:
        with contextlib.suppress(Exception):  # the row then has no price
            price(model, Usage(), time.time())

    if price is not no_price:
        asyncio.get_running_loop().run_in_executor(None, load)


class UsageMeter:
    """The usage of one request, from what its sender tells: `admit`, then `saw` for each event, then `end`.

    `model` is "provider/name". `size` returns the bytes of the request: it is called when the request has been sent,
    because to measure a large one takes milliseconds. `out` is the number of turns that the request leaves out.
    `judge` adds to a row what the provider's cache made of the request.
    """

    def __init__(
        self,
        request: Request,
        model: str,
        price: PriceOf = no_price,
        purpose: str = "",
        size: Callable[[], int] = int,
        out: int = 0,
        judge: Callable[[UsageReported], Awaitable[UsageReported]] | None = None,
    ) -> None:
        self.request = request  # as it has to be sent, once it is admitted
        self._model, self._price, self._purpose, self._size, self._out = model, price, purpose, size, out
        self._judge = judge
        self._guard = price.guard if isinstance(price, Billing) else None
        self._ticket: RequestTicket | None = None
        self._is_refused = False
        self._attempt, self._began = 0, float("inf")
        self._ended: UsageReported | None = None  # the last attempt, while no other runs

    async def admit(self, retry: RetryScheduled | None = None) -> StreamFailed | None:
        """Reserve what the first attempt or a `retry` can cost, and begin it; return the failure if a cap stops it."""
        if self._guard:
            outcome = await self._guard.admit(self.request, self._model, fixed=retry is not None)
            if isinstance(outcome, StreamFailed):
                self._is_refused = True
                return outcome
            self._ticket = outcome
            self.request = outcome.request if outcome else self.request
        self._attempt, self._began = (
            (retry.attempt, time.monotonic() + retry.seconds) if retry else (1, time.monotonic())
        )
        self._ended = None
        self._first: float | None = None
        self._usage = Usage()
        self._received = 0  # bytes of the reply
        self._searches = 0  # hosted calls of it
        self._id = ""
        return None

    def saw(self, event: Delta | UsageUpdate | RetryScheduled) -> None:
        """Take the next event of the running attempt."""
        match event:
            case RetryScheduled():
                pass
            case UsageUpdate(usage, id):
                self._usage, self._id = usage, id or self._id
            case _:
                self._received += _written_bytes(event)
                self._searches += isinstance(event, HostedDelta) and isinstance(event.block, ToolCall)
                if self._first is None:
                    self._first = time.monotonic()
                    # The delta is shown first.
                    asyncio.get_running_loop().call_soon(preload, self._price, self._model)

    async def end(self, event: RetryScheduled | StreamFinished | StreamFailed) -> UsageReported | None:
        """End the running attempt; return its usage, None if nothing was sent.

        Nothing is sent if the model is unavailable or a cap stops the request.
        """
        if self._is_refused:
            return None
        match event:
            case RetryScheduled(failure=failure):
                return await self._end(failure or "failed", event.request_id)
            case StreamFinished(usage=usage):
                self._usage = usage if usage != Usage() else self._usage
                return await self._end("", event.request_id)
            case StreamFailed(FailureKind.UNAVAILABLE):
                self._attempt = 0
                if self._guard and self._ticket:
                    self._guard.cancel(self._ticket)
                return None
            case StreamFailed(kind):
                return await self._end(kind.value, event.request_id)

    async def stop(self, failure: str) -> UsageReported | None:
        """End the running attempt with `failure` and return its usage; None if none runs, as between two attempts.

        An attempt that has already ended keeps its outcome.
        """
        if self._ended is None and (not self._attempt or time.monotonic() < self._began):
            self.abandon()
            return None
        return await self._end(failure)

    def abandon(self) -> None:
        """Release the reservation of an attempt that has not been sent."""
        if self._guard and self._ticket and (self._ended or time.monotonic() < self._began):
            self._guard.cancel(self._ticket)

    async def _end(self, failure: str, id: str = "") -> UsageReported:
        """Record the end of the attempt at once, then add its cost."""
        if self._ended is None:
            first = None if self._first is None else round(self._first - self._began, 3)
            self._ended = UsageReported(
                self._model,
                self._usage,
                seconds=round(max(0.0, time.monotonic() - self._began), 3),
                first_token_seconds=first,
                request_id=id or self._id,
                attempt=self._attempt,
                failure=failure,
                purpose=self._purpose,
                size=self._size(),
                out=self._out,
            )
            self._log_end(self._ended)
        if self._judge and self._ended.prefix is None:
            self._ended = await self._judge(self._ended)
        if self._ended.cost is None:
            self._ended = await self._with_cost(self._ended)
        if self._guard and self._ticket and self._ticket.report is None:
            streamed = tokens.count_tokens("", "", self._received)
            self._ended = self._guard.settle(self._ticket, self._ended, streamed)
        return self._ended

    def _log_end(self, report: UsageReported) -> None:
        log.debug(
            "request to %s, attempt %d: %d bytes, %d tokens in, %d out, first word after %s s, %s after %.3f s",
            report.model,
            report.attempt,
            report.size,
            report.usage.input,
            report.usage.output,
            report.first_token_seconds,
            report.failure or "complete",
            report.seconds,
        )

    async def _with_cost(self, report: UsageReported) -> UsageReported:
        if report.usage == Usage() and report.failure in UNANSWERED_FAILURES and report.first_token_seconds is None:
            return _add_cost(report, 0.0, "")
        if report.usage.cost is not None:
            return _add_cost(report, report.usage.cost, self._model.partition("/")[0])
        priced, is_minimum = self._least_usage(report)
        try:
            async with asyncio.timeout(PRICE_TIMEOUT):
                cost, by = await asyncio.to_thread(self._price, self._model, priced, time.time())
        except Exception:  # a missing price must not fail the turn
            log.warning("no price for %s", self._model, exc_info=True)
            return report
        if report.usage == Usage() and not is_minimum and cost:
            return report  # not free, and the tokens are unknown
        return msgspec.structs.replace(_add_cost(report, cost, by), is_minimum=is_minimum and bool(cost))

    def _least_usage(self, report: UsageReported) -> tuple[Usage, bool]:
        """Return the usage to price, and True if it can have been more: the reply was cut off before it was counted.

        Then it is what came of the reply, and where the provider has not counted the input either, its size, all of it
        taken as read from a cache. A row without any count gets the usage of a token each, which tells if they are
        free.
        """
        usage, received = report.usage, int(self._received * MIN_TOKENS_PER_BYTE)
        if not report.failure or not (received or usage.input):
            return (usage, False) if usage != Usage() else (Usage(1, 1), False)
        input = usage.input or int(report.size * MIN_TOKENS_PER_BYTE)
        cached = usage.cached if usage.input else input
        searches = max(usage.searches, self._searches)
        output = max(usage.output, received)
        least = msgspec.structs.replace(usage, input=input, output=output, cached=cached, searches=searches)
        return least, True


async def read_reply(
    provider: Provider,
    meter: UsageMeter,
    reply: ReplyBuilder,
    show: Callable[[Delta | RetryScheduled], object],
    report: Callable[[UsageReported], object],
) -> UsageReported | None:
    """Send the request of `meter`, read its stream into `reply`, and return the usage of the last attempt.

    `show` gets each delta once it is in `reply`. `report` gets the usage of each attempt that is followed by another,
    before its retry is shown. The result is None if nothing was sent.
    """
    last = await meter.admit()
    if last is None:
        last = StreamFailed(FailureKind.CUT, "The provider's stream ended without a reply.")
        async with aclosing(provider.stream(meter.request)) as events:
            async for event in events:
                if isinstance(event, RetryScheduled):
                    if failed := await meter.end(event):
                        report(failed)
                    event = await meter.admit(event) or event
                if isinstance(event, StreamFinished | StreamFailed):
                    last = event
                    break
                meter.saw(event)
                for delta in reply.add(event):
                    show(delta)
    for delta in reply.add(last):
        show(delta)
    return await meter.end(last)


def _written_bytes(delta: Delta) -> int:
    """Return the bytes of what a model wrote."""
    match delta:
        case TextDelta(text) | ThinkingDelta(text):
            written = text
        case ToolCallDelta(_, _, name, arguments) | HostedDelta(ToolCall(_, name, arguments)):
            written = arguments + name
        case _:  # a vendor's
            return 0
    return len(written.encode(errors="surrogatepass"))


def _add_cost(report: UsageReported, cost: float | None, by: str) -> UsageReported:
    known = None if cost is None else round(cost, COST_DECIMALS)
    return msgspec.structs.replace(report, cost=known, priced_by=by if cost is not None else "")
