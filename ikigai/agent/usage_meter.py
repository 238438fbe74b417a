"""Measures one request while it is sent: tokens, seconds, cost and outcome of every attempt, as rows of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from ikigai.core.events import UsageReported
from ikigai.core.messages import Usage
from ikigai.core.model import Provider
from ikigai.core.request.build import Request
from ikigai.core.request.reply import Broke, Counted, Failure, Finished, ProviderEvent, Waiting

Price: TypeAlias = Callable[[str, Usage, float], tuple[float | None, str]]
"""Model "provider/name", tokens, seconds since 1970 → cost in US dollars (None: unknown), and the prices it is by.

Runs in a thread: it may import.
"""

PRICE_WITHIN = 2.0
"""Seconds for a price to be found; after that the row says that it is not known."""
PRECISION = 12
"""Decimal places of a cost: list prices per token have up to eleven, and the rest is noise of floating point."""

UNANSWERED = frozenset(Failure) - {Failure.CUT}
"""Failures in which no model has worked, as long as it said nothing: then nothing is charged."""

log = logging.getLogger(__name__)


def unpriced(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    """For those who know no prices."""
    return None, ""


def warm(price: Price, model: str) -> None:
    """Have loaded in a thread what pricing takes, while a reply comes in or nothing does: nobody should wait for it."""

    def load() -> None:
        with contextlib.suppress(Exception):  # the row tells, by having no price
            price(model, Usage(), time.time())

    if price is not unpriced:
        asyncio.get_running_loop().run_in_executor(None, load)


class Meter:
    """One request to a model, sent once by `events`, and what it takes.

    `model` is "provider/name", `size` bytes; `out` is how many turns are left out of it.
    """

    def __init__(
        self,
        provider: Provider,
        request: Request,
        model: str,
        price: Price = unpriced,
        purpose: str = "",
        size: int = 0,
        out: int = 0,
    ) -> None:
        self._provider, self._request, self._model = provider, request, model
        self._price, self._purpose, self._size, self._out = price, purpose, size, out
        self._attempt = 0
        self._ended: UsageReported | None = None  # the attempt that has ended last, while no other is under way

    async def events(self) -> AsyncGenerator[ProviderEvent | UsageReported, None]:
        """What the provider's stream says. A UsageReported comes before every Waiting, for the attempt that failed, and
        behind the Finished or Broke that is last; but none where nothing was sent, for want of a model.
        """
        last: Finished | Broke = Broke(Failure.CUT, "The provider's stream ended without a word.")
        self._begin(1, time.monotonic())
        async with aclosing(self._provider.stream(self._request)) as stream:
            async for event in stream:
                match event:
                    case Waiting(seconds, attempt, _, failure, id):
                        yield await self._end(failure or "failed", id)
                        self._begin(attempt, time.monotonic() + seconds)
                    case Counted(usage, id):
                        self._usage, self._id = usage, id or self._id
                    case Finished() | Broke():
                        last = event
                        break
                    case _ if self._first is None:
                        self._first = time.monotonic()
                        yield event
                        warm(self._price, self._model)
                        continue
                    case _:
                        pass
                yield event
        yield last
        if isinstance(last, Finished):
            self._usage = last.usage if last.usage != Usage() else self._usage
            yield await self._end("", last.request_id)
        elif last.kind is Failure.UNAVAILABLE:
            self._attempt = 0
        else:
            yield await self._end(last.kind.value, last.request_id)

    async def stop(self, failure: str) -> UsageReported | None:
        """What the attempt under way took, were it to end now like this; None when none is, as between two of them.

        An attempt whose end is known already keeps it.
        """
        if self._ended is None and (not self._attempt or time.monotonic() < self._began):
            return None
        return await self._end(failure)

    def _begin(self, attempt: int, at: float) -> None:
        self._attempt, self._began = attempt, at
        self._ended = None
        self._first: float | None = None
        self._usage = Usage()
        self._id = ""

    async def _end(self, failure: str, id: str = "") -> UsageReported:
        """The attempt has ended; known at once, and priced as soon as that is done."""
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
                size=self._size,
                out=self._out,
            )
        if self._ended.cost is None:
            self._ended = await self._priced(self._ended)
        return self._ended

    async def _priced(self, report: UsageReported) -> UsageReported:
        if report.usage == Usage() and report.failure in UNANSWERED and report.first_token_seconds is None:
            return _costing(report, 0.0, "")
        counted = report.usage if report.usage != Usage() else Usage(1, 1)
        try:
            async with asyncio.timeout(PRICE_WITHIN):
                cost, by = await asyncio.to_thread(self._price, self._model, counted, time.time())
        except Exception:  # a row of the ledger is no reason for a turn to fail
            log.warning("no price for %s", self._model, exc_info=True)
            return report
        if counted is not report.usage and cost:
            return report  # nobody counted what was not free
        return _costing(report, cost, by)


def _costing(report: UsageReported, cost: float | None, by: str) -> UsageReported:
    known = None if cost is None else round(cost, PRECISION)
    return msgspec.structs.replace(report, cost=known, priced_by=by if cost is not None else "")
