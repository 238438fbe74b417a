"""Retry failed requests by one table.

what failed                                     is sent again
rate, overloaded, unreachable, cut              up to 8 tries, as long as nothing of the reply was shown
  the server names a wait of up to 60 s         after that wait
  it names a longer one                         no: the user learns how long
  it names none                                 after 1 s, doubling to 30 s, or half of it, or at random between
  the next try would begin after 3 minutes      no
everything else, and everything after a delta   no

another model can answer instead                one more try, also where the credit is used up
  the server names a wait of more than 10 s     no: the other model is asked at once
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from ikigai.core.request.build import Request
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import (
    DOWN_FAILURES,
    TRANSIENT_FAILURES,
    FailureKind,
    HostedDelta,
    ProviderEvent,
    RetryScheduled,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)

MAX_TRIES = 8
FIRST_DELAY = 1.0
MAX_DELAY = 30.0
MAX_RETRY_AFTER = 60.0
"""Seconds that a server may ask to wait before it is the user's decision."""
TRIES_BEFORE_FALLBACK = 2
MAX_RETRY_AFTER_BEFORE_FALLBACK = 10.0
MAX_RETRY_SECONDS = 180.0
"""Seconds from the first try within which the last one has to begin."""


def wait(
    kind: FailureKind,
    attempt: int,
    retry_after: float | None,
    shown: bool,
    jitter: float,
    taken: float = 0.0,
    has_fallback: bool = False,
) -> float | None:
    """Return the seconds until the next attempt, None to give up.

    `attempt` counts from 1, `jitter` lies in [0, 1), `taken` are the seconds since the first attempt began.
    """
    kinds, tries, longest = TRANSIENT_FAILURES, MAX_TRIES, MAX_RETRY_AFTER
    if has_fallback:
        kinds, tries, longest = DOWN_FAILURES, TRIES_BEFORE_FALLBACK, MAX_RETRY_AFTER_BEFORE_FALLBACK
    if shown or kind not in kinds or attempt >= tries:
        return None
    if retry_after is not None and retry_after > 0:
        seconds = retry_after if retry_after <= longest else None
    else:
        # Half of it is fixed: an immediate retry would fail again.
        seconds = (0.5 + jitter / 2) * min(MAX_DELAY, FIRST_DELAY * 2 ** (attempt - 1))
    return seconds if seconds is not None and taken + seconds <= MAX_RETRY_SECONDS else None


class RetryingProvider:
    """A provider whose passing failures are retried; a RetryScheduled comes before every wait.

    `sleep` takes seconds, `jitter` gives a number in [0, 1), `clock` tells seconds from any start.
    """

    def __init__(
        self,
        provider: Provider,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        attempt, began = 1, self._clock()
        while True:
            failure, shown = None, False
            async with aclosing(cast("AsyncGenerator[ProviderEvent, None]", self._provider.stream(request))) as events:
                async for event in events:
                    if isinstance(event, StreamFailed):
                        failure = event
                        break
                    shown = shown or _is_output(event)
                    yield event
            if failure is None:
                return
            taken = self._clock() - began
            seconds = wait(
                failure.kind, attempt, failure.retry_after, shown, self._jitter(), taken, request.has_fallback
            )
            if seconds is None:
                yield _final_failure(failure, attempt)
                return
            attempt += 1
            tries = TRIES_BEFORE_FALLBACK if request.has_fallback else MAX_TRIES
            yield RetryScheduled(seconds, attempt, failure.text, failure.kind.value, failure.request_id, tries)
            await self._sleep(seconds)

    async def count(self, request: Request) -> int | None:
        """Return the provider's own count. It is not retried, because it is dispensable."""
        return await self._provider.count(request)

    async def preload(self) -> None:
        await self._provider.preload()

    def preconnect(self) -> None:
        self._provider.preconnect()

    async def close(self) -> None:
        await self._provider.close()


def _is_output(event: ProviderEvent) -> bool:
    """Return True if something of the reply came. The beginning of thinking does not count: overload often
    comes then.
    """
    if isinstance(event, ThinkingDelta):
        return bool(event.text or event.signature)
    return isinstance(event, TextDelta | ToolCallDelta | HostedDelta)


def _final_failure(failure: StreamFailed, attempts: int) -> StreamFailed:
    """Return the last failure, with the number of attempts."""
    text, remedy = failure.text, failure.remedy
    if attempts > 1:
        text = f"{text} Stopped after {attempts} attempts."
    if failure.kind in TRANSIENT_FAILURES and failure.retry_after is not None and failure.retry_after > MAX_RETRY_AFTER:
        remedy = f"The server asks to wait {_duration(failure.retry_after)}; then send the message again."
    return StreamFailed(failure.kind, text, remedy, failure.retry_after, failure.request_id)


def _duration(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = -int(-seconds // size)  # rounded up: never too early
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} seconds"
